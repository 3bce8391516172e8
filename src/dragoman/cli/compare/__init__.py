"""`dragoman compare`: runs several agents with one prompt, and shows what each did. Read `runs.py` first.

Each run is a `dragoman exec` of its own in a worktree of its own. Does not speak the protocol itself.
"""
