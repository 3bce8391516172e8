"""The sessions of the local host as rows to choose from: over a connection of the client, or before there is one."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import METHOD_NOT_FOUND, ConfigError
from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, reach_host
from dragoman.host.local.thin import HostLost, HostRefused, begin, begun
from dragoman.text.visible import label
from dragoman.tui.values import ListedSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dragoman.client import RemoteAgent
    from dragoman.host.local.thin import ThinClient

_MOST_ROWS: Final = 500  # a user chooses among them
_ORDER: Final = {"waiting": 0, "running": 1}
_WATCH: Final = "_dragoman/sessions/watch"
_UNWATCH: Final = "_dragoman/sessions/unwatch"


async def read_rows(remote: RemoteAgent, most: int = _MOST_ROWS) -> list[ListedSession]:
    """Read the sessions of the host, the last used first. Raises: RequestError, ConnectionClosed."""
    rows: list[ListedSession] = []
    async for session in remote.sessions():
        rows.append(_row(session.session_id, session.cwd, session.title, session.updated_at, session.meta))
        if len(rows) >= most:
            break
    return rows


class WatchedRows:
    """The sessions of the host, kept current by what it reports over one connection.

    Each watch has a name of its own, and the host reports of a watch only behind its answer. So what comes while the
    answer is not here yet is newer than it, and is kept for later. That does not hold for the further pages of a long
    list: what was reported meanwhile may be older than a page, and is asked for again.
    """

    def __init__(self) -> None:
        self._remote: RemoteAgent | None = None
        self._rows: dict[str, ListedSession] = {}
        self._names = count(1)
        self._name = ""
        self._early: list[dict[str, Any]] | None = None  # reports that came before the list; None at other times

    @property
    def is_current(self) -> bool:
        """Whether the host reports what changes."""
        return self._remote is not None and self._remote.is_open and self._early is None

    @property
    def is_starting(self) -> bool:
        """Whether the list was asked for, and has not come yet."""
        return self._early is not None

    @property
    def rows(self) -> list[ListedSession]:
        """The sessions, the last used first."""
        return sorted(self._rows.values(), key=lambda row: row.updated_at or "", reverse=True)

    async def start(self, remote: RemoteAgent) -> None:
        """Read the list over a connection, and take what changes from here on.

        Raises:
            RequestError, ConnectionClosed: the list did not come.
        """
        self._early = []
        try:
            found, revision, pages = await self._read(remote)
            if pages > 1 and self._early:
                before, self._early = self._name, []
                late, _, _ = await self._read(remote, after=revision)
                found.update(late)
                await remote.request(_UNWATCH, {"watchId": before})
            self._remote, self._rows = remote, found
            for params in self._early:
                self._note(params)
        finally:
            self._early = None

    def take(self, params: dict[str, Any]) -> bool:
        """Take a report of the host; gives whether the list is another one now."""
        if params.get("watchId") != self._name:
            return False
        if self._early is not None:
            self._early.append(params)
            return False
        self._note(params)
        return True

    async def _read(self, remote: RemoteAgent, **after: object) -> tuple[dict[str, ListedSession], object, int]:
        """Begin a watch; gives its rows, the revision of the first page, and how many pages there were."""
        self._name = f"terminal-{next(self._names)}"
        found: dict[str, ListedSession] = {}
        params: dict[str, object] = {"watchId": self._name, **after}
        revision, pages = None, 0
        while len(found) < _MOST_ROWS:
            page = await remote.request(_WATCH, params)
            revision, pages = revision or page.get("revision"), pages + 1
            found.update({row.session_id: row for row in _rows(page.get("sessions", ()))})
            if not isinstance(page.get("nextCursor"), str):
                break
            params = {"watchId": self._name, "cursor": page["nextCursor"]}
        return found, revision, pages

    def _note(self, params: dict[str, Any]) -> None:
        self._rows.update({row.session_id: row for row in _rows(params.get("changed", ()))})
        for id in params.get("removed", ()):
            self._rows.pop(id, None)


def can_watch(remote: RemoteAgent) -> bool:
    """Return whether a host reports changes of its list; older ones have to be asked."""
    meta = remote.capabilities.meta
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    return isinstance(own, dict) and _WATCH in (own.get("methods") or ())


def rows_before_start() -> list[ListedSession]:
    """Read the same over a connection of its own, which starts a host if none runs. Blocks; empty without a host."""
    rows: list[ListedSession] = []
    with suppress(NoHost, HostLost, HostRefused, OSError), _connected() as client:  # the conversation meets it again
        cursor: dict[str, Any] = {}
        while len(rows) < _MOST_ROWS:
            page = client.call("session/list", **cursor)
            rows += _rows(page.get("sessions", ()))
            if not isinstance(page.get("nextCursor"), str):
                break
            cursor = {"cursor": page["nextCursor"]}
    return rows


def end_session(row: ListedSession) -> None:
    """End the turn and the agent of a session; its history stays. Blocks. Raises: ConfigError."""
    _call("_dragoman/release", sessionId=row.session_id)


def fork_session(row: ListedSession) -> str:
    """Copy a session at its end; gives the id of the copy. Blocks. Raises: ConfigError."""
    params = {"sessionId": row.session_id, "cwd": row.folder, "mcpServers": []}
    try:
        with _connected() as client:
            return str(client.call("session/fork", **params, _meta={"dragoman": {"keepsServers": True}})["sessionId"])
    except HostRefused as error:
        is_unknown = error.code == METHOD_NOT_FOUND
        raise ConfigError("its agent cannot copy a session" if is_unknown else f"not copied: {error}") from None
    except (NoHost, HostLost, OSError) as error:
        raise ConfigError(f"not copied: {error}") from None


def _call(method: str, **params: Any) -> Any:
    try:
        with _connected() as client:
            return client.call(method, **params)
    except (NoHost, HostLost, HostRefused, OSError) as error:
        raise ConfigError(f"the host did not do it: {error}") from None


@contextmanager
def _connected() -> Iterator[ThinClient]:
    client = reach_host(find_places())
    try:
        begun(client, begin(client, unstable=True))
        yield client
    finally:
        client.close()


def in_order(rows: list[ListedSession]) -> list[ListedSession]:
    """Sort what needs the user first, then what runs, then the last used."""
    return sorted(rows, key=lambda row: _ORDER.get(row.state, 2))


def is_gone(row: ListedSession) -> bool:
    """Return whether a session is not worth a line, unless everything is shown."""
    return row.state == "closed" or row.is_unused


def searched_text(row: ListedSession) -> str:
    """Return what the words of a filter are looked for in."""
    return " ".join(filter(None, (row.title, row.name, row.prompt, row.agent, row.word, row.folder, row.session_id)))


def words_at_start(rows: list[ListedSession], folder: str, key: str) -> str:
    """Return one line about the sessions of the host, for a client that begins with a new one; empty if there are none.

    Args:
        rows: the sessions.
        folder: whose earlier sessions are counted if nothing runs.
        key: what lists them.
    """
    running = sum(row.state == "running" for row in rows)
    asking = sum(row.state == "waiting" for row in rows)
    parts = []
    if running:
        parts.append("1 session runs" if running == 1 else f"{running} sessions run")
    if asking:
        who = "" if running else " session" if asking == 1 else " sessions"
        parts.append(f"{asking}{who} {'asks' if asking == 1 else 'ask'} you")
    if parts:
        return f"{', '.join(parts)}: {key}"
    earlier = sum(row.folder == folder and not is_gone(row) for row in rows)
    return f"{earlier} earlier session{'s' if earlier > 1 else ''} of this folder: {key}" if earlier else ""


def shown_cost(amount: float, currency: str) -> str:
    """Write an amount of money as a user reads it."""
    text = f"{amount:.2f}"
    return f"${text}" if currency == "USD" else f"{text} {label(currency, 4, '')}".rstrip()


def _rows(sessions: Iterable[Mapping[str, Any]]) -> Iterator[ListedSession]:
    for session in sessions:
        own = (session.get(name) for name in ("title", "updatedAt", "_meta"))
        yield _row(session["sessionId"], session["cwd"], *own)


def _row(id: str, cwd: str, title: object, updated_at: object, meta: object) -> ListedSession:
    facts = meta.get("dragoman") if isinstance(meta, dict) else None
    facts = facts if isinstance(facts, dict) else {}
    cost, steps, ended = _object(facts, "cost"), _object(facts, "steps"), _object(facts, "ended")
    amount, name, questions = cost.get("amount"), facts.get("name"), facts.get("questions")
    return ListedSession(
        session_id=id,
        name=name if isinstance(name, str) else None,
        agent=str(facts.get("agent", "")),
        folder=cwd,
        state=str(facts.get("state", "idle")),
        title=title if isinstance(title, str) else None,
        updated_at=updated_at if isinstance(updated_at, str) else None,
        cost=shown_cost(amount, str(cost.get("currency", ""))) if isinstance(amount, int | float) and amount else "",
        steps_done=_number(steps, "done"),
        steps_total=_number(steps, "total"),
        # Clients that watch the list get the questions themselves.
        questions=len(questions) if isinstance(questions, list) else _number(facts, "questions"),
        queued=_number(facts, "queued"),
        ended="error" if "error" in ended else str(ended.get("stopReason", "")),
        error=str(ended.get("error", "")),
        prompt=str(facts.get("prompt") or ""),
    )


def _object(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = members.get(name)
    return found if isinstance(found, dict) else {}


def _number(members: Mapping[str, Any], name: str) -> int:
    found = members.get(name)
    return found if isinstance(found, int) else 0
