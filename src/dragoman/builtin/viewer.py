"""One client attached to an open session: what it is shown, and how it is asked.

Owns the way from the session's chunks to this client's updates, and from its answers back. Each viewer has a projector
of its own, so that a client that attaches during a turn is shown the turn from its beginning.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.agent.permission import ask_permission
from dragoman.builtin.access import ClientAccess, LocalAccess
from dragoman.builtin.modes import MODES
from dragoman.builtin.refusals import UserAnswer
from dragoman.errors import CapabilityError
from dragoman.schema import v1
from dragoman.uistream.chunks import Start
from dragoman.uistream.messages import UIMessage
from dragoman.uistream.unfold import replay
from dragoman.uistream.updates import Projector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent import AgentSession, Turn
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.turn import TurnEnd
    from dragoman.policy.decide import Option
    from dragoman.uistream.chunks import Chunk

EFFORTS: Final = ("low", "medium", "high")
DEFAULT_EFFORT: Final = "medium"


class Viewer:
    """A client of an open session. What happens before `join` has shown the past waits until then."""

    def __init__(self, open_session: OpenSession, session: AgentSession) -> None:
        """Args:
        session: the session as this client opened it, with its own folder and services.
        """
        self.open_session = open_session
        self.session = session
        self.cwd = session.cwd
        self.roots = session.roots
        self._local = LocalAccess(session.roots)
        self._projector = Projector(starts_on_input=False)
        # Taken in one step with the registration as a viewer, so that nothing is missed and nothing is in both.
        self._history = tuple(open_session.history)
        self._live = open_session.live_chunks
        self._waiting: list[Sequence[Chunk] | UIMessage] | None = []

    # Showing

    async def join(self, *, repeats_history: bool = False) -> None:
        """Show the past, if wanted, and the running turn from its beginning; then what happened in the meantime."""
        history, self._history, live, self._live = self._history, (), self._live, ()
        if repeats_history:
            for message in history:
                await self._replay(message)
        await self._project(live)
        while self._waiting:
            item = self._waiting.pop(0)
            await (self._replay(item) if isinstance(item, UIMessage) else self._project(item))
        self._waiting = None

    async def show_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Show chunks of the running turn."""
        if self._waiting is not None:
            self._waiting.append(chunks)
        else:
            await self._project(chunks)

    async def show_message(self, message: UIMessage) -> None:
        """Show a prompt of another client."""
        if self._waiting is not None:
            self._waiting.append(message)
        else:
            await self._replay(message)

    async def show(self, update: v1.SessionUpdate) -> None:
        """Send an update, if this client can show that kind."""
        with suppress(CapabilityError):
            await self.session.update(update)

    async def show_options(self) -> None:
        """Send the config options with their current values."""
        await self.session.config_options(config_options(self.open_session))

    def stop_reason(self, end: TurnEnd) -> str:
        """Why the turn that was just shown ended."""
        return "cancelled" if end.was_cancelled else self._projector.stop_reason or "end_turn"

    async def _project(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            if isinstance(chunk, Start):
                self._projector = Projector(starts_on_input=False)
            for update in self._projector.project(chunk):
                await self.show(update)

    async def _replay(self, message: UIMessage) -> None:
        """Repeat one message of the conversation (rule 107)."""
        projector = Projector()
        if message.role == "user":
            updates = projector.user_message(message)
        else:
            updates = [update for chunk in replay(message) for update in projector.project(chunk)]
            updates += projector.calls.end_all("interrupted")
        for update in updates:
            await self.show(update)

    # Asking, and access for tools

    async def ask(self, tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
        """Send a permission request and return the answer."""
        offered = [v1.PermissionOption(option.id, option.label, option.kind) for option in options]
        given = await ask_permission(self.session, self.describe_call(tool_call_id), offered)
        return UserAnswer(given.option_id, given.decided_by, given.reason)

    def describe_call(self, tool_call_id: str) -> v1.ToolCallPatch:
        """Everything this client was shown of a tool call."""
        return self._projector.calls.patch(tool_call_id)

    def access_for(self, turn: Turn) -> ClientAccess:
        """File, command and question access for the tools of a turn that this client started."""
        settings = self.open_session.settings
        return ClientAccess(
            turn,
            self._local,
            uses_files=settings.uses_client_files,
            uses_terminals=settings.uses_client_terminals,
            settle=self.open_session.settle,
        )


def mode_state(session: OpenSession) -> v1.SessionModeState:
    """The modes of a session, for the responses that open one."""
    modes = [v1.SessionMode(mode.id, mode.name, mode.description) for mode in MODES.values()]
    return v1.SessionModeState(session.mode.id, modes)


def config_options(session: OpenSession) -> list[v1.SessionConfigOption]:
    """The config options of a session: the modes again, the models, and how much the model thinks."""
    mode = [v1.SessionConfigSelectOption(each.id, each.name, each.description) for each in MODES.values()]
    model = [v1.SessionConfigSelectOption(name, name) for name in session.model_names]
    effort = [v1.SessionConfigSelectOption(each, each.capitalize()) for each in EFFORTS]
    chosen = session.row.effort or DEFAULT_EFFORT
    return [
        v1.SessionConfigSelect("mode", "Mode", session.mode.id, mode, category="mode"),
        v1.SessionConfigSelect("model", "Model", session.model_name, model, category="model"),
        v1.SessionConfigSelect("effort", "Thinking effort", chosen, effort, category="thought_level"),
    ]


def turn_state(session: OpenSession) -> dict[str, Any]:
    """Whether a turn is running, for the `_meta` of load and resume."""
    return {"dragoman": {"turn": {"active": session.turn is not None, "state": session.state}}}
