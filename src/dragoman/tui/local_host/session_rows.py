"""The sessions of the local host as rows to choose from: over a connection of the client, or before there is one."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import METHOD_NOT_FOUND, ConfigError
from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, reach_host
from dragoman.host.local.thin import HostLost, HostRefused, begin, begun
from dragoman.text.visible import label
from dragoman.tui.values import ListedSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dragoman.client import RemoteAgent
    from dragoman.host.local.thin import ThinClient

_MOST_ROWS: Final = 500  # a user chooses among them
_ORDER: Final = {"waiting": 0, "running": 1}


async def read_rows(remote: RemoteAgent, most: int = _MOST_ROWS) -> list[ListedSession]:
    """Read the sessions of the host, the last used first. Raises: RequestError, ConnectionClosed."""
    rows: list[ListedSession] = []
    async for session in remote.sessions():
        rows.append(_row(session.session_id, session.cwd, session.title, session.updated_at, session.meta))
        if len(rows) >= most:
            break
    return rows


def rows_before_start() -> list[ListedSession]:
    """Read the same over a connection of its own, which starts a host if none runs. Blocks; empty without a host."""
    rows: list[ListedSession] = []
    with suppress(NoHost, HostLost, HostRefused, OSError), _connected() as client:  # the conversation meets it again
        cursor: dict[str, Any] = {}
        while len(rows) < _MOST_ROWS:
            page = client.call("session/list", **cursor)
            for session in page.get("sessions", ()):
                rows.append(
                    _row(
                        session["sessionId"],
                        session["cwd"],
                        session.get("title"),
                        session.get("updatedAt"),
                        session.get("_meta"),
                    )
                )
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


def _row(id: str, cwd: str, title: object, updated_at: object, meta: object) -> ListedSession:
    facts = meta.get("dragoman") if isinstance(meta, dict) else None
    facts = facts if isinstance(facts, dict) else {}
    cost, steps, ended = _object(facts, "cost"), _object(facts, "steps"), _object(facts, "ended")
    amount, name = cost.get("amount"), facts.get("name")
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
        questions=_number(facts, "questions"),
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
