"""Recorded and hand-written conversations read and written back."""
