"""The runs of a comparison: one `dragoman exec --worktree` for each agent, some of them at the same time."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.process.child import Child, Patience
from dragoman.process.own_program import own_command
from dragoman.text.terminal import duration
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A run that gets a signal cancels its turn, waits for the agent and writes its result.
_PATIENCE: Final = Patience(stdin_seconds=0.5, term_seconds=15.0)
_BEAT_SECONDS: Final = 20.0


class Contestant(Struct, frozen=True):
    """An agent of a comparison: `NAME` or `NAME:MODEL`, and the worktree that it gets."""

    word: str
    worktree: str

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self.word.partition(":")[0]

    @property
    def model(self) -> str | None:
        """The model that it is to use; None for its own choice."""
        return self.word.partition(":")[2] or None


class ComparedChange(Struct, frozen=True):
    """A file that a run changed."""

    path: str
    change: str


class ComparedRun(Struct, kw_only=True):
    """What became of one agent's run."""

    name: str
    """The agent, and the model if one was chosen."""
    agent: str
    model: str | None
    worktree: str
    exit_code: int
    error: str | None
    """Why the exit code is not 0."""
    text: str
    """The agent's answer."""
    seconds: float
    tool_calls: int
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost: float | None
    currency: str | None
    version: str | None
    files: list[ComparedChange]
    added: int
    removed: int
    patch: str
    """The changes, for `git apply`."""


async def run_all(
    contestants: Sequence[Contestant],
    words: Sequence[str],
    *,
    cwd: str,
    jobs: int,
    note: Callable[[str], None],
    piped: bytes = b"",
) -> list[ComparedRun]:
    """Run every contestant, at most `jobs` at a time, and return the results in the same order.

    `piped` goes to the stdin of each, next to the prompt.
    """
    free = asyncio.Semaphore(jobs)
    began: dict[str, float] = {}

    async def one(contestant: Contestant) -> ComparedRun:
        async with free:
            note(f"{contestant.word}: started, in the worktree {contestant.worktree}")
            began[contestant.word] = monotonic()
            found = await _run(contestant, words, cwd, piped)
            del began[contestant.word]
            files = "1 file" if len(found.files) == 1 else f"{len(found.files)} files"
            how = "done" if found.exit_code == 0 else f"exit code {found.exit_code}"
            note(f"{contestant.word}: {how} after {duration(found.seconds)}, {files} changed")
            return found

    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            now = monotonic()
            running = ", ".join(f"{name} ({duration(now - start)})" for name, start in began.items())
            if running:
                note(f"still running: {running}")

    beating = asyncio.ensure_future(beat())
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(contestant)) for contestant in contestants]
    finally:
        beating.cancel()
    return [task.result() for task in tasks]


async def _run(contestant: Contestant, words: Sequence[str], cwd: str, piped: bytes) -> ComparedRun:
    model = [] if contestant.model is None else ["--model", contestant.model]
    argv = [*own_command("exec"), "--output", "json", "--quiet", "-a", contestant.agent, *model]
    start = monotonic()
    child = Child.spawn([*argv, "--worktree", contestant.worktree, *words], cwd=cwd, patience=_PATIENCE)
    stdin, stdout = child.take_pipes()
    try:
        await asyncio.to_thread(_write_all, stdin, piped)
        output = await asyncio.to_thread(_read_all, stdout)
        code = await child.wait()
    finally:
        await child.close()
    seconds = monotonic() - start
    return await asyncio.to_thread(_described, contestant, output, code or 0, child.stderr_tail(), seconds, cwd)


def _write_all(fd: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(fd, "wb") as stream:  # one that ends early says why itself
        stream.write(data)


def _read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as stream:
        return stream.read()


def _described(contestant: Contestant, output: bytes, code: int, stderr: str, seconds: float, cwd: str) -> ComparedRun:
    result = _decoded(output)
    usage: dict[str, Any] = result.get("usage") or {}
    cost: dict[str, Any] = usage.get("cost") or {}
    error: dict[str, Any] = result.get("error") or {}
    files, added, removed, patch = _changes(contestant.worktree, cwd)
    last = stderr.strip().splitlines()
    reason = error.get("message") or (last[-1] if code and last else None)
    return ComparedRun(
        name=contestant.word,
        agent=contestant.agent,
        model=contestant.model,
        worktree=contestant.worktree,
        exit_code=result.get("exit_code", code) if result else code or 1,
        error=None if reason is None else label(str(reason), 500),
        text=result.get("text") or "",
        seconds=round((result.get("duration_ms") or seconds * 1000) / 1000, 3),
        tool_calls=len(result.get("tool_calls") or ()),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        total_tokens=usage.get("total_tokens"),
        cost=cost.get("amount"),
        currency=cost.get("currency"),
        version=(result.get("agent") or {}).get("version"),
        files=files,
        added=added,
        removed=removed,
        patch=patch,
    )


def _decoded(output: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(output)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _changes(worktree: str, cwd: str) -> tuple[list[ComparedChange], int, int, str]:
    from dragoman.view.diffs import read_patched_files
    from dragoman.worktrees import changes_of, find_worktree, patch_of, project_of

    try:
        found = find_worktree(project_of(cwd), worktree)
        if found is None:
            return [], 0, 0, ""
        changes = changes_of(found)
        patch = patch_of(changes).decode("utf-8", "replace")
    except (DragomanError, OSError) as error:
        return [], 0, 0, f"the changes cannot be read: {error}"
    pieces = [file.piece for file in read_patched_files(patch, most=0)]
    added, removed = sum(piece.added for piece in pieces), sum(piece.removed for piece in pieces)
    return [ComparedChange(change.path, change.kind) for change in changes], added, removed, patch
