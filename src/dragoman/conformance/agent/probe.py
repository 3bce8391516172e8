"""The judge as a client: one connection to the agent, and the verbs a case is written with.

Owns playing the client frame by frame: handshake, sessions, turns, and answering what the agent asks. It sends what a
case asks it to, allowed or not. What an answer means is decided by the case.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.conformance.agent.prompts import Prompts, preset, preset_for
from dragoman.conformance.agent.services import JudgeServices
from dragoman.conformance.agent.target import PATIENCE
from dragoman.conformance.case import Inconclusive, Skip
from dragoman.conformance.conversation import Gone, Silence, Test, WireMessage
from dragoman.conformance.probe import Probe, is_offered
from dragoman.trace.entry import End

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from typing import TypeAlias

    from dragoman.conformance.agent.target import AgentLink
    from dragoman.trace.entry import Entry

    Another: TypeAlias = Callable[[], AbstractAsyncContextManager["AgentProbe"]]

FULL: Final[dict[str, Any]] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
"""A client that offers everything."""
BARE: Final[dict[str, Any]] = {}
"""A client that offers nothing."""
SETUPS: Final = {"full": FULL, "bare": BARE}
"""What `Case.shares` may name: an initialized connection of a client with these capabilities."""

CLIENT: Final = {"name": "dragoman-check", "title": "Dragoman conformance", "version": "1"}
_NOTES: Final = "one\ntwo\nthree\n"
# What shows that the agent's model is at work; titles, options and the like may come before it is even asked.
_SPEECH: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")
# How often a file is looked for that some process writes: often enough to be quick, seldom enough to cost nothing.
_LOOK_SECONDS: Final = 0.2


class AgentCheckSettings(msgspec.Struct, frozen=True):
    """How long the judge waits, and which prompts it sends."""

    timeout_seconds: float = 30.0
    """For one answer that needs no model; everything else is a multiple or a part of it."""
    prompts: Prompts | None = None
    """None: by the name the agent gives itself."""

    @property
    def turn_seconds(self) -> float:
        """For a turn, which may need a model."""
        return 4 * self.timeout_seconds

    @property
    def quiet_seconds(self) -> float:
        """How long nothing may come before it counts as silence, once a later request was answered."""
        return min(0.1, self.timeout_seconds / 50)


class AgentTurn:
    """A prompt that was sent, and what came since."""

    def __init__(self, probe: AgentProbe, session_id: str, id: object, mark: int) -> None:
        self.session_id = session_id
        self.id = id
        self.mark = mark
        self._probe = probe

    async def end(self, within_seconds: float | None = None) -> WireMessage:
        """Wait for the response to the prompt, success or error."""
        seconds = within_seconds or self._probe.settings.turn_seconds
        return await self._probe.answer(self.id, "answer to session/prompt", seconds)

    @property
    def is_over(self) -> bool:
        return any(message.answers(self.id) for message in self._probe.incoming[self.mark :])

    def updates(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the session's updates since the prompt, of one kind or all."""
        return [
            update
            for message in self._probe.since(self.mark, self._is_update)
            if (update := message.params["update"]) and kind in (None, update.get("sessionUpdate"))
        ]

    async def first(self, what: str, test: Test) -> WireMessage | None:
        """Wait for the first message of the turn that passes the test; None if the turn ended without one."""
        found = await self._probe.wait_for(
            lambda message: test(message) or message.answers(self.id),
            what,
            self._probe.settings.turn_seconds,
            since=self.mark,
        )
        return None if found.answers(self.id) else found

    async def first_update(self, kind: str | None = None) -> WireMessage:
        """Raises: Inconclusive when the turn ended without one."""
        return await self.need(
            kind or "session/update",
            lambda message: self._is_update(message) and kind in (None, message.params["update"].get("sessionUpdate")),
        )

    async def first_request(self, method: str) -> WireMessage:
        """Raises: Inconclusive when the turn ended without one."""
        return await self.need(method, lambda message: message.is_request and message.method == method)

    async def need(self, what: str, test: Test) -> WireMessage:
        """Raises: Inconclusive when the turn ended without it."""
        found = await self.first(what, test)
        if found is None:
            raise Inconclusive(f"the turn ended without {what}; a prompt that leads to it would help")
        return found

    def sent(self, method: str) -> list[WireMessage]:
        """Return what the agent sent with this method since the prompt."""
        return self._probe.since(self.mark, lambda message: message.method == method)

    def has(self, message: WireMessage, kinds: Container[str]) -> bool:
        """Whether a message is an update of this session, of one of these kinds."""
        return self._is_update(message) and message.params["update"].get("sessionUpdate") in kinds

    def _is_update(self, message: WireMessage) -> bool:
        return (
            message.method == "session/update"
            and message.params.get("sessionId") == self.session_id
            and isinstance(message.params.get("update"), dict)
        )


