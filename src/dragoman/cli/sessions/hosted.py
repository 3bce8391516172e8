"""The sessions of the local host, with their live state; and what can be done with one from outside.

The host is asked if one runs, and never started for this. Without one, its log is read: then nothing runs, and a
session is `idle` until its next prompt.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.cli import exits
from dragoman.cli.console import json_of, write_json, write_note, write_table
from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, find_host, reach_host
from dragoman.host.local.thin import HostLost, HostRefused, ThinClient, begin, begun, connect_any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.cli.command import CliCall

NUMBER: Final = "ledgerNumber"
_HINT: Final = "dragoman sessions lists them"


class HostedEntry(Struct, frozen=True, kw_only=True):
    """One session of the local host."""

    session_id: str
    name: str | None
    agent: str
    folder: str
    state: str
    """`running`, `waiting`, `idle`, `lost`, `readOnly`, `stuck` or `closed`."""
    attached: int
    title: str | None = None
    updated_at: str | None = None
    agent_session: str | None = None
    """The id that the agent gave to it."""
    number: int | None = None
    """In the ledger."""
    is_used: bool = True
    """Whether something was ever sent to it: a client that only opened a prompt leaves one that is not."""


def hosted_sessions() -> list[HostedEntry]:
    """Return all sessions of the local host, the last used first; empty if there never was one. Raises: StoreError."""
    client = find_host(find_places())
    if client is None:
        return _from_log()
    try:
        return list(_listed(client))
    except (HostLost, HostRefused):
        return _from_log()
    finally:
        client.close()


def _listed(client: ThinClient) -> Iterator[HostedEntry]:
    cursor: dict[str, Any] = {}
    while True:
        page = client.call("session/list", **cursor)
        for session in page.get("sessions", ()):
            own = (session.get("_meta") or {}).get("dragoman") or {}
            yield HostedEntry(
                session_id=session["sessionId"],
                name=own.get("name"),
                agent=str(own.get("agent", "")),
                folder=session["cwd"],
                state=str(own.get("state", "idle")),
                attached=int(own.get("attached", 0)),
                title=session.get("title"),
                updated_at=session.get("updatedAt"),
                agent_session=own.get("agentSessionId"),
                number=own.get(NUMBER),
                is_used=_is_used({**own, "title": session.get("title")}),
            )
        if not isinstance(page.get("nextCursor"), str):
            return
        cursor = {"cursor": page["nextCursor"]}


def _from_log() -> list[HostedEntry]:
    import sqlite3
    from datetime import UTC, datetime

    from dragoman.host.history.facts import kept_state
    from dragoman.host.local.log_file import own_log_name
    from dragoman.settings.places import data_dir

    path = data_dir() / f"{own_log_name(data_dir())}.db"
    if not path.exists():
        return []
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2.0)
        try:
            rows = connection.execute(
                "SELECT id, agent, agent_session, cwd, facts, head, updated_at FROM hosted "
                "ORDER BY updated_at DESC, id DESC"
            ).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        write_note(f"the sessions of the local host cannot be read: {error}")
        return []
    found = []
    for id, agent, agent_session, cwd, facts, head, updated_at in rows:
        kept = msgspec.json.decode(facts)
        moment = datetime.fromtimestamp(updated_at, UTC).isoformat().replace("+00:00", "Z")
        found.append(
            HostedEntry(
                session_id=id,
                name=kept.get("name"),
                agent=agent,
                folder=cwd,
                state=kept_state(kept, head),
                attached=0,
                title=kept.get("title"),
                updated_at=moment,
                agent_session=agent_session,
                number=kept.get(NUMBER),
                is_used=_is_used(kept),
            )
        )
    return found


def _is_used(facts: dict[str, Any]) -> bool:
    return any(facts.get(name) for name in ("title", "name", "prompt", "ended"))


def pick_hosted(word: str, found: list[HostedEntry]) -> HostedEntry:
    """Return the session that a word names: its name, in this folder first, its @NUMBER, an id or the beginning of one.

    Raises:
        CliError: it names none, or several.
    """
    here = os.path.realpath(".")
    rows = [row for row in found if row.name == word and os.path.realpath(row.folder) == here]
    rows = rows or [row for row in found if row.name == word]
    rows = rows or [row for row in found if row.number is not None and f"@{row.number}" == word]
    rows = rows or [row for row in found if word in (row.session_id, row.agent_session)]
    rows = rows or [
        row for row in found if any((id or "").startswith(word) for id in (row.session_id, row.agent_session))
    ]
    if len(rows) == 1:
        return rows[0]
    if not rows:
        raise exits.CliError(f"the local host has no session {word!r}", hint=_HINT)
    shown = ", ".join(f"{row.session_id[:8]} ({row.folder})" for row in rows[:5])
    raise exits.CliError(f"{word!r} names {len(rows)} sessions: {shown}", hint="write the beginning of its id")


def _require_host(session: str) -> ThinClient:
    client = find_host(find_places())
    if client is None:
        raise exits.CliError(f"no host runs, so that {session!r} does nothing", hint="dragoman exec --session NAME")
    return client


def cancel_session(call: CliCall) -> int:
    """Cancel the turn that runs."""
    client = _require_host(call.given.id)
    row = pick_hosted(call.given.id, list(_listed(client)))
    if row.state not in ("running", "waiting"):
        write_note(f"no turn runs in {_label(row)}")
        return exits.OK
    client.notify("session/cancel", sessionId=row.session_id)
    client.call("_dragoman/queued")  # behind the notification: it has arrived
    client.close()
    write_note(f"cancelled the turn of {_label(row)}")
    return exits.OK


def close_session(call: CliCall) -> int:
    """End a session's turn and its agent, and let its name go; its history stays."""
    client = _require_host(call.given.id)
    row = pick_hosted(call.given.id, list(_listed(client)))
    client.call("_dragoman/release", sessionId=row.session_id)
    client.close()
    write_note(f"closed {_label(row)}")
    return exits.OK


