"""An MCP server with two tools, on stdin and stdout; writes its process id into the file that it is given."""

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("calculator")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"sum {a + b}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("on purpose")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(str(os.getpid()))
    server.run()
