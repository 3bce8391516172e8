"""The MCP servers of a session: starts them, connects to them, and offers their tools to the model.

The protocol itself is the official `mcp` package, imported when the first server connects. Read `servers.py` first.
"""
