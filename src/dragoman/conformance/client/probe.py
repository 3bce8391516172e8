"""The judge as an agent: one connection from the client, and the verbs a case is written with.

Owns playing the agent frame by frame: handshake, sessions, turns, and answering whatever else the client asks. It
sends what a case asks it to, allowed or not. What the client's reaction means is decided by the case.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.conformance.agent.services import METHOD_NOT_FOUND, Refusal
from dragoman.conformance.case import Fail, Inconclusive
from dragoman.conformance.conversation import Gone, Silence, WireMessage
from dragoman.conformance.probe import Probe, is_offered

if TYPE_CHECKING:
    from dragoman.conformance.client.baseline import Baseline
    from dragoman.conformance.client.target import ClientLink

FULL: Final[dict[str, Any]] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}
"""An agent that offers everything."""
BARE: Final[dict[str, Any]] = {}
"""An agent that offers nothing."""

AGENT: Final = {"name": "dragoman-check", "title": "Dragoman conformance", "version": "1"}
SESSION: Final = "sess-dragoman-check"
OPENING: Final = ("session/new", "session/load", "session/resume")
PERMISSION: Final = "session/request_permission"
OPTIONS: Final = [
    {"optionId": "yes-1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "yes-2", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no-1", "name": "Reject", "kind": "reject_once"},
]
# What a client may print is shown as evidence, but not all of a flood.
_OUTPUT_BYTES: Final = 64 * 1024


class ClientCheckSettings(msgspec.Struct, frozen=True):
    """How long the judge waits."""

    timeout_seconds: float = 10.0
    """For one answer that needs no user."""

    @property
    def start_seconds(self) -> float:
        """For the client to start and to start its agent."""
        return 3 * self.timeout_seconds

    @property
    def quiet_seconds(self) -> float:
        """How long nothing may come before it counts as silence."""
        return min(0.1, self.timeout_seconds / 10)


class ClientTurn:
    """A prompt of the client that waits for its answer."""

    def __init__(self, probe: ClientProbe, request: WireMessage) -> None:
        self.request = request
        self.session_id = probe.session_id
        self._probe = probe
        self._is_empty = True

    def update(self, kind: str, /, **members: object) -> None:
        """Send a session/update of this kind."""
        self._is_empty = self._is_empty and kind not in ("agent_message_chunk", "tool_call")
        self._probe.update(kind, **members)

    def send_text(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def end(self, stop_reason: str = "end_turn", **members: object) -> None:
        """Answer the prompt; more prompts, if the client has any, are answered by themselves.

        A turn that ends well says a word: clients may take one without any for a failure of the agent.
        """
        if self._is_empty and stop_reason == "end_turn":
            self.send_text("Done.")
        self._probe.hold.discard("session/prompt")
        self._probe.reply(self.request, {"stopReason": stop_reason, **members})

    def fail(self, code: int, message: str) -> None:
        """Answer the prompt with an error."""
        self._probe.hold.discard("session/prompt")
        self._probe.reply_error(self.request, code, message)


class ClientProbe(Probe):
    """One connection from the client under judgement."""

    def __init__(self, link: ClientLink, settings: ClientCheckSettings, folder: Path, baseline: Baseline) -> None:
        super().__init__(link, "a2c", folder, settings.timeout_seconds)
        self.settings = settings
        self.baseline = baseline
        self.link = link
        self.capabilities: dict[str, Any] = {}
        """What the client advertised."""
        self.session_id = SESSION
        self.sessions: list[str] = []
        """Every session the client was given, or has opened again."""
        self.cwd = ""
        """Of the session, as the client named it."""
        self.answers: dict[str, Callable[[WireMessage], object]] = {}
        """Methods whose requests get another answer than a friendly agent's; may raise Refusal."""
        self.hold: set[str] = {"initialize", *OPENING, "session/prompt"}
        """Methods whose requests wait until the case takes them with `expect`."""
        self.asked: dict[str, object] = {}
        """The ids of our last requests, by method."""
        self.trouble = ""
        """Why a shared conversation did not get to its end; empty if it did."""
        # Ids that no client uses itself; a case of its own sends those.
        self._next_id = 1000
        self._taken: set[int] = set()
        self._printed_bytes = 0
        self._scratch: Path | None = None
        self.on_message = self._on_message

    # What the client does

    async def expect(self, *methods: str) -> WireMessage:
        """Wait for the next request with one of these methods.

        Raises: Inconclusive when it does not come: that it should is judged by another case.
        """
        try:
            return await self.next_request(*methods)
        except (Silence, Gone) as ending:
            raise Inconclusive(f"{ending.message}; the client has to open a session and send one prompt") from None

    async def next_request(self, *methods: str) -> WireMessage:
        """Wait for the next request with one of these methods. Raises: Silence, Gone (a failure of the client)."""
        request = await self.wait_for(
            lambda message: message.is_request and message.method in methods and message.index not in self._taken,
            " or ".join(methods),
            self.settings.start_seconds if "initialize" in methods else self.settings.timeout_seconds,
        )
        self._taken.add(request.index)
        return request

    def sent(self, *methods: str) -> list[WireMessage]:
        """Return what the client has sent so far with one of these methods, requests and notifications."""
        return self.since(0, lambda message: message.method in methods)

    def first(self, *methods: str) -> WireMessage:
        """Return the first of them. Raises: Inconclusive when there was none."""
        found = self.sent(*methods)
        if not found:
            raise Inconclusive(self.trouble or f"the client sent no {' or '.join(methods)}")
        return found[0]

    async def initialize(self, capabilities: object = FULL, **changes: object) -> WireMessage:
        """Take and answer the handshake; `changes` replace members of the result."""
        request = await self.expect("initialize")
        self.note_initialize(request)
        self.reply(request, self.initialized(capabilities, **changes))
        return request

    def note_initialize(self, request: WireMessage) -> None:
        found = request.params.get("clientCapabilities")
        self.capabilities = found if isinstance(found, dict) else {}

    @staticmethod
    def initialized(capabilities: object = FULL, **changes: object) -> dict[str, object]:
        """Make a result of `initialize`; a change to UNSET removes the member."""
        result = {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": AGENT, "authMethods": []}
        return {name: value for name, value in {**result, **changes}.items() if value is not msgspec.UNSET}

    async def open_session(self, **changes: object) -> WireMessage:
        """Take and answer the request that opens a session."""
        request = await self.expect(*OPENING)
        self.hold.difference_update(OPENING)
        self.reply(request, self.opened(request, **changes))
        return request

    def opened(self, request: WireMessage, **changes: object) -> dict[str, object]:
        """Make a result of `session/new`, `load` or `resume`."""
        self.cwd = str(request.params.get("cwd"))
        if request.method == "session/new":
            self.session_id = SESSION
            changes = {"sessionId": SESSION, **changes}
        else:
            self.session_id = str(request.params.get("sessionId"))
        self.sessions.append(self.session_id)
        return dict(changes)

    async def prompted(self, capabilities: object = FULL, **session: object) -> ClientTurn:
        """Play everything up to the client's prompt."""
        await self.initialize(capabilities)
        await self.open_session(**session)
        return ClientTurn(self, await self.expect("session/prompt"))

    async def require_prompt(self, after: str, **session: object) -> ClientTurn:
        """Play on after the handshake. Raises: Fail when a client that usually prompts does not."""
        opening = await self._require_next(after, *OPENING)
        self.hold.difference_update(OPENING)
        self.reply(opening, self.opened(opening, **session))
        return await self.require_prompt_only(after)

    async def require_prompt_only(self, after: str) -> ClientTurn:
        """Play on when the session was opened already."""
        return ClientTurn(self, await self._require_next(after, "session/prompt"))

    async def _require_next(self, after: str, *methods: str) -> WireMessage:
        try:
            return await self.next_request(*methods)
        except (Silence, Gone) as ending:
            if not self.baseline.prompts:
                raise Inconclusive(ending.message) from None
            raise Fail(f"after {after} the client does not go on: {ending.message}") from None

    def offers(self, gate: str) -> bool:
        """Whether the client advertised `gate`, a path in its capabilities such as `fs.readTextFile`."""
        return is_offered(self.capabilities, gate)

    # Asking the client

    def update(self, kind: str, /, **members: object) -> None:
        """Send a session/update of this kind for the session."""
        update = {"sessionUpdate": kind, **members}
        self.notify("session/update", {"sessionId": self.session_id, "update": update})

    def request(self, method: str, params: object = msgspec.UNSET, *, id: object = msgspec.UNSET) -> Any:
        self.asked[method] = used = super().request(method, params, id=id)
        return used

    async def ask(self, method: str, **params: object) -> WireMessage:
        """Send a request about the session."""
        return await self.call(method, {"sessionId": self.session_id, **params})

    def permission(self, **changes: object) -> dict[str, object]:
        """Make params of a permission request."""
        tool = {"toolCallId": "call-1", "title": "Read a file", "kind": "read", "status": "pending"}
        return {"sessionId": self.session_id, "toolCall": tool, "options": OPTIONS, **changes}

    # Whether it is well

    async def settle(self) -> None:
        """Wait until the client has read everything that was sent and had a moment to react."""
        if self.baseline.answers_unknown:
            with suppress(Silence, Gone):
                await self.answer(self.ping(), "answer to an unknown method")
        if not self.is_over:
            await asyncio.sleep(self.settings.quiet_seconds)

    async def require_alive(self, after: str) -> None:
        """Raises: Fail when the client does not answer any more."""
        try:
            if self.baseline.answers_unknown:
                await self.answer(self.ping(), f"answer to a request after {after}")
            elif self.baseline.answers_permission:
                id = self.request(PERMISSION, self.permission())
                await self.answer(id, f"answer to a permission request after {after}")
            elif await self.wait_over(self.settings.quiet_seconds):
                raise Gone(f"the connection ended ({self.ended}) after {after}")
        except Gone:
            raise Fail(f"the client ended the connection after {after}") from None

    async def require_well(self, turn: ClientTurn, after: str) -> None:
        """End the turn. Raises: Fail when the client is not as it was after a plain turn."""
        await self.require_alive(after)
        turn.end()
        await self.require_usual_exit(after)

    async def require_usual_exit(self, after: str) -> None:
        """Raises: Fail when a client that usually leaves stays, or leaves in another way."""
        if not self.baseline.leaves:
            return
        code = await self.exit_code()
        if code is None:
            raise Fail(f"after {after} the client did not finish its turn; it usually does, and leaves")
        if code not in (0, self.baseline.exit_code):  # a success where others failed is not a fault
            raise Fail(f"after {after} the client exited with {code}; it usually does with {self.baseline.exit_code}")

    async def exit_code(self) -> int | None:
        """Wait until the client ends by itself; return how, None if it did not in time."""
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                return await self.link.wait_exit()
        except TimeoutError:
            return None

    # What surrounds it

    def take_output(self, data: bytes) -> None:
        """Log what the client printed, up to a limit."""
        self._printed_bytes += len(data)
        if self._printed_bytes <= _OUTPUT_BYTES:
            super().take_output(data)

    def scratch(self) -> Path:
        """Make a folder below the session's cwd, gone after the case. Raises: Inconclusive when there can be none."""
        try:
            self._scratch = Path(tempfile.mkdtemp(prefix=".dragoman-check-", dir=self.cwd))
        except OSError as error:
            raise Inconclusive(f"the judge cannot write in {self.cwd!r}, the session's cwd: {error.strerror}") from None
        return self._scratch

    async def close(self) -> None:
        await super().close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self.log_exit(await self.link.wait_exit())

    def _on_message(self, message: WireMessage) -> None:
        if not message.is_request:
            return
        if message.method in self.hold:
            return
        try:
            answer = self.answers.get(message.method) or _FRIENDLY.get(message.method)
            if answer is None:
                raise Refusal(METHOD_NOT_FOUND, "Method not found")
            if message.method in OPENING:
                self.sessions.append(str(message.params.get("sessionId") or _another(message)))
            self.reply(message, answer(message))
        except Refusal as refusal:
            self.reply_error(message, refusal.code, refusal.message)


def _another(request: WireMessage) -> str:
    """Make the id of one more session."""
    return f"{SESSION}-{request.index}"


def _nothing(request: WireMessage) -> object:
    return {}


_FRIENDLY: Final[dict[str, Callable[[WireMessage], object]]] = {
    "session/new": lambda request: {"sessionId": _another(request)},
    "session/load": _nothing,
    "session/resume": _nothing,
    "session/prompt": lambda request: {"stopReason": "end_turn"},
    "authenticate": _nothing,
    "logout": _nothing,
    "session/list": lambda request: {"sessions": []},
    "session/close": _nothing,
    "session/delete": _nothing,
    "session/set_mode": _nothing,
    "session/set_config_option": lambda request: {"configOptions": []},
}
