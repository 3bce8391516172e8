"""AI SDK UI-message chunks: their types, the messages they fold into, and the content blocks of a prompt.

The built-in agent and the adapters emit these chunks; `store/` keeps the messages. Does not depend on any model,
tool or connection. Read `chunks.py` first, then `messages.py` and `fold.py`.
"""
