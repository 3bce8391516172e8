"""Drafts: what was typed and not sent, kept on disk so that it survives the end of the client, even by `kill -9`.

One file for each session, in a folder for each project below the state folder. A draft of a session comes back when the
session does. One that was in the input of a client that ended comes back in the next client of the folder, whatever
session that opens; it is taken by one client only. While its client lives, another one does not take it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from dragoman.settings.places import state_dir
from dragoman.tui.attachments import Chip
from dragoman.tui.history import folder_key
from dragoman.workspace.private import make_private_folder, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.tui.conversation import HostedConversation

_LARGEST_BYTES: Final = 8 << 20
_OLDEST_SECONDS: Final = 30 * 24 * 3600.0
_MOST_FILES: Final = 200
QUIET_SECONDS: Final = 0.3
LONGEST_SECONDS: Final = 2.0
"""A user who types without a pause has the text on disk at least so often."""


class Draft(Struct, frozen=True):
    """A text with its attachments."""

    text: str
    chips: list[Chip] = []
    pid: int = 0
    """The client in whose input it is."""
    is_shown: bool = True
    """In the input of that client; False if the client went to another session."""
    at: float = 0.0


class DraftFolder:
    """The drafts of one project. Every method raises OSError if the disk does not do what it should."""

    def __init__(self, folder: str) -> None:
        self._folder = str(state_dir() / "drafts" / folder_key(folder))

    def save(self, session_id: str | None, draft: Draft) -> None:
        """Keep a draft, in one step; an empty one is removed."""
        path = self._path(session_id)
        if not draft.text:
            self.remove(session_id)
            return
        data = msgspec.json.encode(draft)
        if len(data) > _LARGEST_BYTES:
            data = msgspec.json.encode(msgspec.structs.replace(draft, chips=[]))
        make_private_folder(self._folder)
        write_private(path, data, is_synced=False)  # while the user types: a disk must not delay the keys

    def remove(self, session_id: str | None) -> None:
        """Forget a draft: it was sent, or deleted."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(session_id))

    def load(self, session_id: str | None) -> Draft | None:
        """Return the draft of a session, unless it is in the input of another client that lives."""
        draft = _read(self._path(session_id))
        return None if draft is None or _is_elsewhere(draft) else draft

    def take_left(self) -> Draft | None:
        """Return the newest draft that a client of this folder left at its end, and remove it: one client takes it."""
        drafts: list[tuple[float, str, Draft]] = []
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(".json")][:_MOST_FILES]
        except FileNotFoundError:
            return None
        for name in names:
            path = os.path.join(self._folder, name)
            draft = _read(path)
            if draft is None or time() - draft.at > _OLDEST_SECONDS:
                with suppress(OSError):
                    os.unlink(path)
            elif draft.is_shown and not _is_elsewhere(draft):
                drafts.append((draft.at, path, draft))
        for _, path, draft in sorted(drafts, key=lambda item: item[0], reverse=True):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue  # another client was faster
            return draft
        return None

    def _path(self, session_id: str | None) -> str:
        # Before there is a session, each client has a place of its own.
        name = f"new-{os.getpid()}" if session_id is None else hashlib.sha256(session_id.encode()).hexdigest()[:32]
        return os.path.join(self._folder, f"{name}.json")


