"""`dragoman exec --session NAME`: a turn in a named session of the local host.

A warm prompt loads `warm.py`, `turn.py` and `text.py` only: no asyncio, no roles, no msgspec. What is needed less often
is loaded when it is: other output forms (`shown.py`), a new session (`opening.py`), a question (`question.py`), an
error (`ending.py`). Read `turn.py` first.
"""
