"""Review, rewind, export and report in lines, with questions that are answered by a number."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.errors import DragomanError
from dragoman.snapshots.session_turns import BY
from dragoman.text.terminal import duration, one_line, size
from dragoman.text.visible import label, spelled
from dragoman.tui.changes.review_model import ReviewModel, unified
from dragoman.tui.changes.rewind_model import RewindModel, plan_lines, rewind_title
from dragoman.tui.changes.session_changes import find_changes, turn_number
from dragoman.tui.reporting.exporting import ExportWish, export_session, report_parts
from dragoman.tui.reporting.private_file import FileExists, file_place, write_private
from dragoman.tui.values import SETTLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.lines.client import LineClient

_MOST_LINES: Final = 2_000


class LineChanges:
    """The commands about changes and files. `write` appends lines to the terminal."""

    def __init__(self, conversation: HostedConversation, write: Callable[..., None]) -> None:
        self._conversation = conversation
        self._write = write
        self._asked: tuple[float, Callable[[], Awaitable[str]]] | None = None

    async def command(self, word: str, rest: str) -> None:
        """Run one of the commands below. Raises: DragomanError."""
        self._asked = None
        try:
            await getattr(self, f"_{word}")(rest)
        except OSError as error:
            raise DragomanError(f"{error.filename or word}: {error.strerror or error}") from None

    async def takes(self, text: str) -> bool:
        """Return whether a line is the answer to the question that is open here; it is acted upon then."""
        if self._asked is None or text not in ("1", "2"):
            return False
        shown_at, act = self._asked
        if self._conversation.clock() - shown_at < SETTLE_SECONDS:
            self._write("note: that came before the question could be read; answer again")
            return True
        self._asked = None
        if text == "2":
            self._write("note: nothing was changed")
            return True
        try:
            self._write(f"note: {one_line(await act())}")
        except (DragomanError, OSError) as error:
            self._write(f"error: {one_line(str(error))}")
        return True

    def _ask(self, what: str, otherwise: str, act: Callable[[], Awaitable[str]]) -> None:
        self._write(f"question: {what}", "1: yes", f"2: no, {otherwise}", "note: answer with a number")
        self._asked = (self._conversation.clock(), act)

    # Commands

    async def _diff(self, rest: str) -> None:
        found = await find_changes(self._conversation)
        model = ReviewModel(found, turn_number(found, rest))
        await asyncio.to_thread(model.load)
        lines = await asyncio.to_thread(lambda: list(_diff_lines(model)))
        self._write(*lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            self._write(f"note: {len(lines) - _MOST_LINES} more lines; dragoman sessions diff shows all")

    async def _rewind(self, rest: str) -> None:
        session_turns = await find_changes(self._conversation)
        model = RewindModel(session_turns)
        if rest:
            model.at = turn_number(session_turns, rest) - 1
        await asyncio.to_thread(model.load)
        if not rest:
            for row in model.rows:
                files = f"{row.files} path{'s' if row.files != 1 else ''}" if row.files else "nothing changed"
                state = files if row.is_active or not row.files else "taken back"
                self._write(f"{row.number}: {duration(row.age_seconds)} ago, {state}, {label(row.prompt, 80)}")
            self._write("note: /rewind NUMBER shows what taking back this turn and all after it would change")
            return
        self._plan(model)

    async def _redo(self, rest: str) -> None:
        model = RewindModel(await find_changes(self._conversation))
        await asyncio.to_thread(model.read_redo)
        self._plan(model)

    def _plan(self, model: RewindModel) -> None:
        if not model.plans:
            self._write("note: there is nothing left to take back")
            return
        self._write(f"plan: {rewind_title(model)}:")
        self._write(*(f"note: {one_line(note)}" for note in model.notes))
        for word, path, why in plan_lines(model):
            self._write(f"  {word} {spelled(path)}{f': {one_line(why)}' if why else ''}")
        if any(command.name == "rewind" for command in self._conversation.state.commands):
            self._write("note: files only; the conversation stays, although the agent has a command for it")
        self._ask(f"change {model.count} paths?", "leave everything as it is", lambda: self._apply(model))

    async def _apply(self, model: RewindModel) -> str:
        if self._conversation.is_running:
            raise DragomanError("a turn runs; /stop ends it, then ask again")
        return await asyncio.to_thread(model.apply)

    async def _export(self, rest: str) -> None:
        wish = ExportWish(rest, self._conversation)
        try:
            self._write(f"note: {one_line(await export_session(self._conversation, wish))}")
        except FileExists as error:
            again = export_session
            self._ask(f"{error}; replace it?", "write nothing", lambda: again(self._conversation, wish, replaces=True))

    async def _report(self, rest: str) -> None:
        from dragoman.trace.bug_report import report_name, zip_of

        parts = await report_parts(self._conversation)
        for part in parts:
            self._write(f"part: {part.name}, {size(len(part.data))} bytes, {label(part.what, 100)}")
        path = file_place(rest or report_name(self._conversation.session_id or ""), self._conversation.folder)

        async def act() -> str:
            await asyncio.to_thread(write_private, path, zip_of(parts))
            return f"wrote {path}; look at it before you send it"

        self._ask(f"write them to {label(path, 120)}?", "write nothing", act)


async def diff(client: LineClient, words: str) -> None:
    """Show what a turn changed. Raises: DragomanError."""
    await client.changes.command("diff", words)


async def rewind(client: LineClient, words: str) -> None:
    """List the turns, or ask whether to take some back. Raises: DragomanError."""
    await client.changes.command("rewind", words)


async def redo(client: LineClient, words: str) -> None:
    """Ask whether to bring back the last rewind. Raises: DragomanError."""
    await client.changes.command("redo", words)


async def export(client: LineClient, words: str) -> None:
    """Write the session to a file. Raises: DragomanError."""
    await client.changes.command("export", words)


async def report(client: LineClient, words: str) -> None:
    """Ask whether to write a report for a bug. Raises: DragomanError."""
    await client.changes.command("report", words)


def _diff_lines(model: ReviewModel) -> Iterator[str]:
    yield f"turn {model.turn} of {len(model.session_turns.turns)}: {len(model.files)} changed"
    yield from (f"note: {one_line(note)}" for note in model.notes)
    for at, row in enumerate(model.files):
        model.at = at
        model.read_rows()
        by = BY[row.file.change.by]
        yield f"file: {spelled(row.name)}, {row.file.change.kind}, {by}, {row.counts}, {row.state}"
        for line in unified(row.rows or ()):
            if line.head:
                yield f"  {one_line(line.head)}" if not row.file.hunks else f"  line {line.head.partition(',')[0]}:"
            elif not line.is_same:
                number, text = line.new or line.old or (0, "")
                yield f"  {'+' if line.new is not None else '-'}{number} {spelled(text)}"
        row.rows = None  # a long list of files is read once
