"""The decision about every line between an editor and its agent.

Theory of operation
-------------------
*Lines.* A line is read far enough to know its method and id. What is not judged passes as the bytes it was. A line that
cannot be read with one meaning (`reading.py`) is never passed on: the other side might read a request in it.

*Ids.* Requests keep their ids in both directions. Requests of the guard to the editor have ids with random letters,
which neither side can guess. A response passes only if its request passed before; so an editor cannot answer for the
guard, and neither side can answer twice or in advance. An id that is in use cannot be used for a second request.

*What the agent wants.* `session/request_permission`, `fs/*` and `terminal/*` are answered here (`services.py`), each in
a task of its own; all other requests pass. A request may name a session whose `session/new` is not answered yet: it
waits for that. What no rule decides, and what the editor does better, is passed to the editor under an id of the
guard; the editor's answer is then the answer, error or not, as it would be without a guard.

*Withdrawals.* `$/cancel_request` follows the request it names: to the editor if the request went there, under the id it
has there, and the editor still answers. It may overtake a request that is being judged; then it is sent right after
that request. What is done on this machine, or asked by the guard itself, ends at once.

*Order.* Updates pass before they are looked at, so a slow look delays nothing but the next line. A request that the
editor may get keeps its place: what the agent sends after it waits until it was judged, which takes milliseconds.
Otherwise a question could reach the editor after the end of its turn. Nothing waits for an answer.

Everything but the tasks is synchronous. Does not know descriptors.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw

from dragoman.errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    ConnectionClosed,
    DragomanError,
    RemoteProtocolError,
    RequestError,
)
from dragoman.proxy.guard.reading import read_unambiguous
from dragoman.proxy.guard.services import SERVED, GuardServices
from dragoman.proxy.guard.sessions import GuardedSessions
from dragoman.proxy.guard.turns import GuardedTurns
from dragoman.proxy.guard.watch import SessionWatch
from dragoman.schema import encode
from dragoman.wire import (
    Malformed,
    Notification,
    Request,
    Response,
    refuse,
    write_error,
    write_notification,
    write_request,
    write_result,
)
from dragoman.wire.open_requests import OpenRequests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.client.session import Session
    from dragoman.proxy.guard.plan import GuardPlan
    from dragoman.wire import Frame, Id, Message

_log = logging.getLogger("dragoman.proxy")

_OURS: Final = ("fs/", "terminal/")
# More than any program has open at a time. Beyond it a side floods, and is refused.
_MOST_OPEN: Final = 4096
_MOST_SERVED: Final = 512
_MOST_WAITING: Final = 10_000  # lines that wait for a judgement; beyond it memory matters more than their order
_MOST_NOTES: Final = 20  # sentences about bad lines; a flood of them must not fill the log of the editor
_CANCELLED: Final = b'{"outcome":{"outcome":"cancelled"}}'


class _Named(msgspec.Struct):
    request_id: int | str | None = msgspec.field(name="requestId", default=None)


class _Served(msgspec.Struct, eq=False):
    """A request of the agent that the guard answers.

    `passed_as` is the id under which it was passed to the editor, and `is_asking` whether a question of the guard about
    it is open. `lines` are what the editor gets in its place among the lines of the agent, once it is judged; None if
    nothing waits for that.
    """

    method: str
    task: asyncio.Task[None] | None = None
    has_begun: bool = False
    is_asking: bool = False
    is_withdrawn: bool = False
    is_judged: bool = False
    passed_as: str | None = None
    lines: list[bytes] | None = None


# The request that a task answers. A question is asked by tasks of that task, which see it too.
_served: Final[ContextVar[_Served | None]] = ContextVar("served", default=None)


class GuardExchange:
    """The guard without its connections.

    Args:
        plan: rules, limits, additions.
        to_editor, to_agent: called with whole lines.
        say: shows the user a sentence, on stderr.
        end_commands: ends what the agent started since a moment; None where its processes cannot be reached.
    """

    def __init__(
        self,
        plan: GuardPlan,
        to_editor: Callable[[bytes], None],
        to_agent: Callable[[bytes], None],
        say: Callable[[str], None],
        end_commands: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self._end_commands = end_commands
        self._ending: set[asyncio.Task[None]] = set()
        self._to_editor = to_editor
        self._to_agent = to_agent
        self._say = say
        self._events = plan.events
        self._sessions = GuardedSessions()
        self._watch = SessionWatch(plan, self._sessions, self)
        self._services = GuardServices(plan, self._sessions, self._watch, self)
        self._turns = GuardedTurns(plan, self._sessions, self._watch, self._services, say)
        self._asked_by_editor: OpenRequests[tuple[str, Any]] = OpenRequests(_MOST_OPEN, takes_null=False)
        self._asked_by_agent: OpenRequests[tuple[str, Any]] = OpenRequests(_MOST_OPEN, takes_null=False)
        self._serving: OpenRequests[_Served] = OpenRequests(_MOST_SERVED, takes_null=False)
        self._waiting: deque[bytes | _Served] = deque()  # for the editor: a request that is judged, and lines after it
        prefix = f"dragoman-guard-{os.urandom(12).hex()}-"  # neither side can guess these ids
        self._own: OpenRequests[asyncio.Future[Raw]] = OpenRequests(_MOST_OPEN, prefix=prefix)
        self._notes = 0

    @property
    def waiting_records(self) -> int:
        """How many records of the log are not written yet; 0 if none can be, because then waiting would not help."""
        return 0 if self._events.sink.problem else self._events.sink.waiting

    # Lines

    def from_editor(self, line: Frame) -> None:
        """Take a line of the editor."""
        message = read_unambiguous(line) if isinstance(line, bytes) else refuse(line)
        match message:
            case Request():
                self._editor_request(message, line)
            case Notification():
                self._editor_notification(message, line)
            case Response():
                self._editor_response(message, line)
            case _:
                self._refuse_line("editor", message)

    def from_agent(self, line: Frame) -> None:
        """Take a line of the agent."""
        message = read_unambiguous(line) if isinstance(line, bytes) else refuse(line)
        match message:
            case Notification():
                self._agent_notification(message, line)
            case Request():
                self._agent_request(message, line)
            case Response():
                self._agent_response(message, line)
            case _:
                self._refuse_line("agent", message)

    # The editor

    def _editor_request(self, message: Request, line: Any) -> None:
        refusal = self._asked_by_editor.refusal(message.id)
        if refusal is not None:
            self._to_editor(write_error(message.id, *refusal))
            return
        try:
            params, context = self._turns.begin(message.method, message.params)
        except RequestError as error:
            self._to_editor(_write_error(message.id, error))
            return
        self._asked_by_editor.open(message.id, (message.method, context))
        self._to_agent(line + b"\n" if params is None else write_request(message.id, message.method, params))

    def _editor_notification(self, message: Notification, line: Any) -> None:
        self._to_agent(line + b"\n")
        if message.method == "session/cancel":
            self._turns.cancelled(message.params)

    def _editor_response(self, message: Response, line: Any) -> None:
        own = self._own.close(message.id)
        if own is not None:
            if own.done():  # cancelled in this turn of the loop
                return
            if message.error is not None:
                data = message.error.data
                copy = None if data is UNSET else Raw(bytes(data))  # as it came: this error may go on to the agent
                own.set_exception(RequestError(message.error.code, message.error.message, copy))
            else:
                assert message.result is not None
                own.set_result(Raw(bytes(message.result)))
            return
        passed = self._asked_by_agent.close(message.id)
        if passed is not None:
            self._to_agent(line + b"\n")
            self._services.answered(*passed, message.result)
        elif not self._own.is_own(message.id):  # an answer of the editor may come after a cancel
            self._note("editor", "a response to no open request")

    # The agent

    def _agent_notification(self, message: Notification, line: Any) -> None:
        if message.method == "session/update":
            self._turns.update(message.params, line, self._in_order)
        elif message.method == "$/cancel_request":
            self._cancel_request(message, line)
        elif message.method in SERVED or message.method.startswith(_OURS):
            self._note("agent", f"{message.method} without an id")
        else:
            self._in_order(line + b"\n")

    def _agent_request(self, message: Request, line: Any) -> None:
        is_served, context = message.method in SERVED, None
        if is_served:
            context = self._services.editor_terminal(message.method, message.params)
            is_served = context is None
        elif message.method.startswith(_OURS):
            self._to_agent(write_error(message.id, METHOD_NOT_FOUND, f"Method not found: {message.method[:100]}"))
            return
        passed, serving = self._asked_by_agent, self._serving
        place: OpenRequests[Any] = serving if is_served else passed
        other: OpenRequests[Any] = passed if is_served else serving
        # An id is used once, whether the guard or the editor answers.
        refusal = (other if message.id in other else place).refusal(message.id)
        if refusal is not None:
            self._to_agent(write_error(message.id, *refusal))
        elif not is_served:
            passed.open(message.id, (message.method, context))
            self._in_order(line + b"\n")
        else:
            served = _Served(message.method)
            serving.open(message.id, served)
            # One that waits for its session to be opened has no place: everything else would wait with it.
            if self._services.editor_answers(message.method) and self._services.has_session(message.params):
                served.lines = []
                self._waiting.append(served)
            served.task = asyncio.get_running_loop().create_task(self._answer(message, served))

    async def _answer(self, message: Request, served: _Served) -> None:
        _served.set(served)
        served.has_begun = True
        try:
            if served.is_withdrawn and not self._services.editor_answers(message.method):
                raise asyncio.CancelledError
            line = write_result(message.id, await self._services.answer(message.method, message.params))
        except asyncio.CancelledError:
            if message.method == "session/request_permission":
                line = write_result(message.id, _CANCELLED)
            else:
                line = _write_error(message.id, RequestError.request_cancelled())
        except RequestError as error:
            # If it was withdrawn before the editor got it, that it is not permitted means no more than that.
            was_here = served.is_withdrawn and served.passed_as is None
            line = _write_error(message.id, RequestError.request_cancelled() if was_here else error)
        except RemoteProtocolError as error:
            line = write_error(message.id, error.code, str(error))
        except DragomanError as error:  # rules that cannot be read, for example: nothing is permitted then
            line = write_error(message.id, INTERNAL_ERROR, f"dragoman guard: {error}")
        except Exception:
            _log.exception("the guard failed to answer %s", message.method)
            line = write_error(message.id, INTERNAL_ERROR, "Internal error")
        finally:
            self._serving.close(message.id)
            served.is_judged = True
            self._flush()
        self._to_agent(line)

    def _agent_response(self, message: Response, line: Any) -> None:
        if message.id is None:
            self._in_order(line + b"\n")
            return
        asked = self._asked_by_editor.close(message.id)
        if asked is None:
            self._note("agent", "a response to no open request")
            return
        since = self._turns.left_since(asked[1]) if asked[0] == "session/prompt" else None
        if since is None or self._end_commands is None:
            self._in_order(line + b"\n")
        else:
            # For the editor the turn is over when its commands are: the next prompt may start others.
            response = _Served(asked[0], lines=[line + b"\n"])
            self._waiting.append(response)
            task = asyncio.create_task(self._end_left(self._end_commands, since, response))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        # Behind the response: what this reports is about a turn that has ended.
        self._turns.answered(*asked, message)

    async def _end_left(
        self, end_commands: Callable[[float], Awaitable[None]], since: float, response: _Served
    ) -> None:
        """End what a cancelled turn left running, then let its response pass."""
        try:
            await end_commands(since)
        except Exception:  # the turn ends whatever happens
            _log.exception("what a cancelled turn left running could not be ended")
        finally:
            response.is_judged = True
            self._flush()

    def _cancel_request(self, message: Notification, line: bytes) -> None:
        try:
            named = msgspec.json.decode(message.params or b"{}", type=_Named)
        except msgspec.MsgspecError:
            named = _Named()
        served = self._serving.get(named.request_id)
        if served is None:
            self._in_order(line + b"\n")
            return
        served.is_withdrawn = True
        if served.passed_as is not None:
            self._withdraw(served.passed_as, served)
        elif served.is_asking or (served.has_begun and not self._services.editor_answers(served.method)):
            assert served.task is not None  # it has begun
            served.task.cancel()
        # Else `_answer` has not begun, or judges what the editor is to answer: both look at `is_withdrawn`. A task that
        # is cancelled before its first step would never answer.

    # What is not passed on

    def _refuse_line(self, side: str, bad: Message) -> None:
        assert isinstance(bad, Malformed)
        self._note(side, f"a line that is not a message: {bad.why}")
        asked, answer = (
            (self._asked_by_agent, self._to_agent) if side == "editor" else (self._asked_by_editor, self._in_order)
        )
        if bad.kind == "response":
            # The side that waits for it gets an error, else it would wait forever.
            waiting = None if bad.id is UNSET else asked.close(bad.id)
            own = self._own.close(_id(bad)) if side == "editor" else None
            why = f"the response could not be read: {bad.why}"
            if own is not None and not own.done():
                own.set_exception(RequestError.internal_error(why))
            if waiting is not None:
                answer(write_error(_id(bad), INTERNAL_ERROR, why))
                if side == "agent":
                    self._turns.failed(*waiting)
        elif side == "editor":
            self._to_editor(write_error(_id(bad), bad.code, bad.why))
        elif bad.kind == "request":  # what an agent prints by mistake is not answered
            self._to_agent(write_error(_id(bad), bad.code, bad.why))

    def _note(self, side: str, why: str) -> None:
        self._notes += 1
        if self._notes <= _MOST_NOTES:
            self._say(f"not passed on: the {side} sent {why}")
            self._events.noise(side, why)
            if self._notes == _MOST_NOTES:
                self._say("further lines that are not passed on are not reported")

    # What the guard sends by itself

    async def ask_editor(self, method: str, params: bytes | Raw, *, for_agent: bool = False) -> Raw:
        """Send the editor a request; return its result.

        Args:
            for_agent: It is the agent's own request, which the editor answers: if the agent withdraws it, the editor
                gets the withdrawal, and answers still. Without this it is a question of the guard.

        Raises:
            RequestError: The editor answered with an error.
            ConnectionClosed: The editor is gone.
        """
        served = _served.get()
        if served is not None and served.is_withdrawn and not for_agent:
            raise RequestError.request_cancelled()
        future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        own_id = str(self._own.open_own(future))
        self._in_place(served, write_request(own_id, method, bytes(params)))
        if served is not None and for_agent:
            served.passed_as = own_id
            if served.is_withdrawn:  # while it was judged
                self._withdraw(own_id, served)
        elif served is not None:
            served.is_asking = True
        try:
            return await future
        except asyncio.CancelledError:
            self._withdraw(own_id, served)
            raise
        finally:
            self._own.close(own_id)
            if served is not None:
                served.is_asking = False

    def _withdraw(self, own_id: Id, served: _Served | None) -> None:
        self._in_place(served, write_notification("$/cancel_request", encode({"requestId": own_id})))

    def send_update(self, session: Session, update: object) -> None:
        """Send the editor a session update of the guard's own."""
        self._in_order(write_notification("session/update", encode({"sessionId": session.id, "update": update})))

    def _in_order(self, line: bytes) -> None:
        """Send the editor a line after all that the agent sent before it."""
        if not self._waiting:
            self._to_editor(line)
            return
        self._waiting.append(line)
        if len(self._waiting) > _MOST_WAITING:
            self._flush(is_all=True)

    def _in_place(self, served: _Served | None, line: bytes) -> None:
        """Send the editor a line of the guard in the place of the request that it is about."""
        if served is None or served.lines is None:
            self._to_editor(line)
            return
        served.lines.append(line)
        served.is_judged = True
        self._flush()

    def _flush(self, *, is_all: bool = False) -> None:
        """Send the editor the lines that wait for no request which is still judged; or all of them."""
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, bytes):
                self._to_editor(first)
            elif first.is_judged or is_all:
                for line in first.lines or ():
                    self._to_editor(line)
                first.lines = None
            else:
                return
            self._waiting.popleft()

    def send_cancel(self, session: Session) -> None:
        """Cancel the session's turn."""
        self._to_agent(write_notification("session/cancel", encode({"sessionId": session.id})))

    def say(self, sentence: str) -> None:
        """Show the user a sentence, on stderr."""
        self._say(sentence)

    # Ends

    def editor_ended(self) -> None:
        """End all questions: the editor is gone, and nothing can be asked any more."""
        for _, future in self._own.close_all():
            if not future.done():
                future.set_exception(ConnectionClosed("the editor closed the connection"))
        for session in self._sessions:
            session.note_cancel()

    def agent_ended(self, why: str) -> None:
        """Answer what the editor waits for: the agent is gone."""
        for request_id, (method, context) in self._asked_by_editor.close_all():
            self._in_order(write_error(request_id, INTERNAL_ERROR, why))
            self._turns.failed(method, context)

    async def close(self) -> None:
        """End what is being served, and all terminals."""
        tasks = [*self._ending, *(served.task for _, served in self._serving if served.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._flush(is_all=True)
        self._watch.close()
        self._sessions.close()
        await self._services.close()


def _id(bad: Malformed) -> Id:
    return None if bad.id is UNSET else bad.id


def _write_error(request_id: Id, error: RequestError) -> bytes:
    return write_error(request_id, error.code, error.message, error.data)
