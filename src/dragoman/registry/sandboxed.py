"""An agent whose own program runs in a sandbox: which folders and variables it needs there, and why it may not work.

Used by `--sandbox-agent`, and for an agent that is a subagent of the built-in one. Blocks. Imports the sandbox when it
is needed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.errors import ConfigError, DragomanError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dragoman.policy import Rule
    from dragoman.process.sandbox import Backend, Confined, Sandbox, SandboxPolicy
    from dragoman.process.sandbox.opening import OpenedSandbox
    from dragoman.registry.agents import AgentEntry

_TRIAL: Final = ("bwrap", "--unshare-user", "--ro-bind", "/", "/", "true")


class NotConfinable(ConfigError):
    """The agent cannot run in the sandbox. `hint` says what to do."""


class AgentSandbox(Struct, frozen=True):
    """The sandbox of one agent. `close` it."""

    opened: OpenedSandbox
    state: tuple[str, ...] = ()
    """The folders that the agent may write because its state is there."""
    unenforced: tuple[str, ...] = ()
    """What rules about files the sandbox does not enforce, each with the reason."""

    @property
    def sandbox(self) -> Sandbox:
        return self.opened.sandbox

    def close(self) -> None:
        """Remove the private temporary folder."""
        self.opened.close()


def open_agent_sandbox(
    entry: AgentEntry,
    roots: Sequence[str],
    *,
    cwd: str,
    writable: Sequence[str] = (),
    backend: Backend | None = None,
    rules: Sequence[Rule] = (),
) -> AgentSandbox:
    """Open a sandbox for an agent, with the network, which its model needs.

    Args:
        roots: the folders of the session, which it may write.
        writable: further folders that it may write; those of its state are added.
        backend: one that is known to work; None looks for the best.
        rules: those that deny to read or edit files are enforced for what exists now.

    Raises:
        NotConfinable: the agent would not work inside, or would work outside.
        ConfigError: there is no sandbox, or a folder is too wide to be a boundary.
    """
    from msgspec.structs import replace

    from dragoman.process.sandbox.denied import denied_paths
    from dragoman.process.sandbox.opening import open_sandbox
    from dragoman.settings.places import private_folders

    state = _state(entry)
    program = _program(entry, cwd)
    denied = denied_paths(rules, entry.name, roots, os.path.expanduser("~"))

    def change(policy: SandboxPolicy) -> SandboxPolicy:
        seen = _with_program(policy, program) if program else policy
        nests = entry.facts is not None and entry.facts.has_sandbox
        return replace(denied.close(seen), nests=nests)

    opened = open_sandbox(
        roots,
        writable=(*writable, *state),
        hidden=private_folders(),
        own=(*state, *_logins(entry, writable)),
        network=True,
        backend=backend,
        change=change,
    )
    try:
        _check_program(entry, opened.sandbox, cwd)
        _check_daemons(entry)
    except BaseException:
        opened.close()
        raise
    return AgentSandbox(opened, state, denied.unenforced(opened.sandbox.policy, opened.sandbox.backend))


def sandboxed_entry(entry: AgentEntry) -> AgentEntry:
    """Return the agent as it runs in a sandbox: its daemons end with it, because they are inside as well."""
    from msgspec.structs import replace

    return replace(entry, quirks=replace(entry.quirks, spare=()))


def lacks_own_sandbox(entry: AgentEntry, sandbox: Sandbox, cwd: str) -> bool:
    """Return whether the agent has a sandbox of its own that cannot start inside this one; a trial shows it."""
    return entry.facts is not None and entry.facts.has_sandbox and not _can_nest(sandbox, cwd)


def confine_agent(sandbox: Sandbox, entry: AgentEntry, cwd: str) -> Confined:
    """Return the agent's program, ready to be started in its sandbox, with the keys it needs.

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


def _with_program(policy: SandboxPolicy, program: str) -> SandboxPolicy:
    """Return the policy with which a program can be read: one from the registry lies in a hidden folder."""
    from msgspec.structs import replace

    from dragoman.policy.paths import is_below

    around = [place for place in policy.hidden if is_below(program, place)]
    siblings = [path for place in around for path in _siblings(place, program)]
    return replace(policy, hidden=(*(place for place in policy.hidden if place not in around), *siblings))


