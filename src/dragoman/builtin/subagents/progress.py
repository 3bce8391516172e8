"""What the user is shown of a running subagent: its tool calls, its last words, the time and the tokens.

Folds the updates of the run, so that it is the same for the built-in agent and for another ACP agent. Bounded, however
long the run is. Pure, apart from the clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct

from dragoman.schema import v1
from dragoman.text.terminal import one_line, shorten

if TYPE_CHECKING:
    from dragoman.store.sessions import UsageRow

_SHOWN_CALLS: Final = 12
_TITLE_CHARACTERS: Final = 100
_LAST_CHARACTERS: Final = 400
_KEPT_CHARACTERS: Final = 8_000
_MARKS: Final = {"pending": "…", "in_progress": "…", "completed": "✓", "failed": "✗"}
# The elapsed time alone is a reason to show something this often.
_QUIET_SECONDS: Final = 5.0


def _short(title: str) -> str:
    return shorten(one_line(title), _TITLE_CHARACTERS)


class SeenCall(Struct):
    """One tool call of the subagent."""

    title: str
    status: str = "pending"
    is_reported: bool = False

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "failed")

    @property
    def line(self) -> str:
        return f"{_MARKS.get(self.status, '…')} {self.title}"


class RunProgress:
    """The progress of one run."""

    def __init__(self, name: str) -> None:
        self.calls: dict[str, SeenCall] = {}
        self.tokens = 0
        self.note = ""
        """What it waits for, if that is not the model or a tool."""
        self.limit = ""
        """The limit that ended it."""
        self._name = name
        self._text = ""
        self._message_id: object = UNSET
        self._began = time.monotonic()
        self._shown = ("", 0.0)

    @property
    def last_text(self) -> str:
        """The text since its last tool call, without the beginning of a very long one."""
        return self._text.strip()

    def take(self, update: v1.SessionUpdate) -> None:
        """Fold an update of the run."""
        if isinstance(update, v1.AgentMessageChunk):
            if update.message_id != self._message_id:
                self._text, self._message_id = "", update.message_id
            if isinstance(update.content, v1.TextContent):
                self._text = (self._text + update.content.text)[-_KEPT_CHARACTERS:]
        elif isinstance(update, v1.ToolCall):
            self.calls[update.tool_call_id] = SeenCall(_short(update.title), str(update.status or "pending"))
        elif isinstance(update, v1.ToolCallUpdate):
            call = self.calls.setdefault(update.tool_call_id, SeenCall("Tool call"))
            if isinstance(update.title, str) and update.title:
                call.title = _short(update.title)
            if isinstance(update.status, str):
                call.status = update.status

    def used(self, call: UsageRow) -> None:
        """Count a model call."""
        self.tokens += call.input + call.output + call.reasoning + call.cache_read + call.cache_write

    @property
    def summary(self) -> str:
        """One line: calls, seconds, tokens."""
        count = len(self.calls)
        parts = [f"{count} tool call{'' if count == 1 else 's'}", f"{time.monotonic() - self._began:.0f} s"]
        if self.tokens:
            parts.append(f"{self.tokens} tokens")
        return ", ".join(parts)

    @property
    def call_lines(self) -> str:
        """The last tool calls, one line for each."""
        calls = list(self.calls.values())
        before = len(calls) - _SHOWN_CALLS
        lines = [call.line for call in calls[-_SHOWN_CALLS:]]
        return "\n".join([*([f"({before} calls before)"] if before > 0 else []), *lines])

    def due(self) -> str | None:
        """Return the text to show, if something has changed since the last one or enough time has passed."""
        last = shorten(" ".join(self.last_text[-_LAST_CHARACTERS:].split()), _LAST_CHARACTERS)
        body = "\n".join(filter(None, (self.call_lines, self.note, last)))
        now = time.monotonic()
        if body == self._shown[0] and now - self._shown[1] < _QUIET_SECONDS:
            return None
        self._shown = (body, now)
        return f"{self._name}: {self.summary}\n{body}".rstrip()

    def ended_lines(self) -> list[str]:
        """Return the calls that have ended since this was last asked."""
        ended = [call for call in self.calls.values() if call.is_over and not call.is_reported]
        for call in ended:
            call.is_reported = True
        return [call.line for call in ended]
