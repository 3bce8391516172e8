"""Terminals in tool calls, as clients are shown them that do not run the terminal. Pure.

A `terminal` item of a tool call names a terminal that one party has: the host, the client that it delegates to, or the
agent itself, which then reports the output in `_meta`. Every other client is sent the output as text. Owns what is
known of the output, from events that were committed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple

import msgspec

SHOWN_CHARACTERS: Final = 64 * 1024
_REMEMBERED: Final = 256  # terminals of a session; a client shows the last ones


class TerminalPiece(NamedTuple):
    """What an update or an event reported of a terminal."""

    terminal: str
    text: str
    """What was added."""
    is_over: bool
    exit_code: int | None = None
    signal: str | None = None
    is_whole: bool = False
    """It is the end of everything so far, instead of what was added."""


class _Shown:
    __slots__ = ("exit_code", "is_cut", "text")

    def __init__(self) -> None:
        self.text = ""
        self.is_cut = False
        self.exit_code: int | None = None

    def add(self, text: str) -> None:
        self.text += text
        if len(self.text) > SHOWN_CHARACTERS:
            self.text, self.is_cut = self.text[-SHOWN_CHARACTERS:], True


class ShownTerminals:
    """The output of a session's terminals so far, and the tool calls that show them."""

    def __init__(self) -> None:
        self._terminals: OrderedDict[str, _Shown] = OrderedDict()
        self._contents: OrderedDict[str, list[Any]] = OrderedDict()

    def note_event(self, body: bytes) -> None:
        """Add output that the host logged."""
        output = logged_output(body)
        shown = self._shown(output.terminal)
        if output.is_whole:
            shown.text, shown.is_cut = "", True
        shown.add(output.text)
        if output.is_over:
            shown.exit_code = output.exit_code

    def exit_code(self, terminal: str) -> int | None:
        """Return the exit code of a terminal's command; None if it is not known, or was ended by a signal."""
        shown = self._terminals.get(terminal)
        return None if shown is None else shown.exit_code

    def note_update(self, update: dict[str, Any]) -> TerminalPiece | None:
        """Note a tool call as the agent sent it; gives the output that it reports in `_meta`, if it does."""
        call, content = str(update.get("toolCallId")), update.get("content")
        if isinstance(content, list):
            if any(_is_terminal(item) for item in content):
                self._contents[call] = content
                _bound(self._contents)
            else:
                self._contents.pop(call, None)
        output = reported_output(update)
        if output is not None:
            shown = self._shown(output.terminal)
            shown.add(output.text)
            if output.is_over:
                shown.exit_code = output.exit_code
        return output

    def calls_of(self, terminal: str) -> list[tuple[str, list[Any]]]:
        """Return the tool calls that show a terminal, with their content."""
        return [
            (call, content)
            for call, content in self._contents.items()
            if any(_is_terminal(item) and item.get("terminalId") == terminal for item in content)
        ]

    def as_text(self, content: list[Any]) -> list[Any]:
        """Return the content of a tool call with text in the place of terminals."""
        return [self._text(str(item.get("terminalId"))) if _is_terminal(item) else item for item in content]

    def _text(self, terminal: str) -> dict[str, Any]:
        shown = self._terminals.get(terminal) or _Shown()
        text = ("…\n" if shown.is_cut else "") + shown.text.rstrip("\n")
        fence = "```"
        while fence in text:
            fence += "`"
        return {"type": "content", "content": {"type": "text", "text": f"{fence}\n{text}\n{fence}"}}

    def _shown(self, terminal: str) -> _Shown:
        shown = self._terminals.get(terminal)
        if shown is None:
            shown = self._terminals[terminal] = _Shown()
            _bound(self._terminals)
        return shown


def terminals_in(content: Any) -> list[str]:
    """Return the terminals that the content of a tool call shows."""
    return [str(item.get("terminalId")) for item in content if _is_terminal(item)] if isinstance(content, list) else []


def logged_output(body: bytes) -> TerminalPiece:
    """Read what an event of the log reports."""
    found: dict[str, Any] = msgspec.json.decode(body)
    text = found.get("text")
    is_whole = isinstance(text, str)
    added = text if isinstance(text, str) else str(found.get("data") or "")
    code, signal = _ending(found.get("exit"), "exitCode")
    return TerminalPiece(str(found.get("terminalId")), added, "exit" in found, code, signal, is_whole)


def reported_output(update: dict[str, Any]) -> TerminalPiece | None:
    """Return output of a terminal that the agent runs itself: a convention of several agents."""
    meta = update.get("_meta")
    if not isinstance(meta, dict):
        return None
    output = meta.get("terminal_output_delta") or meta.get("terminal_output")
    ended = meta.get("terminal_exit")
    source = output if isinstance(output, dict) else ended
    if not isinstance(source, dict) or not isinstance(source.get("terminal_id"), str):
        return None
    data = output.get("data") if isinstance(output, dict) else ""
    text = data if isinstance(data, str) else ""
    return TerminalPiece(source["terminal_id"], text, isinstance(ended, dict), *_ending(ended, "exit_code"))


def renamed(content: list[Any], names: dict[str, str]) -> list[Any]:
    """Return the content with other ids of terminals."""
    return [
        {**item, "terminalId": names.get(str(item.get("terminalId")), item.get("terminalId"))}
        if _is_terminal(item)
        else item
        for item in content
    ]


def _ending(found: Any, code: str) -> tuple[int | None, str | None]:
    if not isinstance(found, dict):
        return None, None
    exit_code, signal = found.get(code), found.get("signal")
    return exit_code if isinstance(exit_code, int) else None, signal if isinstance(signal, str) else None


def _is_terminal(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "terminal"


def _bound(kept: OrderedDict[str, Any]) -> None:
    while len(kept) > _REMEMBERED:
        kept.popitem(last=False)
