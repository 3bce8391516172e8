"""Coding tasks for agents, and the judgement of what they did.

Owns the tasks, the sandbox copy of each run, the judge, and what a set of results can and cannot show. An agent is
driven by `dragoman exec`, as a user would; nothing here speaks the protocol.
Read `task.py` first, then `attempt.py` for one run and `matrix.py` for all of them.
"""
