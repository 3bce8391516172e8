"""The note about daemons of an agent that are left running after it: a user should know what dragoman did not end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.registry.quirks import Quirks


def note_spared(quirks: Quirks, marker: str, note: Callable[[str], None]) -> None:
    """Write a note for each daemon of this agent that still runs; `marker` is the one of the ended agent."""
    words = (*quirks.daemons, *quirks.spare)
    if not words:  # spares the import
        return
    from dragoman.process.daemons import find_daemons
    from dragoman.text.terminal import cut, one_line

    for daemon in find_daemons(words, marker):
        why = "`spare` in the settings names it" if daemon.is_ours else "this run did not start it"
        note(f"left running: {cut(one_line(daemon.command_line), 80)} (pid {daemon.pid}), because {why}")
