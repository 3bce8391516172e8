"""The agent of a session: started when a prompt needs it, started again after it died.

Owns the runs of the agent, one for each life of its process (`dragoman.runs` has the order of a turn), and what the
agent sends by itself. The capabilities that it is sent are the host's own, always the same, because an agent learns
them once and clients come and go. Updates that come before the answer to `session/new` are kept for
after ours. What an agent replays when it comes back is dropped, because the log has it; some agents replay after their
answer, so the dropping ends with the next prompt, or when nothing was dropped for a while. An agent that can neither
resume nor load leaves a session that can only be read.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.client.services import ReadsFiles, WritesFiles
from dragoman.client.turn_commands import TurnCommands
from dragoman.errors import NOT_FOUND, ConnectionClosed, DragomanError, RequestError
from dragoman.host.agents import EndsCommands, command_of, start_limit
from dragoman.host.entry_source import EntrySource
from dragoman.host.environment import differing
from dragoman.host.history.facts import CLOSED, LEDGER_NUMBER, OWN_TITLE, OpenCalls, note_fact, note_state
from dragoman.host.history.frames import store_update
from dragoman.host.services import AsksClients
from dragoman.host.working.agent_end import end_members
from dragoman.host.working.agent_traffic import AgentTraffic
from dragoman.host.working.delegation import ServedFiles
from dragoman.host.working.prompt_blocks import PromptEcho, blocks_for
from dragoman.host.working.prompts import session_lost
from dragoman.host.working.served_terminals import ServedTerminals
from dragoman.host.working.turn_reports import TurnReports
from dragoman.registry.mode_reach import reach_of
from dragoman.runs.agent_run import GuardedRun
from dragoman.runs.events import CommandStarted, EndOfTurn, TurnStarted
from dragoman.runs.ledger import RunLedger
from dragoman.runs.opening import SessionOpening, return_to_mode
from dragoman.schema import Unknown, v1
from dragoman.store.event_log import NewEvent
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dragoman.client import ClientOptions
    from dragoman.host.agents import AgentSource
    from dragoman.host.clients.attachment import Attachment
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt
    from dragoman.runs.events import RunEvent

_log = logging.getLogger("dragoman.host")
_QUIET_SECONDS: Final = 2.0
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
    """The agent of one session, which is started, lost and ended."""

    def __init__(self, session: HostedSession, host: Host) -> None:
        self.run: GuardedRun | None = None
        """The life of the agent's process that goes on."""
        self.reports = TurnReports(session)
        self.is_stuck = False
        """It did not react to a cancel: it is ended before the next prompt, so that two never meet in it."""
        self.is_lost = False
        """It died, and was not started again yet."""
        self.env: Mapping[str, str] | None = None
        """The environment of the client that it was started for, which it keeps until it is started again."""
        self._secrets = Secrets()
        self._session = session
        self._host = host
        self._starting = asyncio.Lock()
        self._failures: list[float] = []
        self._last_end: Exception | None = None
        self._is_replaying = False
        self._dropping_until = 0.0
        self._early: list[tuple[str, v1.SessionUpdate, bytes]] | None = None
        self._early_bytes = 0
        self._judge: Callable[[str, Sequence[v1.SessionUpdate], Sequence[bytes]], None] | None = None
        self._transport: object = None
        self._ledger: RunLedger | None = None
        self._watching: asyncio.Task[None] | None = None
        self._prompt: HostedPrompt | None = None
        self._echo: PromptEcho | None = None
        self._forks = 0
        self.open_calls = OpenCalls()
        self.commands = TurnCommands()
        self.traffic = AgentTraffic()

    @property
    def is_running(self) -> bool:
        return self.run is not None and self.run.is_open

    def differs_from(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys and addresses that it would have other values of, were it started for this client; sorted."""
        source: object = self._host.source(self._session.record.agent) if self.is_running else None
        if not isinstance(source, EntrySource):
            return ()
        return differing(source.environment(self.env), source.environment(env))

    def mask(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what is to be logged without the keys of the agent's environment: it may repeat them anywhere."""
        masked: dict[str, Any] = msgspec.json.decode(self._secrets.mask_bytes(msgspec.json.encode(body)))
        return masked

    def end_described(self) -> dict[str, Any]:
        """Return how it ended, for a list: the message, exit code and signal as far as they are known."""
        found = end_members(self._last_end, with_code=False)
        found.pop("stderr", None)
        return self.mask({"message": f"The agent ended: {self._last_end}", "reason": "agent_exited", **found})

    @property
    def can_come_back(self) -> bool:
        """Whether the agent could be started again with this session."""
        if self.run is not None:
            return self.run.can_come_back
        return self._session.facts.get("canComeBack") is not False

    # Starting

    async def open(self, opening: SessionOpening) -> None:
        """Start the agent and a new session of it. What it sends before its answer is kept for after ours."""
        self._early = []
        run = await self._start()
        try:
            await self._enter(run, opening)
        except BaseException:
            await self._close(run)
            raise
        self._adopt(run)

    def release_early(self, *, keeps: bool = True) -> None:
        """Log what came before the session had its record in the log, unless it is a replay."""
        early, self._early = self._early or [], None
        if not keeps:
            self._dropping_until = monotonic() + _QUIET_SECONDS
        for agent_session, update, line in early:
            self._take_one(agent_session, update, line)

    async def ensure(self) -> GuardedRun:
        """Return the running agent; one that is gone is started again.

        Raises:
            RequestError: it cannot be started, or cannot come back.
        """
        async with self._starting:
            if self.is_stuck:
                self._session.notice("The agent did not react to a cancel and was ended.")
                await self.end()
            if self.run is not None and self.run.is_open:
                return self.run
            if self.run is not None:  # a prompt was waiting: it is here before the watch, which waits for the process
                watching = self._watching
                self._note_death(self.run)
                if watching is not None:
                    watching.cancel()
            if self._session.agent_session is None or not self.can_come_back:
                self._session.is_read_only = True
                raise session_lost("its process ended, and it can neither resume nor load a session")
            self._require_servers()
            return await self._start_again()

    async def _start_again(self) -> GuardedRun:
        while True:
            since = monotonic() - _STARTS_SECONDS
            self._failures = [at for at in self._failures if at > since]
            if len(self._failures) >= _STARTS:
                data = {"reason": "agent_exited", **end_members(self._last_end), "maybeExecuted": False}
                raise RequestError(-32603, f"the agent could not be started {_STARTS} times in a row", data)
            try:
                run = await self._start()
                try:
                    await self._come_back(run)
                    if self._session.is_ending:  # its agent was ended while this one started
                        raise session_lost("it was closed meanwhile")
                except BaseException:
                    await self._close(run)
                    raise
            except RequestError:
                raise
            except DragomanError as error:
                self._failures.append(monotonic())
                self._last_end = error
                await asyncio.sleep(self._host.settings.restart_seconds * len(self._failures))
                continue
            self._adopt(run)
            self._session.append("agent", {"started": True})
            self._session.notice("The agent was started again.")
            return run

    async def _come_back(self, run: GuardedRun) -> None:
        session = self._session
        # A session that only the agent knew has no log yet: what it replays is the history.
        is_unknown = session.facts.pop("isForeign", False)
        self._is_replaying = not is_unknown
        id = session.agent_session
        opening = SessionOpening(session_id=id, with_history=is_unknown, servers=session.servers)
        try:
            is_loaded = await self._enter(run, opening)
        except RequestError as error:
            if error.code != NOT_FOUND:
                raise
            session.is_read_only = True
            session.facts["canComeBack"] = False
            session.describe()
            if session.prompts.turn_number > 1:  # with the turn that needs it; agents may forget what is empty
                self._host.descriptions.note_memory(self._host.source(session.record.agent), forgets=True)
            raise session_lost("the agent does not know it any more") from None
        finally:
            self._is_replaying = False
        self._host.descriptions.note_memory(self._host.source(session.record.agent), forgets=False)
        await self._return_to_mode(run)
        if is_loaded and not is_unknown:
            self._dropping_until = monotonic() + _QUIET_SECONDS

    async def _return_to_mode(self, run: GuardedRun) -> None:
        """Put an agent that was started again into the mode of its session: a new process begins in one of its own.

        A mode in which it acts without asking is not set without the user.
        """
        session = self._session
        modes, options = session.facts.get("modes"), session.facts.get("configOptions")
        mode = modes.get("currentModeId") if isinstance(modes, dict) else None
        for option in options if isinstance(options, list) else ():
            if isinstance(option, dict) and option.get("category") == "mode":
                mode = option.get("currentValue")
        if isinstance(mode, str) and reach_of(session.record.agent, mode) == "limited":
            try:
                await return_to_mode(run.session, mode)
            except RequestError as error:
                session.notice(f"The agent does not go back to its mode {mode}: {error.message}")

    async def _enter(self, run: GuardedRun, opening: SessionOpening) -> bool:
        return await self._host.logins.with_login(run.agent, self._session.record.agent, lambda: run.open(opening))

    async def _start(self) -> GuardedRun:
        session, host = self._session, self._host
        source = host.source(session.record.agent)
        terms = host.services.terms_of(session)
        asks = AsksClients(session, lambda: run.guard.reads_reasons)
        run = GuardedRun(
            terms,
            asker=asks,
            forms=asks,
            on_event=self._take_event,
            observers=(self.traffic,) if host.keeps_traffic else (),
            serve=self._serve,
            settle=self._settle,
            is_prompted_at_once=False,
        )
        try:
            if host.quotas is not None:
                await host.quotas.places.take(run, session.record.principal, session)
            async with start_limit(source.name):
                self.env = session.env
                self._secrets = Secrets(os.environ, self.env or {})
                transport = await source.start(session.record.cwd, self.env)
                self._transport = transport
                if host.keeps_traffic:
                    self.traffic.begin(transport)
                self._ledger = run.ledger = self._make_ledger(source, run)
                with self.reports.warned():
                    await run.start(transport)
        except BaseException:
            await self._close(run)
            raise
        host.descriptions.learn(source, run.agent)
        return run

    def _make_ledger(self, source: AgentSource, run: GuardedRun) -> RunLedger:
        session, host = self._session, self._host

        def keep(number: int) -> None:
            # Ids of agents are not always used once only, so the session keeps the number of its entry.
            if session.facts.get(LEDGER_NUMBER) != number and not session.is_closed:
                session.facts[LEDGER_NUMBER] = number
                session.describe()

        return RunLedger(
            getattr(source, "ledger_name", None) or session.record.agent,
            command_of(source),
            run.terms.roots,
            secrets=self._secrets,
            note=partial(_log.warning, "session %s: %s", session.id),
            state=lambda: run.state,
            find=lambda: host.ledger_for(session),
            number=session.facts.get(LEDGER_NUMBER),
            is_new=lambda: session.prompts.turn_number == 1,
            on_number=keep,
            saves_every_seconds=None,  # the log has what happens meanwhile
        )

    def _serve(self, options: ClientOptions) -> ClientOptions:
        """Add what only a host does to the services of a run, and put the client's in place of files and terminals."""
        session, settings = self._session, self._host.settings
        self._judge = options["on_updates"]
        files, terminals = options["files"], options["terminals"]
        if isinstance(files, ReadsFiles) and isinstance(files, WritesFiles):
            files = ServedFiles(session, files)
        if terminals is not None:
            terminals = session.terminals = ServedTerminals(session, terminals)
        return {
            **options,
            "name": "dragoman",
            "title": "Dragoman",
            "files": files,
            "terminals": terminals,
            "terminal_login": self._host.services.terminal_login,
            "on_updates": self.take,
            "on_extension": self.take_extension,
            "extension_fallback": partial(_ask_client, session),
            "unstable": settings.unstable or (("session/fork",) if settings.forks else False),
        }

    def _adopt(self, run: GuardedRun) -> None:
        session = self._session
        self.run, self.is_lost, self.is_stuck = run, False, False
        session.agent_session = run.session.id
        note_state(session.facts, run.session.state)
        session.facts["canComeBack"] = run.can_come_back
        session.facts.pop(CLOSED, None)
        self._watching = asyncio.get_running_loop().create_task(self._watch(run))

    def _require_servers(self) -> None:
        """Require the MCP servers: they hold secrets and are in no log, so that a host started again lacks them."""
        names = self._session.facts.get("servers") or []
        if names and not self._session.servers:
            data = {"reason": "servers_missing", "servers": names}
            raise RequestError(
                -32603, f"load the session again with its MCP servers: {', '.join(map(str, names))}", data
            )

    # Ending

    async def end(self) -> None:
        """End the agent; the next prompt starts it again."""
        run, self.run = self.run, None
        watching, self._watching = self._watching, None
        self.is_stuck = False
        if watching is not None:  # first: this end is not noted as its death
            watching.cancel()
        if run is not None:
            await self._close(run)
        if watching is not None:
            with suppress(asyncio.CancelledError):
                await watching

    async def restart(self) -> None:
        """End the agent, whatever it does, and start it again; a turn that runs ends as one whose agent died.

        Raises:
            RequestError: it cannot be started, or cannot come back.
        """
        self._failures.clear()  # a user asks for it, who may have changed what was wrong
        if self.run is not None and not self.can_come_back:
            raise session_lost("its agent can neither resume nor load a session, so that it cannot be started again")
        await self.end()
        await self.ensure()

    async def _watch(self, run: GuardedRun) -> None:
        """Note the death of the agent; one that was idle is started again by the next prompt, not at once."""
        await run.agent.wait_closed()
        if not self._session.is_closed and self.run is run:
            self._note_death(run)

    def _note_death(self, run: GuardedRun) -> None:
        session, reason = self._session, run.agent.closed_by
        self.run = self._watching = None
        self.is_stuck, self.is_lost = False, True
        self._last_end = reason
        session.append("agent", self.mask({"ended": str(reason), "exitCode": end_members(reason)["exitCode"]}))
        session.is_read_only = not run.can_come_back
        _ = self._host.run(self._close(run))

    async def _close(self, run: GuardedRun) -> None:
        """End an agent with everything it started, and remove the private folder of its sandbox."""
        quotas = self._host.quotas
        if quotas is not None:
            quotas.places.note_ending(run)
        try:
            await run.close()
        except Exception:
            _log.exception("an agent did not end cleanly")
        finally:
            run.terms.sandboxes.close()
            if quotas is not None:
                quotas.places.release(run)

    # Turns

    async def prompt(self, prompt: HostedPrompt) -> EndOfTurn:
        """Run the turn of a prompt, and keep what its client wants to know about it.

        Raises:
            RequestError: the agent cannot be started, or does not take such a prompt.
        """
        record = self._session.record
        run, blocks = await self.ensure(), prompt.blocks
        if prompt.names_uploads and not prompt.is_cancelled:
            blocks = await self._host.uploads.fill_blocks(blocks, record.principal)
        if prompt.is_cancelled:
            return EndOfTurn(was_cancelled=True, was_sent=False)
        blocks = blocks_for(blocks, record.agent, run.can)
        self._prompt, self._echo = prompt, PromptEcho(blocks)
        spans, meta = self._host.spans, prompt.meta
        if spans is not None:
            meta = spans.meta_for_agent(self._session.id, prompt.id, meta)
        end = await run.prompt(
            blocks,
            prompt_id=prompt.id,
            meta=meta,
            is_recorded=prompt.wants_report,
            copies_before=prompt.wants_patch,
        )
        self.is_stuck = end.gave_up
        if run.follows_changes and end.was_sent:
            _ = self._host.run(self._note_changes())
        if prompt.wants_report and end.was_sent:
            await self.reports.keep(prompt, run, end)
        return end

    async def _note_changes(self) -> None:
        """Keep how much the session has changed, for lists; no client waits for it."""
        from dragoman.host.methods.changes import following_session, note_summary

        async with following_session(self._host, self._session) as found:
            await note_summary(found)

    def _take_event(self, event: RunEvent) -> None:
        if isinstance(event, TurnStarted):
            # A prompt is sent next: from here on nothing is a replay.
            self._dropping_until = 0.0
            self.open_calls = OpenCalls()
            self.commands = TurnCommands()
            if self.run is not None and self._prompt is not None and self._prompt.wants_events:
                self.reports.begin(self._prompt, self.run, event)
        else:
            self.reports.take(event)

    def note_command(self, terminal_id: str) -> None:
        """Report a command that runs here, for a client that shows the turn and cannot look at its terminal."""
        look = None if self.run is None else self.run.guard.look(terminal_id)
        if look is not None:
            self.reports.take(
                CommandStarted(terminal_id=terminal_id, session_id=look.session_id, command=look.command, cwd=look.cwd)
            )

    async def _settle(self, end: EndOfTurn) -> None:
        """End what the turn left running; before it is over, so that no command of the next turn is hit."""
        since = self.commands.left_since if end.was_cancelled else None
        if since is not None and isinstance(self._transport, EndsCommands):
            await self._transport.end_commands(since)
        self._session.questions.close_all()
        await self._session.release_terminals()

    def note_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Write the end of a turn into the ledger, with the code that `exec` would have ended with."""
        if self._ledger is None:
            return
        error = outcome.get("error")
        if error is None:
            reason = outcome["result"].get("stopReason")
            self._ledger.end({"end_turn": 0, "cancelled": 130}.get(reason, 6), stop_reason=reason)
            return
        data = error.get("data")
        is_gone = isinstance(data, dict) and data.get("reason") in ("agent_exited", "agent_lost")
        self._ledger.end(4 if is_gone else 1, error=str(error.get("message")))

    def end_turn(self) -> None:
        """Take no update for a repetition of the prompt any more."""
        self._prompt = self._echo = None

    # What it sends

    @contextmanager
    def forking(self) -> Iterator[None]:
        """Keep apart what the agent sends for a copy of the session while it makes it."""
        self._forks += 1
        try:
            yield
        finally:
            self._forks -= 1

    def take(self, agent_session: str, updates: Sequence[v1.SessionUpdate], lines: Sequence[bytes]) -> None:
        """Log updates of the agent, which came one after another, as it wrote them."""
        # The log is on the disk, and clients have other environments: a key that the agent repeats is in neither.
        masked = [self._secrets.mask_bytes(line) for line in lines] if self._secrets else lines
        if self._early is None:
            for update, line in zip(updates, masked, strict=True):
                self._take_one(agent_session, update, line)
        else:
            self._keep_early(agent_session, updates, masked)
        if self._judge is not None:  # behind the log: what is found in the updates is shown after them
            self._judge(agent_session, updates, lines)

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
            self.open_calls.note(read)
            self.commands.note(read)
        elif self._note_fact(variant, update):
            session.describe()
            if variant == "session_info_update" and session.facts.get(OWN_TITLE):
                found = msgspec.json.decode(update)
                found.pop("title", None)  # the user gave it another one
                update = msgspec.json.encode(found)
        session.append("update", store_update(update, meta, child))
        if taken is not None:
            session.prompts.end_taken(taken)

    def _note_fact(self, variant: str, update: bytes) -> bool:
        """Take over what an update changes; whether it changed something that is to be kept at once."""
        session, before = self._session, self._session.facts.get("cost")
        is_kept = note_fact(session.facts, variant, update)
        if variant == "usage_update" and self._host.quotas is not None:
            self._host.quotas.note_cost(session, before)
        return is_kept

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


async def _ask_client(session: HostedSession, method: str, params: Any) -> object:
    """Return the answer of the one client that can answer an extension request of the agent.

    A client that announced the vendor is asked before the one whose prompt runs, because only it is known to have the
    method. Nothing is sent to a second client: an extension may do something, and must do it once.

    Raises:
        RequestError: no client can answer it, or the one that was asked refused or went away.
    """
    chosen = None if method.startswith("_dragoman/") else _choose_client(session, method)
    if chosen is None:
        raise RequestError.method_not_found(method)
    if isinstance(params, dict) and "sessionId" in params:
        params = {**params, "sessionId": _name_for_clients(session, params["sessionId"])}
    try:
        return await chosen.peer.request(method, params, Any)
    except ConnectionClosed:
        raise RequestError.internal_error("the client that was asked went away") from None


def _choose_client(session: HostedSession, method: str) -> HostConnection | None:
    """Return the client to ask: one that announced the method, preferably the owner of the turn; else the owner."""
    attached = [at for at in session.attachments if at.client.peer.is_open and at.client.may("answer", session.id)]
    able = sorted(attached, key=lambda attachment: not _owns_turn(session, attachment))
    for attachment in able:
        if attachment.client.kind.has_extension(method):
            return attachment.client
    return able[0].client if able and _owns_turn(session, able[0]) else None


def _owns_turn(session: HostedSession, attachment: Attachment) -> bool:
    running = session.prompts.running
    return running is not None and (running.by == attachment.client.key or attachment.awaits(running.id))


def _name_for_clients(session: HostedSession, id: object) -> str:
    if id == session.agent_session:
        return session.id
    if isinstance(id, str) and session.knows_child(id):
        return session.child_id(id)
    raise RequestError.not_found("No such session on this connection", {"sessionId": id})
