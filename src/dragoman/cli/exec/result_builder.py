"""Builds the result of a run from everything that is known about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dragoman.cli.exec.connection import describe_agent
from dragoman.runs import result as results
from dragoman.runs.changes import with_seen

if TYPE_CHECKING:
    from dragoman.cli.exec.activity import Activity
    from dragoman.cli.exec.connection import RunConnection
    from dragoman.cli.exec.exit_code import RunFacts
    from dragoman.cli.exec.request import RunRequest
    from dragoman.runs.result import TreeChanges


class EndedRun(Protocol):
    """What a result needs of a run."""

    facts: RunFacts
    error: Exception | None
    activity: Activity
    retries: list[results.RunRetry]
    patch: results.RunPatch | None

    @property
    def tree_changes(self) -> TreeChanges | None: ...


def build_result(code: int, run: EndedRun, request: RunRequest | None, conn: RunConnection | None) -> results.RunResult:
    """Build the result of a run that ended with `code`, at any point."""
    facts, error, activity = run.facts, run.error, run.activity
    session = None if conn is None else conn.session
    state = None if session is None else session.state
    turn = state.turns[-1] if state is not None and state.turns else None
    agent = None if request is None else describe_agent(request) if conn is None else conn.described()
    stderr_tail = "" if conn is None else conn.stderr_tail
    return results.RunResult(
        exit_code=code,
        error=None if code == 0 else _explain(code, facts, error, request, conn, stderr_tail),
        text="" if state is None or turn is None else results.final_text(state, turn) + results.cut_notice(turn),
        messages=[] if turn is None else [text for text in turn.texts if text],
        lost_characters=0 if turn is None else turn.lost_characters,
        stop_reason=facts.stop_reason,
        session_id=None if session is None else session.id,
        agent=agent,
        scripted=conn.is_scripted if conn is not None else request is not None and request.entry.is_scripted,
        usage=None
        if state is None
        else results.usage(state, None if turn is None else turn.usage, {} if conn is None else conn.own_usage),
        tool_calls=[]
        if state is None or turn is None or conn is None
        else [conn.tools.describe(call) for call in results.tool_calls(state, turn)],
        files_changed=[] if conn is None else with_seen(conn.files_changed(turn), run.tree_changes),
        permissions=[] if conn is None else results.permissions(map(results.permission, conn.permissions.decisions)),
        duration_ms=round(activity.elapsed_seconds * 1000),
        violations=[] if conn is None else list(conn.violations.found),
        dangerously_allow_all=request is not None and request.allows_all,
        sandbox=None if request is None else _sandbox(request),
        commands=[] if conn is None else list(conn.commands),
        durations=results.RunDurations(
            start_ms=activity.spent_ms("starting"),
            session_ms=activity.spent_ms("opening"),
            turn_ms=activity.spent_ms("working"),
        ),
        retries=list(run.retries),
        patch=run.patch,
        changes=run.tree_changes,
    )


def _explain(
    code: int,
    facts: RunFacts,
    error: Exception | None,
    request: RunRequest | None,
    conn: RunConnection | None,
    stderr_tail: str,
) -> results.Error:
    from dragoman.cli.exec.error import explain  # only a run that failed needs it

    return explain(code, facts, error, request, conn, stderr_tail)


def _sandbox(request: RunRequest) -> results.RunSandbox:
    found = request.sandboxes
    return results.RunSandbox(
        mode=found.mode,
        backend=found.backend,
        promise=None if found.commands is None else found.commands.describe(),
        reason=found.reason or None,
        agent=None if found.agent is None else found.agent.backend,
        agent_state=list(found.state),
    )
