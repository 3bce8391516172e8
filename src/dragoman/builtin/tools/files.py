"""The files below a folder: listed by ripgrep if it is installed, otherwise by our own walk."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from dragoman.builtin.tools.search_ripgrep import Ripgrep, RipgrepRefused, common_options, find_ripgrep
from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.tools.walk import SEARCH_SECONDS, in_thread, walk
from dragoman.workspace.wildcards import GlobPattern

LATE: Final = f"[ended after {SEARCH_SECONDS:g} s; there may be more, search in a smaller folder]"


class SearchScope(Struct, frozen=True):
    """The folder to search, and which files in it."""

    start: str
    glob: GlobPattern | None = None
    hidden: bool = False
    ignored: bool = False

    def takes(self, relative: str) -> bool:
        return self.glob is None or self.glob.matches(relative)


def read_scope(
    start: str, glob: str | None, hidden: bool | None, ignored: bool | None, *, is_anchored: bool = False
) -> SearchScope:
    """Return the scope that the arguments of a tool describe. Raises: ToolError for an invalid glob."""
    if not glob:
        return SearchScope(start, None, bool(hidden), bool(ignored))
    try:
        pattern = GlobPattern(glob, is_anchored=is_anchored)
    except ValueError as error:
        raise ToolError(str(error)) from error
    return SearchScope(start, pattern, bool(hidden) or pattern.names_hidden, bool(ignored))


async def find_files(scope: SearchScope) -> tuple[list[str], bool]:
    """Return paths relative to the start, sorted by name, and whether the search was ended early."""
    program = find_ripgrep()
    if program is not None:
        try:
            return await _by_ripgrep(program, scope)
        except RipgrepRefused:
            pass
    return await in_thread(
        lambda stop: [
            path for path in walk(scope.start, stop, hidden=scope.hidden, ignored=scope.ignored) if scope.takes(path)
        ]
    )


async def _by_ripgrep(program: str, scope: SearchScope) -> tuple[list[str], bool]:
    options = common_options(hidden=scope.hidden, ignored=scope.ignored)
    run = Ripgrep(program, ["--files", "--null", *options, "--", "."], scope.start, b"\0")
    found: list[str] = []
    async with aclosing(run.records()) as records:
        async for record in records:
            path = os.fsdecode(record).removeprefix("./")
            if scope.takes(path):
                found.append(path)
    return found, run.was_late
