"""The parts of a run, made from its request: the agent's run, the transport to its program, the opening of its session.

Loaded when the agent's program was started, because it loads everything else.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Literal

from dragoman.cli import console
from dragoman.cli.exec.agent_options import system_prompt_for
from dragoman.process.child import Child
from dragoman.rpc.limits import MIB, Limits
from dragoman.runs.agent_run import GuardedRun
from dragoman.runs.guard import own_meta
from dragoman.runs.ledger import RunLedger
from dragoman.runs.opening import SessionOpening
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.cli.exec.options import Options
    from dragoman.cli.exec.request import RunRequest
    from dragoman.cli.exec.view import ExecView
    from dragoman.cli.prompt.user import UserPrompt
    from dragoman.client import RemoteAgent
    from dragoman.client.connect import Protocol
    from dragoman.process.launch import Launched
    from dragoman.rpc import Transport
    from dragoman.runs.events import RunEvent

# A result is read by a program or a user; what is longer is a mistake of the agent and must not fill the memory.
LIMITS: Final = Limits(turn_text=2 * MIB)


def make_run(request: RunRequest, view: ExecView, on_event: Callable[[RunEvent], None]) -> GuardedRun:
    """Return the run of the agent that a request names."""
    terms, user = request.terms(), _user_prompt(request.entry.name, view)
    observers = [*view.frames(), *([] if request.recorder is None else [request.recorder])]
    run = GuardedRun(terms, asker=user, on_event=on_event, forms=user, observers=observers, limits=LIMITS)
    if request.options.model is not None:
        run.offer_models()
    if request.uses_ledger:
        run.ledger = RunLedger(
            terms.ledger_name,
            request.entry.command,
            terms.roots,
            secrets=view.secrets,
            note=view.note,
            state=lambda: run.state,
            terminals=run.shown_terminals,
        )
    if view.progress is not None:
        view.progress.look = run.guard.look
    return run


def _user_prompt(agent: str, view: ExecView) -> UserPrompt | None:
    if not sys.stderr.isatty():  # spares the import
        return None
    from dragoman.cli.prompt.user import UserPrompt

    if not UserPrompt.is_available():
        return None
    return UserPrompt(agent=agent, colour=console.uses_colour(sys.stderr), progress=view.progress)


def agent_transport(program: Launched, request: RunRequest, view: ExecView) -> Transport:
    """Return the transport to the agent, in version 1 of the protocol for an agent of 2025.1."""
    options = request.options
    view.transport = transport = ProcessTransport(
        Child(program, on_stderr=view.agent_log if options.is_verbose else None)
    )
    if options.protocol != "2025.1":
        return transport
    from dragoman.cli.dialect import drive_dialect_agent

    return drive_dialect_agent(transport, options.cwd, is_lazy=bool(request.servers), say=view.note)


def protocol_of(options: Options) -> Protocol:
    """Return the version of the protocol that is offered; an agent of 2025.1 is translated by its transport."""
    offered: dict[str, Literal[2, "auto"]] = {"2": 2, "auto": "auto"}
    return offered.get(options.protocol, 1)


async def make_opening(agent: RemoteAgent, request: RunRequest) -> SessionOpening:
    """Return what the session is opened with.

    Raises:
        CliError: there is no such session, or the agent does not take an option.
    """
    options, meta = request.options, dict(request.passed.meta)
    if request.rules and own_meta(agent.capabilities.meta) is not None:
        from dragoman.runs.terms import restricting_rules

        asked = restricting_rules(request.rules, request.entry.name, (request.project, *options.roots[1:]))
        if asked:
            meta["dragoman"] = {"asksAbout": asked}
    prompt = system_prompt_for(agent, request.entry, request.passed)
    id = None
    if options.resume is not None:
        from dragoman.cli.exec.earlier import find_session

        id = await find_session(agent, request)
    return SessionOpening(
        session_id=id,
        flag=options.resume_flag,
        servers=request.servers,
        mode=options.mode,
        model=options.model,
        settings=options.settings,
        system_prompt=prompt,
        meta=meta,
        enters_asking_mode=options.chooses_no_mode and not request.allows_all,
    )


async def delete_at_host(run: GuardedRun, request: RunRequest, view: ExecView) -> None:
    """Delete the session that a run has opened at a host, where nothing else would ever use it.

    One that the output names, or that was there before, is kept.
    """
    from dragoman.errors import DragomanError
    from dragoman.registry.elsewhere import host_of

    options = request.options
    if options.resume is not None or options.form != "text" or not host_of(request.entry.command):
        return
    if run.can("sessionCapabilities.delete"):
        try:
            await run.agent.delete_session(run.session.id)
        except DragomanError as error:  # another client uses it, or the line was cut: the host removes it in time
            view.note(f"the session was not deleted: {error}")
