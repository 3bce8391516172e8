"""Everything that is decided before the guard starts: rules, limits, additions, sandbox, log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.proxy.guard.additions import Additions

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client.permission import Asker
    from dragoman.process.sandbox.confinement import Confinement
    from dragoman.proxy.guard.conduct import Conduct
    from dragoman.proxy.guard.events import GuardEvents
    from dragoman.proxy.guard.limits import GuardLimits
    from dragoman.proxy.guard.permissions import FindsRules
    from dragoman.proxy.guard.protected import SessionTripwires
    from dragoman.proxy.guard.watch import SessionWatch


class GuardPlan(Struct, kw_only=True):
    """The set-up of one guard.

    `asker` asks the user in the place of the editor. `roots` are the folders of the sandbox: a session outside of them
    is refused; empty for any folder. `runs_in_terminals`: the agent is known to run all commands through its client.
    """

    agent: str
    found: FindsRules
    events: GuardEvents
    limits: GuardLimits
    conduct: Conduct
    make_confinement: Callable[[SessionWatch, SessionTripwires], Confinement]
    tripwires: SessionTripwires
    asks_editor: bool = True
    asker: Asker | None = None
    cancels_on_violation: bool = False
    additions: Additions = Additions()
    missing_file: Any = "error"
    asking_mode: str = ""
    """The session mode in which the agent is known to ask; empty if that is not known."""
    roots: tuple[str, ...] = ()
    runs_in_terminals: bool = False
    is_built_in: bool = False
    """Whether the agent is the built-in one."""
    needs_log: bool = True
    """Whether no prompt is passed on while the log cannot be written."""
