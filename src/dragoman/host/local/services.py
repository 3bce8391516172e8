"""The guard of the agents of the local host: the terms that a session was opened with, and the user's rules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.host.local.agents import find_entry, ledger_name
from dragoman.host.local.environment import ALLOWED, received
from dragoman.host.services import HostServices, hosted_terms
from dragoman.runs.terms import read_terms, rules_for

if TYPE_CHECKING:
    from dragoman.host.session import HostedSession
    from dragoman.policy import Action
    from dragoman.runs.terms import Terms


class LocalServices(HostServices):
    """The services of the local host."""

    terminal_login = True

    def terms_of(self, session: HostedSession) -> Terms:
        cwd = session.record.cwd
        entry, settings = find_entry(session.record.agent, cwd)
        project = cwd if settings.root is None else str(settings.root)
        return hosted_terms(
            session,
            rules=lambda: rules_for(cwd),
            chosen=read_terms(session.facts.get("terms")),
            entry=entry,
            ledger_name=ledger_name(session.record.agent),
            project=project,
            restores=settings.restores_protected,
            remember=lambda text, action: _remember(text, action, project),
            rule_file=_rule_file(),
            environment=lambda: _environment(session),
        )


def _environment(session: HostedSession) -> dict[str, str]:
    """Return what commands of terminals may have: that of the client, and of it what every program needs."""
    return dict(os.environ) if session.env is None else received(session.env, ALLOWED)


def _rule_file() -> str:
    from dragoman.settings.rule_file import open_rules

    return str(open_rules().path)


def _remember(text: str, action: Action, project: str) -> None:
    from dragoman.settings.rule_file import open_rules

    open_rules().remember(text, action, "project", project)
