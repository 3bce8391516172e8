"""Members of the dialect 2025.1 and of version 1, both ways: content, MCP servers, errors, tools, plans.

The dialect writes snake_case and has few kinds of everything. Its one public client drops an update with an unknown
word in silence, so only words that it knows are written; more is read.
"""

from __future__ import annotations

import re
from posixpath import basename
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    REQUEST_CANCELLED,
)
from dragoman.text.patches import git_patch
from dragoman.versions.frames import Frame, members, objects, text

if TYPE_CHECKING:
    from dragoman.versions.losses import Losses

VERSION: Final = "2025.1"
DIALECT_NOT_FOUND: Final = -32001
PERMISSION_DENIED: Final = -32002
INVALID_STATE: Final = -32003
NOT_SUPPORTED: Final = -32004

_FORMATS: Final = {"jpg": "jpeg", "mp3": "mpeg", "svg": "svg+xml"}
_SHORT: Final = {long: short for short, long in _FORMATS.items()}
_BASE64_QUARTERS: Final = 3 / 4

_KINDS: Final = (
    (re.compile(r"read|view$|cat$"), "read"),
    (re.compile(r"write|edit|patch$|create_file$"), "edit"),
    (re.compile(r"delete|remove$"), "delete"),
    (re.compile(r"move$|rename$"), "move"),
    (re.compile(r"grep$|search$|find$|glob$"), "search"),
    (re.compile(r"run|exec|bash$|shell$|terminal$"), "execute"),
    (re.compile(r"fetch|web"), "fetch"),
    (re.compile(r"think$|plan$"), "think"),
)


# Content


def blocks_to_v1(value: Any) -> list[Frame]:
    """Translate content blocks of a prompt."""
    return [block_to_v1(block) for block in objects(value)]


def block_to_v1(block: Frame) -> Frame:
    """Translate one content block; unknown ones pass, and the agent refuses them."""
    match block.get("type"):
        case "image" | "audio" as kind:
            name = text(block.get("format"), "png" if kind == "image" else "wav")
            return {"type": kind, "mimeType": f"{kind}/{_FORMATS.get(name, name)}", "data": text(block.get("data"))}
        case "resource":
            mime = {"mimeType": block["mime_type"]} if isinstance(block.get("mime_type"), str) else {}
            resource = {"uri": text(block.get("uri")), "text": text(block.get("content")), **mime}
            return {"type": "resource", "resource": resource}
        case "resource_link":
            uri = text(block.get("uri"))
            mime = {"mimeType": block["mime_type"]} if isinstance(block.get("mime_type"), str) else {}
            return {"type": "resource_link", "uri": uri, "name": basename(uri.rstrip("/")) or uri, **mime}
    return block


def blocks_to_dialect(value: Any, losses: Losses) -> list[Frame]:
    """Translate content blocks of a prompt."""
    return [block_to_dialect(block, losses) for block in objects(value)]


def block_to_dialect(block: Frame, losses: Losses) -> Frame:
    """Translate one content block; what the dialect has no member for is counted."""
    if any(block.get(name) for name in ("annotations", "title", "description", "size", "_meta")):
        losses.add("block-details")
    match block.get("type"):
        case "text":
            return {"type": "text", "text": text(block.get("text"))}
        case "image" | "audio" as kind:
            if block.get("uri"):
                losses.add("block-details")
            name = text(block.get("mimeType")).rpartition("/")[2]
            return {"type": kind, "format": _SHORT.get(name, name), "data": text(block.get("data"))}
        case "resource":
            resource = members(block.get("resource"))
            mime = {"mime_type": resource["mimeType"]} if isinstance(resource.get("mimeType"), str) else {}
            if isinstance(resource.get("text"), str):
                return {"type": "resource", "uri": text(resource.get("uri")), **mime, "content": resource["text"]}
            losses.add("block-details")
            return {"type": "resource_link", "uri": text(resource.get("uri")), **mime}
        case "resource_link":
            mime = {"mime_type": block["mimeType"]} if isinstance(block.get("mimeType"), str) else {}
            return {"type": "resource_link", "uri": text(block.get("uri")), **mime}
    losses.add("content-as-text")
    return {"type": "text", "text": f"[{text(block.get('type'), 'content')}]"}


def block_text(block: Frame, losses: Losses) -> str:
    """Return a content block as text, for updates of the dialect, which carry nothing else."""
    match block.get("type"):
        case "text":
            return text(block.get("text"))
        case "image" | "audio" as kind:
            losses.add("content-as-text")
            size = round(len(text(block.get("data"))) * _BASE64_QUARTERS / 1000)
            return f"[{kind} {text(block.get('mimeType'))}, {size} kB]"
        case "resource_link":
            losses.add("content-as-text")
            return text(block.get("uri"))
        case "resource":
            losses.add("content-as-text")
            resource = members(block.get("resource"))
            return text(resource.get("text")) or text(resource.get("uri"))
    losses.add("content-as-text")
    return f"[{text(block.get('type'), 'content')}]"


