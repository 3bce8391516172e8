"""A tool of an MCP server as one of our tools: its description, the permission it needs, and its result.

Owns the translation in both directions. The hints of a server about its tools are not trusted: they choose the kind
that is shown and what a mode excludes, and never allow anything. Does not depend on how a server is reached.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct

from dragoman.builtin.tools.long_output import MCP_LIMIT, fit
from dragoman.builtin.tools.tool import Preview, ToolOutput
from dragoman.policy import Request
from dragoman.text.terminal import cut, shorten

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from dragoman.builtin.tools.tool import Kind, ToolContext

NAME_CHARACTERS: Final = 64  # the longest function name that providers accept
DESCRIPTION_CHARACTERS: Final = 1000  # sent with every request, for every tool: room for usage, not for a manual
TITLE_CHARACTERS: Final = 80
# Images and resources of one result are stored with the session and shown; models accept images of about this size at
# most, and clients read messages of 32 MiB, in which a result stands twice.
BLOB_CHARACTERS: Final = 5 * 1024 * 1024

_SHOW_SECONDS: Final = 0.25  # progress is shown at most this often
_PROGRESS_CHARACTERS: Final = 500
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")


class Offer(Struct, frozen=True):
    """A tool as its server describes it."""

    name: str
    title: str = ""
    description: str = ""
    schema: dict[str, Any] = {}
    is_read_only: bool = False
    is_open_world: bool = False

    @property
    def kind(self) -> Kind:
        """A tool that may change something is `other`: its description does not state what it changes."""
        if not self.is_read_only:
            return "other"
        return "fetch" if self.is_open_world else "read"


class Caller(Protocol):
    """What calls the tools of a server."""

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        meta: Mapping[str, str],
        progress: Callable[[str], Awaitable[None]] | None = None,
    ) -> ToolOutput:
        """Call a tool with `meta` as the `_meta` of the request, and report its progress. Raises: ToolError."""
        ...


class McpTool:
    """One tool of a server. `name` is the name that the model sees."""

    arguments: type[Any] = dict

    def __init__(self, name: str, server: str, offer: Offer, caller: Caller) -> None:
        self.name = name
        self.kind: Kind = offer.kind
        self.offer = offer
        self.schema = _usable(offer.schema)
        self.description = cut((offer.description or offer.title or offer.name).strip(), DESCRIPTION_CHARACTERS)
        self.server = server
        self._caller = caller
        shown = " ".join((offer.title or offer.name).split())
        self._title = cut(f"{server}: {shown}".strip(), TITLE_CHARACTERS)

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        return Preview(self._title, mcp=(self.server, self.offer.name))

    async def check(self, arguments: Any, context: ToolContext) -> None:
        """Accept every call: only the server knows what it would do."""

    def requests(self, arguments: Any, context: ToolContext) -> tuple[Request, ...]:
        return (
            Request(
                "dragoman",
                self.kind,
                self._title,
                mcp=(self.server, self.offer.name),
                root=context.cwd,
                home=os.path.expanduser("~"),
            ),
        )

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput:
        shown_at = 0.0

        async def show(text: str) -> None:
            nonlocal shown_at
            now = time.monotonic()
            if now - shown_at >= _SHOW_SECONDS:
                shown_at = now
                await context.progress(ToolOutput(shorten(text, _PROGRESS_CHARACTERS)))

        output = await self._caller.call(self.offer.name, arguments, context.trace, show)
        fitted = await fit(output.text, context, MCP_LIMIT)
        if not fitted.is_truncated:
            return output
        return msgspec.structs.replace(output, text=fitted.text, is_truncated=True, output_path=fitted.path)


def _usable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with what every provider requires.

    One that is refused would make each request fail, for all tools.
    """
    found: dict[str, Any] = {"type": "object", "properties": {}, **schema}
    properties, required = found["properties"], schema.get("required")
    known = properties.items() if isinstance(properties, dict) else ()
    found["type"], found["properties"] = (
        "object",
        {name: value for name, value in known if isinstance(value, dict | bool)},
    )
    if not (isinstance(required, list) and all(isinstance(name, str) for name in required)):
        found.pop("required", None)
    return found


