"""The input: an editor of several lines with the keys of a shell, completion, history, attachments and a kept draft.

Printable keys only type. Enter sends (or runs, behind `!`), and a pasted line end never does. What was typed and not
sent belongs to the user: it is kept on disk for its session, and no key but a deletion removes it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.binding import Binding
from textual.css.query import NoMatches
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from dragoman.text.terminal import harmless
from dragoman.tui.attachments import (
    build,
    chip_before,
    chips_in,
    clean_paste,
    image_path,
    is_long_paste,
    listed,
    paste_chip,
    written_out,
)
from dragoman.tui.completion import literal_text, mentions
from dragoman.tui.drafts import DraftKeeper
from dragoman.tui.history import LONGEST_ENTRY, PromptHistory
from dragoman.tui.screen.input.completion_menu import CompletionMenu
from dragoman.tui.screen.input.input_hint import InputHint
from dragoman.tui.screen.input.shell_panel import ShellPanel
from dragoman.tui.screen.keys.actions import client_commands
from dragoman.tui.screen.strips import strip_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual import events
    from textual.widget import Widget

    from dragoman.schema import v1
    from dragoman.tui.attachments import Chip
    from dragoman.tui.conversation import HostedConversation

_TICK_SECONDS: Final = 0.15
_MOST_CHIPS: Final = 100
_MOST_CHARACTERS: Final = 32 << 20
"""Of all chips; those of prompts that were sent are kept for the history only as long as they fit."""
# The last two are how Textual names Shift+Enter and Alt+Enter in the form of xterm, which tmux sends too.
_NEW_LINE_KEYS: Final = frozenset({"ctrl+j", "alt+enter", "shift+enter", "shift+\r", "\r"})


def input_parts(shown_conversation: Callable[[], HostedConversation]) -> Iterable[Widget]:
    """Yield the input with what belongs above it. `shown_conversation` gives the one in sight, which may change."""
    yield ShellPanel(shown_conversation, id="shell")
    yield CompletionMenu(shown_conversation, client_commands(), id="menu")
    yield InputHint(id="hint")
    yield PromptInput(shown_conversation, id="input")


_PLACEHOLDER: Final = "ask for anything  / commands  @ files  ! shell  ? keys"


class PromptInput(TextArea):
    """The editor of the prompt."""

    DEFAULT_CSS = """
    PromptInput { height: auto; min-height: 1; max-height: 8; border: none; padding: 0 0 0 2; }
    PromptInput:focus { border: none; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("ctrl+f", "cursor_right", "forward", show=False),
        Binding("ctrl+b", "cursor_left", "back", show=False),
        Binding("alt+f", "cursor_word_right", "forward a word", show=False),
        Binding("alt+b", "cursor_word_left", "back a word", show=False),
        Binding("ctrl+y", "yank", "put back what was deleted", show=False),
        Binding("ctrl+underscore", "undo", "undo", show=False),
    ]

    class Sent(Message):
        """The user sent a text, with what is attached to it."""

        def __init__(self, text: str, blocks: Sequence[v1.ContentBlock] = (), *, is_literal: bool = False) -> None:
            super().__init__()
            self.text = text
            self.blocks = blocks
            self.is_literal = is_literal
            """It is a prompt, also if it begins with a slash."""

    class Noted(Message):
        """A sentence for the user."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, shown_conversation: Callable[[], HostedConversation], **settings: Any) -> None:
        super().__init__(soft_wrap=True, show_line_numbers=False, tab_behavior="focus", **settings)
        self.chips: dict[str, Chip] = {}
        self.was_typed = False
        """Whether the user began to type."""
        self.before_typing: Callable[[events.Key], bool] | None = None
        """Called with each key first: a letter may answer a question. True if the key is not to be typed."""
        self.on_their_way = 0
        """Texts that were sent and that the app has not got yet: a key behind Enter must not overtake them."""
        self._shown_conversation = shown_conversation
        self._history = PromptHistory(shown_conversation().folder)
        self._keeper = DraftKeeper(shown_conversation, self._note)
        self._folder = shown_conversation().folder
        self._killed = ""
        self._is_killing = False
        self._looked_at = ""
        self._search: tuple[str, int | None, str] | None = None  # the words, the place of the match, the draft
        self._building = asyncio.Lock()

    # Life

    def on_mount(self) -> None:
        draft = self._keeper.begin()
        if draft is not None:
            self.chips |= {chip.word: chip for chip in draft.chips}
            self.put(draft.text)
            self._note("the draft that was not sent is back")
        if self._history.problem:
            self._note(self._history.problem)
        self.set_interval(_TICK_SECONDS, self._tick)

    def on_unmount(self) -> None:
        self._keeper.flush()

    def _tick(self) -> None:
        with suppress(NoMatches):  # while the screen is taken down, its parts are gone one after the other
            self.follow_session()
            self._keeper.tick()
            if self.text == self._looked_at:
                return
            self._looked_at = self.text
            if mentions(self.text) or any(word in self.text for word in self.chips):
                self.run_worker(self._list_attached(self.text), exclusive=True, group="attached")
            else:
                self._hint.attached(())

    def save_draft(self) -> None:
        """Write the draft at once: the program ends, or is stopped."""
        self._keeper.flush()

    def follow_session(self) -> None:
        """Show the draft of the session in sight: before a key is taken, the input must belong to that session."""
        draft = self._keeper.follow()
        folder = self._shown_conversation().folder
        if folder != self._folder:
            self._folder = folder
            self._history = PromptHistory(self._folder)
        if draft is not None:
            self.chips |= {chip.word: chip for chip in draft.chips}
            self.put(draft.text)

    def _note(self, text: str) -> None:
        self.post_message(self.Noted(text))

    @property
    def _menu(self) -> CompletionMenu:
        return self.screen.query_one(CompletionMenu)

    @property
    def _panel(self) -> ShellPanel:
        return self.screen.query_one(ShellPanel)

    @property
    def _hint(self) -> InputHint:
        return self.screen.query_one(InputHint)

    @property
    def _cursor(self) -> int:
        """The place of the cursor as a number of characters."""
        row, column = self.cursor_location
        return sum(len(line) + 1 for line in self.document.lines[:row]) + column

    def _location(self, index: int) -> tuple[int, int]:
        """Return a number of characters as line and column."""
        before = self.text[:index]
        return before.count("\n"), index - before.rfind("\n") - 1

    # The text

    def put(self, text: str) -> None:
        """Show another text, with the cursor at its end."""
        self.text = harmless(text)
        self.move_cursor(self.document.end)
        self._menu.forget()
        self._keep_draft()

    def take_over(self, letter: str) -> None:
        """Go on with a letter that was typed in the conversation, and means nothing there."""
        self.screen.set_focus(self)  # at once: the next letter may be a key of the conversation
        _ = self.insert(letter, maintain_selection_offset=False)
        self._edited()

    def put_before(self, text: str) -> None:
        """Put a text before the draft, which stays."""
        self.put(f"{text}\n{self.text}" if self.text.strip() else text)

    def give_back(self, conversation: HostedConversation, text: str) -> None:
        """Put a text that was not sent before the draft of its conversation, whether that is in sight or not."""
        if conversation is self._shown_conversation() and self.is_attached:
            self.follow_session()
            self.put_before(text)
            self._keeper.flush()
        else:
            self._keeper.put_before(conversation, text, chips_in(text, self.chips))

    def attach(self, chip: Chip) -> None:
        """Put an attachment where the cursor is."""
        if len(self.chips) >= _MOST_CHIPS or sum(len(chip.text) for chip in self.chips.values()) > _MOST_CHARACTERS:
            self.chips = {chip.word: chip for chip in chips_in(self.text, self.chips)}
        self.chips[chip.word] = chip
        before = self.text[: self._cursor]
        lead = " " if before and not before[-1].isspace() else ""
        self.insert(f"{lead}{chip.word} ", maintain_selection_offset=False)
        self._keep_draft()

    def _keep_draft(self) -> None:
        """Note the text at once: when the session becomes another one, it must be known whose text it was."""
        if self._search is None:
            self._keeper.changed(self.text, chips_in(self.text, self.chips))

    def on_text_area_changed(self) -> None:
        self.follow_session()
        self._keep_draft()
        # The input may be of another height after this, and be somewhere else: the real cursor must follow.
        self.call_after_refresh(self._place_cursor)

    def render_line(self, y: int) -> Strip:
        """Return a line; an empty input says behind the cursor what can be typed, where there is room for all of it."""
        strip = super().render_line(y)
        width = self.content_size.width
        if self.text or y or width <= len(_PLACEHOLDER):
            return strip
        return Strip.join([strip.crop(0, 1), strip_of(((_PLACEHOLDER, "dim"),), width - 1)])

    def on_resize(self) -> None:
        self.call_after_refresh(self._place_cursor)

    def _place_cursor(self) -> None:
        """Put the real cursor where the text goes: an input method opens its window at the real cursor."""
        if self.has_focus:
            self.app.cursor_position = self.cursor_screen_offset

    async def _list_attached(self, text: str) -> None:
        rows = await asyncio.to_thread(listed, text, self._folder, dict(self.chips), self._shown_conversation().accepts)
        if self.text == text:
            with suppress(NoMatches):
                self._hint.attached(rows)

    # Keys

    async def _on_key(self, event: events.Key) -> None:
        self.follow_session()
        if self.before_typing is not None and self._search is None and self.before_typing(event):
            event.stop()
            event.prevent_default()
            return
        key = event.key
        if key not in ("ctrl+k", "ctrl+u", "ctrl+w", "alt+backspace", "ctrl+backspace"):
            self._is_killing = False
        taken = self._search_key(event) if self._search is not None else await self._take_key(key)
        if taken:
            event.stop()
            event.prevent_default()
            return
        before = self.text
        bound = self._bindings.key_to_bindings.get(key, ())
        if bound:
            # At once: a binding runs only after the key went up to the app, and letters typed behind it would overtake.
            event.stop()
            event.prevent_default()
            await self.run_action(bound[0].action)
            return
        await super()._on_key(event)
        if self.text != before:
            self._edited()

    async def _take_key(self, key: str) -> bool:
        """Do what a key means here; False if it only types or moves."""
        menu = self._menu
        if key == "enter":
            self._enter()
        elif key in _NEW_LINE_KEYS:
            self.insert("\n", maintain_selection_offset=False)
            self._edited()
        elif key == "ctrl+r":
            self._begin_search()
        elif key == "escape":
            return menu.dismiss() or self._panel.escape()
        elif key in ("up", "down") and menu.is_open:
            menu.move(-1 if key == "up" else 1)
        elif key == "up" and self._is_at_edge(-1):
            if self.text or not self._take_back_last():
                self._walk(self._history.older(self.text))
        elif key == "down" and self._is_at_edge(1):
            self._walk(self._history.newer())
        else:
            return False
        return True

    def _take_back_last(self) -> bool:
        """Take the prompt that waits last back into the input; False if none can be."""
        conversation = self._shown_conversation()
        for prompt in reversed(conversation.queued):
            if conversation.take_back(prompt):
                self.put(prompt.text)
                return True
        return False

    def clear_draft(self) -> bool:
        """Clear what was typed, into the history: Up brings it back. False if there is nothing."""
        return bool(self.take_text())

    def end_search(self) -> bool:
        """Leave the search of the history, with the draft as it was; False if none is searched."""
        if self._search is None:
            return False
        draft = self._search[2]
        self._end_search()
        self.put(draft)
        return True

    def stop_completion(self) -> bool:
        """Stop looking for files to complete; False if they are not looked for."""
        return self._menu.stop_listing()

    def _is_at_edge(self, step: int) -> bool:
        """Return whether the cursor is in the first (-1) or last line, as the lines are broken on the screen."""
        row = self.wrapped_document.location_to_offset(self.cursor_location).y
        return row == (0 if step < 0 else self.wrapped_document.height - 1)

    def _edited(self) -> None:
        """Note that the user changed the text."""
        self.was_typed = True
        self._history.stay()
        self._keep_draft()
        self._menu.look(self.text, self._cursor)

    def stop_shell(self) -> bool:
        """Stop the command behind `!` that runs; False if none does."""
        return self._panel.is_running and self._panel.escape()

    def on_text_area_selection_changed(self) -> None:
        with suppress(NoMatches):
            menu = self._menu
            if menu.is_open:
                menu.moved(self.text, self._cursor)

    # Completion

    def accept_suggestion(self, *, by_enter: bool = False) -> bool:
        """Put the marked row of the menu into the text; False if there is none to take."""
        taken = self._menu.take(by_enter=by_enter)
        if taken is None:
            return False
        word, inserted = taken
        end = word.end
        if inserted.endswith(" ") and self.text[end : end + 1] == " ":
            end += 1
        _ = self.replace(inserted, self._location(word.start), self._location(end), maintain_selection_offset=False)
        self.move_cursor(self._location(word.start + len(inserted)))
        self._history.stay()
        self._keep_draft()
        if inserted.endswith("/"):
            self._menu.look(self.text, self._cursor)
        else:
            self._menu.forget()
        return True

    # Sending

    def _enter(self) -> None:
        if self.accept_suggestion(by_enter=True):
            return
        cursor = self._cursor
        if self.text[:cursor].endswith("\\"):
            start = self._location(cursor - 1)
            _ = self.replace("\n", start, self.cursor_location, maintain_selection_offset=False)
            self._edited()
            return
        text, literal = self.text.strip(), literal_text(self.text)
        if not text:
            return
        self.take_text()
        if text.startswith("!"):
            self._panel.ask(text[1:], self)
        else:
            self.send(literal or text, is_literal=literal is not None)

    def take_text(self) -> str:
        """Take the text out of the input, into the history."""
        text = self.text.strip()
        if text:
            self._history.add(text, written_out(text, self.chips, LONGEST_ENTRY // 4))
        self.text = ""
        self._menu.forget()
        self._keeper.changed("", ())
        self._keeper.flush()
        return text

    def send(self, text: str, *, is_literal: bool = False) -> None:
        """Send a text with what is attached to it; prompts are sent in the order in which they were typed."""
        has_more = bool(mentions(text)) or any(word in text for word in self.chips)
        self.on_their_way += 1
        if has_more or self._building.locked():
            self.run_worker(self._build_and_send(text, is_literal=is_literal), group="building")
        else:
            self.post_message(self.Sent(text, is_literal=is_literal))

    async def _build_and_send(self, text: str, *, is_literal: bool) -> None:
        async with self._building:
            self.post_message(self.Sent(text, await self.build(text), is_literal=is_literal))

    async def build(self, text: str) -> Sequence[v1.ContentBlock]:
        """Return the blocks of what is attached to a text; what cannot be sent becomes a note."""
        made = await asyncio.to_thread(build, text, self._folder, dict(self.chips), self._shown_conversation().accepts)
        for note in made.notes:
            self._note(note)
        return made.blocks

    # History

    def _walk(self, text: str | None) -> None:
        if text is not None:
            self.put(text)

    def _begin_search(self) -> None:
        self._menu.forget()
        self._search = ("", None, self.text)
        self._hint.searching("")

    def _search_key(self, event: events.Key) -> bool:
        """Return a key while the history is searched: Enter keeps what was found in the input and does not send it."""
        assert self._search is not None
        words, place, _ = self._search
        key = event.key
        if key == "escape":
            _ = self.end_search()
        elif key == "ctrl+r":
            self._find(words, place)
        elif key == "backspace":
            self._find(words[:-1], None)
        elif event.is_printable and event.character is not None:
            self._find(words + event.character, None if place is None else place + 1)
        else:
            self._end_search()
            return key in ("enter", "tab")
        return True

    def _end_search(self) -> None:
        if self._search is not None:
            self._search = None
            self._hint.searching(None)
            self._keep_draft()

    def _find(self, words: str, before: int | None) -> None:
        assert self._search is not None
        place = self._history.find(words, before) if words else None
        draft = self._search[2]
        if place is not None:
            self._search = (words, place[0], draft)
            self.put(place[1])
        else:
            self._search = (words, self._search[1], draft)
        self._hint.searching(words, has_match=place is not None or not words)

    # Pasting

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.follow_session()
        self._end_search()
        text = clean_paste(event.text)
        image = image_path(text, self._folder)
        if image is not None:
            self.insert(f"{image} ", maintain_selection_offset=False)
        elif is_long_paste(text):
            self.attach(paste_chip(text, self.chips))
        elif text:
            _ = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.was_typed = True
        self._history.stay()
        self._keep_draft()
        self._menu.forget()

    # Deleting

    def action_delete_left(self) -> None:
        chip = chip_before(self.text, self._cursor, self.chips) if self.selection.is_empty else None
        if chip is None:
            super().action_delete_left()
        else:
            start = self._location(self._cursor - len(chip.word))
            _ = self.delete(start, self.cursor_location, maintain_selection_offset=False)
        self._edited()

    def _kill(self, action: Callable[[], None]) -> None:
        """Delete, and keep what was deleted for Ctrl+Y; what is deleted at one place in a row is kept together."""
        before, cursor = self.text, self._cursor
        action()
        count, place = len(before) - len(self.text), self._cursor
        piece = before[place : place + count]
        if not self._is_killing:
            self._killed = piece
        else:
            self._killed = piece + self._killed if place < cursor else self._killed + piece
        self._is_killing = True
        self._edited()

    def action_delete_right(self) -> None:
        super().action_delete_right()
        self._edited()

    def action_delete_word_left(self) -> None:
        self._kill(super().action_delete_word_left)

    def action_delete_to_start_of_line(self) -> None:
        self._kill(super().action_delete_to_start_of_line)

    async def action_delete_to_end_of_line_or_delete_line(self) -> None:
        at_end = self.cursor_at_end_of_line
        self._kill(super().action_delete_right if at_end else super().action_delete_to_end_of_line)

    def action_yank(self) -> None:
        """Put back what was deleted last."""
        if self._killed:
            _ = self.replace(self._killed, *self.selection, maintain_selection_offset=False)
            self._edited()
