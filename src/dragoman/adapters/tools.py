"""What is shown of a tool call whose source gives no more than its name and input: kind, title and files.

Owns the guesses. A chunk that carries a title or a display is left as it is. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman.uistream import chunks as c
from dragoman.uistream.display import KINDS, Location, ToolDisplay, with_display

if TYPE_CHECKING:
    from dragoman.uistream.display import Kind

# Words of a tool's name, and the kind of tool they speak of. The first that fits decides.
_WORDS: Final[tuple[tuple[frozenset[str], Kind], ...]] = (
    (frozenset({"delete", "remove", "rm", "unlink"}), "delete"),
    (frozenset({"move", "rename", "mv"}), "move"),
    (frozenset({"write", "edit", "create", "patch", "replace", "update", "insert", "save"}), "edit"),
    (frozenset({"search", "grep", "glob", "find", "query"}), "search"),
    (frozenset({"execute", "exec", "run", "bash", "shell", "command", "terminal", "python"}), "execute"),
    (frozenset({"fetch", "download", "web", "http", "browse", "url"}), "fetch"),
    (frozenset({"read", "view", "open", "cat", "list", "ls", "get", "load"}), "read"),
    (frozenset({"think", "reason", "reflect"}), "think"),
)
_PATHS: Final = ("path", "file_path", "filepath", "file", "filename", "target_file", "absolute_path")
_MAIN: Final = (*_PATHS, "command", "cmd", "query", "pattern", "url", "description", "question")
_TITLE_LETTERS: Final = 80


def kind_of(tool_name: str) -> Kind:
    """Return the kind of a tool, by its name."""
    if tool_name in KINDS:
        return KINDS[tool_name]
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", tool_name)
    words = set(re.split(r"[^a-z0-9]+", spaced.lower()))
    return next((kind for known, kind in _WORDS if known & words), "other")


def title_of(tool_name: str, arguments: Any) -> str:
    """Return the title of a call: the tool's name and its main argument."""
    if isinstance(arguments, dict):
        for name in _MAIN:
            value = arguments.get(name)
            if isinstance(value, str) and value:
                line = value.splitlines()[0]
                return f"{tool_name} {line[:_TITLE_LETTERS]}"
    return tool_name


def decorated(chunk: c.Chunk) -> c.Chunk:
    """Return the chunk with what can be shown of a call, if it announces one and its source gives no more."""
    if isinstance(chunk, c.ToolInputStart):
        return chunk if _has_display(chunk) else with_display(chunk, *_shown(chunk, None))
    if isinstance(chunk, c.ToolInputAvailable):
        return chunk if _has_display(chunk) else with_display(chunk, *_shown(chunk, chunk.input))
    return chunk


def _has_display(chunk: c.ToolInputStart | c.ToolInputAvailable) -> bool:
    return isinstance(chunk.provider_metadata, dict) and "dragoman" in chunk.provider_metadata


def _shown(chunk: c.ToolInputStart | c.ToolInputAvailable, arguments: Any) -> tuple[str, ToolDisplay]:
    title = chunk.title if chunk.title is not UNSET and chunk.title else title_of(chunk.tool_name, arguments)
    return title, ToolDisplay(kind_of(chunk.tool_name), _locations(arguments))


def _locations(arguments: Any) -> tuple[Location, ...]:
    if not isinstance(arguments, dict):
        return ()
    found = (arguments.get(name) for name in _PATHS)
    return tuple(Location(path) for path in found if isinstance(path, str) and path and "\n" not in path)[:1]
