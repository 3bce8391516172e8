"""The input of the live region: history, completion, attachments and the draft around one buffer of prompt_toolkit.

Printable keys only type; a pasted line end never sends. What was typed and not sent is kept on disk for its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from dragoman.text.terminal import harmless
from dragoman.tui.attachments import (
    chip_before,
    chips_in,
    clean_paste,
    image_path,
    is_long_paste,
    paste_chip,
    written_out,
)
from dragoman.tui.completion import (
    agent_commands,
    command_suggestions,
    file_suggestions,
    is_whole_name,
    word_at,
)
from dragoman.tui.drafts import DraftKeeper
from dragoman.tui.history import LONGEST_ENTRY, PromptHistory
from dragoman.tui.lines.commands import client_commands
from dragoman.tui.values import short_agent
from dragoman.workspace.file_index import FileIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.tui.attachments import Chip
    from dragoman.tui.completion import CompletedWord, Suggestion
    from dragoman.tui.lines.client import LineClient


class InlineEditor:
    """The text that is being typed. `changed` is called when the live region is to be drawn again."""

    def __init__(self, client: LineClient, changed: Callable[[], None]) -> None:
        self.buffer = Buffer(multiline=True, on_text_changed=self._text_changed)
        self.rows: Sequence[Suggestion] = ()
        """What the word at the cursor can be completed to."""
        self.marked = 0
        self._was_moved = False
        self._client = client
        self._conversation = client.conversation
        self._changed = changed
        self._history = PromptHistory(self._conversation.folder)
        self._folder = self._conversation.folder
        self._keeper = DraftKeeper(lambda: self._conversation, client.note)
        self._word: CompletedWord | None = None
        self._closed_at: tuple[str, int] | None = None
        self._files: FileIndex | None = None
        self._search: tuple[str, int] | None = None  # the words that are searched, and where they were found
        self._is_putting = False

    @property
    def text(self) -> str:
        """What is typed."""
        return self.buffer.text

    @property
    def chips(self) -> dict[str, Chip]:
        """The attachments that words stand for."""
        return self._client.prompts.chips

    def begin(self) -> None:
        """Bring the draft back that was not sent."""
        draft = self._keeper.begin()
        if draft is not None and draft.text:
            self.chips.update({chip.word: chip for chip in draft.chips})
            self.put(draft.text)
            self._client.write("note: the draft that was not sent is back")
        if self._history.problem:
            self._client.note(self._history.problem)

    def tick(self) -> None:
        """Keep the draft, and let it go with its session. Called several times a second."""
        draft = self._keeper.follow()
        if self._conversation.folder != self._folder:
            self._folder = self._conversation.folder
            self._history = PromptHistory(self._folder)
        if draft is not None:
            self.chips.update({chip.word: chip for chip in draft.chips})
            self.put(draft.text)
        self._keeper.tick()

    def close(self) -> None:
        """Keep the draft: the client ends."""
        self._keeper.flush()
        if self._files is not None:
            self._files.close()

    # The text

    def put(self, text: str) -> None:
        """Show another text, with the cursor at its end."""
        safe = harmless(text)
        self._is_putting = True
        self.buffer.set_document(Document(safe, len(safe)), bypass_readonly=True)
        self._is_putting = False
        self._show(None, ())

    def put_before(self, text: str) -> None:
        """Put a text before the draft, which stays."""
        self.put(f"{text}\n{self.text}" if self.text.strip() else text)

    def attach(self, chip: Chip) -> None:
        """Put an attachment where the cursor is."""
        self.chips[chip.word] = chip
        before = self.buffer.document.text_before_cursor
        lead = " " if before and not before[-1].isspace() else ""
        self.buffer.insert_text(f"{lead}{chip.word} ")

    def take_back_last(self) -> bool:
        """Take the prompt that waits last back into the input; False if none can be."""
        for prompt in reversed(self._conversation.queued):
            if self._conversation.take_back(prompt):
                self.put(prompt.text)
                return True
        return False

    def take(self) -> str:
        """Take the text out of the input, into the history; a blank before a slash stays, which has a meaning."""
        text = self.text.strip()
        lead = " " if text.startswith("/") and self.text[:1].isspace() else ""
        if text:
            self._history.add(text, written_out(text, self.chips, LONGEST_ENTRY // 4))
        self.put("")
        self._keeper.changed("", ())
        self._keeper.flush()
        return f"{lead}{text}"

    def paste(self, data: str) -> None:
        """Put in what was pasted: a long text as an attachment, the path of an image as a mention."""
        text = clean_paste(data)
        image = image_path(text, self._folder)
        if image is not None:
            self.buffer.insert_text(f"{image} ")
        elif is_long_paste(text):
            self.attach(paste_chip(text, self.chips))
        else:
            self.buffer.insert_text(text)
        self._show(None, ())

    def delete_before(self) -> None:
        """Delete a letter, or an attachment whole."""
        document = self.buffer.document
        chip = chip_before(document.text, document.cursor_position, self.chips)
        _ = self.buffer.delete_before_cursor(1 if chip is None else len(chip.word))

    def begin_line(self) -> bool:
        """Replace a backslash before the cursor by a line end; False if there is none."""
        if not self.buffer.document.text_before_cursor.endswith("\\"):
            return False
        _ = self.buffer.delete_before_cursor(1)
        self.buffer.insert_text("\n")
        return True

    def _text_changed(self, buffer: Any) -> None:
        self._keeper.changed(self.text, chips_in(self.text, self.chips))
        if not self._is_putting:
            self._history.stay()
            self._search = None
            self.look()
        self._changed()

    # History

    def older(self) -> None:
        """Show what was sent before."""
        self._walk(self._history.older(self.text))

    def newer(self) -> None:
        """Show what was sent after that, at last the draft."""
        self._walk(self._history.newer())

    def search(self) -> bool:
        """Show the newest text with the words of the input, or the one before; False if there is none."""
        words, before = self._search or (self.text, None)
        place = self._history.find(words, before)
        if place is None:
            return False
        self.put(place[1])
        self._search = (words, place[0])
        return True

    def _walk(self, text: str | None) -> None:
        if text is not None:
            self.put(text)

    # Completion

    def look(self) -> None:
        """Find what the word at the cursor can be completed to."""
        word = word_at(self.text, self.buffer.cursor_position)
        place = None if word is None else (word.kind, word.start)
        if place != self._closed_at:
            self._closed_at = None
        if word is None or self._closed_at is not None:
            self._show(None, ())
        elif word.kind == "command":
            theirs = agent_commands(self._conversation.state.commands)
            name = short_agent(self._conversation.agent) or "agent"
            self._show(word, command_suggestions(word.query, theirs, client_commands(), name))
        else:
            self._show(word, file_suggestions(word.query, self._index().paths))

    def move(self, step: int) -> None:
        """Mark the next row, or the one before."""
        self.marked, self._was_moved = (self.marked + step) % len(self.rows), True
        self._changed()

    def accept(self, *, by_enter: bool = False) -> bool:
        """Put the marked row into the text; False if there is none, or Enter is to send a name that is whole."""
        word = self._word
        if word is None or not self.rows:
            return False
        paths = self._files.paths if self._files is not None and word.kind == "file" else ()
        if by_enter and not self._was_moved and is_whole_name(word, self.rows, paths):
            return False
        inserted, text, end = self.rows[self.marked].inserted, self.text, word.end
        if inserted.endswith(" ") and text[end : end + 1] == " ":
            end += 1
        self.put(text[: word.start] + inserted + text[end:])
        self.buffer.cursor_position = word.start + len(inserted)
        if inserted.endswith("/"):
            self.look()
        return True

    def dismiss(self) -> bool:
        """Close the menu until another word is begun. False if it is not open."""
        if not self.rows or self._word is None:
            return False
        self._closed_at = (self._word.kind, self._word.start)
        self._show(None, ())
        return True

    def _show(self, word: CompletedWord | None, rows: Sequence[Suggestion]) -> None:
        self._word, self.rows, self.marked, self._was_moved = word, rows, 0, False
        self._changed()

    def _index(self) -> FileIndex:
        if self._files is None or self._files.folder != self._conversation.folder:
            if self._files is not None:
                self._files.close()
            self._files = FileIndex(self._conversation.folder)
        self._files.refresh(self._listed)
        return self._files

    def _listed(self) -> None:
        if self._word is None or self._word.kind == "file":
            marked, was_moved = self.marked, self._was_moved
            self.look()
            if was_moved and marked < len(self.rows):
                self.marked, self._was_moved = marked, True

    def stop_listing(self) -> bool:
        """Stop a list of files that is being made for the word at the cursor; False if none is."""
        word = word_at(self.text, self.buffer.cursor_position)
        if self._files is None or not self._files.is_made_now or word is None or word.kind != "file":
            return False
        self._files.close()
        self._files = None
        self._closed_at = (word.kind, word.start)
        self._show(None, ())
        return True
