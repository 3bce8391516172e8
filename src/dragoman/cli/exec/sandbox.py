"""The sandboxes of one run: for the commands that dragoman runs for the agent, and for the agent as a whole.

Owns which sandbox is in force, which folders it opens, and the sentences about it. Everything is prepared before the
agent is started, so that a missing sandbox costs nothing. Nothing here may import asyncio, as in `request.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.cli.exits import CliError
from dragoman.errors import ConfigError, DragomanError
from dragoman.registry.built_in import runs_built_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dragoman.cli.exec.options import Options, SandboxMode
    from dragoman.process.sandbox import Backend, Confined, Sandbox, SandboxPolicy
    from dragoman.process.sandbox.opening import OpenedSandbox
    from dragoman.registry.agents import AgentEntry

_TRIAL: Final = ("bwrap", "--unshare-user", "--ro-bind", "/", "/", "true")


class RunSandboxes(Struct, kw_only=True):
    """What is in force in one run. `close` it."""

    mode: SandboxMode = "off"
    commands: Sandbox | None = None
    """For the commands of terminals; None runs them outside."""
    agent: Sandbox | None = None
    """For the agent's own program, with `--sandbox-agent`."""
    reason: str = ""
    """Why there is no sandbox although one was wanted (`auto`)."""
    is_partial: bool = False
    """The agent runs commands itself and not through dragoman, or it is not known how it runs them."""
    state: tuple[str, ...] = ()
    """The folders that the sandboxed agent may write because its state is there."""
    opened: list[OpenedSandbox] = []
    """Their private temporary folders are removed by `close`."""

    @property
    def backend(self) -> str | None:
        return None if self.commands is None else self.commands.backend

    def close(self) -> None:
        """Remove the private temporary folders."""
        for opened in self.opened:
            opened.close()
        self.opened.clear()

    def notes(self) -> list[str]:
        """Sentences for the user about what is in force."""
        found = [self.reason] if self.reason else []
        if self.commands is not None:
            found.append(self.commands.describe())
        if self.is_partial:
            found.append(
                "Commands that the agent runs itself, and not through dragoman, are outside; "
                "--sandbox-agent limits them."
            )
        if self.agent is not None:
            state = f" Its state: {', '.join(self.state)}." if self.state else ""
            found.append(
                f"The agent itself runs in {self.agent.backend}, with the network, which its model needs.{state}"
            )
        return found


def prepare_sandboxes(options: Options, entry: AgentEntry) -> RunSandboxes:
    """Find out which sandbox works here and make its policy.

    Raises:
        CliError: the user requires a sandbox, and none can be used.
        ConfigError: a folder is too wide to be a boundary.
    """
    found = RunSandboxes(mode=options.sandbox)
    if options.sandbox == "off":
        return found
    try:
        _prepare(found, options, entry)
    except (CliError, ConfigError) as error:
        found.close()
        if options.sandbox == "require":
            raise
        found.reason = f"--sandbox auto: commands run without a sandbox: {error}"
    except BaseException:
        found.close()
        raise
    return found


def _prepare(found: RunSandboxes, options: Options, entry: AgentEntry) -> None:
    from dragoman.process.sandbox import available

    here = available(options.roots)
    if not here.backends:
        raise CliError(here.describe(), hint="--sandbox auto runs without one; see docs/sandbox.md for what is needed")
    backend = here.backends[0]
    found.commands = _open(found, options, options.writable, backend)
    if not options.sandboxes_agent:
        found.is_partial = not runs_built_in(entry) and not (entry.facts is not None and entry.facts.runs_in_terminals)
        return
    found.state = _state(entry)
    writable = (*options.writable, *found.state)
    found.agent = _open(found, options, writable, backend, program=_program(entry, options.cwd), network=True)
    _check_program(entry, found.agent, options.cwd)
    _check_daemons(entry)
    _check_own_sandbox(entry, found.agent, options)


def _open(
    found: RunSandboxes,
    options: Options,
    writable: Sequence[str],
    backend: Backend,
    *,
    program: str = "",
    network: bool = False,
) -> Sandbox:
    from dragoman.process.sandbox.opening import open_sandbox  # few runs have one, and it takes time to load
    from dragoman.settings.places import private_folders

    opened = open_sandbox(
        options.roots,
        writable=writable,
        hidden=private_folders(),
        network=network,
        backend=backend,
        change=lambda policy: _with_program(policy, program) if program else policy,
    )
    found.opened.append(opened)
    return opened.sandbox


def _with_program(policy: SandboxPolicy, program: str) -> SandboxPolicy:
    """The policy with which a program can be read: one from the registry lies in a hidden folder."""
    from msgspec.structs import replace

    from dragoman.policy.paths import is_below

    around = [place for place in policy.hidden if is_below(program, place)]
    siblings = [path for place in around for path in _siblings(place, program)]
    return replace(policy, hidden=(*(place for place in policy.hidden if place not in around), *siblings))


