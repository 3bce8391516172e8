"""Formatters and checks that run after a tool has changed files; what they report is a part of the tool's result.

Loaded where such commands are configured.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING, Final

from dragoman.builtin.hooks.session_hooks import changed_since
from dragoman.builtin.tools import paths
from dragoman.errors import DragomanError
from dragoman.text.terminal import plain, shorten
from dragoman.workspace.wildcards import GlobPattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dragoman.process.finished import Finished
    from dragoman.settings.hooks import EditCommand

_MOST_FILES: Final = 20
_MOST_CHARACTERS: Final = 8_000


class AfterEdits:
    """The commands after edits in one session."""

    def __init__(
        self,
        commands: Sequence[EditCommand],
        cwd: str,
        env: Mapping[str, str],
        may_run: Callable[[EditCommand], bool] = lambda command: True,
    ) -> None:
        """Args:
        may_run: whether a command is still what the user accepted; blocks.
        """
        self._commands = [(command, GlobPattern(command.files)) for command in commands]
        self._cwd = cwd
        self._env = env
        self._may_run = may_run

    async def run(self, changed: Iterable[str]) -> str:
        """Run what is configured for these files and return what the model has to know; empty if that is nothing."""
        lines: list[str] = []
        for path in list(dict.fromkeys(changed))[:_MOST_FILES]:
            relative = _below(path, self._cwd)
            for command, pattern in self._commands:
                if relative is not None and pattern.matches(relative):
                    lines += await self._look_after(command, path)
        return "\n".join(lines)

    async def _look_after(self, command: EditCommand, path: str) -> list[str]:
        lines, shown = [], paths.shown(path, self._cwd)
        if not await asyncio.to_thread(self._may_run, command):
            return [f"[{shown} was not formatted and checked: {changed_since(command)}]"]
        if command.format:
            before = await asyncio.to_thread(_content, path)
            problem = _problem(await self._finished(command.format, path, command.timeout_seconds))
            if problem:
                lines.append(f"[{shown} could not be formatted: {problem}]")
            elif await asyncio.to_thread(_content, path) != before:
                lines.append(f"[{shown} was formatted after the edit; read it again before you edit the same lines]")
        if command.check:
            finished = await self._finished(command.check, path, command.timeout_seconds)
            if isinstance(finished, str) or finished.timed_out:
                lines.append(f"[{shown} could not be checked: {_problem(finished)}]")
            elif finished.returncode != 0:
                found = plain(f"{finished.stdout}\n{finished.stderr}").strip()
                cut = f"{found[:_MOST_CHARACTERS]}…" if len(found) > _MOST_CHARACTERS else found
                lines.append(f"[{shown} has problems after the edit; mend those that are yours:]\n{cut}")
        return lines

    async def _finished(self, line: str, path: str, timeout_seconds: float) -> Finished | str:
        from dragoman.process.finished import run_to_end

        try:
            return await run_to_end(
                line.replace("{file}", shlex.quote(path)),
                cwd=self._cwd,
                env=self._env,
                timeout_seconds=timeout_seconds,
            )
        except (DragomanError, OSError) as error:
            return str(error)


def _below(path: str, folder: str) -> str | None:
    """Return the path of a file below a folder; None if it is not there."""
    relative = os.path.relpath(path, folder)
    is_outside = relative.split(os.sep, 1)[0] == os.pardir
    return None if is_outside or not os.path.isfile(path) else relative


def _problem(finished: Finished | str) -> str:
    """Return why a command did not work; empty if it did."""
    if isinstance(finished, str):
        return finished
    if finished.timed_out:
        return "it took too long"
    if finished.returncode == 0:
        return ""
    return shorten(plain(finished.stderr or finished.stdout).strip(), 500) or f"it ended with {finished.returncode}"


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None
