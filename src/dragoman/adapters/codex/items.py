"""Items of a Codex thread as tool calls: what is shown of one while it runs, and its outcome.

Owns which kinds of items there are. An item of an unknown kind is a call of this name, so that nothing that Codex does
is hidden. Messages, thoughts and compactions are not calls: `events.py` shows them. Pure, but for `diffs.read_text`.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.adapters.codex import diffs
from dragoman.text.terminal import one_line, plain
from dragoman.uistream import chunks as c
from dragoman.uistream.display import Location, ToolDisplay, ToolOutput, with_display

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.uistream.display import FileDiff, Kind

TEXTS: Final = frozenset({"agentMessage", "plan"})
NOT_CALLS: Final = TEXTS | {
    *("userMessage", "reasoning", "contextCompaction", "hookPrompt", "enteredReviewMode", "exitedReviewMode", "sleep"),
}
_TITLE_LETTERS: Final = 200
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish", "ash"})
_SUB_AGENTS: Final = {
    "spawnAgent": "Start a sub-agent",
    "sendInput": "Send a message to a sub-agent",
    "sendMessage": "Send a message to a sub-agent",
    "followupTask": "Give a sub-agent another task",
    "resumeAgent": "Continue a sub-agent",
    "wait": "Wait for sub-agents",
    "closeAgent": "End a sub-agent",
    "interruptAgent": "Interrupt a sub-agent",
    "listAgents": "List sub-agents",
}


class ShownItem(msgspec.Struct, frozen=True):
    """A call as it is shown before its outcome."""

    name: str
    title: str
    input: Any
    display: ToolDisplay


def shown_item(
    item: dict[str, Any], read: Callable[[str], str | None] | None = None, parent: str | None = None
) -> ShownItem:
    """Return what is shown of an item that is a call.

    Args:
        read: reads a file that the item has not changed yet; None if it may have.
        parent: the call that started the sub-agent whose item this is.
    """
    kind: Kind = "other"
    locations: tuple[Location, ...] = ()
    file_diffs: tuple[FileDiff, ...] = ()
    name, title = str(item.get("type")), str(item.get("type"))
    given: Any = _other_members(item)
    match item:
        case {"type": "commandExecution", "command": str(command)}:
            name, kind, title, locations = "command", *command_shown(item)
            given = {"command": unwrapped(command), "cwd": item.get("cwd")}
        case {"type": "fileChange", "changes": changes}:
            name, kind, title = "apply_patch", diffs.kind_of(changes), diffs.title_of(changes)
            locations, file_diffs = diffs.locations_of(changes), diffs.diffs_of(changes, read)
            given = {"files": [location.path for location in locations]}
        case {"type": "mcpToolCall", "server": str(server), "tool": str(tool)}:
            name, title, given = tool, f"{tool} ({server})", item.get("arguments")
        case {"type": "dynamicToolCall", "tool": str(tool)}:
            name, title, given = tool, tool, item.get("arguments")
        case {"type": "webSearch"}:
            name, kind, (title, given) = "web_search", "fetch", _web_shown(item)
        case {"type": "imageView", "path": str(path)}:
            name, kind, title, given = "view_image", "read", f"View {os.path.basename(path)}", {"path": path}
            locations = (Location(path),)
        case {"type": "imageGeneration"}:
            name, title, given = "image_generation", "Make an image", {"prompt": item.get("revisedPrompt")}
        case {"type": "collabAgentToolCall", "tool": str(tool)}:
            name, kind, title = tool, "think", _SUB_AGENTS.get(tool, tool)
            prompt = item.get("prompt")
            title = f"{title}: {prompt}" if isinstance(prompt, str) and prompt else title
            given = {key: item[key] for key in ("prompt", "model", "receiverThreadIds") if item.get(key)}
        case {"type": "subAgentActivity", "agentPath": str(path), "kind": str(activity)}:
            name, kind, title = "sub_agent", "think", f"Sub-agent {path}: {activity}"
        case {"type": "functionCallOutput", "name": str(tool)}:
            name, title = tool, tool
    return ShownItem(name, _line(title), given, ToolDisplay(kind, locations, file_diffs, parent))


def announced(item_id: str, shown: ShownItem) -> c.Chunk:
    """Return the chunk that shows the call."""
    chunk = c.ToolInputAvailable(item_id, shown.name, shown.input, dynamic=True)
    return with_display(chunk, shown.title, shown.display)


def outcome(item: dict[str, Any], shown: ShownItem, text_so_far: str = "") -> c.Chunk:
    """Return the chunk that ends the call.

    Args:
        text_so_far: the output that was streamed, for an item that does not repeat it.
    """
    item_id, status = str(item["id"]), item.get("status")
    if status == "declined":
        return c.ToolOutputDenied(item_id)
    is_error = status in ("failed", "errored") or item.get("success") is False
    match item:
        case {"type": "commandExecution"}:
            whole, code = item.get("aggregatedOutput"), item.get("exitCode")
            text = plain(whole if isinstance(whole, str) else text_so_far)
            output = ToolOutput(text, exit_code=code if isinstance(code, int) else None, is_error=is_error)
        case {"type": "fileChange"}:
            names = "\n".join(location.path for location in shown.display.locations)
            if is_error:
                return c.ToolOutputError(item_id, f"The change was not made: {names}")
            output = ToolOutput(names, shown.display.diffs, shown.display.locations)
        case {"type": "mcpToolCall"}:
            error = item.get("error")
            if isinstance(error, dict):
                return c.ToolOutputError(item_id, plain(str(error.get("message") or "the call failed")))
            output = _mcp_output(item.get("result"), is_error)
        case {"type": "dynamicToolCall"}:
            output = _dynamic_output(item.get("contentItems"), is_error)
        case {"type": "webSearch"}:
            output = ToolOutput("", resources=_pages(item.get("results")))
        case {"type": "imageGeneration"}:
            output = _image_output(item)
        case {"type": "collabAgentToolCall"}:
            output = ToolOutput(_agents_text(item.get("agentsStates")) or text_so_far, is_error=is_error)
        case {"type": "functionCallOutput", "output": str(text)}:
            output = ToolOutput(plain(text), is_error=is_error)
        case _:
            output = ToolOutput(plain(text_so_far), is_error=is_error)
    return c.ToolOutputAvailable(item_id, msgspec.to_builtins(output), dynamic=True)


def unwrapped(command: str) -> str:
    """Return the command without the shell that runs it: what the model wrote."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and os.path.basename(words[0]) in _SHELLS and words[1] in ("-lc", "-c", "-lic", "-ic"):
        return words[2]
    return command


