"""The settings that apply in one project: the user's file, and from the project's file what it may decide.

Both files are read once, by `load_settings`. The rules that the user adds with `dragoman rules` or by answering
"always" are in another file, which changes while programs run: see `rule_file.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dragoman.settings.acceptances import Acceptances, fingerprint, mcp_fingerprint
from dragoman.settings.file import project_file, read_settings_file, user_file

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.policy import Action, Rule, Scope
    from dragoman.settings.acceptances import ProposalKind
    from dragoman.settings.file import Owner, SettingsFile
    from dragoman.settings.hooks import EditCommand, Hook


def load_settings(config_dir: Path, project: Path | None = None) -> EffectiveSettings:
    """Read the settings of the user and of a project.

    Args:
        config_dir: the user's configuration folder, see `places.config_dir`.
        project: the root of the project, see `find_project`; None for the user's settings alone.

    Raises:
        ConfigError: one of the files is wrong; the message starts with `file:line:column`.
    """
    return EffectiveSettings(
        read_settings_file(user_file(config_dir), "user"),
        None if project is None else read_settings_file(project_file(project), "project"),
        project,
        Acceptances(config_dir),
    )


class EffectiveSettings:
    """The user's settings combined with those of a project.

    Attributes:
        user: the user's file.
        project: the project's file; what a project may not decide has been removed from it.
        root: the root folder of the project.
    """

    def __init__(
        self, user: SettingsFile, project: SettingsFile | None, root: Path | None, acceptances: Acceptances
    ) -> None:
        self.user = user
        self.project = project
        self.root = root
        self._acceptances = acceptances

    @property
    def model(self) -> str:
        """The model of the built-in agent; empty if the user has not set one."""
        return self.user.model

    @property
    def title_model(self) -> str:
        """The model that names sessions of the built-in agent; empty if the user has not set one."""
        return self.user.title_model

    @property
    def mode(self) -> str:
        """The mode of new sessions of the built-in agent; empty if the user has not set one."""
        return self.user.mode

    @property
    def restores_protected(self) -> bool:
        """Whether protected files that were changed without a permission are put back."""
        return self.user.restores_protected

    @property
    def safe_commands(self) -> bool:
        """Whether the built-in agent runs commands that only read files of the project without asking."""
        return self.user.safe_commands

    @property
    def uses_ledger(self) -> bool:
        """Whether `dragoman exec` writes its sessions into the ledger."""
        return self.user.uses_ledger

    @property
    def registry(self) -> str:
        """The address or file of the ACP registry; empty for the official one."""
        return self.user.registry

    @property
    def default_agent(self) -> str:
        """The agent to use when none is named: the user's, else the project's if the user accepted it, else empty."""
        if self.user.default_agent:
            return self.user.default_agent
        wanted = self.proposed_default_agent
        return wanted if wanted and self.is_accepted("default", wanted, fingerprint((wanted,))) else ""

    @property
    def proposed_default_agent(self) -> str:
        """The default agent that the project proposes, accepted or not; empty if it proposes none."""
        return self.project.default_agent if self.project else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user about settings that were ignored, and why."""
        notes = [*self.user.notes, *(self.project.notes if self.project else ())]
        notes += [
            f"the project's MCP server {name!r} is not used: the name is taken ({self.user.path})"
            for name in (self.project.mcp_servers if self.project else ())
            if self._is_taken(name)
        ]
        notes += _missing_notes(self.user)
        return tuple(notes)

    def rules(self) -> list[Rule]:
        """Return the permission rules of both files. A project's file can deny and ask, but not allow.

        Raises:
            ConfigError: a rule cannot be understood.
        """
        found = []
        for file in (self.user, self.project):
            if file is not None:
                scope: Scope = "pinned" if file.owner == "user" else "repository"
                for action in ("deny", "ask", "allow"):
                    where = f"{file.path}: rules.{action}"
                    found += [_parse_rule(text, action, scope, where) for text in file.rules.of(action)]
        return found

    def mcp_servers(self) -> dict[str, dict[str, Any]]:
        """Return the MCP servers of the user by name, and those of the project that the user accepted.

        Raises:
            ConfigError: the file of acceptances is broken.
        """
        accepted = {
            name: server
            for name, server in self.proposed_mcp_servers().items()
            if self.is_accepted("mcp", name, mcp_fingerprint(server))
        }
        own = {name: filled(server) for name, server in self.user.mcp_servers.items()}
        return {**own, **accepted}

    def proposed_mcp_servers(self) -> dict[str, dict[str, Any]]:
        """Return the MCP servers of the project by name, accepted or not, without names that the user has taken."""
        proposed = self.project.mcp_servers if self.project else {}
        return {name: server for name, server in proposed.items() if not self._is_taken(name)}

    def hooks(self) -> tuple[tuple[Hook, Owner], ...]:
        """Return the hooks that run, each with the owner of its file: the user's, and those of the project that were
        accepted.

        Raises:
            ConfigError: the file of acceptances is broken.
        """
        theirs = self.project.hooks if self.project else ()
        accepted = [(hook, "project") for hook in theirs if self._is_accepted_hook(hook)]
        return (*((hook, "user") for hook in self.user.hooks), *accepted)  # type: ignore[arg-type]  # both are owners

    def edit_commands(self) -> tuple[EditCommand, ...]:
        """Return the commands that run after an edit: the user's, and those of the project that were accepted.

        Raises:
            ConfigError: the file of acceptances is broken.
        """
        theirs = self.project.edit_commands if self.project else ()
        return (*self.user.edit_commands, *filter(self._is_accepted_hook, theirs))

    def proposed_hooks(self) -> dict[str, Hook | EditCommand]:
        """Return the hooks and commands after an edit that the project proposes and the user has not accepted, by name.

        Raises:
            ConfigError: the file of acceptances is broken.
        """
        theirs: list[Hook | EditCommand] = []
        if self.project is not None:
            theirs = [*self.project.hooks, *self.project.edit_commands]
        return {hook.name: hook for hook in theirs if not self._is_accepted_hook(hook)}

    def may_run(self, hook: Hook | EditCommand) -> bool:
        """Whether a hook is the user's own, or is accepted with the files that it names as they are now. Blocks.

        Raises:
            ConfigError: the file of acceptances is broken.
        """
        own: tuple[Hook | EditCommand, ...] = (*self.user.hooks, *self.user.edit_commands)
        return hook in own or self._is_accepted_hook(hook)

    def _is_accepted_hook(self, hook: Hook | EditCommand) -> bool:
        from dragoman.settings.hooks import accepted_sha256

        return self.root is not None and self.is_accepted("hook", hook.name, accepted_sha256(hook, self.root))

    def accept_hook(self, hook: Hook | EditCommand) -> None:
        """Record that the user accepted a hook of this project, with the files that it names as they are now.

        Raises:
            ConfigError: the file of acceptances is broken or cannot be written.
        """
        from dragoman.settings.hooks import accepted_sha256

        assert self.root is not None, "only a project proposes something"
        self.accept("hook", hook.name, accepted_sha256(hook, self.root))

    def is_accepted(self, kind: ProposalKind, name: str, sha256: str) -> bool:
        """Whether the user accepted this proposal of this project in exactly this form.

        Raises:
            ConfigError: the file of acceptances is broken.
        """
        return self.root is not None and self._acceptances.has(self.root, kind, name, sha256)

    def accept(self, kind: ProposalKind, name: str, sha256: str) -> None:
        """Record that the user accepted a proposal of this project, in place of an earlier one of that name.

        Raises:
            ConfigError: the file of acceptances is broken or cannot be written.
        """
        assert self.root is not None, "only a project proposes something"
        self._acceptances.add(self.root, kind, name, sha256)

    def withdraw(self, kind: ProposalKind, name: str) -> bool:
        """Remove an acceptance; False if there was none.

        Raises:
            ConfigError: the file of acceptances is broken or cannot be written.
        """
        return self.root is not None and self._acceptances.remove(self.root, kind, name)

    def _is_taken(self, mcp_server: str) -> bool:
        return mcp_server.casefold() in {name.casefold() for name in self.user.mcp_servers}


def filled(server: dict[str, Any]) -> dict[str, Any]:
    """Return an MCP server of the user with its variables replaced."""
    if "${" not in str(server):
        return server
    from dragoman.settings.variables import filled_server

    return filled_server(server, os.environ)


def _missing_notes(file: SettingsFile) -> list[str]:
    if "${" not in str(file.mcp_servers):
        return []
    from dragoman.settings.variables import missing_variables

    return [
        f"{file.path}: the MCP server {name!r} needs {variable}, which is not set in the environment"
        for name, server in file.mcp_servers.items()
        for variable in missing_variables(server, os.environ)
    ]


def _parse_rule(text: str, action: Action, scope: Scope, source: str) -> Rule:
    from dragoman.policy import parse_rule  # most users have no rules in their settings

    return parse_rule(text, action, scope, source)
