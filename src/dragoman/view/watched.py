"""What a program that follows a session knows beyond its state: durations, the output of terminals, who called whom.

The state has no clock, and keeps of a tool call only the last `_meta`, in which agents and the host report pieces of
output. Bounded: of each terminal the end is kept, and of all of them the last ones. Pure: the caller says what time it
is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.state.tools import FINISHED
from dragoman.view.blocks import ShownTerminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    ShownChange: TypeAlias = tuple[str, str | None, str]

_OUTPUT_CHARACTERS: Final = 64 * 1024
_TERMINALS: Final = 64
_CALLS: Final = 4_000
_DEEPEST: Final = 8
_CHILDREN: Final = 32
_CHILD_CHARACTERS: Final = 200_000


def change_key(change: v1.Diff) -> ShownChange:
    """Return what makes two changes of files the same."""
    return change.path, change.old_text if isinstance(change.old_text, str) else None, change.new_text


class _Terminal:
    """The end of the output of one terminal, in pieces that are joined when it is read."""

    __slots__ = ("code", "is_cut", "pieces", "signal", "size", "total")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = self.total = 0
        self.is_cut = False
        self.code: int | None = None
        self.signal: str | None = None

    def add(self, text: str) -> None:
        self.total += len(text)
        self.size += len(text)
        self.pieces.append(text)
        if self.size > 2 * _OUTPUT_CHARACTERS:
            self.text()

    def text(self) -> str:
        text = "".join(self.pieces)
        if len(text) > _OUTPUT_CHARACTERS:
            kept = text[-_OUTPUT_CHARACTERS:]
            text, self.is_cut = kept[kept.find("\n", 0, 1000) + 1 :], True
        self.pieces, self.size = [text], len(text)
        return text


class WatchedSession:
    """What was seen of one session."""

    def __init__(self) -> None:
        self.now = 0.0
        """What time it is for calls that run, in the same unit as in `note`."""
        self._terminals: OrderedDict[str, _Terminal] = OrderedDict()
        self._shown: dict[str, ShownTerminal] = {}
        self._times: OrderedDict[str, tuple[float, float | None]] = OrderedDict()
        self._parents: OrderedDict[str, str] = OrderedDict()
        self._turns: dict[int, tuple[float, float | None]] = {}
        self._changed: set[str] = set()
        self.elsewhere: Mapping[str, frozenset[ShownChange]] = {}
        """Changes that the user sees in another place, such as a question, by the id of their call."""
        self._children: OrderedDict[str, SessionState] = OrderedDict()
        self._changed_children: set[str] = set()

    @property
    def terminals(self) -> Mapping[str, ShownTerminal]:
        """The terminals whose output was reported, by id."""
        for id, terminal in self._terminals.items():
            if id not in self._shown:
                self._shown[id] = ShownTerminal(
                    id, None, terminal.text(), terminal.code, terminal.signal, terminal.is_cut, terminal.total
                )
        return self._shown

    def show_elsewhere(self, calls: Mapping[str, Iterable[object]], *, with_earlier: bool = False) -> None:
        """Note which changes are in sight in another place, of which only the size is shown here.

        Args:
            calls: the content of calls, by their ids.
            with_earlier: what was noted before stays in sight there, too.
        """
        found = dict(self.elsewhere) if with_earlier else {}
        for id, content in calls.items():
            found[id] = frozenset(change_key(item) for item in content if isinstance(item, v1.Diff))
        self._changed |= {id for id in found.keys() | self.elsewhere.keys() if found.get(id) != self.elsewhere.get(id)}
        self.elsewhere = found

    def is_elsewhere(self, call_id: str, change: v1.Diff) -> bool:
        """Return whether this very change of a call is in sight in another place."""
        return call_id in self.elsewhere and change_key(change) in self.elsewhere[call_id]

    def take_changed(self) -> set[str]:
        """Take the calls of which something was noted since the last time, by id."""
        changed, self._changed = self._changed, set()
        return changed

    @property
    def children(self) -> Mapping[str, SessionState]:
        """The sessions of subagents of which updates came, by session id."""
        return self._children

    def take_changed_children(self) -> set[str]:
        """Take the sessions of subagents that changed since the last time."""
        changed, self._changed_children = self._changed_children, set()
        return changed

    def note_child(self, session_id: str, update: v1.SessionUpdate) -> None:
        """Take an update of a subagent's session."""
        state = self._children.get(session_id)
        if state is None:
            state = self._children[session_id] = SessionState(text_limit=_CHILD_CHARACTERS)
            _bound(self._children, _CHILDREN)
        fold(state, update)
        self._changed_children.add(session_id)

    def note(self, update: object, now: float) -> None:
        """Take an update that has just come."""
        if not isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
            return
        id = update.tool_call_id
        self._changed.add(id)
        self._note_meta(id, update.meta or None)
        times = self._times.get(id)
        if times is None and update.status in FINISHED:
            return  # reported when it was over: how long it took is not known
        if times is None or (times[1] is not None and isinstance(update, v1.ToolCall)):
            times = self._times[id] = (now, None)
            self._times.move_to_end(id)
            _bound(self._times, _CALLS)
        status = update.status
        if status in FINISHED and times[1] is None:
            self._times[id] = (times[0], now)

    def adopt(self, state: SessionState) -> None:
        """Take what a replayed history reports in the `_meta` of its calls."""
        for call in state.tool_calls.values():
            self._note_meta(call.id, call.meta)

    def begin_turn(self, index: int, now: float) -> None:
        """Note that a turn began."""
        self._turns[index] = (now, None)

    def end_turn(self, index: int, now: float) -> None:
        """Note that a turn ended: calls that still run have no time any more."""
        if index in self._turns:
            self._turns[index] = (self._turns[index][0], now)
        for id, (start, end) in list(self._times.items()):
            if end is None:
                self._times[id] = (start, now)
                self._changed.add(id)

    def note_turn(self, index: int, seconds: float) -> None:
        """Note how long a turn of the past took."""
        self._turns[index] = (0.0, seconds)

    def turn_seconds(self, index: int | None) -> float | None:
        """Return how long a turn took; None if it was not seen."""
        start, end = self._turns.get(index, (0.0, None)) if index is not None else (0.0, None)
        return None if end is None else end - start

    def seconds(self, call_id: str) -> float | None:
        """Return how long a call took, or has taken so far; None if it was not seen."""
        known = self._times.get(call_id)
        return None if known is None else (self.now if known[1] is None else known[1]) - known[0]

    def is_running(self, call_id: str) -> bool:
        """Whether the time of a call still grows."""
        known = self._times.get(call_id)
        return known is not None and known[1] is None

    def depth(self, call_id: str) -> int:
        """Count how many calls of subagents a call is inside of."""
        depth, at = 0, self._parents.get(call_id)
        while at is not None and depth < _DEEPEST:
            depth, at = depth + 1, self._parents.get(at)
        return depth

    def depth_in(self, meta: Mapping[str, Any] | None) -> int:
        """Count the same for a message, by its `_meta`."""
        parent = parent_of(meta)
        return 0 if parent is None else self.depth(parent) + 1

    def _note_meta(self, id: str, meta: Mapping[str, Any] | None) -> None:
        if not meta:
            return
        parent = parent_of(meta)
        if parent is not None and parent != id:
            self._parents[id] = parent
            _bound(self._parents, _CALLS)
        own = meta.get("dragoman")
        seconds = own.get("seconds") if isinstance(own, dict) else None
        if isinstance(seconds, int | float) and not isinstance(seconds, bool):
            self._times[id] = (0.0, float(seconds))
            _bound(self._times, _CALLS)
        output = meta.get("terminal_output_delta") or meta.get("terminal_output")
        if isinstance(output, dict) and isinstance(output.get("data"), str):
            self._terminal(output.get("terminal_id")).add(output["data"])
        ended = meta.get("terminal_exit")
        if isinstance(ended, dict):
            terminal = self._terminal(ended.get("terminal_id"))
            code, signal = ended.get("exit_code"), ended.get("signal")
            terminal.code = code if isinstance(code, int) and not isinstance(code, bool) else None
            terminal.signal = signal if isinstance(signal, str) else None

    def _terminal(self, id: object) -> _Terminal:
        name = str(id)
        self._shown.pop(name, None)
        terminal = self._terminals.get(name)
        if terminal is None:
            terminal = self._terminals[name] = _Terminal()
            while len(self._terminals) > _TERMINALS:
                gone, _ = self._terminals.popitem(last=False)
                self._shown.pop(gone, None)
        self._terminals.move_to_end(name)
        return terminal


def parent_of(meta: Mapping[str, Any] | None) -> str | None:
    """Return the call of a subagent that a call or a message belongs to, where real agents put it."""
    for value in (meta or {}).values():
        if isinstance(value, dict):
            for name in ("parentToolUseId", "parentToolCallId", "parent_tool_use_id"):
                if isinstance(value.get(name), str) and value[name]:
                    return str(value[name])
    return None


def _bound(kept: OrderedDict[str, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
