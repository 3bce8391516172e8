"""A host in the foreground, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dragoman.agent.serving import bind_port, read_address
from dragoman.cli.console import shown_log, write_note
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.rules import typed_rules
from dragoman.cli.exits import OK, CliError
from dragoman.cli.named_agent import find_agent, folder
from dragoman.cli.serve.places import ServePlaces
from dragoman.errors import ConfigError, StoreError
from dragoman.host.environment import collect_rarely
from dragoman.host.host import Host, HostSettings
from dragoman.host.quotas import Quotas, default_agents
from dragoman.host.serving.access import ProjectServices
from dragoman.host.serving.access_log import open_access_log
from dragoman.host.serving.acts import HostActs
from dragoman.host.serving.counting_log import EventListener, counting_log
from dragoman.host.serving.handover import (
    HandOver,
    KeptSessions,
    Predecessor,
    address_of,
    notify_manager,
    passed_sockets,
    read_servers,
)
from dragoman.host.serving.host_log import AuditTaker, HostLog
from dragoman.host.serving.limits import ServeLimits
from dragoman.host.serving.metrics import HostMetrics
from dragoman.host.serving.programs import ProgramAgent
from dragoman.host.serving.routes import check_open_address
from dragoman.host.serving.server import HostServer, ListeningAddress, ServeOptions
from dragoman.host.serving.tls import server_tls
from dragoman.host.serving.tokens import HostToken, HostTokens
from dragoman.proxy.audit.log import AuditLog
from dragoman.runs.terms import SessionTerms
from dragoman.store.ledger import FILE_NAME, Ledger
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.unix import bind_unix
from dragoman.workspace.private import open_private

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.cli.command import CliCall
    from dragoman.host.serving.oidc.logins import Logins, LoginSettings
    from dragoman.host.serving.turn_spans import TurnSpans
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.terms import SessionTerms

DEFAULT_ADDRESS = "127.0.0.1:8787"
_SEE_HELP = "see dragoman serve --help"


def serve(call: CliCall) -> int:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        CliError, ConfigError: something about the command line is wrong.
    """
    given = call.given
    options = _options(given)
    agents = _agents(call)
    terms = read_terms(given, options.folders)
    addresses = tuple(given.listen) or (DEFAULT_ADDRESS,)
    tls = server_tls(given.tls_cert, given.tls_key)
    for address in addresses:
        if not address.startswith("unix:"):
            check_open_address(address, read_address(address)[0], tls, options)
    by_http = (("--ui-stream", given.ui_stream), ("--web", given.web), ("--oidc-issuer", options.login is not None))
    for flag, is_given in by_http:
        if is_given and all(address.startswith("unix:") for address in addresses):
            raise CliError(f"{flag} needs a port: it is spoken over HTTP", hint="add --listen 127.0.0.1:8787")
    places = ServePlaces(given.data)
    lines = HostLog(sys.stderr) if given.log_format == "json" else None
    sockets = passed_sockets()
    before = Predecessor.find(places.folder, addresses) if given.replace and places.folder.is_dir() else None
    lock = places.lock(wants_all=given.replace) if before is None else before.lock
    try:
        sockets += [] if before is None else before.sockets
        bound = choose_sockets(tuple(given.listen) or tuple(name for name, _ in sockets) or addresses, sockets)
        if before is not None:
            _wait_for(before, write_note if lines is None else lines.note)
        collect_rarely()
        return asyncio.run(_Serving(given, options, agents, bound, tls, places, terms, lock, before, lines).run())
    finally:
        os.close(lock)


def choose_sockets(
    addresses: Sequence[str], given: list[tuple[str, socket.socket]]
) -> list[tuple[str, socket.socket | None]]:
    """Return the addresses to listen at with their sockets: those that were passed to this program, or new ones.

    Args:
        addresses: As they were typed.
        given: Sockets of the service manager or of the host before this one. Those that are not wanted are closed.

    Raises:
        ConfigError: an address cannot be used.
    """
    left = list(given)
    found: list[tuple[str, socket.socket | None]] = []
    for address in addresses:
        wanted = f"unix:{os.path.abspath(address[5:])}" if address.startswith("unix:") else address
        wanted = re.sub(r"^localhost:", "127.0.0.1:", wanted)
        match = next((item for item in left if wanted in (item[0], address_of(item[1])) or item[0] == address), None)
        if match is not None:
            left.remove(match)
            found.append((address, match[1]))
        elif not given:  # bound when the host is ready for clients
            found.append((address, None))
        elif address.startswith("unix:"):
            found.append((address, bind_unix(wanted[5:])))
        else:
            found.append((address, bind_port(*read_address(address))))
    for _, sock in left:
        sock.close()
    return found


