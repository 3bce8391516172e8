"""What a run is doing at the moment, and when it reached each of its steps.

Read for the status line, for a heartbeat and for the sentence about a timeout: what was being waited for. Keeps times
and a few words; does not write anything and does not decide anything.
"""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from dragoman.runs.result import RunDurations
    from dragoman.schema import v1
    from dragoman.state import SessionState, ToolCallState

Phase: TypeAlias = Literal["starting", "opening", "working", "done"]
What: TypeAlias = Literal["start", "session", "model", "retry", "tool", "permission", "answer"]

# Words with which agents report on stderr, or in a notice, that their model is busy and will be called again.
_RETRY: Final = re.compile(
    r"\bretr(y|ies|ying)\b|\bnext try\b|\bback(ing)?[ -]?off\b|\b(429|503|529)\b|rate.?limit|overloaded",
    re.IGNORECASE,
)
_LONGEST: Final = 200  # characters of a name
_PHRASES: Final[dict[What, str]] = {
    "start": "the agent to start",
    "session": "the agent to open the session",
    "model": "the model",
    "retry": "the model, which the agent calls again",
    "tool": "a tool",
    "permission": "an answer to a permission request",
    "answer": "an answer of the user",
}


class Doing(NamedTuple):
    """What is being waited for, and its name if it has one."""

    what: What
    name: str = ""

    @property
    def phrase(self) -> str:
        """For a sentence that ends with "waiting for"."""
        return f"{_PHRASES[self.what]}: {self.name}" if self.name else _PHRASES[self.what]


class Activity:
    """The steps of one run. Times are values of `time.monotonic`."""

    def __init__(self) -> None:
        self.started = monotonic()
        self.phase: Phase = "starting"
        self.reached: dict[Phase, float] = {"starting": self.started}
        self.asking = ""
        """What permission is being asked for; empty if no question is open."""
        self.has_open_form = False
        self._notice = ""

    @property
    def elapsed_seconds(self) -> float:
        return monotonic() - self.started

    def enter(self, phase: Phase) -> None:
        """Note that the next step has begun."""
        self.phase = phase
        self.reached[phase] = monotonic()

    def restart(self) -> None:
        """Begin again with another process; the time goes on."""
        now = monotonic()
        self.phase, self.reached = "starting", {"starting": now}
        self.asking = self._notice = ""
        self.has_open_form = False

    def spent_ms(self, phase: Phase) -> int | None:
        """Return how long a step took, or has taken so far; None if it was not reached."""
        begin = self.reached.get(phase)
        if begin is None:
            return None
        end = min((at for at in self.reached.values() if at > begin), default=monotonic())
        return round((end - begin) * 1000)

    def durations(self) -> RunDurations:
        """Return how long each step took."""
        from dragoman.runs.result import RunDurations

        return RunDurations(
            start_ms=self.spent_ms("starting"),
            session_ms=self.spent_ms("opening"),
            turn_ms=self.spent_ms("working"),
        )

    def note_update(self, update: v1.SessionUpdate) -> None:
        """Keep the last notice about the model; anything else shows that the model goes on.

        The built-in agent sends notices as thoughts to clients that cannot show notices.
        """
        kind = type(update).__name__  # by name: the protocol's types are loaded after the agent was started
        if kind in ("Notice", "AgentThoughtChunk"):
            shown = update if kind == "Notice" else getattr(update, "content", None)
            text = getattr(shown, "title" if kind == "Notice" else "text", None)
            self._notice = text.strip() if isinstance(text, str) and _RETRY.search(text[:_LONGEST]) else ""
        elif kind not in ("UsageUpdate", "SessionInfoUpdate"):
            self._notice = ""

    def now(self, state: SessionState | None, stderr_tail: str = "") -> Doing:
        """Return what is being waited for."""
        if self.phase == "starting":
            return Doing("start")
        if self.asking:
            return Doing("permission", self.asking[:_LONGEST])
        if self.has_open_form:
            return Doing("answer")
        if self.phase == "opening" or state is None:
            return Doing("session")
        call = running_call(state)
        if call is not None:
            return Doing("tool", name_of(call)[:_LONGEST])
        if self._notice:
            return Doing("retry", self._notice[:_LONGEST])
        last_line = stderr_tail.rstrip().rpartition("\n")[2].strip()
        return Doing("retry", last_line[:_LONGEST]) if _RETRY.search(last_line) else Doing("model")


def running_call(state: SessionState) -> ToolCallState | None:
    """Return the tool call of the last turn that began last and has not ended."""
    turn = len(state.turns) - 1
    calls = (call for call in reversed(list(state.tool_calls.values())) if call.turn == turn)
    return next((call for call in calls if call.is_running), None)


def name_of(call: ToolCallState) -> str:
    """Return a tool call in a few words: its kind, and its command or title."""
    title = call.title or call.name or call.id
    raw = call.raw_input
    command = raw.get("command") if isinstance(raw, dict) else None
    if isinstance(command, str) and command and title.lower() in (call.kind, "terminal", "bash", "shell"):
        title = command
    return title if title == call.kind else f"{call.kind}: {title}"
