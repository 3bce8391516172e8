"""The sandboxes of one run: for the commands that dragoman runs for the agent, and for the agent as a whole.

Owns which sandbox is in force, which folders it opens, and the sentences about it. Everything is prepared before the
agent is started, so that a missing sandbox costs nothing. Nothing here may import asyncio: it would delay that start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.registry.built_in import runs_built_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.policy import Rule
    from dragoman.process.sandbox import Confined, Sandbox
    from dragoman.process.sandbox.denied import DeniedPaths, DeniedSearch
    from dragoman.process.sandbox.opening import OpenedSandbox
    from dragoman.registry.agents import AgentEntry

SandboxMode: TypeAlias = Literal["off", "auto", "require"]


class RunSandboxes(Struct, kw_only=True):
    """What is in force in one run. `close` it."""

    mode: SandboxMode = "off"
    commands: Sandbox | None = None
    """For the commands of terminals; None runs them outside."""
    outside: Sandbox | None = None
    """For commands outside: it closes what rules about files deny."""
    agent: Sandbox | None = None
    """For the agent's own program, with `--sandbox-agent`."""
    reason: str = ""
    """Why there is no sandbox although one was wanted (`auto`)."""
    is_partial: bool = False
    """The agent runs commands itself and not through dragoman, or it is not known how it runs them."""
    state: tuple[str, ...] = ()
    """The folders that the sandboxed agent may write because its state is there."""
    unenforced: tuple[str, ...] = ()
    """What rules about files no sandbox enforces here, each with the reason."""
    opened: list[OpenedSandbox] = []
    """Their private temporary folders are removed by `close`."""
    wanted: WantedSandboxes | None = None
    search: DeniedSearch | None = None
    """Looks for what rules about files deny to commands; None if there is no such rule."""
    denied: DeniedPaths | None = None
    """What it found last."""

    @property
    def backend(self) -> str | None:
        return None if self.commands is None else self.commands.backend

    def close(self) -> None:
        """Remove the private temporary folders."""
        for opened in self.opened:
            opened.close()
        self.opened.clear()

    def renewed(self) -> tuple[Sandbox | None, Sandbox | None]:
        """Return the sandboxes for commands inside and outside, with the files that rules deny now. Blocks."""
        search, wanted = self.search, self.wanted
        if search is None or wanted is None:
            return self.commands, self.outside
        denied = search.look()
        if denied != self.denied:
            from dragoman.process.sandbox import Sandbox

            self.denied = denied
            if self.commands is not None:
                self.commands = Sandbox(denied.close(self.commands.policy), self.commands.backend)
            if wanted.mode != "require" and wanted.closes_denied:
                _close_outside(self, wanted, denied)
        return self.commands, self.outside

    def notes(self) -> list[str]:
        """Return sentences for the user about what is in force."""
        found = [self.reason] if self.reason else []
        if self.commands is not None:
            found.append(self.commands.describe())
        if self.outside is not None:
            found.append(self.outside.describe())
        found += [
            f"A deny rule about files binds commands only by their words: {reason}." for reason in self.unenforced
        ]
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


class WantedSandboxes(Struct, frozen=True, kw_only=True):
    """What the user wants to be enclosed."""

    mode: SandboxMode
    cwd: str
    roots: Sequence[str]
    """The folders of the session, its own first."""
    writable: Sequence[str] = ()
    """Further folders that may be written inside."""
    encloses_agent: bool = False
    """`--sandbox-agent`."""
    agent_mode: str | None = None
    """The mode that the user chose for the agent; some have one without a sandbox of their own."""
    agent: str = ""
    """Its name, as rules have it."""
    rules: Sequence[Rule] = ()
    """Those that deny to read or edit certain files close them, as far as they exist now."""
    closes_denied: bool = True
    """Whether they are also closed to commands outside the sandbox; not with `--sandbox off`."""
    environment: Mapping[str, str] | None = None
    """Of the client of a host: its variables name secret places, too."""


def prepare_sandboxes(wanted: WantedSandboxes, entry: AgentEntry | None) -> RunSandboxes:
    """Find out which sandbox works here and make its policy; `entry` is None for an agent in this process.

    Raises:
        ConfigError: the user requires a sandbox, and none can be used; or a folder is too wide to be a boundary.
    """
    found = RunSandboxes(mode=wanted.mode)
    if wanted.mode == "off" and not wanted.closes_denied:
        return found
    found.wanted, found.search = wanted, _search(wanted)
    denied = found.denied = None if found.search is None else found.search.look()
    if wanted.mode != "require" and wanted.closes_denied and denied is not None:
        _close_outside(found, wanted, denied)
    if wanted.mode == "off":
        return found
    try:
        _prepare(found, wanted, entry, denied)
    except ConfigError as error:
        found.close()
        if wanted.mode == "require":
            raise
        found.reason = f"--sandbox auto: commands run without a sandbox: {error}"
    except BaseException:
        found.close()
        raise
    return found


