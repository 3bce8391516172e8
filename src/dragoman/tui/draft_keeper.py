"""Keeps the text of the input on disk, soon after typing stops, for the session that it belongs to."""

from __future__ import annotations

import os
from time import monotonic, time
from typing import TYPE_CHECKING, Final

from dragoman.tui.drafts import Draft, DraftFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.tui.attachments import Chip
    from dragoman.tui.conversation import HostedConversation

QUIET_SECONDS: Final = 0.3
LONGEST_SECONDS: Final = 2.0
"""A user who types without a pause has the text on disk at least so often."""


class DraftKeeper:
    """The draft of one input. `tick` is called several times a second."""

    def __init__(self, talk: Callable[[], HostedConversation], note: Callable[[str], None]) -> None:
        self._talk_now = talk
        self._note = note
        self._talk = talk()
        self._session = self._talk.session_id
        self._folder = self._talk.folder
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
            found = None if self._session is None else self._drafts.load(self._session)
            return found if found is not None else self._drafts.take_left()
        except OSError as error:
            self._failed(error)
            return None

    def changed(self, text: str, chips: Sequence[Chip]) -> None:
        """The text of the input is another one."""
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
        talk = self._talk_now()
        session, folder = talk.session_id, talk.folder
        if talk is self._talk and session == self._session and folder == self._folder:
            return None
        is_same = talk is self._talk and self._session is None and folder == self._folder
        before, left = self._session, self._talk
        self._session, self._talk = session, talk
        text, chips = self._shown
        self._unsaved = None
        if is_same:
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
            found = None if session is None else self._drafts.load(session)
        except OSError as error:
            self._failed(error)
            found = None
        found = found or self._without_session.pop(talk, None) or Draft("")
        self._shown = (found.text, found.chips)
        return found

    def put_before(self, talk: HostedConversation, text: str, chips: Sequence[Chip]) -> None:
        """Put a text before the draft of a conversation, on disk: its input is not on the screen."""
        folder = DraftFolder(talk.folder)
        try:
            before = folder.load(talk.session_id) or self._without_session.get(talk) or Draft("")
            is_shown = talk.session_id is None or talk is self._talk
            whole = Draft(f"{text}\n{before.text}" if before.text.strip() else text, [*chips, *before.chips])
            if talk.session_id is None:
                self._without_session[talk] = whole
            folder.save(talk.session_id, Draft(whole.text, whole.chips, os.getpid(), is_shown, time()))
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
