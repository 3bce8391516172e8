"""The pictures of one conversation: which are drawn, which wait for their thread, and which failed.

A row of a picture is asked for when it is painted. If the picture is not there, its place stays empty, and a thread
decodes it and makes its cells; when that is done, `changed` is called in the thread, and `take` on the event loop takes
over what is ready. Only what was painted last is kept, within limits; the rest is decoded again when it is painted
again. Images are known by what they contain, so a picture that is shown twice is one. A sharp picture is given to the
terminal once; it is deleted there when it is dropped here, and at the end.

Whether pictures are drawn is decided by the settings, the terminal, and whether Pillow is installed.
"""

from __future__ import annotations

import os
import random
import threading
from collections import OrderedDict
from importlib.util import find_spec
from itertools import count, groupby
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from unicodedata import category, combining, decomposition

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style

from dragoman.tui.screen.conversation.pictures.decoding import MOST_CHARACTERS, PictureFailed, half_pixels, png_bytes
from dragoman.tui.terminal.graphics import delete, picture_form, transmit
from dragoman.view.rails import ASCII

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.widget import Widget

    from dragoman.tui.terminal.graphics import PictureForm
    from dragoman.view.rails.pictures import PictureRow

KEPT_PICTURES: Final = 200
KEPT_CELLS: Final = 24_000
"""Of all pictures, about 20 MB here, or 200 MB in a terminal with sharp ones. What is in sight must fit: pictures that
push each other out would be decoded all the time. A screen of 200 lines shows 100 pictures, or 16,000 cells of them."""
_WAITING: Final = 20  # pictures that wait; while one scrolls fast, the oldest are not needed any more
_FAILED: Final = 500
PLACEHOLDER: Final = "\U0010eeee"
_UPPER, _LOWER, _EMPTY = "▀", "▄", " "
_SEEN: Final = 24  # of 255: less opacity is not seen
_LAST_MARK: Final = 0x6EC  # 85 marks up to here: more than a picture has columns
# Letters of the class "above" that the protocol leaves out, since they may be joined with what is before them.
_JOINED: Final = frozenset(
    map(chr, (*range(0x300, 0x305), *range(0x306, 0x30D), 0x30F, 0x311, 0x313, 0x314, 0x342, 0x653, 0x654))
)

Colour: TypeAlias = tuple[int, int, int]
Rows: TypeAlias = list[list[Segment]]
_Content: TypeAlias = tuple[int, int]
_Key: TypeAlias = tuple[_Content, int, int]


class PictureDrawing(NamedTuple):
    """How pictures are drawn on one terminal."""

    form: PictureForm
    background: Colour = (0, 0, 0)
    has_all_colours: bool = True
    is_tmux: bool = False


class _Drawn(NamedTuple):
    rows: Rows
    image_id: int = 0
    written: str = ""


