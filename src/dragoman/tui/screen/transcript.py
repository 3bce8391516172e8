"""The conversation: one scrolling view that draws the lines of the layout that are in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dragoman.tui.screen.strips import strip_of
from dragoman.view.layout import SessionLayout
from dragoman.view.rails import RailView

if TYPE_CHECKING:
    from textual import events

    from dragoman.state import SessionState
    from dragoman.view.rails import Glyphs


class Transcript(ScrollView, can_focus=True):
    """Shows a session. While it is scrolled up it stays where it is, and counts the lines that came below."""

    def __init__(self, glyphs: Glyphs, **settings: Any) -> None:
        super().__init__(**settings)
        self.layout_of = SessionLayout(RailView(80, glyphs))
        self.unseen = 0
        self._shown: SessionState | None = None
        self._is_following = True

    @property
    def is_open(self) -> bool:
        """Whether thoughts and long outputs are shown whole."""
        return self.layout_of.view.is_open

    def show_state(self, state: SessionState, *, is_new: bool = False) -> None:
        """Draw a session as it is now."""
        if state is not self._shown or is_new:
            self._shown = state
            self.layout_of.reset()
            self.unseen, self._is_following = 0, True
        before = self.layout_of.height
        if not self.layout_of.update(state) and not is_new:
            return
        self._fit(before)

    def toggle_open(self) -> None:
        """Show thoughts and long outputs whole, or closed again."""
        if self._shown is not None:
            view = self.layout_of.view
            self.layout_of.set_view(view._replace(is_open=not view.is_open), self._shown)
            self._fit(self.layout_of.height)

    def follow(self) -> None:
        """Go to the end, and stay there."""
        self._is_following, self.unseen = True, 0
        self.scroll_end(animate=False)

    def _fit(self, before: int) -> None:
        height = self.layout_of.height
        self.virtual_size = Size(self.layout_of.view.width, height)
        if self._is_following:
            # The limits of scrolling follow the size only after the next refresh.
            self.call_after_refresh(self._to_end)
        else:
            self.unseen += max(0, height - before)
        self.refresh()

    def _to_end(self) -> None:
        if self._is_following:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        width = max(20, self.scrollable_content_region.width)
        view = self.layout_of.view
        if self._shown is not None and width != view.width:
            self.layout_of.set_view(view._replace(width=width), self._shown)
            self._fit(self.layout_of.height)
        else:
            self.layout_of.view = view._replace(width=width)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._is_following = new_value >= self.max_scroll_y - 1
        if self._is_following:
            self.unseen = 0

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._shown is None:
            return Strip.blank(width)
        found = self.layout_of.lines(y + round(self.scroll_offset.y), 1, self._shown)
        return strip_of(found[0], width) if found else Strip.blank(width)
