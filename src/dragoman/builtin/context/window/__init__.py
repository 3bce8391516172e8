"""A conversation kept within the model's context window: estimates, pruning, summaries.

Owns when a conversation is shortened and how. Does not own how the model is given it (`context/history.py`). Read
`window.py` first.
"""
