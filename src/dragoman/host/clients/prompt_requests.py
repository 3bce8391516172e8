"""What a client may ask about the prompts of a session: what its agent takes, text for the turn that runs, the order.

Methods of the host's own. Which method takes added text is what the agent announced in `_meta.dragoman.steer` of its
capabilities; an agent without one cannot be steered, and the client gets an error instead of waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import RequestError
from dragoman.host.working.passed_prompts import steering_method

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call

_BLOCKS: Final = ("image", "audio", "embeddedContext")


class PromptRequests:
    """The requests of one client about prompts, besides `session/prompt` itself."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client
        self.methods: dict[str, Callable[[Call], Coroutine[Any, Any, object]]] = {
            "_dragoman/input": self._input,
            "_dragoman/steer": self._steer,
            "_dragoman/reorder": self._reorder,
        }

    async def _input(self, call: Call) -> object:
        """What the agent of a session takes in prompts, and whether text reaches a running turn."""
        session, _ = await self._read(call)
        found: dict[str, bool] = {name: session.agent_can(f"promptCapabilities.{name}") for name in _BLOCKS}
        return {**found, "steer": steering_method(session, self._host) is not None}

    async def _steer(self, call: Call) -> object:
        """Pass text to the turn that runs: `{"accepted": bool}`.

        Nothing of it is kept here. A client that sends it as a prompt with `steer` gets it run when it was not taken.
        """
        session, params = await self._read(call)
        self._client.require("prompt", session.id)
        text = params.get("text")
        if not isinstance(text, str) or not text:
            raise RequestError.invalid_params("text must be a non-empty string", path="$.text")
        method, run = steering_method(session, self._host), session.agent.run
        if method is None:
            raise RequestError.method_not_found(call.method)
        if run is None or not run.is_open or session.prompts.running is None:
            return {"accepted": False}
        answer = await run.agent.request(method, {"sessionId": session.agent_session, "text": text})
        return {"accepted": isinstance(answer, dict) and answer.get("accepted") is True}

    async def _reorder(self, call: Call) -> object:
        """Put prompts that wait into another order: `{"promptIds": [...]}`, all that wait, in their order."""
        session, params = await self._read(call)
        self._client.require("prompt", session.id)
        ids = params.get("promptIds")
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids) or len(set(ids)) != len(ids):
            raise RequestError.invalid_params("promptIds must be a list of different ids", path="$.promptIds")
        return {"promptIds": session.prompts.reorder(ids)}

    async def _read(self, call: Call) -> tuple[HostedSession, dict[str, Any]]:
        params: Any = msgspec.json.decode(call.params or b"{}")
        if not isinstance(params, dict):
            raise RequestError.invalid_params("the params must be an object")
        session = await self._host.find(str(params.get("sessionId")), self._client.visitor)
        if session is None:
            raise RequestError.not_found("there is no such session")
        return session, params
