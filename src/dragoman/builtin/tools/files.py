"""The files below a folder, by ripgrep if there is one and by our own walk otherwise."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.builtin.tools.search_ripgrep import Ripgrep, RipgrepRefused, common_options, find_ripgrep
from dragoman.builtin.tools.walk import in_thread, walk

if TYPE_CHECKING:
    from dragoman.builtin.tools.walk import Stop
    from dragoman.builtin.tools.wildcards import GlobPattern


class Scope(Struct, frozen=True):
    """Where to look, and at what."""

    start: str
    glob: GlobPattern | None = None
    hidden: bool = False
    ignored: bool = False

    def takes(self, relative: str) -> bool:
        return self.glob is None or self.glob.matches(relative)


async def find_files(scope: Scope) -> tuple[list[str], bool]:
    """Paths relative to the start, in the order of names, and whether the search was ended early."""
    program = find_ripgrep()
    if program is not None:
        try:
            return await _by_ripgrep(program, scope)
        except RipgrepRefused:
            pass
    return await in_thread(lambda stop: list(own_files(scope, stop)))


def own_files(scope: Scope, stop: Stop) -> list[str]:
    """The same without ripgrep, for a thread."""
    files = walk(scope.start, stop, hidden=scope.hidden, ignored=scope.ignored)
    return [path for path in files if scope.takes(path)]


async def _by_ripgrep(program: str, scope: Scope) -> tuple[list[str], bool]:
    options = common_options(hidden=scope.hidden, ignored=scope.ignored)
    run = Ripgrep(program, ["--files", "--null", *options, "--", "."], scope.start, b"\0")
    found: list[str] = []
    async with aclosing(run.records()) as records:
        async for record in records:
            path = os.fsdecode(record).removeprefix("./")
            if scope.takes(path):
                found.append(path)
    return found, run.was_late
