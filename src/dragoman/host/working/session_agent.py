"""The agent of a session: started when a prompt needs it, started again after it died.

Owns the agent's process and what it sends by itself. Updates that come before the answer to `session/new` are kept for
after ours. What an agent replays when it comes back is dropped, because the log has it; some agents replay after their
answer, so the dropping ends with the next prompt, or when nothing was dropped for a while. An agent that can neither
resume nor load leaves a session that can only be read.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.errors import NOT_FOUND, DragomanError, RequestError
from dragoman.host.agents import RunningAgent
from dragoman.host.history.facts import CLOSED, OpenCalls, note_fact, note_state
from dragoman.host.history.frames import store_update
from dragoman.host.working.agent_end import end_members
from dragoman.host.working.agent_traffic import AgentTraffic
from dragoman.host.working.prompt_blocks import PromptEcho
from dragoman.host.working.prompts import session_lost
from dragoman.schema import Unknown, v1
from dragoman.store.event_log import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession

_QUIET_SECONDS: Final = 2.0
_REPORTED_SECONDS: Final = 1.0
_STARTS: Final = 5
_STARTS_SECONDS: Final = 180.0
_EARLY_BYTES: Final = 8 * 1024 * 1024
_REPLAYED: Final = frozenset(
    ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan")
)

_TEXTS: Final = frozenset((v1.AgentMessageChunk, v1.AgentThoughtChunk))


class _Params(msgspec.Struct, gc=False, rename={"meta": "_meta"}):
    update: Raw
    meta: Raw | UnsetType = UNSET


class _Line(msgspec.Struct, gc=False):
    params: _Params


_read_update: Final = msgspec.json.Decoder(_Line).decode


class SessionAgent:
    """Starts, loses and ends the agent of one session."""

    def __init__(self, session: HostedSession, host: Host) -> None:
        self.running: RunningAgent | None = None
        self.is_stuck = False
        """It did not react to a cancel: it is ended before the next prompt, so that two never meet in it."""
        self.is_lost = False
        """It died, and was not started again yet."""
        self._session = session
        self._host = host
        self._starting = asyncio.Lock()
        self._failures: list[float] = []
        self._last_end: Exception | None = None
        self._is_replaying = False
        self._dropping_until = 0.0
        self._early: list[tuple[str, v1.SessionUpdate, bytes]] | None = None
        self._early_bytes = 0
        self._echo: PromptEcho | None = None
        self._forks = 0
        self.open_calls = OpenCalls()
        self._turn_began = 0.0
        self.traffic = AgentTraffic()

    @property
    def is_running(self) -> bool:
        return self.running is not None and self.running.is_open

    @property
    def can_come_back(self) -> bool:
        """Whether the agent could be started again with this session."""
        if self.running is not None:
            return self.running.can_come_back
        return self._session.facts.get("canComeBack") is not False

    # Starting

    async def open(self, begin: Callable[[RunningAgent], Coroutine[Any, Any, None]]) -> None:
        """Start the agent and a new session of it. What it sends before its answer is kept for after ours."""
        self._early = []
        agent = await self._start()
        try:
            await self._host.logins.with_login(agent, self._session.record.agent, lambda: begin(agent))
        except BaseException:
            await agent.close()
            raise
        self._adopt(agent)

    def release_early(self, *, keeps: bool = True) -> None:
        """The session has its record in the log: what came before is logged now, unless it is a replay."""
        early, self._early = self._early or [], None
        if not keeps:
            self._dropping_until = monotonic() + _QUIET_SECONDS
        for agent_session, update, line in early:
            self._take_one(agent_session, update, line)

    async def ensure(self) -> RunningAgent:
        """The running agent; one that is gone is started again.

        Raises:
            RequestError: it cannot be started, or cannot come back.
        """
        async with self._starting:
            if self.is_stuck:
                self._session.notice("The agent did not react to a cancel and was ended.")
                await self.end()
            if self.running is not None and self.running.is_open:
                return self.running
            if self._session.agent_session is None or not self.can_come_back:
                self._session.is_read_only = True
                raise session_lost("its process ended, and it can neither resume nor load a session")
            self._require_servers()
            return await self._start_again()

    async def _start_again(self) -> RunningAgent:
        while True:
            since = monotonic() - _STARTS_SECONDS
            self._failures = [at for at in self._failures if at > since]
            if len(self._failures) >= _STARTS:
                data = {"reason": "agent_exited", **end_members(self._last_end), "maybeExecuted": False}
                raise RequestError(-32603, f"the agent could not be started {_STARTS} times in a row", data)
            try:
                agent = await self._start()
                try:
                    await self._host.logins.with_login(
                        agent, self._session.record.agent, partial(self._come_back, agent)
                    )
                except BaseException:
                    await agent.close()
                    raise
            except RequestError:
                raise
            except DragomanError as error:
                self._failures.append(monotonic())
                self._last_end = error
                await asyncio.sleep(self._host.settings.restart_seconds * len(self._failures))
                continue
            self._adopt(agent)
            self._session.append("agent", {"started": True})
            self._session.notice("The agent was started again.")
            return agent

    async def _come_back(self, agent: RunningAgent) -> None:
        session = self._session
        try:
            await self._reopen(session, agent)
        except RequestError as error:
            if error.code != NOT_FOUND:
                raise
            session.is_read_only = True
            session.facts["canComeBack"] = False
            session.describe()
            raise session_lost("the agent does not know it any more") from None

    async def _reopen(self, session: HostedSession, agent: RunningAgent) -> None:
        # A session that only the agent knew has no log yet: what it replays is the history.
        is_unknown = session.facts.pop("isForeign", False)
        self._is_replaying = not is_unknown
        try:
            may_replay = await agent.come_back(
                session.agent_session or "",
                session.record.cwd,
                session.servers,
                session.directories,
                with_history=is_unknown,
            )
        finally:
            self._is_replaying = False
        if may_replay and not is_unknown:
            self._dropping_until = monotonic() + _QUIET_SECONDS

    async def _start(self) -> RunningAgent:
        session = self._session
        source = self._host.source(session.record.agent)
        options = await self._host.services.options(session)
        settings = self._host.settings
        if settings.unstable or settings.forks:
            options = {**options, "unstable": settings.unstable or ("session/fork",)}
        options = {**options, "on_updates": self.take, "on_extension": self.take_extension}
        traffic = self.traffic if self._host.keeps_traffic else None
        agent = await RunningAgent.start(source, session.record.cwd, session.env, options, traffic)
        self._host.descriptions.learn(source, agent.remote)
        return agent

    def _adopt(self, agent: RunningAgent) -> None:
        session = self._session
        self.running, self.is_lost, self.is_stuck = agent, False, False
        session.agent_session = agent.session.id
        note_state(session.facts, agent.session.state)
        session.facts["canComeBack"] = agent.can_come_back
        session.facts.pop(CLOSED, None)
        guard = self._host.services.guard_of(session.id)
        if guard is not None:
            guard.adopt(agent)
        agent.when_ended(self._ended)

    def _require_servers(self) -> None:
        """MCP servers hold secrets and are in no log, so that a host that was started again does not have them."""
        names = self._session.facts.get("servers") or []
        if names and not self._session.servers:
            data = {"reason": "servers_missing", "servers": names}
            raise RequestError(
                -32603, f"load the session again with its MCP servers: {', '.join(map(str, names))}", data
            )

    # Ending

    async def end(self) -> None:
        """End the agent; the next prompt starts it again."""
        agent, self.running = self.running, None
        self.is_stuck = False
        if agent is not None:
            await agent.close()

    async def restart(self) -> None:
        """End the agent, whatever it does, and start it again; a turn that runs ends as one whose agent died.

        Raises:
            RequestError: it cannot be started, or cannot come back.
        """
        self._failures.clear()  # a user asks for it, who may have changed what was wrong
        if self.running is not None and not self.can_come_back:
            raise session_lost("its agent can neither resume nor load a session, so that it cannot be started again")
        await self.end()
        await self.ensure()

    def _ended(self, reason: ConnectionClosed | None) -> None:
        """The agent died; one that was idle is started again by the next prompt, not at once."""
        session = self._session
        agent, self.running = self.running, None
        if session.is_closed or agent is None:
            return
        self.is_stuck, self.is_lost = False, True
        self._last_end = reason
        session.append("agent", {"ended": str(reason), "exitCode": end_members(reason)["exitCode"]})
        session.is_read_only = not agent.can_come_back
        _ = self._host.run(agent.close())

    # What it sends

    @contextmanager
    def forking(self) -> Iterator[None]:
        """While the agent copies the session, what it sends for the copy is not for this one."""
        self._forks += 1
        try:
            yield
        finally:
            self._forks -= 1

    def begin_turn(self, blocks: Sequence[v1.ContentBlock]) -> None:
        """A prompt is sent: from here on nothing is a replay, and the agent may repeat the prompt."""
        self._dropping_until = 0.0
        self._echo = PromptEcho(blocks)
        self.open_calls = OpenCalls()
        self._turn_began = monotonic()

    def end_turn(self) -> None:
        self._echo = None

    def commands_since(self) -> float | None:
        """The moment from which on processes of the agent belong to commands that run; None if no command runs.

        An agent may report a command a little after it started it. What it started for itself is older than the turn.
        """
        since = self.open_calls.commands_since()
        return None if since is None else max(since - _REPORTED_SECONDS, self._turn_began)

    def take(self, agent_session: str, updates: Sequence[v1.SessionUpdate], lines: Sequence[bytes]) -> None:
        """Log updates of the agent, which came one after another, as it wrote them."""
        if self._early is None:
            for update, line in zip(updates, lines, strict=True):
                self._take_one(agent_session, update, line)
        else:
            self._keep_early(agent_session, updates, lines)
        # Behind the log: what is found in the updates is shown after them.
        guard = self._host.services.guard_of(self._session.id)
        if guard is not None:
            guard.updated(agent_session, updates, lines)

    def _keep_early(self, agent_session: str, updates: Sequence[v1.SessionUpdate], lines: Sequence[bytes]) -> None:
        assert self._early is not None
        for update, line in zip(updates, lines, strict=True):
            self._early_bytes += len(line)
            if self._early_bytes <= _EARLY_BYTES:
                self._early.append((agent_session, update, line))

    def _take_one(self, agent_session: str, read: v1.SessionUpdate, line: bytes) -> None:
        session = self._session
        # The connection has read it as its type; here it is taken apart, so that clients get the bytes of the agent.
        if (
            type(read) in _TEXTS
            and agent_session == session.agent_session
            and not (self._is_replaying or self._dropping_until)
        ):
            params = _read_update(line).params  # nearly everything that arrives: nothing below is about it
            meta = None if params.meta is UNSET else bytes(params.meta)
            body = store_update(bytes(params.update), meta)
            session.log.append(NewEvent("update", body, session.prompts.turn_number))
            return
        variant = read.tag or "" if isinstance(read, Unknown) else str(read.__struct_config__.tag)
        if variant in _REPLAYED and self._is_replay():
            return
        params = _read_update(line).params
        update, meta = bytes(params.update), None if params.meta is UNSET else bytes(params.meta)
        child = taken = None
        if session.agent_session is not None and agent_session != session.agent_session:
            if self._forks:
                return
            child = session.child_id(agent_session)
        elif isinstance(read, v1.UserMessageChunk):
            passed = session.prompts.passed
            taken = passed.find_taken(read)
            if taken is None and not passed.is_showing and self._echo is not None and self._echo.repeats(read.content):
                return
        elif variant == "subagent_update":
            update = _with_child(update, session.child_id)
        elif isinstance(read, v1.ToolCall | v1.ToolCallUpdate):
            self.open_calls.note(read, monotonic())
        elif note_fact(session.facts, variant, update):
            session.describe()
        session.append("update", store_update(update, meta, child))
        if taken is not None:
            session.prompts.end_taken(taken)

    def take_extension(self, method: str, params: Any) -> None:
        """Log a notification that the protocol does not know; only one that names this session has a place to go."""
        if not isinstance(params, dict) or self._early is not None:
            return
        session, id = self._session, params.pop("sessionId", None)
        if id == session.agent_session:
            session.append("extension", {"method": method, "params": params})
        elif isinstance(id, str) and session.knows_child(id):
            session.append("extension", {"method": method, "params": params, "child": session.child_id(id)})

    def _is_replay(self) -> bool:
        if self._is_replaying:
            return True
        if monotonic() < self._dropping_until:
            self._dropping_until = monotonic() + _QUIET_SECONDS
            return True
        return False


def _with_child(update: bytes, child_id: Callable[[str], str]) -> bytes:
    found: Mapping[str, Any] = msgspec.json.decode(update)
    id = found.get("sessionId")
    return msgspec.json.encode({**found, "sessionId": child_id(id)}) if isinstance(id, str) else update
