"""The rules that come with the built-in agent.

Its session mode counts as rules of the user, and it is given the rules that were typed for this run. How it is decided
belongs to `client/permission.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client.session import Session
    from dragoman.policy import Rule


def mode_rules(session: Session | None, roots: Sequence[str]) -> Sequence[Rule]:
    """Return the rules of the mode that a session of the built-in agent is in: choosing a mode is the user's decision.

    The agent does not ask about what its mode allows; without these rules its files and commands, which run through the
    client, would be asked about a second time.
    """
    from dragoman.cli.exec.settings import current_mode
    from dragoman.policy.modes import MODES

    mode = None if session is None else MODES.get(current_mode(session) or "")
    return () if mode is None else mode.rules(roots)


def restricting_rules(rules: Sequence[Rule], agent: str, project: str) -> list[str]:
    """Return the rules typed for this run that deny or ask, for the built-in agent: it asks about what they concern.

    It reads the user's other rules by itself. Patterns of files become absolute, because the folder of the session is
    not always the project's.
    """
    from dragoman.policy.rule import PATH_KINDS, read_pattern

    found = []
    for rule in rules:
        pattern = read_pattern(rule.text)
        if rule.action == "allow" or rule.scope != "flag" or pattern.agent not in (None, agent):
            continue
        glob = pattern.pattern
        if pattern.kind in PATH_KINDS and glob is not None and not glob.startswith(("/", "~")):
            found.append(f"{pattern.kind}:{project}/{glob}")
        else:
            found.append(rule.text.partition("@")[2] if pattern.agent is not None else rule.text)
    return found
