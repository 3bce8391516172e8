"""What a user sent in a project, kept on disk: for Up, Down and the search of the input.

One file for each folder below the state folder, readable by its owner only, one JSON string a line. Several clients
append to it at once: a line is one write at the end of the file, under a lock that is also held while the file is
shortened. What is in a prompt is kept as it was typed, a secret in it, too; the file may be deleted at any time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.settings.places import state_dir
from dragoman.workspace.private import make_private_folder, open_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_ENTRIES: Final = 1_000
LONGEST_ENTRY: Final = 20_000
"""Characters; a longer text is not kept. What was pasted is mostly an attachment, and not in it."""
_SHORTEN_BYTES: Final = 4 << 20


def folder_key(folder: str) -> str:
    """Return the name of what is kept for a project folder: readable, and different for every path."""
    real = os.path.realpath(folder)
    name = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in os.path.basename(real))
    return f"{name[:40] or 'root'}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"


class PromptHistory:
    """The texts that were sent in one folder, the oldest first. A disk that cannot be written costs the file only."""

    def __init__(self, folder: str) -> None:
        self.problem = ""
        """Why the history is not kept on disk."""
        self._folder = str(state_dir() / "history")
        self._path = os.path.join(self._folder, f"{folder_key(folder)}.jsonl")
        self._entries: list[str] = []
        self._place: int | None = None
        self._kept = ""
        self.load()

    @property
    def entries(self) -> Sequence[str]:
        """The texts, the oldest first."""
        return self._entries

    def load(self) -> None:
        """Read the file; what other clients wrote is there then, too."""
        try:
            with open(self._path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 2 * _SHORTEN_BYTES))
                self._entries = _read_lines(file.read())
        except FileNotFoundError:
            return
        except OSError as error:
            self.problem = f"the history of the input cannot be read: {error.strerror}"

    def add(self, text: str, written: str | None = None) -> None:
        """Add a text that was sent; `written` is kept on disk, where attachments do not stand behind their words."""
        self._place = None
        if not self._entries or self._entries[-1] != text:
            self._entries = [*self._entries[-MOST_ENTRIES + 1 :], text]
        kept = text if written is None else written
        if len(kept) > LONGEST_ENTRY:
            return
        try:
            self._append(kept)
        except OSError as error:
            self.problem = f"the history of the input is not kept: {error.strerror}"

    def _append(self, text: str) -> None:
        make_private_folder(self._folder)
        line = msgspec.json.encode(text.encode("utf-8", "replace").decode()) + b"\n"
        with self._locked():
            descriptor = open_private(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line  # a writer was killed in the middle of its line
                os.write(descriptor, line)
                is_long = size > _SHORTEN_BYTES
            finally:
                os.close(descriptor)
            if is_long:
                self._shorten()

    def _shorten(self) -> None:
        with open(self._path, "rb") as file:
            entries = _read_lines(file.read())
        kept = b"".join(msgspec.json.encode(entry) + b"\n" for entry in _last_that_fit(entries))
        write_private(self._path, kept, is_synced=False)  # appending is not synced either

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = open_private(os.path.join(self._folder, ".lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    # Going through it

    def older(self, draft: str) -> str | None:
        """Return the text before the one shown; `draft` is kept until `newer` returns to it. None at the oldest."""
        if self._place is None:
            self._place, self._kept = len(self._entries), draft
        if self._place == 0:
            return None
        self._place -= 1
        return self._entries[self._place]

    def newer(self) -> str | None:
        """Return the text after the one that is shown, at last the draft. None if the draft is shown."""
        if self._place is None:
            return None
        self._place += 1
        if self._place >= len(self._entries):
            self._place = None
            return self._kept
        return self._entries[self._place]

    def stay(self) -> None:
        """Take the text that is shown as the draft from here on: the user changed it."""
        self._place = None

    def find(self, words: str, before: int | None = None) -> tuple[int, str] | None:
        """Return the newest text with these words, older than the place `before`; letters of any case match."""
        wanted = words.casefold()
        for place in range((len(self._entries) if before is None else before) - 1, -1, -1):
            if wanted in self._entries[place].casefold():
                return place, self._entries[place]
        return None


def _read_lines(data: bytes) -> list[str]:
    lines: list[str] = []
    for line in data.split(b"\n"):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # empty, or cut off by a kill
            text = msgspec.json.decode(line, type=str)
            if text and (not lines or lines[-1] != text):
                lines.append(text)
    return lines[-MOST_ENTRIES:]


def _last_that_fit(entries: Sequence[str]) -> list[str]:
    """Return the newest entries, at most half of the size at which the file is shortened."""
    kept: list[str] = []
    size = 0
    for entry in reversed(entries):
        size += len(entry.encode()) + 3
        if size > _SHORTEN_BYTES // 2:
            break
        kept.append(entry)
    return kept[::-1]