def _wait_for(before: Predecessor, note: Callable[[str], object]) -> None:
    note(f"the host that runs (pid {before.pid}, {before.version}) is waited for until its turns have ended")

    def progress(turns: int, seconds: int) -> None:
        note(f"{turns} turn{'s' if turns != 1 else ''} still run there, for {seconds} s at most")

    if not before.wait(progress):
        note("it was killed; turns that ran there are interrupted")


class _Serving:
    """One run of the server."""

    def __init__(
        self,
        given: Any,
        options: ServeOptions,
        agents: list[ProgramAgent],
        addresses: Sequence[tuple[str, socket.socket | None]],
        tls: Any,
        places: ServePlaces,
        terms: SessionTerms,
        lock: int,
        before: Predecessor | None,
        lines: HostLog | None,
    ) -> None:
        self._given = given
        self._options = options
        self._agents = agents
        self._addresses = addresses
        self._tls = tls
        self._places = places
        self._terms = terms
        self._lock = lock
        self._before = before
        self._successor = 0
        self._tokens = HostTokens(places.tokens)
        self._signals = asyncio.Queue[signal.Signals]()
        self._lines = lines
        self._note = write_note if lines is None else lines.note

    async def run(self) -> int:
        if self._options.login is None:
            return await self._run(None)
        from dragoman.cli.serve.login import open_logins

        logins = await open_logins(self._options.login, self._note)
        try:
            return await self._run(logins)
        finally:
            await logins.provider.close()

    async def _run(self, logins: Logins | None) -> int:
        spans = _spans()  # wrong variables are reported before anything is opened
        metrics = HostMetrics(agents=tuple(agent.name for agent in self._agents))
        audit = AuditLog(
            self._places.audit, shared={"host": metrics.host}, keep_days=_days("--audit-days", self._given.audit_days)
        )
        metrics.gauge("dragoman_audit_ok", lambda: int(not audit.problem))
        lines = self._lines
        acts = HostActs([AuditTaker(audit), *([] if lines is None else [lines])])
        listeners: list[EventListener] = [acts, *([] if spans is None else [spans])]
        log = SqliteLog(self._places.log)
        settings = HostSettings(
            default_agent=self._agents[0].name,
            is_shared=True,
            enters_asking_mode=True,
        )
        ledger = _open_ledger(self._note)
        entries = {agent.name: agent.entry for agent in self._agents}
        services = ProjectServices(self._terms, entries.get)
        counted = counting_log(log, metrics, listeners=listeners)
        host = Host(counted, self._agents, settings=settings, services=services, ledger=ledger)
        host.spans = spans
        host.keeps_traffic = self._given.traffic
        limits = self._options.limits
        Quotas(host, limits.quota(), most_agents=limits.agent_processes or default_agents())
        access_log = open_access_log(self._given.access_log, self._given.log_format or "json")
        server = HostServer(
            host, self._tokens, self._options, metrics=metrics, access_log=access_log, acts=acts, logins=logins
        )
        if self._before is not None:
            host.inherited_servers = read_servers(self._before.servers)
            server.tickets.add(self._before.tickets)
        seconds = self._options.hand_over_seconds
        hand_over = HandOver(server, host, self._places.folder, self._lock, seconds)
        try:
            with shown_log() if lines is None else lines.shown():
                return await self._serve(server, host, hand_over)
        finally:
            await server.close()
            if spans is not None:
                spans.close()
            await asyncio.to_thread(audit.close)
            if ledger is not None:
                ledger.close()
            await log.close()
            hand_over.stop()  # before the next host has the folder, and listens at the same place
            await hand_over.finish()
            await hand_over.close()

    async def _serve(self, server: HostServer, host: Host, hand_over: HandOver) -> int:
        if server.page is not None and not server.page.is_complete:
            why = server.page.problems[0] if server.page.problems else "this installation of dragoman has no web page"
            raise CliError(why, hint="leave out --web, or install a released wheel; see docs/web.md")
        first = self._first_token()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        kept = KeptSessions(self._places.folder)
        sessions = kept.read()
        host.kept_sessions = set(sessions)  # before a client can open one of them
        endpoints = [await server.listen(address, self._tls, sock) for address, sock in self._addresses]
        try:
            hand_over.listen()
            loop.add_signal_handler(signal.SIGUSR2, self._start_successor)
        except OSError as error:  # a file system without sockets
            self._note(f"this host cannot hand over to another one: {error}")
        self._introduce(endpoints, first)
        notify_manager("READY=1")
        _ = host.run(kept.run_in(host, sessions))
        while await self._is_asked(hand_over):
            self._note(f"another host (pid {hand_over.pid}) waits; turns may go on for {self._hand_over_time}")
            if await self._hand_over(hand_over):
                self._note(f"the host with pid {hand_over.pid} goes on")
                return OK
            self._note("the host that waited is gone; this one goes on")
        hand_over.is_refused = True
        notify_manager("STOPPING=1")
        return await self._drain(server)

    @property
    def _hand_over_time(self) -> str:
        return f"{self._options.hand_over_seconds:g} s"

    async def _is_asked(self, hand_over: HandOver) -> bool:
        """Wait for another host, or for a signal; False for a signal."""
        asked = asyncio.ensure_future(hand_over.asked.wait())
        ended = asyncio.ensure_future(self._signals.get())
        await asyncio.wait([asked, ended], return_when=asyncio.FIRST_COMPLETED)
        is_asked = not ended.done()
        for task in (asked, ended):
            task.cancel()
        return is_asked

    async def _hand_over(self, hand_over: HandOver) -> bool:
        hurry = asyncio.Event()
        handing = asyncio.ensure_future(hand_over.hand_over(hurry))
        again = asyncio.ensure_future(self._signals.get())
        await asyncio.wait([handing, again], return_when=asyncio.FIRST_COMPLETED)
        if again.done():
            self._note("turns that still run are cancelled")
            hurry.set()
        again.cancel()
        return await handing

    def _start_successor(self) -> None:
        """Start the program that is installed now, with the same words, so that it replaces this one (SIGUSR2)."""
        if self._successor:
            self._note(f"another host was started before (pid {self._successor})")
            return
        words = [*sys.orig_argv[1:]]
        if "--replace" not in words:
            words.insert(words.index("serve") + 1, "--replace")
        self._successor = os.posix_spawn(sys.executable, [sys.executable, *words], os.environ)
        self._note(f"the program that is installed now was started to replace this one (pid {self._successor})")
        loop = asyncio.get_running_loop()

        def reap(pid: int) -> None:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with suppress(RuntimeError):  # this host has ended
                loop.call_soon_threadsafe(self._successor_ended, code)

        threading.Thread(target=reap, args=(self._successor,), daemon=True).start()

    def _successor_ended(self, code: int) -> None:
        self._successor = 0
        self._note(f"the program that was started has ended with {code}; this host goes on")

    async def _drain(self, server: HostServer) -> int:
        self._note(f"no more prompts; waiting up to {self._options.drain_seconds:g} s for turns to end")
        draining = asyncio.ensure_future(server.drain())
        again = asyncio.ensure_future(self._signals.get())
        await asyncio.wait([draining, again], return_when=asyncio.FIRST_COMPLETED)
        left = draining.result() if draining.done() else 1
        for task in (draining, again):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._note("turns that still ran are cancelled" if left else "every turn has ended")
        return OK

    def _first_token(self) -> str | None:
        """Make a token at the first start, so that there is something to connect with; gives the file it is in."""
        path = self._places.first_token
        if not self._tokens.all():
            secret = self._tokens.add(HostToken(name="first", digest="", user="local", may_start_programs=True))
            with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
                file.write(f"{secret}\n")
        return str(path) if self._tokens.get("first") is not None and path.exists() else None

    def _introduce(self, endpoints: list[ListeningAddress], first: str | None) -> None:
        for endpoint in endpoints:
            sys.stdout.write(f"{endpoint.url}\n")
        sys.stdout.flush()
        self._note(f"agents: {', '.join(agent.name for agent in self._agents)}; data in {self._places.folder}")
        folders = self._options.folders
        self._note(f"sessions may work in {', '.join(folders) if folders else 'every folder'}")
        for note in guard_notes(self._terms, folders, [agent.entry for agent in self._agents]):
            self._note(note)
        for endpoint in endpoints if self._options.ui_stream else ():
            if endpoint.kind != "unix":
                self._note(f"AI SDK clients post chats to {endpoint.ui_stream_url}")
        for endpoint in endpoints if self._options.web else ():
            if endpoint.kind != "unix":
                self._note(f"the web page is at {endpoint.page_url(self._options)}")
        if self._options.web:
            self._note("a code for a browser: dragoman serve token pair --user NAME")
        url = endpoints[0].url
        if url.startswith("unix:"):
            self._note(f"connect an editor with: dragoman connect {url}")
        elif first is not None:
            self._note(f"connect an editor with: dragoman connect {url} --token-file {first}")
        else:
            self._note(f"connect an editor with: dragoman connect {url} --token-env VARIABLE")
        self._note("another token for each user and device: dragoman serve token add NAME")
        if self._options.login is not None and not url.startswith("unix:"):
            self._note(f"users log in at {self._options.login.issuer} with: dragoman login --url {url}")