def delete_hosted(row: HostedEntry) -> None:
    """Delete a session of the host with its log, and at its agent if the agent can; starts a host if none runs.

    Raises:
        CliError: no host can be started, or it refuses.
    """
    try:
        client = reach_host(find_places())
        begun(client, begin(client))
        client.call("session/delete", sessionId=row.session_id)
        client.close()
    except (NoHost, HostLost, HostRefused) as error:
        raise exits.CliError(f"the local host did not delete {_label(row)}: {error}", hint=_HINT) from None


def _label(row: HostedEntry) -> str:
    return row.name or row.session_id[:8]


def show_host(call: CliCall) -> int:
    """Print what the host's process is, and where it listens."""
    from dragoman.host.local.permit import logout_warning_here
    from dragoman.host.local.start import log_path

    places = find_places()
    client = find_host(places)
    if client is None:
        if call.given.json:
            write_json(None)
        else:
            write_note("no host runs; dragoman exec --session NAME starts one")
        return exits.OK
    found: dict[str, Any] = client.call("_dragoman/host")
    found["log"] = log_path(client.place)
    has_work = any(row.state in ("running", "waiting") for row in _listed(client))
    client.close()
    if call.given.json:
        write_json(found)
    else:
        process = ("pid", "executable", "package", "version", "socket", "uptimeSeconds")
        names = (*process, "sessions", "agents", "idleSeconds", "log")
        write_table(("HOST", ""), [(name, str(found.get(name))) for name in names])
    warning = logout_warning_here(runs=has_work)
    if warning:
        write_note(warning)
    return exits.OK


def watch_session(call: CliCall) -> int:
    """Show the conversation of a session and what is added to it, until Ctrl-C or its end."""
    places = find_places()
    client = connect_any(places)
    if client is None:
        client = _require_host(call.given.id)
    begun(client, begin(client, role="observer"))
    row = pick_hosted(call.given.id, list(_listed(client)))
    view = _Watch(is_json=call.given.json)
    opened = client.request("session/load", sessionId=row.session_id, cwd=row.folder, mcpServers=[])
    try:
        while True:
            try:
                client.result(opened, view.show)
                while True:
                    view.show(client.read())
            except HostLost:
                if not view.is_replaced:
                    break
            client.close()
            client = _follow_update(view)
            own = {"dragoman": {"after": view.last}}
            opened = client.request(
                "session/resume", sessionId=row.session_id, cwd=row.folder, mcpServers=[], _meta=own
            )
        view.end()
        write_note("the host ended")
    except KeyboardInterrupt:
        view.end()
        return exits.CANCELLED
    finally:
        client.close()
    return exits.OK


def _follow_update(view: _Watch) -> ThinClient:
    """Connect to the host after one that was replaced. Raises: CliError."""
    from dragoman.host.local.succession import next_host

    view.is_replaced = False
    try:
        return next_host(role="observer")
    except NoHost as error:
        raise exits.CliError(str(error)) from None


class _Watch:
    """A session that is watched, its updates written as lines: JSON, or the text of the conversation."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_replaced = False
        """The host ends, and another one goes on with the session."""
        self.last = 0
        """The number of the last event that was shown."""
        self._is_json = is_json
        self._who = ""
        self._ended: set[object] = set()

    def show(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        if not isinstance(params, dict):
            return
        number = ((params.get("_meta") or {}).get("dragoman") or {}).get("seq")
        self.last = number if isinstance(number, int) else self.last
        self.is_replaced = self.is_replaced or params.get("kind") == "replaced"
        if message.get("method") == "_dragoman/turn_ended":
            if (
                params.get("promptId") not in self._ended
            ):  # sent again after an update, as what is behind the last update
                self._turn_ended(params)
            self._ended.add(params.get("promptId"))
            return
        update = params.get("update")
        if message.get("method") != "session/update" or not isinstance(update, dict):
            return
        if self._is_json:
            self._write(json_of(update) + "\n")
            return
        content = update.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        match update.get("sessionUpdate"):
            case "user_message_chunk" if isinstance(text, str):
                self._piece("user", text)
            case "agent_message_chunk" if isinstance(text, str):
                self._piece("agent", text)
            case "tool_call":
                self._line(f"[{update.get('kind') or 'other'}] {update.get('title')}")
            case "tool_call_update" if update.get("status") in ("completed", "failed") and update.get("title"):
                self._line(f"[{update.get('status')}] {update.get('title')}")

    def _turn_ended(self, params: dict[str, Any]) -> None:
        error, result = params.get("error"), params.get("result")
        if self._is_json:
            self._write(json_of({"turn_ended": {"error": error, "result": result}}) + "\n")
        elif isinstance(error, dict):
            self._line(f"-- the turn failed: {error.get('message')}")
        else:
            self._line(f"-- the turn ended: {(result or {}).get('stopReason')}")

    def end(self) -> None:
        if self._who:
            self._write("\n")
            self._who = ""

    def _piece(self, who: str, text: str) -> None:
        if who != self._who:
            self.end()
            self._who = who
            self._write("> " if who == "user" else "")
        self._write(text)

    def _line(self, text: str) -> None:
        self.end()
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        from dragoman.text.secrets import known_keys
        from dragoman.text.terminal import plain

        text = known_keys.mask(text)
        sys.stdout.write(text if self._is_json or not sys.stdout.isatty() else plain(text))
        sys.stdout.flush()
