"""One connection's place at a session: what it is shown, how it is asked, what its turns work with.

Owns the way from the host's chunks to this client's updates, and back from its answers. Several seats may look at one
host; each has a projector of its own, so that who comes late starts at the turn's beginning.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.agent.permission import ask_permission
from dragoman.builtin.access import ClientAccess, LocalAccess
from dragoman.builtin.context.history import model_view
from dragoman.builtin.loop import TurnWork
from dragoman.builtin.permission import ToolPermissions, session_rules
from dragoman.builtin.updates import Projector
from dragoman.errors import CapabilityError
from dragoman.schema import v1
from dragoman.uistream.chunks import Start
from dragoman.uistream.unfold import replay

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.agent import AgentSession
    from dragoman.agent import Turn as AgentTurn
    from dragoman.builtin import session
    from dragoman.builtin.desk import Desk
    from dragoman.builtin.models.model import Model
    from dragoman.policy import Action, Rule
    from dragoman.policy.decide import Option
    from dragoman.uistream.chunks import Chunk
    from dragoman.uistream.messages import Message


class Viewer:
    """A client at a session. What happens there while it is told of the past waits until `join` is done."""

    def __init__(self, desk: Desk, session: AgentSession) -> None:
        self.desk = desk
        self.session = session
        self._projector = self._new_projector()
        # Taken in one step with the watch, so that what is in neither does not exist, and nothing is in both.
        self._history = tuple(desk.host.history)
        self._live = desk.host.live
        self._waiting: list[Callable[[], Awaitable[None]]] | None = []
        self._leave = desk.host.watch(self.deliver)

    def close(self) -> None:
        """Nothing is shown here any more."""
        self._leave()

    # Out

    async def join(self, *, repeats_history: bool = False) -> None:
        """Shows the past, if that is wanted, and the running turn from its beginning; from then on what happens."""
        history, self._history, live, self._live = self._history, (), self._live, ()
        if repeats_history:
            await self._repeat(history)
        await self._project(live)
        while self._waiting:
            await self._waiting.pop(0)()
        self._waiting = None

    async def deliver(self, chunks: Sequence[Chunk]) -> None:
        """Shows chunks of the running turn."""
        await self._in_order(lambda: self._project(chunks))

    async def hear(self, message: Message) -> None:
        """Shows what another client said."""
        await self._in_order(lambda: self._repeat((message,)))

    async def _in_order(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._waiting is None:
            await work()
        else:
            self._waiting.append(work)

    async def _project(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            if isinstance(chunk, Start):
                self._projector = self._new_projector()
            for update in self._projector.project(chunk):
                await self.show(update)

    async def show(self, update: v1.SessionUpdate) -> None:
        with suppress(CapabilityError):  # this client cannot show that kind
            await self.session.update(update)

    async def _repeat(self, messages: Sequence[Message]) -> None:
        """Repeats a part of the conversation (rule 107)."""
        for message in messages:
            if message.role == "user":
                updates = self._projector.user_message(message)
            else:
                projector = self._new_projector(is_live=False)
                updates = [update for chunk in replay(message) for update in projector.project(chunk)]
                updates += projector.calls.end_all("interrupted")
            for update in updates:
                await self.show(update)

    def stop_reason(self, end: session.TurnEnd) -> str:
        """Why the turn that was just shown ended."""
        if end.was_cancelled:
            return "cancelled"
        return self._projector.stop_reason or "end_turn"

    async def ask(self, tool_call_id: str, options: Sequence[v1.PermissionOption]) -> str | None:
        """This client's answer; None when it gives none."""
        return (await ask_permission(self.session, self._patch(tool_call_id), options)).option_id

    def _patch(self, tool_call_id: str) -> v1.ToolCallPatch:
        return self._projector.calls.patch(tool_call_id)

    def _new_projector(self, *, is_live: bool = True) -> Projector:
        return Projector(self.desk.tools, cwd=self.session.cwd, starts_on_input=not is_live)

    # In

    async def prepare(
        self, turn: AgentTurn, work: session.Turn, trace: Mapping[str, str], model: Model | None = None
    ) -> TurnWork:
        """What the next turn of this client works with; `model` speaks instead of the session's."""
        desk, settings = self.desk, self.desk.settings
        local = LocalAccess(self.session.roots)
        access = ClientAccess(
            turn,
            local,
            self._patch,
            uses_files=settings.uses_client_files,
            uses_terminals=settings.uses_client_terminals,
            settle=work.settle,
        )
        kept = session_rules(await desk.store.rules(desk.host.row.id))
        session_kept = list(kept)

        async def remember(rule: str, action: Action, scope: str) -> None:
            if scope == "session":
                await desk.store.add_rule(desk.host.row.id, rule, action)
                session_kept.extend(session_rules([(rule, action)]))
            else:
                desk.remember_for_project(rule, action, self.session.cwd)

        def rules() -> Sequence[Rule]:
            return (*desk.user_rules(self.session.cwd), *session_kept)

        async def ask(tool_call_id: str, options: Sequence[Option]) -> str | None:
            await work.settle()  # the client has to know the call it is asked about
            offered = [v1.PermissionOption(option.id, option.label, option.kind) for option in options]
            return await desk.ask(self, tool_call_id, offered)

        return TurnWork(
            desk.host.row.id,
            work.message,
            model_view(desk.host.history),
            desk.model if model is None else model,
            desk.tools,
            ToolPermissions(rules, lambda: desk.mode, self.session.roots, remember=remember),
            access,
            work.emit,
            ask,
            self.session.cwd,
            self.session.roots,
            os.path.join(desk.overflow_dir, desk.host.row.id),
            desk.host.memory,
            system=await desk.system(self.session),
            effort=desk.host.row.effort,
            limits=settings.limits,
            trace=trace,
        )
