"""The judge as a client of version 2: handshake, sessions, and turns that end by states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.conformance.agent.probe import CLIENT, FULL, AgentProbe, AgentTurn
from dragoman.conformance.agent.prompts import preset, preset_for
from dragoman.conformance.case import Fail, Inconclusive
from dragoman.conformance.probe import is_offered

if TYPE_CHECKING:
    from dragoman.conformance.agent.prompts import Prompts
    from dragoman.conformance.conversation import WireMessage

CAPABILITIES: Final[dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}, "auth": {"terminal": {}}}
INFO: Final = CLIENT


class Version2Turn(AgentTurn):
    """A prompt that was sent, and what came since."""

    async def end(self, within_seconds: float | None = None) -> WireMessage:
        """Wait for the refusal of the prompt, or the idle state that ends its work."""
        seconds = within_seconds or self._probe.settings.turn_seconds
        answer = await self.response(seconds)
        if answer.is_error:
            return answer
        message_id = answer.fields.get("messageId")
        return await self._probe.wait_for(
            lambda message: self.state_of(message) == "idle" and self._is_inserted(message_id, message),
            "idle after the message of the prompt",
            seconds,
            since=self.mark,
        )

    async def response(self, within_seconds: float | None = None) -> WireMessage:
        """Wait for the response to the prompt: it is in the conversation, or refused."""
        seconds = within_seconds or self._probe.settings.turn_seconds
        return await self._probe.answer(self.id, "answer to session/prompt", seconds)

    @property
    def is_over(self) -> bool:
        answers = [message for message in self._probe.incoming[self.mark :] if message.answers(self.id)]
        if not answers:
            return False
        since = self._probe.incoming[answers[0].index :]
        return answers[0].is_error or any(self.state_of(message) == "idle" for message in since)

    def state_of(self, message: WireMessage) -> str | None:
        """Return the state that a message reports for this session; None if it reports none."""
        if not self._is_update(message):
            return None
        update = message.params["update"]
        state = update.get("state") if update.get("sessionUpdate") == "state_update" else None
        return state if isinstance(state, str) else None

    def states(self) -> list[str]:
        """Return the states reported since the prompt."""
        found = (self.state_of(message) for message in self._probe.incoming[self.mark :])
        return [state for state in found if state is not None]

    def _is_inserted(self, message_id: object, idle: WireMessage) -> bool:
        """Whether the prompt's message came before this idle, or running did, after the response."""
        before = self._probe.incoming[self.mark : idle.index]
        shown = [
            message.params["update"].get("messageId")
            for message in before
            if self.has(message, ("user_message", "user_message_chunk"))
        ]
        answered = next((message.index for message in before if message.answers(self.id)), None)
        was_running = answered is not None and any(
            self.state_of(message) == "running" for message in self._probe.incoming[answered : idle.index]
        )
        return message_id in shown or was_running

    async def first(self, what: str, test: Any) -> WireMessage | None:
        """Wait for the first message of the turn that passes the test; None if the turn ended without one."""
        found = await self._probe.wait_for(
            lambda message: test(message) or (self.state_of(message) == "idle" and self.is_over),
            what,
            self._probe.settings.turn_seconds,
            since=self.mark,
        )
        return found if test(found) else None


class Version2Probe(AgentProbe):
    """One connection to an agent of version 2 under judgement."""

    @property
    def prompts(self) -> Prompts:
        if self.settings.prompts is not None:
            return self.settings.prompts
        info = self.answered.get("info")
        return preset(preset_for(str(info.get("name") if isinstance(info, dict) else "")))

    async def initialize(self, capabilities: dict[str, Any] = FULL, **changes: object) -> WireMessage:
        """Initialize in version 2; `changes` replace members of the params, UNSET leaves one out."""
        params = {"protocolVersion": 2, "info": INFO, "capabilities": CAPABILITIES, **changes}
        answer = await self.call("initialize", {name: value for name, value in params.items() if value is not None})
        self.answered = answer.fields
        return answer

    def offers(self, gate: str) -> bool:
        """Whether the agent advertised `gate`, a path in its capabilities such as `session.delete`."""
        return is_offered(self.answered.get("capabilities"), gate)

    def session_params(self, **changes: object) -> dict[str, object]:
        return {"cwd": self.cwd, **changes}

    async def open_session(self, **changes: object) -> WireMessage:
        """Open a session; return the successful answer to `session/new`. Raises: Inconclusive when there is none."""
        answer = await self.call("session/new", self.session_params(**changes))
        if answer.code == -32000 and self.prompts.login:
            await self.call("auth/login", {"methodId": self.prompts.login})
            answer = await self.call("session/new", self.session_params(**changes))
        if answer.code == -32000:
            raise Inconclusive("the agent wants a login first: log in with its own tools and run again")
        if not isinstance(answer.fields.get("sessionId"), str):
            raise Inconclusive(f"session/new did not give a session: {answer}")
        return answer

    def prompt(self, session_id: str, content: str | list[dict[str, Any]], **changes: object) -> Version2Turn:
        """Send a prompt and do not wait."""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        mark = self.mark
        id = self.request("session/prompt", {"sessionId": session_id, "prompt": blocks, **changes})
        return Version2Turn(self, session_id, id, mark)

    async def play(self, action: str, session_id: str) -> Version2Turn:
        """Play a turn that leads to the action, to its end. Raises: Fail when the prompt is refused."""
        turn = self.prompt(session_id, self.text(action))
        end = await turn.end()
        if end.is_error:
            raise Fail(f"the prompt was answered with an error: {end}")
        return turn
