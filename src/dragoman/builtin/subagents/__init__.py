"""Subagents: agents that the built-in agent starts for a part of its work, each with a conversation of its own.

Owns which agents are declared, their runs, what the parent is shown of them, and that none may do more than its
parent. Does not know the task tool's arguments (`tools/task.py`). Read `run.py` first.
"""
