"""What is shown of Claude's tool calls: title, kind, files and diffs before a call runs, and its outcome afterwards.

Owns what is known about Claude's own tools. Calls of others, such as those of MCP servers, are shown by their name.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman.adapters.tools import kind_of, title_of
from dragoman.uistream.display import FileDiff, Location, ToolDisplay, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.uistream.display import Kind

    Reader = Callable[[str], str | None]

_KINDS: Final[dict[str, Kind]] = {
    "Agent": "think",
    "Task": "think",
    "Skill": "think",
    "AskUserQuestion": "other",
    "Bash": "execute",
    "BashOutput": "execute",
    "KillShell": "execute",
    "Monitor": "execute",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Write": "edit",
    "Read": "read",
    "LS": "read",
    "Glob": "search",
    "Grep": "search",
    "ToolSearch": "search",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "EnterPlanMode": "switch_mode",
    "ExitPlanMode": "switch_mode",
}
PLAN_TOOLS: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"})
"""Tools whose calls are shown as the plan."""
EDITING: Final = frozenset({"Edit", "MultiEdit", "Write"})
# A diff holds a file twice and is sent as JSON; of a larger file the part that changes is shown.
_DIFF_BYTES: Final = 1 << 20
_TITLE_LETTERS: Final = 200
_TAGS: Final = re.compile(r"</?(?:tool_use_error|system-reminder)>")
# What Claude adds to the report of a sub-agent for the model that reads it.
_ADDED: Final = re.compile(r"<tools-used-before-summary>.*?</tools-used-before-summary>\s*", re.DOTALL)


def read_text(path: str) -> str | None:
    """Return the text of a file, None if it is not one or is large."""
    try:
        if os.path.getsize(path) > _DIFF_BYTES:
            return None
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def shown_call(name: str, tool_input: Any, read: Reader, parent: str | None = None) -> tuple[str, ToolDisplay]:
    """Return the title of a call, and how it is shown before it runs."""
    arguments = tool_input if isinstance(tool_input, dict) else {}
    path = _path(arguments)
    line = arguments.get("offset") if name == "Read" else None
    where = () if path is None else (Location(path, line if isinstance(line, int) and line > 0 else UNSET),)
    diffs = _announced_diffs(name, arguments, read)
    return _title(name, arguments), ToolDisplay(_kind(name), where, diffs, parent)


def output_of(name: str, block: dict[str, Any], result: Any, announced: Sequence[FileDiff]) -> ToolOutput:
    """Return the outcome of a call.

    Args:
        name: the tool.
        block: the `tool_result` that the model reads.
        result: the structured result that comes with it, if there is one.
        announced: the diffs that the call was shown with.
    """
    text, images = _content(block.get("content"))
    is_error = block.get("is_error") is True
    diffs: Sequence[FileDiff] = ()
    if name in EDITING and not is_error:
        diffs = _changed(result) or announced
    if name in ("Agent", "Task") and isinstance(result, dict):
        text = _report(text, result)
    exit_code = re.match(r"Exit code (\d+)", text) if name == "Bash" and is_error else None
    return ToolOutput(
        _TAGS.sub("", text).strip("\n"),
        tuple(diffs),
        tuple(Location(diff.path) for diff in diffs),
        images=tuple(images),
        exit_code=None if exit_code is None else int(exit_code[1]),
        is_error=is_error,
    )


def _report(text: str, result: dict[str, Any]) -> str:
    """Return what a sub-agent reports, without the notes around it."""
    if result.get("isAsync") is True:
        return "The agent runs in the background."
    reported, _ = _content(result.get("content"))
    return _ADDED.sub("", reported).strip() or text


def _kind(name: str) -> Kind:
    known = _KINDS.get(name)
    return known if known is not None else kind_of(name.rpartition("__")[2])


def _title(name: str, arguments: dict[str, Any]) -> str:
    match name, arguments:
        case ("Bash", {"command": str(command)}):
            return _line(command)
        case ("Agent" | "Task", {"description": str(description)}):
            return _line(description)
        case ("AskUserQuestion", {"questions": [{"question": str(question)}, *_]}):
            return _line(question)
        case ("ExitPlanMode", _):
            return "Carry out the plan"
        case ("Grep" | "Glob", {"pattern": str(pattern)}):
            place = f" in {arguments['path']}" if isinstance(arguments.get("path"), str) else ""
            return _line(f"{name} {pattern}{place}")
        case ("Skill", {"skill": str(skill)}):
            return _line(f"Skill {skill}")
    if name.startswith("mcp__"):
        _, server, tool = [*name.split("__", 2), ""][:3]
        return _line(f"{server}: {title_of(tool, arguments)}")
    return title_of(name, arguments)


def _line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return first[:_TITLE_LETTERS] + (" …" if rest or len(first) > _TITLE_LETTERS else "")


def _path(arguments: dict[str, Any]) -> str | None:
    for name in ("file_path", "notebook_path", "path"):
        path = arguments.get(name)
        if isinstance(path, str) and path and "\n" not in path:
            return path
    return None


def _announced_diffs(name: str, arguments: dict[str, Any], read: Reader) -> tuple[FileDiff, ...]:
    """Return what a call would change, as far as that is known before it runs."""
    path = _path(arguments)
    if name not in EDITING or path is None:
        return ()
    if name == "Write":
        content = arguments.get("content")
        return (FileDiff(path, read(path), content),) if isinstance(content, str) else ()
    edits = arguments.get("edits") if name == "MultiEdit" else [arguments]
    return _edited(path, read(path), edits if isinstance(edits, list) else [])


def _edited(path: str, original: str | None, edits: Sequence[Any]) -> tuple[FileDiff, ...]:
    """Return the whole file before and after if the edits fit, otherwise only the replaced parts."""
    pairs = [
        (edit["old_string"], edit["new_string"], edit.get("replace_all") is True)
        for edit in edits
        if isinstance(edit, dict)
        and isinstance(edit.get("old_string"), str)
        and isinstance(edit.get("new_string"), str)
    ]
    text = original
    for old, new, is_everywhere in pairs:
        if text is None or not old or old not in text:
            return tuple(FileDiff(path, before or None, after) for before, after, _ in pairs)
        text = text.replace(old, new) if is_everywhere else text.replace(old, new, 1)
    return () if text is None or not pairs else (FileDiff(path, original, text),)


def _changed(result: Any) -> tuple[FileDiff, ...]:
    """Return what a structured result says was changed."""
    match result:
        case {"filePath": str(path), "oldString": str(old), "newString": str(new)}:
            edit = {"old_string": old, "new_string": new, "replace_all": result.get("replaceAll")}
            return _edited(path, _whole(result.get("originalFile")), [edit])
        case {"filePath": str(path), "content": str(content)}:
            return (FileDiff(path, _whole(result.get("originalFile")), content),)
        case {"filePath": str(path), "edits": list(edits)}:
            return _edited(path, _whole(result.get("originalFile")), edits)
    return ()


def _whole(original: Any) -> str | None:
    return original if isinstance(original, str) and len(original) <= _DIFF_BYTES else None


def _content(content: Any) -> tuple[str, list[dict[str, str]]]:
    """Return the text and the images of a result."""
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    images: list[dict[str, str]] = []
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "data": str(data), "media_type": str(media_type)}}:
                images.append({"data": data, "media_type": media_type})
            case {"type": "tool_reference", "tool_name": str(name)}:
                texts.append(name)
            case {"title": str(title), "url": str(url)}:
                texts.append(f"{title}: {url}")
    return "\n".join(texts), images
