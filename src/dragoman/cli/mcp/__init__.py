"""The actions of `dragoman mcp`, one module for each.

Owns what they read from the command line; the MCP server itself is in `scripting/tools`. Read `serve.py` first.
"""
