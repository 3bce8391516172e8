"""A host of other code than this program: it is replaced when its turns have ended, and never killed.

Loaded when there is such a host: a warm prompt starts without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman._version import __version__
from dragoman.host.local.build import PROTOCOL
from dragoman.host.local.succession import left_in, remedy_for, retire, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.cli.exec.hosted.turn import TurnRequest
    from dragoman.host.local.thin import ThinClient


def settle_versions(
    client: ThinClient, request: TurnRequest, note: Callable[[str], None], deadline: float | None
) -> tuple[ThinClient, bool]:
    """Ask the old host to leave, wait for the end of its turns, and meet the new one.

    Returns:
        The connection to use, and whether only plain ACP is spoken on it.

    Raises:
        NoHost, TimeoutError: the old host does not leave in time.
    """
    old = str(client.hello.get("version", "of another version"))
    client, work = retire(client, note)
    if work is None:
        note(f"host {old} is busy; this is {__version__}; it is replaced when idle")
        return client, True
    if client.hello.get("protocol") == PROTOCOL and not client.hello.get("isOutdated"):
        return client, False
    is_wanted = any(session.get("name") == request.name and session.get("cwd") == request.cwd for session in work)
    if is_wanted and not request.queue:
        return client, client.hello.get("protocol") != PROTOCOL  # it refuses the prompt, as any session that works
    note(f"dragoman was updated; the prompt waits for {left_in(work)}{remedy_for(work)}")
    return wait_for_end(client, work, deadline), False


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
