"""What was decided about the agent of a session before it was opened: its rules, its sandbox, what it is offered.

A client of this machine decides it for the session it opens (`exec --session`), the options of `serve` decide it for
every session. The user's own rules and settings are read when they are needed, so that a change counts at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.policy import parse_rule
from dragoman.settings import find_project, load_settings
from dragoman.settings.places import config_dir

if TYPE_CHECKING:
    from dragoman.policy import Rule


class SessionTerms(Struct, frozen=True, kw_only=True):
    """The terms of a session; kept with it, also after a restart."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allows_all: bool = False
    sandbox: Literal["off", "auto", "require"] = "off"
    """For the commands that the host runs for the agent."""
    writable: tuple[str, ...] = ()
    offers_files: bool = True
    offers_terminals: bool = True
    uses_ledger: bool = True
    follows_changes: bool = True
    """Whether the folders are looked at before and after each turn, for `dragoman sessions diff` and `rewind`."""

    def rules(self) -> list[Rule]:
        """The rules among them. Raises: ConfigError."""
        found = [parse_rule(text, "deny", "flag", "--deny") for text in self.deny]
        found += [parse_rule(text, "ask", "flag", "--policy") for text in self.ask]
        return found + [parse_rule(text, "allow", "flag", "--allow") for text in self.allow]


def read_terms(found: object) -> SessionTerms:
    """The terms of a session, from its facts. Raises: ConfigError."""
    try:
        return msgspec.convert(found or {}, SessionTerms)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the terms of the session cannot be read: {error}") from None


def rules_for(cwd: str) -> list[Rule]:
    """The rules of the rule file and the settings that hold in a folder, as they are now.

    Raises:
        ConfigError: a file is broken.
    """
    project = find_project(Path(cwd))
    settings = load_settings(config_dir(), project)
    if not os.path.lexists(config_dir() / "rules.json"):
        return settings.rules()
    from dragoman.settings.rule_file import open_rules

    return [*open_rules().rules(str(project)), *settings.rules()]
