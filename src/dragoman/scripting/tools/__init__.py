"""ACP agents as tools: of an agent of pydantic-ai or LangChain, and of any MCP client.

Owns what both share: a task becomes a turn, and its result a short text. Does not depend on a framework or on `mcp`
before one is used. Read `task_agent.py` first.
"""
