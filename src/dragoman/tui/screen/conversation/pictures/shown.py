"""The pictures of one conversation: which are drawn, which wait for their thread, and which failed.

A row of a picture is asked for when it is painted. If the picture is not there, its place stays empty, and a thread
decodes it and makes its cells; when that is done, `changed` is called in the thread, and `take` on the event loop takes
over what is ready. Only what was painted last is kept, within limits; the rest is decoded again when it is painted
again. Images are known by what they contain, so a picture that is shown twice is one. A sharp picture is given to the
terminal once; it is deleted there when it is dropped here, and at the end.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dragoman.tui.screen.conversation.pictures.cells import half_blocks, placeholders, prepare
from dragoman.tui.screen.conversation.pictures.decoding import (
    MOST_CHARACTERS,
    PictureFailed,
    half_pixels,
    png_bytes,
)
from dragoman.tui.terminal.graphics import delete, transmit

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.segment import Segment

    from dragoman.tui.screen.conversation.pictures.cells import Colour, Rows
    from dragoman.tui.terminal.graphics import PictureForm
    from dragoman.view.rails.pictures import PictureRow

KEPT_PICTURES: Final = 200
KEPT_CELLS: Final = 24_000
"""Of all pictures, about 20 MB here, or 200 MB in a terminal with sharp ones. What is in sight must fit: pictures that
push each other out would be decoded all the time. A screen of 200 lines shows 100 pictures, or 16,000 cells of them."""
_WAITING: Final = 20  # pictures that wait; while one scrolls fast, the oldest are not needed any more
_FAILED: Final = 500

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
        found = self._drawn.get(key)
        if found is not None:
            self._drawn.move_to_end(key)
            return found.rows[place.row]
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