def command_shown(item: dict[str, Any]) -> tuple[Kind, str, tuple[Location, ...]]:
    """Kind, title and files of a command: by what Codex recognised in it, otherwise the command itself."""
    command, actions = unwrapped(str(item.get("command"))), item.get("commandActions")
    match actions:
        case [{"type": "read", "path": str(path), "name": str(name)}]:
            return "read", f"Read {name}", (Location(path),)
        case [{"type": "listFiles"} as action]:
            return "search", f"List {action.get('path') or item.get('cwd')}", ()
        case [{"type": "search"} as action]:
            where = f" in {action['path']}" if isinstance(action.get("path"), str) else ""
            return "search", f"Search {action.get('query') or command}{where}", ()
    paths = [
        Location(entry["path"])
        for entry in (actions if isinstance(actions, list) else ())
        if isinstance(entry, dict) and entry.get("type") == "read" and isinstance(entry.get("path"), str)
    ]
    return "execute", command, tuple(paths)


def _other_members(item: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an item of an unknown kind."""
    return {key: value for key, value in item.items() if key not in ("id", "type", "startedAtMs", "completedAtMs")}


def _line(title: str) -> str:
    title = one_line(plain(title)).strip()
    return title if len(title) <= _TITLE_LETTERS else f"{title[:_TITLE_LETTERS]}…"


def _web_shown(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    match item.get("action"):
        case {"type": "openPage", "url": str(url)}:
            return f"Open {url}", {"url": url}
        case {"type": "findInPage", "url": str(url), "pattern": str(pattern)}:
            return f"Find {pattern!r} in {url}", {"url": url, "pattern": pattern}
        case {"queries": [str(query), *_]}:
            return f"Search the web: {query}", {"query": query}
    query = str(item.get("query") or "")
    return f"Search the web: {query}" if query else "Search the web", {"query": query}


def _pages(results: Any) -> tuple[dict[str, Any], ...]:
    """Make links to the pages that a search found."""
    return tuple(
        {"uri": result["url"], "name": one_line(plain(str(result.get("title") or result["url"])))}
        for result in (results if isinstance(results, list) else ())
        if isinstance(result, dict) and isinstance(result.get("url"), str)
    )


def _mcp_output(result: Any, is_error: bool) -> ToolOutput:
    content = result.get("content") if isinstance(result, dict) else None
    texts: list[str] = []
    images: list[dict[str, str]] = []
    resources: list[dict[str, Any]] = []
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "data": str(data), "mimeType": str(media_type)}:
                images.append({"data": data, "media_type": media_type})
            case {"type": "resource_link", "uri": str(uri)}:
                resources.append({"uri": uri, "name": str(block.get("name") or uri)})
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                resources.append({"uri": uri, "text": text})
            case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob)}}:
                resources.append({"uri": uri, "blob": blob})
    if not texts and not images and not resources and isinstance(result, dict):
        structured = result.get("structuredContent")
        texts = [] if structured is None else [msgspec.json.encode(structured).decode()]
    text = plain("\n".join(texts))
    return ToolOutput(text, images=tuple(images), resources=tuple(resources), is_error=is_error)


def _dynamic_output(content: Any, is_error: bool) -> ToolOutput:
    texts = [
        entry["text"]
        for entry in (content if isinstance(content, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("text"), str)
    ]
    return ToolOutput(plain("\n".join(texts)), is_error=is_error)


def _image_output(item: dict[str, Any]) -> ToolOutput:
    data, path = item.get("result"), item.get("savedPath")
    images = ({"data": data, "media_type": "image/png"},) if isinstance(data, str) and data else ()
    places = (Location(path),) if isinstance(path, str) else ()
    failure = item.get("failure")
    text = plain(str(failure)) if failure else str(path or "")
    return ToolOutput(text, images=images, locations=places, is_error=bool(failure))


def _agents_text(states: Any) -> str:
    rows = states.values() if isinstance(states, dict) else ()
    return "\n".join(plain(str(row["message"])) for row in rows if isinstance(row, dict) and row.get("message"))