class ShownPictures:
    """The pictures of a conversation that are in sight, or were not long ago."""

    def __init__(
        self,
        drawing: PictureDrawing,
        find: Callable[[int, int], str | None],
        write: Callable[[str], bool],
        changed: Callable[[], None],
    ) -> None:
        """Make a place for them.

        Args:
            drawing: how they are drawn.
            find: the base64 of the image that is this piece of the block at this position.
            write: sends text to the terminal as it is; False if that is not possible now.
            changed: called in the thread when something is ready.
        """
        self.drawing = drawing
        self._find, self._write, self._changed = find, write, changed
        self._drawn: OrderedDict[_Key, _Drawn] = OrderedDict()
        self._cells = 0
        self._failed: OrderedDict[_Content, None] = OrderedDict()
        self._places: dict[_Key, set[int]] = {}  # positions of what was asked for
        self._asked: OrderedDict[_Key, str] = OrderedDict()
        self._ready: list[tuple[_Key, _Drawn | None]] = []
        self._working: _Key | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Not from 1 on, which other programs in the same terminal begin with.
        first = random.randrange(1 << 16, 1 << 23) if drawing.has_all_colours else random.randrange(16, 200)
        self._ids = count(first)

    def has(self, position: int, number: int) -> bool:
        """Return whether there is, or may be, a picture of this piece."""
        data = self._find(position, number)
        return data is not None and len(data) <= MOST_CHARACTERS and _content(data) not in self._failed

    def row(self, place: PictureRow) -> list[Segment] | None:
        """Return the cells of a row; None if they are not known yet, and then they are made."""
        data = self._find(place.position, place.number)
        if data is None:
            return None
        key = (_content(data), place.columns, place.rows)
        drawn = self._drawn.get(key)
        if drawn is not None:
            self._drawn.move_to_end(key)
            return drawn.rows[place.row]
        if key[0] not in self._failed:
            self._ask(key, data, place.position)
        return None

    def take(self) -> set[int]:
        """Take over what the thread made. Returns: the positions of blocks whose picture failed."""
        with self._lock:
            ready, self._ready = self._ready, []
        failed: set[int] = set()
        for key, drawn in ready:
            places = self._places.pop(key, set())
            if drawn is None:
                failed |= places
                self._failed[key[0]] = None
                while len(self._failed) > _FAILED:
                    self._failed.popitem(last=False)
            elif not drawn.written or self._write(drawn.written):
                # Among 240 numbers one comes again; the terminal then has the new image under it.
                for old in [key for key, kept in self._drawn.items() if drawn.image_id == kept.image_id > 0]:
                    del self._drawn[old]
                    self._cells -= old[1] * old[2]
                self._drawn[key] = drawn._replace(written="")
                self._cells += key[1] * key[2]
                self._drop(KEPT_PICTURES, KEPT_CELLS)
        return failed

    def forget(self) -> None:
        """Draw everything again: the terminal was left, and does not have its images any more."""
        if self.drawing.form == "sharp":
            self._drawn.clear()
            self._cells = 0

    def close(self) -> None:
        """End the thread, and delete the images of the terminal. A picture that is being decoded is not waited for."""
        with self._lock:
            self._is_closed = True
            self._asked.clear()
        self._wake.put(False)
        self._drop(0, 0)

    def _drop(self, most_pictures: int, most_cells: int) -> None:
        while self._drawn and (len(self._drawn) > most_pictures or self._cells > most_cells):
            key, gone = self._drawn.popitem(last=False)
            self._cells -= key[1] * key[2]
            if gone.image_id:
                self._write(delete(gone.image_id, is_tmux=self.drawing.is_tmux))

    def _ask(self, key: _Key, data: str, position: int) -> None:
        self._places.setdefault(key, set()).add(position)
        with self._lock:
            if key in self._asked or key == self._working or any(key == ready for ready, _ in self._ready):
                return
            self._asked[key] = data
            while len(self._asked) > _WAITING:
                gone, _ = self._asked.popitem(last=False)
                self._places.pop(gone, None)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="pictures", daemon=True)
            self._thread.start()
        self._wake.put(True)

    # The thread

    def _work(self) -> None:
        while self._wake.get():
            with self._lock:
                if not self._asked:
                    continue
                key, data = self._asked.popitem()  # the last one asked for is on the screen
                self._working = key
            drawn = self._draw(key, data)
            with self._lock:
                self._working = None
                if not self._is_closed:  # (under the lock: there is no loop to call after `close`)
                    self._ready.append((key, drawn))
                    self._changed()

    def _draw(self, key: _Key, data: str) -> _Drawn | None:
        _, columns, rows = key
        drawing = self.drawing
        try:
            if drawing.form == "blocks":
                made = half_blocks(half_pixels(data, columns, rows), columns, drawing.background)
                return _Drawn(prepare(made, has_all_colours=drawing.has_all_colours))
            png = png_bytes(data, columns, rows)
        except PictureFailed:
            return None
        image_id = next(self._ids)
        if not drawing.has_all_colours:
            image_id = 16 + image_id % 240
        written = transmit(image_id, png, columns, rows, is_tmux=drawing.is_tmux)
        return _Drawn(placeholders(image_id, columns, rows), image_id, written)


def _content(data: str) -> _Content:
    """Return what an image is known by: Python keeps the hash of a text with it, so it is computed once."""
    return hash(data), len(data)


