"""Sessions in an SQLite database, written so that a crash loses nothing that a client has received.

It does not depend on the protocol's wire format or on how a turn runs. Read `sessions.py` first.
"""
