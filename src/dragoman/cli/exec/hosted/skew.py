"""A host of another version: an idle one is replaced, a busy one is used by plain ACP, and never killed.

Loaded when there is such a host: a warm prompt starts without it.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from dragoman._version import __version__
from dragoman.cli.exits import CliError
from dragoman.host.local.build import PROTOCOL
from dragoman.host.local.place import find_places
from dragoman.host.local.start import reach_host
from dragoman.host.local.thin import HostLost, HostRefused, begin, begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.host.local.thin import ThinClient

_LEAVE_SECONDS: Final = 10.0


def settle_versions(client: ThinClient, note: Callable[[str], None]) -> tuple[ThinClient, bool]:
    """Ask the old host to leave, and start one of this version; a busy one stays.

    Returns:
        The connection to use, and whether only plain ACP is spoken on it.
    """
    old = str(client.hello.get("version", "of another version"))
    try:
        is_leaving = bool(client.call("_dragoman/retire").get("now"))
    except HostRefused:  # so old, or so new, that it does not know the method
        is_leaving = False
    if not is_leaving:
        note(f"host {old} is busy; this is {__version__}; it is replaced when idle")
        return client, True
    client.close()
    note(f"host {old} is replaced by {__version__}")
    deadline = monotonic() + _LEAVE_SECONDS
    while True:
        found = reach_host(find_places())
        try:
            hello = begun(found, begin(found))
        except HostLost:
            hello = {}
        if hello.get("protocol") == PROTOCOL:
            return found, False
        found.close()
        if monotonic() > deadline:
            raise CliError(f"host {old} does not leave", hint="end it: dragoman sessions --host shows its pid")
        sleep(0.02)


def listed_session(client: ThinClient, name: str, cwd: str) -> dict[str, Any] | None:
    """Return the session with a name in a folder, by `session/list` alone; None if there is none."""
    cursor: dict[str, str] = {}
    while True:
        page = client.call("session/list", cwd=cwd, **cursor)
        for listed in page.get("sessions", ()):
            own = (listed.get("_meta") or {}).get("dragoman") or {}
            if own.get("name") == name:
                state = str(own.get("state", "idle"))
                return {
                    "sessionId": listed["sessionId"],
                    "cwd": cwd,
                    "agent": str(own.get("agent", "the agent")),
                    "state": state,
                    "isBusy": state in ("running", "waiting"),
                    "hasAgent": True,
                    "terms": {},
                }
        if not isinstance(page.get("nextCursor"), str):
            return None
        cursor = {"cursor": page["nextCursor"]}
