"""Methods of the host's own (`_dragoman/...`), for every client that has the right to call them.

Read `table.py` first: it names the methods, the right that each needs, and the module with its handler.
"""