def _read(path: str) -> Draft | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(_LARGEST_BYTES + 1), type=Draft)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_elsewhere(draft: Draft) -> bool:
    """Return whether it is in the input of another client that lives."""
    if not draft.is_shown or draft.pid in (0, os.getpid()):
        return False
    try:
        os.kill(draft.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # a process of another user has the number by now, or ours has: it is not taken away
    return True


class DraftKeeper:
    """The draft of one input. `tick` is called several times a second."""

    def __init__(self, shown_conversation: Callable[[], HostedConversation], note: Callable[[str], None]) -> None:
        self._shown_conversation = shown_conversation
        self._note = note
        self._conversation = shown_conversation()
        self._session = self._conversation.session_id
        self._folder = self._conversation.folder
        self._drafts = DraftFolder(self._folder)
        self._unsaved: tuple[str, Sequence[Chip]] | None = None
        self._shown: tuple[str, Sequence[Chip]] = ("", ())
        self._first_at = 0.0
        self._last_at = 0.0
        self._is_broken = False
        self._without_session: dict[HostedConversation, Draft] = {}
        """Drafts of conversations that were left before they had a session to keep them for."""

    def begin(self) -> Draft | None:
        """Return the draft to begin with: that of the session, else one that a client of this folder left."""
        try:
            draft = None if self._session is None else self._drafts.load(self._session)
            return draft if draft is not None else self._drafts.take_left()
        except OSError as error:
            self._failed(error)
            return None

    def changed(self, text: str, chips: Sequence[Chip]) -> None:
        """Note that the text of the input is another one."""
        now = monotonic()
        if self._unsaved is None:
            self._first_at = now
        self._last_at = now
        self._unsaved = self._shown = (text, chips)

    def tick(self) -> None:
        """Save what is old enough."""
        now = monotonic()
        if self._unsaved is not None and (
            now - self._last_at >= QUIET_SECONDS or now - self._first_at >= LONGEST_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Save what is not saved."""
        if self._unsaved is not None:
            (text, chips), self._unsaved = self._unsaved, None
            self._save(self._session, text, chips, is_shown=True)

    def follow(self) -> Draft | None:
        """Go with the conversation to another session; gives the draft to show there, None if it is the same session.

        A session that gets its id is the same one. The draft of the session that is left stays with it.
        """
        conversation = self._shown_conversation()
        session, folder = conversation.session_id, conversation.folder
        if conversation is self._conversation and session == self._session and folder == self._folder:
            return None
        is_same = conversation is self._conversation and self._session is None and folder == self._folder
        before, left = self._session, self._conversation
        self._session, self._conversation = session, conversation
        text, chips = self._shown
        self._unsaved = None
        if is_same:
            # In this order: a client that is killed between the two leaves the text twice, and not nowhere.
            self._save(session, text, chips, is_shown=True)
            self._remove(None)
            return None
        if before is None and text:
            self._without_session[left] = Draft(text, list(chips))
        self._save(before, text, chips, is_shown=False)
        if folder != self._folder:
            self._folder, self._drafts = folder, DraftFolder(folder)
        self._shown = ("", ())
        try:
            draft = None if session is None else self._drafts.load(session)
        except OSError as error:
            self._failed(error)
            draft = None
        draft = draft or self._without_session.pop(conversation, None) or Draft("")
        self._shown = (draft.text, draft.chips)
        return draft

    def put_before(self, conversation: HostedConversation, text: str, chips: Sequence[Chip]) -> None:
        """Put a text before the draft of a conversation, on disk: its input is not on the screen."""
        folder = DraftFolder(conversation.folder)
        try:
            before = folder.load(conversation.session_id) or self._without_session.get(conversation) or Draft("")
            is_shown = conversation.session_id is None or conversation is self._conversation
            whole = Draft(f"{text}\n{before.text}" if before.text.strip() else text, [*chips, *before.chips])
            if conversation.session_id is None:
                self._without_session[conversation] = whole
            folder.save(conversation.session_id, Draft(whole.text, whole.chips, os.getpid(), is_shown, time()))
        except OSError as error:
            self._failed(error)

    def _save(self, session: str | None, text: str, chips: Sequence[Chip], *, is_shown: bool) -> None:
        try:
            self._drafts.save(session, Draft(text, list(chips), os.getpid(), is_shown, time()))
        except OSError as error:
            self._failed(error)

    def _remove(self, session: str | None) -> None:
        try:
            self._drafts.remove(session)
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._note(f"drafts are not kept: {error.strerror}")
