"""`glob`: files by name, the newest first."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.files import Scope, find_files
from dragoman.builtin.tools.tool import Kind, Location, Preview, ToolError, ToolOutput
from dragoman.builtin.tools.walk import SEARCH_SECONDS
from dragoman.builtin.tools.wildcards import GlobPattern, has_wildcards

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

MOST_FILES: Final = 1000
_PLACES: Final = 20


class GlobArguments(Struct):
    """What to look for."""

    pattern: Annotated[
        str,
        Meta(
            description="Like **/*.py or src/*.{ts,tsx}. Without a slash it matches names in every folder; "
            "** crosses folders."
        ),
    ]
    path: Annotated[str | None, Meta(description="Folder to look below; the working folder if nothing is said.")] = None
    hidden: Annotated[bool | None, Meta(description="Also files and folders whose name begins with a dot.")] = None
    ignored: Annotated[bool | None, Meta(description="Also what .gitignore leaves out.")] = None


class Glob:
    """Finds files."""

    name: Final = "glob"
    kind: Final[Kind] = "search"
    arguments: Final = GlobArguments
    description: Final = (
        f"Find files by a glob; up to {MOST_FILES} paths, the last changed first. Leaves out hidden files and what "
        ".gitignore names, unless told otherwise. To look for text in files use grep."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        pattern = paths.word(arguments, "pattern")
        folder = paths.place_of(arguments, cwd)
        title = f"Find `{paths.one_line(pattern)}`" if pattern.strip() else "Find files"
        if folder is None or folder == cwd:
            return Preview(title)
        return Preview(f"{title} in {paths.shown(folder, cwd)}", (Location(folder),))

    def requests(self, arguments: GlobArguments, context: ToolContext) -> tuple[Request, ...]:
        start, _ = _start(arguments, context.cwd)
        return paths.look("search", f"Find {paths.one_line(arguments.pattern)}", start, context)

    async def run(self, arguments: GlobArguments, context: ToolContext) -> ToolOutput:
        start, pattern = _start(arguments, context.cwd)
        try:
            glob = GlobPattern(pattern, is_anchored="/" in arguments.pattern)
        except ValueError as error:
            raise ToolError(str(error)) from error
        if not await asyncio.to_thread(os.path.isdir, start):
            raise ToolError(f"there is no folder {paths.shown(start, context.cwd)}; look in one that is there")
        scope = Scope(start, glob, bool(arguments.hidden) or glob.names_hidden, bool(arguments.ignored))
        found, was_late = await find_files(scope)
        newest = await asyncio.to_thread(_newest_first, start, found)
        return _told(newest, was_late, arguments, context.cwd)


def _start(arguments: GlobArguments, cwd: str) -> tuple[str, str]:
    """The folder to look below and the glob from there: what a glob says before its first wildcard is no glob."""
    folder = paths.absolute(arguments.path, cwd) if arguments.path else cwd
    if not arguments.pattern.strip() or "\0" in arguments.pattern:
        raise ToolError("the pattern is empty or holds a NUL; write it like **/*.py")
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
            return 0.0  # gone meanwhile

    return sorted((os.path.join(start, path) for path in found), key=lambda path: (-changed_at(path), path))


def _told(newest: list[str], was_late: bool, arguments: GlobArguments, cwd: str) -> ToolOutput:
    notes = []
    if not newest:
        left_out = "" if arguments.hidden and arguments.ignored else "; hidden and ignored files were left out"
        notes.append(f"No file matches {arguments.pattern}{left_out}.")
    if len(newest) > MOST_FILES:
        notes.append(f"[the {MOST_FILES} last changed of {len(newest)} files; use a narrower pattern for others]")
    if was_late:
        notes.append(f"[ended after {SEARCH_SECONDS:g} s; there may be more, look in a smaller folder]")
    shown = newest[:MOST_FILES]
    text = "\n".join([*(paths.shown(path, cwd) for path in shown), *notes])
    locations = tuple(Location(path.encode("utf-8", "replace").decode()) for path in shown[:_PLACES])
    return ToolOutput(text, locations=locations, is_truncated=was_late or len(newest) > MOST_FILES)
