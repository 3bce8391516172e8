"""The prompts of a session: one runs at a time, the others wait.

A prompt has an id; a second one with the same id is the same prompt and gets its outcome, it never runs again. The
outcome is the `end` event of its turn, or the `queue` event of one that never ran. `_run_all` is the one task that runs
them. A turn whose agent ignores a cancel is given up after a while; the agent is then ended before the next prompt.
Commands that were open at a cancel are over with the turn, also if the agent leaves them running (Codex does).

During a hand-over (`Host.on_kept`), prompts are accepted and none begins: they stay in the log
without an outcome, the session is noted, and `restore` of the next host puts them into its queue.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.errors import ConnectionClosed, RequestError
from dragoman.host.history.facts import note_prompt
from dragoman.host.history.restore import OUTCOMES
from dragoman.host.working.agent_end import end_members
from dragoman.host.working.passed_prompts import PassedPrompts
from dragoman.host.working.prompt_blocks import blocks_for
from dragoman.host.working.prompts import (
    TAKEN,
    WAITED,
    HostedPrompt,
    error_outcome,
    logged_prompt,
    milliseconds,
    session_lost,
)
from dragoman.host.working.uploads import REFERENCE
from dragoman.schema import encode
from dragoman.store.event_log import NewEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dragoman.errors import StoreError
    from dragoman.host.connection import HostConnection
    from dragoman.host.history.restore import LeftOpen
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.schema import v1
    from dragoman.store.event_log import LogEvent

QUEUED: Final = 16
_CLOSE_SECONDS: Final = 5.0
_CANCELLED: Final = {"result": {"stopReason": "cancelled"}}


class BegunTurn(NamedTuple):
    """A turn whose beginning is committed, and whose end is not."""

    prompt_id: str
    turn: int
    number: int
    """Of the event with which it began."""
    at: float


class PromptQueue:
    """The prompts of one session, which run one after another."""

    def __init__(self, session: HostedSession, host: Host) -> None:
        self.turn_number = int(session.facts.get("turns", 0))
        self.outcomes: OrderedDict[str, dict[str, Any]] = OrderedDict()
        """What became of the last prompts, by their ids."""
        self.running: HostedPrompt | None = None
        self.begun: BegunTurn | None = None
        """The turn of the log that has a beginning and no end; clients that attach are sent it."""
        self.passed = PassedPrompts(session, host)
        self._session = session
        self._host = host
        self._waiting: deque[HostedPrompt] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._awaited: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.changing: dict[str, HostedPrompt] = {}
        """Prompts whose new content is not committed yet, by their ids."""
        # Prompts whose outcome is known and not committed yet: the same prompt must not be taken for a new one.
        self._ending: set[str] = set()

    @property
    def is_busy(self) -> bool:
        return self.running is not None or bool(self._waiting)

    @property
    def waiting_count(self) -> int:
        """How many prompts wait for their turn."""
        return len(self._waiting)

    @property
    def waiting(self) -> list[HostedPrompt]:
        """The prompts that wait for their turn, the next one first."""
        return list(self._waiting)

    @property
    def place(self) -> dict[str, Any] | None:
        """The turn that runs, for clients that know the host: its end is sent to all that were sent this."""
        begun, running = self.begun, self.running
        if begun is not None and (running is None or running.id != begun.prompt_id):  # its end is being committed
            return {"promptId": begun.prompt_id, "turn": begun.turn, "startedAt": milliseconds(begun.at)}
        if running is None:
            return None
        return {"promptId": running.id, "turn": self.turn_number, "startedAt": milliseconds(running.started_at)}

    # From the clients

    def knows(self, id: str) -> bool:
        """Whether a prompt with this id was accepted, as far as that is in memory."""
        return id in self.outcomes or id in self._ending or any(item.id == id for item in self._all())

    def submit(
        self,
        client: HostConnection,
        request: v1.PromptRequest,
        prompt_id: str | None,
        meta: Mapping[str, Any] | None,
        *,
        steers: bool = False,
        wants: Collection[str] = (),
    ) -> str:
        """Accept a prompt; gives its id.

        Args:
            client: Who sent it.
            request: As it was sent.
            prompt_id: Its id, if the client gave it one.
            meta: The `_meta` for the agent.
            steers: It is for the turn that runs, if the agent takes it; else it is the next one.
            wants: What the client asks for: afterwards `report`, `result` or `patch`, meanwhile `events`; made only
                then.

        Raises:
            RequestError: it cannot be accepted.
        """
        session = self._session
        id = prompt_id or f"prompt-{secrets.token_hex(8)}"
        if self.knows(id):
            self._meet_again(id, client, wants)
            return id
        if session.is_ending:
            raise RequestError.not_found("the session is being closed")
        if session.is_read_only:
            raise session_lost("its agent ended, and can neither resume nor load it")
        self._host.require_work("no prompt is taken")
        if self._host.store_error is not None:
            raise _no_store(self._host.store_error)
        if len(self._all()) > QUEUED:
            raise RequestError(-32603, f"the queue is full: {QUEUED} prompts wait", {"reason": "queue_full"})
        blocks, written = self._taken(request.prompt, client)
        if self._host.quotas is not None:  # counted in the step in which it is put into the queue
            self._host.quotas.admit_prompt(session, len(written))
        item = HostedPrompt(id, client.key, blocks, meta)
        item.size_bytes = len(written)
        item.who, item.identity, item.sent_at = client.who, client.identity, self._host.now()
        item.names_uploads = REFERENCE in written
        item.steers = steers
        item.want(wants)
        place = sum(waiting.steers for waiting in self._waiting) if steers else len(self._waiting)
        self._waiting.insert(place, item)
        body: dict[str, Any] = {"promptId": id, "by": client.key, "who": client.who}
        body["prompt"] = msgspec.Raw(written)
        if meta:
            body["meta"] = meta

        def accepted(number: int) -> None:
            item.number = number
            session.note_busy(number)
            self._go_on()
            if steers:
                _ = self._host.run(self.passed.pass_on(item))

        def already(number: int) -> None:
            self._refuse(item, _accepted_before(number))

        session.log.accept(id, NewEvent("prompt", msgspec.json.encode(body), 0), accepted, already)
        return id

    def _meet_again(self, id: str, client: HostConnection, wants: Collection[str]) -> None:
        """Let a prompt that an earlier host accepted belong to the client that sends it again."""
        for item in self._waiting:
            if item.id == id and not item.identity and item.who == client.who:
                item.by, item.identity = client.key, client.identity
                item.want(wants)

    def _taken(self, prompt: Sequence[v1.ContentBlock], client: HostConnection) -> tuple[Any, bytes]:
        """Return the blocks of a prompt as they are kept, and as JSON. Raises: RequestError if the agent takes none."""
        session = self._session
        blocks_for(prompt, session.record.agent, session.agent_can)
        written = encode(prompt)
        if REFERENCE not in written:
            return prompt, written
        blocks = self._host.uploads.claim(prompt, client.visitor.principal, session.id)
        return blocks, encode(blocks)

    def find_waiting(self, id: str, client: HostConnection) -> HostedPrompt:
        """Return a prompt that waits and that a client may change: its own, or any with the right `admin`.

        Raises:
            RequestError: its turn has begun, it does not wait, or it belongs to another client.
        """
        if self.running is not None and self.running.id == id:
            raise RequestError(-32603, "its turn has begun", {"reason": "running"})
        item = next((item for item in self._waiting if item.id == id), None)
        if item is None:
            raise RequestError.not_found("no prompt with this id waits")
        if item.identity != client.identity and not client.may("admin", self._session.id):
            raise RequestError(-32603, "this is the prompt of another client", {"reason": "forbidden"})
        return item

    def change(self, item: HostedPrompt, prompt: Sequence[v1.ContentBlock], client: HostConnection) -> None:
        """Put other content into a prompt that waits. It does not start before that is in the log.

        Raises:
            RequestError: the agent does not take it, the agent has it already, or it cannot be kept now.
        """
        if item.steers or not item.number:
            raise RequestError(-32603, "it is on its way to the agent", {"reason": "running"})
        if self._host.store_error is not None:
            raise _no_store(self._host.store_error)
        item.blocks, written = self._taken(prompt, client)
        item.names_uploads = REFERENCE in written
        item.is_changed_by_other = item.is_changed_by_other or item.by != client.key
        item.number = 0
        self.changing[item.id] = item
        body: dict[str, Any] = {"promptId": item.id, "by": item.by, "who": item.who, "prompt": msgspec.Raw(written)}
        if item.meta:
            body["meta"] = item.meta
        self._session.append("prompt", body, turn=0)

    def note_change(self, event: LogEvent) -> None:
        """Let a prompt that was changed have its turn, now that its content is committed."""
        item = self.changing.pop(str(msgspec.json.decode(event.body).get("promptId")), None)
        if item is not None:
            item.number = event.number
            self._go_on()

    def cancel(self, client: HostConnection) -> None:
        """Cancel for a client (`session/cancel`): its own turn, else its queued prompts, else the turn of another."""
        own = [item for item in self._waiting if item.by == client.key]
        if self.running is not None and self.running.by == client.key:
            self._cancel_turn(client)
        elif own:
            for item in own:
                self.cancel_prompt(item.id, client)
        else:
            self._cancel_turn(client)

    def cancel_all_of(self, client: HostConnection) -> None:
        """Cancel every prompt of a client."""
        for item in [item for item in self._all() if item.by == client.key]:
            self.cancel_prompt(item.id, client)

    def has_others(self, client: HostConnection) -> bool:
        """Whether a prompt of another client runs or waits."""
        return any(item.by != client.key for item in self._all())

    def cancel_prompt(self, id: str, client: HostConnection | None) -> None:
        """Cancel one prompt: it leaves the queue, or its turn is cancelled."""
        if self.running is not None and self.running.id == id:
            self._cancel_turn(client)
            return
        for item in list(self._waiting):
            if item.id == id:
                item.is_cancelled = True
                self._waiting.remove(item)
                self._ending.add(id)
                self._log_cancel(id, client)
                self._session.append("queue", {"promptId": id, **_CANCELLED}, turn=0)

    def is_waiting(self, item: HostedPrompt) -> bool:
        """Whether a prompt waits for its turn."""
        return item in self._waiting

    def end_taken(self, item: HostedPrompt) -> None:
        """Take a prompt from the queue that the agent took into the turn that runs: it never has a turn of its own."""
        if item in self._waiting:
            self._waiting.remove(item)
            self._ending.add(item.id)
            outcome = {"promptId": item.id, "result": {"stopReason": "end_turn"}, TAKEN: True}
            self._session.append("queue", outcome, turn=0)

    def reorder(self, ids: Sequence[str]) -> list[str]:
        """Put prompts that wait into this order, in the places that they have; gives the ids of all that wait.

        Ids of prompts that do not wait are passed over: a turn may have begun while the client decided.
        """
        waiting = {item.id: item for item in self._waiting}
        moved = iter([waiting[id] for id in ids if id in waiting])
        named = set(ids)
        self._waiting = deque([next(moved) if item.id in named else item for item in self._waiting])
        return [item.id for item in self._waiting]

    def _cancel_turn(self, client: HostConnection | None) -> None:
        item, run = self.running, self._session.agent.run
        if item is None:
            return
        if not item.is_cancelled:
            self._log_cancel(item.id, client)
            self._session.agent.commands.cancel()
        item.is_cancelled = True
        self._session.questions.close_all()
        if self._host.quotas is not None:
            self._host.quotas.places.give_up(self._session)
        if run is not None:
            _ = self._host.run(run.cancel(give_up_seconds=self._host.settings.cancel_seconds))

    def _log_cancel(self, id: str, client: HostConnection | None) -> None:
        by = {} if client is None else {"by": client.key, "who": client.who}
        self._session.append("cancel", {"promptId": id, **by})

    def await_outcome(self, id: str, waiting: asyncio.Future[dict[str, Any]]) -> None:
        """Keep the wait of a client that is not attached any more for the outcome of its prompt."""
        if id in self.outcomes and not waiting.done():
            waiting.set_result(self.outcomes[id])
        elif self._session.is_closed:
            waiting.cancel()
        else:
            self._awaited[id] = waiting

    def take_awaited(self, id: str) -> asyncio.Future[dict[str, Any]] | None:
        """Return what a client that is attached again waits for; None if it waits for nothing."""
        return self._awaited.pop(id, None)

    # From the log

    def note(self, event: LogEvent) -> None:
        """Note that a turn began; keep the outcome of a prompt, and pass it to a client that waits for it."""
        found: dict[str, Any] = {**msgspec.json.decode(event.body), "seq": event.number, "at": int(event.at * 1000)}
        if event.kind == "start":
            self.begun = BegunTurn(str(found.get("promptId")), event.turn, event.number, event.at)
            return
        if event.kind == "end":
            self.begun = None
        self.outcomes[str(found.get("promptId"))] = found
        self._ending.discard(str(found.get("promptId")))
        while len(self.outcomes) > OUTCOMES:
            self.outcomes.popitem(last=False)
        waiting = self._awaited.pop(str(found.get("promptId")), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(found)

    def restore(self, left: LeftOpen, *, has_kept: bool = False) -> None:
        """Take over what an earlier host wrote.

        Args:
            left: What has a beginning and no end in the log; prompts that are run here are taken out.
            has_kept: Whether the prompts that waited were kept for this host.
        """
        self.turn_number = max(self.turn_number, left.turn)
        if has_kept:
            self._waiting.extend(map(logged_prompt, left.queued.values()))
            left.queued.clear()
        self._ending.update(left.queued, [] if left.running is None else [left.running])
        for outcome in left.outcomes:
            self.outcomes[str(outcome.get("promptId"))] = outcome

    def store_failed(self, error: StoreError) -> None:
        """Refuse what was not committed and cancel the turn that runs, because the log cannot be written."""
        for item in list(self._waiting):
            if not item.number:
                outcome = self._refuse(item, _no_store(error))
                self._session.append("queue", outcome, turn=0)
        self._cancel_turn(None)

    def _refuse(self, item: HostedPrompt, error: RequestError) -> dict[str, Any]:
        """Refuse a prompt that is not in the log, so that its outcome cannot wait for the log either."""
        item.is_cancelled = True
        if item in self._waiting:
            self._waiting.remove(item)
        outcome = {"promptId": item.id, **error_outcome(error)}
        for attachment in self._session.attachments:
            attachment.refuse(item.id, outcome)
        waiting = self._awaited.pop(item.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)
        return outcome

    # Running

    def _all(self) -> list[HostedPrompt]:
        return [*([self.running] if self.running is not None else []), *self._waiting]

    def go_on(self) -> None:
        """Run what waits here, and not in a host after this one."""
        if self._waiting:
            self._go_on()

    def keep(self) -> None:
        """Leave the prompts that wait to the host after this one."""
        if self._waiting and self._host.on_kept is not None:
            self._host.on_kept(self._session)

    def _go_on(self) -> None:
        if self._host.on_kept is not None:
            self.keep()
        elif self._runner is None or self._runner.done():
            self._runner = self._host.run(self._run_all())

    async def _run_all(self) -> None:
        session = self._session
        while self._waiting and self._waiting[0].number and not session.is_closed and self._host.on_kept is None:
            item = self.running = self._waiting.popleft()
            refused = self._refused_now()
            if refused is not None:
                self.running = None
                self._ending.add(item.id)
                session.append("queue", {"promptId": item.id, **error_outcome(refused)}, turn=0)
                continue
            try:
                outcome = await self._run(item)
            except RequestError as error:
                has_waited = isinstance(error.data, dict) and error.data.get("reason") == WAITED
                is_cancelled = item.is_cancelled and has_waited  # before there was an agent for it
                outcome = _CANCELLED if is_cancelled else session.agent.mask(error_outcome(error))
            finally:
                session.agent.end_turn()
                self.passed.end_turn()
            session.questions.close_all()  # also those of an agent that was started and got no prompt
            self.running = None
            self._ending.add(item.id)
            session.turn_ended(item.id, outcome)
            await session.settle()

    def _refused_now(self) -> RequestError | None:
        """Return why no turn begins although its prompt was accepted: what ran before it may have used up a limit."""
        try:
            if self._host.quotas is not None:
                self._host.quotas.require_spending(self._session.record.principal)
        except RequestError as error:
            return error
        return None

    async def _run(self, item: HostedPrompt) -> dict[str, Any]:
        session = self._session
        self.turn_number += 1
        item.started_at = self._host.now()
        by = "" if item.is_changed_by_other else item.by  # its sender is sent it like all others
        started = {"promptId": item.id, "messageId": f"msg-{item.id}", "by": by, "prompt": item.number}
        session.append("start", started)
        if note_prompt(session.facts, item.blocks):
            session.describe()
        end = await session.agent.prompt(item)
        if not end.was_sent and isinstance(end.error, ConnectionClosed) and not item.is_cancelled:
            end = await session.agent.prompt(
                item
            )  # its process died before it got the prompt; once, because this may go on
        if end.response is not None:
            return {"result": msgspec.json.decode(encode(end.response))}
        if end.error is None:
            return _CANCELLED  # and the agent has not reacted, or has not got the prompt
        if isinstance(end.error, RequestError):
            raise end.error
        if not isinstance(end.error, ConnectionClosed):  # it does not fit the session
            raise RequestError(-32602, str(end.error))
        if session.is_ending:
            return _CANCELLED
        unfinished = session.agent.open_calls.titles()
        for update in session.agent.open_calls.failed():
            session.append("update", update)
        data = {"reason": "agent_exited", **end_members(end.error), "maybeExecuted": end.was_sent}
        if unfinished:
            data["unfinished"] = unfinished
        raise RequestError(-32603, f"the agent ended in the middle of the turn: {end.error}", data)

    async def close(self, *, keeps: bool = False) -> None:
        """Cancel the turn that runs and answer what waits; returns when the turn is over, or the agent takes long.

        Args:
            keeps: Whether what waits is left to the host after this one.
        """
        for item in () if keeps else list(self._waiting):
            self.cancel_prompt(item.id, None)
        self._cancel_turn(None)
        await self.finish(_CLOSE_SECONDS)

    async def finish(self, seconds: float) -> None:
        """Wait for the turn that runs."""
        if self._runner is not None:
            await asyncio.wait([self._runner], timeout=seconds)


def _accepted_before(number: int) -> RequestError:
    data = {"reason": "outcome_expired", "seq": number}
    return RequestError(-32603, "this prompt was accepted before, and its outcome is no longer kept", data)


def _no_store(error: StoreError) -> RequestError:
    return RequestError(-32603, f"no prompt is taken now: {error}", {"reason": "store"})
