"""Builds the result of a run from everything that is known about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli.exec import result as results
from dragoman.cli.exec.connection import describe_agent
from dragoman.cli.exec.error import explain

if TYPE_CHECKING:
    from dragoman.cli.exec.connection import RunConnection
    from dragoman.cli.exec.exit_code import RunFacts
    from dragoman.cli.exec.request import RunRequest


def build_result(
    code: int,
    facts: RunFacts,
    error: Exception | None,
    request: RunRequest | None,
    conn: RunConnection | None,
    duration_ms: int,
) -> results.RunResult:
    """Build the result of a run that ended with `code`, at any point."""
    decisions = [] if conn is None else conn.permissions.decisions
    session = None if conn is None else conn.session
    state = None if session is None else session.state
    turn = state.turns[-1] if state is not None and state.turns else None
    agent = None if request is None else describe_agent(request) if conn is None else conn.described()
    stderr_tail = "" if conn is None else conn.transport.stderr_tail
    return results.RunResult(
        exit_code=code,
        error=None if code == 0 else explain(code, facts, error, request, conn, stderr_tail),
        text="" if state is None or turn is None else results.final_text(state, turn),
        messages=[] if turn is None else [text for text in turn.texts if text],
        stop_reason=facts.stop_reason,
        session_id=None if session is None else session.id,
        agent=agent,
        scripted=conn.is_scripted if conn is not None else request is not None and request.entry.is_scripted,
        usage=None if state is None else results.usage(state, None if turn is None else turn.usage),
        tool_calls=[]
        if state is None or turn is None
        else results.tool_calls(state, turn, {} if conn is None else conn.statuses),
        files_changed=[] if conn is None else conn.files_changed(turn),
        permissions=[results.permission(decision) for decision in decisions],
        duration_ms=duration_ms,
        violations=[] if conn is None else list(conn.violations.found),
        dangerously_allow_all=request is not None and request.options.allows_all,
    )
