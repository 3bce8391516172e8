"""The colours of the full screen: the terminal's own, or a dark or a light set that is painted, background included.

All lines name the sixteen colours of a terminal; a painted set says what each of them is. `auto` leaves them, and the
background, to the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter
from textual.theme import Theme

if TYPE_CHECKING:
    from textual.app import App
    from textual.color import Color as CellColour


class _Palette(NamedTuple):
    """A painted set of colours: text on its background, and the eight colours of a terminal, plain and bright."""

    name: str
    is_dark: bool
    background: str
    text: str
    surface: str
    accent: str
    plain: tuple[str, ...]
    """Black, red, green, yellow, blue, magenta, cyan, white."""
    bright: tuple[str, ...]


_DARK: Final = _Palette(
    name="dragoman-dark",
    is_dark=True,
    background="#191918",
    text="#ececea",
    surface="#242422",
    accent="#9bacff",
    plain=("#2b2b29", "#ff958c", "#74cd95", "#ebb75f", "#9bacff", "#d2a3ee", "#7fd0cf", "#b6b6b0"),
    bright=("#94948d", "#ffb4ad", "#97dcb0", "#f2cc8b", "#bac6ff", "#e0c1f4", "#a5dedd", "#ececea"),
)
_LIGHT: Final = _Palette(
    name="dragoman-light",
    is_dark=False,
    background="#ffffff",
    text="#1a1a18",
    surface="#efefec",
    accent="#3350c4",
    plain=("#1a1a18", "#b0241c", "#1c7040", "#8a5100", "#3350c4", "#7a3e9d", "#0b6a6a", "#696962"),
    bright=("#51514b", "#8f1d16", "#165a33", "#6e4100", "#29409d", "#62327e", "#085454", "#1a1a18"),
)
PAINTED: Final = {"dark": _DARK, "light": _LIGHT}


class Painting(LineFilter):
    """What gives every cell the colours of a palette: those that it names, and those that it leaves to the terminal."""

    def __init__(self, palette: _Palette) -> None:
        super().__init__()
        self._text = Color.parse(palette.text)
        self._background = Color.parse(palette.background)
        self._sixteen = [Color.parse(colour) for colour in (*palette.plain, *palette.bright)]
        self._painted: dict[Style, Style] = {}

    def apply(self, segments: list[Segment], background: CellColour) -> list[Segment]:
        """Return the cells of a line in these colours."""
        return [Segment(segment.text, self._paint(segment.style), segment.control) for segment in segments]

    def _paint(self, style: Style | None) -> Style:
        style = style or Style()
        painted = self._painted.get(style)
        if painted is None:
            front = self._colour(style.color, self._text)
            painted = self._painted[style] = style + Style(
                color=front, bgcolor=self._colour(style.bgcolor, self._background)
            )
        return painted

    def _colour(self, colour: Color | None, default: Color) -> Color:
        if colour is None or colour.type is ColorType.DEFAULT:
            return default
        is_named = colour.number is not None and colour.number < len(self._sixteen)
        return self._sixteen[colour.number] if is_named and colour.number is not None else colour


def use_theme(app: App[None], name: str, is_light: bool | None) -> None:
    """Paint with a theme of the settings; `is_light` is whether the terminal's own background is."""
    palette = None if app.no_color else PAINTED.get(name)
    app.ansi_color = palette is None
    # A filter of the application itself: a method in its place would be called for every line that is drawn.
    app._filters = [filter for filter in app._filters if not isinstance(filter, Painting)]
    if palette is None:
        app.theme = "ansi-light" if is_light else "ansi-dark"
        return
    if palette.name not in app.available_themes:
        app.register_theme(_theme(palette))
    app._filters.insert(0, Painting(palette))
    app.theme = palette.name


def _theme(palette: _Palette) -> Theme:
    """Return what Textual's own widgets take their colours from: the input and its cursor."""
    red, green, yellow = palette.plain[1:4]
    return Theme(
        name=palette.name,
        primary=palette.accent,
        accent=palette.accent,
        background=palette.background,
        surface=palette.background,
        panel=palette.surface,
        foreground=palette.text,
        success=green,
        warning=yellow,
        error=red,
        dark=palette.is_dark,
    )