def _siblings(place: str, path: str) -> Iterator[str]:
    """Yield everything in a folder except what lies on the way to a path below it."""
    from dragoman.policy.paths import is_below

    while path != place:
        with os.scandir(place) as listing:
            inner = [entry.path for entry in listing]
        yield from (folder for folder in inner if not is_below(path, folder))
        place = next((folder for folder in inner if is_below(path, folder)), path)


def _state(entry: AgentEntry) -> tuple[str, ...]:
    """Return the folders of an agent's state; the first one is made, because the agent could not make it."""
    if entry.facts is None:
        return ()
    from dragoman.registry.facts import state_folders

    folders = state_folders(entry.facts, {**os.environ, **entry.env})
    try:
        os.makedirs(folders[0], mode=0o700, exist_ok=True)
    except OSError as error:
        raise NotConfinable(f"{folders[0]} cannot be made: {error.strerror}") from None
    return folders


def _logins(entry: AgentEntry, named: Sequence[str]) -> Iterator[str]:
    """Yield the other places of an agent's login; of an unknown agent those that the user named as writable."""
    from dragoman.policy.secret_places import AGENT_PLACES

    home = os.path.expanduser("~")
    places = {os.path.realpath(os.path.join(home, place)) for place in AGENT_PLACES}
    yield from (path for path in named if os.path.realpath(path) in places)
    if entry.facts is not None:
        yield from (os.path.join(home, name) for name in entry.facts.files)


def _program(entry: AgentEntry, cwd: str) -> str:
    from dragoman.process.command import find_program

    found = find_program(entry.command[0], {**os.environ, **entry.env}, cwd)
    return "" if found is None else os.path.realpath(found)


def _check_program(entry: AgentEntry, sandbox: Sandbox, cwd: str) -> None:
    """Refuse a program that would not be found inside."""
    if sandbox.backend != "bubblewrap":
        return
    from dragoman.policy.paths import is_below
    from dragoman.process.command import find_program

    # Also before links are followed: the interpreter of an environment is a link, and its packages lie next to it.
    program = find_program(entry.command[0], {**os.environ, **entry.env}, cwd)
    named = [*([program] if program else ()), *filter(os.path.isfile, entry.command[1:])]
    for path in [form for name in named for form in (os.path.abspath(name), os.path.realpath(name))]:
        private = next((place for place in ("/tmp", "/var/tmp", "/run") if is_below(path, place)), None)
        if private is not None and not sandbox.policy.may_write(path):
            raise NotConfinable(
                f"{path} is a part of the agent, and {private} is private in bubblewrap", "install the agent elsewhere"
            )


def _check_daemons(entry: AgentEntry) -> None:
    """Refuse an agent that would have its work done by a daemon which runs outside: the sandbox would be empty."""
    from dragoman.process.daemons import find_daemons

    name = entry.name if entry.facts is None else entry.facts.name
    for daemon in find_daemons((*entry.quirks.daemons, *entry.quirks.spare)):
        raise NotConfinable(
            f"a daemon of {name} ({daemon.word}) runs outside the sandbox and would do its work",
            f"end it first: kill {daemon.pid}",
        )


def _can_nest(sandbox: Sandbox, cwd: str) -> bool:
    """Return whether a bubblewrap can be started inside the sandbox, found by a trial."""
    from dragoman.process.launch import launch

    try:
        confined = sandbox.confine(_TRIAL, cwd=cwd, env=dict(os.environ))
        started = launch(confined.argv, cwd=confined.cwd, env=confined.env, inherit_env=False, starter=confined.starter)
    except DragomanError:
        return False
    _, status = os.waitpid(started.pid, 0)
    started.end()
    return os.waitstatus_to_exitcode(status) == 0


def _needed(entry: AgentEntry, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that the sandbox would remove although the agent cannot work without them."""
    from dragoman.registry.facts import MODEL_KEYS
    from dragoman.registry.needs import needs_of
    from dragoman.registry.quirks import programs

    needs = needs_of(programs(entry.command))
    wanted = {*MODEL_KEYS, *entry.env, *(() if needs is None else needs.variables), *(entry.env_allow or ())}
    return [name for name in environment if name in wanted and name not in ("TMPDIR", "TMP", "TEMP")]
