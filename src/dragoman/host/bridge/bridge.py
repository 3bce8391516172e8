"""The line between an editor and a host, which is opened again whenever it breaks.

Owns the editor's `initialize`, the attempts to connect with their pauses, and when to give up. `traffic.py` decides
what happens to each message.

Theory of operation
-------------------
`_keep_line` is the one task that connects. An attempt opens a transport, sends the `initialize` of the editor with what
makes us known to the host, and then serves until the line ends. The first attempt that fails answers the editor's
`initialize` with the reason; later ones are repeated with growing pauses, and a request of the editor shortens the
pause. A reason that trying again would not change (a token that is not valid any more) fails what is open at once; the
next request of the editor tries again.

An agent that is not a host of ours cannot go on where it was: when its line ends, everything open fails and the bridge
ends, as the agent of an editor does that died.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman._version import __version__
from dragoman.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, ConnectionClosed, DragomanError
from dragoman.host.bridge.line import JsonLine
from dragoman.host.bridge.paths import PathMap
from dragoman.host.bridge.reasons import Reason, explain
from dragoman.host.bridge.traffic import Json, Traffic
from dragoman.host.environment import METHOD, block_for
from dragoman.transports._client_version import VersionedTransport, make_v2_translator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.rpc import Transport

GIVE_UP_SECONDS: Final = 600.0
_HELLO_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 30.0
_LAST_ANSWERS_SECONDS: Final = 5.0
_HELLO_ID: Final = "initialize"
BROKEN: Final = 4


class Bridge:
    """Between one editor and one host."""

    def __init__(
        self,
        editor: Transport,
        open_line: Callable[[], Awaitable[Transport]],
        *,
        url: str,
        agent: str | None = None,
        paths: PathMap | None = None,
        note: Callable[[str], None] = lambda text: None,
        give_up_seconds: float = GIVE_UP_SECONDS,
    ) -> None:
        """Prepare a bridge; `run` opens it.

        Args:
            editor: Leads to the editor.
            open_line: Makes a new connection to the host.
            url: Of the host, for sentences.
            agent: The agent of the host that new sessions use.
            paths: Of the two machines.
            note: Called with sentences for the user.
            give_up_seconds: After so long without a line what is open fails.
        """
        self._url = url
        self._agent = agent
        self._open_line = open_line
        self._note = note
        self._give_up_seconds = give_up_seconds
        self._editor = JsonLine(
            # The host and the bridge speak version 1 with each other, so that the line can break and come back.
            VersionedTransport(editor, lambda: self._hello is not None, lambda: make_v2_translator(keeps_turns=True)),
            on_message=self._from_editor,
            on_end=self._editor_gone,
            on_drained=self._editor_has_room,
            on_malformed=self._malformed,
        )
        self._traffic = Traffic(self._to_editor, paths=paths or PathMap(), agent=agent, note=note)
        self._line: JsonLine | None = None
        self._hello: Json | None = None
        self._hello_id: Any = None
        self._answer: Json | None = None
        self._over = asyncio.Event()
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._give_up: asyncio.TimerHandle | None = None
        self._exit_code = 0
        self._is_ending = False
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Serve the editor until it is gone, or the agent is; gives the exit code."""
        self._editor.start()
        keeper = asyncio.create_task(self._keep_line())
        try:
            await self._over.wait()
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
            self._stop_giving_up()
            if self._closing:
                await asyncio.wait(self._closing)
            await self._editor.close()
        return self._exit_code

    def stop(self) -> None:
        """End it, as if the editor had gone."""
        self._over.set()

    # The editor

    def _from_editor(self, message: Any) -> None:
        if not isinstance(message, dict):
            self._to_editor(_error(None, INVALID_REQUEST, "Invalid request"))
        elif "method" not in message:
            self._traffic.answer_from_editor(message)
        elif "id" not in message:
            if self._answer is not None:
                self._traffic.notification_from_editor(message)
        elif message["method"] == "initialize":
            self._initialize(message)
        elif self._answer is None:
            self._to_editor(_error(message["id"], INVALID_REQUEST, "initialize must come first"))
        else:
            self._traffic.request_from_editor(message)
            self._want_line()
        if self._line is not None and self._line.is_full:
            self._editor.pause()

    def _editor_gone(self, reason: ConnectionClosed) -> None:
        """Finish, as the editor will send no more. What it asked last is still answered; turns go on without it."""
        self._is_ending = True
        if self._is_finished():
            self._over.set()
        else:
            asyncio.get_running_loop().call_later(_LAST_ANSWERS_SECONDS, self._over.set)

    def _is_finished(self) -> bool:
        is_greeting = self._hello is not None and self._answer is None
        return not is_greeting and not self._traffic.is_asking

    def _initialize(self, message: Json) -> None:
        if self._answer is not None:
            self._to_editor({"jsonrpc": "2.0", "id": message["id"], "result": self._answer})
            return
        if self._hello is not None:
            self._to_editor(_error(message["id"], INVALID_REQUEST, "initialize is being answered"))
            return
        params = message.get("params")
        self._hello, self._hello_id = dict(params) if isinstance(params, dict) else {}, message["id"]
        self._wanted.set()

    def _malformed(self) -> None:
        self._to_editor(_error(None, PARSE_ERROR, "Parse error"))

    def _to_editor(self, message: Json) -> None:
        self._editor.send(message)
        if self._is_ending:
            asyncio.get_running_loop().call_soon(self._end_if_finished)
        if self._editor.is_full and self._line is not None:
            self._line.pause()

    def _end_if_finished(self) -> None:
        if self._is_finished():
            self._over.set()

    def _editor_has_room(self) -> None:
        if self._line is not None:
            self._line.resume()

    # The line

    def _want_line(self) -> None:
        """Ask for a line, because the editor waits for something; after a while it gets an error instead."""
        if self._line is None:
            self._wanted.set()
            self._hurry.set()
            if self._give_up is None:
                self._give_up = asyncio.get_running_loop().call_later(self._give_up_seconds, self._gave_up)

    async def _keep_line(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self._wanted.wait()
            was_answered = self._answer is not None
            reason, has_lived = await self._serve_line()
            if self._answer is None:
                self._refuse_editor(reason)
                continue
            if has_lived:
                self._lost(reason)
                pause = _FIRST_PAUSE_SECONDS
            if not self._traffic.is_host:
                self._end(reason)
                return
            if reason.is_final and was_answered:
                self._note(reason.sentence)
                self._stop_giving_up()
                self._traffic.fail_all(reason.sentence, "refused")
                self._wanted.clear()
                continue
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.5, 1.0)):
                    await self._hurry.wait()
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _serve_line(self) -> tuple[Reason, bool]:
        """Serve one connection from its start to its end; gives why it ended, and whether it was ever ready."""
        ended: asyncio.Future[ConnectionClosed] = asyncio.get_running_loop().create_future()
        hello: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

        def on_end(reason: ConnectionClosed) -> None:
            if not ended.done():
                ended.set_result(reason)
            if not hello.done():
                hello.set_exception(reason)

        def on_message(message: Any) -> None:
            if not isinstance(message, dict):
                return
            if message.get("id") == _HELLO_ID and "method" not in message:
                if not hello.done():
                    hello.set_result(message)
                    self._is_ready(line, message)
                return
            self._traffic.from_host(message)

        line: JsonLine | None = None
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                transport = await self._open_line()
                line = JsonLine(transport, on_message=on_message, on_end=on_end, on_drained=self._line_has_room)
                line.start()
                line.send({"jsonrpc": "2.0", "id": _HELLO_ID, "method": "initialize", "params": self._greeting()})
                answer = await hello
        except (DragomanError, OSError, TimeoutError) as error:
            hello.cancel()
            self._let_go(line)
            return explain("no answer in time" if isinstance(error, TimeoutError) else error, self._url), False
        except BaseException:
            self._let_go(line)
            raise
        if "error" in answer:
            self._let_go(line)
            self._answer_failed(answer["error"])
            return Reason(f"{self._url} answered: {_message(answer['error'])}", True), False
        try:
            reason = explain(await ended, self._url)
        finally:
            self._line = None
            self._traffic.line_lost()
            self._let_go(line)
        return reason, True

    def _is_ready(self, line: JsonLine | None, message: Json) -> None:
        """Use a line when `initialize` is answered, in the same step as its arrival: nothing behind it is lost."""
        result = message.get("result")
        if line is None or "error" in message or not isinstance(result, dict):
            return
        self._traffic.is_host = _is_host(result)
        self._line = line
        self._stop_giving_up()
        if self._answer is None:
            self._answer = _for_editor(result)
            self._to_editor({"jsonrpc": "2.0", "id": self._hello_id, "result": self._answer})
        else:
            self._note(f"connected to {self._url} again")
        if self._editor.is_full:
            line.pause()
        block = block_for(_own(result)) if self._url.startswith("unix:") else ""
        if block:
            line.send({"jsonrpc": "2.0", "method": METHOD, "params": {"block": block}})
        self._traffic.line_opened(line.send)

    def _line_has_room(self) -> None:
        self._editor.resume()

    def _let_go(self, line: JsonLine | None) -> None:
        """Close a line in the background: a server that is gone must not hold up the next attempt."""
        if line is not None:
            task = asyncio.get_running_loop().create_task(line.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _greeting(self) -> Json:
        """Return the editor's `initialize`, with what makes us known to a host."""
        params = dict(self._hello or {})
        capabilities = params.get("clientCapabilities")
        capabilities = dict(capabilities) if isinstance(capabilities, dict) else {}
        meta = capabilities.get("_meta")
        meta = dict(meta) if isinstance(meta, dict) else {}
        own = meta.get("dragoman")
        # Text that was joined again after a cut could not be compared with what was passed on before.
        theirs = {name: value for name, value in own.items() if name != "batch"} if isinstance(own, dict) else {}
        bridge = {**theirs, "bridge": __version__}
        capabilities["_meta"] = {**meta, "dragoman": bridge}
        if self._agent is not None:
            above = params.get("_meta")
            params["_meta"] = {**(above if isinstance(above, dict) else {}), "dragoman": {"agent": self._agent}}
        return {**params, "clientCapabilities": capabilities}

    # Failures

    def _refuse_editor(self, reason: Reason) -> None:
        """Send the editor the reason why the first connection failed; it may try again."""
        if self._hello is not None:
            self._note(reason.sentence)
            self._to_editor(_error(self._hello_id, INTERNAL_ERROR, reason.sentence))
        self._hello = None
        self._wanted.clear()

    def _answer_failed(self, error: Any) -> None:
        """Pass on the other end's own error, because it refused `initialize` itself."""
        if self._answer is None and self._hello is not None:
            self._to_editor({"jsonrpc": "2.0", "id": self._hello_id, "error": error})
            self._hello = None

    def _lost(self, reason: Reason) -> None:
        if self._traffic.is_host:
            self._note(f"{reason.sentence}; connecting again")
        if self._traffic.is_waiting and self._give_up is None:
            self._give_up = asyncio.get_running_loop().call_later(self._give_up_seconds, self._gave_up)

    def _gave_up(self) -> None:
        self._give_up = None
        sentence = (
            f"no connection to {self._url} for {self._give_up_seconds / 60:g} minutes; a prompt that reached it may "
            "still run there: load the session when it can be reached again"
        )
        self._note(sentence)
        self._traffic.fail_all(sentence, "no_line")

    def _stop_giving_up(self) -> None:
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None

    def _end(self, reason: Reason) -> None:
        """End when the line to an agent that keeps no sessions is gone, and with it everything that ran there."""
        sentence = f"{reason.sentence}; this agent does not keep sessions without a connection, so its turns ended"
        self._note(sentence)
        self._traffic.fail_all(sentence, "line_lost")
        self._exit_code = BROKEN
        self._over.set()


def _own(result: Json) -> Json:
    capabilities = result.get("agentCapabilities")
    meta = capabilities.get("_meta") if isinstance(capabilities, dict) else None
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    return own if isinstance(own, dict) else {}


def _is_host(result: Json) -> bool:
    """Whether it is a host of ours: the built-in agent has the key, too, but runs no agents."""
    return isinstance(_own(result).get("agents"), list)


def _for_editor(result: Json) -> Json:
    """Return the answer to `initialize` without what only our own clients may use.

    `session/close` above all: editors send it when a tab is closed, and it would end the session for every client.
    """
    if not _is_host(result):
        return result
    capabilities = dict(result["agentCapabilities"])
    meta = {name: value for name, value in capabilities.pop("_meta").items() if name != "dragoman"}
    if meta:
        capabilities["_meta"] = meta
    sessions = capabilities.get("sessionCapabilities")
    if isinstance(sessions, dict):
        capabilities["sessionCapabilities"] = {name: value for name, value in sessions.items() if name != "close"}
    return {**result, "agentCapabilities": capabilities}


def _error(id: Any, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _message(error: Any) -> str:
    return str(error.get("message")) if isinstance(error, dict) else str(error)