def _siblings(place: str, path: str) -> Iterator[str]:
    """Everything in a folder except what lies on the way to a path below it."""
    from dragoman.policy.paths import is_below

    while path != place:
        with os.scandir(place) as listing:
            inner = [entry.path for entry in listing]
        yield from (each for each in inner if not is_below(path, each))
        place = next((each for each in inner if is_below(path, each)), path)


def _state(entry: AgentEntry) -> tuple[str, ...]:
    """The folders of an agent's state; the first one is made, because the agent could not make it."""
    if entry.facts is None:
        return ()
    from dragoman.registry.facts import state_folders

    folders = state_folders(entry.facts, {**os.environ, **entry.env})
    try:
        os.makedirs(folders[0], mode=0o700, exist_ok=True)
    except OSError as error:
        raise CliError(f"--sandbox-agent: {folders[0]} cannot be made: {error.strerror}") from None
    return folders


def _program(entry: AgentEntry, cwd: str) -> str:
    from dragoman.process.command import find_program

    found = find_program(entry.command[0], {**os.environ, **entry.env}, cwd)
    return "" if found is None else os.path.realpath(found)


def _check_program(entry: AgentEntry, sandbox: Sandbox, cwd: str) -> None:
    """Refuse a program that would not be found inside."""
    if sandbox.backend != "bubblewrap":
        return
    from dragoman.policy.paths import is_below

    for path in (_program(entry, cwd), *(os.path.realpath(word) for word in entry.command[1:] if os.path.isfile(word))):
        private = next((place for place in ("/tmp", "/var/tmp", "/run") if is_below(path, place)), None)
        if private is not None and not sandbox.policy.may_write(path):
            raise CliError(
                f"--sandbox-agent: {path} is a part of the agent, and {private} is private in bubblewrap",
                hint="install the agent elsewhere",
            )


def _check_daemons(entry: AgentEntry) -> None:
    """Refuse an agent that would have its work done by a daemon which runs outside: the sandbox would be empty."""
    from dragoman.process.daemons import find_daemons

    name = entry.name if entry.facts is None else entry.facts.name
    for daemon in find_daemons((*entry.quirks.daemons, *entry.quirks.spare)):
        raise CliError(
            f"--sandbox-agent: a daemon of {name} ({daemon.word}) runs outside the sandbox and would do its work",
            hint=f"end it first: kill {daemon.pid}",
        )


def sandboxed_entry(entry: AgentEntry) -> AgentEntry:
    """The agent as it runs in a sandbox: its daemons end with it, because they are inside as well."""
    from msgspec.structs import replace

    return replace(entry, quirks=replace(entry.quirks, spare=()))


def _check_own_sandbox(entry: AgentEntry, sandbox: Sandbox, options: Options) -> None:
    """Refuse an agent whose own sandbox cannot start inside this one, unless the user chose a mode without it."""
    facts = entry.facts
    if facts is None or not facts.has_sandbox or options.mode in facts.modes_without_sandbox:
        return
    if not _can_nest(sandbox, options.cwd):
        modes = " or ".join(facts.modes_without_sandbox)
        raise CliError(
            f"--sandbox-agent: {facts.name} runs commands in a sandbox of its own, which cannot start inside "
            f"{sandbox.backend} here",
            hint=f"rely on this one with --mode {modes}, or on its own without --sandbox-agent",
        )


def _can_nest(sandbox: Sandbox, cwd: str) -> bool:
    """Whether a bubblewrap can be started inside the sandbox, found by a trial."""
    from dragoman.process.launch import launch

    try:
        confined = sandbox.confine(_TRIAL, cwd=cwd, env=dict(os.environ))
        started = launch(confined.argv, cwd=confined.cwd, env=confined.env, inherit_env=False, starter=confined.starter)
    except DragomanError:
        return False
    _, status = os.waitpid(started.pid, 0)
    started.end()
    return os.waitstatus_to_exitcode(status) == 0


def confine_agent(sandbox: Sandbox, entry: AgentEntry, cwd: str) -> Confined:
    """The agent's program, ready to be started in its sandbox, with the keys it needs.

    Raises:
        ConfigError: the program or the folder cannot be used.
    """
    environment = {**os.environ}
    for name, value in entry.changed_env(os.environ).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    confined = sandbox.confine(entry.command, cwd=cwd, env=environment)
    confined.env.update({name: environment[name] for name in _needed(entry, environment)})
    return confined


def _needed(entry: AgentEntry, environment: Mapping[str, str]) -> list[str]:
    """The variables that the sandbox would remove although the agent cannot work without them."""
    from dragoman.registry.facts import MODEL_KEYS
    from dragoman.registry.needs import needs_of
    from dragoman.registry.quirks import programs

    needs = needs_of(programs(entry.command))
    wanted = {*MODEL_KEYS, *entry.env, *(() if needs is None else needs.variables), *(entry.env_allow or ())}
    return [name for name in environment if name in wanted and name not in ("TMPDIR", "TMP", "TEMP")]
