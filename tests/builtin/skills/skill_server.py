"""An MCP server with a skill, by the official package."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("kitchen")


@server.resource("skill://cooking/SKILL.md", description="Cooks things", mime_type="text/markdown")
def cooking() -> str:
    return "---\nname: cooking\ndescription: Cooks things\n---\nBoil water.\n"


@server.resource("skill://cooking/salt.md")
def salt() -> str:
    return "A pinch."


@server.resource("skill://Not A Name/SKILL.md")
def wrong() -> str:
    return "wrong"


if __name__ == "__main__":
    server.run("stdio")
