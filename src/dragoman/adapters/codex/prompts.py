"""Prompts and MCP servers of a client in the words of Codex. Pure; loaded with the first session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.normal import text_of
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COMMANDS: Final = (
    ("compact", "Shorten the conversation, to make room in the context window"),
    ("review", "Review the changes that are not committed, or what you name after it"),
)


def input_of(blocks: Iterable[v1.ContentBlock]) -> list[dict[str, Any]]:
    """Return the input of a turn: texts that follow one another are one, images are data URLs."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, v1.ImageContent):
            parts.append({"type": "image", "url": f"data:{block.mime_type};base64,{block.data}"})
        elif text := text_of((block,)):
            if parts and parts[-1]["type"] == "text":
                parts[-1]["text"] += text
            else:
                parts.append(text_input(text))
    return parts


def text_input(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "text_elements": []}


def request_of(blocks: Sequence[v1.ContentBlock], thread_id: str) -> tuple[str, dict[str, Any]]:
    """Return the request that begins a turn: a prompt, or one of `COMMANDS`."""
    text = text_of(blocks).strip()
    if text == "/compact":
        return "thread/compact/start", {"threadId": thread_id}
    if text == "/review" or text.startswith("/review "):
        named = text[len("/review") :].strip()
        target = {"type": "custom", "instructions": named} if named else {"type": "uncommittedChanges"}
        return "review/start", {"threadId": thread_id, "target": target}
    return "turn/start", {"threadId": thread_id, "input": input_of(blocks)}


def mcp_config(servers: Iterable[v1.McpServer]) -> dict[str, Any]:
    """Return the MCP servers of the client as Codex configures them, by name."""
    found: dict[str, Any] = {}
    for server in servers:
        if isinstance(server, v1.McpServerStdio):
            entry: dict[str, Any] = {"command": server.command, "args": list(server.args)}
            if server.env:
                entry["env"] = {variable.name: variable.value for variable in server.env}
        elif isinstance(server, v1.McpServerHttp):
            entry = {"url": server.url}
            if server.headers:
                entry["http_headers"] = {header.name: header.value for header in server.headers}
        else:
            continue
        # Codex takes names of these characters only.
        name = base = re.sub(r"[^A-Za-z0-9_-]+", "_", server.name) or "server"
        count = 1
        while name in found:
            count += 1
            name = f"{base}_{count}"
        found[name] = entry
    return found
