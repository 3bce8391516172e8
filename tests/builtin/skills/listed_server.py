"""An MCP server that lists its skills by the extension `io.modelcontextprotocol/skills`, with the official package.

`listed_server.py stdio|http`. The tool `change` changes a file of a skill, and `publish` then its entry in the list.
"""

import hashlib
import sys
from collections.abc import Sequence
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp_types import PaginatedRequestParams, PaginatedResult

from tests.builtin.mcp.scripted_server import serve

SALT = ["A pinch."]


def text_of(name: str, description: str, body: str) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"


TEXTS = {
    "skill://kitchen/cooking/SKILL.md": text_of("cooking", "Cooks things", "Boil water."),
    "skill://bakery/cooking/SKILL.md": text_of("cooking", "Bakes things", "Heat the oven."),
    "skill://baking/SKILL.md": text_of("baking", "Another text", "It is not what is listed."),
    "skill://daily/SKILL.md": text_of("daily", "Made when it is read", "Today is today."),
}


def entry(uri: str, name: str, description: str, *files: tuple[str, str], **facts: Any) -> dict[str, Any]:
    return {
        "uri": uri,
        "frontmatter": {"name": name, "description": description, **facts},
        "resources": [
            {
                "uri": place,
                "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
                "size": len(text.encode()),
            }
            for place, text in ((uri, TEXTS[uri]), *files)
        ],
    }


class Page(PaginatedResult):
    skills: list[dict[str, Any]]
    ttl_ms: int = 0
    cache_scope: str = "private"


class Skills(Extension):
    identifier = "io.modelcontextprotocol/skills"

    def __init__(self) -> None:
        self.salt = SALT[0]

    def methods(self) -> Sequence[MethodBinding]:
        return [MethodBinding("skills/list", PaginatedRequestParams, self.list)]

    async def list(self, context: Any, params: Any) -> Page:
        salt = ("skill://kitchen/cooking/salt.md", self.salt)
        if params is None or params.cursor is None:
            first = entry("skill://kitchen/cooking/SKILL.md", "cooking", "Cooks things", salt)
            return Page(skills=[first], next_cursor="2")
        daily = {**entry("skill://daily/SKILL.md", "daily", "Made when it is read"), "resources": "dynamic"}
        return Page(
            skills=[
                entry("skill://bakery/cooking/SKILL.md", "cooking", "Bakes things"),
                entry("skill://baking/SKILL.md", "baking", "What is listed"),
                daily,
                {**daily, "resources": None},
            ]
        )


skills = Skills()
server = MCPServer("kitchen", extensions=[skills])


def add(uri: str, text: str) -> None:
    server.resource(uri, name=uri, mime_type="text/markdown")(lambda: text)


for uri, text in TEXTS.items():
    add(uri, text)
add("skill://kitchen/cooking/unlisted.md", "A secret spice.")
add("skill://not-a-skill/SKILL.md", text_of("not-a-skill", "Only a resource", "Nothing."))


@server.resource("skill://kitchen/cooking/salt.md")
def salt() -> str:
    return SALT[0]


@server.tool()
def change() -> str:
    SALT[0] = "A spoon."
    return "changed"


@server.tool()
def publish() -> str:
    skills.salt = SALT[0]
    return "published"


@server.prompt()
def season(dish: str, how: str = "gently") -> str:
    """Seasons a dish."""
    return f"say {how} season the {dish}"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        serve(server.streamable_http_app())
