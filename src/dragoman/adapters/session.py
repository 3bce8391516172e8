"""One session of a wrapped source, as its adapter sees it.

Owns what belongs to the session and not to a turn: its id, folder, settings, the adapter's own state, and updates
between turns. `turn.py` runs its turns.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from dragoman.adapters.normal import as_chunk
from dragoman.adapters.permission import ask_client
from dragoman.adapters.shown import projector_for, show_updates
from dragoman.adapters.tools import decorated
from dragoman.adapters.values import ALLOW, REJECT, config_options_of
from dragoman.errors import CapabilityError
from dragoman.schema import v1
from dragoman.text.terminal import sentence
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.values import AskAnswer, AskOption, Setting
    from dragoman.agent import AgentSession
    from dragoman.store.sessions import Store
    from dragoman.uistream.messages import UIMessage

How: TypeAlias = Literal["new", "load", "resume", "fork"]


class AdapterSession:
    """An open session. `state` is the adapter's; `metadata` is kept with the session by `save`, and must be JSON."""

    def __init__(self, agent_session: AgentSession, session_id: str, how: How, store: Store | None) -> None:
        self.id = session_id
        """The id clients use. An adapter with sessions of its own sets it in `open` for a new session."""
        self.how: How = how
        """How the client opened the session."""
        self.cwd = agent_session.cwd
        self.roots = agent_session.roots
        """The folders the session works in, `cwd` first."""
        self.mcp_servers: tuple[v1.McpServer, ...] = agent_session.mcp_servers
        """The MCP servers that the client passed."""
        self.state: Any = None
        self.metadata: dict[str, Any] = {}
        self.title: str | None = None
        self.settings: tuple[Setting, ...] = ()
        """What the client was offered last, with current values."""
        self.commands: tuple[tuple[str, str], ...] = ()
        """Slash commands, each with its description; set in `open`, they are sent when the session is open."""
        self.messages: list[UIMessage] | None = None
        """The finished messages, once they were read from the store."""
        self.running: asyncio.Task[Any] | None = None
        """The turn that is running."""
        self._agent_session = agent_session
        self._store = store
        self._projector = projector_for(agent_session.client)

    @property
    def client_name(self) -> str:
        """The name of the client program, "" if it did not send one."""
        info = self._agent_session.client.info
        return "" if info is None else info.name

    @property
    def is_connected(self) -> bool:
        """Whether the client can still be reached."""
        return self._agent_session.client.is_connected

    def offers(self, gate: str) -> bool:
        """Return whether the client advertised a capability, as `fs.readTextFile`, `terminal` or `elicitation.form`."""
        return self._agent_session.client.offers(gate)

    def current(self, setting_id: str) -> str | bool | None:
        """Return the current value of a setting, None if there is none of this id."""
        return next((setting.current for setting in self.settings if setting.id == setting_id), None)

    async def show(self, *items: Yielded) -> None:
        """Show something that does not belong to a turn, such as the progress of work in the background.

        A `Start` chunk begins another message. What is shown here is not stored.
        """
        for item in items:
            chunk = decorated(as_chunk(item))
            if isinstance(chunk, c.Start):
                self._projector = projector_for(self._agent_session.client)
            await show_updates(self._agent_session, self._projector.project(chunk))
        await show_updates(self._agent_session, self._projector.settle())

    async def ask(self, call_id: str, options: Sequence[AskOption] | None = None) -> AskAnswer:
        """Ask the user for permission outside of a turn, for a call that was shown with `show`.

        Everything that is not clearly a yes is a no. Options that let the user change the input are left out.
        """
        offered = [option for option in options or (ALLOW, REJECT) if not option.edits]
        return await ask_client(self._agent_session, self._projector.calls.patch(call_id), offered)

    async def change(self, setting_id: str, value: str | bool) -> None:
        """Show a setting that the source changed by itself to the client."""
        self._set(setting_id, value)
        await self.offer(self.settings)

    async def offer(self, settings: tuple[Setting, ...]) -> None:
        """Show the settings that the source has from now on to the client."""
        self.settings = tuple(settings)
        options = config_options_of(self.settings)
        if options:
            await self._agent_session.config_options(options)

    async def rename(self, title: str) -> None:
        """Set the title, store it, and show it to the client."""
        self.title = sentence(title)
        if self._store is not None:
            await self._store.update_session(self.id, title=self.title)
        with suppress(CapabilityError):
            await self._agent_session.update(v1.SessionInfoUpdate(title=self.title))

    async def save(self) -> None:
        """Store `metadata`. An adapter with sessions of its own has no use for it: nothing is stored then."""
        if self._store is not None:
            await self._store.update_session(self.id, metadata=self.metadata)

    def _set(self, setting_id: str, value: str | bool) -> None:
        self.settings = tuple(
            replace(setting, current=value) if setting.id == setting_id else setting for setting in self.settings
        )
