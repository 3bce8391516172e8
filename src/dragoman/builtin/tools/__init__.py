"""The tools of the built-in agent: one module per tool, each an object with typed arguments.

Owns the work of the tools and the permission requests they make. Does not decide about permission, and reaches files
and commands only through the `ToolAccess` of `tool.py`. Read `tool.py` first.
"""
