"""Translators between versions of the protocol."""
