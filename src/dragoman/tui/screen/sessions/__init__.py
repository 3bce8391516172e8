"""The sessions that the full screen knows, shows and is attached to. Read `attached.py` first."""
