"""One task of an MCP client: the turn that runs, its progress, and the questions that wait for an answer.

Theory of operation
-------------------
The turn is a task of its own, because a call of an MCP client can end before the turn does: from protocol 2026-07-28 on
a question ends the call, and the client calls again with the answer; and a call may ask not to wait at all. While no
call attends to the task its questions wait, for a limited time; then they are refused. Nothing is ever allowed because
time passed.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.client.question_words import plain_name, plain_text
from dragoman.errors import DragomanError
from dragoman.text.terminal import plain, sentence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.client import Question, Session
    from dragoman.schema import v1
    from dragoman.scripting.tools.task_agent import TaskAgent, TaskProgress, TaskResult

WAITING_SECONDS = 1800.0
"""How long a question waits while no call attends to the task."""
FIELD: Final = "decision"


class TaskQuestion:
    """A permission question, as a form with one field."""

    def __init__(self, agent: str, question: Question) -> None:
        self.id = secrets.token_hex(8)
        self.chosen: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_asked = False
        self._agent = agent
        self._question = question
        names = [sentence(plain_name(option)) for option in question.answers]
        is_clear = all(names) and len(set(names)) == len(names)
        self._values = {name if is_clear else o.option_id: o for name, o in zip(names, self._options, strict=True)}

    @property
    def _options(self) -> Sequence[v1.PermissionOption]:
        return self._question.permission.options

    @property
    def message(self) -> str:
        """What the user is asked."""
        question = self._question
        stated = plain_text(question.words, question.answers)
        return f"{self._agent} asks for permission: {question.words.title}\n{stated}"

    @property
    def schema(self) -> dict[str, object]:
        """The form that MCP clients show."""
        field = {"type": "string", "title": "Decision", "enum": list(self._values)}
        return {"type": "object", "properties": {FIELD: field}, "required": [FIELD]}

    def settle(self, action: str, content: Mapping[str, object] | None) -> None:
        """Take the client's answer. Everything but a clear choice is a refusal."""
        value = (content or {}).get(FIELD) if action == "accept" else None
        option = self._values.get(value) if isinstance(value, str) else None
        if not self.chosen.done():
            self.chosen.set_result(self._refusal() if option is None else option.option_id)

    def _refusal(self) -> str | None:
        kinds = ("reject_once", "reject_always")
        found = sorted((o for o in self._options if o.kind in kinds), key=lambda o: kinds.index(o.kind))
        return found[0].option_id if found else None


class McpTask:
    """A turn of the agent that calls of an MCP client start, attend to, and end."""

    def __init__(self, task_agent: TaskAgent, agent: str, task: str, session_id: str | None) -> None:
        self.state_token = secrets.token_urlsafe(24)
        """With which a client comes back to this task; it cannot be guessed."""
        self.session_id = session_id
        self.progress: TaskProgress | None = None
        self.questions: dict[str, TaskQuestion] = {}
        self.result: TaskResult | None = None
        self.error: str | None = None
        self.changed = asyncio.Event()
        self._agent = agent
        self._attending = 0
        self._timer: asyncio.TimerHandle | None = None
        self._running = asyncio.get_running_loop().create_task(self._run(task_agent, task))

    @property
    def is_over(self) -> bool:
        return self._running.done()

    async def _run(self, task_agent: TaskAgent, task: str) -> None:
        try:
            self.result = await task_agent.run(
                task, session_id=self.session_id, on_progress=self._report, on_session=self._opened
            )
        except (DragomanError, OSError) as error:
            self.error = f"{self._agent} failed: {plain(str(error))}"
        except asyncio.CancelledError:
            self.error = "The task was cancelled."
            raise
        finally:
            self._stop_timer()
            self.wake()

    def _opened(self, session: Session) -> None:
        self.session_id = session.id
        self.wake()

    async def _report(self, progress: TaskProgress) -> None:
        self.progress = progress
        self.wake()

    def wake(self) -> None:
        """Wake the calls that attend to this task, so that they look again: something changed."""
        self.changed.set()
        self.changed = asyncio.Event()

    # Questions

    async def ask(self, question: Question) -> str | None:
        """Ask through a call of the client; gives the id of the option."""
        asked = TaskQuestion(self._agent, question)
        self.questions[asked.id] = asked
        self._watch()
        self.wake()
        try:
            return await asked.chosen
        finally:
            self.questions.pop(asked.id, None)

    def refuse_all(self) -> None:
        """Answer every open question with a refusal."""
        for question in list(self.questions.values()):
            question.settle("cancel", None)

    # Calls

    def __enter__(self) -> McpTask:
        self._attending += 1
        self._watch()
        return self

    def __exit__(self, *_: object) -> None:
        self._attending -= 1
        for question in self.questions.values():
            question.is_asked = False
        self._watch()

    def _watch(self) -> None:
        """Limit the time of questions to which no call attends."""
        self._stop_timer()
        if self.questions and not self._attending and not self.is_over:
            self._timer = asyncio.get_running_loop().call_later(WAITING_SECONDS, self.refuse_all)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cancel(self) -> None:
        """End the turn; the agent has some seconds to do so."""
        if not self._running.done():
            self._running.cancel()

    async def wait_over(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.shield(self._running)
