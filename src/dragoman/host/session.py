"""A hosted session: its log, its queue of prompts, its open questions, its agent, and the clients on it.

Theory of operation
-------------------
Whatever happens is an event. It is appended to the log, and only when it is committed, `_publish` moves the cursors of
the attached clients over it. So all clients see one order, and what one of them saw survives the death of the host.

*Prompts.* One runs at a time, the others wait in `_queue`; `_run_queue` is the one task that runs them. A prompt has an
id; a second one with the same id is the same prompt and gets its outcome, it never runs again. The outcome is the
`end` event of its turn. A client that sent the prompt gets its answer when its cursor passes that event.

*The agent* is started when the first prompt needs it, and again after it died; an agent that can neither resume nor
load leaves a session that can only be read. What an agent replays when it comes back is dropped: the log has it.

*Questions* wait until a client makes a choice, or the turn ends.

*The end of a host* cannot be logged when it is killed. `restore` closes what it left open: turns are interrupted,
questions cancelled, queued prompts dropped. Nothing is run again by itself.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict, deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import ConnectionClosed, DragomanError, RequestError
from dragoman.host.agents import RunningAgent
from dragoman.host.client_kind import variant_of
from dragoman.host.facts import failed_calls, note_fact, note_state
from dragoman.host.frames import store_update
from dragoman.host.prompts import HostedPrompt, as_request_error, error_outcome, session_lost
from dragoman.host.questions import HostedQuestion, cancelled_answer
from dragoman.host.restore import OUTCOMES, endings, left_open, outcomes_of
from dragoman.schema import encode, v1
from dragoman.store.event_log import NewEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.host.attachment import Attachment
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.questions import Method
    from dragoman.store.event_log import EventKind, LogEvent, SessionRecord

_log = logging.getLogger("dragoman.host")

QUEUED: Final = 16
_CANCEL_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 2.0
_RESTORED_EVENTS: Final = 2000
_REPLAYED: Final = frozenset(
    ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan")
)


class HostedSession:
    """One live session."""

    def __init__(self, host: Host, record: SessionRecord) -> None:
        self.id = record.id
        self.record = record
        self.log = host.log
        self.head = record.head
        self.questions: dict[str, HostedQuestion] = {}
        self.attachments: set[Attachment] = set()
        self.env: Mapping[str, str] | None = None
        self.servers: Sequence[v1.McpServer] = ()
        self.directories: Sequence[str] = ()
        self.facts: dict[str, Any] = msgspec.json.decode(record.facts)
        self.is_read_only = False
        self.is_closed = False
        self.last_used = monotonic()
        self._host = host
        self._agent: RunningAgent | None = None
        self._agent_session = record.agent_session
        self._queue: deque[HostedPrompt] = deque()
        self._running: HostedPrompt | None = None
        self._outcomes: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._turn = int(self.facts.get("turns", 0))
        self._runner: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._dropping_until = 0.0
        self._is_replaying = False
        self._early: list[tuple[bytes, bytes | None]] | None = None
        self._cancelling: asyncio.TimerHandle | None = None

    # State

    @property
    def state(self) -> str:
        """`idle`, `running`, `waiting` or `readOnly`, for `session/list`."""
        if any(question.is_open for question in self.questions.values()):
            return "waiting"
        if self._running is not None or self._queue:
            return "running"
        return "readOnly" if self.is_read_only else "idle"

    @property
    def is_busy(self) -> bool:
        return self._running is not None or bool(self._queue) or bool(self.questions)

    @property
    def has_agent(self) -> bool:
        return self._agent is not None and self._agent.is_open

    @property
    def can_come_back(self) -> bool:
        """Whether the agent could be started again with this session."""
        agent = self._agent
        return agent is not None and (agent.can("session_capabilities", "resume") or agent.can("load_session"))

    @property
    def turn(self) -> dict[str, Any] | None:
        """The turn that runs, for clients that know the host."""
        running = self._running
        return None if running is None else {"promptId": running.id, "turn": self._turn}

    @property
    def outcomes(self) -> dict[str, dict[str, Any]]:
        """What became of the last prompts, by their ids."""
        return dict(self._outcomes)

    def answer_members(self) -> dict[str, Any]:
        """Modes and options, for the answers to `session/new`, `load` and `resume`."""
        return {name: self.facts[name] for name in ("modes", "configOptions") if self.facts.get(name) is not None}

    # Clients

    def attach(self, attachment: Attachment) -> None:
        """Send to a client from its cursor on, open questions included."""
        self.last_used = monotonic()
        self.attachments.add(attachment)
        attachment.pump()
        for question in list(self.questions.values()):
            question.show(attachment.client)

    def detach(self, attachment: Attachment) -> None:
        """A client is gone. What it started goes on."""
        self.last_used = monotonic()
        self.attachments.discard(attachment)
        attachment.detach()
        if not any(each.client is attachment.client for each in self.attachments):
            for question in list(self.questions.values()):
                question.left(attachment.client)

    # Events

    def append(self, kind: EventKind, body: object, *, turn: int | None = None) -> None:
        """Log an event; clients see it when it is committed."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.log.append(self.id, [NewEvent(kind, data, self._turn if turn is None else turn)], self._publish)

    def _publish(self, events: list[LogEvent]) -> None:
        self.head = events[-1].number
        for event in events:
            if event.kind in ("end", "queue"):
                self._remember(event)
            elif event.kind == "answer":
                self._answered(event)
        for attachment in list(self.attachments):
            attachment.pump(events)

    def _remember(self, event: LogEvent) -> None:
        found: dict[str, Any] = {**msgspec.json.decode(event.body), "seq": event.number}
        self._outcomes[str(found.get("promptId"))] = found
        if len(self._outcomes) > OUTCOMES:
            self._outcomes.popitem(last=False)

    def keep_facts(self) -> None:
        """Write down what answers need after a restart."""
        self.facts["turns"] = self._turn
        self.log.describe(self.id, agent_session=self._agent_session, facts=msgspec.json.encode(self.facts))

    # The agent

    async def open(self, meta: Mapping[str, Any] | None) -> None:
        """Start the agent and a new session of it. What it sends before its answer is kept for after ours."""
        self._early = []
        agent = await self._start_agent()
        try:
            await agent.new(self.record.cwd, self.servers, self.directories, meta)
        except BaseException:
            await agent.close()
            raise
        self._adopt(agent)

    def release_early(self) -> None:
        """The session has its record in the log: what came before is logged now."""
        early, self._early = self._early or [], None
        for update, meta in early:
            self._on_update(self._agent_session or "", update, meta)

    async def _start_agent(self) -> RunningAgent:
        source = self._host.source(self.record.agent)
        return await RunningAgent.start(
            source, self.record.cwd, self.env, self._on_update, self._host.services.options(self)
        )

    def _adopt(self, agent: RunningAgent) -> None:
        self._agent = agent
        self._agent_session = agent.session.id
        note_state(self.facts, agent.session.state)
        agent.when_ended(self._agent_ended)

    async def _ensure_agent(self) -> RunningAgent:
        async with self._starting:
            agent = self._agent
            if agent is not None and agent.is_open:
                return agent
            if self._agent_session is None:
                raise session_lost("the agent never had this session")
            agent = await self._start_agent()
            try:
                self._is_replaying = True
                came_back = await agent.come_back(self._agent_session, self.record.cwd, self.servers)
            except BaseException:
                await agent.close()
                raise
            finally:
                self._is_replaying = False
                self._dropping_until = monotonic() + _QUIET_SECONDS
            if not came_back:
                await agent.close()
                self.is_read_only = True
                raise session_lost("its process ended, and it can neither resume nor load a session")
            self._adopt(agent)
            self.append("agent", {"started": True})
            self.append("notice", {"text": "The agent was started again."})
            return agent

    def _agent_ended(self, reason: ConnectionClosed | None) -> None:
        """The agent died; one that was idle is started again by the next prompt."""
        if self.is_closed:
            return
        self.append("agent", {"ended": str(reason)})
        self.is_read_only = not self.can_come_back
        agent, self._agent = self._agent, None
        if agent is not None:
            _ = self._host.run(agent.close())

    def _on_update(self, agent_session: str, update: bytes, meta: bytes | None) -> None:
        """An update of the agent, as it came."""
        if self._early is not None:
            self._early.append((update, meta))
            return
        variant = variant_of(update)
        if variant in _REPLAYED and (self._is_replaying or monotonic() < self._dropping_until):
            return
        if variant == "user_message_chunk" and self._running is not None:
            return  # it repeats the prompt that runs
        if note_fact(self.facts, variant, update):
            self.keep_facts()
        self.append("update", store_update(update, meta))

    # Prompts

    def submit(self, client: HostConnection, request: v1.PromptRequest, prompt_id: str | None) -> str:
        """Accept a prompt; gives its id.

        Raises:
            RequestError: it cannot be accepted.
        """
        if self.is_closed:
            raise RequestError.not_found("the session was closed")
        id = prompt_id or f"prompt-{secrets.token_hex(8)}"
        if id in self._outcomes or any(each.id == id for each in self._all_prompts()):
            return id
        if self.is_read_only:
            raise session_lost("the session can only be read; open a new one, and paste what it should know")
        if self._host.store_error is not None:
            raise RequestError(-32603, f"no prompt is taken now: {self._host.store_error}", {"reason": "store"})
        if len(self._queue) >= QUEUED:
            raise RequestError(-32603, f"the queue is full: {QUEUED} prompts wait", {"reason": "queue_full"})
        self.last_used = monotonic()
        item = HostedPrompt(id, client.key, request.prompt, 0)
        self._queue.append(item)

        def logged(events: list[LogEvent]) -> None:
            item.number = events[-1].number
            self._publish(events)
            self._go_on()

        body = {"promptId": id, "by": client.key, "prompt": msgspec.Raw(encode(request.prompt))}
        self.log.append(self.id, [NewEvent("prompt", msgspec.json.encode(body), 0)], logged)
        return id

    def _all_prompts(self) -> list[HostedPrompt]:
        return [*([self._running] if self._running is not None else []), *self._queue]

    def _go_on(self) -> None:
        if self._runner is None or self._runner.done():
            self._runner = self._host.run(self._run_queue())

    async def _run_queue(self) -> None:
        while self._queue and self._queue[0].number and not self.is_closed:
            item = self._queue.popleft()
            if item.is_cancelled:
                continue
            self._running = item
            try:
                outcome = await self._run(item)
            except RequestError as error:
                outcome = error_outcome(error)
            finally:
                self._end_cancelling()
            self._close_questions()
            self._running = None
            self.append("end", {"promptId": item.id, **outcome})
            self.keep_facts()
            await self.log.settle()

    async def _run(self, item: HostedPrompt) -> dict[str, Any]:
        self._turn += 1
        started = {"promptId": item.id, "messageId": f"msg-{item.id}", "by": item.by, "prompt": item.number}
        self.append("start", started)
        try:
            agent = await self._ensure_agent()
        except RequestError:
            raise
        except DragomanError as error:
            raise RequestError(-32603, f"the agent could not be started: {error}", {"reason": "agent_start"}) from None
        if item.is_cancelled:
            return {"result": {"stopReason": "cancelled"}}
        self._dropping_until = 0.0
        try:
            turn = agent.session.prompt(list(item.blocks))
            async for _ in turn:
                pass
            return {"result": msgspec.json.decode(encode(turn.result))}
        except RequestError:
            raise
        except ConnectionClosed as error:
            for update in failed_calls(agent.session.state):
                self.append("update", update)
            code = getattr(error, "returncode", None)
            data = {"reason": "agent_exited", "exitCode": code, "maybeExecuted": True}
            raise RequestError(-32603, f"the agent ended in the middle of the turn: {error}", data) from None
        except DragomanError as error:  # a block it does not take
            raise RequestError(-32602, str(error)) from None

    def cancel(self, client: HostConnection) -> None:
        """`session/cancel` of a client: its own turn, else its queued prompts, else the turn of another."""
        own = [item for item in self._queue if item.by == client.key]
        if self._running is not None and self._running.by == client.key:
            self._cancel_turn(client.key)
        elif own:
            for item in own:
                self.cancel_prompt(item.id)
        elif self._running is not None:
            self._cancel_turn(client.key)

    def cancel_prompt(self, id: str) -> None:
        """One prompt: it leaves the queue, or its turn is cancelled."""
        if self._running is not None and self._running.id == id:
            self._cancel_turn("")
            return
        for item in list(self._queue):
            if item.id == id:
                item.is_cancelled = True
                self._queue.remove(item)
                self.append("queue", {"promptId": id, "result": {"stopReason": "cancelled"}}, turn=0)

    def _cancel_turn(self, by: str) -> None:
        item, agent = self._running, self._agent
        if item is None:
            return
        item.is_cancelled = True
        self._close_questions()
        if agent is not None and self._cancelling is None:
            _ = self._host.run(agent.session.cancel())
            loop = asyncio.get_running_loop()
            self._cancelling = loop.call_later(_CANCEL_SECONDS, self._does_not_react)

    def _does_not_react(self) -> None:
        """The agent ignores a cancel: it is ended, which ends the turn, so that two prompts never meet in it."""
        if self._agent is not None:
            self.append("notice", {"text": "The agent did not react to a cancel and was ended."})
            _ = self._host.run(self._agent.close())

    def _end_cancelling(self) -> None:
        if self._cancelling is not None:
            self._cancelling.cancel()
            self._cancelling = None

    # Settings

    async def set_mode(self, client: HostConnection, mode_id: str) -> None:
        """Switch the mode; the other clients get an update, which agents send none of."""
        agent = await self._ensure_agent()
        try:
            await agent.session.set_mode(mode_id)
        except DragomanError as error:
            raise as_request_error(error) from None
        if isinstance(self.facts.get("modes"), dict):
            self.facts["modes"]["currentModeId"] = mode_id
        self._changed(client, [{"sessionUpdate": "current_mode_update", "currentModeId": mode_id}])

    async def set_option(self, client: HostConnection, option_id: str, value: str | bool) -> list[Any]:
        """Change an option; gives the complete list."""
        agent = await self._ensure_agent()
        try:
            await agent.session.set_config_option(option_id, value)
        except DragomanError as error:
            raise as_request_error(error) from None
        options: list[Any] = msgspec.json.decode(encode(list(agent.session.state.config_options)))
        self.facts["configOptions"] = options
        self._changed(client, [{"sessionUpdate": "config_option_update", "configOptions": options}])
        return options

    def _changed(self, client: HostConnection, updates: list[dict[str, Any]]) -> None:
        self.append("setting", {"by": client.key, "updates": updates})
        self.keep_facts()

    # Questions

    async def ask(self, method: Method, params: dict[str, Any]) -> dict[str, Any]:
        """Ask every attached client that can show it; the answer for the agent."""
        if not self._can_be_shown(method, params):
            self.append("notice", {"text": "A form was not shown: no attached client can show it."})
            return cancelled_answer(method)
        id = f"q-{secrets.token_hex(8)}"
        question = HostedQuestion(id, self.id, method, params, self._turn, self._chosen, self._given_up)
        self.questions[id] = question
        self.append("question", {"questionId": id, "method": method, "params": params})
        try:
            return await question.answer
        finally:
            question.decide()
            self.questions.pop(id, None)

    def _can_be_shown(self, method: Method, params: dict[str, Any]) -> bool:
        """A permission waits for a client; a form that none of the attached ones can show would hang the turn."""
        clients = [each.client for each in self.attachments]
        return (
            method == "session/request_permission"
            or not clients
            or any(client.can_answer(method, params) for client in clients)
        )

    def _chosen(self, question: HostedQuestion, answer: dict[str, Any], by: str) -> None:
        self.append("answer", {"questionId": question.id, "answer": answer, "by": by}, turn=question.turn)

    def _given_up(self, question: HostedQuestion) -> None:
        question.decide()
        self._chosen(question, cancelled_answer(question.method), "")

    def _answered(self, event: LogEvent) -> None:
        """An answer is committed: now the agent gets it."""
        found: dict[str, Any] = msgspec.json.decode(event.body)
        question = self.questions.get(str(found.get("questionId")))
        if question is not None and not question.answer.done():
            question.answer.set_result(found["answer"])

    def _close_questions(self) -> None:
        for question in list(self.questions.values()):
            if question.is_open:
                question.decide()
                self._chosen(question, cancelled_answer(question.method), "")

    # The end

    async def end_agent(self) -> None:
        """End the agent of an idle session; the next prompt starts it again."""
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.close()

    async def close(self, why: str) -> None:
        """Cancel what runs, answer what waits, end the agent."""
        if self.is_closed:
            return
        for item in list(self._queue):
            self.cancel_prompt(item.id)
        self._cancel_turn("")
        self.append("notice", {"text": why}, turn=0)
        await self.log.settle()
        self.is_closed = True
        await self.end_agent()
        if self._runner is not None:
            await asyncio.wait([self._runner], timeout=_CANCEL_SECONDS)
        await self.log.settle()
        for attachment in list(self.attachments):
            self.detach(attachment)

    def restore(self) -> None:
        """Close what a host that was killed left open."""
        left = left_open(self.log.read(self.id, max(0, self.head - _RESTORED_EVENTS), _RESTORED_EVENTS))
        self._turn = max(self._turn, left.turn)
        events = endings(left)
        for outcome in (*left.outcomes, *outcomes_of(events, self.head)):
            self._outcomes[str(outcome.get("promptId"))] = outcome
        if events:
            self.log.append(self.id, events, self._publish)
