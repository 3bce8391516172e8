"""Checks of sessions: how they are opened, loaded, resumed, listed and closed.

Owns which session ids a client may use. Modes and options are in `settings.py`, prompts in `turns.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import METHOD_NOT_FOUND, NOT_FOUND
from dragoman.schema import is_advertised, v1
from dragoman.trace.checks.facts import SessionFacts, if_present
from dragoman.trace.checks.paths import check_path, is_absolute
from dragoman.trace.checks.settings import take_settings
from dragoman.trace.checks.updates import opens_session, report_invented

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Checks, Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

# Calls on a session the client must have opened on this connection (rule 86).
SCOPED: Final = frozenset(
    {"session/prompt", "session/cancel", "session/set_mode", "session/set_config_option", "session/close"}
)
_ISO_8601: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?([Zz]|[+-]\d\d(:?\d\d)?)?|\d{8}T\d{6}([.,]\d+)?Z?|\d{4}-\d\d-\d\d"
)


def check_scope(frame: DecodedFrame, facts: Facts) -> None:
    """Report calls on sessions that are not open (86, 120), and wrong responses to them (119)."""
    if frame.dir == "c2a" and frame.part == "params":
        if frame.session_id is not None:
            facts.named.add(frame.session_id)
        if frame.method in SCOPED and frame.session_id is not None and facts.sees_start:
            session = facts.session(frame)
            if session is None:
                what = f"no session {frame.session_id!r} was opened on this connection"
                is_unsure = opens_session(facts) or facts.saw_broken
                # The client cannot make up an id: the answer that named it is missing, see `check_missing`.
                facts.report(86, frame, what, "NOTE" if is_unsure else "")
                (facts.unnamed if is_unsure else facts.unopened).add(frame)
            elif session.closed_by is not None:
                facts.report(120, frame, f"the session was closed by message {session.closed_by}", "NOTE")
                facts.unopened.add(frame)
    elif frame.request in facts.unopened:
        facts.unopened.discard(frame.request)
        if frame.error_code != NOT_FOUND:
            facts.report(119, frame, f"{frame.method} of a session that is not open: the answer is not -32002")
        elif not _names_session(frame) and not facts.is_redacted:
            facts.report(342, frame, "-32002 without data.sessionId")


def _names_session(frame: DecodedFrame) -> bool:
    data = frame.plain.get("data")
    return isinstance(data, dict) and data.get("sessionId") == frame.session_id


def _ask_open(frame: DecodedFrame, facts: Facts) -> None:
    """Check what session/new, load, resume and fork have in common."""
    request = frame.value
    if request is None:
        return
    check_path(frame, facts, 87, "cwd", request.cwd)
    directories = if_present(request.additional_directories) or ()
    for directory in directories:
        check_path(frame, facts, 141, "additionalDirectories", directory)
    if facts.agent is None:
        return
    if directories and not is_advertised(facts.agent, "sessionCapabilities.additionalDirectories"):
        facts.report(140, frame, "additionalDirectories without sessionCapabilities.additionalDirectories")
    for server in if_present(request.mcp_servers) or ():
        _check_server(frame, facts, server)


def _check_server(frame: DecodedFrame, facts: Facts, server: Any) -> None:
    assert facts.agent is not None
    for kind, rule, name in (
        (v1.McpServerHttp, 96, "http"),
        (v1.McpServerSse, 96, "sse"),
        (v1.McpServerAcp, 49, "acp"),
    ):
        if isinstance(server, kind) and not is_advertised(facts.agent, f"mcpCapabilities.{name}"):
            facts.report(rule, frame, f"an MCP server of type {name} without mcpCapabilities.{name}")
    if isinstance(server, v1.McpServerStdio) and not is_absolute(server.command) and not facts.is_redacted:
        facts.report(98, frame, "the command of an MCP server is not an absolute path", "NOTE")


def _ask_load(frame: DecodedFrame, facts: Facts) -> None:
    _ask_open(frame, facts)
    if frame.session_id is not None:
        # Loading replays the history, so ids of tool calls and compactions may come again.
        session = SessionFacts()
        session.loading = frame
        facts.sessions[frame.session_id] = session


def _ask_resume(frame: DecodedFrame, facts: Facts) -> None:
    _ask_open(frame, facts)
    if frame.session_id is not None:
        session = facts.sessions.setdefault(frame.session_id, SessionFacts())
        session.closed_by = None
        session.resuming = frame


def _answer_new(frame: DecodedFrame, facts: Facts) -> None:
    """Check the response to session/new or session/fork, which names a new session."""
    result = frame.value
    if result is None:
        return
    if result.session_id in facts.sessions:
        facts.report(85, frame, f"the session id {result.session_id!r} is already in use")
    for early in facts.early.pop(result.session_id, ()):
        facts.report(
            102, early, f"{early.update} came before the answer that names its session (message {frame.number})"
        )
    session = facts.sessions[result.session_id] = SessionFacts()
    if not opens_session(facts):
        for unnamed in facts.early.values():
            for early in unnamed:
                report_invented(early, facts)
        facts.early.clear()
    take_settings(frame, facts, session, result.modes, result.config_options)


def _refuse_new(frame: DecodedFrame, facts: Facts) -> None:
    if frame.error_code == METHOD_NOT_FOUND:
        facts.report(53, frame, "every agent implements session/new")


def _answer_load(frame: DecodedFrame, facts: Facts) -> None:
    session = facts.session(frame.request) if frame.request is not None else None
    if session is None:
        return
    session.loading = session.resuming = None
    session.is_after_load = frame.method == "session/load"
    session.saw_history = False
    if frame.value is not None:
        take_settings(frame, facts, session, frame.value.modes, frame.value.config_options)


def _refuse_load(frame: DecodedFrame, facts: Facts) -> None:
    session = facts.session(frame)
    if session is not None and frame.session_id is not None:
        session.loading = session.resuming = None
        if frame.method == "session/load":
            del facts.sessions[frame.session_id]


def _ask_close(frame: DecodedFrame, facts: Facts) -> None:
    session = facts.session(frame)
    for turn in session.turns if session is not None else ():
        turn.closed_at = frame.t


def _answer_close(frame: DecodedFrame, facts: Facts) -> None:
    session = facts.session(frame)
    if session is not None and frame.request is not None:
        session.closed_by = frame.request.number


def _ask_list(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.value
    if not isinstance(request, v1.ListSessionsRequest):
        return
    if (cwd := if_present(request.cwd)) is not None:
        check_path(frame, facts, 124, "cwd", cwd)
    cursor = if_present(request.cursor)
    is_unsure = (
        facts.is_redacted
        or facts.saw_broken
        or any(
            request.method == "session/list" and request is not frame for request in facts.exchange.open["c2a"].values()
        )
    )
    if cursor is not None and cursor not in facts.cursors and facts.sees_start and not is_unsure:
        facts.report(129, frame, "the agent did not give this cursor on this connection")


def _answer_list(frame: DecodedFrame, facts: Facts) -> None:
    result = frame.value
    asked = frame.request.value if frame.request is not None else None
    if not isinstance(result, v1.ListSessionsResponse):
        return
    facts.named.update(session.session_id for session in result.sessions)
    if facts.is_redacted:
        return
    wanted = if_present(asked.cwd) if isinstance(asked, v1.ListSessionsRequest) else None
    for session in result.sessions:
        check_path(frame, facts, 127, f"cwd of session {session.session_id!r}", session.cwd)
        if (updated := if_present(session.updated_at)) is not None and not _ISO_8601.fullmatch(updated):
            facts.report(127, frame, f"updatedAt of session {session.session_id!r} is not an ISO 8601 time")
        if wanted is not None and session.cwd != wanted:
            facts.report(125, frame, f"session {session.session_id!r} has another cwd than was asked for")
        if session.session_id in facts.deleted:
            facts.report(137, frame, f"session {session.session_id!r} was deleted and is still listed")
    if isinstance(cursor := if_present(result.next_cursor), str):
        facts.cursors.add(cursor)


def _answer_delete(frame: DecodedFrame, facts: Facts) -> None:
    if frame.session_id is not None:
        facts.deleted.add(frame.session_id)


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
