"""A question of an agent to its user, which every attached client that can show it is asked.

Owns who was asked and whose answer counts. The first choice wins; a client that answers `cancelled`, fails or goes away
is only one fewer to ask, because editors answer `cancelled` when a window closes. `session.py` decides who is
asked, and writes the log.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from dragoman.errors import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.host.working.question_details import QuestionDetails
    from dragoman.rpc import Pending

Method = Literal["session/request_permission", "elicitation/create"]


class Asks(Protocol):
    """A client that can be asked."""

    key: str

    @property
    def reads_words(self) -> bool: ...

    def can_answer(self, session: str, method: Method, params: dict[str, Any]) -> bool: ...

    def ask_in(
        self,
        session: str,
        method: Method,
        params: dict[str, Any],
        settle: Callable[[Any, Exception | None], None],
        *,
        child: str | None = None,
    ) -> Pending | None: ...

    def withdraw(self, pending: Pending) -> None: ...

    def may(self, right: str, session: str = "") -> bool: ...

    def shown_in(self, session: str, params: dict[str, Any]) -> dict[str, Any]: ...


class WatchesQuestion(Protocol):
    """What a question reports."""

    def shown(self, question: HostedQuestion, client: Asks) -> None:
        """Take note that a client is asked."""

    def chosen(self, question: HostedQuestion, answer: dict[str, Any], client: Asks) -> None:
        """Take the first choice."""

    def given_up(self, question: HostedQuestion) -> None:
        """Take note that every client that could answer has declined to."""

    def late(self, question: HostedQuestion, answer: dict[str, Any], client: Asks) -> None:
        """Take note of a choice that was made after the question was decided."""


class HostedQuestion:
    """An open question."""

    def __init__(
        self,
        id: str,
        session: str,
        method: Method,
        params: dict[str, Any],
        turn: int,
        watcher: WatchesQuestion,
        *,
        child: str | None = None,
        details: QuestionDetails | None = None,
        plain: dict[str, Any] | None = None,
        asked_at: float = 0.0,
    ) -> None:
        """Make a question that was logged already.

        Args:
            id: The same for every client, and after a reconnect.
            session: As the clients know it.
            params: What the agent sent, without the session.
            turn: In which turn it was asked.
            watcher: Gets what the clients do.
            child: The session of a subagent that it is about, for clients that know such sessions.
            details: What the host adds for clients that know it, see `question_details.py`.
            plain: What other clients are sent: the same words, in the members that every client shows.
            asked_at: Seconds since 1970.
        """
        self.id = id
        self._session = session
        self.method: Method = method
        self.params = params
        self.turn = turn
        self.asked_at = asked_at
        self._child = child
        self._plain = params if plain is None else {**params, **{name: plain[name] for name in ("toolCall", "options")}}
        self._details = {} if details is None else msgspec.to_builtins(details)
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.number = 0
        """Of its event; a client that has not got this far gets it with the event."""
        self._watcher = watcher
        self._asked: dict[str, tuple[Asks, Pending]] = {}
        self._digest = ""
        self._is_decided = False

    @property
    def is_open(self) -> bool:
        return not self._is_decided

    def show(self, client: Asks) -> None:
        """Ask a client that has just come, or that the question was just published to."""
        if (
            self._is_decided
            or client.key in self._asked
            or not client.can_answer(self._session, self.method, self.params)
        ):
            return

        def settle(result: Any, error: Exception | None) -> None:
            self._settled(client, result, error)

        params = {**(self.params if client.reads_words else self._plain), "_meta": self._meta(self.digest)}
        pending = client.ask_in(self._session, self.method, params, settle, child=self._child)
        if pending is not None:
            self._asked[client.key] = (client, pending)
            self._watcher.shown(self, client)

    @property
    def digest(self) -> str:
        """SHA-256 of what is asked: the params with the host's own details, as JSON with sorted names.

        An answer names it, so that it counts for what was shown and for nothing else.
        """
        if not self._digest:
            asked = {"sessionId": self._child or self._session, **self.params, "_meta": self._meta()}
            data = msgspec.json.encode({"method": self.method, "params": asked}, order="deterministic")
            self._digest = hashlib.sha256(data).hexdigest()
        return self._digest

    def described(self, client: Asks) -> dict[str, Any]:
        """Return it for a list, whether the client is attached or not; without a digest for one that cannot answer."""
        may = client.may("answer", self._session)
        params = client.shown_in(self._session, {**self.params, "_meta": self._meta(self.digest if may else "")})
        kind, title = self._words()
        return {
            "questionId": self.id,
            "sessionId": self._session,
            "askedAt": int(self.asked_at * 1000),
            "method": self.method,
            "kind": kind,
            "title": title,
            "params": {"sessionId": self._child or self._session, **params},
            **({"digest": self.digest} if may else {}),
        }

    def _words(self) -> tuple[str, str]:
        """Return the kind of what is asked, and one line about it: the host's own, if it has read the request."""
        if self.method == "elicitation/create":
            return ("url" if self.params.get("mode") == "url" else "form"), str(self.params.get("message") or "")
        words, call = self._details.get("words"), self.params.get("toolCall")
        found = words if isinstance(words, dict) else call if isinstance(call, dict) else {}
        return str(found.get("kind") or "other"), str(found.get("title") or "")

    def choose(self, choice: dict[str, Any], client: Asks) -> bool:
        """Take a choice that a client made by `_dragoman/answer`; False if it is decided already."""
        if self._is_decided:
            self._watcher.late(self, choice, client)
            return False
        self.decide()
        self._watcher.chosen(self, choice, client)
        return True

    def left(self, client: Asks) -> None:
        """Forget a client that has gone; the question waits for others."""
        self._asked.pop(client.key, None)

    def decide(self) -> None:
        """Ask no client any more, because it is decided."""
        self._is_decided = True
        asked, self._asked = self._asked, {}
        for client, pending in asked.values():
            client.withdraw(pending)

    def _settled(self, client: Asks, result: Any, error: Exception | None) -> None:
        self._asked.pop(client.key, None)
        if isinstance(error, ConnectionClosed):
            return
        choice = None if error is not None else read_choice(self.method, self.params, result)
        if self._is_decided:
            if choice is not None:
                self._watcher.late(self, choice, client)
            return
        if choice is not None:
            self.decide()
            self._watcher.chosen(self, choice, client)
        elif not self._asked:
            self._watcher.given_up(self)

    def _meta(self, digest: str = "") -> dict[str, Any]:
        own, added = self.params.get("_meta"), {"digest": digest} if digest else {}
        return {**(own if isinstance(own, dict) else {}), "dragoman": {**self._details, "questionId": self.id, **added}}


def read_choice(method: Method, params: dict[str, Any], result: Any) -> dict[str, Any] | None:
    """Return the answer for the agent; None if the client made no choice, or chose what was not offered."""
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
    """Return what the agent is answered when the user made no choice."""
    return {"action": "cancel"} if method == "elicitation/create" else {"outcome": {"outcome": "cancelled"}}


def chosen_option(answer: dict[str, Any]) -> str | None:
    """Return what was chosen: the id of an option, or what was done with a form."""
    outcome = answer.get("outcome")
    found = outcome.get("optionId") if isinstance(outcome, dict) else answer.get("action")
    return found if isinstance(found, str) else None