def _agents(call: CliCall) -> list[ProgramAgent]:
    cwd = os.getcwd()
    named = [find_agent("serve", name, None, cwd).entry for name in call.given.agent]
    if call.program is not None:
        named.append(find_agent("serve", None, call.program, cwd).entry)
    if not named:
        named.append(find_agent("serve", None, None, cwd).entry)
    agents: dict[str, ProgramAgent] = {}
    for entry in named:
        if entry.name in agents:
            raise CliError(f"the agent {entry.name!r} is named twice", hint=_SEE_HELP)
        agents[entry.name] = ProgramAgent(entry)
    return list(agents.values())


def _spans() -> TurnSpans | None:
    """Return the spans of turns, as OpenTelemetry's variables say."""
    if not os.environ.get("OTEL_TRACES_EXPORTER"):
        return None
    from dragoman.telemetry.environment import provider_from_environment

    provider = provider_from_environment()
    if provider is None:
        return None
    from dragoman.host.serving.turn_spans import TurnSpans

    return TurnSpans(provider)


def _days(flag: str, given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or not 0 < int(given) <= 36_500:
        raise CliError(f"{flag} takes a number of days, not {given!r}", hint=_SEE_HELP)
    return int(given)


def _open_ledger(note: Callable[[str], object]) -> Ledger | None:
    """Return the user's ledger of sessions, unless the settings have `"ledger": false`."""
    from dragoman.settings import load_settings
    from dragoman.settings.places import config_dir, data_dir

    if not load_settings(config_dir()).uses_ledger:
        return None
    try:
        return Ledger.open(data_dir() / FILE_NAME)
    except (StoreError, OSError) as error:
        note(f"sessions are not in the ledger of sessions: {error}")
        return None


def _options(given: Any) -> ServeOptions:
    if bool(given.tls_cert) != bool(given.tls_key):
        raise CliError("--tls-cert and --tls-key belong together", hint=_SEE_HELP)
    if given.tls_cert and given.behind_proxy:
        raise CliError("--behind-proxy is for a proxy that speaks TLS; leave it out with --tls-cert", hint=_SEE_HELP)
    folders = tuple(folder("--folder", path) for path in given.folder)
    if not folders:
        cwd = os.getcwd()
        if cwd == "/":
            raise CliError("serve needs the folders that sessions may work in", hint="name them with --folder")
        folders = (cwd,)
    for origin in given.origin:
        if not origin.startswith(("http://", "https://")) or origin.rstrip("/") != origin:
            raise CliError(f"--origin {origin}: not an origin", hint="write it like https://agents.example")
    return ServeOptions(
        folders=None if "/" in folders else folders,
        hosts=tuple(given.host),
        origins=tuple(given.origin),
        is_behind_proxy=given.behind_proxy,
        limits=_limits(given),
        drain_seconds=_number("--drain", given.drain, ServeOptions().drain_seconds),
        hand_over_seconds=_number("--drain", given.drain, ServeOptions().hand_over_seconds),
        ui_stream=given.ui_stream,
        web=given.web,
        login=_login_settings(given),
    )


def _login_settings(given: Any) -> LoginSettings | None:
    from dragoman.settings import load_settings
    from dragoman.settings.places import config_dir

    stored = load_settings(config_dir()).user.serve_oidc
    flags = ("issuer", "audience", "client_id", "user_claim", "right", "rules")
    if not stored and not any(getattr(given, f"oidc_{name}") for name in flags):
        return None
    from dragoman.cli.serve.login import read_login_settings

    return read_login_settings(given, stored)


def _limits(given: Any) -> ServeLimits:
    """Return the limits of the settings, changed by those of the command line."""
    from dragoman.settings import load_settings
    from dragoman.settings.places import config_dir

    settings = load_settings(config_dir())
    values: dict[str, float | None] = {**settings.user.serve_limits}
    for text in given.limit:
        name, separator, number = text.partition("=")
        if not separator:
            raise CliError(f"--limit {text}: no value", hint="write it like connections=16")
        values[name] = None if number == "none" else _number(f"--limit {name}", number, 0.0)
    days = _days("--keep-days", given.keep_days)
    if days is not None:
        values["session_days"] = days
    known = ServeLimits.__struct_fields__
    for name in values:
        if name not in known:
            raise CliError(f"{name!r} is not a limit", hint=f"the limits are {', '.join(known)}")
    try:
        limits = msgspec.convert(values, ServeLimits, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"a limit is wrong: {error}") from None
    if limits.session_days is not None and limits.session_days < 1:  # 0 would remove whatever is not in use
        raise ConfigError("the limit session_days must be at least 1; leave it out to keep sessions")
    return limits


def _number(flag: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise CliError(f"{flag} takes a number of 0 or more, not {text!r}", hint=_SEE_HELP)
    return int(number) if number.is_integer() else number


def read_terms(given: Any, folders: Sequence[str] | None) -> SessionTerms:
    """Return the terms of every session.

    Raises:
        CliError: options contradict each other, or a sandbox is required and there is none.
        ConfigError: a rule cannot be understood.
    """
    mode: Literal["off", "auto", "require"] = given.sandbox or "off"
    if given.no_terminal and mode != "off":
        raise CliError(
            f"--no-terminal and --sandbox {mode} contradict each other: commands that dragoman does not run are not in "
            "its sandbox",
            hint="leave out one of them",
        )
    if given.sandbox_write and mode == "off":
        raise CliError("--sandbox-write needs a sandbox", hint="add --sandbox auto or --sandbox require")
    typed = Options(cwd="/", allow=tuple(given.allow), deny=tuple(given.deny), policy_file=given.policy)
    rules = typed_rules(typed)  # one that cannot be understood is refused now, and not with the first session
    texts = {action: tuple(rule.text for rule in rules if rule.action == action) for action in ("allow", "deny", "ask")}
    terms = SessionTerms(
        allow=texts["allow"],
        deny=texts["deny"],
        ask=texts["ask"],
        sandbox=mode,
        closes_denied=given.sandbox != "off",
        writable=tuple(folder("--sandbox-write", path) for path in given.sandbox_write),
        offers_files=not given.no_fs,
        offers_terminals=not given.no_terminal,
    )
    if mode == "require":
        from dragoman.process.sandbox import available

        here = available(folders or ())
        if not here.backends:
            raise CliError(
                here.describe(), hint="--sandbox auto runs without one; see docs/sandbox.md for what is needed"
            )
    return terms


def guard_notes(terms: SessionTerms, folders: Sequence[str] | None, agents: Sequence[AgentEntry]) -> list[str]:
    """Return sentences for the user about what guards the agents."""
    notes = [
        f"dangerously_allow_all ({entry.where}): everything that {entry.name} asks for is allowed"
        for entry in agents
        if entry.allows_all
    ]
    if terms.sandbox == "off":
        return notes
    from dragoman.process.sandbox import available

    here = available(folders or ())
    if not here.backends:
        return [*notes, f"--sandbox auto: commands run without a sandbox: {here.describe()}"]
    return [*notes, f"commands of agents run in a sandbox: {here.backends[0]}"]