def name_of(server: str, tool: str, taken: Collection[str]) -> str:
    """Return the name of a tool for the model: `SERVER_TOOL` in plain characters, with a number if that is taken."""
    whole = _UNFIT.sub("_", f"{server}_{tool}").strip("_") or "tool"
    name, number = whole[:NAME_CHARACTERS], 1
    while name in taken:
        number += 1
        name = f"{whole[: NAME_CHARACTERS - len(str(number)) - 1]}_{number}"
    return name


def output_of(blocks: Iterable[Any], structured: Any, *, is_error: bool) -> ToolOutput:
    """Return the result of a call. Its text has all that a model can read; images and resources are added to it.

    The blocks are those of the `mcp` package and have a `type`.
    """
    reading = _Reading()
    for block in blocks:
        reading.take(block)
    if not reading.texts and structured is not None:
        reading.texts.append(msgspec.json.format(msgspec.json.encode(structured), indent=2).decode())
    return ToolOutput(
        "\n".join(reading.texts),
        images=tuple(reading.images),
        resources=tuple(reading.resources),
        is_error=is_error,
        is_truncated=reading.has_dropped,
    )


class _Reading:
    """A reading of one result, which collects its blocks."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.images: list[dict[str, str]] = []
        self.resources: list[dict[str, Any]] = []
        self.has_dropped = False
        self._room = BLOB_CHARACTERS

    def take(self, block: Any) -> None:
        match block.type:
            case "text":
                self.texts.append(block.text)
            case "image":
                if self._fits("image", block.data, block.mime_type):
                    self.images.append({"data": block.data, "media_type": block.mime_type})
            case "audio":
                if self._fits("audio", block.data, block.mime_type):
                    uri = f"audio:{len(self.resources) + 1}"
                    self.resources.append({"uri": uri, "blob": block.data, "media_type": block.mime_type})
            case "resource_link":
                self.texts.append(f"[{block.title or block.name}]({block.uri})")
                self._keep(_described(block.uri, block.mime_type, name=block.title or block.name))
            case "resource":
                self._embed(block.resource)
            case other:
                self.texts.append(f"[content of the unknown kind {other}]")

    def _embed(self, resource: Any) -> None:
        text = getattr(resource, "text", None)
        if text is None:
            if self._fits(f"file {resource.uri}", resource.blob, resource.mime_type):
                self.resources.append(_described(resource.uri, resource.mime_type, blob=resource.blob))
            return
        self.texts.append(f"{resource.uri}:\n{text}")
        if len(text) <= MCP_LIMIT.size_bytes:  # the text of a longer one is cut and kept in a file
            self._keep(_described(resource.uri, resource.mime_type, text=text))

    def _keep(self, resource: dict[str, Any]) -> None:
        """Keep a resource for clients while there is room: one update has all of them, and must stay readable."""
        size = sum(len(str(value)) for value in resource.values())
        if size > self._room:
            self.has_dropped = True
            return
        self._room -= size
        self.resources.append(resource)

    def _fits(self, what: str, data: str, media_type: str | None) -> bool:
        """Describe the data for the model, and return whether there is room for it."""
        size = f"{media_type or 'unknown type'}, {len(data) * 3 // 4} bytes"
        if len(data) > self._room:
            self.texts.append(f"[{what}: {size}; too large, left out]")
            self.has_dropped = True
            return False
        self._room -= len(data)
        self.texts.append(f"[{what}: {size}]")
        return True


def _described(uri: str, media_type: str | None, **members: str) -> dict[str, Any]:
    return {"uri": uri, **members, **({} if media_type is None else {"media_type": media_type})}
