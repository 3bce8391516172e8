"""AI SDK UI-message chunks: their types, the messages they fold into, and their projection to ACP updates.

The built-in agent and the adapters emit these chunks; `store/` keeps the messages. Does not depend on any model, tool
or connection. Read `chunks.py` first, then `fold.py` (chunks to messages) and `updates.py` (chunks to ACP updates).
"""
