"""The actions of `dragoman sessions`, one module each.

Sessions come from three places: the ledger that `exec` writes, the store of the built-in agent, and an agent's own
list. Read first: known.py, which joins them.
"""
