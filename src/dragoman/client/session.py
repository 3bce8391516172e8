"""A conversation with an agent: what was said, what may be asked next.

Owns the order of things within one session: updates fold into `state` and reach their readers, one prompt runs at a
time, a cancel answers what is pending. Does not know how an agent is reached, nor what a service does.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import UNSET, Struct

from dragoman.client.turn import CANCEL_GRACE_SECONDS, PromptTurn, RunningTurn
from dragoman.errors import CapabilityError, ConnectionClosed, LocalProtocolError
from dragoman.schema import Unknown, v1
from dragoman.state import SessionState, fold, fold_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from dragoman.client.connection import Connection
    from dragoman.rpc import Call, Inbox

_log = logging.getLogger("dragoman.client")

Replayed: TypeAlias = Literal["no", "yes", "maybe"]

# Prompt blocks that need the agent's word first (rule 177); text and resource links are always welcome.
_GATED_BLOCKS: Final[dict[type, tuple[str, str]]] = {
    v1.ImageContent: ("image", "promptCapabilities.image"),
    v1.AudioContent: ("audio", "promptCapabilities.audio"),
    v1.EmbeddedResource: ("embedded_context", "promptCapabilities.embeddedContext"),
}


# What a replay repeats; the rest of it (commands, modes, usage, title) tells how things are now.
_HISTORY: Final = frozenset(
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
    """An update and whether it repeats history.

    `maybe` stands for updates after a load was answered and before the next prompt: one real agent answers first
    and replays afterwards. `is_late` marks what comes after a turn was cancelled and before the next one begins: it
    is the rest of that turn, not something new.
    """

    update: v1.SessionUpdate
    replayed: Replayed
    is_late: bool = False


class Updates:
    """Everything a session receives, in and between turns; ends when the session does."""

    def __init__(self, session: Session, inbox: Inbox[Received]) -> None:
        self._session = session
        self._inbox = inbox

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> Received:
        return await self._inbox.__anext__()

    def close(self) -> None:
        """Stops receiving. Dropping the last reference does the same."""
        self._session._unsubscribe(self._inbox)

    __del__ = close


class Session:
    """One session of an agent. `state` is the folded truth; everything else asks the agent."""

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        cwd: str,
        *,
        additional_directories: Sequence[str] = (),
        mcp_servers: Sequence[v1.McpServer] = (),
    ) -> None:
        self.id: Final = session_id
        self.cwd: Final = cwd
        self.additional_directories: Final = tuple(additional_directories)
        self.mcp_servers: Final = tuple(mcp_servers)
        self.state = SessionState()
        self._connection = connection
        self._replaying: Replayed = "no"
        self._turn: RunningTurn | None = None
        self._loading: Inbox[v1.SessionUpdate] | None = None
        self._subscribers: list[Inbox[Received]] = []
        self._questions: set[Call] = set()
        self._on_cancel: list[Callable[[], object]] = []
        self._is_closed = False
        self._lost_by: ConnectionClosed | None = None
        self._skips_replay = False
        self._serving = 0  # requests of the agent that this side works on
        self._heard_at = monotonic()

    @property
    def lost_by(self) -> ConnectionClosed | None:
        """Why the agent is gone while this session was open: it can be resumed or loaded on another connection."""
        return self._lost_by

    @property
    def idle_since(self) -> float | None:
        """When the agent was last heard of in the running turn, as `time.monotonic` tells it.

        None while no turn runs, and while the agent waits for this side: a permission, a file, a terminal. There is
        no limit to silence, because a tool may take hours; use `asyncio.timeout` to set one.
        """
        return None if self._turn is None or self._serving else self._heard_at

    @property
    def is_closed(self) -> bool:
        """Whether the session or its connection has ended."""
        return self._is_closed

    @property
    def is_cancelled(self) -> bool:
        """Whether the running turn was cancelled, or, between turns, the last one.

        What the agent asks for then belongs to that turn and is answered `cancelled`.
        """
        return self._turn.is_cancelling if self._turn is not None else self.state.is_after_cancel

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` if the session is cancelled while the `with` block runs."""
        self._on_cancel.append(callback)
        try:
            yield
        finally:
            self._on_cancel.remove(callback)

    def prompt(self, prompt: str | v1.ContentBlock | Sequence[v1.ContentBlock]) -> PromptTurn:
        """A turn with this prompt, sent when it is first awaited, iterated or entered.

        Raises: CapabilityError for content the agent did not say it takes; LocalProtocolError, when it is sent,
        while another prompt of this session runs.
        """
        if isinstance(prompt, str):
            blocks: tuple[v1.ContentBlock, ...] = (v1.TextContent(prompt),)
        elif isinstance(prompt, list | tuple):
            blocks = tuple(prompt)
        else:
            blocks = (prompt,)  # type: ignore[assignment]  # not a sequence: one block
        accepted = self._connection.capabilities.prompt_capabilities
        for block in blocks:
            gated = _GATED_BLOCKS.get(type(block))
            if gated and not (accepted and getattr(accepted, gated[0]) is True):
                raise CapabilityError(f"the agent does not take {block.__class__.__name__} in prompts ({gated[1]})")
        return PromptTurn(self, blocks)

    def updates(self) -> Updates:
        """Everything received from now on, replayed history included and marked."""
        inbox: Inbox[Received] = self._connection.peer.flow.inbox(self.id)
        if self._is_closed or not self._connection.peer.is_open:
            inbox.end(self._connection.peer.closed_by)
        else:
            self._subscribers.append(inbox)
        return Updates(self, inbox)

    async def cancel(self) -> None:
        """Asks the agent to stop the running turn; harmless without one.

        Every open question of the agent (permission, elicitation) is answered `cancelled` at once (rule 194).
        """
        if self._turn is not None:
            self._turn.is_cancelling = True
            self.state.cancel_turn()
        for call in list(self._questions):
            call.cancel()
        for stop in list(self._on_cancel):
            stop()
        if not self._is_closed:
            await self._connection.peer.notify("session/cancel", v1.CancelNotification(self.id))

    async def set_mode(self, mode_id: str) -> None:
        """Switches the agent's mode; its answer is the confirmation, `state.mode` follows.

        Raises: LocalProtocolError for a mode the session does not offer.
        """
        modes = self.state.modes
        known = [mode.id for mode in modes.available_modes] if modes else []
        if mode_id not in known:
            raise LocalProtocolError(f"session {self.id} has no mode {mode_id!r}; it offers: {_list(known)}")

        def confirm(_: object) -> None:
            fold(self.state, v1.CurrentModeUpdate(mode_id))

        await self._call("session/set_mode", v1.SetSessionModeRequest(self.id, mode_id), confirm)

    async def set_config_option(self, option_id: str, value: str | bool) -> None:
        """Changes an option; `state.config_options` becomes the complete list the agent answers with.

        Raises: LocalProtocolError for an option or value the session does not offer.
        """
        option = next((o for o in self.state.config_options if getattr(o, "id", None) == option_id), None)
        if option is None:
            known = [o.id for o in self.state.config_options if not isinstance(o, Unknown)]
            raise LocalProtocolError(f"session {self.id} has no option {option_id!r}; it offers: {_list(known)}")
        if isinstance(option, v1.SessionConfigBoolean) != isinstance(value, bool):
            raise LocalProtocolError(
                f"option {option_id!r} takes {'true or false' if isinstance(value, str) else 'text'}"
            )
        params: object
        if isinstance(value, bool):
            params = v1.SetSessionConfigBoolean(self.id, option_id, value)
        else:
            params = v1.SetSessionConfigSelect(self.id, option_id, value)

        def confirm(result: v1.SetSessionConfigOptionResponse) -> None:
            fold(self.state, v1.ConfigOptionUpdate(result.config_options))

        await self._call("session/set_config_option", params, confirm)

    async def close(self) -> None:
        """Ends the session at the agent, its running turn included (needs `sessionCapabilities.close`)."""
        await self._connection.close_session(self.id)

    # What the connection and the turn call

    def _deliver(self, updates: Sequence[v1.SessionUpdate], share_bytes: int) -> None:
        """Takes updates that arrived one after another: when this returns they are folded and in every queue."""
        if self._skips_replay:
            updates = [update for update in updates if type(update) not in _HISTORY]
            if not updates:
                return
        fold_all(self.state, updates)
        self._heard_at = monotonic()
        turn = self._turn
        if turn is not None:
            if turn.inbox is not None:
                turn.inbox.put(updates, share_bytes)
        elif self._loading is not None:
            self._loading.put(updates, share_bytes)
        elif self.state.is_after_cancel:
            _log.debug("session %s: %d updates came after turn %d", self.id, len(updates), len(self.state.turns) - 1)
        if self._subscribers:
            is_late = turn is None and self.state.is_after_cancel
            received = [Received(update, self._replaying, is_late) for update in updates]
            for inbox in self._subscribers:
                inbox.put(received, share_bytes)

    def _start_turn(self, prompt: Sequence[v1.ContentBlock], *, has_reader: bool) -> RunningTurn:
        self._require_open()
        if self._turn is not None:
            raise LocalProtocolError(
                f"a prompt already runs in session {self.id}; wait for it or cancel it before the next (rule 187)"
            )
        turn = RunningTurn()

        def settle(response: v1.PromptResponse | None, error: Exception | None) -> None:
            self._turn = None
            if response is not None:
                self.state.end_turn(response.stop_reason, response.usage)
            elif isinstance(error, ConnectionClosed):
                self.state.lose_agent()
            else:
                self.state.end_turn(None, UNSET)
            turn.settle(response, self._connection.explain(error))

        self._connection.peer.ask(
            "session/prompt", v1.PromptRequest(self.id, list(prompt)), v1.PromptResponse, settle, lane=self.id
        )
        self._replaying = "no"
        self._skips_replay = False
        self._heard_at = monotonic()
        self._turn = turn
        self.state.begin_turn(prompt)
        if has_reader:
            turn.inbox = self._new_inbox()
        return turn

    def _new_inbox(self) -> Inbox[v1.SessionUpdate]:
        return self._connection.peer.flow.inbox(self.id)

    def _unsubscribe(self, inbox: Inbox[Received]) -> None:
        if inbox in self._subscribers:
            self._subscribers.remove(inbox)
        inbox.drop()

    def _end(self, reason: ConnectionClosed | None) -> None:
        """The session or its connection is over: readers take what is left, then stop."""
        self._is_closed = True
        if reason is not None:
            self._lost_by = reason
            self.state.lose_agent()
        for inbox in self._subscribers:
            inbox.end(reason)
        self._subscribers.clear()

    def _rejoin(self, connection: Connection, *, skips_replay: bool) -> None:
        """Goes on with another connection to the agent; with `skips_replay` what is known already is not told again."""
        self._connection = connection
        self._skips_replay = skips_replay

    def _reopened(self) -> None:
        self._is_closed = False
        self._lost_by = None

    async def _settled(self) -> None:
        """Returns when a turn that was cancelled is over; what follows it must not mix with its end.

        Raises: LocalProtocolError when the agent does not come to that end.
        """
        turn = self._turn
        if turn is None or not turn.is_cancelling:
            return
        try:
            async with asyncio.timeout(CANCEL_GRACE_SECONDS):
                await turn.wait()
        except TimeoutError:
            raise LocalProtocolError(
                f"the agent has not ended the cancelled turn of session {self.id}; wait for it, or close the connection"
            ) from None

    def _require_open(self) -> None:
        if self._lost_by is not None:
            raise self._lost_by
        if self._is_closed:
            raise LocalProtocolError(f"session {self.id} is closed")

    async def _call(self, method: str, params: object, confirm: Callable[[Any], None]) -> None:
        self._require_open()
        await self._connection.call(method, params, on_result=confirm)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
