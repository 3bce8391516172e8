"""Which agents there are on this machine, and what each name stands for.

The sources are asked in a fixed order, and the first one that knows a name wins. Well-known agents come after all that
the user configured or installed. A project comes last: it cannot take over a name, and the commands it proposes run
only after the user accepted them. A source is read when it is needed, so an agent of the user's own settings costs one
file. Starting an agent is the concern of `dragoman.client`.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dragoman._version import __version__
from dragoman.errors import ConfigError
from dragoman.process.own_program import own_command
from dragoman.registry.elsewhere import connect_command, header_variable, host_of
from dragoman.registry.facts import AgentFacts, addresses_of, facts_of, foreign_keys
from dragoman.registry.installed import Installed, InstalledAgents
from dragoman.registry.quirks import PLAIN, Quirks, overridden, quirks_of
from dragoman.settings.acceptances import fingerprint
from dragoman.settings.documents import did_you_mean, read_document
from dragoman.settings.servers import AgentServer, read_agent_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.registry.downloads import Downloads
    from dragoman.registry.known import WellKnownAgent
    from dragoman.settings.effective import EffectiveSettings
    from dragoman.settings.file import SettingsFile

Editor = Literal["zed", "jetbrains"]
AgentSource = Literal["built-in", "user", "zed", "jetbrains", "registry", "known", "project", "command"]

SCRIPTED: Final = "scripted"
BUILT_IN: Final = "dragoman"
"""The built-in agent, which is used if no agent is named and no default is set."""
RESERVED: Final = (SCRIPTED, BUILT_IN)
ORDER: Final[tuple[AgentSource, ...]] = ("built-in", "user", "zed", "jetbrains", "registry", "known", "project")
# ASCII only: with letters that look like others, a project's name could pass for one of the user's.
_PROJECT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")


class AgentEntry(Struct, frozen=True, kw_only=True):
    """An agent that can be started, or the reason why it cannot."""

    name: str
    command: tuple[str, ...]
    env: dict[str, str] = {}
    source: AgentSource
    where: str
    """`file:line:column` of its entry, the folder it is installed in, or the flag that named it."""
    quirks: Quirks = PLAIN
    problem: str = ""
    """Why it cannot be started as it is, and what to do; empty if it can."""
    sha256: str = ""
    """The fingerprint that the user accepts, for an agent of a project."""
    allows_all: bool = False
    """The user's settings allow everything that this agent asks for."""
    package: str = ""
    """The package with its version that starting it may download, for a well-known agent that is not installed."""
    env_allow: tuple[str, ...] | None = None
    """The variables that it may inherit besides those every program needs; None for all that `changed_env` keeps."""
    url: str = ""
    """Where it is, if it runs elsewhere; the command then connects to it."""
    version: str = ""
    """Of its program, where that is known without running it."""

    @property
    def is_scripted(self) -> bool:
        """Whether it is the scripted agent, which calls no model."""
        return self.source == "built-in" and self.name == SCRIPTED

    @property
    def needs_confirmation(self) -> bool:
        """Whether the user has not yet confirmed that its package may be downloaded and run."""
        return bool(self.package and self.problem)

    @property
    def facts(self) -> AgentFacts | None:
        """What is known about it; None if it is not a well-known agent."""
        return facts_of(self.name, self.command)

    def changed_env(self, inherited: Mapping[str, str]) -> dict[str, str | None]:
        """Return how its environment differs from the inherited one: variables that are set, and None for removed ones.

        A well-known agent does not get the keys of providers that it does not use.
        """
        facts = self.facts
        if self.env_allow is not None:
            from fnmatch import fnmatchcase

            from dragoman.process.command import is_kept

            patterns = self.env_allow
            kept = {name for name in inherited if is_kept(name) or any(fnmatchcase(name, p) for p in patterns)}
            removed = [name for name in inherited if name not in kept | addresses_of(kept, inherited)]
        else:
            removed = [] if facts is None else [name for name in foreign_keys(facts) if name in inherited]
        return {**dict.fromkeys(removed), **self.env}


