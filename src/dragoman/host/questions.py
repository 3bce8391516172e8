"""A question of an agent to its user, which every attached client that can show it is asked.

Owns who was asked and whose answer counts. The first choice wins; a client that answers `cancelled`, fails or goes away
is only one fewer to ask, because editors answer `cancelled` when a window closes. `session.py` decides who is
asked, and writes the log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Protocol

from dragoman.errors import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.rpc import Pending

Method = Literal["session/request_permission", "elicitation/create"]


class Asks(Protocol):
    """A client that can be asked."""

    key: str

    def can_answer(self, method: Method, params: dict[str, Any]) -> bool: ...

    def ask_in(
        self, session: str, method: Method, params: dict[str, Any], settle: Callable[[Any, Exception | None], None]
    ) -> Pending | None: ...

    def withdraw(self, pending: Pending) -> None: ...


class HostedQuestion:
    """An open question."""

    def __init__(
        self,
        id: str,
        session: str,
        method: Method,
        params: dict[str, Any],
        turn: int,
        chosen: Callable[[HostedQuestion, dict[str, Any], str], None],
        given_up: Callable[[HostedQuestion], None],
    ) -> None:
        """Make a question that was logged already.

        Args:
            id: The same for every client, and after a reconnect.
            session: As the clients know it.
            params: What the agent sent, without the session.
            turn: In which turn it was asked.
            chosen: Called with the first choice and the key of its client.
            given_up: Called when every client that could answer has declined to.
        """
        self.id = id
        self._session = session
        self.method: Method = method
        self.params = params
        self.turn = turn
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._chosen = chosen
        self._given_up = given_up
        self._asked: dict[str, tuple[Asks, Pending]] = {}
        self._declined: set[str] = set()
        self._is_decided = False

    @property
    def is_open(self) -> bool:
        return not self._is_decided

    def show(self, client: Asks) -> None:
        """Ask a client that has just come, or that the question was just published to."""
        if self._is_decided or client.key in self._asked or not client.can_answer(self.method, self.params):
            return

        def settle(result: Any, error: Exception | None) -> None:
            self._settled(client, result, error)

        pending = client.ask_in(self._session, self.method, {**self.params, "_meta": self._meta()}, settle)
        if pending is not None:
            self._asked[client.key] = (client, pending)

    def left(self, client: Asks) -> None:
        """A client has gone; the question waits for others."""
        self._asked.pop(client.key, None)

    def decide(self) -> None:
        """It is decided: no client is asked any more."""
        self._is_decided = True
        asked, self._asked = self._asked, {}
        for client, pending in asked.values():
            client.withdraw(pending)

    def _settled(self, client: Asks, result: Any, error: Exception | None) -> None:
        self._asked.pop(client.key, None)
        if self._is_decided or isinstance(error, ConnectionClosed):
            return
        choice = None if error is not None else read_choice(self.method, self.params, result)
        if choice is not None:
            self.decide()
            self._chosen(self, choice, client.key)
            return
        self._declined.add(client.key)
        if not self._asked:
            self._given_up(self)

    def _meta(self) -> dict[str, Any]:
        own = self.params.get("_meta")
        return {**(own if isinstance(own, dict) else {}), "dragoman": {"questionId": self.id}}


def read_choice(method: Method, params: dict[str, Any], result: Any) -> dict[str, Any] | None:
    """The answer for the agent if the client made a choice; None if it did not, or chose what was not offered."""
    if not isinstance(result, dict):
        return None
    if method == "elicitation/create":
        return result if result.get("action") in ("accept", "decline") else None
    outcome = result.get("outcome")
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return None
    offered = {option.get("optionId") for option in params.get("options") or () if isinstance(option, dict)}
    return {"outcome": outcome} if outcome.get("optionId") in offered else None


def cancelled_answer(method: Method) -> dict[str, Any]:
    """What the agent is answered when the user made no choice."""
    return {"action": "cancel"} if method == "elicitation/create" else {"outcome": {"outcome": "cancelled"}}
