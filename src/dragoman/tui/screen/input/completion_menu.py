"""The menu above the input: commands and files that complete the word at the cursor.

It never has the keyboard. The first row is marked at once: Enter and Tab take the marked row. A name that is typed to
its end is not taken but sent, unless the user moved the mark with Up or Down since the last letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from dragoman.text.terminal import fit
from dragoman.tui.completion import (
    ClientCommand,
    agent_commands,
    command_suggestions,
    file_suggestions,
    is_whole_name,
    word_at,
)
from dragoman.tui.screen.strips import strip_of
from dragoman.tui.values import short_agent
from dragoman.workspace.file_index import FileIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events

    from dragoman.tui.completion import CompletedWord, Suggestion
    from dragoman.tui.conversation import HostedConversation
    from dragoman.view.rails import Style

_ROWS: Final = 8
_NAME_COLUMNS: Final = 28


class CompletionMenu(Widget):
    """A menu of what completes a word, with the marked row."""

    DEFAULT_CSS = "CompletionMenu { display: none; height: auto; max-height: 9; }"

    class Clicked(Message):
        """The user clicked a row, which is chosen by that."""

    def __init__(
        self,
        shown_conversation: Callable[[], HostedConversation],
        client_commands: Sequence[ClientCommand],
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.marked = 0
        self._was_moved = False
        self._shown_conversation = shown_conversation
        self._client_commands = client_commands
        self._files: FileIndex | None = None
        self._word: CompletedWord | None = None
        self._closed_at: tuple[str, int] | None = None
        self._rows: Sequence[Suggestion] = ()
        self._text, self._cursor = "", 0

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self._rows)

    def look(self, text: str, cursor: int) -> None:
        """Show what completes the word at the cursor."""
        self._text, self._cursor = text, cursor
        word = word_at(text, cursor)
        place = None if word is None else (word.kind, word.start)
        if word is None or place != self._closed_at:
            self._closed_at = None
        if word is None or self._closed_at is not None:
            self._show(None, ())
        elif word.kind == "command":
            theirs = agent_commands(self._shown_conversation().state.commands)
            name = short_agent(self._shown_conversation().agent) or "agent"
            self._show(word, command_suggestions(word.query, theirs, self._client_commands, name))
        else:
            self._show(word, file_suggestions(word.query, self._index().paths))

    def moved(self, text: str, cursor: int) -> None:
        """Keep the menu as long as the cursor, which moved, is in the same word."""
        if (text, cursor) != (self._text, self._cursor):
            self.look(text, cursor)

    def _index(self) -> FileIndex:
        if self._files is None or self._files.folder != self._shown_conversation().folder:
            if self._files is not None:
                self._files.close()
            self._files = FileIndex(self._shown_conversation().folder)
        self._files.refresh(self._listed)
        return self._files

    def _listed(self) -> None:
        """Use a new list of files."""
        if self.is_attached and (self._word is None or self._word.kind == "file"):
            marked, was_moved = self.marked, self._was_moved
            self.look(self._text, self._cursor)
            if was_moved and marked < len(self._rows):
                self.marked, self._was_moved = marked, True

    def forget(self) -> None:
        """Close the menu: the text is another one."""
        self._text, self._cursor = "", 0
        self._show(None, ())

    def dismiss(self) -> bool:
        """Close the menu until another word is begun. False if it is not open."""
        if not self._rows or self._word is None:
            return False
        self._closed_at = (self._word.kind, self._word.start)
        self._show(None, ())
        return True

    def stop_listing(self) -> bool:
        """Stop a list of files that is being made for the word at the cursor; False if none is."""
        word = word_at(self._text, self._cursor)
        if self._files is None or not self._files.is_made_now or word is None or word.kind != "file":
            return False
        self._files.close()
        self._files = None
        self._closed_at = (word.kind, word.start)
        self._show(None, ())
        return True

    def move(self, step: int) -> None:
        """Mark the next row, or the one before."""
        self.marked, self._was_moved = (self.marked + step) % len(self._rows), True
        self.refresh()

    def take(self, *, by_enter: bool = False) -> tuple[CompletedWord, str] | None:
        """Return the word and what replaces it; None if there is nothing to take, or Enter is to send a whole name."""
        word = self._word
        if word is None or not self._rows:
            return None
        paths = self._files.paths if self._files is not None and word.kind == "file" else ()
        if by_enter and not self._was_moved and is_whole_name(word, self._rows, paths):
            return None
        return word, self._rows[self.marked].inserted

    def on_unmount(self) -> None:
        if self._files is not None:
            self._files.close()

    def on_click(self, event: events.Click) -> None:
        row = self._top() + event.y
        if event.y < min(_ROWS, len(self._rows)) and row < len(self._rows):
            event.stop()
            self.marked = row
            self.post_message(self.Clicked())

    # Drawing

    def _show(self, word: CompletedWord | None, rows: Sequence[Suggestion]) -> None:
        self._word, self._rows, self.marked, self._was_moved = word, rows, 0, False
        self.display = bool(rows)
        if rows:
            self.styles.height = min(_ROWS, len(rows)) + 1
            self.refresh()

    def _top(self) -> int:
        """Return the first row in sight."""
        return max(0, min(self.marked - _ROWS // 2, len(self._rows) - _ROWS))

    def render_line(self, y: int) -> Strip:
        width, shown = self.size.width, min(_ROWS, len(self._rows))
        if y < shown:
            return self._row(self._top() + y, width)
        if y > shown:
            return Strip.blank(width)
        more = f"{len(self._rows)} found · " if len(self._rows) > shown else ""
        if self._word is not None and self._word.kind == "command" and not self._word.query:
            more = "type to find the others · "
        enter = "Enter sends, Tab takes" if self.take(by_enter=True) is None else "Enter takes"
        return strip_of(((f"  {more}{enter} · Up, Down choose · Esc closes", "dim"),), width)

    def _row(self, number: int, width: int) -> Strip:
        row, is_chosen = self._rows[number], number == self.marked
        lead = "❯ " if is_chosen else "  "
        style: Style = "bold" if is_chosen else ""
        room = width - len(lead) - len(row.source) - 2
        if not row.detail:
            text = fit(row.shown, max(1, room))
            return strip_of(((f"{lead}{text}", style), (f"  {row.source}", "dim")), width)
        names = min(_NAME_COLUMNS, max(8, room // 2))
        name, detail = fit(row.shown, names), fit(row.detail, max(1, room - names - 1))
        return strip_of(((f"{lead}{name} ", style), (f"{detail}  {row.source}", "dim")), width)
