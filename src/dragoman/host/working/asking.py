"""The open questions of a session: permissions and forms that its agent waits for.

Owns which clients a question goes to, the log of questions and answers, and the ids of elicitations. A question waits
until a client makes a choice, or the turn ends. A form that no attached client can show is answered at once: the turn
would hang without a sign.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.host.working.prompts import milliseconds
from dragoman.host.working.questions import HostedQuestion, cancelled_answer, chosen_option
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.host.clients.attachment import Attachment
    from dragoman.host.connection import HostConnection
    from dragoman.host.session import HostedSession
    from dragoman.host.working.question_details import QuestionDetails
    from dragoman.host.working.questions import Method
    from dragoman.store.event_log import LogEvent

FROM: Final = "from"
"""In the event of an answer: the client that chose, the same after it has connected again."""
_ANSWERS: Final = 256  # of one session, for clients that answer late or again
_URLS: Final = 256  # elicitations of one session whose completion may still be reported


def answered_frame(session: str, event: LogEvent) -> bytes:
    """Return the notification of how a question ended; not what was typed into a form."""
    found: dict[str, Any] = msgspec.json.decode(event.body)
    members = {name: value for name, value in found.items() if name not in ("answer", FROM)}
    body = {"sessionId": session, "seq": event.number, **members}
    return write_notification("_dragoman/answered", msgspec.json.encode(body))


class GivenAnswer(NamedTuple):
    """How a question was decided."""

    answer: dict[str, Any]
    option: str | None
    who: str
    """The client that chose, as the log names it; empty, or `agent`, if none did."""
    at: int
    """Milliseconds since 1970."""
    identity: str
    """The client that chose, the same after it has connected again; empty if none did."""


class SessionQuestions:
    """The questions of one session."""

    def __init__(self, session: HostedSession) -> None:
        self._session = session
        self._open: dict[str, HostedQuestion] = {}
        self._answers: OrderedDict[str, GivenAnswer] = OrderedDict()
        self._got_url: OrderedDict[str, list[Any]] = OrderedDict()

    def __iter__(self) -> Iterator[HostedQuestion]:
        return iter([question for question in self._open.values() if question.is_open])

    def items(self) -> list[tuple[str, HostedQuestion]]:
        """Return the open questions by their ids."""
        return [(question.id, question) for question in self]

    def __len__(self) -> int:
        return len(self._open)

    # From the agent

    async def ask(
        self,
        method: Method,
        params: dict[str, Any],
        child: str | None = None,
        details: QuestionDetails | None = None,
        plain: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask every attached client that can show it; the answer for the agent.

        `child` is the session of a subagent that the question is about, by the host's id; `details` are what the host
        knows about it, and `plain` the params for clients that do not read them.

        Cancelled when the agent withdraws the question.
        """
        session = self._session
        if not self._can_be_shown(method, params):
            session.notice("A form was not shown: no attached client can show it.")
            from dragoman.policy.decide import NO_USER

            # The user did not cancel it: an agent that reads this may ask in another way.
            why = {"decidedBy": NO_USER, "reason": "no attached client can show it"}
            return {**cancelled_answer(method), "_meta": {"dragoman": why}}
        if isinstance(params.get("elicitationId"), str):
            params = {**params, "elicitationId": self._elicitation(params["elicitationId"])}
        id = f"q-{secrets.token_hex(8)}"
        number = session.prompts.turn_number
        question = HostedQuestion(
            id,
            session.id,
            method,
            params,
            number,
            self,
            child=child,
            details=details,
            plain=plain,
            asked_at=session.now(),
        )
        self._open[id] = question
        of_child = {} if child is None else {"child": child}
        session.append("question", {"questionId": id, "method": method, "params": params, **of_child})
        try:
            return await question.answer
        except asyncio.CancelledError:
            if question.is_open:
                question.decide()
                self._log_answer(question, cancelled_answer(method), {"by": "", "who": "agent"})
            raise
        finally:
            question.decide()
            self._open.pop(id, None)

    def complete(self, elicitation: str) -> None:
        """Report that what a URL was opened for is done to the clients that got the URL, with the id that they know."""
        id = self._elicitation(elicitation)
        body = msgspec.json.encode({"elicitationId": id})
        for client in self._got_url.pop(id, ()):
            client.peer.post(write_notification("elicitation/complete", body))

    def close_all(self) -> None:
        """Close every question, because the turn is over or cancelled."""
        for question in list(self._open.values()):
            if question.is_open:
                question.decide()
                self._log_answer(question, cancelled_answer(question.method), {"by": ""})

    # From the clients

    def show_to(self, attachment: Attachment) -> None:
        """Show a client that has come what was asked before the place in the log that it has reached."""
        for question in self:
            if question.number and question.number <= attachment.cursor:
                question.show(attachment.client)

    def show(self, id: object, client: HostConnection) -> None:
        """Show a question to a client that has reached its event."""
        question = self._open.get(str(id))
        if question is not None:
            question.show(client)

    def described(self, client: HostConnection) -> list[dict[str, Any]]:
        """Return the open questions for a list, the oldest first; those that are not in the log yet come with it."""
        return [question.described(client) for question in self if question.number]

    def find(self, id: str) -> HostedQuestion | None:
        """Return a question that is not over, decided or not."""
        return self._open.get(id)

    def answer_to(self, id: str) -> GivenAnswer | None:
        """Return how a question was decided; None if it was not, or that is no longer kept."""
        return self._answers.get(id)

    def left(self, client: HostConnection) -> None:
        for question in list(self._open.values()):
            question.left(client)

    # From the log

    def note(self, event: LogEvent) -> None:
        """Pass on a question to the clients, or an answer to the agent, now that it is committed."""
        found: dict[str, Any] = msgspec.json.decode(event.body)
        if event.kind == "answer" and self._session.listed.is_used:
            self._report_answer(event, found)
        question = self._open.get(str(found.get("questionId")))
        if question is None:
            return
        if event.kind == "question":
            question.number = event.number
        elif not question.answer.done():
            question.answer.set_result(found["answer"])

    def _report_answer(self, event: LogEvent, found: dict[str, Any]) -> None:
        """Send how a question ended to the clients that have it in a list only; attached ones get it with the events.

        It is a courtesy: one that reads nothing at this time sees in its list that the question is gone.
        """
        if found.get("questionId") is None:  # a rule decided, and nothing was asked
            return
        for client in self._session.clients_with_row():
            if client.kind.knows_us and client.peer.is_open and not client.peer.outbox.is_full:
                client.peer.post(answered_frame(self._session.id, event))

    # From a question

    def shown(self, question: HostedQuestion, client: Any) -> None:
        id = question.params.get("elicitationId")
        if isinstance(id, str):
            self._got_url.setdefault(id, []).append(client)
            while len(self._got_url) > _URLS:
                self._got_url.popitem(last=False)

    def chosen(self, question: HostedQuestion, answer: dict[str, Any], client: Any) -> None:
        self._log_answer(question, answer, {"by": client.key, "who": client.who, FROM: client.identity})

    def given_up(self, question: HostedQuestion) -> None:
        question.decide()
        self._log_answer(question, cancelled_answer(question.method), {"by": ""})

    def late(self, question: HostedQuestion, answer: dict[str, Any], client: Any) -> None:
        self.note_late(question.id, answer, client, turn=question.turn)

    def note_late(self, id: str, answer: dict[str, Any], client: HostConnection, *, turn: int = 0) -> None:
        """Log a choice that came after the question was decided."""
        body = {"questionId": id, "answer": answer, "by": client.key, "who": client.who}
        self._session.append("late", body, turn=turn)

    # Inside

    def _log_answer(self, question: HostedQuestion, answer: dict[str, Any], by: dict[str, str]) -> None:
        at, option = milliseconds(self._session.now()), chosen_option(answer)
        self._answers[question.id] = GivenAnswer(answer, option, by.get("who", ""), at, by.get(FROM, ""))
        while len(self._answers) > _ANSWERS:
            self._answers.popitem(last=False)
        body = {"questionId": question.id, "answer": answer, "option": option, **by, "at": at}
        self._session.append("answer", body, turn=question.turn)

    def _elicitation(self, id: str) -> str:
        """Return an id that is unique: two agents on one connection may use equal ids (rule 316)."""
        return f"{self._session.id}.{id}"

    def _can_be_shown(self, method: Method, params: dict[str, Any]) -> bool:
        """Whether to ask: a permission waits for a client; a form that none attached can show would hang the turn."""
        clients = [attachment.client for attachment in self._session.attachments]
        clients += self._session.watching_clients()
        return (
            method == "session/request_permission"
            or not clients
            or any(client.can_answer(self._session.id, method, params) for client in clients)
        )
