"""A hosted session: its log, its prompts, its open questions, its agent, and the clients on it.

Theory of operation
-------------------
Whatever happens is an event. It is appended to the log (`session_log.py`), and only when it is committed, `_publish`
moves the cursors of the attached clients over it. So all clients see one order, and what one of them saw survives the
death of the host.

The parts: `prompt_queue.py` runs one prompt at a time; its outcome is the `end` event of its turn, and the client that
sent it gets its answer when its cursor passes that event. `session_agent.py` has the agent's process. `asking.py` has
the questions, which wait until a client makes a choice, or the turn ends. `SharedSettings` sets mode and options.

*The end of a host* cannot be logged when it is killed. `restore` closes what it left open: turns are interrupted,
questions cancelled, queued prompts dropped. Nothing is run again by itself.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from dragoman.errors import DragomanError, RequestError
from dragoman.host.history.facts import ARCHIVED, CLOSED, in_step, kept_state, note_outcome, session_keys
from dragoman.host.history.frames import find_last_line, stored_update
from dragoman.host.history.restore import LeftOpen, endings
from dragoman.host.history.terminal_items import ShownTerminals
from dragoman.host.session_log import SessionLog, TextPace
from dragoman.host.working.asking import SessionQuestions
from dragoman.host.working.prompt_queue import PromptQueue
from dragoman.host.working.prompts import as_request_error
from dragoman.host.working.session_agent import SessionAgent
from dragoman.schema import encode
from dragoman.store.event_log import MOVING, NewEvent

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from dragoman.host.clients.attachment import Attachment
    from dragoman.host.clients.request_scope import RequestScope
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.working.delegation import Delegate
    from dragoman.host.working.served_terminals import ServedTerminals
    from dragoman.policy.decide import Decision
    from dragoman.schema import v1
    from dragoman.store.event_log import EventKind, LogEvent, SessionRecord

T = TypeVar("T")
_RESTORED_EVENTS: Final = 2000
_PAGE: Final = 1000
_AWAITED_SECONDS: Final = 30.0  # half of what a client may be behind before it is cut off
_TOOLS: Final = frozenset(("tool_call", "tool_call_update"))


class HostedSession:
    """One live session."""

    def __init__(self, host: Host, record: SessionRecord) -> None:
        self.id = record.id
        self.record = record
        self.log = SessionLog(host.log, record, self._publish, self.described)
        self.describe = self.log.describe
        """Write down what answers need after a restart, soon and behind the events that led to it."""
        self.attachments: set[Attachment] = set()
        self.env: Mapping[str, str] | None = None
        """Of the client that last opened it or sent a prompt, for the next start of the agent; in memory only."""
        self.servers: Sequence[v1.McpServer] = ()
        self.facts: dict[str, Any] = msgspec.json.decode(record.facts)
        self.directories: Sequence[str] = self.facts.get("directories") or ()
        self.agent_session = record.agent_session
        """The id that the agent gave to it."""
        self.is_read_only = record.head > 0 and self.facts.get("canComeBack") is False
        self.is_closed = False
        self.is_ending = False
        self.is_deleted = False
        self.last_used = monotonic()
        self.delegate: Delegate | None = None
        self.opened_for: RequestScope | None = None
        """The request that opened it: its client is asked what belongs to that request."""
        self.terminals: ServedTerminals | None = None
        self.shown = ShownTerminals()
        self.prompts = PromptQueue(self, host)
        self.questions = SessionQuestions(self)
        self.agent = SessionAgent(self, host)
        self.settings = SharedSettings(self)
        self.uploads = host.uploads
        self._paces: dict[int, TextPace] = {}
        self._host = host
        if host.quotas is not None:
            self.log.meter = host.quotas.meter(record.principal)
            self.log.filled = partial(host.quotas.note_full, self)
        self.listed = host.list_changes
        self._title = self.facts.get("title")
        self._moved_at = 0.0

    # State

    @property
    def head(self) -> int:
        """The number of the last event that is committed."""
        return self.log.head

    @property
    def state(self) -> str:
        """`idle`, `running`, `waiting`, `stuck`, `lost`, `readOnly` or `closed`, for `session/list`."""
        if any(True for _ in self.questions):
            return "waiting"
        if self.prompts.is_busy:
            return "running"
        if self.is_read_only:
            return "readOnly"
        if self.agent.is_stuck:
            return "stuck"
        return "lost" if self.agent.is_lost else kept_state(self.facts)

    @property
    def is_busy(self) -> bool:
        return self.prompts.is_busy or bool(self.questions)

    @property
    def is_working(self) -> bool:
        """Whether a turn runs or a question is open; prompts that wait do not count."""
        return self.prompts.running is not None or bool(self.questions)

    @property
    def is_in_use(self) -> bool:
        """Whether it works, asks, has prompts that wait, or a client is on it."""
        return self.is_busy or bool(self.attachments) or self.prompts.waiting_count > 0

    @property
    def is_awaited(self) -> bool:
        """Whether a client has still to get updates, or the report of its turn; not one that is too slow."""
        is_recent = monotonic() - self.last_used < _AWAITED_SECONDS
        is_behind = any(attachment.cursor < self.head for attachment in self.attachments)
        clients = {attachment.client.key for attachment in self.attachments}
        return is_recent and (is_behind or self.agent.reports.are_awaited_by(clients))

    @property
    def has_agent(self) -> bool:
        return self.agent.is_running

    @property
    def kept_seconds(self) -> int | None:
        """For how long after a prompt it goes on, if its agent cannot bring it back; None if it can."""
        return self._host.kept_seconds(self)

    @property
    def turn(self) -> dict[str, Any] | None:
        """The turn that runs: `promptId` and `turn`, its number."""
        return self.prompts.place

    def cancel_prompt(self, id: str) -> None:
        """End one prompt, of any client."""
        self.prompts.cancel_prompt(id, None)

    def agent_can(self, gate: str) -> bool:
        """Whether the agent has a capability; one that was never seen may have it."""
        if self.agent.run is not None:
            return self.agent.run.can(gate)
        described = self._host.description_of(self.record.agent)
        return described is None or described.can(gate)

    def answer_members(self) -> dict[str, Any]:
        """Return modes and options, for the answers to `session/new`, `load` and `resume`."""
        return {name: self.facts[name] for name in ("modes", "configOptions") if self.facts.get(name) is not None}

    def child_id(self, agent_id: str) -> str:
        """Return the id under which clients know the session of a subagent."""
        children: dict[str, str] = self.facts.setdefault("children", {})
        if agent_id not in children:
            children[agent_id] = f"{self.id}-{secrets.token_hex(4)}"
            self.describe()
        return children[agent_id]

    def knows_child(self, agent_id: str) -> bool:
        """Whether it is the session of a subagent that was seen."""
        return agent_id in (self.facts.get("children") or {})

    # Clients

    def attach(self, attachment: Attachment) -> None:
        """Send to a client from its cursor on, open questions included."""
        self.last_used = monotonic()
        self.attachments.add(attachment)
        self.listed.note(self)
        if self.delegate is not None:
            self.delegate.came(attachment.client)
        attachment.begin()
        # Only from here on does text wait for more: what there is stands before the questions that are open.
        if ms := attachment.client.kind.batch_ms:
            self.log.is_joined = True
            attachment.pace = self._paces.get(ms) or self._paces.setdefault(ms, TextPace(self.log, ms))
        self.questions.show_to(attachment)

    def is_used_besides(self, client: HostConnection) -> bool:
        """Whether another client is attached, or has a prompt here."""
        is_watched = any(attachment.client is not client for attachment in self.attachments)
        return is_watched or self.prompts.has_others(client)

    def detach(self, attachment: Attachment) -> None:
        """Detach a client that is gone. What it started goes on."""
        self.last_used = monotonic()
        self.attachments.discard(attachment)
        self.listed.note(self)
        attachment.detach()
        self.questions.left(attachment.client)
        if self.delegate is not None:
            self.delegate.left(attachment.client)

    @property
    def now_listed(self) -> SessionRecord:
        """Its record with its place in lists, as the log has it."""
        record = self.log.record
        return record._replace(updated_at=max(record.updated_at, self._moved_at))

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._host.now()

    def watching_clients(self) -> list[HostConnection]:
        """Return the clients that get its questions with the list of sessions, attached or not."""
        return self._host.list_changes.clients_of(self.record.principal)

    def clients_with_row(self) -> list[HostConnection]:
        """Return the clients that have it in a list which they watch, and are not attached."""
        attached = {attachment.client.key for attachment in self.attachments}
        shown = self.listed.clients_shown(self.record.principal, self.id)
        return [client for client in shown if client.key not in attached]

    # Events

    def append(self, kind: EventKind, body: object, *, turn: int | None = None) -> None:
        """Log an event; clients see it when it is committed."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.log.append(NewEvent(kind, data, self.prompts.turn_number if turn is None else turn))

    def notice(self, text: str, kind: str | None = None) -> None:
        """Log a sentence about the session for its clients; those that know the host get its kind too."""
        self.append("notice", {"text": text} if kind is None else {"text": text, "kind": kind})

    def note_decision(self, decision: Decision) -> None:
        """Log what a rule decided, without a client; answers of clients are logged with their questions."""
        if decision.rule is not None:
            body: dict[str, Any] = {"action": decision.action, "title": decision.title, "rule": decision.rule}
            body["toolCallId"] = decision.tool_call_id
            answer = {"questionId": None, "by": "", "who": "rule", "option": decision.option_id, "decision": body}
            self.append("answer", answer)

    def _publish(self, events: list[LogEvent]) -> None:
        """Let everything that waits for these events go on, now that they are committed."""
        for event in events:
            if event.kind in MOVING:
                self._moved_at = event.at
            if event.kind == "update":
                if b'"terminal' in event.body:
                    self._note_terminals(event)
            elif event.kind == "terminal":
                self.shown.note_event(event.body)
            elif event.kind in ("start", "end", "queue"):
                self.prompts.note(event)
            elif event.kind == "prompt" and self.prompts.changing:
                self.prompts.note_change(event)
            elif event.kind in ("question", "answer"):
                self.questions.note(event)
            if event.kind == "end":
                self._note_last_line()
        for attachment in list(self.attachments):
            attachment.pump()
        if self.listed.is_used:
            self.listed.note(self)

    def _note_last_line(self) -> None:
        """Keep the last line of a turn that has ended, for lists that are shown without the session."""
        line = self.last_line
        if line and self.facts.get("lastLine") != line:
            self.facts["lastLine"] = line
            self.describe()

    @property
    def last_line(self) -> str:
        """The last line that the agent wrote, or the title of its last tool call; from what is in memory of the log."""
        return find_last_line(self.log.tail_events) or str(self.facts.get("lastLine") or "")

    def _note_terminals(self, event: LogEvent) -> None:
        stored = stored_update(event.body)
        if stored.variant in _TOOLS:
            self.shown.note_update(msgspec.json.decode(stored.update))

    def described(self, record: SessionRecord) -> SessionRecord:
        """Return the record, with what answers need after a restart."""
        if self.listed.is_used:
            self.listed.note(self)
        self.facts["turns"] = self.prompts.turn_number
        moved_at = record.updated_at
        if self.facts.get("title") != self._title:  # a new title moves a session up in lists, other facts do not
            self._title, moved_at = self.facts.get("title"), self._host.now()
        return record._replace(
            agent_session=self.agent_session,
            facts=msgspec.json.encode(self.facts),
            updated_at=max(record.updated_at, moved_at),
            keys=session_keys(self.facts),
        )

    # Turns

    def note_busy(self, number: int) -> None:
        """Note that a prompt was accepted: a host after this one looks from here on for what was left open."""
        if not self.facts.get("busyFrom"):
            self.facts["busyFrom"] = number
            self.describe()
        if self.facts.pop(ARCHIVED, None) is not None:  # what works and may ask is in sight
            self.describe()
        self.last_used = monotonic()

    def turn_ended(self, prompt_id: str, outcome: dict[str, Any]) -> None:
        self.last_used = monotonic()
        self.append("end", {"promptId": prompt_id, **outcome})
        self.agent.note_outcome(outcome)
        note_outcome(self.facts, outcome)
        if not self.prompts.is_busy:
            self.facts.pop("busyFrom", None)
        self.describe()
        if self._host.quotas is not None:
            self._host.quotas.turn_ended()

    async def release_terminals(self) -> None:
        if self.terminals is not None:
            await self.terminals.release_all()

    async def settle(self) -> None:
        """Return when everything is in the log, or when the log cannot be written."""
        if self._host.store_error is None:
            await self.log.settle()

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work of this session that no client waits for."""
        return self._host.run(work)

    # The end

    async def close(self, why: str, kind: str | None = None) -> None:
        """Cancel what runs, answer what waits, end the agent."""
        if self.is_ending:
            return
        self.is_ending = True
        await self.prompts.close(keeps=self._host.on_kept is not None and not self.facts.get(CLOSED))
        self.append("notice", {"text": why} if kind is None else {"text": why, "kind": kind}, turn=0)
        await self.settle()
        self.is_closed = True
        await self.agent.end()
        await self.prompts.finish(seconds=1.0)
        for attachment in list(self.attachments):
            self.detach(attachment)
        if self._host.store_error is None:
            await self.log.release()

    async def abandon(self, why: str) -> None:
        """End the agent and show nothing more: another owner has the session. Clients may come back elsewhere."""
        self.is_ending = self.is_closed = True
        for attachment in list(self.attachments):
            attachment.client.cut_off(why)
            self.detach(attachment)
        await self.agent.end()
        await self.prompts.close()

    async def restore(self) -> None:
        """Close what a host that was killed left open."""
        from_start = int(self.facts.get("busyFrom") or self.head)
        cursor = max(0, min(from_start - 1, self.head - _RESTORED_EVENTS))
        left = LeftOpen()
        while events := await self.log.read(cursor, _PAGE):
            left.take(events)
            cursor = events[-1].number
        self.prompts.restore(left, has_kept=self.id in self._host.kept_sessions)
        found = endings(left)
        if found:
            if not self.prompts.is_busy:
                self.facts.pop("busyFrom", None)
            for event in found:
                self.log.append(event)


class SharedSettings:
    """Mode and options of a session: set at the agent in the order of requests, logged, and sent to the other clients.

    Agents send no update after a change that a client asked for (rule 173), so the host does, with the complete
    list. Mode and options are kept in step for clients that know only one of the two.
    """

    def __init__(self, session: HostedSession) -> None:
        self._session = session
        self._order = asyncio.Lock()

    async def set_mode(self, client: HostConnection, mode: str) -> None:
        """Switch the mode. Raises: RequestError."""
        async with self._order:
            run = await self._session.agent.ensure()
            try:
                await run.session.set_mode(mode)
            except DragomanError as error:
                raise as_request_error(error) from None
            self._changed(client, in_step(self._session.facts, mode=mode))
            await self._session.settle()

    async def set_option(self, client: HostConnection, option: str, value: object) -> list[Any]:
        """Change an option; gives the complete list. Raises: RequestError."""
        if _find_option(self._session.facts.get("configOptions"), option).get("type") == "boolean":
            value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, str | bool):
            raise RequestError.invalid_params("the value must be text, true or false", path="$.value")
        async with self._order:
            run = await self._session.agent.ensure()
            try:
                await run.session.set_config_option(option, value)
            except DragomanError as error:
                raise as_request_error(error) from None
            options: list[Any] = msgspec.json.decode(encode(list(run.session.state.config_options)))
            self._session.facts["configOptions"] = options
            self._changed(client, in_step(self._session.facts))
            await self._session.settle()
            return options

    def _changed(self, client: HostConnection, updates: list[dict[str, Any]]) -> None:
        self._session.append("setting", {"by": client.key, "who": client.who, "updates": updates})
        self._session.describe()


def _find_option(options: Any, id: str) -> dict[str, Any]:
    for option in options or ():
        if isinstance(option, dict) and option.get("id") == id:
            return option
    return {}
