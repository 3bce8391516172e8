"""The sessions of subagents as clients see them that know such sessions: `subagent_update` and the updates of each.

Both are unstable parts of the protocol: sent only by an agent that offers those, to a client that announces
`subagents`. Everyone else sees a run as one tool call. A child session cannot be prompted or cancelled by a client.
Loaded with the first subagent.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dragoman.builtin.past import StoredPast
from dragoman.builtin.replay import stored_updates
from dragoman.builtin.subagents.subagents import METADATA
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.subagents.declaration import AgentDeclaration
    from dragoman.builtin.subagents.progress import RunProgress
    from dragoman.builtin.subagents.run import RunEnd
    from dragoman.builtin.subagents.subagents import SessionSubagents
    from dragoman.builtin.viewer import Viewer
    from dragoman.store.sessions import SessionRow

_log = logging.getLogger("dragoman.builtin")

_LIMITED = {"tokens": "max_tokens", "cost": "max_tokens", "steps": "max_turn_requests"}


async def announce_child(subagents: SessionSubagents, row: SessionRow, declared: AgentDeclaration) -> None:
    """Announce that a subagent works, before any update of its session."""
    await _present(subagents, _described(row, v1.RunningStateUpdate(), declared.description))


async def child_ended(subagents: SessionSubagents, row: SessionRow, end: RunEnd | None, progress: RunProgress) -> None:
    """Report that a subagent has ended. `end` is None if it was cancelled, or could not begin."""
    if end is None:
        state = v1.IdleStateUpdate(stop_reason="cancelled")
    elif end.failure:
        state = v1.IdleStateUpdate(stop_reason="error", error=v1.Error(-32603, end.failure))
    else:
        state = v1.IdleStateUpdate(stop_reason=_LIMITED.get(progress.limit, "end_turn"))
    await _present(subagents, v1.SubagentUpdate(row.id, state=state))


async def show_updates(viewer: Viewer, child_id: str, updates: Sequence[v1.SessionUpdate]) -> None:
    """Send updates of a child session to a client that knows such sessions."""
    shown = [viewer.form_of(update) if isinstance(update, v1.Notice) else update for update in updates]
    try:
        await viewer.session.child(child_id).update_all(shown)
    except Exception:  # its connection is gone; the run goes on
        _log.debug("the client is gone", exc_info=True)


async def show_update(viewer: Viewer, update: v1.SessionUpdate) -> None:
    """Send an update to a client that may be gone."""
    try:
        await viewer.show(update)
    except Exception:  # as above
        _log.debug("the client is gone", exc_info=True)


async def replay_children(subagents: SessionSubagents, viewer: Viewer) -> None:
    """Repeat the sessions of all subagents for a client that loads the session. Raises: StoreError."""
    store = subagents.session.store
    for row in await store.children(subagents.session.row.id):
        is_running = subagents.is_running(row)
        state: Any = v1.RunningStateUpdate() if is_running else v1.IdleStateUpdate()
        await viewer.show(_described(row, state))
        past = StoredPast(store, row.id)
        await past.open()
        async for page in past.pages(past.until):
            for message in page:
                await show_updates(viewer, row.id, stored_updates(message, shows_compactions=False))


async def _present(subagents: SessionSubagents, update: v1.SubagentUpdate) -> None:
    await subagents.session.settle()
    viewer = subagents.session.viewer
    if viewer is not None and viewer.shows_subagents:
        await show_update(viewer, update)


def _described(row: SessionRow, state: Any, description: str = "") -> v1.SubagentUpdate:
    own = row.metadata.get(METADATA, {})
    title = f"{own.get('name', 'subagent')}: {row.title or ''}".rstrip(": ")
    meta = {"dragoman": {"taskId": own.get("id", "")}}
    return v1.SubagentUpdate(row.id, title=title, description=description or UNSET, state=state, meta=meta)
