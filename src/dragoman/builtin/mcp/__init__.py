"""MCP servers of a session: how they are started, connected, and offered to the model as tools.

The protocol itself is the official `mcp` package, imported when the first server connects. Read `servers.py` first.
"""
