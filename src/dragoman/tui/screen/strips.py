"""Lines of the view as cells of the screen. Every cell that shows text passes here."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from dragoman.text.terminal import one_line
from dragoman.tui.terminal.terminal_facts import ascii_signs

if TYPE_CHECKING:
    from dragoman.view.rails import RailLine

# The terminal's own sixteen colours: right on light, dark and high-contrast terminals.
STYLES: Final = {
    "": Style(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "italic": Style(italic=True),
    "strike": Style(strike=True),
    "link": Style(underline=True),
    "user": Style(color="cyan", bold=True),
    "good": Style(color="green"),
    "bad": Style(color="red", bold=True),
    "warn": Style(color="yellow"),
    "added": Style(color="green"),
    "removed": Style(color="red"),
    "changed": Style(reverse=True),
    "code": Style(color="blue"),
    "heading": Style(bold=True, underline=True),
    "reverse": Style(reverse=True),
    "keyword": Style(color="magenta"),
    "string": Style(color="green"),
    "number": Style(color="cyan"),
    "comment": Style(dim=True, italic=True),
    "name": Style(color="blue"),
    "type": Style(color="yellow"),
}
_ATTRIBUTES: Final = {
    "1": {"bold": True},
    "2": {"dim": True},
    "3": {"italic": True},
    "4": {"underline": True},
    "7": {"reverse": True},
    "9": {"strike": True},
}

# What joins emoji to one picture, colours its skin or makes a sign an emoji: terminals and Rich disagree about the
# width of the result, and what is behind it on the line would be drawn in another column. Without it all agree.
_JOINING: Final = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]|(?<=[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])\u200d")
_is_ascii = False


def use_ascii(is_ascii: bool) -> None:
    """Draw the signs between texts as ASCII on this terminal, or as they are."""
    global _is_ascii
    _is_ascii = is_ascii
    strip_of.cache_clear()


# A line that moves up the screen stays the same strip, and with it what Textual keeps of it: how it is divided, and its
# bytes for the terminal. Four large screens; a strip with all that takes about 4 KB.
@lru_cache(512)
def strip_of(line: RailLine, width: int, *, base: Style | None = None) -> Strip:
    """Return a line as cells, exactly as wide as the screen, without controls, which would act on the terminal."""
    below = base or Style()
    segments = [
        Segment(shown_text(text), below + (STYLES.get(style) or style_named(style))) for text, style in line if text
    ]
    return Strip(segments).adjust_cell_length(width, below)


def shown_text(text: str) -> str:
    """Return a text as this terminal can show it, without anything that acts on it."""
    # Only our own cells may be a part of a picture: this letter makes a terminal draw one.
    safe = text if text.isprintable() else one_line(text).replace("\U0010eeee", "\ufffd")
    if safe.isascii():
        return safe
    safe = _JOINING.sub("", safe)
    return ascii_signs(safe) if _is_ascii else safe


@lru_cache(1024)
def style_named(name: str) -> Style:
    """Return the style of a name, of several joined by `+`, or of terminal codes; nothing for an unknown one."""
    style = Style()
    for part in name.split("+"):
        style += _colours(part[4:].split(";")) if part.startswith("sgr:") else STYLES.get(part, STYLES[""])
    return style


def _colours(codes: list[str]) -> Style:
    attributes: dict[str, Any] = {}
    at = 0
    while at < len(codes):
        code = codes[at]
        if code in _ATTRIBUTES:
            attributes |= _ATTRIBUTES[code]
        elif code in ("38", "48") and len(codes) > at + 2:
            side = "color" if code == "38" else "bgcolor"
            if codes[at + 1] == "5":
                attributes[side] = Color.from_ansi(int(codes[at + 2]))
                at += 2
            elif len(codes) > at + 4:
                attributes[side] = Color.from_rgb(*map(int, codes[at + 2 : at + 5]))
                at += 4
        elif code.isdigit():
            number = int(code)
            bright = 8 if number >= 90 else 0
            side = "color" if number % 60 // 10 == 3 else "bgcolor"
            attributes[side] = Color.from_ansi(number % 10 + bright)
        at += 1
    return Style(**attributes)
