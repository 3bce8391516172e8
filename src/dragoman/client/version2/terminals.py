"""What the terminals of an agent of version 2 show, in the form in which this client's own terminals are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.client.terminals import Look

if TYPE_CHECKING:
    from dragoman.client.session import Session


def look_at(session: Session, terminal_id: str) -> Look | None:
    """Return what a terminal of the session's agent shows now; None for one that is not known."""
    found = session.state.terminals.get(terminal_id)
    if found is None:
        return None
    return Look(
        terminal_id,
        session.id,
        command=found.command or "",
        cwd=found.cwd or session.cwd,
        text=found.text,
        is_truncated=bool(found.lost_bytes),
        is_running=found.is_running,
        is_released=False,
        exit_code=found.exit_code,
        signal=(found.exit_status.signal or None) if found.exit_status is not None else None,
    )
