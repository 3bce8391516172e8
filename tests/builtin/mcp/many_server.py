"""An MCP server with many tools, by the official package: `many_server.py COUNT`."""

import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("many")


def add(number: int) -> None:
    def work(item_identifier: str, quantity: int = 1) -> str:
        return f"{number}: {quantity} x {item_identifier}"

    server.add_tool(
        work, name=f"adjust_{number}", description=f"Adjusts the stock of shelf {number}. " + "Detail. " * 80
    )


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_invoice(customer: str) -> str:
    """Looks up an invoice in the accounting."""
    return f"invoice of {customer}"


for each in range(int(sys.argv[1]) - 1):
    add(each)

if __name__ == "__main__":
    server.run("stdio")
