"""Prints invoices."""