def _search(wanted: WantedSandboxes) -> DeniedSearch | None:
    """Return the search for what rules deny to commands; None if no rule is about files, which costs nothing."""
    if not any(rule.action == "deny" and ("read:" in rule.text or "edit:" in rule.text) for rule in wanted.rules):
        return None
    import os

    from dragoman.process.sandbox.denied import DeniedSearch, denied_paths

    home = os.path.expanduser("~")
    return DeniedSearch(lambda: denied_paths(wanted.rules, wanted.agent, wanted.roots, home, for_commands=True))


def _close_outside(found: RunSandboxes, wanted: WantedSandboxes, denied: DeniedPaths) -> None:
    from dragoman.process.sandbox import Sandbox, available
    from dragoman.process.sandbox.policy import wide_policy

    found.unenforced = denied.left
    if not denied:
        return
    here = available(wanted.roots)
    if "bubblewrap" in here.backends:
        found.outside = Sandbox(denied.close(wide_policy(wanted.roots)), "bubblewrap")
    else:
        found.unenforced += (here.reasons["bubblewrap"],)


def _prepare(
    found: RunSandboxes, wanted: WantedSandboxes, entry: AgentEntry | None, denied: DeniedPaths | None
) -> None:
    from dragoman.process.sandbox import available
    from dragoman.process.sandbox.opening import open_sandbox  # few runs have one, and it takes time to load
    from dragoman.settings.places import private_folders

    here = available(wanted.roots)
    if not here.backends:
        raise ConfigError(
            here.describe(), hint="--sandbox auto runs without one; see docs/sandbox.md for what is needed"
        )
    backend = here.backends[0]
    opened = open_sandbox(
        wanted.roots,
        writable=wanted.writable,
        hidden=private_folders(),
        environment=wanted.environment,
        backend=backend,
        change=(lambda policy: policy) if denied is None else denied.close,
    )
    found.opened.append(opened)
    found.commands = opened.sandbox
    if denied is not None:
        missing = denied.unenforced(opened.sandbox.policy, backend)
        found.unenforced = tuple(dict.fromkeys((*found.unenforced, *missing)))
    if entry is None:
        return
    if not wanted.encloses_agent:
        found.is_partial = not runs_built_in(entry) and not (entry.facts is not None and entry.facts.runs_in_terminals)
        return
    from dragoman.registry.sandboxed import NotConfinable, open_agent_sandbox

    try:
        around = open_agent_sandbox(
            entry, wanted.roots, cwd=wanted.cwd, writable=wanted.writable, backend=backend, rules=wanted.rules
        )
    except NotConfinable as error:
        raise ConfigError(f"--sandbox-agent: {error}", hint=error.hint) from error
    found.opened.append(around.opened)
    found.agent, found.state = around.sandbox, around.state
    _check_own_sandbox(entry, found.agent, wanted)


def _check_own_sandbox(entry: AgentEntry, sandbox: Sandbox, wanted: WantedSandboxes) -> None:
    """Refuse an agent whose own sandbox cannot start inside this one, unless the user chose a mode without it."""
    from dragoman.registry.sandboxed import lacks_own_sandbox

    facts = entry.facts
    if facts is None or wanted.agent_mode in facts.modes_without_sandbox:
        return
    if lacks_own_sandbox(entry, sandbox, wanted.cwd):
        modes = " or ".join(facts.modes_without_sandbox)
        raise ConfigError(
            f"--sandbox-agent: {facts.name} runs commands in a sandbox of its own, which cannot start inside "
            f"{sandbox.backend} here",
            hint=f"rely on this one with --mode {modes}, or on its own without --sandbox-agent",
        )


def sandboxed_entry(entry: AgentEntry) -> AgentEntry:
    """Return the agent as it runs in a sandbox: its daemons end with it, because they are inside as well."""
    from dragoman.registry import sandboxed  # few runs confine the agent

    return sandboxed.sandboxed_entry(entry)


def confine_agent(sandbox: Sandbox, entry: AgentEntry, cwd: str) -> Confined:
    """Prepare the agent's program to be started in its sandbox, with the keys it needs.

    Raises:
        ConfigError: the program or the folder cannot be used.
    """
    from dragoman.registry import sandboxed

    return sandboxed.confine_agent(sandbox, entry, cwd)