def load_agents(
    settings: EffectiveSettings,
    data_dir: Path,
    cache_dir: Path,
    *,
    editors: Mapping[Editor, Path] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Agents:
    """Return the agents of this machine for one user and one project.

    Args:
        settings: the settings of the user and the project, from `dragoman.settings.load_settings`.
        data_dir: the folder that contains the installed agents.
        cache_dir: the folder that contains the copy of the ACP registry.
        editors: the files of other editors; by default those of Zed and JetBrains.
        environment: of the user who asks, whose programs are searched; by default that of this process.
    """
    files = editor_files(Path.home()) if editors is None else editors
    return Agents(settings, files, InstalledAgents(data_dir), cache_dir, environment)


def resolve_command(argv: Sequence[str]) -> AgentEntry:
    """Return the agent for a command that the user typed. Its quirks are found by the program it runs.

    Raises:
        ConfigError: the command is empty.
    """
    if not argv:
        raise ConfigError("the agent's command is empty; write it after --, such as -- gemini --acp")
    command = tuple(argv)
    name = host_of(command) or os.path.basename(command[0]) or command[0]
    return AgentEntry(
        name=name, command=command, source="command", where="the command line", quirks=quirks_of(name, command)
    )


class Agents:
    """The agents by name."""

    def __init__(
        self,
        settings: EffectiveSettings,
        editors: Mapping[Editor, Path],
        installed: InstalledAgents,
        cache_dir: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = settings
        self._environment = environment
        self.installed = installed
        self._editors = editors
        self._cache_dir = cache_dir
        self._npx_folder = installed.root.parent / "npx"
        self._read: dict[AgentSource, dict[str, AgentEntry]] = {}
        self._notes: list[str] = []

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted; those of well-known agents also if they are not on this machine."""
        from dragoman.registry.known import well_known_agents

        found = {agent.name: agent.name for agent in well_known_agents()}
        for source in ORDER:
            if source != "known":
                found |= {entry.name.casefold(): entry.name for entry in self._from(source).values()}
        return tuple(sorted(found.values(), key=str.casefold))

    def entries(self) -> tuple[AgentEntry, ...]:
        """Return all agents, sorted by name; of several with one name, the one that is used.

        Well-known agents that are not on this machine have a `problem` that names what to do.
        """
        found: dict[str, AgentEntry] = {}
        for source in ORDER:
            for entry in self._from(source).values():
                found.setdefault(entry.name.casefold(), entry)
        return tuple(sorted(found.values(), key=lambda entry: entry.name.casefold()))

    def look_up(self, name: str) -> AgentEntry | None:
        """Return the agent of that name, even if it cannot be started yet; None if there is none.

        Upper and lower case count only where two names of one source differ in nothing else.
        """
        for source in ORDER:
            entry = self._find_known(name) if source == "known" else self._find_in(source, name)
            if entry is not None:
                if source != "project":
                    self._note_redefinition(name, entry)
                return self._with_typed_keys(entry)
        return None

    def _with_typed_keys(self, entry: AgentEntry) -> AgentEntry:
        """Return the agent with the keys that the user typed for its variables; its own settings come first."""
        if entry.source in ("built-in", "project"):  # the first has stored keys of its own, the second none
            return entry
        from dragoman.settings.credentials import Credentials

        try:
            keys = Credentials(self.settings.user.path.parent).variables_of(entry.name)
        except ConfigError as error:
            self._note(f"stored keys are not used: {error}")
            return entry
        if not keys:
            return entry
        from dragoman.text.secrets import remember_key

        for variable, key in keys.items():
            remember_key(variable, key)
        return replace(entry, env={**keys, **entry.env})

    def _find_in(self, source: AgentSource, name: str) -> AgentEntry | None:
        entries = self._from(source)
        same = [entry for entry in entries.values() if entry.name.casefold() == name.casefold()]
        return entries.get(name) or (same[0] if len(same) == 1 else None)

    def _find_known(self, name: str) -> AgentEntry | None:
        """Return a well-known agent, by its name or an alias; the others are not looked for."""
        from dragoman.registry.known import well_known

        agent = well_known(name)
        return None if agent is None else self._known_entry(agent)

    def find(self, name: str) -> AgentEntry:
        """Return the agent of that name, ready to start.

        Raises:
            ConfigError: there is none, or the user has to do something first; the message says what.
        """
        entry = self.look_up(name)
        if entry is None:
            raise ConfigError(self._unknown(name))
        if entry.problem:
            raise ConfigError(entry.problem)
        return entry

    def confirm(self, entry: AgentEntry, *, is_stored: bool = True) -> AgentEntry:
        """Return a well-known agent ready to start: the user confirmed that its package may be downloaded and run.

        Args:
            entry: an agent that needs a confirmation.
            is_stored: whether the confirmation also holds for later runs.

        Raises:
            ConfigError: the confirmation cannot be stored.
        """
        if is_stored:
            self._downloads.confirm(entry.name, entry.package)
        self._make_npx_folder()
        return replace(entry, problem="")

    def withdraw_confirmation(self, name: str) -> bool:
        """Forget that the package of a well-known agent may be downloaded; False if that was not confirmed."""
        from dragoman.registry.known import well_known

        agent = well_known(name)
        return agent is not None and self._downloads.withdraw(agent.name)

    @property
    def default(self) -> str | None:
        """The agent to use when none is named. A project's choice counts only after the user accepted it."""
        return self.settings.default_agent or None

    def is_default(self, entry: AgentEntry) -> bool:
        """Return whether it is used when no agent is named."""
        return entry.name == (self.default or BUILT_IN)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user about settings and agents that were ignored; complete after `entries`."""
        return (*self.settings.notes, *self._notes)

    def _from(self, source: AgentSource) -> dict[str, AgentEntry]:
        if source not in self._read:
            self._read[source] = self._load(source)
        return self._read[source]

    def _load(self, source: AgentSource) -> dict[str, AgentEntry]:
        match source:
            case "built-in":
                return {BUILT_IN: _built_in(), SCRIPTED: _scripted()}
            case "user":
                return self._entries_of(self.settings.user.servers, source)
            case "registry":
                entries = {id_: self._installed_entry(found) for id_, found in self._installed.items()}
                self._notes.extend(self.installed.notes)
                return entries
            case "known":
                from dragoman.registry.known import well_known_agents

                found = [self._known_entry(agent) for agent in well_known_agents()]
                return {entry.name: entry for entry in found if entry.source == "known"}
            case "zed" | "jetbrains" if source in self._editors:
                servers, notes = read_editor_agents(self._editors[source])
                self._notes.extend(notes)
                return self._entries_of(servers, source)
            case "project" if self.settings.project is not None:
                return self._proposals(self.settings.project)
        return {}

    def _entries_of(self, servers: dict[str, AgentServer], source: AgentSource) -> dict[str, AgentEntry]:
        entries = {name: self._entry(server, source) for name, server in servers.items()}
        for name in [name for name in entries if name.casefold() in RESERVED]:
            where = entries.pop(name).where
            # An editor's entry of this name is the built-in agent with the editor's options, as docs/editors.md has it.
            if source == "user" or name.casefold() != BUILT_IN:
                self._note(f"{where}: the name {name!r} is reserved; choose another one")
        return entries

    def _entry(self, server: AgentServer, source: AgentSource) -> AgentEntry:
        entry = AgentEntry(
            name=server.name,
            command=server.command,
            env=server.env,
            source=source,
            where=server.where,
            # The files of editors are read for their commands; what may be done without asking is decided here.
            allows_all=source == "user" and server.allows_all,
            env_allow=server.env_allow if source == "user" else None,
        )
        if server.url:
            return replace(
                entry,
                command=connect_command(server.url, server.token_env, server.ca),
                env={**server.env, **header_variable(server.headers)},
                env_allow=None if entry.env_allow is None else (*entry.env_allow, server.token_env),
                url=server.url,
                quirks=overridden(PLAIN, server.quirks, f"{server.where}: quirks"),
            )
        if server.registry_id:
            found = self._installed.get(server.registry_id)
            if found is None:
                return replace(entry, problem=_not_installed(server))
            command = self.installed.argv(found)
            entry = replace(entry, command=command, env={**found.env, **server.env}, version=found.version)
            quirks = quirks_of(server.registry_id, entry.command)
        else:
            quirks = quirks_of(server.name, server.command)
        return replace(entry, quirks=overridden(quirks, server.quirks, f"{server.where}: quirks"))

    def _proposals(self, project: SettingsFile) -> dict[str, AgentEntry]:
        """Return the project's agents, except those whose name another source has."""
        from dragoman.registry.known import well_known

        taken = {
            entry.name.casefold(): entry
            for source in reversed(ORDER)
            if source not in ("project", "known")
            for entry in self._from(source).values()
        }
        entries = {}
        for name, server in project.servers.items():
            if name.casefold() in taken:
                self._note_redefinition(name, taken[name.casefold()])
            elif (agent := well_known(name)) is not None:
                self._note(f"{server.where}: agent {name!r} is not used: it is the name of {agent.title}")
            elif not _PROJECT_NAME.fullmatch(name):
                self._note(f"{server.where}: {name!r} is not used: a project's names are plain ASCII letters")
            elif server.url:
                self._note(
                    f"{server.where}: {name!r} is not used: a project cannot name an agent elsewhere; add it "
                    "to your own settings"
                )
            elif server.registry_id:
                self._note(f"{server.where}: {name!r} is not used: install it yourself if you want it")
            else:
                entries[name] = self._proposal(server)
        return entries

    def _proposal(self, server: AgentServer) -> AgentEntry:
        root = self.settings.root
        assert root is not None
        for name, is_given in (
            ("quirks", server.quirks),
            ("dangerously_allow_all", server.allows_all),
            ("env_allow", server.env_allow is not None),
        ):
            if is_given:
                self._note(f"{server.where}: {name} of {server.name!r} is not used: only the user can set it")
        sha256 = fingerprint(server.command, server.env)
        first = server.command[0]
        # A path in a project's command is relative to the project, not to the folder the user is in.
        program = str(Path(os.path.realpath(root), first)) if os.sep in first else first
        is_accepted = self.settings.is_accepted("agent", server.name, sha256)
        problem = (
            f"agent {server.name!r} comes from the project ({server.where}), and you have not accepted its command; "
            f"review and accept it with: dragoman agents accept {server.name!r}"
        )
        return AgentEntry(
            name=server.name,
            command=(program, *server.command[1:]),
            env=server.env,
            source="project",
            where=server.where,
            quirks=quirks_of(server.name, server.command),
            problem="" if is_accepted else problem,
            sha256=sha256,
        )

    def _known_entry(self, agent: WellKnownAgent) -> AgentEntry:
        """Return a well-known agent: as installed from the registry, as a program on the PATH, or as a package."""
        import shlex

        from dragoman.registry.known import locate

        for id_ in (agent.name, *agent.aliases):
            if id_ in self._installed:
                return self._installed_entry(self._installed[id_])
        confirmed = self._downloads.confirmed(agent.name)
        found = locate(agent, self._npx_folder, self._environment, chosen=confirmed)
        problem = ""
        if found.missing:
            # Without its Node.js nothing of it can be installed either.
            can_install = agent.python_package is not None and not agent.npm
            remedy = f", or install it with: dragoman agents install {agent.name}" if can_install else ""
            problem = f"{agent.title} ({agent.name!r}) is not installed; it needs {found.missing}{remedy}"
        elif found.package and found.package != confirmed:
            problem = (
                f"{agent.title} ({agent.name!r}) is not installed; {shlex.join(found.command)} would download and run "
                f"{found.package}; confirm that once with: dragoman agents accept {agent.name}"
            )
        elif found.package:
            self._make_npx_folder()
        if found.note:
            self._note(found.note)
        return AgentEntry(
            name=agent.name,
            command=found.command,
            env={**agent.env, "PATH": found.path} if found.path else agent.env,
            source="known",
            where=found.where or "known to dragoman",
            quirks=quirks_of(agent.name, found.command),
            problem=problem,
            package=found.package,
            version=found.package.rpartition("@")[2],
        )

    def _make_npx_folder(self) -> None:
        try:
            self._npx_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._npx_folder}: cannot be created: {error.strerror}; npx needs it") from error

    @cached_property
    def _downloads(self) -> Downloads:
        from dragoman.registry.downloads import Downloads

        return Downloads(self.settings.user.path.parent)

    @cached_property
    def _installed(self) -> dict[str, Installed]:
        return self.installed.all()

    def _installed_entry(self, installed: Installed) -> AgentEntry:
        command = self.installed.argv(installed)
        return AgentEntry(
            name=installed.id,
            command=command,
            env=installed.env,
            source="registry",
            where=str(self.installed.root / installed.folder),
            quirks=quirks_of(installed.id, command),
            version=installed.version,
        )

    def _note(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.append(sentence)

    def _note_redefinition(self, name: str, owner: AgentEntry) -> None:
        """Note, once, that the project's agent of this name is not used."""
        project = self.settings.project
        for server in project.servers.values() if project else ():
            if server.name.casefold() == name.casefold():
                self._note(f"{server.where}: agent {server.name!r} is not used: the name is taken ({owner.where})")

    def _unknown(self, name: str) -> str:
        from dragoman.registry.catalogue import cached_catalogue
        from dragoman.registry.known import well_known_agents

        catalogue = cached_catalogue(self._cache_dir)
        if catalogue is not None and name in catalogue.agents:
            return (
                f"agent {name!r} is in the registry but not installed; install it with: dragoman agents install {name}"
            )
        aliases = [alias for agent in well_known_agents() for alias in agent.aliases]
        names = self.names()
        hint = did_you_mean(name, names) or did_you_mean(name, aliases) or f"known agents: {', '.join(names)}."
        looks_like_command = " " in name or os.sep in name
        more = f"-- {name}" if looks_like_command else f"dragoman agents add {name} -- COMMAND"
        advice = "To run a command write" if looks_like_command else "To add it:"
        return f"no agent is called {name!r}; {hint} {advice} {more}"


def _built_in() -> AgentEntry:
    return AgentEntry(
        name=BUILT_IN,
        command=own_command("agent"),
        source="built-in",
        where="dragoman agent",
        version=__version__,
    )


def _scripted() -> AgentEntry:
    return AgentEntry(
        name=SCRIPTED,
        command=own_command(module="dragoman.testing.scripted_agent"),
        source="built-in",
        where="dragoman itself; it calls no model",
        version=__version__,
    )


def _not_installed(server: AgentServer) -> str:
    return (
        f"agent {server.name!r} ({server.where}) is {server.registry_id!r} of the registry, which is not installed; "
        f"install it with: dragoman agents install {server.registry_id}"
    )


# The agents of editors. An entry or a file that cannot be used becomes a note: it is the editor's, and may contain
# anything.


class EditorAgents(NamedTuple):
    """The agents of one editor by name, and sentences about those that were ignored."""

    servers: dict[str, AgentServer]
    notes: tuple[str, ...]


def editor_files(home: Path, environment: Mapping[str, str] = os.environ) -> dict[Editor, Path]:
    """Return the files in which Zed and JetBrains keep their agents."""
    base = environment.get("XDG_CONFIG_HOME", "")
    config = Path(base) if os.path.isabs(base) else home / ".config"
    return {"zed": config / "zed" / "settings.json", "jetbrains": home / ".jetbrains" / "acp.json"}


def read_editor_agents(path: Path) -> EditorAgents:
    """Read the agents from an editor's file."""
    try:
        document = read_document(path, has_comments=True)
    except ConfigError as error:
        return EditorAgents({}, (f"not used: {error}",))
    if document is None:
        return EditorAgents({}, ())
    servers: dict[str, AgentServer] = {}
    notes: list[str] = []
    found = document.value.get("agent_servers") if isinstance(document.value, dict) else None
    for name, value in (found if isinstance(found, dict) else {}).items():
        try:
            servers[name] = read_agent_server(document, ("agent_servers", name), name, value, notes=[])
        except ConfigError as error:
            notes.append(f"not used: {error}")
    return EditorAgents(servers, tuple(notes))
