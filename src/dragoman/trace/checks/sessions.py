"""Sessions: how they are opened, loaded, resumed, listed and closed, and what their answers promise.

Owns which session ids a client may use. Modes and options are in `settings.py`, prompts in `turns.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import METHOD_NOT_FOUND, NOT_FOUND
from dragoman.schema import is_advertised, v1
from dragoman.trace.checks.link import Session, given
from dragoman.trace.checks.paths import check_path, is_absolute
from dragoman.trace.checks.settings import take_settings

if TYPE_CHECKING:
    from dragoman.trace.checks.link import Checks, Link
    from dragoman.trace.inspect.exchange import Reading

# Calls on a session the client must have opened on this connection (rule 86).
SCOPED: Final = frozenset(
    {"session/prompt", "session/cancel", "session/set_mode", "session/set_config_option", "session/close"}
)
_ISO_8601: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?([Zz]|[+-]\d\d(:?\d\d)?)?|\d{8}T\d{6}([.,]\d+)?Z?|\d{4}-\d\d-\d\d"
)


def check_scope(reading: Reading, link: Link) -> None:
    """Reports calls on sessions nobody opened (86) and on closed ones (120), and what agents make of them (119)."""
    if reading.dir == "c2a" and reading.part == "params":
        if reading.method in SCOPED and reading.session_id is not None and link.sees_start:
            session = link.session(reading)
            if session is None:
                link.report(86, reading, f"no session {reading.session_id!r} was opened on this connection")
                link.unopened.add(reading)
            elif session.closed_by is not None:
                link.report(120, reading, f"the session was closed by message {session.closed_by}", "NOTE")
                link.unopened.add(reading)
    elif reading.request in link.unopened:
        link.unopened.discard(reading.request)
        if reading.error_code != NOT_FOUND:
            link.report(119, reading, f"{reading.method} of a session that is not open: the answer is not -32002")
        elif not _names_session(reading) and not link.is_redacted:
            link.report(342, reading, "-32002 without data.sessionId")


def _names_session(reading: Reading) -> bool:
    data = reading.plain.get("data")
    return isinstance(data, dict) and data.get("sessionId") == reading.session_id


def _ask_open(reading: Reading, link: Link) -> None:
    """What session/new, load, resume and fork have in common."""
    request = reading.value
    if request is None:
        return
    check_path(reading, link, 87, "cwd", request.cwd)
    directories = given(request.additional_directories) or ()
    for directory in directories:
        check_path(reading, link, 141, "additionalDirectories", directory)
    if link.agent is None:
        return
    if directories and not is_advertised(link.agent, "sessionCapabilities.additionalDirectories"):
        link.report(140, reading, "additionalDirectories without sessionCapabilities.additionalDirectories")
    for server in given(request.mcp_servers) or ():
        _check_server(reading, link, server)


def _check_server(reading: Reading, link: Link, server: Any) -> None:
    assert link.agent is not None
    for kind, rule, name in (
        (v1.McpServerHttp, 96, "http"),
        (v1.McpServerSse, 96, "sse"),
        (v1.McpServerAcp, 49, "acp"),
    ):
        if isinstance(server, kind) and not is_advertised(link.agent, f"mcpCapabilities.{name}"):
            link.report(rule, reading, f"an MCP server of type {name} without mcpCapabilities.{name}")
    if isinstance(server, v1.McpServerStdio) and not is_absolute(server.command) and not link.is_redacted:
        link.report(98, reading, "the command of an MCP server is no absolute path", "NOTE")


def _ask_load(reading: Reading, link: Link) -> None:
    _ask_open(reading, link)
    if reading.session_id is not None:
        # Loading replays the history: ids of tool calls and compactions come again, and rightly so.
        session = Session()
        session.loading = reading
        link.sessions[reading.session_id] = session


def _ask_resume(reading: Reading, link: Link) -> None:
    _ask_open(reading, link)
    if reading.session_id is not None:
        session = link.sessions.setdefault(reading.session_id, Session())
        session.closed_by = None
        session.resuming = reading


def _answer_new(reading: Reading, link: Link) -> None:
    """Also session/fork: both name a session that was not there."""
    result = reading.value
    if result is None:
        return
    if result.session_id in link.sessions:
        link.report(85, reading, f"the session id {result.session_id!r} is already in use")
    for early in link.early.pop(result.session_id, ()):
        link.report(
            102, early, f"{early.update} came before the answer that names its session (message {reading.number})"
        )
    session = link.sessions[result.session_id] = Session()
    take_settings(reading, link, session, result.modes, result.config_options)


def _refuse_new(reading: Reading, link: Link) -> None:
    if reading.error_code == METHOD_NOT_FOUND:
        link.report(53, reading, "every agent implements session/new")


def _answer_load(reading: Reading, link: Link) -> None:
    session = link.session(reading.request) if reading.request is not None else None
    if session is None:
        return
    session.loading = session.resuming = None
    session.is_after_load = reading.method == "session/load"
    session.saw_history = False
    if reading.value is not None:
        take_settings(reading, link, session, reading.value.modes, reading.value.config_options)


def _refuse_load(reading: Reading, link: Link) -> None:
    session = link.session(reading)
    if session is not None and reading.session_id is not None:
        session.loading = session.resuming = None
        if reading.method == "session/load":
            del link.sessions[reading.session_id]


def _ask_close(reading: Reading, link: Link) -> None:
    session = link.session(reading)
    for turn in session.turns if session is not None else ():
        turn.closed_at = reading.t


def _answer_close(reading: Reading, link: Link) -> None:
    session = link.session(reading)
    if session is not None and reading.request is not None:
        session.closed_by = reading.request.number


def _ask_list(reading: Reading, link: Link) -> None:
    request = reading.value
    if not isinstance(request, v1.ListSessionsRequest):
        return
    if (cwd := given(request.cwd)) is not None:
        check_path(reading, link, 124, "cwd", cwd)
    cursor = given(request.cursor)
    if cursor is not None and cursor not in link.cursors and link.sees_start and not link.is_redacted:
        link.report(129, reading, "the cursor is none that the agent gave on this connection")


def _answer_list(reading: Reading, link: Link) -> None:
    result = reading.value
    asked = reading.request.value if reading.request is not None else None
    if not isinstance(result, v1.ListSessionsResponse) or link.is_redacted:
        return
    wanted = given(asked.cwd) if isinstance(asked, v1.ListSessionsRequest) else None
    for session in result.sessions:
        check_path(reading, link, 127, f"cwd of session {session.session_id!r}", session.cwd)
        if (updated := given(session.updated_at)) is not None and not _ISO_8601.fullmatch(updated):
            link.report(127, reading, f"updatedAt of session {session.session_id!r} is no ISO 8601 time")
        if wanted is not None and session.cwd != wanted:
            link.report(125, reading, f"session {session.session_id!r} has another cwd than was asked for")
        if session.session_id in link.deleted:
            link.report(137, reading, f"session {session.session_id!r} was deleted and is still listed")
    if isinstance(cursor := given(result.next_cursor), str):
        link.cursors.add(cursor)


def _answer_delete(reading: Reading, link: Link) -> None:
    if reading.session_id is not None:
        link.deleted.add(reading.session_id)


CHECKS: Checks = {
    ("session/new", "params"): _ask_open,
    ("session/new", "result"): _answer_new,
    ("session/new", "error"): _refuse_new,
    ("session/fork", "params"): _ask_open,
    ("session/fork", "result"): _answer_new,
    ("session/load", "params"): _ask_load,
    ("session/load", "result"): _answer_load,
    ("session/load", "error"): _refuse_load,
    ("session/resume", "params"): _ask_resume,
    ("session/resume", "result"): _answer_load,
    ("session/resume", "error"): _refuse_load,
    ("session/close", "params"): _ask_close,
    ("session/close", "result"): _answer_close,
    ("session/list", "params"): _ask_list,
    ("session/list", "result"): _answer_list,
    ("session/delete", "result"): _answer_delete,
}
