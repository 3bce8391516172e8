"""What a client does that meets a host of other code than its own: after an update it ends, and a new one goes on.

Loaded when there is such a host: a warm prompt starts without it. `daemon.py` has the host's part of it. A host whose
turns take long is waited for, because only one host writes the log of the sessions. What is waited for is shown at
once. A question may wait for a day, so a client that began nothing yet does not wait for its answer for long.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from dragoman._version import __version__
from dragoman.host.local.build import PROTOCOL
from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, reach_host
from dragoman.host.local.thin import HostLost, HostRefused, begin, begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.host.local.thin import ThinClient

    Work = list[dict[str, Any]]

LEAVE_SECONDS: Final = 20.0
"""How long a host that has nothing to do may take to end."""
ANSWER_SECONDS: Final = 60.0
"""How long a host is waited for that does nothing but wait for answers of a user."""
_LOOK_SECONDS: Final = 1.0


def retire(client: ThinClient, note: Callable[[str], None]) -> tuple[ThinClient, Work | None]:
    """Ask an outdated host to leave.

    Returns:
        The connection to use, and what the host on it still has to end: empty for a new host, None if it is not known,
        because the host does not know the method.

    Raises:
        NoHost: there is no new one.
    """
    version = str(client.hello.get("version", "of another version"))
    try:
        answer = client.call("_dragoman/retire")
    except HostRefused:  # so old, or so new, that it does not know the method
        answer = {}
    if not answer.get("now"):
        work = answer.get("work")
        return client, work if isinstance(work, list) else None
    client.close()
    if version == __version__:
        note("dragoman was changed; its host is replaced")
    else:
        note(f"host {version} is replaced by {__version__}")
    return next_host(), []


def next_host(role: str | None = None) -> ThinClient:
    """Connect to the host after one that leaves; it is started if none runs.

    Args:
        role: `observer` for a client that only looks.

    Raises:
        NoHost: the one before does not leave, or none can be started.
    """
    deadline = monotonic() + LEAVE_SECONDS
    while True:
        client = reach_host(find_places())
        try:
            hello = begun(client, begin(client, role=role))
        except HostLost:
            hello = {}
        if hello.get("protocol") == PROTOCOL and not hello.get("isOutdated"):
            return client
        client.close()
        if monotonic() > deadline:
            raise NoHost("the host before the update does not leave; end it: dragoman sessions --host shows its pid")
        sleep(0.02)


def wait_for_end(client: ThinClient, work: Work, deadline: float | None) -> ThinClient:
    """Wait until a host has ended its turns, and return a connection to the one after it.

    Args:
        client: The connection to the host that leaves.
        work: What it has to end.
        deadline: For the whole wait, by the monotonic clock; None for none.

    Raises:
        NoHost: nothing is left but questions, and no user answers them.
        TimeoutError: the time is up.
    """
    asked_at: float | None = None
    try:
        while True:
            now = monotonic()
            is_asking = all(session.get("state") == "waiting" for session in work)
            asked_at = (asked_at or now) if is_asking and work else None
            if asked_at is not None and now - asked_at > ANSWER_SECONDS:
                left = f"{left_in(work)}{remedy_for(work)}"
                raise NoHost(f"dragoman was updated, and its host cannot be replaced: it waits for {left}")
            if deadline is not None and now >= deadline:
                raise TimeoutError
            client.set_timeout(_LOOK_SECONDS if deadline is None else max(0.001, min(_LOOK_SECONDS, deadline - now)))
            try:
                client.read()
            except TimeoutError:
                client.set_timeout(LEAVE_SECONDS)
                work = client.call("_dragoman/retire").get("work") or []
    except HostLost:
        client.close()
        return next_host()


def left_in(work: Work) -> str:
    """Return what a host that leaves still has to end, for the end of a sentence about what waits for it."""
    found = []
    for session in work:
        what = "an answer" if session.get("state") == "waiting" else "the turn"
        found.append(f"{what} in {_name(session)}")
    return " and ".join(found) or "the end of its last turn"


def remedy_for(work: Work) -> str:
    """Return what a user can do about it, in brackets behind that sentence; empty if nothing is left."""
    found = []
    for session in work:
        name = _name(session)
        is_waiting = session.get("state") == "waiting"
        found.append(f"dragoman attach {name}, or: sessions cancel {name}" if is_waiting else f"sessions cancel {name}")
    first = "" if not found or found[0].startswith("dragoman") else "dragoman "
    return f" ({first}{'; '.join(found)})" if found else ""


def _name(session: dict[str, Any]) -> str:
    return str(session.get("name") or str(session.get("sessionId", "?"))[:8])
