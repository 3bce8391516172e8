"""What a run of an adapter, or a wrapped function, gets: the prompt, the session, and everything a turn can do.

Owns the calls to the client. `blocking.py` has the same for functions that run in a thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from dragoman.adapters.normal import Passages, text_of
from dragoman.adapters.permission import ask_client, edit_in_form
from dragoman.adapters.tools import decorated, title_of
from dragoman.adapters.values import ALLOW, REJECT
from dragoman.errors import CapabilityError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.display import ToolDisplay, with_display

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.turn_log import ChunkLog
    from dragoman.adapters.values import AskAnswer, AskOption
    from dragoman.agent import TerminalHandle, Turn
    from dragoman.uistream.messages import ToolPart, UIMessage


class AskedCall(Struct, frozen=True):
    """A tool call that permission is asked for, when the source has not announced it with chunks."""

    name: str
    input: Any = None
    title: str | None = None
    display: ToolDisplay | None = None
    """Kind, files and diffs; without it they are guessed from the name and the input."""
    id: str | None = None


class PromptContext:
    """One prompt: what was sent, and everything that can be done until it is answered."""

    def __init__(
        self, turn: Turn, session: AdapterSession, log: ChunkLog, history: Sequence[UIMessage], prompt: UIMessage
    ) -> None:
        self.session = session
        self.prompt = prompt
        """The prompt as the message that is stored."""
        self.blocks: tuple[v1.ContentBlock, ...] = turn.prompt
        """The content blocks of the prompt."""
        self.history = tuple(history)
        """The messages before this prompt; empty unless the adapter has `uses_history`."""
        self.answers: dict[str, AskAnswer] = {}
        """Answers to the questions that the last run ended with, by `approval_id`; empty in the first run."""
        self.meta: Mapping[str, Any] = turn.meta
        self._turn = turn
        self._log = log
        self._offers: dict[str, Sequence[AskOption]] = {}
        self._passages = Passages()
        self._own_calls: set[str] = set()
        """Calls that `ask` announced and whose outcome was not reported."""

    @property
    def text(self) -> str:
        """The prompt as text: embedded texts and links are included, images are not."""
        return text_of(self.blocks)

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def cwd(self) -> str:
        """The folder of the session, absolute."""
        return self.session.cwd

    @property
    def cancelled(self) -> bool:
        """Whether the user cancelled this turn, or the client is gone."""
        return self._turn.cancelled

    @property
    def message(self) -> UIMessage:
        """The answer so far, folded from the chunks of this turn. Its metadata is stored with it."""
        return self._log.message

    @property
    def open_calls(self) -> tuple[ToolPart, ...]:
        """Tool calls of this turn without an outcome."""
        return self._log.open_tools

    @property
    def has_questions(self) -> bool:
        """Whether a permission question waits for an answer; up to date after `settle`."""
        return bool(self._log.open_questions)

    @property
    def error(self) -> str | None:
        """The error that the source reported with a chunk; up to date after `settle`."""
        return self._log.projector.error

    async def settle(self) -> None:
        """Return when everything that was yielded or emitted so far was stored and shown."""
        await self._log.settle()

    # Showing

    async def emit(self, item: Yielded) -> None:
        """Show text or a chunk now; the same as to yield it."""
        for chunk in self._passages.feed(item):
            if not isinstance(chunk, c.Start):
                await self._log.emit(decorated(chunk))
            elif chunk.message_metadata is not UNSET:  # the message itself has begun, with the id it is stored under
                await self._log.emit(c.MessageMetadata(chunk.message_metadata))

    async def plan(self, entries: Iterable[tuple[str, str] | str]) -> None:
        """Show the plan, in place of the one before. An entry is a text, or a text and its status."""
        rows = [(entry, "pending") if isinstance(entry, str) else entry for entry in entries]
        data = {"entries": [{"content": content, "status": status} for content, status in rows]}
        await self._log.emit(c.Data("plan", data, "plan"))

    async def usage(self, used: int, size: int, cost_usd: float | None = None) -> None:
        """Show how many tokens of the context window are in use, and what the session has cost so far."""
        data = {"used": used, "size": size, "cost_usd": cost_usd}
        await self._log.emit(c.Data("usage", data, "usage", transient=True))

    async def notice(self, title: str, description: str = "", severity: str = "info") -> None:
        """Show a notice next to the conversation."""
        data = {"title": title, "description": description or None, "severity": severity}
        await self._log.emit(c.Data("notice", data, transient=True))

    # Asking

    async def ask(self, call: str | AskedCall, options: Sequence[AskOption] | None = None) -> AskAnswer:
        """Ask the user for permission, and wait for the answer. Everything that is not clearly a yes is a no.

        Args:
            call: the id of a tool call that was shown, or one to show now. A string that is not such an id is the
                title of a call.
            options: what the user can choose from; by default to allow or to reject once.
        """
        await self._log.settle()
        tool_call_id = await self._announced(call)
        asking = f"ask_{os.urandom(8).hex()}"
        await self._log.emit(c.ToolApprovalRequest(asking, tool_call_id))
        answer = await self._ask(tool_call_id, options)
        await self._log.emit(_response(asking, answer))
        if not answer.allowed and tool_call_id in self._own_calls:
            await self._log.emit(c.ToolOutputDenied(tool_call_id))
        return answer

    async def result(self, call_id: str, output: Any = None, *, error: str | None = None) -> None:
        """Report the outcome of a call that `ask` announced. Without it the call is completed when the run ends.

        Args:
            call_id: `AskAnswer.call_id`.
            output: text, or any JSON data; see `ToolOutput` for diffs, images and exit codes.
            error: the call failed, for this reason.
        """
        self._own_calls.discard(call_id)
        await self._log.emit(
            c.ToolOutputAvailable(call_id, output) if error is None else c.ToolOutputError(call_id, error)
        )

    def offer(self, approval_id: str, options: Sequence[AskOption]) -> None:
        """Set the options of a question that this run ends with, before or after its chunk is yielded."""
        self._offers[approval_id] = options

    async def form(self, message: str, schema: v1.ElicitationSchema) -> dict[str, Any] | None:
        """Ask the user to fill in a form. None if the user declined, or the client cannot show forms."""
        await self._log.settle()
        try:
            answer = await self._turn.elicit(message, schema)
        except CapabilityError:
            return None
        if not isinstance(answer, v1.AcceptElicitation):
            return None
        return dict(answer.content) if isinstance(answer.content, dict) else {}

    @property
    def has_forms(self) -> bool:
        """Whether the client can show forms."""
        return self.session.offers("elicitation.form")

    # The client's files and terminals, or local ones

    async def read_file(self, path: str | os.PathLike[str], line: int | None = None, limit: int | None = None) -> str:
        """Read a text file: through the client, with unsaved changes, if it offers that; from the disk otherwise."""
        return await self._turn.read_file(path, line, limit)

    async def write_file(self, path: str | os.PathLike[str], text: str) -> None:
        """Write a whole file: through the client if it offers that, otherwise on the disk."""
        await self._turn.write_file(path, text)

    def terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[TerminalHandle]:
        """Run a command for the body of `async with`: in the client's terminal if it has one, else as a child."""
        return self._turn.terminal(command, args, cwd=cwd, env=env)

    # What follows is for `turn.py`

    async def _answer_all(self, questions: Sequence[c.ToolApprovalRequest]) -> dict[str, AskAnswer]:
        """Ask every question that a run ended with, one after the other."""
        self.answers = {}
        for question in questions:
            answer = await self._ask(question.tool_call_id, self._offers.pop(question.approval_id, None))
            self.answers[question.approval_id] = answer
            await self._log.emit(_response(question.approval_id, answer))
        return self.answers

    async def _end_passage(self) -> None:
        for chunk in self._passages.close():
            await self._log.emit(chunk)

    async def _complete_calls(self) -> None:
        """Complete what a run that ended by itself was permitted to do: it is done."""
        await self._end_passage()
        open_calls = {part.tool_call_id for part in self._log.open_tools}
        for call_id in sorted(self._own_calls & open_calls):
            await self._log.emit(c.ToolOutputAvailable(call_id, None))

    async def _ask(self, tool_call_id: str, options: Sequence[AskOption] | None) -> AskAnswer:
        await self._log.settle()
        offered = [option for option in options or (ALLOW, REJECT) if not option.edits or self.has_forms]
        patch = self._log.projector.calls.patch(tool_call_id)
        answer = await ask_client(self._turn.session, patch, offered)
        if answer.option is not None and answer.option.edits:
            return await edit_in_form(self._turn, patch, answer.option)
        return answer

    async def _announced(self, call: str | AskedCall) -> str:
        if isinstance(call, str):
            if call in self._log.projector.calls:
                return call
            call = AskedCall(call, {}, call)
        tool_call_id = call.id or f"call_{os.urandom(8).hex()}"
        self._own_calls.add(tool_call_id)
        await self._end_passage()
        chunk = c.ToolInputAvailable(tool_call_id, call.name, call.input, call.title or UNSET, dynamic=True)
        if call.display is not None:
            chunk = with_display(chunk, call.title or title_of(call.name, call.input), call.display)
        await self._log.emit(decorated(chunk))
        return tool_call_id


def _response(approval_id: str, answer: AskAnswer) -> c.Chunk:
    return c.ToolApprovalResponse(approval_id, answer.allowed, answer.reason or UNSET)
