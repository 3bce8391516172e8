"""A session as the guard sees it: what the agent reported of its tool calls, the turn, and the cancel.

Gives the services of a client (`client/permission.py`, `files.py`, `terminals.py`) the session they work with, although
the session belongs to the editor. Only tool calls and modes are kept; texts pass and are forgotten.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from dragoman.client.reading import Announcements
from dragoman.client.session import Session
from dragoman.client.turn_commands import TurnCommands
from dragoman.errors import DragomanError, LocalProtocolError
from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from msgspec import Raw

    from dragoman.client.session_link import SessionLink
    from dragoman.state import ToolCallState

# Far beyond what an agent does in a day. An agent that reports more can no longer be judged, so it is refused.
MOST_CALLS: Final = 50_000
MOST_BYTES: Final = 256 << 20
_MOST_TERMINALS: Final = 10_000  # of the editor; released ones are kept, because the editor answers about them too

_CALLS: Final = {"tool_call": v1.ToolCall, "tool_call_update": v1.ToolCallUpdate}
FOLDED: Final = frozenset({*_CALLS, "current_mode_update", "config_option_update", "usage_update"})
"""The kinds of updates that a guarded session keeps."""


class _Link:
    """What `Session` needs of its connection."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.state = SessionState()
        self.session: Session
        self.is_closed = False
        self.was_cancelled = False
        self.on_cancel_calls: list[Callable[[], object]] = []

    @property
    def is_cancelled(self) -> bool:
        return self.was_cancelled

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        self.on_cancel_calls.append(callback)
        try:
            yield
        finally:
            self.on_cancel_calls.remove(callback)


class GuardedSession(Session):
    """One session that passes through the guard."""

    def __init__(self, session_id: str, cwd: str, additional_directories: Sequence[str] = ()) -> None:
        self._own = _Link(session_id)
        # The services use a few members of a link; this one has them.
        super().__init__(cast("SessionLink", self._own), cwd, additional_directories=additional_directories)
        self.turn = 0
        """The number of the running or last turn; 0 before the first."""
        self.prompts = 0
        """Prompts that run: an agent may accept several."""
        self.turn_began = 0.0
        self.commands = TurnCommands()
        """Those of the running or last turn."""
        self.is_instructed = False
        """Whether the instructions of the user were sent."""
        self.announcements = Announcements()
        """What tool calls showed before they ended."""
        self._editor_terminals: dict[str, None] = {}  # the oldest first
        self.seen_kinds: set[str] = set()
        """The kinds of tool calls about which the agent asked in this turn, or that it had done here."""
        self.cost = 0.0
        self.currency = ""
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    @property
    def folders(self) -> tuple[str, ...]:
        """The session's folder and its additional ones."""
        return (self.cwd, *self.additional_directories)

    @property
    def is_overfull(self) -> bool:
        """Whether the agent reported more than can be kept: its requests cannot be compared with that any more."""
        return len(self._sizes) > MOST_CALLS or self._bytes > MOST_BYTES

    def note_editor_terminal(self, terminal_id: str) -> None:
        """Note that the editor created a terminal for the agent."""
        self._editor_terminals[terminal_id] = None
        while len(self._editor_terminals) > _MOST_TERMINALS:
            del self._editor_terminals[next(iter(self._editor_terminals))]

    def has_editor_terminal(self, terminal_id: str) -> bool:
        """Whether the editor created this terminal for the agent, released or not."""
        return terminal_id in self._editor_terminals

    def begin_turn(self) -> None:
        """Begin a turn: a prompt passes to the agent."""
        self.prompts += 1
        if self.prompts > 1:
            return
        self.turn += 1
        self.turn_began = time.monotonic()
        self._own.was_cancelled = False
        self.commands = TurnCommands()
        self.seen_kinds.clear()
        with suppress(LocalProtocolError):
            self.state.begin_turn(())

    def end_turn(self, stop_reason: str | None) -> None:
        """End a turn: the agent answered a prompt."""
        self.prompts = max(0, self.prompts - 1)
        if not self.prompts:
            with suppress(LocalProtocolError):
                self.state.end_turn(stop_reason)

    def note_cancel(self) -> None:
        """Note that the turn was cancelled: questions that are open end."""
        self._own.was_cancelled = True
        self.commands.cancel()
        for callback in list(self._own.on_cancel_calls):
            callback()

    def end(self) -> None:
        """End the session: it was closed, or a connection ended."""
        self._own.is_closed = True
        self.note_cancel()

    def take(self, kind: str, update: Raw) -> ToolCallState | None:
        """Keep an update; the tool call as it is now, if it is about one.

        Raises: DragomanError for an update that cannot be read.
        """
        if kind in _CALLS:
            read: Any = decode(_CALLS[kind], update)
            self.commands.note(read)
            size = len(memoryview(update))
            if self.is_overfull and read.tool_call_id not in self._sizes:
                return None
            self._bytes += size - self._sizes.get(read.tool_call_id, 0)
            self._sizes[read.tool_call_id] = size
            self.announcements.note(read)
            fold(self.state, read)
            return self.state.tool_calls.get(read.tool_call_id)
        read = decode(v1.SessionUpdate, update)
        with suppress(TypeError):
            fold(self.state, read)
        if isinstance(read, v1.UsageUpdate) and read.cost:
            self.cost, self.currency = read.cost.amount, read.cost.currency
        return None

    def open(self, result: Raw) -> None:
        """Take the modes and options of the response that opened the session."""
        with suppress(DragomanError):
            found = decode(v1.ResumeSessionResponse, result)
            self.state.open(found.modes, found.config_options)