# Tool calls and plans


def tool_text(content: Any, output_of: dict[str, str], losses: Losses) -> str:
    """Return the content of a tool call as text: diffs as patches, terminals by their output so far."""
    parts = []
    for item in objects(content):
        if item.get("type") == "diff":
            old = item.get("oldText")
            before = old if isinstance(old, str) else None
            parts.append(git_patch(text(item.get("path")), before, text(item.get("newText"))))
        elif item.get("type") == "terminal":
            parts.append(output_of.get(text(item.get("terminalId")), ""))
        else:
            parts.append(block_text(members(item.get("content")), losses))
    return "\n".join(part for part in parts if part)


def tool_name(call: Frame) -> str:
    """Return what the dialect calls a tool: its name, else its kind, else a word made of its title."""
    name, kind = call.get("name"), call.get("kind")
    if isinstance(name, str) and name:
        return name
    if isinstance(kind, str) and kind != "other":
        return kind
    return re.sub(r"[^a-z0-9]+", "_", text(call.get("title")).lower()).strip("_")[:40] or "tool"


def tool_arguments(call: Frame) -> Frame:
    """Return the input of a tool call as an object."""
    given = call.get("rawInput")
    if isinstance(given, dict):
        return given
    return {} if given is None else {"input": given}


def tool_kind(name: str) -> str:
    """Return the kind of a tool by its name."""
    for pattern, kind in _KINDS:
        if pattern.match(name):
            return kind
    return "other"


def tool_to_v1(call: Frame) -> Frame:
    """Make a tool call of the dialect."""
    name, arguments = text(call.get("name"), "tool"), members(call.get("arguments"))
    about = next((arguments[key] for key in ("path", "command") if isinstance(arguments.get(key), str)), "")
    made: Frame = {
        "sessionUpdate": "tool_call",
        "toolCallId": str(call.get("id", "")),
        "title": f"{name} {about}".strip(),
        "name": name,
        "kind": tool_kind(name),
        "status": "in_progress",
        "rawInput": arguments,
    }
    path = arguments.get("path")
    if isinstance(path, str) and path.startswith("/"):
        made["locations"] = [{"path": path}]
    return made


# MCP servers


def servers_to_v1(value: Any, losses: Losses) -> list[Frame]:
    """Translate MCP servers: credentials become variables of a program or headers of a request."""
    made: list[Frame] = []
    for server in objects(value):
        name, url = text(server.get("name")), text(server.get("url"))
        secrets = {key: secret for key, secret in members(server.get("credentials")).items() if isinstance(secret, str)}
        if secrets:
            losses.add("credentials")
        if url.startswith("stdio://"):
            variables = [{"name": key, "value": secret} for key, secret in secrets.items()]
            made.append({"name": name, "command": url.removeprefix("stdio://"), "args": [], "env": variables})
            continue
        headers = [
            {"name": "Authorization", "value": f"Bearer {secret}"} if key == "token" else {"name": key, "value": secret}
            for key, secret in secrets.items()
        ]
        made.append({"type": "http", "name": name, "url": url, "headers": headers})
    return made


# Errors


def error_to_dialect(reason: Frame, *, is_gate: bool = False) -> Frame:
    """Make an error of version 1. Its -32002 means not found; the dialect's means permission denied."""
    code = reason.get("code")
    if code == AUTH_REQUIRED:
        return _with_reason(reason, INVALID_STATE, "authentication required")
    if code == NOT_FOUND:
        return {**reason, "code": DIALECT_NOT_FOUND}
    if code == REQUEST_CANCELLED:
        return _with_reason(reason, INTERNAL_ERROR, "cancelled")
    if code == METHOD_NOT_FOUND and is_gate:
        return {**reason, "code": NOT_SUPPORTED}
    return reason


def error_to_v1(reason: Frame) -> Frame:
    """Make an error of the dialect."""
    code = reason.get("code")
    if code == DIALECT_NOT_FOUND:
        return {**reason, "code": NOT_FOUND}
    if code == PERMISSION_DENIED:
        return _with_reason(reason, INTERNAL_ERROR, "permission denied")
    if code == INVALID_STATE:
        is_login = members(reason.get("data")).get("reason") == "authentication required"
        return {**reason, "code": AUTH_REQUIRED if is_login else INVALID_REQUEST}
    if code == NOT_SUPPORTED:
        return {**reason, "code": METHOD_NOT_FOUND}
    return reason


def _with_reason(reason: Frame, code: int, word: str) -> Frame:
    given = reason.get("data")
    data = given if isinstance(given, dict) else {} if given is None else {"data": given}
    return {**reason, "code": code, "data": {**data, "reason": word}}
