"""The colours of code, found in a thread: the screen draws code at once, and again when its colours are known.

Asked only for what is on the screen. Pygments is imported in the thread, with the first code.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.view.rails import Run

_log = logging.getLogger("dragoman.tui")

_KEPT: Final = 200
_END_SECONDS: Final = 0.5
_KEPT_CHARACTERS: Final = 2_000_000
_WAITING: Final = 50  # texts that wait; while one scrolls fast, the oldest are not needed any more
# The first part of the name of a token that is known decides.
_STYLES: Final = (
    ("Token.Keyword", "keyword"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "type"),
    ("Token.Name.Builtin", "type"),
    ("Token.Name.Decorator", "name"),
    ("Token.Name.Tag", "keyword"),
    ("Token.Name.Attribute", "name"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Comment", "comment"),
)

Lines = list[list["Run"]]


class Highlighter:
    """A thread that finds colours, and calls `done` when there are new ones."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._coloured: OrderedDict[tuple[str, str], Lines | None] = OrderedDict()
        self._characters = 0
        self._asked: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, name: str, text: str) -> Lines | None:
        """Return the colours of a text, or None if they are not known yet; then they are looked for."""
        key = (name, text)
        with self._lock:
            if key in self._coloured:
                self._coloured.move_to_end(key)
                return self._coloured[key]
            if key not in self._asked:
                self._asked[key] = None
                while len(self._asked) > _WAITING:
                    self._asked.popitem(last=False)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="highlighting", daemon=True)
            self._thread.start()
        self._wake.put(True)
        return None

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._wake.put(False)
            # A lexer may need very long for a text of an agent; the user who leaves does not wait for it.
            self._thread.join(_END_SECONDS)
            self._thread = None

    def _work(self) -> None:
        while self._wake.get():
            with self._lock:
                if not self._asked:
                    continue
                key, _ = self._asked.popitem()  # the last one asked for is on the screen
            try:
                lines = colour_code(*key)
            except Exception:  # a defect of one of some hundred lexers: that text has no colours, the others have
                _log.debug("no colours for %r", key[0], exc_info=True)
                lines = None
            with self._lock:
                self._coloured[key] = lines
                self._characters += len(key[1])
                while len(self._coloured) > _KEPT or (self._characters > _KEPT_CHARACTERS and len(self._coloured) > 1):
                    (_, gone), _ = self._coloured.popitem(last=False)
                    self._characters -= len(gone)
            if lines is not None:
                self._done()


def colour_code(name: str, text: str) -> Lines | None:
    """Return the runs of each line of a text in a language, or of a named file; None if the language is not known."""
    from pygments.lexers import get_lexer_by_name, get_lexer_for_filename  # type: ignore[import-untyped]  # no types
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # no types

    options = {"stripnl": False, "ensurenl": False}
    try:
        lexer = get_lexer_for_filename(name, **options) if "." in name else get_lexer_by_name(name, **options)
    except ClassNotFound:
        return None
    lines: Lines = [[]]
    for kind, value in lexer.get_tokens(text):
        word = str(kind)
        style = next((style for prefix, style in _STYLES if word.startswith(prefix)), "")
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if piece:
                lines[-1].append((piece, style))
    if "\n".join("".join(piece for piece, _ in line) for line in lines) != text:
        return None  # a lexer that changes the text: what is shown would not be what is there
    return lines
