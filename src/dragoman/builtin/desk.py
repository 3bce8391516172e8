"""One open session of the built-in agent, whoever looks at it: its host, model, mode, tools and rules.

Owns what the session was set to and what follows from that. Seats come and go; a desk stays while somebody sits there
or a turn runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.builtin.context.commands import Invocation, commands_update, invoked, read_commands
from dragoman.builtin.context.instructions import read_instructions
from dragoman.builtin.context.system_prompt import system_prompt
from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.providers import default_model, offered_models
from dragoman.builtin.modes import MODES
from dragoman.builtin.tools.table import built_in_tools
from dragoman.errors import ConfigError
from dragoman.policy import Rule
from dragoman.schema import v1
from dragoman.settings.project import find_project
from dragoman.settings.rule_file import RuleFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent import AgentSession
    from dragoman.builtin.context.commands import Command
    from dragoman.builtin.mcp.servers import McpServers
    from dragoman.builtin.models.model import Model
    from dragoman.builtin.modes import Mode
    from dragoman.builtin.session import Host, TurnEnd
    from dragoman.builtin.settings import Settings
    from dragoman.builtin.tools.tool import Tool
    from dragoman.builtin.viewer import Viewer
    from dragoman.policy import Action
    from dragoman.settings import EffectiveSettings
    from dragoman.store.sessions import Store
    from dragoman.uistream.messages import Part

_log = logging.getLogger("dragoman.builtin")


class Desk:
    """A session that is open."""

    def __init__(self, settings: Settings, store: Store, host: Host) -> None:
        self.settings = settings
        self.store = store
        self.host = host
        self.seats: list[Viewer] = []
        self.turns: set[asyncio.Future[TurnEnd]] = set()
        """Those that run or wait, whoever asked for them."""
        self.tools: dict[str, Tool] = built_in_tools()
        self.servers: McpServers | None = None
        self._settings_files: dict[str, EffectiveSettings] = {}
        self.overflow_dir = os.path.join(os.path.dirname(settings.store), "output")
        self.commands: dict[str, Command] = {}
        self.errands: set[asyncio.Future[None]] = set()
        """What is done beside the turns, such as finding a title."""
        self._instructions: dict[tuple[str, ...], str] = {}
        self._rules = RuleFile(settings.rules_file)
        self._model: Model | None = None
        self._models: list[Model] = []
        """All that were used; a turn may still run with the one before."""

    @property
    def mode(self) -> Mode:
        return MODES.get(self.host.row.mode or "", MODES[self.settings.mode])

    @property
    def model_name(self) -> str:
        return self.host.row.model or self.settings.model or default_model(os.environ) or ""

    @property
    def model_names(self) -> list[str]:
        """What may be chosen: the session's, the one the agent was started with, and some of providers with a key."""
        names = (self.model_name, self.settings.model, *offered_models(os.environ))
        return list(dict.fromkeys(filter(None, names)))

    @property
    def model(self) -> Model:
        """Raises: ConfigError when it cannot be had."""
        if self._model is None or self._model.name != self.model_name:
            self._model = find_model(self.model_name)
            self._models.append(self._model)
        return self._model

    def warm_up(self) -> None:
        """Begins to load the model in the background, where that takes long."""
        with suppress(ConfigError):  # said when it is used
            begin = getattr(self.model, "warm_up", None)
            if begin is not None:
                begin()

    async def close(self) -> None:
        """Lets go of what the models hold."""
        for model in self._models:
            close = getattr(model, "close", None)
            if close is not None:
                await close()
        self._models.clear()
        self._model = None

    async def ask(self, seat: Viewer, tool_call_id: str, options: Sequence[v1.PermissionOption]) -> str | None:
        """The answer of the client whose turn it is or, when it has left, of the first that is still here."""
        present = [each for each in self.seats if each.session.client.is_connected]
        asked = seat if seat in present else next(iter(present), None)
        return None if asked is None else await asked.ask(tool_call_id, options)

    async def set(self, **choices: Any) -> None:
        """Keeps a choice of the user's: mode, model, effort or title."""
        stamp = await self.store.update_session(self.host.row.id, **choices)
        self.host.row = msgspec.structs.replace(self.host.row, updated_at=stamp, **choices)

    async def rename(self, title: str, **choices: Any) -> None:
        """Keeps a title and shows it to everybody."""
        await self.set(title=title, **choices)
        for seat in tuple(self.seats):
            await seat.show(v1.SessionInfoUpdate(title=title, updated_at=self.host.row.updated_at))

    async def offer_commands(self, session: AgentSession) -> None:
        """Tells a client which commands there are, after the answer that opens its session."""
        self.commands = await asyncio.to_thread(read_commands, session.cwd, self.settings.config_dir)
        session.update_when_open(commands_update(self.commands))

    def invocation(self, parts: Sequence[Part], session: AgentSession) -> Invocation | None:
        """The command a prompt names, if it names one."""
        called = invoked(parts)
        if called is None:
            return None
        # In one step, so that the next prompt does not overtake this one; again, for the user may just have written
        # the template.
        commands = read_commands(session.cwd, self.settings.config_dir)
        if commands != self.commands:
            self.commands = commands
            for seat in self.seats:
                seat.session.update_when_open(commands_update(commands))
        name, arguments = called
        return Invocation(name, arguments, commands.get(name))

    async def system(self, session: AgentSession) -> str:
        """What the model is told before everything else. Files are read once: a session keeps what it began with."""
        if session.roots not in self._instructions:
            found = await asyncio.to_thread(
                read_instructions, session.cwd, session.additional_directories, self.settings.config_dir
            )
            self._instructions.setdefault(session.roots, found.text)
        return system_prompt(session.cwd, session.roots, self.mode, self._instructions[session.roots])

    def user_rules(self, project: str) -> Sequence[Rule]:
        """What the user wrote down, and what the project's settings deny or want asked.

        Files that cannot be read may hold a deny, so that everything is asked for while they are broken.
        """
        try:
            return (*self._rules.rules(project), *self._written(project).rules())
        except ConfigError as error:
            _log.warning("everything is asked for: %s", error)
            return (Rule("ask", "*", "pinned", "the rules cannot be read"),)

    def configured_servers(self, project: str) -> dict[str, Any]:
        """The MCP servers of the user's settings, and those of the project that the user accepted."""
        try:
            return {**self._written(project).mcp_servers(), **self.settings.mcp_servers}
        except ConfigError as error:
            _log.warning("no MCP servers of the settings: %s", error)
            return dict(self.settings.mcp_servers)

    def _written(self, project: str) -> EffectiveSettings:
        """The settings files, read once for each folder. Raises: ConfigError."""
        from dragoman.settings.effective import load_settings

        if project not in self._settings_files:
            self._settings_files[project] = load_settings(self.settings.config_dir, find_project(Path(project)))
        return self._settings_files[project]

    def remember_for_project(self, rule: str, action: Action, project: str) -> None:
        """An "always" of the user, kept for the project."""
        try:
            self._rules.remember(rule, action, "project", project)
        except (ConfigError, OSError) as error:
            _log.warning("the answer could not be kept: %s", error)
