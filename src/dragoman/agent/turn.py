"""One turn: a prompt, the updates that the agent sends, one answer.

Owns running a prompt handler and the turn's end: exactly one result, `cancelled` if the client cancelled, and nothing
sent in its name afterwards. The methods are implemented in the modules they call, which are loaded with the first call:
every agent needs this class to start, and few use all of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from dragoman.agent.handlers import handled
from dragoman.agent.outgoing import require_stable
from dragoman.agent.updates import UpdateSender
from dragoman.errors import LocalProtocolError, RequestError
from dragoman.schema import UNSET, Unknown, v1

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import TypeGuard

    from dragoman.agent.elicitation import Answer
    from dragoman.agent.handlers import PromptHandler, PromptItem
    from dragoman.agent.permission import Permission
    from dragoman.agent.session import AgentSession
    from dragoman.agent.terminals import TerminalHandle
    from dragoman.agent.tools import ToolCallHandle
    from dragoman.agent.values import ToolKindValue
    from dragoman.rpc import Call

_log = logging.getLogger("dragoman.agent")


def cancelled_result() -> v1.PromptResponse:
    """Return what a cancelled turn answers (rule 196)."""
    return v1.PromptResponse("cancelled")


class Turn(UpdateSender):
    """What a prompt handler gets: the prompt, the session, and a method for everything an agent does.

    After the turn was answered the methods raise LocalProtocolError (CancelledError if it was cancelled); what happens
    between turns goes through `turn.session`.
    """

    __slots__ = ("_call", "_is_over", "_over", "meta", "prompt", "session")

    def __init__(self, session: AgentSession, call: Call, request: v1.PromptRequest) -> None:
        self.session = session
        self.prompt = tuple(request.prompt)
        self.meta: Mapping[str, Any] = request.meta or {}
        self._call = call
        self._is_over = False
        self._over: asyncio.Event | None = None  # made for the first that waits
        self._send_as(session)

    @property
    def text(self) -> str:
        """The text of the prompt: its text blocks, one after the other."""
        return "".join(block.text for block in self.prompt if isinstance(block, v1.TextContent))

    @property
    def cancelled(self) -> bool:
        """Whether the client cancelled this turn or disconnected. The handler's task is cancelled too."""
        return self._call.is_cancelled

    def tool(
        self,
        title: str,
        *,
        kind: ToolKindValue = "other",
        id: str | None = None,
        name: str | None = None,
        locations: Iterable[str | os.PathLike[str] | v1.ToolCallLocation] = (),
        raw_input: Any = UNSET,
        start: bool = True,
    ) -> AbstractAsyncContextManager[ToolCallHandle]:
        """Announce a tool call that lasts as long as the body of `async with`.

        It is in progress while the body runs, then completed; it is failed if the body raises or is cancelled.

        Args:
            title: What the user reads.
            kind: What sort of tool it is, one of the protocol's words; clients choose an icon by it.
            id: The call's id, unique in the session; made if not given.
            name: The tool's name for programs (not stable).
            locations: Files the call works on. A relative path starts at the session's `cwd`.
            raw_input: The tool's arguments, as JSON data.
            start: False leaves the call pending until `ask()` got a yes or `start()` was called. A diff can be shown
                before that, so that the user sees what they permit.
        """
        self._require_running()
        from dragoman.agent.tools import new_tool_call, run_tool

        call = new_tool_call(
            self.session,
            title,
            id=id,
            name=UNSET if name is None else name,
            kind=kind,
            locations=locations,
            raw_input=raw_input,
        )
        return run_tool(self, call, starts=start)

    async def ask(
        self,
        subject: str | ToolCallHandle | v1.ToolCall | v1.ToolCallPatch,
        options: Sequence[v1.PermissionOption] | None = None,
    ) -> Permission:
        """Ask the user for permission. Only an option of an allowing kind is a yes; everything else is a no.

        Args:
            subject: The tool call in question: a running one, one to announce (a ToolCall or just its title), or one
                that was announced before (a ToolCallPatch).
            options: What the user can choose from; by default to allow or to reject once.
        """
        self._require_running()
        from dragoman.agent.tools import ask

        return await ask(self, subject, options)

    async def elicit(
        self,
        message: str,
        schema: v1.ElicitationSchema | None = None,
        *,
        url: str | None = None,
        elicitation_id: str | None = None,
        tool_call: ToolCallHandle | None = None,
    ) -> Answer:
        """Ask the user for input, in a form or on a web page. The answer is accepted, declined or cancelled.

        Args:
            message: What the user is asked.
            schema: The fields of a form. Give this or `url`.
            url: A page that the user is asked to visit.
            elicitation_id: The id of the page, for `RemoteClient.complete_elicitation`; made if not given.
            tool_call: The tool call that needs the input.

        Raises:
            CapabilityError: The client did not advertise this mode.
            ClientError: The client answered with an error.
        """
        self._require_running()
        from dragoman.agent.elicitation import ElicitationScope, elicit

        scope = ElicitationScope(session_id=self.session.id, tool_call_id=UNSET if tool_call is None else tool_call.id)
        return await elicit(self.session.client, scope, message, schema, url, elicitation_id)

    async def read_file(self, path: str | os.PathLike[str], line: int | None = None, limit: int | None = None) -> str:
        """Read a text file: through the client, with unsaved changes, if it offers that; from the disk otherwise.

        Args:
            path: A relative path starts at the session's `cwd`.
            line: The first line to read, counted from 1. Past the end the result is "".
            limit: How many lines to read.

        Raises:
            ClientError: The file cannot be read; code -32002 if it does not exist.
            LocalProtocolError: `line` or `limit` is out of range.
        """
        self._require_running()
        from dragoman.agent import files

        return await files.read_file(self.session, path, line, limit)

    async def write_file(self, path: str | os.PathLike[str], text: str) -> None:
        """Write a whole file: through the client if it offers that, otherwise on the disk. The file may be new.

        Args:
            path: A relative path starts at the session's `cwd`. On the disk a symbolic link is followed.

        Raises:
            ClientError: The file cannot be written.
        """
        self._require_running()
        from dragoman.agent import files

        await files.write_file(self.session, path, text)

    def terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = None,
    ) -> AbstractAsyncContextManager[TerminalHandle]:
        """Run a command for the body of `async with`: in the client's terminal if it offers one, else as a child.

        The command is ended and its terminal released at the end of the body, however that comes about (rule 292).

        Args:
            command: The program. For a shell line name the shell, with `args=["-c", line]` (rule 284).
            cwd: The folder it runs in; by default the session's.
            env: Variables added to the environment.
            output_byte_limit: How much of the end of its output is kept.

        Raises:
            ClientError: The command cannot be started.
        """
        self._require_running()
        from dragoman.agent.terminals import open_terminal

        return open_terminal(self.session, command, args, cwd, env, output_byte_limit)

    async def request(self, method: str, params: object = None) -> Any:
        """Send an extension request to the client and return its answer; see `RemoteClient.request`."""
        self._require_running()
        return await self.session.client.request(method, params)

    async def wait(self) -> None:
        """Wait until the turn was answered.

        For a task that goes on afterwards, through `turn.session`. The handler itself would wait forever.
        """
        if not self._is_over:
            if self._over is None:
                self._over = asyncio.Event()
            await self._over.wait()

    # What follows is the library's side

    async def _run(self, handler: PromptHandler, *, waits: bool, takes_unstable: bool) -> v1.PromptResponse:
        """Wait for its place if it has to, run the handler, and return the turn's one result."""
        turns = self.session._turns
        while waits and turns[0] is not self:  # looked at again: a turn between may have been cancelled
            await turns[0].wait()
        try:
            answer = await handled("session/prompt", self._handle(handler))
            if answer is None:
                answer = v1.PromptResponse("end_turn")
            elif not takes_unstable:
                require_stable(answer)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.cancelled or (task is not None and task.cancelling()):
                raise
            # The handler waited for something that was cancelled elsewhere. Passed on, it would read as if the client
            # had cancelled this turn.
            _log.exception("the prompt handler raised CancelledError without a request to cancel")
            raise RequestError.internal_error() from None
        except Exception:
            if not self.cancelled:
                raise
            # Whatever an aborted model call or tool raised, the client gets what it asked for (rule 197).
            _log.debug("the prompt handler failed while it was cancelled", exc_info=True)
            return cancelled_result()
        # A handler that swallowed its cancellation was cancelled all the same.
        return cancelled_result() if self.cancelled else answer

    def _cancel(self) -> None:
        """End the handler; once, because a second cancellation would interrupt its clean-up."""
        if not self._call.is_cancelled:
            self._call.cancel()

    def _end(self) -> None:
        """End the turn, which was answered: no update is sent for it any more, and the next one may begin."""
        # Closed to the handler's tasks before the next turn is woken, which may begin to send at once.
        self._is_over = True
        self._post = self._refuse
        self.session._turns.remove(self)
        if self._over is not None:
            self._over.set()

    async def _handle(self, handler: PromptHandler) -> v1.PromptResponse | None:
        """Run the handler and return what it answers; None for the usual end."""
        work: Any = handler(self)
        if type(work) is not CoroutineType:  # the usual one is recognised without asking for more
            if hasattr(work, "__aiter__"):
                await self._relay(work)
                return None
            if isinstance(work, Iterator):
                await self._relay(_one_by_one(work))
                return None
            if not isinstance(work, Awaitable):
                raise LocalProtocolError("the handler of session/prompt gave no awaitable; write it as async def")
        answer = await work
        if answer is None:
            return None
        response = v1.PromptResponse(answer) if isinstance(answer, str) else answer
        known = v1.KNOWN_VALUES["StopReason"]
        if not isinstance(response, v1.PromptResponse) or response.stop_reason not in known:
            raise LocalProtocolError(
                f"a prompt handler returns None, a PromptResponse or one of {', '.join(sorted(known))}; not {answer!r}"
            )
        return response

    async def _relay(self, items: AsyncIterator[PromptItem]) -> None:
        try:
            async for item in items:
                if _is_content(item):
                    await self.say(item)
                else:
                    await self.update(item)  # type: ignore[arg-type]  # no content, so an update, or refused as neither
        finally:
            # A generator left in the middle is closed here and now, not when it is collected: its `finally` belongs
            # to the turn.
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

    def _require_running(self) -> None:
        if self._is_over:
            self._refuse(b"")

    def _refuse(self, frame: bytes) -> bool:
        if self.cancelled:
            raise asyncio.CancelledError("this turn was cancelled")
        raise LocalProtocolError("this turn is over; what happens between turns goes through turn.session")


async def _one_by_one(items: Iterator[PromptItem]) -> AsyncIterator[PromptItem]:
    """Yield the items of a plain generator, which is closed with this one."""
    try:
        for item in items:
            yield item
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _is_content(item: PromptItem) -> TypeGuard[str | v1.ContentBlock]:
    if isinstance(item, Unknown):
        return "sessionUpdate" not in item.raw
    return isinstance(item, (str, v1.ContentBlock))
