"""Keeps sessions in an SQLite database, so that a crash loses nothing that was shown.

It does not know the protocol's wire format or how a turn runs. Read `sessions.py` first.
"""
