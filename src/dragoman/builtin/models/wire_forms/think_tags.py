"""Separates thoughts that a server sends as text: `<think>...</think>` at the beginning of an answer.

Owns this one habit of local servers that have no parser for the thoughts of their model. Tags anywhere else are text.
"""

from __future__ import annotations

from typing import Final, Literal

_BEGIN: Final = "<think>"
_END: Final = "</think>"


class ThinkTags:
    """Takes the text of an answer piece by piece."""

    def __init__(self) -> None:
        self._state: Literal["before", "thought", "between", "after"] = "before"
        self._held = ""

    @property
    def is_over(self) -> bool:
        """Whether everything that follows is text."""
        return self._state == "after"

    def feed(self, piece: str) -> tuple[str, str]:
        """Return the thought and the text that are certain so far; the rest is held until more arrives."""
        text = self._held + piece
        self._held = ""
        if self._state == "before":
            begun = text.lstrip()
            if not begun or (len(begun) < len(_BEGIN) and _BEGIN.startswith(begun)):
                self._held = text
                return "", ""
            if not begun.startswith(_BEGIN):
                self._state = "after"
                return "", text
            self._state = "thought"
            text = begun[len(_BEGIN) :]
        if self._state == "thought":
            thought, end, rest = text.partition(_END)
            if end:
                self._state = "between"
                return thought, self._behind(rest)
            kept = next((size for size in range(len(_END) - 1, 0, -1) if text.endswith(_END[:size])), 0)
            if kept:
                self._held = text[-kept:]
            return text[: len(text) - kept], ""
        return "", self._behind(text)

    def _behind(self, text: str) -> str:
        """Return the text without the empty lines that separate it from the thought."""
        if self._state == "between":
            text = text.lstrip("\n")
            if text:
                self._state = "after"
        return text

    def end(self) -> tuple[str, str]:
        """Return what was held when the answer has ended."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "thought" else ("", held)
