"""Which agents there are, and what each name stands for.

Owns the order in which the places are asked, and what a project may not do: take a name that is already somebody's, or
run a command nobody accepted. Places are read when they are needed: an agent of the user's own settings costs one file.
Starting an agent belongs to `dragoman.client`.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.registry.installed import Installed, InstalledAgents
from dragoman.registry.proposals import Accepted, fingerprint, mcp_fingerprint
from dragoman.registry.quirks import PLAIN, Quirks, overridden, quirks_of
from dragoman.registry.servers import nearest
from dragoman.registry.settings import Settings, Source, editor_files, load_settings, project_file, user_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.policy import Rule, Scope
    from dragoman.registry.servers import Server

SCRIPTED: Final = "scripted"
# What is asked first, wins. A project comes last: every other name is the user's.
ORDER: Final[tuple[Source, ...]] = ("built-in", "user", "zed", "jetbrains", "registry", "project")
# Letters that look like others would let a project's name pass for one of the user's.
_PROJECT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")


class AgentEntry(Struct, frozen=True, kw_only=True):
    """An agent that can be started, or the sentence why not."""

    name: str
    command: tuple[str, ...]
    env: dict[str, str] = {}
    source: Source
    where: str
    """The file and place, the folder, or the flag that named it."""
    quirks: Quirks = PLAIN
    problem: str = ""
    """Why it cannot be started as it is, and what to do; empty if nothing is in the way."""
    sha256: str = ""
    """The fingerprint that is accepted, for an agent of a project."""

    @property
    def is_scripted(self) -> bool:
        """Whether it is the one without a model, which says so in every result."""
        return self.source == "built-in" and self.name == SCRIPTED


def load_agents(
    config_dir: Path,
    data_dir: Path,
    cache_dir: Path,
    project: Path | None = None,
    *,
    editors: Mapping[Source, Path] | None = None,
) -> Agents:
    """Everything that is known about agents on this machine, for this user and this project.

    `editors` says where other editors keep theirs (their usual places by default).

    Raises: ConfigError for a broken file of the user's or the project's.
    """
    return Agents(
        load_settings(user_file(config_dir), "user"),
        None if project is None else load_settings(project_file(project), "project"),
        editor_files(Path.home()) if editors is None else editors,
        InstalledAgents(data_dir),
        Accepted(config_dir),
        project,
        cache_dir,
    )


def resolve_command(argv: Sequence[str]) -> AgentEntry:
    """The agent of a command as it was typed; its quirks come from the program."""
    if not argv:
        raise ConfigError("the agent's command is empty; write it after --, such as -- gemini --acp")
    command = tuple(argv)
    name = os.path.basename(command[0]) or command[0]
    return AgentEntry(
        name=name, command=command, source="command", where="the command line", quirks=quirks_of(name, command)
    )


class Agents:
    """The agents by name."""

    def __init__(
        self,
        user: Settings,
        project: Settings | None,
        editors: Mapping[Source, Path],
        installed: InstalledAgents,
        accepted: Accepted,
        root: Path | None,
        cache_dir: Path,
    ) -> None:
        self.user, self.project = user, project
        self.accepted, self.installed = accepted, installed
        self.root = root
        self._editors = editors
        self._cache_dir = cache_dir
        self._read: dict[Source, dict[str, AgentEntry]] = {}
        self._notes: list[str] = [*user.notes, *(project.notes if project else ())]

    def names(self) -> tuple[str, ...]:
        """Every name, sorted."""
        return tuple(entry.name for entry in self.entries())

    def entries(self) -> tuple[AgentEntry, ...]:
        """Every agent, sorted by name; of two with one name the one that counts."""
        found: dict[str, AgentEntry] = {}
        for source in ORDER:
            for entry in self._from(source).values():
                found.setdefault(entry.name.casefold(), entry)
        return tuple(sorted(found.values(), key=lambda entry: entry.name.casefold()))

    def look_up(self, name: str) -> AgentEntry | None:
        """The agent of that name, whatever may be in the way of starting it. Case counts only between two."""
        for source in ORDER:
            entries = self._from(source)
            same = [entry for entry in entries.values() if entry.name.casefold() == name.casefold()]
            entry = entries.get(name) or (same[0] if len(same) == 1 else None)
            if entry is not None:
                if source != "project":
                    self._note_redefinition(name, entry)
                return entry
        return None

    def find(self, name: str) -> AgentEntry:
        """The agent of that name, ready to start.

        Raises: ConfigError when there is none, or when something has to be done first; the message says what.
        """
        entry = self.look_up(name)
        if entry is None:
            raise ConfigError(self._unknown(name))
        if entry.problem:
            raise ConfigError(entry.problem)
        return entry

    @property
    def default(self) -> str | None:
        """The agent to use when none is named. A project's word counts only after the user accepted it."""
        if self.user.default_agent:
            return self.user.default_agent
        wanted = self.proposed_default
        if wanted and self.root and self.accepted.holds(self.root, "default", wanted, fingerprint((wanted,))):
            return wanted
        return None

    @property
    def proposed_default(self) -> str:
        """The agent the project would like to be used; empty if it has no wish."""
        return self.project.default_agent if self.project else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out so far, and why; complete after `entries`."""
        return tuple(self._notes)

    def mcp_servers(self) -> dict[str, dict[str, Any]]:
        """The MCP servers for every session: the user's, and those of the project the user accepted."""
        servers = dict(self.user.mcp_servers)
        for name, server in self.proposed_mcp_servers().items():
            if self.root and self.accepted.holds(self.root, "mcp", name, mcp_fingerprint(server)):
                servers[name] = server
        return servers

    def proposed_mcp_servers(self) -> dict[str, dict[str, Any]]:
        """Those of the project, accepted or not, without the names that are the user's."""
        proposed = self.project.mcp_servers if self.project else {}
        taken = {name.casefold() for name in self.user.mcp_servers}
        for name in [name for name in proposed if name.casefold() in taken]:
            self._note(f"the project's MCP server {name!r} is not used: the name is taken ({self.user.path})")
        return {name: server for name, server in proposed.items() if name.casefold() not in taken}

    def rules(self) -> list[Rule]:
        """The rules of the settings: the user's, and what the project denies or wants asked.

        Raises: ConfigError for a rule that cannot be read.
        """
        from dragoman.policy import parse_rule

        found = []
        for settings in (self.user, self.project):
            if settings is not None:
                scope: Scope = "pinned" if settings.source == "user" else "repository"
                found += [
                    parse_rule(text, action, scope, f"{settings.path}: rules.{action}")
                    for action in ("deny", "ask", "allow")
                    for text in getattr(settings.rules, action)
                ]
        return found

    def _from(self, source: Source) -> dict[str, AgentEntry]:
        if source not in self._read:
            self._read[source] = self._load(source)
        return self._read[source]

    def _load(self, source: Source) -> dict[str, AgentEntry]:
        match source:
            case "built-in":
                return {SCRIPTED: _scripted()}
            case "user":
                return self._entries_of(self.user)
            case "registry":
                entries = {id_: self._installed_entry(found) for id_, found in self._installed.items()}
                self._notes.extend(self.installed.notes)
                return entries
            case "project":
                return {} if self.project is None else self._proposals(self.project)
            case _:
                if source not in self._editors:
                    return {}
                settings = load_settings(self._editors[source], source)
                self._notes.extend(settings.notes)
                return self._entries_of(settings)

    def _entries_of(self, settings: Settings) -> dict[str, AgentEntry]:
        entries = {name: self._entry(server, settings.source) for name, server in settings.servers.items()}
        for name in [name for name in entries if name.casefold() == SCRIPTED]:
            self._note(f"{entries.pop(name).where}: the name {name!r} is dragoman's own; choose another one")
        return entries

    def _entry(self, server: Server, source: Source) -> AgentEntry:
        entry = AgentEntry(name=server.name, command=server.command, env=server.env, source=source, where=server.where)
        if server.registry_id:
            found = self._installed.get(server.registry_id)
            if found is None:
                return replace(entry, problem=_not_installed(server.name, server.registry_id, server.where))
            entry = replace(entry, command=self.installed.argv(found), env={**found.env, **server.env})
            known = quirks_of(server.registry_id, entry.command)
        else:
            known = quirks_of(server.name, server.command)
        return replace(entry, quirks=overridden(known, server.quirks, f"{server.where}: quirks"))

    def _proposals(self, project: Settings) -> dict[str, AgentEntry]:
        """The project's agents whose names are free."""
        taken = {
            entry.name.casefold(): entry
            for source in reversed(ORDER)
            if source != "project"
            for entry in self._from(source).values()
        }
        entries = {}
        for name, server in project.servers.items():
            if name.casefold() in taken:
                self._note_redefinition(name, taken[name.casefold()])
            elif not _PROJECT_NAME.fullmatch(name):
                self._note(f"{server.where}: {name!r} is not used: a project's names are plain letters")
            elif server.registry_id:
                self._note(f"{server.where}: {name!r} is not used: install it yourself if you want it")
            else:
                entries[name] = self._proposal(server)
        return entries

    def _proposal(self, server: Server) -> AgentEntry:
        assert self.root is not None
        if server.quirks:
            self._note(f"{server.where}: the quirks of {server.name!r} are not used: they are the user's")
        sha256 = fingerprint(server.command, server.env)
        first = server.command[0]
        # What a project calls by a path is its own file; elsewhere that path would be another one.
        program = str(Path(os.path.realpath(self.root), first)) if os.sep in first else first
        is_accepted = self.accepted.holds(self.root, "agent", server.name, sha256)
        problem = (
            f"agent {server.name!r} comes from the project ({server.where}), and you have not accepted its command; "
            f"look at it and accept it with: dragoman agents accept {server.name!r}"
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

    @cached_property
    def _installed(self) -> dict[str, Installed]:
        return self.installed.all()

    def _installed_entry(self, found: Installed) -> AgentEntry:
        command = self.installed.argv(found)
        return AgentEntry(
            name=found.id,
            command=command,
            env=found.env,
            source="registry",
            where=str(self.installed.root / found.folder),
            quirks=quirks_of(found.id, command),
        )

    def _note(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.append(sentence)

    def _note_redefinition(self, name: str, owner: AgentEntry) -> None:
        """The name is somebody's; a project that uses it too is told about, once."""
        for server in self.project.servers.values() if self.project else ():
            if server.name.casefold() == name.casefold():
                self._note(f"{server.where}: agent {server.name!r} is not used: the name is taken ({owner.where})")

    def _unknown(self, name: str) -> str:
        from dragoman.registry.catalogue import cached_catalogue

        catalogue = cached_catalogue(self._cache_dir)
        if catalogue is not None and name in catalogue.agents:
            return (
                f"agent {name!r} is in the registry but not installed; install it with: dragoman agents install {name}"
            )
        known = self.names()
        hint = nearest(name, known) or f"known are {', '.join(known)}"
        looks_like_command = " " in name or os.sep in name
        more = f"-- {name}" if looks_like_command else f"dragoman agents add {name} -- COMMAND"
        advice = "to run a command write" if looks_like_command else "to give it a command:"
        return f"no agent is called {name!r}; {hint}; {advice} {more}"


def _scripted() -> AgentEntry:
    return AgentEntry(
        name=SCRIPTED,
        command=(sys.executable, "-m", "dragoman.testing.scripted_agent"),
        source="built-in",
        where="dragoman itself; it calls no model",
    )


def _not_installed(name: str, registry_id: str, where: str) -> str:
    return (
        f"agent {name!r} ({where}) is {registry_id!r} of the registry, which is not installed; "
        f"install it with: dragoman agents install {registry_id}"
    )
