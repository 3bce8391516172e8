"""Checks of what tool calls and terminals of version 2 show, and of what may be cancelled by itself."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from os.path import isabs
from typing import TYPE_CHECKING, Any, Final

from dragoman.schema import UNSET, Unknown, v2
from dragoman.text.patches import read_patch

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

_FINAL: Final = frozenset({"completed", "failed", "cancelled"})


class ToolChecks:
    """The tool calls and terminals of one session."""

    def __init__(self) -> None:
        self._terminals: set[str] = set()
        self._referred: set[str] = set()
        self._can_cancel: dict[tuple[str, str], bool] = {}
        self._ever: set[tuple[str, str]] = set()

    def check(self, frame: DecodedFrame, update: Any, facts: Facts) -> None:
        """Report what is wrong with an update about a tool call or a terminal; others say nothing here."""
        if isinstance(update, v2.ToolCallPatch):
            for place in update.locations or ():
                _check_path(frame, place.path, facts)
            for content in update.content or ():
                self._content(frame, content, facts)
            self._note_cancel(frame, ("tool call", update.tool_call_id), update, update.status in _FINAL, facts)
        elif isinstance(update, v2.ToolCallContentChunk):
            self._content(frame, update.content, facts)
        elif isinstance(update, v2.TerminalUpdate):
            self._terminals.add(update.terminal_id)
            if update.output:
                _check_bytes(frame, update.output.data, facts)
            self._note_cancel(frame, ("terminal", update.terminal_id), update, bool(update.exit_status), facts)
        elif isinstance(update, v2.TerminalOutputChunk):
            _check_bytes(frame, update.data, facts)

    def check_end(self, frame: DecodedFrame, facts: Facts) -> None:
        """Report, at the end of work, the terminals that are shown and that no update described."""
        for terminal_id in sorted(self._referred - self._terminals):
            facts.report(2040, frame, f"terminal {terminal_id!r} is content of a tool call, and no update describes it")
        self._referred.clear()

    def check_cancel(
        self, frame: DecodedFrame, request: v2.CancelToolCallRequest | v2.CancelTerminalRequest, facts: Facts
    ) -> None:
        """Report a cancel of something that never offered it."""
        if isinstance(request, v2.CancelToolCallRequest):
            key = ("tool call", request.tool_call_id)
        else:
            key = ("terminal", request.terminal_id)
        if key not in self._ever:
            facts.report(2041, frame, f"{key[0]} {key[1]!r} does not advertise capabilities.cancel")

    def _note_cancel(self, frame: DecodedFrame, key: tuple[str, str], update: Any, is_over: bool, facts: Facts) -> None:
        if update.capabilities is not UNSET:
            self._can_cancel[key] = bool(update.capabilities and update.capabilities.cancel)
            if self._can_cancel[key]:
                self._ever.add(key)
        if is_over and self._can_cancel.pop(key, False):
            facts.report(2043, frame, f"{key[0]} {key[1]!r} is over and still advertises cancel")

    def _content(self, frame: DecodedFrame, content: Any, facts: Facts) -> None:
        if isinstance(content, v2.Terminal):
            self._referred.add(content.terminal_id)
        if not isinstance(content, v2.Diff):
            return
        named = set()
        for change in content.changes:
            if not isinstance(change, Unknown):
                paths = [change.path, *([change.old_path] if isinstance(change, v2.DiffMove | v2.DiffCopy) else [])]
                named.update(paths)
                for path in paths:
                    _check_path(frame, path, facts)
        if content.patch and content.patch.format == "git_patch" and not facts.is_redacted:
            for hunk in read_patch(content.patch.text):
                if hunk.path not in named:
                    facts.report(2039, frame, f"the patch changes {hunk.path!r}, which changes does not list")
                    return


def _check_path(frame: DecodedFrame, path: str, facts: Facts) -> None:
    if not isabs(path) and not facts.is_redacted:
        facts.report(2017, frame, f"{path!r} is not an absolute path")


def _check_bytes(frame: DecodedFrame, data: str, facts: Facts) -> None:
    try:
        b64decode(data, validate=True)
    except (NotBase64, ValueError):
        if not facts.is_redacted:
            facts.report(2038, frame, "these bytes are not base64")
