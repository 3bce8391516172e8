"""An agent whose version is not known before it answers `initialize`.

A client of version 1 is offered to the agent as it is; an agent that speaks only version 2 refuses that with -32022 and
gets the translated request. A client of version 2 is offered with the members of both versions; an agent that answers
with version 1, or refuses, gets a second `initialize` with version 1 on the same connection, once. After a failed
`initialize`, and before any other request, all measured agents accept another one. An agent that asks for a login
(-32000) has understood the request, so that is passed on. Loaded only if the version has to be found out: it imports
the translators of version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION
from dragoman.versions.frames import OTHER, Frame, Sent, Side, error, items, members
from dragoman.versions.unchanged import Unchanged
from dragoman.versions.version2 import to_v1, to_v2
from dragoman.versions.version2.v2_client import V2ClientV1Agent

if TYPE_CHECKING:
    from dragoman.versions.losses import Lost
    from dragoman.versions.router import Translator

_RETRIED: Final = (INVALID_PARAMS, INVALID_REQUEST)


class NegotiatedAgent:
    """The translator that the answer to `initialize` calls for: it decides which one stands between the two, and then
    is it.

    Args:
        client: The version that the client speaks.
        mark: How the ids of messages begin that an agent of version 1 gave none.
    """

    def __init__(self, client: Literal["1", "2"], mark: str = "dragoman") -> None:
        self._client = client
        self._mark = mark
        self._chosen: Translator | None = None
        self._asked: Frame | None = None
        self._held: list[tuple[Side, Frame]] = []

    @property
    def losses(self) -> tuple[Lost, ...]:
        """What could not be translated so far, each kind once."""
        return () if self._chosen is None else self._chosen.losses

    @property
    def wait_seconds(self) -> float | None:
        """As the chosen translator has it."""
        return None if self._chosen is None else self._chosen.wait_seconds

    def elapsed(self) -> list[Sent]:
        """Return what the chosen translator sends after its time."""
        return [] if self._chosen is None else self._chosen.elapsed()

    def feed(self, side: Side, frame: Frame) -> list[Sent]:
        """Return what to send after `side` sent `frame`; frames that come before the decision wait for it."""
        if self._chosen is not None:
            return self._chosen.feed(side, frame)
        if self._asked is None:
            if side == "client" and frame.get("method") == "initialize" and "id" in frame:
                self._asked = frame
                return [("agent", self._offered(frame))]
            return [(OTHER[side], frame)]
        is_answer = side == "agent" and "method" not in frame and frame.get("id") == self._asked["id"]
        if is_answer:
            return self._decide(self._asked, frame)
        self._held.append((side, frame))
        return []

    def closed(self, side: Side) -> list[Sent]:
        """Return what to send after the connection to `side` was lost."""
        if self._chosen is not None:
            return self._chosen.closed(side)
        if side != "agent" or self._asked is None:
            return []
        reason = error(INTERNAL_ERROR, "the connection to the agent was lost")
        return [("client", {"jsonrpc": "2.0", "id": self._asked["id"], "error": reason})]

    def _offered(self, frame: Frame) -> Frame:
        """Offer the request; one of a client of version 2 with the members that an agent of version 1 reads."""
        if self._client == "1" or not isinstance(frame.get("params"), dict):
            return frame
        params = frame["params"]
        both = {
            **params,
            "clientInfo": to_v2.program(params.get("info")),
            "clientCapabilities": to_v1.client_capabilities(params.get("capabilities")),
        }
        return {**frame, "params": both}

    def _decide(self, asked: Frame, answer: Frame) -> list[Sent]:
        chosen = self._choice(answer)
        held, self._held = self._held, []
        if chosen is None:  # refused for another reason: the client may try again
            self._asked = None
            sent: list[Sent] = [("client", answer)]
        else:
            self._chosen = chosen
            # Once more, in the version that the agent speaks; its answer goes through the translator.
            sent = [("client", answer)] if isinstance(chosen, Unchanged) else chosen.feed("client", asked)
        for side, frame in held:
            sent += self.feed(side, frame)
        return sent

    def _choice(self, answer: Frame) -> Translator | None:
        """Return the translator that the answer calls for; None if it decides nothing."""
        refusal = members(answer.get("error"))
        code: Any = refusal.get("code")
        supported = items(members(refusal.get("data")).get("supported"))
        version = members(answer.get("result")).get("protocolVersion")
        if "error" not in answer and version == int(self._client):
            return Unchanged()
        if self._client == "2" and (
            (version == 1 and "error" not in answer)
            or code in _RETRIED
            or (code == UNSUPPORTED_VERSION and 1 in supported)
        ):
            return V2ClientV1Agent(self._mark)
        if self._client == "1" and code == UNSUPPORTED_VERSION and 2 in supported:
            from dragoman.versions.version2.v1_client import V1ClientV2Agent

            return V1ClientV2Agent()
        return None if "error" in answer else Unchanged()
