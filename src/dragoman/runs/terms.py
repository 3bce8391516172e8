"""What is decided about an agent before it runs: its rules, its sandbox, what it is offered.

`exec` decides it for one run, a client of this machine for the session it opens (`exec --session`), the options of
`serve` for every session. Loaded before the agent's program is started, so nothing here may load asyncio or the
protocol; what reads rules is loaded when there are any.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, field

from dragoman.errors import ConfigError
from dragoman.runs.sandbox import RunSandboxes
from dragoman.settings import find_project, load_settings
from dragoman.settings.places import config_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.policy import Action, Rule
    from dragoman.policy.decide import RememberScope
    from dragoman.registry.agents import AgentEntry


class SessionTerms(Struct, frozen=True, kw_only=True):
    """What the user chose for a session; kept with it, also after a restart of a host."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allows_all: bool = False
    sandbox: Literal["off", "auto", "require"] = "off"
    """For the commands that are run for the agent."""
    closes_denied: bool = True
    """Whether files that rules deny are closed to commands outside a sandbox too."""
    writable: tuple[str, ...] = ()
    offers_files: bool = True
    offers_terminals: bool = True
    uses_ledger: bool = True
    follows_changes: bool = True
    """Whether the folders are looked at before and after each turn, for `dragoman sessions diff` and `rewind`."""

    def rules(self) -> list[Rule]:
        """Return the rules among them. Raises: ConfigError."""
        if not (self.deny or self.ask or self.allow):
            return []
        from dragoman.policy import parse_rule

        found = [parse_rule(text, "deny", "flag", "--deny") for text in self.deny]
        found += [parse_rule(text, "ask", "flag", "--policy") for text in self.ask]
        return found + [parse_rule(text, "allow", "flag", "--allow") for text in self.allow]


def _always() -> bool:
    return True


class Terms(Struct, frozen=True, kw_only=True):
    """Everything that is decided about an agent before it runs."""

    agent: str
    """As rules name it."""
    entry: AgentEntry | None = None
    """Its program; None for an agent in this process."""
    chosen: SessionTerms = SessionTerms()
    project: str
    """The folder that rules count for."""
    roots: tuple[str, ...]
    """The folders of the session, its own first."""
    rules: Callable[[str | None], Sequence[Rule]]
    """Called with the mode of the session for each request, so that changes count at once."""
    sandboxes: RunSandboxes = field(default_factory=RunSandboxes)
    restores: bool = False
    """Whether protected files are put back."""
    remember: Callable[[str, Action, RememberScope], None] | None = None
    """Keeps the rule of an answer for the project or the session; without it none for the project is offered."""
    keeps_rules: bool = True
    """Whether `remember` keeps rules for the project, so that such an answer is offered."""
    rule_file: str | None = None
    """Where `remember` writes rules for the project."""
    environment: Callable[[], Mapping[str, str]] | None = None
    """That of commands; None for this program's."""
    ledger_name: str = ""
    """The agent as the ledger and the records of changes have it."""
    asks_inside: bool = False
    """Whether a command is asked about although it would run in the sandbox."""
    watches: Callable[[], bool] = _always
    """False while a client serves the files itself: it also guards them."""
    left_out: tuple[str, ...] = ()
    """Files that this program writes itself: they are not changes of the turn."""

    @property
    def allows_all(self) -> bool:
        """Whether everything that no rule denies is allowed, by an option or by the settings of the agent."""
        return self.chosen.allows_all or (self.entry is not None and self.entry.allows_all)


def read_terms(found: object) -> SessionTerms:
    """Read the terms of a session from its facts. Raises: ConfigError."""
    try:
        return msgspec.convert(found or {}, SessionTerms)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the terms of the session cannot be read: {error}") from None


def rules_for(cwd: str) -> list[Rule]:
    """Return the rules of the rule file and the settings that hold in a folder, as they are now.

    Raises:
        ConfigError: a file is broken.
    """
    project = find_project(Path(cwd))
    settings = load_settings(config_dir(), project)
    if not os.path.lexists(config_dir() / "rules.json"):
        return settings.rules()
    from dragoman.settings.rule_file import open_rules

    return [*open_rules().rules(str(project)), *settings.rules()]


def mode_rules(mode: str | None, roots: Sequence[str]) -> Sequence[Rule]:
    """Return the rules of a mode of the built-in agent: choosing a mode is the user's decision.

    The agent does not ask about what its mode allows; without these rules its files and commands, which run through the
    client, would be asked about a second time.
    """
    from dragoman.policy.modes import MODES

    found = MODES.get(mode or "")
    return () if found is None else found.rules(roots)


def restricting_rules(rules: Sequence[Rule], agent: str, folders: Sequence[str]) -> list[str]:
    """Return the rules typed for this run that deny or ask; the built-in agent asks about what they concern.

    It reads the user's other rules by itself. Patterns of files become absolute in each of the folders, which are the
    project and the session's additional ones, because the folder of the session is not always the project's.
    """
    from dragoman.policy.rule import anchored, read_pattern

    found = []
    for rule in rules:
        pattern = read_pattern(rule.text)
        if rule.action == "allow" or rule.scope != "flag" or pattern.agent not in (None, agent):
            continue
        found += [text.partition("@")[2] if pattern.agent is not None else text for text in anchored(rule, folders)]
    return found
