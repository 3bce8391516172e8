"""One turn of a chat, from its prompt to its end, and the streams that carry it.

Theory of operation
-------------------
`_run` is a task: it connects to the host over a transport in memory, opens the chat's session, sends the prompt, and
adds the chunks of every update to `_body`. It goes on while no stream carries the turn. States: *running*; *waiting*,
while the agent waits for an answer to a permission question; *over*.

A stream begins with `start`, sends the body from some place on, and ends when it has caught up with a turn that waits
or is over. The client answers questions by its next post, whose stream continues at the place where the turn paused. A
client that lost its stream gets the body from the beginning.

A question that arrives is not the end of the stream at once: agents ask several at the same time, and one post of the
client can answer them all.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from dragoman.client import connect
from dragoman.errors import CapabilityError, DragomanError, RequestError
from dragoman.host.serving.ui_stream.posted import ChatRefusal
from dragoman.schema import v1
from dragoman.text.terminal import plain, sentence
from dragoman.transports.memory import memory_pair
from dragoman.uistream import chunks as c
from dragoman.uistream.from_updates import UpdateProjector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from dragoman.client import PromptTurn, RemoteAgent, Session
    from dragoman.host.serving.ui_stream.posted import ChatAnswer, ChatPrompt
    from dragoman.rpc import Transport
    from dragoman.uistream.from_updates import SdkVersion

_SETTLE_SECONDS: Final = 0.05
_STATUSES: Final = {"forbidden": 403, "limit": 429, "busy": 409, "store": 503, "draining": 503, "agent_lost": 409}
DONE: Final = b"data: [DONE]\n\n"
NOT_ASKED: Final = "Clients of version 5 of the AI SDK cannot be asked for permission, so it was refused"


class ChatTurn:
    """One turn of a chat.

    Args:
        message_id: of the message that the turn is for the client.
        version: of the client's AI SDK.
        is_kept: the turn goes on when no stream carries it.
        waiting_seconds: how long it may wait for an answer before it is cancelled.
    """

    def __init__(self, message_id: str, version: SdkVersion, *, is_kept: bool, waiting_seconds: float) -> None:
        self.is_kept = is_kept
        self.state: Literal["running", "waiting", "over"] = "running"
        self.is_cancelled = False
        self._is_sent = False
        self.pause_index = 0
        """Where the stream that follows the answers begins."""
        self._version = version
        self._waiting_seconds = waiting_seconds
        self._projector = UpdateProjector(message_id, version=version)
        self._body: list[c.Chunk] = []
        self._last: c.Chunk = c.Finish()
        self._questions: dict[str, tuple[v1.RequestPermissionRequest, asyncio.Future[str | None]]] = {}
        self._changed = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session: Session | None = None
        self._prompt: PromptTurn | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._readers = 0
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # The agent's side

    async def start(
        self,
        serve: Callable[[Transport], None],
        open_session: Callable[[RemoteAgent], Awaitable[Session]],
        prompt: ChatPrompt,
        sent: Callable[[], None],
    ) -> None:
        """Begin the turn, and return when the prompt is on its way.

        Args:
            serve: lets the host serve the other end of a transport.
            open_session: opens the chat's session.
            prompt: what the agent is sent.
            sent: called once the prompt has reached the agent, or may have.

        Raises:
            ChatRefusal: the session could not be opened, or the agent cannot take the prompt.
        """
        self._task = asyncio.get_running_loop().create_task(self._run(serve, open_session, prompt, sent))
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:  # the client is gone already
            self._task.cancel()
            raise

    async def _run(
        self,
        serve: Callable[[Transport], None],
        open_session: Callable[[RemoteAgent], Awaitable[Session]],
        prompt: ChatPrompt,
        sent: Callable[[], None],
    ) -> None:
        ours, theirs = memory_pair()
        serve(theirs)
        try:
            async with connect(
                ours, name="ui-stream", title="AI SDK client", permission=self._ask, meta={"dragoman": {}}
            ) as agent:
                self._session = session = await open_session(agent)
                self._add([c.Data("session", {"sessionId": session.id}, transient=True)])
                self._prompt = session.prompt(prompt.blocks, meta={"dragoman": {"queue": False}})
                async with self._prompt as running:
                    self._opened.set_result(None)
                    async for update in running:
                        self._note_sent(sent)
                        self._add(self._projector.project(update))
                    self._note_sent(sent)
                    self._end(self._projector.finish(running.result.stop_reason))
        except (DragomanError, OSError) as error:
            if self._opened.done() and _reason(error) not in _STATUSES:
                self._note_sent(sent)
            self._fail(error)
        except asyncio.CancelledError:
            if not self._opened.done():
                self._opened.cancel()
            self._end(self._projector.finish("cancelled"))
            raise

    def _note_sent(self, sent: Callable[[], None]) -> None:
        """Report the prompt as sent. One that the host itself refused is not: it goes along with the next message."""
        if not self._is_sent:
            self._is_sent = True
            sent()

    def _fail(self, error: DragomanError | OSError) -> None:
        text = plain(error.message if isinstance(error, RequestError) else str(error))
        if self._opened.done():
            self._end(self._projector.fail(text))
            return
        status = 400 if isinstance(error, CapabilityError) else _STATUSES.get(_reason(error), 502)
        if isinstance(error, RequestError) and error.code == -32602:
            status = 400
        self._opened.set_exception(ChatRefusal(status, text))
        self._opened.exception()  # a client that is gone does not read it
        self._end([])

    def _add(self, chunks: Sequence[c.Chunk]) -> None:
        if chunks:
            self._body += chunks
            self._wake()

    def _end(self, chunks: Sequence[c.Chunk]) -> None:
        if self.state != "over":
            self._stop_timer()
            self._body += chunks[:-1]
            self._last = chunks[-1] if chunks else c.Abort()
            self.state = "over"
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Permission

    async def _ask(self, request: v1.RequestPermissionRequest, session: Session) -> str | None:
        prompt = self._prompt
        # What the agent sent before it asked is shown before the question; the task that takes it is ready to run.
        while prompt is not None and prompt.unread:  # noqa: ASYNC110
            await asyncio.sleep(0)
        if self._version == 5:
            title = sentence(request.tool_call.title or "a tool call")
            self._add([c.Data("notice", {"severity": "warning", "title": f"{NOT_ASKED}: {title}"})])
            return _option(request, allows=False, reason="")
        id = _question_id(request) or f"question-{len(self._body)}"
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._questions[id] = (request, future)
        self._add(self._projector.ask(id, request.tool_call, request.options))
        self._pause_soon()
        try:
            return await future
        finally:  # answered here, or by another client of the session
            if self._questions.pop(id, None) is not None:
                self._projector.answer(id, allows=True)
                if self.state == "waiting":
                    self._go_on()

    def answer(self, answers: Sequence[ChatAnswer]) -> bool:
        """Pass answers on to the agent; False if no question waits for any of them."""
        found = False
        for answer in answers:
            request, future = self._questions.pop(answer.question_id, (None, None))
            if request is None or future is None:
                continue
            found = True
            self._projector.answer(answer.question_id, allows=answer.allows)
            if not future.done():
                future.set_result(_option(request, allows=answer.allows, reason=answer.reason))
        if found and self.state == "waiting":
            self._go_on()
        return found

    def _go_on(self) -> None:
        self._stop_timer()
        self.state = "running"
        if self._questions:
            self._pause_soon()
        self._wake()

    def _pause_soon(self) -> None:
        if self.state == "running" and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._pause)

    def _pause(self) -> None:
        self._timer = None
        if self.state != "running" or not self._questions:
            return
        *chunks, self._last = self._projector.pause()
        self._body += chunks
        self.pause_index = len(self._body)
        self.state = "waiting"
        self._timer = asyncio.get_running_loop().call_later(self._waiting_seconds, self.cancel)
        self._wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # The client's side

    async def stream(self, index: int) -> AsyncGenerator[bytes, None]:
        """Yield the turn from a place of its body on, as events. A stream that is closed early may end the turn."""
        self._readers += 1
        try:
            for chunk in self._projector.begin():
                yield _event(chunk)
            while True:
                changed, body = self._changed, self._body[index:]
                index += len(body)
                if body:
                    yield b"".join(map(_event, body))
                elif self._is_running:
                    await changed.wait()
                else:
                    break
            yield _event(self._last) + DONE
        finally:
            self._readers -= 1
            if self._is_running and not self._readers and not self.is_kept:
                self.cancel()

    @property
    def _is_running(self) -> bool:
        return self.state == "running"

    def cancel(self) -> None:
        """End the turn; the agent is asked to stop, and every question is answered with a cancel."""
        if self.state == "over":
            return
        self._stop_timer()
        self.state = "running"
        self.is_cancelled = True
        self._wake()
        if self._session is not None:
            self._in_background(self._session.cancel())

    def _in_background(self, work: Awaitable[None]) -> None:
        async def ran() -> None:
            with suppress(DragomanError):
                await work

        task = asyncio.get_running_loop().create_task(ran())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_over(self) -> None:
        """Return when the turn is over."""
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self._task)

    def end(self) -> asyncio.Task[None] | None:
        """Drop the connection, because the server ends. Gives the task that is still running."""
        self._stop_timer()
        if self._task is not None and not self._task.done():
            self._task.cancel()
        return self._task


def _reason(error: Exception) -> str:
    """Return why the host refused something; empty for errors of the agent."""
    data = error.data if isinstance(error, RequestError) else None
    return str(data.get("reason", "")) if isinstance(data, dict) else ""


def _event(chunk: c.Chunk) -> bytes:
    return b"data: %b\n\n" % c.encode_chunk(chunk)


def _question_id(request: v1.RequestPermissionRequest) -> str | None:
    own = (request.meta or {}).get("dragoman")
    found = own.get("questionId") if isinstance(own, dict) else None
    return found if isinstance(found, str) else None


def _option(request: v1.RequestPermissionRequest, *, allows: bool, reason: str) -> str | None:
    """Return the option that an answer means: the one it names in its reason, or the smallest of its kind.

    A name counts only if it agrees with the answer: a reason is free text. None, a cancel, if the agent offers none.
    """
    kinds = ("allow_once", "allow_always") if allows else ("reject_once", "reject_always")
    fitting = [option for option in request.options if option.kind in kinds]
    named = [option for option in fitting if reason in (option.option_id, option.kind)]
    fitting.sort(key=lambda option: kinds.index(option.kind))
    return (named or fitting)[0].option_id if fitting else None
