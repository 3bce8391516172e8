"""One agent program with one session, from its start to its end, reported as events.

Theory of operation
-------------------
`start` connects and, while the agent's program loads, begins everything else that takes time: the look at the folders,
the protected files, the ledger. `open` opens the session and waits for these. `prompt` runs one turn and returns when
what it changed is known. A run starts once and ends once; a host starts another one if the agent died.

*Order.* `on_event` is called in the event loop, in the order of the wire: updates are reported while their message is
handled, after they were folded into the session's state, and a request of the agent is decided in a task that begins
after them. So a decision is reported behind the updates that led to it.

*Two ways to stop.* `cancel` asks the agent, and lets `prompt` return after a while even if the agent does not react.
Cancelling the task that runs `prompt` ends everything at once; `end_now` then completes the record without the loop.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from dragoman.client.connect import connect
from dragoman.errors import ConnectionClosed, DragomanError
from dragoman.rpc.limits import DEFAULT_LIMITS
from dragoman.runs.events import EndOfTurn, Initialized, Noted, Opened, TurnEnded, TurnStarted, Updated
from dragoman.runs.guard import RunGuard, own_meta
from dragoman.runs.opening import apply_settings, current_mode, current_model, enter_asking_mode, open_session
from dragoman.runs.record import RunRecord, describe_agent
from dragoman.schema import v1
from dragoman.state.tools import ToolCallState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client import ClientOptions, PromptTurn, RemoteAgent, Session
    from dragoman.client.connect import Protocol
    from dragoman.client.legacy_models import LegacyModels
    from dragoman.client.permission import Asker
    from dragoman.client.services import AnswersForms
    from dragoman.rpc import Limits, Observer, Transport
    from dragoman.runs.changes import RunChanges
    from dragoman.runs.events import RunEvent
    from dragoman.runs.ledger import RunLedger
    from dragoman.runs.opening import SessionOpening
    from dragoman.runs.result import LeftOut
    from dragoman.runs.terms import Terms
    from dragoman.view.blocks import ShownTerminal

_log = logging.getLogger("dragoman.runs")


class GuardedRun:
    """One agent program with one session.

    Args:
        terms: what was decided before.
        asker: decides what the rules leave open; None refuses that.
        on_event: called with each event, in the order of the wire. What it raises is logged and ends nothing. It must
            not wait; it may write to a stream.
        forms: answers forms and pages of the agent; without it the built-in agent asks no questions.
        observers: see every line between this program and the agent.
        limits: how much the connection may hold in memory.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        asker: Asker | None,
        on_event: Callable[[RunEvent], None],
        forms: AnswersForms | None = None,
        observers: Sequence[Observer] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.terms = terms
        self.agent: RemoteAgent | None = None
        self.session: Session | None = None
        self.ledger: RunLedger | None = None
        """Set before `start`, if the turns are to be entered."""
        self.guard = RunGuard(terms, asker=asker, report=self._report)
        self.record = RunRecord(terms, look=self.guard.look, written=self.guard.written)
        """What is known of the last turn, at any moment."""
        if terms.copies_before:
            self.guard.before_permitted = self.record.copy_before()
        self._on_event = on_event
        self._forms = forms
        self._observers = observers
        self._limits = limits
        self._stack = AsyncExitStack()
        self._changes: RunChanges | None = None
        self._models: LegacyModels | None = None
        self._preparing: list[asyncio.Future[None]] = []
        self._turns = 0
        self._is_resumed = False
        self._turns_before: int | None = None  # in the state; None between two turns
        self._is_cancelled = False
        self._given_up: asyncio.Future[None] | None = None

    # Starting

    async def start(self, transport: Transport, *, protocol: Protocol = 1, unstable: bool = False) -> None:
        """Connect and initialize the agent.

        Raises:
            ConnectionClosed: it ended before it answered, or did not answer in time.
        """
        if self.ledger is not None:
            self._preparing.append(asyncio.ensure_future(asyncio.to_thread(self.ledger.open)))
        self._follow_changes()
        options: ClientOptions = {
            **self.guard.options(),
            "elicitation": self._forms,
            "changes": None if self._changes is None else self._changes.service,
            "meta": {} if self._forms is not None else {"dragoman": {"headless": True}},
            "on_updates": self._updated,
            "observers": self._observers,
            "limits": self._limits,
            "unstable": unstable,
            "protocol": protocol,
        }
        agent = await self._stack.enter_async_context(connect(transport, **options))
        self.agent = self.guard.agent = agent
        methods = tuple(str(getattr(method, "id", "")) for method in agent.auth_methods)
        described = describe_agent(self.terms, agent.info)
        self._report(Initialized(agent=described, protocol_version=agent.protocol_version, login_methods=methods))
        # Not earlier: the look at the folders has the disk for itself while the agent's program loads.
        self._preparing.append(asyncio.ensure_future(asyncio.to_thread(self.guard.arm)))

    def offer_models(self) -> None:
        """Read which models an agent of an older draft offers; called before `start`, if a model is to be set."""
        from dragoman.client.legacy_models import LegacyModels

        self._models = LegacyModels()
        self._observers = [*self._observers, self._models]

    def _follow_changes(self) -> None:
        if not self.terms.chosen.follows_changes:
            return
        from dragoman.runs.changes import RunChanges

        terms = self.terms
        self._changes = RunChanges(terms.ledger_name, terms.roots, self._note, left_out=terms.left_out)
        self._changes.start()

    async def open(self, opening: SessionOpening) -> None:
        """Open the session, set mode, model and options, and wait for what has to be known before a prompt.

        Raises:
            ConfigError: the agent cannot reopen a session, or does not offer a setting.
            RequestError: the agent refuses.
        """
        assert self.agent is not None
        agent, entry = self.agent, self.terms.entry
        replays_late = entry is not None and entry.quirks.replays_late
        session = await open_session(agent, opening, self.terms.roots, replays_late=replays_late)
        self.session = self.guard.session = session
        self._is_resumed = opening.session_id is not None
        await apply_settings(session, opening, self._models)
        if opening.enters_asking_mode and entry is not None:
            for note in await enter_asking_mode(session, entry.facts):
                self._note(note)
        self._report(
            Opened(
                session_id=session.id,
                is_resumed=self._is_resumed,
                is_scripted=self.is_scripted or is_marked_scripted(agent.capabilities.meta),
                mode=self.mode,
                model=self.model,
            )
        )
        for preparing in self._preparing:
            await preparing
        if self.ledger is not None:
            await self.ledger.join(agent, session)
        if self._changes is not None:
            await self._changes.ready()

    # What it is

    @property
    def is_scripted(self) -> bool:
        """Whether a script is played: no model is called."""
        return self.record.is_scripted

    @property
    def model(self) -> str | None:
        """The model of the session, if the session states it."""
        return None if self.session is None else current_model(self.session)

    @property
    def mode(self) -> str | None:
        """The mode of the session, if it has modes."""
        return None if self.session is None else current_mode(self.session)

    @property
    def is_prompted(self) -> bool:
        """Whether a prompt was sent."""
        return self.session is not None and bool(self._turns) and bool(self.session.state.turns)

    # Turns

    async def prompt(
        self,
        content: Sequence[v1.ContentBlock],
        *,
        prompt_id: str = "",
        text: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> EndOfTurn:
        """Run one turn; return when its changes and protected files were compared.

        Args:
            content: the prompt.
            prompt_id: its id in the events.
            text: the prompt as a user reads it, for the ledger.
            meta: the request's `_meta`.
        """
        assert self.agent is not None
        assert self.session is not None
        session = self.session
        self._turns += 1
        if self._turns > 1:
            # What changed between two turns is the user's work.
            self.record = self.record.next_turn()
            await asyncio.to_thread(self.guard.arm)
        self._is_cancelled = False
        self.guard.begin_turn()
        self._report(TurnStarted(prompt_id=prompt_id))
        if self.ledger is not None:
            is_new = self._turns == 1 and not self._is_resumed
            self.ledger.begin(self.agent, session, content, text, is_new=is_new, is_scripted=self.is_scripted)
        turn = session.prompt(content, meta=meta)
        self._turns_before = len(session.state.turns)
        self._given_up = asyncio.get_running_loop().create_future()
        try:
            end = await self._finish(turn, self._given_up)
        finally:  # also if the agent died or this task was cancelled
            self._turns_before = None
            self.guard.compare()
        if end.response is not None and self._changes is not None:
            await self._changes.finish(session)
            self.record.changes = self._changes.result()
        self._report(TurnEnded(prompt_id=prompt_id, end=end))
        return end

    async def _finish(self, turn: PromptTurn, given_up: asyncio.Future[None]) -> EndOfTurn:
        finishing: asyncio.Future[Any] = asyncio.ensure_future(_outcome(turn))
        try:
            await asyncio.wait({finishing, given_up}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            finishing.cancel()  # a prompt that still waits for the look at the folders must not be sent any more
            raise
        if not finishing.done():
            return EndOfTurn(was_cancelled=True, gave_up=True)
        outcome = finishing.result()
        if isinstance(outcome, v1.PromptResponse):
            return EndOfTurn(response=outcome, was_cancelled=self._is_cancelled)
        return EndOfTurn(error=outcome, was_cancelled=self._is_cancelled)

    async def cancel(self, *, give_up_seconds: float) -> None:
        """Ask the agent to stop the turn; `prompt` returns at the latest after that time, with `gave_up`."""
        self._is_cancelled = True
        if self.session is None or self._given_up is None:
            return
        asyncio.get_running_loop().call_later(give_up_seconds, _settle, self._given_up)
        with suppress(ConnectionClosed):  # the turn fails for the same reason
            await self.session.cancel()

    def end_now(self) -> None:
        """Complete the record of a turn that was interrupted. Blocks."""
        if self._changes is not None:
            self._changes.end_now(self.session)
            self.record.changes = self._changes.result()

    def make_patch(self) -> tuple[bytes, list[str], list[LeftOut]]:
        """The patch of everything that changed in the folders, or of what was seen to change if that is not known."""
        whole = None if self._changes is None else self._changes.patch()
        if whole is not None:
            return whole
        state = None if self.session is None else self.session.state
        if self.record.patch is None or state is None:
            return b"", [], []
        return self.record.patch.build(self.guard.written(), state, state.turns[-1] if state.turns else None)

    def shown_terminals(self) -> list[ShownTerminal]:
        """What the terminals of the last turn's tool calls show now."""
        if self.session is None or not self.session.state.turns:
            return []
        calls = self.session.state.timeline[self.session.state.turns[-1].start :]
        content = [item for call in calls if isinstance(call, ToolCallState) for item in call.content]
        looks = [self.guard.look(item.terminal_id) for item in content if isinstance(item, v1.Terminal)]
        if not looks:
            return []
        from dragoman.view.blocks import ShownTerminal

        return [
            ShownTerminal(look.terminal_id, look.command, look.text, look.exit_code, look.signal, look.is_truncated)
            for look in looks
            if look is not None
        ]

    # The end

    async def close(self) -> None:
        """End the agent, its commands, and everything that was begun for it."""
        for preparing in self._preparing:
            preparing.cancel()
        try:
            await self._stack.aclose()
        finally:
            if self.guard.terminals is not None:
                await self.guard.terminals.close()

    # Inside

    def _updated(self, session_id: str, updates: Sequence[v1.SessionUpdate], lines: Sequence[bytes]) -> None:
        session = self.session
        # Before the prompt is sent: history that is replayed, or what an agent states about a new session. A turn in
        # version 2 may be over by now, because its end came together with its last updates.
        if session is None or self._turns_before is None or len(session.state.turns) <= self._turns_before:
            return
        self._report(Updated(session_id=session_id, updates=updates, lines=lines))
        if session_id != session.id:
            return
        self.record.copy_named(updates, session.state)
        if self.ledger is not None:
            self.ledger.update()
        self.guard.judge_updates(updates)

    def _note(self, sentence: str) -> None:
        self._report(Noted(text=sentence))

    def _report(self, event: RunEvent) -> None:
        # The record first: a view may ask what is known by now.
        self.record.take(event)
        try:
            self._on_event(event)
        except Exception:
            _log.exception("an observer of a run failed")


async def _outcome(turn: PromptTurn) -> v1.PromptResponse | DragomanError:
    try:
        return await turn
    except DragomanError as error:
        return error


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def is_marked_scripted(meta: object) -> bool:
    """Whether the built-in agent states that it plays a script."""
    own = own_meta(meta)
    return own is not None and own.get("scripted") is True
