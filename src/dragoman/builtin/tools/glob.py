"""`glob`: finds files by name, the last changed first."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.files import LATE, find_files, read_scope
from dragoman.builtin.tools.tool import Kind, Location, Preview, Tool, ToolError, ToolOutput
from dragoman.text.terminal import shorten
from dragoman.workspace.wildcards import has_wildcards

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

MOST_FILES: Final = 100
_LOCATIONS: Final = 20


class GlobArguments(Struct):
    """The glob, and where to search."""

    pattern: Annotated[
        str,
        Meta(
            description="Like **/*.py or src/*.{ts,tsx}. Without a slash it matches names in every folder; "
            "** matches any number of folders."
        ),
    ]
    path: Annotated[str | None, Meta(description="Folder to search; by default the working folder.")] = None
    hidden: Annotated[bool | None, Meta(description="Also files and folders whose name begins with a dot.")] = None
    ignored: Annotated[bool | None, Meta(description="Also files that .gitignore excludes.")] = None
    offset: Annotated[int | None, Meta(description="How many files to skip, to see the next ones.")] = None


class GlobTool(Tool):
    """The tool that finds files by a glob."""

    name: Final = "glob"
    kind: Final[Kind] = "search"
    arguments: Final = GlobArguments
    description: Final = (
        f"Find files by a glob; {MOST_FILES} paths, the last changed first, and how many there are. Leaves out hidden "
        "files and files that .gitignore excludes, unless you ask for them. To search for text in files use grep."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        pattern = paths.word(arguments, "pattern")
        folder = paths.path_of(arguments, cwd)
        title = f"Find `{shorten(pattern, paths.TITLE_LETTERS)}`" if pattern.strip() else "Find files"
        if folder is None or folder == cwd:
            return Preview(title)
        return Preview(f"{title} in {paths.shown(folder, cwd)}", (Location(folder),))

    def requests(self, arguments: GlobArguments, context: ToolContext) -> tuple[Request, ...]:
        start, _ = _start(arguments, context.cwd)
        return paths.look("search", f"Find {shorten(arguments.pattern, paths.TITLE_LETTERS)}", start, context)

    async def run(self, arguments: GlobArguments, context: ToolContext) -> ToolOutput:
        start, pattern = _start(arguments, context.cwd)
        is_anchored = "/" in arguments.pattern
        scope = read_scope(start, pattern, arguments.hidden, arguments.ignored, is_anchored=is_anchored)
        if not await asyncio.to_thread(os.path.isdir, start):
            raise ToolError(f"there is no folder {paths.shown(start, context.cwd)}; search in one that exists")
        found, was_late = await find_files(scope)
        newest = await asyncio.to_thread(_newest_first, start, found)
        offset = max(arguments.offset or 0, 0)
        shown = newest[offset : offset + MOST_FILES]
        notes = [_summary(arguments, len(newest), offset, len(shown))]
        if was_late:
            notes.append(LATE)
        text = "\n".join([*(paths.shown(path, context.cwd) for path in shown), *notes])
        locations = tuple(Location(paths.encodable(path)) for path in shown[:_LOCATIONS])
        return ToolOutput(text, locations=locations, is_truncated=was_late or offset + len(shown) < len(newest))


def _summary(arguments: GlobArguments, total: int, offset: int, shown: int) -> str:
    """Return the line that states how many files there are, and how to see the others."""
    files = "1 file" if total == 1 else f"{total} files"
    if not total:
        left_out = "" if arguments.hidden and arguments.ignored else "; hidden and ignored files were left out"
        return f"No file matches {arguments.pattern}{left_out}."
    if offset >= total:
        return f"[there are {files}; offset={offset} is behind the last]"
    if shown == total:
        return f"[{files}]"
    part = f"files {offset + 1} to {offset + shown} of {total}, the last changed first"
    return f"[{part}]" if offset + shown == total else f"[{part}; continue with offset={offset + shown}]"


def _start(arguments: GlobArguments, cwd: str) -> tuple[str, str]:
    """Return the folder to search and the glob relative to it: the parts before the first wildcard are a path."""
    folder = paths.absolute(arguments.path, cwd) if arguments.path else cwd
    if not arguments.pattern.strip() or "\0" in arguments.pattern:
        raise ToolError("the pattern is empty or contains a NUL; write it like **/*.py")
    parts = arguments.pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not has_wildcards(parts[plain]):
        plain += 1
    if plain:
        folder = paths.absolute("/".join(parts[:plain]) or "/", folder)
    return folder, "/".join(parts[plain:]) or "**"


def _newest_first(start: str, found: list[str]) -> list[str]:
    def changed_at(path: str) -> float:
        try:
            return os.lstat(path).st_mtime
        except OSError:
            return 0.0  # deleted in the meantime

    return sorted((os.path.join(start, path) for path in found), key=lambda path: (-changed_at(path), path))