def half_blocks(pixels: bytes, columns: int, background: Colour) -> Rows:
    """Make rows of cells from pixels of red, green, blue and opacity, two rows of pixels for a row of cells.

    Args:
        pixels: as many rows of pixels as there are, an even number.
        columns: how many pixels are in a row.
        background: of the terminal; what is half transparent is mixed with it.
    """
    line = 4 * columns
    rows = []
    for start in range(0, len(pixels), 2 * line):
        upper = _colours(pixels[start : start + line], background)
        lower = _colours(pixels[start + line : start + 2 * line], background)
        rows.append([_segment(pair, len(list(same))) for pair, same in groupby(zip(upper, lower, strict=True))])
    return rows


def prepare(rows: Rows, *, has_all_colours: bool) -> Rows:
    """Compute how the colours are written, which Rich does with the first use of each: up to 50 ms for a picture."""
    system = ColorSystem.TRUECOLOR if has_all_colours else ColorSystem.EIGHT_BIT
    for row in rows:
        for segment in row:
            if segment.style is not None:
                segment.style.render(segment.text, color_system=system)
    return rows


def _colours(pixels: bytes, background: Colour) -> Iterator[Colour | None]:
    for red, green, blue, opacity in zip(pixels[::4], pixels[1::4], pixels[2::4], pixels[3::4], strict=True):
        if opacity == 255:
            yield red, green, blue
        elif opacity < _SEEN:
            yield None
        else:
            rest = 255 - opacity
            yield (
                (red * opacity + background[0] * rest) // 255,
                (green * opacity + background[1] * rest) // 255,
                (blue * opacity + background[2] * rest) // 255,
            )


def _segment(pair: tuple[Colour | None, Colour | None], count: int) -> Segment:
    upper, lower = pair
    if upper is None:
        return Segment((_EMPTY if lower is None else _LOWER) * count, _style(lower, None))
    return Segment(_UPPER * count, _style(upper, lower))


def _style(front: Colour | None, back: Colour | None) -> Style:
    return Style.from_color(front and Color.from_rgb(*front), back and Color.from_rgb(*back))


def placeholders(image_id: int, columns: int, rows: int) -> Rows:
    """Make rows of cells that the terminal fills with the parts of an image that it has."""
    # A number of 256 colours stays what it is where the screen has no more of them.
    colour = Color.from_ansi(image_id) if image_id < 256 else Color.from_rgb(*image_id.to_bytes(3, "big"))
    style, signs = Style.from_color(colour), marks()
    return [
        [Segment("".join(f"{PLACEHOLDER}{signs[row]}{signs[column]}" for column in range(columns)), style)]
        for row in range(rows)
    ]


def marks() -> list[str]:
    """Return the letters that stand for the numbers from 0 on: marks above a letter that are not parts of others."""
    return [
        letter
        for letter in map(chr, range(0x300, _LAST_MARK + 1))
        if combining(letter) == 230 and category(letter) == "Mn" and not decomposition(letter) and letter not in _JOINED
    ]


def make_pictures(
    app: Any, node: Widget, find: Callable[[int, int], str | None], changed: Callable[[], None]
) -> ShownPictures | None:
    """Return a place for the pictures of a conversation; None if none are drawn.

    Args:
        app: the terminal client.
        node: the part of the screen that shows them.
        find: see `ShownPictures`, as is `changed`.
    """
    drawing = drawing_of(app)
    if not drawing.form:
        return None
    if find_spec("PIL") is None:
        if app.ui.pictures != "auto":
            # Not now, in the middle of a paint: the status line may have been drawn already.
            from dragoman.extras import install_command

            app.call_later(app.note, f"pictures need Pillow: {install_command('pictures')}")
        return None

    def write(text: str) -> bool:
        app.write_terminal(text)
        return not app.is_outside

    made = ShownPictures(drawing, find, write, changed)

    def resumed(_: object) -> None:
        """Draw again: another program had the terminal, which drops its images then."""
        made.forget()
        node.refresh()

    app.app_resume_signal.subscribe(node, resumed)
    return made


def drawing_of(app: Any) -> PictureDrawing:
    """Return how pictures are drawn now."""
    colours = None if app.no_color else app.console.color_system
    answers = app.answers
    form = picture_form(
        app.ui.pictures, os.environ, colours, is_ascii=app.glyphs is ASCII, has_graphics=answers.has_graphics
    )
    background = answers.background or ((0, 0, 0) if app.current_theme.dark else (255, 255, 255))
    return PictureDrawing(form, background, colours == "truecolor", bool(os.environ.get("TMUX")))
