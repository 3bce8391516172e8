"""What the log of a session means: its events as messages, as a history, joined, and after the death of a host.

Nothing here depends on clients or agents that are connected. Read `replay.py` first.
"""
