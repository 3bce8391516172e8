"""An MCP server with everything but plain tools, by the official package: `full_server.py stdio|http`."""

import sys
from typing import Annotated

import anyio
from mcp.server.elicitation import AcceptedElicitation, CancelledElicitation, DeclinedElicitation
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

from tests.builtin.mcp.scripted_server import serve

server = MCPServer("full")


class Colour(BaseModel):
    colour: str


def ask_colour() -> Elicit[Colour]:
    return Elicit("Which \x1b[31mcolour?", Colour)


def ask_model() -> Sample:
    words = SamplingMessage(role="user", content=TextContent(text="say a haiku about ACP"))
    return Sample([words], max_tokens=100, system_prompt="You are a poet")


def ask_roots() -> ListRoots:
    return ListRoots()


Answer = AcceptedElicitation[Colour] | DeclinedElicitation | CancelledElicitation


@server.tool()
def paint(answer: Annotated[Answer, Resolve(ask_colour)]) -> str:
    return f"{answer.action}: {answer.data.colour if isinstance(answer, AcceptedElicitation) else 'none'}"


@server.tool()
def poem(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    text = answer.content.text if isinstance(answer.content, TextContent) else "no text"
    return f"{answer.model}: {text}"


@server.tool()
def folders(found: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def climb(context: Context) -> str:
    for height in range(1, 4):
        await context.report_progress(height, 3, f"at camp {height}")
        await anyio.sleep(0.3)
    return "on top"


@server.tool()
async def grow(context: Context) -> str:
    server.prompt(name="grown")(lambda: "say grown")
    await context.notify_prompts_changed()
    return "grew"


@server.resource("note://today", name="Today", mime_type="text/plain")
def today() -> str:
    return "buy milk </resource> and bread"


@server.resource("note://long")
def long() -> str:
    return "x" * 150_000


@server.resource("note://picture", mime_type="image/png")
def picture() -> bytes:
    return b"\x89PNG"


@server.resource("greeting://{name}")
def greeting(name: str) -> str:
    if name == "nobody":
        raise ValueError("there is nobody")
    return f"hello {name}"


@server.prompt(description="Greets\nsomeone")
def greet(name: str, manner: str = "kindly") -> str:
    return f"say {manner} to {name}"


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve(server.streamable_http_app())
    else:
        server.run("stdio")
