"""`/undo`, `/redo` and `/rewind`: take turns back, in the conversation and in the files, and bring them back.

Owns what these commands answer. Files that others have changed since stay as they are, and are named. Nothing stored is
removed: the model is not given what was taken back, and clients still see it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.builtin.checkpoints import Checkpoints, PastTurn, last_rewind, past_turns
from dragoman.builtin.context.own_commands import refused_words
from dragoman.builtin.context.rewound import REDO, REWIND
from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from dragoman.builtin.checkpoints import FileReport
    from dragoman.builtin.context.command import TurnCommand
    from dragoman.builtin.context.window.window import ContextWindow
    from dragoman.builtin.models.model import ToolSpec
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.turn import TurnContext
    from dragoman.uistream.messages import UIMessage

_AFTER: Final = "Files as they were after it"
_MOST_LISTED: Final = 50
_MOST_FILES: Final = 20
_MOST_DIGITS: Final = 9  # of the number of a turn; Python refuses to read one of thousands of digits


class SessionRewinding:
    """The turns of an open session, for the commands that take them back."""

    def __init__(self, session: OpenSession, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self._session = session

    async def conversation(self) -> list[UIMessage]:
        """Return all messages before the running command, oldest first. Raises: StoreError."""
        session = self._session
        found: list[UIMessage] = []
        async for page in session.past.pages(session.past.until):
            found += page
        return [*found, *session.history[:-1]]

    def changed(self) -> None:
        """Note that the model is given other messages from the next turn on."""
        self._session.has_rewound = True


async def undo(call: TurnCommand, context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]) -> str:
    """Take back the last turn: `/undo`. Raises: StoreError."""
    if call.arguments:
        return f"{refused_words(call.name)} `/rewind N` takes back turn N and all after it."
    rewinding = call.rewinding
    if rewinding is None:
        return _UNAVAILABLE
    history = await rewinding.conversation()
    turns = past_turns(history)
    if not turns:
        return "There is no turn to take back."
    return await _take_back(turns[-1:], history, context, rewinding)


async def rewind(call: TurnCommand, context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]) -> str:
    """Take back turn N and all after it: `/rewind N`. Without a number, return the list of turns.

    Raises: StoreError.
    """
    rewinding = call.rewinding
    if rewinding is None:
        return _UNAVAILABLE
    history = await rewinding.conversation()
    turns = past_turns(history)
    if not turns:
        return "There is no turn to take back."
    wanted = call.arguments.strip()
    if not wanted:
        return await _listed(turns, rewinding)
    if not wanted.isdecimal() or len(wanted) > _MOST_DIGITS or not 1 <= int(wanted) <= len(turns):
        return f"There is no turn {shorten(wanted, 40)!r}; there are 1 to {len(turns)}. `/rewind` lists them."
    return await _take_back(turns[int(wanted) - 1 :], history, context, rewinding)


async def redo(call: TurnCommand, context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]) -> str:
    """Bring back what the last `/undo` or `/rewind` took back: `/redo`. Raises: StoreError."""
    if call.arguments:
        return refused_words(call.name)
    rewinding = call.rewinding
    if rewinding is None:
        return _UNAVAILABLE
    fact = last_rewind(await rewinding.conversation())
    if fact is None:
        return "There is nothing to bring back: no turn was taken back, or a prompt has followed."
    report = await rewinding.checkpoints.bring_back(fact.rewinds) if fact.has_files else None
    await context.data(REDO, {})
    rewinding.changed()
    return "\n\n".join(["The model has the conversation again that was taken back.", *_about_files(report, _AFTER)])


_UNAVAILABLE: Final = "Turns of this session cannot be taken back: its client works without a user."


async def _take_back(
    turns: list[PastTurn], history: list[UIMessage], context: TurnContext, rewinding: SessionRewinding
) -> str:
    report = await rewinding.checkpoints.take_back([turn.uid for turn in turns if turn.uid])
    back = len(history) - turns[0].position
    await context.data(REWIND, {"back": back, "files": bool(report.changed), "rewinds": report.rewinds})
    rewinding.changed()
    what = "The last turn is" if len(turns) == 1 else f"{len(turns)} turns are"
    first = f"{what} taken back, from this prompt on: {shorten(sentence(turns[0].prompt), 100)}"
    return "\n\n".join([first, *_about_files(report), "`/redo` brings it back, until the next prompt."])


def _about_files(report: FileReport | None, done: str = "Files as they were before") -> list[str]:
    if report is None:
        return []
    lines = []
    for paths, what in (
        (report.changed, done),
        (report.kept, "Not touched, because they were changed since by others"),
        (report.failed, "Could not be changed"),
    ):
        if paths:
            more = f"\n- and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
            lines.append(f"{what}:\n" + "\n".join(f"- `{shorten(path, 200)}`" for path in paths[:_MOST_FILES]) + more)
    return lines or ["No file was changed."]


async def _listed(turns: list[PastTurn], rewinding: SessionRewinding) -> str:
    counts = await rewinding.checkpoints.changed_files([turn.uid for turn in turns if turn.uid])
    lines = [] if len(turns) <= _MOST_LISTED else [f"- and {len(turns) - _MOST_LISTED} earlier ones"]
    for turn in turns[-_MOST_LISTED:]:
        count = counts.get(turn.uid, 0)
        files = f" ({count} file{'s' if count != 1 else ''} changed)" if count else ""
        lines.append(f"- {turn.number}: {shorten(sentence(turn.prompt), 80)}{files}")
    return "\n".join(
        ["`/rewind N` takes back turn N and all after it, in the conversation and in the files:", "", *lines]
    )
