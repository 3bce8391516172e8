"""Answers `terminal/*` of an agent: the host runs the commands, or the client that the session is delegated to.

Owns the ids of terminals that clients run, which are the host's own, and the log of their output: looked at twice a
second, so that clients get it no more often, and no more than a mebibyte of it. A terminal that was not released ends
with the turn.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from dragoman.client.services import EndsSessions
from dragoman.client.terminals import LocalTerminals
from dragoman.errors import DragomanError, RequestError
from dragoman.host.history.terminal_items import SHOWN_CHARACTERS
from dragoman.host.working.delegation import ClientAway
from dragoman.schema import decode, encode, v1

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dragoman.client import Session
    from dragoman.client.services import Terminals
    from dragoman.host.connection import HostConnection
    from dragoman.host.session import HostedSession
    from dragoman.host.working.delegation import Delegate

_log = logging.getLogger("dragoman.host")
LOGGED_CHARACTERS: Final = 1024 * 1024
LOOK_SECONDS: Final = 0.5


class _Open:
    """A terminal that an agent has."""

    __slots__ = ("delegate", "id", "is_over", "known", "logged", "session", "theirs", "watching")

    def __init__(self, id: str, theirs: str, session: Session, delegate: Delegate | None) -> None:
        self.id = id
        self.theirs = theirs
        self.session = session
        self.delegate = delegate
        self.known = ""
        self.logged = 0
        self.is_over = False
        self.watching: asyncio.Task[None] | None = None


class ServedTerminals:
    """The terminals of one session."""

    def __init__(self, hosted: HostedSession, local: Terminals) -> None:
        self._hosted = hosted
        self._local = local
        self._open: dict[str, _Open] = {}

    # Requests of the agent

    async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str:
        delegate = self._hosted.delegate
        theirs = None
        if delegate is not None and delegate.kind.terminals:
            theirs = await self._create_at(delegate, request)
        if theirs is None:
            delegate, theirs = None, await self._local.create(request, session)
        # One that runs here keeps its id: what is recorded about its command names it. Clients may have equal ids.
        id = theirs if delegate is None else f"terminal-{secrets.token_hex(8)}"
        opened = _Open(id, theirs, session, delegate)
        self._open[opened.id] = opened
        self._hosted.append("terminal", {"terminalId": opened.id, "cwd": request.cwd or session.cwd})
        if delegate is None:
            self._hosted.agent.note_command(id)
        opened.watching = self._hosted.run(self._watch(opened))
        return opened.id

    async def output(self, request: v1.TerminalOutputRequest, session: Session) -> v1.TerminalOutputResponse:
        return await self._look(self._find(request.terminal_id))

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Session
    ) -> v1.WaitForTerminalExitResponse:
        opened = self._find(request.terminal_id)
        if opened.delegate is None:
            return await self._local.wait_for_exit(replace(request, terminal_id=opened.theirs), session)
        found = await self._ask(opened, opened.delegate, "terminal/wait_for_exit")
        answer: v1.WaitForTerminalExitResponse = decode(v1.WaitForTerminalExitResponse, msgspec.json.encode(found))
        return answer

    async def kill(self, request: v1.KillTerminalRequest, session: Session) -> None:
        await self._kill(self._find(request.terminal_id))

    async def release(self, request: v1.ReleaseTerminalRequest, session: Session) -> None:
        await self._release(self._find(request.terminal_id))

    # From the session

    def owned_by(self, client: HostConnection) -> dict[str, str]:
        """Return the terminals that this client runs itself: their ids here, and its own."""
        return {
            id: opened.theirs
            for id, opened in self._open.items()
            if opened.delegate is not None and opened.delegate.is_served_by(client)
        }

    async def release_all(self) -> None:
        """End what the agent did not release, because the turn is over."""
        for opened in list(self._open.values()):
            if opened.delegate is not None and not opened.delegate.is_here:
                self._forget(opened)  # its terminals went with the client
                continue
            try:
                if not opened.is_over:
                    await self._kill(opened)
                await self._release(opened)
            except DragomanError as error:
                _log.warning("a terminal was not released: %s", error)

    def end_session(self, session: Session) -> Coroutine[Any, Any, None]:
        """Log what the terminals of an agent that is gone showed, then end them."""
        opened = list(self._open.values())
        for terminal in opened:
            self._forget(terminal)
        local = self._local.end_session(session) if isinstance(self._local, EndsSessions) else None
        return self._end(opened, local)

    async def _end(self, opened: list[_Open], local: Coroutine[Any, Any, None] | None) -> None:
        if local is not None:
            await local
        for terminal in opened:
            if terminal.delegate is not None and terminal.delegate.is_here:
                with suppress(DragomanError):
                    await self._ask(terminal, terminal.delegate, "terminal/release")

    def _forget(self, opened: _Open) -> None:
        """Forget a terminal that is gone, and log what it showed."""
        self._open.pop(opened.id, None)
        if opened.watching is not None:
            opened.watching.cancel()
        look = self._local.look(opened.theirs) if isinstance(self._local, LocalTerminals) else None
        text = opened.known if look is None else look.text
        self._note(opened, v1.TerminalOutputResponse(text, False), is_last=True)

    # Inside

    def _find(self, id: str) -> _Open:
        opened = self._open.get(id)
        if opened is None:
            raise RequestError.not_found("No such terminal in this session", {"terminalId": id})
        return opened

    async def _create_at(self, delegate: Delegate, request: v1.CreateTerminalRequest) -> str | None:
        params: dict[str, Any] = msgspec.json.decode(encode(request))
        params.pop("sessionId", None)
        try:
            found = await delegate.request("terminal/create", params, may_repeat=False)
        except ClientAway as error:
            if delegate.is_local:
                return None
            raise RequestError.internal_error(f"{error}, and its terminals are on another machine") from None
        answer: v1.CreateTerminalResponse = decode(v1.CreateTerminalResponse, msgspec.json.encode(found))
        return answer.terminal_id

    async def _ask(self, opened: _Open, delegate: Delegate, method: str) -> Any:
        try:
            return await delegate.request(method, {"terminalId": opened.theirs}) or {}
        except ClientAway as error:
            raise RequestError.not_found(f"{error}, with its terminals", {"terminalId": opened.id}) from None

    async def _look(self, opened: _Open) -> v1.TerminalOutputResponse:
        if opened.delegate is None:
            request = v1.TerminalOutputRequest(opened.session.id, opened.theirs)
            return await self._local.output(request, opened.session)
        found = await self._ask(opened, opened.delegate, "terminal/output")
        answer: v1.TerminalOutputResponse = decode(v1.TerminalOutputResponse, msgspec.json.encode(found))
        return answer

    async def _kill(self, opened: _Open) -> None:
        if opened.delegate is not None:
            await self._ask(opened, opened.delegate, "terminal/kill")
        else:
            await self._local.kill(v1.KillTerminalRequest(opened.session.id, opened.theirs), opened.session)

    async def _release(self, opened: _Open) -> None:
        if opened.watching is not None:
            opened.watching.cancel()
        with suppress(DragomanError):
            self._note(opened, await self._look(opened), is_last=True)
        self._open.pop(opened.id, None)
        if opened.delegate is not None:
            await self._ask(opened, opened.delegate, "terminal/release")
        else:
            await self._local.release(v1.ReleaseTerminalRequest(opened.session.id, opened.theirs), opened.session)

    async def _watch(self, opened: _Open) -> None:
        """Log the output as it comes, until the command has ended."""
        try:
            while not opened.is_over:
                await asyncio.sleep(LOOK_SECONDS)
                self._note(opened, await self._look(opened))
        except DragomanError as error:
            _log.debug("terminal %s is not watched any more: %s", opened.id, error)

    def _note(self, opened: _Open, look: v1.TerminalOutputResponse, *, is_last: bool = False) -> None:
        if opened.is_over:
            return
        ended = look.exit_status
        opened.is_over = bool(ended) or is_last
        body: dict[str, Any] = {}
        if look.output != opened.known:
            added = look.output.removeprefix(opened.known) if look.output.startswith(opened.known) else None
            opened.known = look.output
            if added is None:  # its beginning was cut off
                body["text"] = look.output[-SHOWN_CHARACTERS:]
            else:
                body["data"] = added
        size = sum(map(len, body.values()))
        if opened.logged + size > LOGGED_CHARACTERS:
            # The end is worth more than the middle: it is logged when the command has ended.
            body = {"text": look.output[-SHOWN_CHARACTERS:]} if opened.is_over else {}
        opened.logged += size
        if opened.is_over:
            code = ended.exit_code if ended else None
            signal = ended.signal if ended else None
            body["exit"] = {"exitCode": code or None if code != 0 else 0, "signal": signal or None}
        if body:
            self._hosted.append("terminal", {"terminalId": opened.id, **body})
