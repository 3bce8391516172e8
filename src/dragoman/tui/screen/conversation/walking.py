"""The cursor over the blocks of a conversation, while it has the keyboard: the keys of vim and lazygit.

Owns which block is chosen, and the search. The cursor is drawn by reverse video in the first column, which shows
without colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from dragoman.view.copied import copied_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.screen.conversation.transcript import Transcript
    from dragoman.view.rails.values import RailLine

WALK_KEYS: Final = (
    ("j k", "in the conversation: next, previous block (also the arrows)"),
    ("gg G", "first, last block"),
    ("Ctrl+D Ctrl+U", "half a page down, up"),
    ("/ n N", "search, next, previous"),
    ("Enter", "open or close the block; its pictures larger or smaller"),
    ("y", "copy the block"),
    ("s", "changes side by side, from 120 columns"),
    ("o", "open the images of the block in another program"),
)
"""Keys of the conversation, for the help."""


class BlockWalk:
    """A walk over the blocks of one transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._position: int | None = None
        self._query: str | None = None  # that is being typed
        self._searched = ""
        self._message = ""
        self._last = ""  # the key before
        self.is_shown = False
        self._keys: dict[str, Callable[[], object]] = {
            "j": lambda: self._move(1),
            "down": lambda: self._move(1),
            "k": lambda: self._move(-1),
            "up": lambda: self._move(-1),
            "G": self._to_last,
            "end": self._to_last,
            "home": self._to_first,
            "ctrl+u": lambda: self.page(-0.5),
            "/": self._begin_search,
            "n": lambda: self._find(1),
            "N": lambda: self._find(-1),
            "enter": self._toggle,
            "y": self._copy,
            "s": transcript.toggle_side_by_side,
            "o": self._open_images,
        }

    @property
    def position(self) -> int | None:
        """The chosen block."""
        return self._position

    @property
    def prompt(self) -> str | None:
        """The line of the search, or its result; None if there is none."""
        return f"/{self._query}_" if self._query is not None else self._message or None

    def enter(self) -> None:
        """Choose the last block in sight: the conversation got the keyboard."""
        self.is_shown = True
        layout, transcript = self._transcript.layout_of, self._transcript
        if self._position is None or self._position not in layout.positions:
            last = min(layout.height, round(transcript.scroll_offset.y) + transcript.size.height) - 1
            self._position = layout.item_at(last)

    def leave(self) -> None:
        """Choose nothing: the keyboard is elsewhere."""
        self.is_shown, self._query, self._message = False, None, ""

    def key(self, key: str, character: str | None) -> bool:
        """Take a key; False if it has no meaning here."""
        self._transcript.refresh()
        if not self.is_shown:
            self.enter()
        if self._query is not None:
            return self._type(key, character)
        before, self._last = self._last, character or key
        self._message = ""
        if character == "g":
            if before == "g":
                self._to_first()
                self._last = ""
            return True
        action = self._keys.get(character or "") or self._keys.get(key)
        if action is None:
            return False
        action()
        return True

    def marked(self, line: RailLine, place: int) -> RailLine:
        """Return a line with the cursor, if it belongs to the chosen block."""
        if self._position is None or not line or self._transcript.layout_of.item_at(place) != self._position:
            return line
        (text, style), *rest = line
        return ((text[:1], "reverse"), (text[1:], style), *rest)

    def page(self, pages: float) -> None:
        """Scroll by a part of the page; the cursor goes along."""
        transcript = self._transcript
        lines = round(transcript.size.height * pages)
        transcript.scroll_to(y=transcript.scroll_y + lines, animate=False, force=True)
        place = round(transcript.scroll_offset.y) + transcript.size.height // 2
        self._position = transcript.layout_of.item_at(min(place, transcript.layout_of.height - 1))

    # Moving

    def _move(self, step: int) -> None:
        layout = self._transcript.layout_of
        positions = layout.positions
        at = self._position
        if at is None:
            self.enter()
            return
        at += step
        while at in positions and layout.place_of(at)[1] == 0:
            at += step
        if at in positions:
            self._go(at)
        elif step < 0:
            self._transcript.scroll_home(animate=False)
        else:
            self._transcript.follow()

    def _to_first(self) -> None:
        if self._transcript.layout_of.positions:
            self._go(self._transcript.layout_of.positions.start)
            self._transcript.scroll_home(animate=False)

    def _to_last(self) -> None:
        if self._transcript.layout_of.positions:
            self._position = self._transcript.layout_of.positions.stop - 1
            self._transcript.follow()

    def _go(self, position: int) -> None:
        """Choose a block, and bring it into sight."""
        self._position = position
        transcript = self._transcript
        start, height = transcript.layout_of.place_of(position)
        top, page = round(transcript.scroll_offset.y), transcript.size.height
        if start < top:
            transcript.freeze()
            transcript.scroll_to(y=start, animate=False, force=True)
        elif start + height > top + page:
            transcript.scroll_to(y=min(start, start + height - page), animate=False, force=True)

    # Searching

    def _begin_search(self) -> None:
        self._query = ""

    def _type(self, key: str, character: str | None) -> bool:
        assert self._query is not None
        if key == "enter":
            self._searched, self._query = self._query or self._searched, None
            self._find(-1)
        elif key == "escape":
            self._query = None
        elif key == "backspace":
            self._query = self._query[:-1] if self._query else None
        elif character is not None and character.isprintable():
            self._query += character
        return True

    def _find(self, step: int) -> None:
        """Go to the next block that contains the text, around the end."""
        transcript = self._transcript
        positions, state = transcript.layout_of.positions, transcript.shown
        if not self._searched or not positions or state is None:
            return
        wanted = self._searched.casefold()
        chosen = self._position
        at = positions.index(chosen) if chosen is not None and chosen in positions else 0
        for distance in range(1, len(positions) + 1):
            position = positions[(at + step * distance) % len(positions)]
            blocks = transcript.layout_of.blocks_at(position, state)
            if any(wanted in copied_text(block).casefold() for block in blocks):
                self._go(position)
                return
        self._message = f"not found: {self._searched}"

    # Acting

    def _toggle(self) -> None:
        transcript = self._transcript
        if self._position is None or transcript.shown is None:
            return
        transcript.layout_of.toggle(self._position, transcript.shown)
        transcript.freeze()
        transcript.fit_again()

    def _copy(self) -> None:
        transcript = self._transcript
        if self._position is None or transcript.shown is None:
            return
        blocks = transcript.layout_of.blocks_at(self._position, transcript.shown)
        text = "\n".join(map(copied_text, blocks))
        from dragoman.tui.screen.conversation.copy import copy_text

        copy_text(cast("TerminalApp", transcript.app), text)

    def _open_images(self) -> None:
        transcript = self._transcript
        if self._position is None or transcript.shown is None:
            return
        from dragoman.tui.screen.conversation.images import open_images

        self._message = open_images(transcript.layout_of.item(self._position, transcript.shown))
