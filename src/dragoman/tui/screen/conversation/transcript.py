"""The conversation: one scrolling view that draws the lines of the layout that are in sight.

Follows the end until the user scrolls up; then it stays where it is, and counts what comes below. While it has the
keyboard, a cursor walks over its blocks (see walking.py). Blocks from before the state begins are asked for when the
user comes near the top.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dragoman.tui.screen.strips import strip_of
from dragoman.view.rails.values import PICTURE_STYLE, RailView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.geometry import Region

    from dragoman.state import SessionState, TimelineItem
    from dragoman.tui.screen.conversation.highlighting import Highlighter
    from dragoman.tui.screen.conversation.pictures.shown import ShownPictures
    from dragoman.tui.screen.conversation.walking import BlockWalk
    from dragoman.view.blocks import TurnBlock
    from dragoman.view.layout import SessionLayout
    from dragoman.view.rails.values import Glyphs, RailLine, Run
    from dragoman.view.watched import WatchedSession

_SETTLED: Final = 60  # heights that are measured with one paint
_MOST_OLDER: Final = 30_000  # blocks from the log that are kept: far more than a user scrolls through


class Transcript(ScrollView, can_focus=True):
    """The view of a session. While it is scrolled up it stays where it is, and counts the lines that came below."""

    # The place of the scroll bar is kept free, so that lines are not broken again when it appears.
    DEFAULT_CSS = "Transcript { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"

    class ReachedTop(Message):
        """The user is near the first block, and there may be older ones."""

    def __init__(self, glyphs: Glyphs, **settings: Any) -> None:
        super().__init__(**settings)
        self._view = RailView(
            80, glyphs, highlight=self._highlight, emulate=self._emulate, has_picture=self._has_picture
        )
        self._layout_of: SessionLayout | None = None
        self.unseen = 0
        self.has_older = False
        """Whether there are blocks before the first one."""
        self._shown: SessionState | None = None
        self.is_following = True
        """Whether the end is in sight, and stays there."""
        self._highlighter: Highlighter | None = None
        self._emulated: Any = None
        self._pictures: ShownPictures | None = None
        self._draws_pictures: bool | None = None  # None until there is one
        self._walk: BlockWalk | None = None
        self._drawn: tuple[int, int, list[RailLine]] = (0, -1, [])  # first line, height of the layout, lines

    # Reading

    @property
    def layout_of(self) -> SessionLayout:
        """Where the lines are. Made when there is something to show: the first frame has nothing."""
        if self._layout_of is None:
            from dragoman.view.layout import SessionLayout

            self._layout_of = SessionLayout(self._view)
        return self._layout_of

    @property
    def is_open(self) -> bool:
        """Whether thoughts and long outputs are shown whole."""
        return self._view.is_open

    @property
    def shown(self) -> SessionState | None:
        """The session that is shown."""
        return self._shown

    @property
    def walk(self) -> BlockWalk:
        """The cursor over the blocks."""
        if self._walk is None:
            from dragoman.tui.screen.conversation.walking import BlockWalk

            self._walk = BlockWalk(self)
        return self._walk

    # Changing

    def show_state(self, state: SessionState, watched: WatchedSession | None = None, *, is_new: bool = False) -> None:
        """Draw a session as it is now."""
        if self._layout_of is None and not state.timeline:
            return
        layout = self.layout_of
        if watched is not None:
            watched.now = monotonic()
        if state is not self._shown or is_new:
            self._shown = state
            layout.reset()
            self._walk = None
            self.unseen, self.is_following = 0, True
        before = layout.height
        has_changed = layout.update(state, watched)
        has_changed = layout.tick(state) or has_changed
        if self._emulated is not None and self._emulated.is_behind:
            self._emulated.is_behind = False
            layout.redraw()
            has_changed = True
        if not layout.is_settled:
            self._settle(state)
        elif not has_changed and not is_new:
            return
        self._fit(before)

    def toggle_open(self) -> None:
        """Show thoughts and long outputs whole, or closed again."""
        self._set_view(self._view._replace(is_open=not self._view.is_open))

    def toggle_side_by_side(self) -> None:
        """Show changes side by side, where there are columns enough, or as one column."""
        self._set_view(self._view._replace(is_side_by_side=not self._view.is_side_by_side))

    def mark_taken_back(self, places: frozenset[int]) -> None:
        """Mark the prompts at these places of the timeline: what their turns changed was taken back."""
        if places != self._view.taken_back:
            self._set_view(self._view._replace(taken_back=places))

    def follow(self) -> None:
        """Go to the end, and stay there."""
        self.is_following, self.unseen = True, 0
        self.scroll_end(animate=False)

    def add_older(self, items: Sequence[TimelineItem], ends: Mapping[int, TurnBlock], *, has_more: bool) -> None:
        """Put blocks from the log before the first one, with the ends of turns; what is in sight stays."""
        self.has_older = has_more and len(self.layout_of.positions) < _MOST_OLDER
        if self._shown is not None and items:
            added = self.layout_of.prepend(items, self._shown, ends)
            self._resize()
            self._scroll_by(added)

    def fit_again(self) -> None:
        """Take over a height that the layout changed by itself."""
        self._resize()
        self.refresh()

    def freeze(self) -> None:
        """Stay at this place until the user goes to the end."""
        self.is_following = False

    def choose_pictures(self) -> None:
        """Draw pictures as the settings say now."""
        self.end_pictures()
        self._draws_pictures = None
        self._set_view(self._view)

    def end_pictures(self) -> None:
        """Draw no more pictures, and let the terminal forget those that it has."""
        if self._pictures is not None:
            self._pictures.close()
        self._pictures, self._draws_pictures = None, False

    def _set_view(self, view: RailView) -> None:
        self._view = view
        if self._shown is None:
            if self._layout_of is not None:
                self._layout_of.view = view
            return
        top = self.layout_of.item_at(round(self.scroll_offset.y))
        self.layout_of.set_view(view, self._shown)
        self._fit(self.layout_of.height)
        if not self.is_following and top is not None:
            self.scroll_to(y=self.layout_of.place_of(top)[0], animate=False, force=True)

    def _settle(self, state: SessionState) -> None:
        """Measure some blocks whose height was estimated; what is in sight stays where it is."""
        anchor = None if self.is_following else self.layout_of.item_at(round(self.scroll_offset.y))
        moved = self.layout_of.settle(state, _SETTLED, anchor)
        if moved:
            self._resize()
            self._scroll_by(moved)

    def _fit(self, before: int) -> None:
        height = self.layout_of.height
        self._resize()
        if self.is_following:
            self._to_end()
        else:
            self.unseen += max(0, height - before)
        self.refresh()

    def _resize(self) -> None:
        self._drawn = (0, -1, [])
        size = Size(self.layout_of.view.width, self.layout_of.height)
        if size != self.virtual_size:
            # Not by assignment, which would lay out the whole screen again: only the scroll bar depends on it.
            self.set_reactive(ScrollView.virtual_size, size)
            self._scroll_update(size)

    def _scroll_by(self, lines: int) -> None:
        if not self.is_following:
            self.scroll_to(y=self.scroll_y + lines, animate=False, force=True, immediate=True)
        self.refresh()

    def _to_end(self) -> None:
        if self.is_following:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True, immediate=True)

    # Textual

    def on_resize(self, event: events.Resize) -> None:
        width = max(20, self.scrollable_content_region.width)
        if width != self._view.width:
            self._set_view(self._view._replace(width=width))
        self.call_after_refresh(self._to_end)  # a card that opens takes lines from the end

    def on_unmount(self) -> None:
        if self._highlighter is not None:
            self._highlighter.close()
        self.end_pictures()

    def on_focus(self) -> None:
        if self._shown is not None:  # Textual gives the keyboard to its first part before there is anything
            self.walk.enter()
            self.refresh()

    def on_blur(self) -> None:
        if self._walk is not None:
            self._walk.leave()
            self.refresh()

    def on_key(self, event: events.Key) -> None:
        if self._shown is not None and self.walk.key(event.key, event.character):
            event.stop()
            event.prevent_default()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.is_following = new_value >= self.max_scroll_y - 1
        if self.is_following:
            self.unseen = 0
        if new_value < self.size.height and self.has_older and new_value < old_value:
            self.has_older = False  # until the answer says whether there are more
            self.post_message(self.ReachedTop())

    def render_lines(self, crop: Region) -> list[Strip]:
        # Textual's own way costs more than all the rest of a paint: it puts borders, padding and a background around
        # each line again when the view scrolls by one. There are none here; what is left are the filters, for NO_COLOR.
        strips = [self.render_line(y) for y in crop.line_range]
        if filters := self.get_line_filters():
            _, background = self.background_colors
            for line_filter in filters:
                strips = [strip.apply_filter(line_filter, background) for strip in strips]
        first, last = crop.column_span
        if (first, last) != (0, self.size.width):
            strips = [strip.crop_extend(first, last, None) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._shown is None:
            return Strip.blank(width)
        walk = self._walk
        if walk is not None and walk.prompt is not None and y == self.size.height - 1:
            return strip_of(((walk.prompt, "reverse"),), width)
        place = y + round(self.scroll_offset.y)
        line = self._line(place)
        if line is None:
            return Strip.blank(width)
        if walk is not None and walk.is_shown:
            line = walk.marked(line, place)
        if line and line[-1][1].startswith(PICTURE_STYLE):
            return self._picture_strip(line, width)
        return strip_of(line, width)

    def _line(self, place: int) -> RailLine | None:
        """Draw one line; those of the whole screen are taken from the layout at once."""
        assert self._shown is not None
        first, height, lines = self._drawn
        top = round(self.scroll_offset.y)
        if height != self.layout_of.height or first != top:
            lines = self.layout_of.lines(top, self.size.height, self._shown)
            self._drawn = (top, self.layout_of.height, lines)
            first = top
        return lines[place - first] if 0 <= place - first < len(lines) else None

    # What the view asks for

    def _highlight(self, name: str, text: str) -> list[list[Run]] | None:
        if self._highlighter is None:
            from dragoman.tui.screen.conversation.highlighting import Highlighter

            self._highlighter = Highlighter(self._coloured)
        return self._highlighter(name, text)

    def _coloured(self) -> None:
        """Draw again with new colours. Called in the thread."""
        _ = self.app.call_later(self._recolour)

    def _recolour(self) -> None:
        self.layout_of.redraw()
        self._drawn = (0, -1, [])
        self.refresh()

    def _emulate(self, terminal: Any) -> list[list[Run]] | None:
        if self._emulated is None:
            if "\x1b" not in (terminal.output or ""):
                return None
            from dragoman.tui.screen.conversation.emulation import EmulatedTerminals

            self._emulated = EmulatedTerminals()
        found: list[list[Run]] | None = self._emulated(terminal)
        return found

    # Pictures

    def _has_picture(self, position: int, number: int) -> bool:
        if self._draws_pictures is None:
            from dragoman.tui.screen.conversation.pictures.shown import make_pictures

            self._pictures = make_pictures(self.app, self, self._image_at, self._pictures_ready)
            self._draws_pictures = self._pictures is not None
        return self._pictures is not None and self._pictures.has(position, number)

    def _image_at(self, position: int, number: int) -> str | None:
        from dragoman.tui.screen.conversation.images import image_data

        if self._shown is None:
            return None
        try:
            return image_data(self.layout_of.item(position, self._shown), number)
        except IndexError:  # a line of a session that is not shown any more
            return None

    def _picture_strip(self, line: RailLine, width: int) -> Strip:
        from dragoman.view.rails.pictures import row_of

        rail, (text, style) = line[:-1], line[-1]
        row = None if self._pictures is None else self._pictures.row(row_of(style))
        if row is None:
            return strip_of((*rail, (text, "")), width)
        before = strip_of(rail, sum(len(part) for part, _ in rail))
        return Strip.join([before, Strip(row, len(text))]).adjust_cell_length(width)

    def _pictures_ready(self) -> None:
        """Draw again with new pictures. Called in the thread."""
        _ = self.app.call_later(self._take_pictures)

    def _take_pictures(self) -> None:
        if self._pictures is None or self._shown is None:
            return
        for position in sorted(self._pictures.take()):
            if position in self.layout_of.positions:
                is_above = self.layout_of.place_of(position)[0] < round(self.scroll_offset.y)
                grown = self.layout_of.rewrite(position, self._shown)
                self._resize()
                if is_above:
                    self._scroll_by(grown)
                self._to_end()
        self._drawn = (0, -1, [])
        self.refresh()
