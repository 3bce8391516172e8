"""Files, commands and permissions for the agents of a host: served next to the agent, by the rules that `exec` uses.

A rule of the user who runs the host decides; otherwise the clients of the session are asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.host.services import HostServices
from dragoman.settings import find_project, load_settings
from dragoman.settings.places import config_dir

if TYPE_CHECKING:
    from dragoman.client import ClientOptions
    from dragoman.host.session import HostedSession
    from dragoman.policy import Rule


class ProjectServices(HostServices):
    """The services of a host, with the rules of the project that each session works in."""

    def options(self, session: HostedSession) -> ClientOptions:
        """The options of the connection to a session's agent."""
        return HostServices(rules=lambda: rules_for(session.record.cwd)).options(session)


def rules_for(cwd: str) -> list[Rule]:
    """The rules of the rule file and the settings that hold in a folder, as they are now.

    Raises:
        ConfigError: a file is broken.
    """
    from dragoman.settings.rule_file import open_rules

    project = find_project(Path(cwd))
    return [*open_rules().rules(str(project)), *load_settings(config_dir(), project).rules()]
