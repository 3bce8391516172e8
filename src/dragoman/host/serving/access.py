"""The guard of the agents of `serve`: served next to the agent, by the rules and the sandbox that `exec` uses.

A rule of the user who runs the host decides; otherwise the clients of the session are asked. An answer of "always"
holds for the session: the rules of the host are not changed by those who use it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.host.services import HostServices, hosted_terms
from dragoman.host.serving.programs import WITHHELD
from dragoman.runs.terms import SessionTerms, rules_for
from dragoman.settings import find_project, load_settings
from dragoman.settings.places import config_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.host.session import HostedSession
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.terms import Terms


class ProjectServices(HostServices):
    """The services of a host, with the rules of the project that each session works in."""

    def __init__(
        self,
        terms: SessionTerms = SessionTerms(),  # noqa: B008 - frozen
        find_entry: Callable[[str], AgentEntry | None] = lambda name: None,
    ) -> None:
        """Prepare services.

        Args:
            terms: Of every session.
            find_entry: Finds the program of an agent by its name.
        """
        super().__init__()
        self._terms = terms
        self._find_entry = find_entry

    def terms_of(self, session: HostedSession) -> Terms:
        cwd = session.record.cwd
        project = find_project(Path(cwd))
        return hosted_terms(
            session,
            rules=lambda: rules_for(cwd),
            chosen=self._terms,
            entry=self._find_entry(session.record.agent),
            project=str(project),
            restores=load_settings(config_dir(), project).restores_protected,
            environment=lambda: {name: value for name, value in os.environ.items() if name not in WITHHELD},
        )
