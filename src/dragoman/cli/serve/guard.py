"""The options of `serve` about the guard of its agents: the same as those of `exec`, for every session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dragoman.cli.exec.options import Options
from dragoman.cli.exec.rules import typed_rules
from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import folder
from dragoman.runs.terms import SessionTerms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.registry.agents import AgentEntry


def read_terms(given: Any, folders: Sequence[str] | None) -> SessionTerms:
    """The terms of every session.

    Raises:
        CliError: options contradict each other, or a sandbox is required and there is none.
        ConfigError: a rule cannot be understood.
    """
    mode: Literal["off", "auto", "require"] = given.sandbox or "off"
    if given.no_terminal and mode != "off":
        raise CliError(
            f"--no-terminal and --sandbox {mode} contradict each other: commands that dragoman does not run are not in "
            "its sandbox",
            hint="leave out one of them",
        )
    if given.sandbox_write and mode == "off":
        raise CliError("--sandbox-write needs a sandbox", hint="add --sandbox auto or --sandbox require")
    typed = Options(cwd="/", allow=tuple(given.allow), deny=tuple(given.deny), policy_file=given.policy)
    rules = typed_rules(typed)  # one that cannot be understood is refused now, and not with the first session
    texts = {action: tuple(rule.text for rule in rules if rule.action == action) for action in ("allow", "deny", "ask")}
    terms = SessionTerms(
        allow=texts["allow"],
        deny=texts["deny"],
        ask=texts["ask"],
        sandbox=mode,
        writable=tuple(folder("--sandbox-write", path) for path in given.sandbox_write),
        offers_files=not given.no_fs,
        offers_terminals=not given.no_terminal,
    )
    if mode == "require":
        from dragoman.process.sandbox import available

        here = available(folders or ())
        if not here.backends:
            raise CliError(
                here.describe(), hint="--sandbox auto runs without one; see docs/sandbox.md for what is needed"
            )
    return terms


def guard_notes(terms: SessionTerms, folders: Sequence[str] | None, agents: Sequence[AgentEntry]) -> list[str]:
    """Sentences for the user about what guards the agents."""
    notes = [
        f"dangerously_allow_all ({entry.where}): everything that {entry.name} asks for is allowed"
        for entry in agents
        if entry.allows_all
    ]
    if terms.sandbox == "off":
        return notes
    from dragoman.process.sandbox import available

    here = available(folders or ())
    if not here.backends:
        return [*notes, f"--sandbox auto: commands run without a sandbox: {here.describe()}"]
    return [*notes, f"commands of agents run in a sandbox: {here.backends[0]}"]