class Served(NamedTuple):
    """A turn that called the client: the request, and the response to the prompt."""

    turn: AgentTurn
    request: WireMessage
    end: WireMessage


class AgentProbe(Probe):
    """One connection to the agent under judgement."""

    def __init__(self, link: AgentLink, settings: AgentCheckSettings, folder: Path, another: Another) -> None:
        super().__init__(link, "c2a", folder, settings.timeout_seconds)
        self.another = another
        """Opens one more connection to a fresh agent that knows what this one has stored."""
        self.settings = settings
        self.services = JudgeServices(self, str(folder))
        self.answered: dict[str, Any] = {}
        """The result of `initialize`."""
        self.handshake: list[Entry] = []
        """What was exchanged before the first case, if the runner did that."""
        self.on_message = self._on_message
        self._link = link
        self._has_ended_input = False
        self._numbers = count(1)
        (folder / "notes.txt").write_text(_NOTES)

    @property
    def cwd(self) -> str:
        return str(self.folder)

    @property
    def notes(self) -> str:
        """The absolute path of a file with the lines one, two, three."""
        return str(self.folder / "notes.txt")

    @property
    def prompts(self) -> Prompts:
        if self.settings.prompts is not None:
            return self.settings.prompts
        return preset(preset_for(str((self.answered.get("agentInfo") or {}).get("name"))))

    # Asking

    async def initialize(self, capabilities: dict[str, Any] = FULL, **changes: object) -> WireMessage:
        """Initialize; `changes` replace members of the params. The answer may be an error."""
        params = {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": CLIENT, **changes}
        answer = await self.call("initialize", params)
        self.answered = answer.fields
        return answer

    def offers(self, gate: str) -> bool:
        """Whether the agent advertised `gate`, a path in its capabilities such as `sessionCapabilities.close`."""
        return is_offered(self.answered.get("agentCapabilities"), gate)

    def require(self, gate: str) -> None:
        """Raises: Skip unless the agent advertised it."""
        if not self.offers(gate):
            raise Skip(f"the agent does not advertise {gate}")

    # Sessions

    def session_params(self, **changes: object) -> dict[str, object]:
        return {"cwd": self.cwd, "mcpServers": [], **changes}

    async def open_session(self, **changes: object) -> WireMessage:
        """Open a session; return the successful answer to `session/new`.

        Raises: Inconclusive when there is none, because a case of its own judges that.
        """
        answer = await self.call("session/new", self.session_params(**changes))
        if answer.code == -32000 and self.prompts.login:
            await self.call("authenticate", {"methodId": self.prompts.login})
            answer = await self.call("session/new", self.session_params(**changes))
        if answer.code == -32000:
            raise Inconclusive("the agent wants a login first: log in with its own tools and run again")
        if not isinstance(answer.fields.get("sessionId"), str):
            raise Inconclusive(f"session/new did not give a session: {answer}")
        return answer

    async def new_session(self, **changes: object) -> str:
        session_id: str = (await self.open_session(**changes)).fields["sessionId"]
        return session_id

    # Turns

    def prompt(self, session_id: str, content: str | list[dict[str, Any]], **changes: object) -> AgentTurn:
        """Send a prompt and do not wait."""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        mark = self.mark
        id = self.request("session/prompt", {"sessionId": session_id, "prompt": blocks, **changes})
        return AgentTurn(self, session_id, id, mark)

    def text(self, action: str, **values: str) -> str:
        """Return the prompt that leads this agent to the action. Raises: Inconclusive when there is none."""
        # Most agents ask before they make a file; many refuse to overwrite one that they have not read, without asking.
        file = str(self.folder / f"new-{next(self._numbers)}.txt") if action == "ask" else self.notes
        values = {"file": file, "cwd": self.cwd, "command": "echo dragoman", **values}
        text = self.prompts.text(action, **values)
        if text is None:
            raise Inconclusive(f"no prompt is known that makes this agent {action!r}; --prompts can name one")
        return text

    async def act(self, action: str, session_id: str | None = None, **values: str) -> AgentTurn:
        """Begin a turn that leads to the action, in a session of its own unless one is named."""
        text = self.text(action, **values)
        return self.prompt(session_id or await self.new_session(), text)

    async def acted(self, action: str, session_id: str | None = None, **values: str) -> AgentTurn:
        """Play a turn that leads to the action and ends well. Raises: Inconclusive when it ended with an error."""
        turn = await self.act(action, session_id, **values)
        end = await turn.end()
        if end.is_error:
            raise Inconclusive(f"the turn ended with an error: {end}")
        return turn

    async def served(self, action: str, method: str, **values: str) -> Served:
        """Play a turn that leads to the action, calls `method` for it, and ends. Raises: Inconclusive when not."""
        turn = await self.act(action, **values)
        return Served(turn, await turn.first_request(method), await turn.end())

    async def running(self, session_id: str | None = None) -> AgentTurn:
        """Begin a turn that speaks and goes on. Raises: Inconclusive when it is over at once."""
        turn = await self.act("slow", session_id)
        await turn.need("a word", lambda message: turn.has(message, _SPEECH))
        await asyncio.sleep(3 * self.settings.quiet_seconds)
        if turn.is_over:
            raise Inconclusive("the turn was over before anything could be done to it; a longer one would help")
        return turn

    async def in_command(self) -> AgentTurn:
        """Begin a turn in which a command of a minute runs. Raises: Inconclusive when it ended without one.

        Not every agent reports when it starts a command, so the command creates a file, which is looked for.
        It is a script, because some agents refuse a plain `sleep`.
        """
        mark = self.folder / f"runs-{next(self._numbers)}"
        script = mark.with_suffix(".sh")
        script.write_text(f"touch '{mark}'\nsleep 60\n")
        turn = await self.act("wait", command=f"sh {script}")
        for _ in range(int(self.settings.turn_seconds / _LOOK_SECONDS) + 1):
            with suppress(Silence):
                seen = await self.wait_for(
                    lambda message: _runs_command(message) or message.answers(turn.id),
                    "a command that runs",
                    _LOOK_SECONDS,
                    since=turn.mark,
                )
                if seen.answers(turn.id):
                    break
                return turn
            if os.path.exists(mark):  # noqa: ASYNC240  # a glance at a local file
                return turn
        raise Inconclusive("the turn ended without a command that runs; a prompt that leads to it would help")

    def cancel(self, session_id: str) -> None:
        self.notify("session/cancel", {"sessionId": session_id})

    # Quiet and endings

    async def settle(self) -> None:
        """Wait until the agent has read everything that was sent and had a moment to react.

        An agent that does not answer the request this takes is given the time of silence instead.
        """
        with suppress(Silence, Gone):
            await self.answer(self.ping(), "answer to an unknown method", min(2.0, self.settings.timeout_seconds))
        if not self.is_over:
            await asyncio.sleep(self.settings.quiet_seconds)

    async def require_alive(self, after: str) -> None:
        """Raises: Fail (Silence or Gone) when the agent does not answer any more."""
        await self.answer(self.ping(), f"answer to a request after {after}")

    def end_input(self) -> None:
        """Let the agent read the end of its input; its output is still read."""
        self._log_unfinished()
        self.entries.append(End(self.now, "c2a"))
        self._link.end_input()
        self._has_ended_input = True

    @property
    def returncode(self) -> int | None:
        return self._link.returncode

    async def close(self) -> None:
        await self.services.close()
        if not self.is_over and not self._has_ended_input:
            # What an agent prints when its input ends is part of its output.
            self.end_input()
            await self.wait_over(PATIENCE.stdin_seconds)
        await super().close()
        self.log_exit(self._link.returncode)

    def _on_message(self, message: WireMessage) -> None:
        if self.is_provoking and isinstance(session_id := message.fields.get("sessionId"), str):
            self.provoked.add(session_id)
        if message.is_request:
            self.services.serve(message)


def _runs_command(message: WireMessage) -> bool:
    """Whether the agent reports that a command runs: in the client's terminal, or by a status."""
    update = message.params.get("update")
    if message.method == "terminal/create":
        return True
    return isinstance(update, dict) and update.get("status") == "in_progress"
