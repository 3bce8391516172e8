"""An MCP server with the official package: `scripted_server.py stdio|http|sse`. On http and sse it prints its port."""

import os
import socket
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("play")
waiting, cancelled = anyio.Event(), anyio.Event()


@server.tool(annotations=ToolAnnotations(title="Say it again", read_only_hint=True))
def echo(text: str) -> CallToolResult:
    """Return the text."""
    return CallToolResult(content=[{"type": "text", "text": text}])  # type: ignore[list-item]


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=True), description="far " * 1000)
def search() -> str:
    return "found"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def wipe() -> str:
    return "wiped"


@server.tool()
def place(variable: str) -> str:
    return f"{os.getcwd()} {os.environ.get(variable)}"


@server.tool()
def show() -> CallToolResult:
    picture = ImageContent(data="aW1n", mime_type="image/png")
    sound = AudioContent(data="c25k", mime_type="audio/wav")
    text = TextResourceContents(uri="file:///a.txt", text="inside", mime_type="text/plain")
    blob = BlobResourceContents(uri="file:///b.bin", blob="YmI=")
    link = ResourceLink(name="there", uri="https://example.org/x")
    embedded = [EmbeddedResource(resource=text), EmbeddedResource(resource=blob)]
    return CallToolResult(content=[picture, sound, *embedded, link])


@server.tool()
def count() -> CallToolResult:
    return CallToolResult(content=[], structured_content={"count": 3})


@server.tool()
def fail() -> str:
    raise ValueError("no luck")


@server.tool()
def traced(context: Context) -> str:
    return str((context.request_context.meta or {}).get("traceparent"))


@server.tool()
def long(size: int) -> str:
    return "x" * size


@server.tool()
async def grow(context: Context) -> str:
    server.add_tool(wipe, name="grown")
    server.remove_tool("wipe")
    await context.notify_tools_changed()
    return "grew"


@server.tool()
async def wait() -> str:
    waiting.set()
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        cancelled.set()
        raise
    return "it was not cancelled"


@server.tool()
async def until_waiting() -> str:
    await waiting.wait()
    return "it waits"


@server.tool()
async def until_cancelled() -> str:
    await cancelled.wait()
    return "it was cancelled"


@server.tool()
def die() -> str:
    sys.stderr.write("I cannot go on\n")
    sys.stderr.flush()
    os._exit(3)


def with_password(app: Any) -> Any:
    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != b"Bearer sesame":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    return guarded


def serve(app: Any) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(with_password(app), log_level="error", lifespan="on")).run([listener])


if __name__ == "__main__":
    match sys.argv[1]:
        case "http":
            serve(server.streamable_http_app())
        case "sse":
            serve(server.sse_app())
        case _:
            server.run("stdio")
