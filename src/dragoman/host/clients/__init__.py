"""What a host does for one client: what it may call, what it is sent, and in which form.

Nothing here decides what happens in a session. Read `attachment.py` first: a client is a cursor on a log.
"""
