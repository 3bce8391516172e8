"""The host of one user on this machine: every agent that `exec` can start, sessions with names, methods of its own.

Names belong to a folder: `NAME` in two folders is two sessions. The methods here are for clients on this
machine only; those for every client are in `methods/`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import time
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import ConfigError, RequestError, StoreError
from dragoman.host.history.facts import session_key
from dragoman.host.host import Host, HostSettings, Visitor
from dragoman.host.local.agents import MachineAgent, default_agent, find_entry, ledger_name
from dragoman.host.local.build import build_stamp, hello, package_folder
from dragoman.host.local.succession import left_in
from dragoman.host.local.web_page import WebChoice, WebPage
from dragoman.host.methods.params import read_params
from dragoman.host.services import HostServices, hosted_terms
from dragoman.process.sweep import sweep
from dragoman.registry.agents import load_agents
from dragoman.runs.terms import read_terms, rules_for
from dragoman.settings import load_settings
from dragoman.settings.file import HostMembers
from dragoman.settings.places import cache_dir, config_dir, data_dir
from dragoman.store.ledger import FILE_NAME, Ledger
from dragoman.store.sqlite_log import SqliteLog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from dragoman.host.agents import AgentSource
    from dragoman.host.connection import HostConnection
    from dragoman.host.local.place import HostPlace
    from dragoman.host.session import HostedSession
    from dragoman.policy import Action
    from dragoman.registry.agents import AgentEntry
    from dragoman.rpc import Call
    from dragoman.runs.terms import Terms
    from dragoman.store.event_log import EventLog, SessionRecord

_log = logging.getLogger("dragoman.host")
QUESTION_SECONDS: Final = 24 * 3600.0
"""A question without an answer keeps the host alive for so long, by the wall clock."""
_LONGEST_NAME: Final = 100


class LocalHost(Host):
    """The host that runs the agents of this machine for its user."""

    keeps_traffic = True

    def __init__(
        self, log: EventLog, *, mark: str, idle_seconds: float, keep_seconds: float = HostMembers().keep_seconds
    ) -> None:
        """Make a host.

        Args:
            mark: In the environment of its agents' processes.
            idle_seconds: How long it stays without a client and without work.
            keep_seconds: How long it stays for a session that cannot come back, after its last prompt.
        """
        super().__init__(log, (), settings=HostSettings(forks=True), services=LocalServices())
        self.idle_seconds = idle_seconds
        self._keep_seconds = keep_seconds
        self.on_retire: Callable[[], bool] = lambda: False
        self._mark = mark
        self._agents: dict[str, MachineAgent] = {}
        self._socket = ""
        self._build = build_stamp()
        self._package = os.path.realpath(package_folder())
        self._started_at = time.time()
        self._opening: set[tuple[str, str]] = set()
        self._asked_at: dict[str, float] = {}
        self.web = WebPage(self)
        self._own_methods = {
            "_dragoman/named": self._named,
            "_dragoman/queued": self._queued,
            "_dragoman/release": self._release,
            "_dragoman/host": self._host,
            "_dragoman/web": self._web,
            "_dragoman/retire": self._retire,
        }

    def describe(self, place: HostPlace) -> None:
        """Note where it listens, for `_dragoman/host`."""
        self._socket = place.socket

    @property
    def is_drained(self) -> bool:
        """Whether no turn runs or waits, no question is open, and every client has got what it waits for."""
        return not any(session.is_busy or session.is_awaited for session in self.live_sessions())

    def end_old_questions(self, now: float | None = None) -> None:
        """Cancel the turns whose questions wait for more than a day."""
        moment = time.time() if now is None else now
        found: dict[str, float] = {}
        for session in self.live_sessions():
            for id, question in list(session.questions.items()):
                if question.is_open:
                    found[id] = self._asked_at.get(id, moment)
                    if moment - found[id] > QUESTION_SECONDS:
                        session.append("notice", {"text": "A question was not answered for a day."}, turn=0)
                        running = session.turn
                        if running is not None:
                            session.cancel_prompt(running["promptId"])
        self._asked_at = found

    # Sessions that cannot come back: all that their agents know is in a process

    @property
    def keeps_sessions(self) -> bool:
        """Whether it has a session with content that would be lost with the host, and was used not long ago."""
        return any(not self._is_unused(session) for session in self._irreplaceable())

    def end_unused_sessions(self) -> None:
        """End the agents of such sessions that were not used for long: each of them holds the memory of a process."""
        for session in self._irreplaceable():
            if self._is_unused(session) and not session.attachments and not session.is_busy:
                session.is_read_only = True
                text = f"The session was not used for {_span(self._keep_seconds)}, and its agent was ended."
                session.append("notice", {"text": text}, turn=0)
                _ = self.run(session.agent.end())

    def kept_seconds(self, session: HostedSession) -> int | None:
        return round(self._keep_seconds) if self._would_be_lost(session) else None

    def _irreplaceable(self) -> list[HostedSession]:
        begun = [session for session in self.live_sessions() if session.has_agent and session.prompts.turn_number]
        return [session for session in begun if self._would_be_lost(session)]

    def _would_be_lost(self, session: HostedSession) -> bool:
        """Whether its agent can neither resume nor load, or announces it and has forgotten a session before."""
        name = session.record.agent
        described = self.description_of(name)
        forgets = (described is not None and described.forgets) or self._is_scripted(name)
        return forgets or not session.agent.can_come_back

    def _is_scripted(self, name: str) -> bool:
        return bool(getattr(self.find_source(name), "is_scripted", False))

    def _is_unused(self, session: HostedSession) -> bool:
        return monotonic() - session.last_used > self._keep_seconds

    # What a host of this machine knows

    def agent_names(self) -> list[str]:
        return []

    def named_agents(self) -> list[str]:
        """Return the agents of this machine that a client elsewhere may choose from, by their names."""
        try:
            return [entry.name for entry in load_agents(load_settings(config_dir()), data_dir(), cache_dir()).entries()]
        except ConfigError as error:
            _log.warning("the agents of this machine cannot be listed: %s", error)
            return []

    def may_use(self, agent: str, visitor: Visitor) -> bool:
        # A text may also be a command line, or a name with arguments. That is for clients on this machine: from
        # elsewhere nothing is started that the user of this host has not set up.
        return visitor.is_local or agent == visitor.agent or agent in self.named_agents()

    def agent_entries(self, cwd: str | None) -> list[tuple[str, AgentEntry | None]]:
        from pathlib import Path

        from dragoman.settings import find_project

        settings = load_settings(config_dir(), None if cwd is None else find_project(Path(cwd)))
        agents = load_agents(settings, data_dir(), cache_dir())
        # The scripted agent is for trying things out: who chose it as the default does that.
        return [
            (entry.name, entry) for entry in agents.entries() if not entry.is_scripted or entry.name == agents.default
        ]

    def find_source(self, name: str) -> AgentSource | None:
        found = self._agents.get(name)
        if found is None:
            found = self._agents[name] = MachineAgent(name, self._mark)
        return found

    def ledger_for(self, session: HostedSession) -> Ledger | None:
        """Return the ledger; None if the user wants none, or not for this session.

        The settings may change while the host runs.
        """
        try:
            is_wanted = read_terms(session.facts.get("terms")).uses_ledger and load_settings(config_dir()).uses_ledger
        except ConfigError:
            return None
        if is_wanted and self.ledger is None:
            self.ledger = _open_ledger()
        return self.ledger if is_wanted else None

    def default_agent(self, cwd: str) -> str | None:
        try:
            return default_agent(cwd)
        except ConfigError as error:
            raise RequestError(-32603, str(error), {"reason": "settings"}) from None

    async def kept_facts(self, own: Mapping[str, Any], cwd: str) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        try:
            read_terms(own.get("terms"))
        except ConfigError as error:
            raise RequestError.invalid_params(str(error)) from None
        if own.get("terms"):
            facts["terms"] = own["terms"]
        name = own.get("name")
        if name is not None:
            facts["name"] = await self._reserve(name, cwd)
        return facts

    def opened(self, session: HostedSession) -> None:
        if session.env is None:
            text = "The agent has the environment of the host, because the client sent none (_meta.dragoman.env)."
            session.append("notice", {"text": text}, turn=0)
        if self._would_be_lost(session) and not self._is_scripted(session.record.agent):
            text = (
                "This agent cannot bring a session back: it can be continued for "
                f"{_span(self._keep_seconds)} after its last prompt, and not after an update or a logout."
            )
            session.append("notice", {"text": text}, turn=0)

    def agent_meta(self, own: Mapping[str, Any], meta: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        added = own.get("agentMeta")
        return {**(meta or {}), "dragoman": added} if isinstance(added, dict) and added else meta

    async def _reserve(self, name: object, cwd: str) -> str:
        """Take a name for the session that this task opens."""
        if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
            raise RequestError.invalid_params("a name is a short text on one line")
        key = (await asyncio.to_thread(os.path.realpath, cwd), name)
        taken = RequestError(-32602, f"there is a session {name!r} in {cwd} already", {"reason": "name_taken"})
        if key in self._opening:
            raise taken
        self._opening.add(key)  # before the log is read: two may ask at the same time
        task = asyncio.current_task()
        if task is not None:
            task.add_done_callback(lambda _: self._opening.discard(key))
        if await self._find_named(name, cwd) is not None:
            raise taken
        return name

    # Methods

    def extension(self, method: str) -> Callable[[HostConnection, Call], Coroutine[Any, Any, object]] | None:
        return self._own_methods.get(method)

    async def _find_named(self, name: str, cwd: str) -> SessionRecord | None:
        found = await self.log.find_keyed(Visitor().principal, session_key("name", name))
        same = next((record for record in found if record.cwd == cwd), None)
        if same is not None or not found:
            return same

        def by_real_path() -> SessionRecord | None:
            folder = os.path.realpath(cwd)
            return next((record for record in found if os.path.realpath(record.cwd) == folder), None)

        return await asyncio.to_thread(by_real_path)

    async def _named(self, client: HostConnection, call: Call) -> object:
        """Answer with the session that has a name in a folder; null if there is none."""
        params = read_params(call.params)
        name, cwd = str(params.get("name", "")), str(params.get("cwd", ""))
        record = await self._find_named(name, cwd)
        session = None if record is None else await self.find(record.id, client.visitor)
        if record is None or session is None:
            return {"session": None}
        found: dict[str, Any] = {
            "sessionId": record.id,
            "cwd": record.cwd,
            "agent": record.agent,
            "state": session.state,
            "isBusy": session.is_busy,
            "hasAgent": session.has_agent,
            "terms": session.facts.get("terms") or {},
        }
        if self._is_scripted(record.agent):
            found["isScripted"] = True
        return {"session": found}

    async def _queued(self, client: HostConnection, call: Call) -> object:
        """Answer when everything that was accepted is in the log."""
        await self.settle()
        session = self.live(str(read_params(call.params).get("sessionId", "")))
        return {"keptSeconds": None if session is None else session.kept_seconds}

    async def _release(self, client: HostConnection, call: Call) -> object:
        """Close a session and let its name go, so that the next prompt with this name opens another one."""
        session = await self.find(str(read_params(call.params).get("sessionId", "")), client.visitor)
        if session is None:
            raise RequestError.not_found("there is no such session")
        session.facts.pop("name", None)
        session.describe()
        await self.close_session(session, "The session was closed.")
        return {}

    async def _host(self, client: HostConnection, call: Call) -> object:
        """About this process."""
        sessions = self.live_sessions()
        return {
            "pid": os.getpid(),
            "executable": sys.executable,
            "package": self._package,
            **hello(),
            "build": self._build,
            "socket": f"unix:{self._socket}",
            "startedAt": self._started_at,
            "uptimeSeconds": round(time.time() - self._started_at, 1),
            "sessions": len(sessions),
            "agents": sum(session.has_agent for session in sessions),
            "idleSeconds": self.idle_seconds,
            "isOutdated": self.is_outdated,
        }

    async def _web(self, client: HostConnection, call: Call) -> object:
        """Open, show or stop the web page of this host."""
        params = read_params(call.params)
        match params.get("do"):
            case "open":
                await self._open_web(client, params)
            case "stop":
                await self.web.stop()
            case "status":
                pass
            case _:
                raise RequestError.invalid_params("do must be open, status or stop")
        return self.web.facts()

    async def _open_web(self, client: HostConnection, params: dict[str, Any]) -> None:
        try:
            wanted = params.get("choice")
            choice = None if wanted is None else msgspec.convert(wanted, WebChoice)
            await self.web.open(choice, client, is_kept=params.get("isKept") is True)
        except msgspec.ValidationError as error:
            raise RequestError.invalid_params(str(error)) from None
        except (ConfigError, OSError) as error:
            raise RequestError(-32603, str(error), {"reason": "web"}) from None

    def _work(self) -> list[dict[str, Any]]:
        """Return the sessions in which a turn runs or waits."""
        return [
            {
                "name": session.facts.get("name"),
                "sessionId": session.id,
                "cwd": session.record.cwd,
                "state": session.state,
            }
            for session in self.live_sessions()
            if session.is_busy
        ]

    def why_held(self) -> str:
        return f"dragoman was updated; this waits for {left_in(self._work())}"

    async def _retire(self, client: HostConnection, call: Call) -> object:
        """Begin nothing more and leave when what runs has ended: `now`, or behind the sessions in `work`."""
        return {"now": self.on_retire(), "work": self._work()}


def _span(seconds: float) -> str:
    size, unit = next((pair for pair in ((3600, "hours"), (60, "minutes")) if seconds >= pair[0]), (1, "seconds"))
    return f"{seconds / size:g} {unit}"


def open_local_host(log: Path, mark: str) -> LocalHost:
    """Open the log, and end what an earlier host left running.

    Raises:
        StoreError, ConfigError: the log or the settings cannot be used.
    """
    chosen = load_settings(config_dir()).user.host
    own = f"dragoman-host-{mark}-{secrets.token_hex(8)}"
    _end_orphans(log.with_suffix(".owner"), own)
    return LocalHost(SqliteLog(log), mark=own, idle_seconds=chosen.idle_seconds, keep_seconds=chosen.keep_seconds)


def _open_ledger() -> Ledger | None:
    try:
        return Ledger.open(data_dir() / FILE_NAME)
    except (StoreError, OSError) as error:
        _log.warning("hosted sessions are not in the ledger: %s", error)
        return None


def _end_orphans(path: Path, own: str) -> None:
    """End agents of the last host of this log, if it and its guard were killed together."""
    with suppress(OSError):
        last = path.read_text("ascii").strip()
        if last.startswith("dragoman-host-"):
            sweep({last: ()})
    with suppress(OSError):
        path.write_text(own, "ascii")


class LocalServices(HostServices):
    """The services of the local host: the terms that a session was opened with, and the user's rules."""

    terminal_login = True

    def terms_of(self, session: HostedSession) -> Terms:
        cwd = session.record.cwd
        entry, settings = find_entry(session.record.agent, cwd, session.env)
        project = cwd if settings.root is None else str(settings.root)
        return hosted_terms(
            session,
            rules=lambda: rules_for(cwd),
            chosen=read_terms(session.facts.get("terms")),
            entry=entry,
            ledger_name=ledger_name(session.record.agent),
            project=project,
            restores=settings.restores_protected,
            remember=lambda text, action: _remember(text, action, project),
            rule_file=_rule_file(),
            # Of these, commands of terminals get what every program needs.
            environment=lambda: os.environ if session.agent.env is None else session.agent.env,
        )


def _rule_file() -> str:
    from dragoman.settings.rule_file import open_rules

    return str(open_rules().path)


def _remember(text: str, action: Action, project: str) -> None:
    from dragoman.settings.rule_file import open_rules

    open_rules().remember(text, action, "project", project)
