"""The connection's end of a session: what arrives for it, its running turn, and how it ends.

`Session` is the public object over a link; a program never sees the link. The others reach it as follows:

- `ClientConnection` delivers the session's updates, in arrival order, and ends the link with the session.
- `PromptTurn` starts a turn. One runs at a time, and its response settles it after all updates before it.
- `Loading` marks the updates that arrive before its response as replayed history.
- `RequestHandler` registers the agent's open questions, which a cancel answers (rule 194).
- The supervisor joins a link whose connection was lost to the next connection.

Everything but the waiting (`cancel`, `call`, `wait_settled`) is synchronous, so nothing can arrive between two steps.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import UNSET, Struct

from dragoman.client.turn import CANCEL_GRACE_SECONDS, RunningTurn
from dragoman.errors import ConnectionClosed, LocalProtocolError
from dragoman.schema import v1
from dragoman.state import SessionState, fold_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from dragoman.client.connection import ClientConnection
    from dragoman.client.session import Session
    from dragoman.rpc import Call, Inbox

_log = logging.getLogger("dragoman.client")

Replayed: TypeAlias = Literal["no", "yes", "maybe"]

# What a replay repeats. The other updates (commands, modes, usage, title) state how things are now.
HISTORY: Final = frozenset(
    {
        v1.UserMessageChunk,
        v1.AgentMessageChunk,
        v1.AgentThoughtChunk,
        v1.ToolCall,
        v1.ToolCallUpdate,
        v1.Plan,
        v1.PlanUpdate,
        v1.PlanRemoved,
        v1.Notice,
        v1.CompactionUpdate,
        v1.CompactionSummaryChunk,
        v1.SubagentUpdate,
        v1.SessionMessage,
        v1.SessionMessageChunk,
    }
)


class Received(Struct, frozen=True):
    """An update, and whether it repeats history.

    `replayed` is `maybe` for updates after a load was answered and before the next prompt: one real agent answers
    first and replays afterwards. `is_late` marks what arrives after a turn was cancelled and before the next one
    begins: it is the rest of that turn.
    """

    update: v1.SessionUpdate
    replayed: Replayed
    is_late: bool = False


class SessionLink:
    """The state and the running turn of one open session."""

    session: Session
    """The public object over this link; its constructor sets it."""

    def __init__(self, connection: ClientConnection, session_id: str) -> None:
        self.id: Final = session_id
        self.state: Final = SessionState(text_limit=connection.limits.turn_text)
        self.connection = connection
        self.turn: RunningTurn | None = None
        self.is_closed = False
        self.lost_by: ConnectionClosed | None = None
        self._replaying: Replayed = "no"
        self._skips_replay = False
        self._loading: Inbox[v1.SessionUpdate] | None = None
        self._subscribers: list[Inbox[Received]] = []
        self._questions: set[Call] = set()
        self._on_cancel: list[Callable[[], object]] = []
        self._serving = 0  # requests of the agent that this side works on
        self._received_at = monotonic()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the connection."""
        return self.connection.peer.flow.loop

    @property
    def idle_since(self) -> float | None:
        """When the agent last sent something in the running turn; None without a turn or while it waits for us."""
        return None if self.turn is None or self._serving else self._received_at

    @property
    def is_cancelled(self) -> bool:
        """Whether the running turn was cancelled, or, between turns, the last one."""
        return self.turn.is_cancelling if self.turn is not None else self.state.is_after_cancel

    # Updates

    def deliver(self, updates: Sequence[v1.SessionUpdate], share_bytes: int) -> Sequence[v1.SessionUpdate]:
        """Fold updates into the state, put them into every reader's queue, and return them as readers get them.

        Args:
            updates: updates that arrived one after another.
            share_bytes: what each of them counts against the limits of a queue.
        """
        new = updates
        if self._skips_replay:
            new = [update for update in updates if type(update) not in HISTORY]
        if new:
            fold_all(self.state, new)
            self.hand_out(new, share_bytes)
        return updates

    def hand_out(self, updates: Sequence[v1.SessionUpdate], share_bytes: int) -> None:
        """Put updates that are folded into every reader's queue."""
        self._received_at = monotonic()
        turn = self.turn
        if turn is not None:
            if self.connection.changes is not None:
                self.connection.changes.updated(self.session, updates)
            for inbox in self._turn_inboxes():
                inbox.put(updates, share_bytes)
        elif self._loading is not None:
            self._loading.put(updates, share_bytes)
        elif self.state.is_after_cancel:
            _log.debug("session %s: %d updates came after turn %d", self.id, len(updates), len(self.state.turns) - 1)
        if self._subscribers:
            is_late = turn is None and self.state.is_after_cancel
            received = [Received(update, self._replaying, is_late) for update in updates]
            for subscriber in self._subscribers:
                subscriber.put(received, share_bytes)

    def _turn_inboxes(self) -> Sequence[Inbox[v1.SessionUpdate]]:
        """Return the queues of the programs that iterate the running turn."""
        return () if self.turn is None or self.turn.inbox is None else (self.turn.inbox,)

    def subscribe(self) -> Inbox[Received]:
        """Return a queue of everything that is received from now on; it ends with the session."""
        peer = self.connection.peer
        inbox: Inbox[Received] = peer.flow.inbox(self.id)
        if self.is_closed or not peer.is_open:
            inbox.end(peer.closed_by)
        else:
            self._subscribers.append(inbox)
        return inbox

    def unsubscribe(self, inbox: Inbox[Received]) -> None:
        """Stop filling this queue."""
        if inbox in self._subscribers:
            self._subscribers.remove(inbox)
        inbox.drop()

    def opened(self, response: Any) -> None:
        """Take what the response that opened the session says about it."""
        self.state.open(response.modes, response.config_options)

    def begin_loading(self, inbox: Inbox[v1.SessionUpdate] | None, *, is_replay: bool) -> None:
        """Begin to open the session: updates go to `inbox` as well; with `is_replay` they are history."""
        self._loading = inbox
        self._replaying = "yes" if is_replay else "no"

    def end_loading(self) -> None:
        """Note that the request that opens the session was answered."""
        self._loading = None
        if self._replaying == "yes":
            self._replaying = "maybe"

    # Turns

    def start_turn(
        self, prompt: Sequence[v1.ContentBlock], *, has_reader: bool, meta: Mapping[str, Any] | None = None
    ) -> RunningTurn:
        """Send a prompt.

        Raises: LocalProtocolError while another prompt runs or after the session was closed; ConnectionClosed after
        the agent was lost.
        """
        self.require_open()
        if self.turn is not None:
            raise LocalProtocolError(
                f"a prompt already runs in session {self.id}; wait for it or cancel it before the next (rule 187)"
            )
        turn = RunningTurn()

        def settle(response: v1.PromptResponse | None, error: Exception | None) -> None:
            self.turn = None
            if response is not None:
                self.state.end_turn(response.stop_reason, response.usage)
            elif isinstance(error, ConnectionClosed):
                self.state.lose_agent()
            else:
                self.state.end_turn(None, UNSET)
            if self.connection.changes is not None:
                self.connection.changes.end_turn(self.session)
            turn.settle(response, self.connection.explain(error))

        added = {} if self.connection.prompt_meta is None else self.connection.prompt_meta(self.id)
        request = v1.PromptRequest(self.id, list(prompt), meta={**added, **(meta or {})} or UNSET)
        self.connection.peer.ask("session/prompt", request, v1.PromptResponse, settle, lane=self.id)
        self._replaying = "no"
        self._skips_replay = False
        self._received_at = monotonic()
        self.turn = turn
        self.state.begin_turn(prompt)
        if has_reader:
            turn.inbox = self.new_inbox()
        return turn

    def new_inbox(self) -> Inbox[v1.SessionUpdate]:
        """Return a queue for the updates of one turn."""
        return self.connection.peer.flow.inbox(self.id)

    async def wait_settled(self) -> None:
        """Return when a cancelled turn is over, so that the next one does not mix with its end.

        Raises: LocalProtocolError if the agent does not end the turn in time.
        """
        turn = self.turn
        if turn is None or not turn.is_cancelling:
            return
        try:
            async with asyncio.timeout(CANCEL_GRACE_SECONDS):
                await turn.wait(self.loop)
        except TimeoutError:
            raise LocalProtocolError(
                f"the agent has not ended the cancelled turn of session {self.id}; wait for it, or close the connection"
            ) from None

    async def cancel(self) -> None:
        """Cancel the running turn and every open question; harmless without any."""
        if self.turn is not None:
            self.turn.is_cancelling = True
            self.state.cancel_turn()
        for call in list(self._questions):
            call.cancel()
        for callback in list(self._on_cancel):
            callback()
        if not self.is_closed:
            await self.connection.peer.notify("session/cancel", v1.CancelNotification(self.id))

    async def cancel_turn(self, turn: RunningTurn) -> None:
        """Cancel one turn that has not ended; in version 1 no other one can be running."""
        await self.cancel()

    async def cancel_one(self, method: str, params: object) -> None:
        """Cancel a single tool call or terminal, which an agent of version 2 may offer.

        Raises: LocalProtocolError in version 1, which has no such method.
        """
        raise LocalProtocolError(f"{method} is not a method of version 1 of the protocol")

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` if the session is cancelled while the `with` block runs."""
        self._on_cancel.append(callback)
        try:
            yield
        finally:
            self._on_cancel.remove(callback)

    # Requests

    async def call(self, method: str, params: object, confirm: Callable[[Any], None]) -> None:
        """Call an agent method; `confirm` is called with the result before any later frame is handled."""
        self.require_open()
        await self.connection.call(method, params, on_result=confirm)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count the agent as not idle while this side works on a request of it."""
        self._serving += 1
        try:
            yield
        finally:
            self._serving -= 1
            self._received_at = monotonic()

    def open_question(self, call: Call) -> None:
        """Keep a question to the user open until it is answered, or until the turn it belongs to is cancelled."""
        self._questions.add(call)
        call.after_response(lambda: self._questions.discard(call))
        if self.turn is not None and self.turn.is_cancelling:
            call.cancel()

    # The life of the link

    def require_open(self) -> None:
        """Raises: ConnectionClosed after the agent was lost, LocalProtocolError after the session was closed."""
        if self.lost_by is not None:
            raise self.lost_by
        if self.is_closed:
            raise LocalProtocolError(f"session {self.id} is closed; open it again with load_session or resume_session")

    def end(self, reason: ConnectionClosed | None) -> None:
        """End the session, which was closed or, with a reason, whose connection was.

        Readers get what is left in their queues.
        """
        self.is_closed = True
        if reason is not None:
            self.lost_by = reason
            self.state.lose_agent()
        for inbox in self._subscribers:
            inbox.end(reason)
        self._subscribers.clear()

    def rejoin(self, connection: ClientConnection, *, skips_replay: bool) -> None:
        """Continue on another connection. With `skips_replay`, history that the state already has is dropped."""
        self.connection = connection
        self._skips_replay = skips_replay

    def reopen(self) -> None:
        """Take up the session that the agent has opened again."""
        self.is_closed = False
        self.lost_by = None
