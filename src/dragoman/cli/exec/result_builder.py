"""The result object of a run, put together from everything it touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli.exec import result as results
from dragoman.cli.exec.connection import describe_agent
from dragoman.cli.exec.error import explain

if TYPE_CHECKING:
    from dragoman.cli.exec.connection import Connected
    from dragoman.cli.exec.exit_code import Facts
    from dragoman.cli.exec.request import Plan


def build_result(
    code: int, facts: Facts, error: Exception | None, plan: Plan | None, to: Connected | None, duration_ms: int
) -> results.Result:
    """The result of a run that ended with `code`, however far it came."""
    decisions = [] if to is None else to.consent.decisions
    session = None if to is None else to.session
    state = None if session is None else session.state
    turn = state.turns[-1] if state is not None and state.turns else None
    agent = None if plan is None else describe_agent(plan) if to is None else to.described()
    stderr_tail = "" if to is None else to.transport.stderr_tail
    return results.Result(
        exit_code=code,
        error=None if code == 0 else explain(code, facts, error, plan, decisions, stderr_tail),
        text="" if state is None or turn is None else results.final_text(state, turn),
        messages=[] if turn is None else [text for text in turn.texts if text],
        stop_reason=facts.stop_reason,
        session_id=None if session is None else session.id,
        agent=agent,
        scripted=to.is_scripted if to is not None else plan is not None and plan.entry.is_scripted,
        usage=None if state is None else results.usage(state, None if turn is None else turn.usage),
        tool_calls=[]
        if state is None or turn is None
        else results.tool_calls(state, turn, {} if to is None else to.told),
        files_changed=[] if to is None else to.files_changed(turn),
        permissions=[results.permission(decision) for decision in decisions],
        duration_ms=duration_ms,
    )
