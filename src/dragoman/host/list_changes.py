"""Which sessions of a host have changed, for clients that watch the list of sessions.

A session notes that something of it has changed: one entry in a dict, whatever it was, and nothing is looked at. What a
client is sent is made when it is due, at most four times a second (`methods/watching.py`). Before the first watch
nothing is noted at all. Revisions belong to one run of the host: the mark before the number says so.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.session import HostedSession

_KEPT: Final = 4096  # changes of sessions; a client that is further behind gets the whole list


class WatchesList(Protocol):
    """A client that watches the list."""

    @property
    def client(self) -> HostConnection: ...

    def changed(self, id: str) -> None:
        """Take note that a session has changed, or is gone."""

    def shows(self, id: str) -> bool:
        """Whether the client was sent a session, and not that it is gone."""


class ListChanges:
    """The changes of a host's list of sessions."""

    def __init__(self) -> None:
        self.is_used = False
        """Whether a client has ever watched: only then changes are noted."""
        self._mark = secrets.token_hex(4)
        self._number = 0
        self._forgotten = 0
        self._changed: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._watches: dict[str, list[WatchesList]] = {}

    @property
    def revision(self) -> str:
        """The last change, as clients name it."""
        return f"{self._mark}.{self._number}"

    def note(self, session: HostedSession) -> None:
        """Note that something of a session has changed."""
        if self.is_used:
            self.note_id(session.record.principal, session.id)

    def note_id(self, principal: str, id: str) -> None:
        """Note a session that is not in memory, or is gone."""
        if not self.is_used:
            return
        self._number += 1
        self._changed[principal, id] = self._number
        self._changed.move_to_end((principal, id))
        if len(self._changed) > _KEPT:
            _, self._forgotten = self._changed.popitem(last=False)
        for watch in self._watches.get(principal, ()):
            watch.changed(id)

    def add(self, watch: WatchesList) -> None:
        """Let a client have the changes of its user's sessions."""
        self.is_used = True
        self._watches.setdefault(watch.client.visitor.principal, []).append(watch)

    def remove(self, watch: WatchesList) -> None:
        """Undo `add`."""
        principal = watch.client.visitor.principal
        self._watches[principal].remove(watch)
        if not self._watches[principal]:
            del self._watches[principal]

    def clients_of(self, principal: str) -> list[HostConnection]:
        """Return the clients of a user that watch the list."""
        return list({watch.client.key: watch.client for watch in self._watches.get(principal, ())}.values())

    def clients_shown(self, principal: str, id: str) -> list[HostConnection]:
        """Return the clients of a user in whose lists a session is."""
        watches = self._watches.get(principal, ())
        return list({watch.client.key: watch.client for watch in watches if watch.shows(id)}.values())

    def since(self, principal: str, revision: str) -> list[str] | None:
        """Return the sessions of a user that have changed behind a revision; None if that is not known any more."""
        mark, _, number = revision.partition(".")
        if mark != self._mark or not number.isascii() or not number.isdigit():
            return None
        if not self._forgotten <= int(number) <= self._number:
            return None
        return [id for (owner, id), at in self._changed.items() if owner == principal and at > int(number)]
