"""The built-in coding agent: a loop that turns prompts into model calls and tool calls.

Owns the loop, the tools and the stream between them, which is the UI-message chunk of the AI SDK (v6). It speaks ACP
through `adapter.py` and `project.py` only. Does not know providers' wires or how bytes move. Read `loop.py` first.
"""
