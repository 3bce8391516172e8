"""One agent program with one session, from its start to its end, reported as events.

Theory of operation
-------------------
`start` connects and, while the agent's program loads, begins everything else that takes time: the look at the folders,
the protected files, the ledger. `open` opens the session and waits for these; if the agent wants a login first, it may
be called again. `prompt` runs one turn and returns when what it changed is known. A run starts once and ends once; a
program that outlives it starts another one.

*Order.* `on_event` is called in the event loop, in the order of the wire: updates are reported while their message is
handled, after they were folded into the session's state, and a request of the agent is decided in a task that begins
after them. So a decision is reported behind the updates that led to it.

*Between two turns* the folders are the user's. So the protected files are noted again before each prompt, and only a
program that sends its first prompt at once has them noted, and its folders looked at, while the agent starts.

*Two ways to stop.* `cancel` asks the agent, and lets `prompt` return after a while even if the agent does not react.
Cancelling the task that runs `prompt` ends everything at once; `end_now` then completes the record without the loop.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.client.connect import connect
from dragoman.client.files import turn_label
from dragoman.errors import ConnectionClosed, DragomanError
from dragoman.rpc.limits import DEFAULT_LIMITS
from dragoman.runs.events import EndOfTurn, Initialized, Noted, Opened, TurnEnded, TurnStarted, Updated
from dragoman.runs.guard import RunGuard, own_meta
from dragoman.runs.opening import (
    apply_settings,
    can_reopen,
    current_model,
    enter_asking_mode,
    open_session,
)
from dragoman.runs.record import RunRecord, describe_agent
from dragoman.schema import is_advertised, v1
from dragoman.state.tools import ToolCallState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

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
    from dragoman.state import SessionState
    from dragoman.view.blocks import ShownTerminal
    from dragoman.workspace import Change

_log = logging.getLogger("dragoman.runs")
_CALLS: Final = frozenset((v1.ToolCall, v1.ToolCallUpdate))


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
        serve: given the options of the connection; returns them with services of its own in place of some.
        settle: awaited when the agent has answered a prompt, or was given up: ends what the turn left running, before
            what it changed is compared.
        is_prompted_at_once: whether the first prompt follows `open` at once.
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
        serve: Callable[[ClientOptions], ClientOptions] | None = None,
        settle: Callable[[EndOfTurn], Awaitable[None]] | None = None,
        is_prompted_at_once: bool = True,
    ) -> None:
        self.terms = terms
        self.ledger: RunLedger | None = None
        """Set before `start`, if the turns are to be entered."""
        self.guard = RunGuard(terms, asker=asker, report=self._report)
        self.record = RunRecord(terms, look=self.guard.look, written=self._written)
        """What is known of the last turn, at any moment."""
        self._on_event = on_event
        self._forms = forms
        self._observers = observers
        self._limits = limits
        self._serve = serve
        self._settle = settle
        self._is_prompted_at_once = is_prompted_at_once
        self._stack = AsyncExitStack()
        self._changes: RunChanges | None = None
        self.follows_changes = False
        """Whether what its turns change can be looked at afterwards."""
        self._models: LegacyModels | None = None
        self._preparing: list[asyncio.Future[None]] = []
        self._turns = 0
        self._lost_before = 0  # messages, before this turn
        self._turns_before: int | None = None  # in the state; None between two turns
        self._is_recorded = True
        self._turn: PromptTurn | None = None
        self._given_up: asyncio.Future[None] | None = None
        self._is_cancelled = False

    # Starting

    async def start(self, transport: Transport, *, protocol: Protocol = 1, unstable: bool = False) -> None:
        """Connect and initialize the agent.

        Raises:
            ConnectionClosed: it ended before it answered, or did not answer in time.
        """
        if self.ledger is not None and self.ledger.has_own_file:
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
        if self._serve is not None:
            options = self._serve(options)
        agent = await self._stack.enter_async_context(connect(transport, **options))
        self.guard.agent = agent
        methods = tuple(str(getattr(method, "id", "")) for method in agent.auth_methods)
        described = describe_agent(self.terms, agent.info)
        self._report(Initialized(agent=described, protocol_version=agent.protocol_version, login_methods=methods))
        if self._is_prompted_at_once:
            # Not earlier: the look at the folders has the disk for itself while the agent's program loads.
            self._preparing.append(asyncio.ensure_future(asyncio.to_thread(self.guard.arm)))

    def offer_models(self) -> None:
        """Read which models an agent of an older draft offers; called before `start`, if a model is to be set."""
        from dragoman.client.legacy_models import LegacyModels

        self._models = LegacyModels()
        self._observers = [*self._observers, self._models]

    def _follow_changes(self) -> None:
        terms = self.terms
        if terms.entry is None or not terms.chosen.follows_changes:  # an agent in this process has no program to blame
            return
        from dragoman.runs.changes import RunChanges

        name = terms.ledger_name or terms.agent
        self._changes = RunChanges(name, terms.roots, self._note, left_out=terms.left_out)
        self._changes.start(looks_now=self._is_prompted_at_once)
        self.follows_changes = True

    async def open(self, opening: SessionOpening) -> bool:
        """Open the session, set mode, model and options, and wait for what has to be known before a prompt.

        Returns whether the session was loaded, so that the agent may replay its history, also after this.

        Raises:
            ConfigError: the agent cannot reopen a session, or does not offer a setting.
            RequestError: the agent refuses.
        """
        agent, entry = self.agent, self.terms.entry
        replays_late = entry is not None and entry.quirks.replays_late
        session, is_loaded = await open_session(agent, opening, self.terms.roots, replays_late=replays_late)
        self.guard.session = session
        await apply_settings(session, opening, self._models)
        if opening.enters_asking_mode and entry is not None and not self.terms.allows_all:
            for note in await enter_asking_mode(session, entry.facts):
                self._note(note)
        self._report(
            Opened(
                session_id=session.id,
                is_resumed=opening.session_id is not None,
                is_scripted=self.record.is_scripted or is_marked_scripted(agent.capabilities.meta),
                mode=self.guard.mode,
                model=current_model(session),
                can_reopen=can_reopen(agent),
            )
        )
        for preparing in self._preparing:
            await preparing
        if self.ledger is not None:
            await self.ledger.join(agent, session)
        if self._changes is not None and self._is_prompted_at_once:
            await self._changes.ready()
        return is_loaded

    # What it is

    @property
    def agent(self) -> RemoteAgent:
        """The agent, which has answered."""
        assert self.guard.agent is not None
        return self.guard.agent

    @property
    def session(self) -> Session:
        """The session, which is open."""
        assert self.guard.session is not None
        return self.guard.session

    @property
    def state(self) -> SessionState | None:
        """What the session shows; None if it is not open yet."""
        return None if self.guard.session is None else self.guard.session.state

    @property
    def is_open(self) -> bool:
        """Whether the agent has answered, and is still there."""
        return self.guard.agent is not None and self.guard.agent.is_open

    def can(self, gate: str) -> bool:
        """Return whether the agent advertised a capability, by its dotted path."""
        return is_advertised(self.agent.capabilities, gate)

    @property
    def can_come_back(self) -> bool:
        """Whether another process of the agent can open its sessions."""
        return can_reopen(self.agent)

    @property
    def model(self) -> str | None:
        """The model of the session, if the session states it."""
        return None if self.guard.session is None else current_model(self.guard.session)

    @property
    def mode(self) -> str | None:
        """The mode of the session, if it has modes."""
        return self.guard.mode

    @property
    def is_prompted(self) -> bool:
        """Whether a prompt was sent."""
        return bool(self._turns) and self.state is not None and bool(self.state.turns)

    @property
    def lost_messages(self) -> int:
        """How many messages of the agent in the last turn could not be read: too long, or broken."""
        return self.agent.lost_messages - self._lost_before

    # Turns

    async def prompt(
        self,
        content: Sequence[v1.ContentBlock],
        *,
        prompt_id: str = "",
        text: str = "",
        meta: Mapping[str, Any] | None = None,
        is_recorded: bool = True,
        copies_before: bool = False,
    ) -> EndOfTurn:
        """Run one turn; return when its changes and protected files were compared.

        Args:
            content: the prompt.
            prompt_id: its id in the events.
            text: the prompt as a user reads it, for the ledger.
            meta: the request's `_meta`.
            is_recorded: whether `record` is kept, and updates are reported; a program that shows them otherwise, and
                needs no result, spares both.
            copies_before: whether files are copied before the agent may change them, for a patch.

        Raises:
            CapabilityError: the agent does not take such a prompt.
        """
        session = self.session
        self._turn = turn = session.prompt(content, meta=meta)  # not sent before it is awaited
        self._given_up = given_up = asyncio.get_running_loop().create_future()
        self._is_cancelled, self._is_recorded = False, is_recorded
        try:
            await self._begin_turn(copies_before=copies_before)
            if self._changes is not None and self._changes.service is not None:
                self._changes.service.prompt_id = prompt_id
            if self._is_cancelled:
                return EndOfTurn(was_cancelled=True, was_sent=False)
            self._report(TurnStarted(prompt_id=prompt_id))
            if self.ledger is not None:
                self.ledger.begin(content, text)
            self._turns_before = before = len(session.state.turns)
            end = await self._finish(turn, given_up, before)
            if self._settle is not None:
                await self._settle(end)
            if self.guard.is_watching:
                self.guard.note_changes(await asyncio.to_thread(self.guard.confinement.changes))
        except asyncio.CancelledError:
            self.guard.compare()  # blocks, because a task that was cancelled must not wait for a thread
            raise
        finally:
            self._turn = self._given_up = self._turns_before = None
        if self._changes is not None and not end.gave_up:
            await self._changes.finish(session)
        self._report(TurnEnded(prompt_id=prompt_id, end=end))
        return end

    async def _begin_turn(self, *, copies_before: bool) -> None:
        self._turns += 1
        self._lost_before = self.agent.lost_messages
        if self._turns > 1:
            self.record = self.record.next_turn()
            if self._changes is not None:
                self._changes.next_turn()
        self.guard.before_permitted = self.record.copy_before() if copies_before else None
        if self.guard.watches and (self._turns > 1 or not self._is_prompted_at_once):
            # What changed before this prompt is the user's work.
            await asyncio.to_thread(self.guard.arm)
        self.guard.begin_turn()

    async def _finish(self, turn: PromptTurn, given_up: asyncio.Future[None], turns_before: int) -> EndOfTurn:
        finishing: asyncio.Future[Any] = asyncio.ensure_future(_outcome(turn))
        try:
            await asyncio.wait({finishing, given_up}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            finishing.cancel()  # a prompt that still waits for the look at the folders must not be sent any more
            raise
        if not finishing.done():
            return EndOfTurn(was_cancelled=True, gave_up=True)
        outcome = finishing.result()
        return EndOfTurn(
            response=outcome if isinstance(outcome, v1.PromptResponse) else None,
            error=outcome if isinstance(outcome, DragomanError) else None,
            was_cancelled=self._is_cancelled,
            was_sent=len(self.session.state.turns) > turns_before,
        )

    async def cancel(self, *, give_up_seconds: float) -> None:
        """Ask the agent to stop the turn; `prompt` returns at the latest after that time, with `gave_up`.

        A prompt that was not sent yet is never sent.
        """
        if self._turn is None or self._given_up is None or self._is_cancelled:
            return
        self._is_cancelled = True
        asyncio.get_running_loop().call_later(give_up_seconds, _settle, self._given_up)
        with suppress(ConnectionClosed):  # the turn fails for the same reason
            await self._turn.cancel()

    def end_now(self) -> None:
        """Complete the record with what the folders show, also of a turn that was interrupted. Blocks."""
        if self._changes is not None:
            self._changes.end_now(self.guard.session)
            self.record.changes = self._changes.result()

    def make_patch(self) -> tuple[bytes, list[str], list[LeftOut]]:
        """Return the patch of all that changed in the folders, or of what was seen to change if that is not known."""
        whole = None if self._changes is None else self._changes.patch()
        if whole is not None:
            return whole
        state = self.state
        if self.record.patch is None or state is None:
            return b"", [], []
        return self.record.patch.build(self._written(), state, state.turns[-1] if state.turns else None)

    def shown_terminals(self) -> list[ShownTerminal]:
        """Return what the terminals of the last turn's tool calls show now."""
        state = self.state
        if state is None or not state.turns:
            return []
        calls = state.timeline[state.turns[-1].start :]
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
        if not self._is_recorded and _CALLS.isdisjoint(map(type, updates)):
            return  # nothing to judge, as in nearly all of a stream
        session = self.guard.session
        # Before the prompt is sent: history that is replayed, or what an agent states about a new session. A turn in
        # version 2 may be over by now, because its end came together with its last updates.
        if session is None or self._turns_before is None or len(session.state.turns) <= self._turns_before:
            return
        if self._is_recorded:
            self._report(Updated(session_id=session_id, updates=updates, lines=lines))
        if session_id != session.id:
            return
        self.record.copy_named(updates, session.state)
        self.guard.judge_updates(updates)

    def _written(self) -> Sequence[Change]:
        """Return the files that this program wrote for the agent in the last turn."""
        return () if self.guard.session is None else self.guard.written(turn_label(self.guard.session))

    def _note(self, sentence: str) -> None:
        self._report(Noted(text=sentence))

    def _report(self, event: RunEvent) -> None:
        # The record first: a view may ask what is known by now.
        if self._is_recorded:
            self.record.take(event)
        if self.ledger is not None:
            self.ledger.take(event)
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
