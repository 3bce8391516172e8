"""Files, commands and permissions for the agents of a host: served next to the agent, by the rules that `exec` uses.

A rule of the user who runs the host decides; otherwise the clients of the session are asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.client.files import WorkspaceFiles
from dragoman.client.permission import ClientPermissions
from dragoman.client.terminals import LocalTerminals
from dragoman.schema import v1
from dragoman.settings import find_project, load_settings
from dragoman.settings.places import config_dir

if TYPE_CHECKING:
    from dragoman.client import ClientOptions, Session
    from dragoman.client.permission import Question
    from dragoman.host.services import AsksClients
    from dragoman.host.session import HostedSession
    from dragoman.policy import Rule


class _AskedClients:
    """Asks the clients of a session what no rule decides."""

    def __init__(self, asks: AsksClients) -> None:
        self._asks = asks

    async def ask(self, question: Question, session: Session) -> str | None:
        outcome = await self._asks(question.permission, session)
        return outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None


def local_access(hosted: HostedSession, asks: AsksClients) -> ClientOptions:
    """The services of one session's agent."""
    permissions = ClientPermissions(
        lambda: rules_for(hosted.record.cwd),
        agent=hosted.record.agent,
        asker=_AskedClients(asks),
        root=_project(hosted.record.cwd),
    )
    return {
        "permission": permissions.permission,
        "files": WorkspaceFiles(permissions=permissions),
        "terminals": LocalTerminals(permissions=permissions),
    }


def rules_for(cwd: str) -> list[Rule]:
    """The rules of the rule file and the settings that hold in a folder, as they are now.

    Raises:
        ConfigError: a file is broken.
    """
    from dragoman.settings.rule_file import open_rules

    return [*open_rules().rules(_project(cwd)), *load_settings(config_dir(), find_project(Path(cwd))).rules()]


def _project(cwd: str) -> str:
    return str(find_project(Path(cwd)))
