"""One open session of the built-in agent, whoever looks at it: its host, model, mode, tools and rules.

Owns what the session was set to and what follows from that. Seats come and go; a desk stays while somebody sits there
or a turn runs.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import ConfigError
from dragoman.harness.models.find import find_model
from dragoman.harness.modes import MODES
from dragoman.harness.system import system_prompt
from dragoman.harness.tools.table import built_in_tools
from dragoman.store.rules import RuleFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent import AgentSession
    from dragoman.harness.host import Host
    from dragoman.harness.mcp import McpServers
    from dragoman.harness.model import Model
    from dragoman.harness.modes import Mode
    from dragoman.harness.seat import Seat
    from dragoman.harness.settings import Settings
    from dragoman.harness.tools.tool import Tool
    from dragoman.policy import Action, Rule
    from dragoman.schema import v1
    from dragoman.store.sessions import Store

_log = logging.getLogger("dragoman.harness")


class Desk:
    """A session that is open."""

    def __init__(self, settings: Settings, store: Store, host: Host) -> None:
        self.settings = settings
        self.store = store
        self.host = host
        self.seats: list[Seat] = []
        self.tools: dict[str, Tool] = built_in_tools()
        self.servers: McpServers | None = None
        self.overflow_dir = os.path.join(os.path.dirname(settings.store), "output")
        self._rules = RuleFile(settings.rules_file)
        self._model: Model | None = None

    @property
    def mode(self) -> Mode:
        return MODES.get(self.host.row.mode or "", MODES[self.settings.mode])

    @property
    def model_name(self) -> str:
        return self.host.row.model or self.settings.model or ""

    @property
    def model_names(self) -> list[str]:
        """What may be chosen: the model of the session and the one the agent was started with."""
        return list(dict.fromkeys(filter(None, (self.model_name, self.settings.model))))

    @property
    def model(self) -> Model:
        """Raises: ConfigError when it cannot be had."""
        if self._model is None or self._model.name != self.model_name:
            self._model = find_model(self.model_name)
        return self._model

    async def ask(self, seat: Seat, tool_call_id: str, options: Sequence[v1.PermissionOption]) -> str | None:
        """The answer of the client whose turn it is or, when it has left, of the first that is still here."""
        present = [each for each in self.seats if each.session.client.is_connected]
        asked = seat if seat in present else next(iter(present), None)
        return None if asked is None else await asked.ask(tool_call_id, options)

    async def set(self, **choices: Any) -> None:
        """Keeps a choice of the user's: mode, model or effort."""
        await self.store.update_session(self.host.row.id, **choices)
        self.host.row = msgspec.structs.replace(self.host.row, **choices)

    def system(self, session: AgentSession) -> str:
        """What the model is told before everything else."""
        return system_prompt(session.cwd, session.roots, self.mode)

    def user_rules(self, project: str) -> Sequence[Rule]:
        """What the user wrote down. A file that cannot be read denies nothing and allows nothing."""
        try:
            return self._rules.rules(project)
        except ConfigError as error:
            _log.warning("the rules are left out: %s", error)
            return ()

    def remember_for_project(self, rule: str, action: Action, project: str) -> None:
        """An "always" of the user, kept for the project."""
        try:
            self._rules.remember(rule, action, "project", project)
        except (ConfigError, OSError) as error:
            _log.warning("the answer could not be kept: %s", error)
