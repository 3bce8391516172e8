"""One conversation with an agent, through the local host: what every form of the terminal client shares.

Owns the connection, the session, the prompts on their way, and the open questions. A user interface reads `state`,
`prompts`, `questions` and `phase`, is called when something changed, and calls the methods; it never sees a message of
the protocol. Everything here runs on one event loop.

A lost host is looked for again, and started if it is gone: the session is loaded from its log, with a turn that was
running closed as interrupted. What was typed and not sent belongs to the user interface, and stays.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConnectionClosed, DragomanError, LocalProtocolError, RequestError
from dragoman.host.local.start import NoHost
from dragoman.schema import UNSET, v1
from dragoman.state import SessionState
from dragoman.tui.background import in_turn
from dragoman.tui.local_host.older_blocks import TAIL_EVENTS, is_too_long, read_older
from dragoman.tui.local_host.prompt_requests import read_input, restart_agent, send_order
from dragoman.tui.questions.failures import explain, work_of
from dragoman.tui.questions.open_questions import OpenQuestions
from dragoman.tui.values import AgentInput, TypedPrompt
from dragoman.view.watched import WatchedSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from dragoman.client import RemoteAgent, Session
    from dragoman.state import TimelineItem
    from dragoman.tui.interface import Interface, Opening
    from dragoman.tui.questions.failures import Failure
    from dragoman.tui.values import AskedQuestion, ListedSession, OpenForm, Phase

_RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 2.0)
_MOST_TRIES: Final = 20
_NOT_RUN: Final = ("agent_lost", "agent_start", "store", "servers_missing")
"""Reasons with which the host refuses a prompt that it did not begin."""


class HostedConversation:
    """A session of the local host in which a user works."""

    def __init__(self, opening: Opening, interface: Interface, *, session_id: str | None = None) -> None:
        self.phase: Phase = "connecting"
        self.failure = ""
        """Why the conversation cannot go on; for `failed`."""
        self.state = SessionState()
        self.watched = WatchedSession()
        """What was seen of the session beyond its state: durations, and the output of terminals."""
        self.has_older = False
        """Whether there may be blocks before the first one of the state."""
        self.agent = ""
        """The agent, as the host names it."""
        self.prompts: list[TypedPrompt] = []
        self.asking = OpenQuestions(interface)
        self.is_foreign_turn = False
        """A turn of another client runs."""
        self.session_id = session_id
        self.folder = opening.cwd
        self.started_at: float | None = None
        """When the running turn began, as a value of `time.monotonic`."""
        self._opening = opening
        self._interface = interface
        self._remote: RemoteAgent | None = None
        self._session: Session | None = None
        self._was_lost = False
        self._agent_name: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._is_leaving = False
        self.accepts = AgentInput()
        """What the agent takes in prompts; nothing but text and links until it is known."""
        self.trouble: Failure | None = None
        """What went wrong and was not dealt with yet."""
        self.unsent: list[TypedPrompt] = []
        """Prompts that could not run; they go to the session that is begun instead."""
        self.last_sign = monotonic()
        """When something last came from the agent, as a value of `time.monotonic`."""
        self.prepare: Callable[[Session, str], Awaitable[None]] | None = None
        """Called with each new session and the name of its agent, before its first prompt."""

    # Reading

    @property
    def is_running(self) -> bool:
        """Whether a turn runs in the session."""
        return self.is_foreign_turn or any(prompt.has_started for prompt in self.prompts)

    @property
    def queued(self) -> list[TypedPrompt]:
        """Our prompts that wait for their turn."""
        return [prompt for prompt in self.prompts if not prompt.has_started]

    @property
    def remote(self) -> RemoteAgent | None:
        """The connection to the host, for what the conversation has no method for; None while there is none."""
        return self._remote if self._remote is not None and self._remote.is_open else None

    @property
    def silence_seconds(self) -> float:
        """How long nothing came from the agent in the turn that runs; 0 without a turn, or while the user is asked."""
        if not self.is_running or self.questions or self.forms:
            return 0.0
        return monotonic() - max(self.last_sign, self.started_at or 0.0)

    # The life of the connection

    async def run(self) -> None:
        """Keep the conversation connected until `leave`. Errors become the phase `failed`, and wait for `retry`."""
        tries = 0
        while not self._has_left():
            try:
                # The first frame does not wait for the client library.
                module = await in_turn(import_module, "dragoman.tui.local_host.host_connection")
                async with module.HostLink(self) as remote:
                    self._remote = remote
                    await self._enter(remote)
                    tries = 0
                    await remote.wait_closed()
            except (NoHost, DragomanError, OSError) as error:
                if self._has_left():
                    return
                self._lose(error)
                tries += 1
                is_final = isinstance(error, NoHost | RequestError) or not isinstance(error, ConnectionClosed)
                if is_final or tries > _MOST_TRIES:
                    self._fail(error)
                    await self._wait_for_user()
                    tries = 0
                    continue
            else:
                if self._has_left():
                    return
                self._lose(None)
            await asyncio.sleep(_RETRY_SECONDS[min(tries, len(_RETRY_SECONDS) - 1)])

    def _has_left(self) -> bool:
        return self._is_leaving

    async def leave(self) -> None:
        """End the connection; turns and questions stay with the host."""
        self._is_leaving = True
        self._changed.set()
        if self._remote is not None:
            await self._remote.close()  # first: a request that is cancelled before takes its prompt back
        for task in list(self._tasks):
            task.cancel()

    def retry(self, *, agent: str | None = None, is_new: bool = False) -> None:
        """Go on after `failed`: with the same session, a new one, or another agent."""
        if is_new or agent is not None:
            self.session_id = None
            self._agent_name = agent or self._agent_name
        self._changed.set()

    async def switch(self, row: ListedSession | None, *, agent: str | None = None) -> None:
        """Go to another session of the host, or to a new one if `row` is None."""
        self.session_id = None if row is None else row.session_id
        self.folder = self._opening.cwd if row is None else row.folder
        if agent is not None:
            self._agent_name = agent
        self._forget_work()
        remote = self._remote
        if remote is not None and remote.is_open:
            await remote.close()  # `run` connects again, and enters the other session
        self._changed.set()

    async def _enter(self, remote: RemoteAgent) -> None:
        self._set_phase("opening")
        self.watched = WatchedSession()
        if self.session_id is None:
            params = await in_turn(self._opening.new, self._agent_name)
            self.agent = str(params["meta"]["dragoman"].get("agent", ""))
            self._session = session = await remote.new_session(
                params["cwd"],
                mcp_servers=params["mcp_servers"],
                additional_directories=params.get("additional_directories", ()),
                meta=params["meta"],
            )
            self.session_id = session.id
            if self.prepare is not None:
                await self.prepare(session, self.agent)
        else:
            self._session = session = await remote.load_session(
                self.session_id, self.folder, meta={"dragoman": {"tail": TAIL_EVENTS}}
            )
            self.has_older = True  # perhaps: the answer to the first question for them says it
            await self._look_at_turn(remote)
        self.state = session.state
        self.watched.adopt(session.state)
        self.trouble = None
        self._interface.reloaded()
        _ = self._start(self._follow(session))
        _ = self._start(self._ask_input(remote, session.id))
        self._set_phase("ready")
        if self._was_lost:
            self._was_lost = False
            self._interface.note("the host is back")
        for prompt in list(self.prompts):
            # The same id is the same prompt: one that the host has already is not run again.
            prompt.has_started = False
            prompt.sending = self._start(self._prompt(session, prompt))

    async def _look_at_turn(self, remote: RemoteAgent) -> None:
        """Find out which agent the session has, and whether a turn runs that was begun before we came."""
        from dragoman.tui.local_host.session_rows import read_rows

        for row in await read_rows(remote, 50):
            if row.session_id == self.session_id:
                self.agent = row.agent
                if row.state in ("running", "waiting") and not self.prompts:
                    self._begin_foreign()

    async def _follow(self, session: Session) -> None:
        with suppress(ConnectionClosed):  # `run` meets it, too, and reports it
            async for received in session.updates():
                self.last_sign = monotonic()
                if received.replayed != "yes":
                    self.watched.note(received.update, self.last_sign)
                self._interface.changed()

    async def _ask_input(self, remote: RemoteAgent, session_id: str) -> None:
        self.accepts = await read_input(remote, session_id)
        self._interface.changed()

    def _lose(self, error: Exception | None) -> None:
        had_session = self._session is not None
        self._session = None
        for task in list(self._tasks):
            task.cancel()
        self.asking.lose("the connection was lost")
        self.is_foreign_turn, self.started_at = False, None
        if had_session and self.phase == "ready":
            self._set_phase("lost")
            self._was_lost = True
            self._interface.note("the host is gone; looking for it")

    def _fail(self, error: Exception) -> None:
        self.failure = str(error)
        self.trouble = explain(error, is_fatal=True, agent=self.agent)
        self._set_phase("failed")

    async def _wait_for_user(self) -> None:
        self._changed.clear()
        await self._changed.wait()
        self.failure, self.trouble = "", None
        self._set_phase("connecting")

    def _forget_work(self) -> None:
        self.prompts.clear()
        self.unsent.clear()
        self.asking.lose("another session was opened")
        self.trouble = None
        self.is_foreign_turn, self.started_at = False, None

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase
        self._interface.changed()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Prompts

    def send(self, text: str, blocks: Sequence[v1.ContentBlock] = ()) -> TypedPrompt:
        """Send a prompt. It runs at once, or waits in the host behind the turn that runs."""
        content: list[v1.ContentBlock] = [v1.TextContent(text), *blocks] if text else list(blocks)
        prompt = TypedPrompt(os.urandom(16).hex(), content, text)
        self.prompts.append(prompt)
        if self.phase == "ready":
            self.trouble = None
        if self._session is not None:
            prompt.sending = self._start(self._prompt(self._session, prompt))
        self._interface.changed()
        return prompt

    async def cancel(self) -> None:
        """Cancel the turn that runs."""
        session = self._session
        if session is not None:
            with suppress(ConnectionClosed):
                await session.cancel()

    def take_back(self, prompt: TypedPrompt) -> bool:
        """Take a queued prompt back; False if its turn runs already."""
        if prompt.has_started or prompt not in self.prompts:
            return False
        self.prompts.remove(prompt)
        if prompt.sending is not None:
            prompt.sending.cancel()  # the host gets `$/cancel_request`, which ends this prompt only
        self._interface.changed()
        return True

    async def steer(self, text: str) -> bool:
        """Pass text to the turn that runs; False if there is none, or it does not take it.

        Raises: RequestError, ConnectionClosed.
        """
        remote = self.remote
        if remote is None or self._session is None or not self.accepts.steer or not self.is_running:
            return False
        found = await remote.request("_dragoman/steer", {"sessionId": self._session.id, "text": text})
        return isinstance(found, dict) and found.get("accepted") is True

    def reorder(self, wanted: Sequence[TypedPrompt]) -> asyncio.Task[None]:
        """Put our prompts that wait into another order: here at once, in the host when the task is done."""
        waiting = [prompt for prompt in dict.fromkeys(wanted) if prompt in self.queued]
        waiting += [prompt for prompt in self.queued if prompt not in waiting]
        self.prompts = [prompt for prompt in self.prompts if prompt.has_started] + waiting
        self._interface.changed()
        return self._start(self._send_order())

    async def _send_order(self) -> None:
        if self.remote is not None and self._session is not None:  # else they are sent in this order later
            problem = await send_order(self.remote, self._session.id, lambda: [prompt.id for prompt in self.queued])
            if problem:
                self._interface.note(problem)

    async def _prompt(self, session: Session, prompt: TypedPrompt) -> None:
        assert self._remote is not None
        own = {"promptId": prompt.id, "queue": True}
        params = v1.PromptRequest(session.id, prompt.blocks, meta={"dragoman": own})

        # Noted in the order of the wire: this task goes on later than updates of the next turn are folded.
        def ended(answer: v1.PromptResponse) -> None:
            self._prompt_ended(prompt, answer.stop_reason, usage=answer.usage)

        def failed(error: Exception) -> None:
            if not isinstance(error, ConnectionClosed):  # then it is sent again under its id, or its outcome is found
                self._prompt_ended(prompt, None, error)

        with suppress(DragomanError):
            await self._remote.call("session/prompt", params, on_result=ended, on_error=failed)

    def _prompt_ended(
        self, prompt: TypedPrompt, stop_reason: str | None, error: Exception | None = None, usage: Any = UNSET
    ) -> None:
        if prompt not in self.prompts:
            return
        if not prompt.has_started:
            self._begin(prompt)
        seconds = None if self.started_at is None else monotonic() - self.started_at
        self.prompts.remove(prompt)
        self.started_at = None
        with suppress(LocalProtocolError):
            turn = self.state.end_turn(stop_reason, usage)
            self.watched.end_turn(turn.index, monotonic())
        if error is not None:
            data = getattr(error, "data", None)
            unfinished = data.get("unfinished", ()) if isinstance(data, dict) else ()
            self.trouble = explain(
                error, is_fatal=False, agent=self.agent, work=work_of(self.state, seconds, unfinished)
            )
            if isinstance(data, dict) and data.get("reason") in _NOT_RUN:
                self.unsent.append(prompt)
        self._interface.ended(prompt, stop_reason, "" if error is None else str(error))
        self._interface.changed()

    def _begin(self, prompt: TypedPrompt) -> None:
        prompt.has_started = True
        self.started_at = monotonic()
        with suppress(LocalProtocolError):
            self.watched.begin_turn(self.state.begin_turn(prompt.blocks).index, self.started_at)

    def _begin_foreign(self) -> None:
        # In a turn of ours it is text that was added to the turn.
        if not self.is_foreign_turn and not any(prompt.has_started for prompt in self.prompts):
            self.is_foreign_turn = True
            self.started_at = monotonic()

    def note_child(self, session_id: str, update: v1.SessionUpdate) -> None:
        """A subagent's session went on."""
        self.watched.note_child(session_id, update)
        self._interface.changed()

    # Messages of the host's own

    def note(self, text: str) -> None:
        """The host has a sentence for the user."""
        self._interface.note(text)

    def turn_started(self, params: dict[str, Any]) -> None:
        """The host began a prompt, of ours or of another client."""
        self.last_sign = monotonic()
        own = next((prompt for prompt in self.prompts if prompt.id == params.get("promptId")), None)
        if own is None:
            self._begin_foreign()
        elif not own.has_started:
            self._begin(own)
        self._interface.changed()

    def turn_ended(self, params: dict[str, Any]) -> None:
        """A turn of another client ended."""
        self.is_foreign_turn, self.started_at = False, None
        reason = params.get("stopReason")
        self._interface.ended(None, reason if isinstance(reason, str) else None, "")
        self._interface.changed()

    # Questions

    @property
    def questions(self) -> list[AskedQuestion]:
        """Permission requests that wait for an answer, the oldest first."""
        return self.asking.questions

    @property
    def forms(self) -> list[OpenForm]:
        """Forms and pages that wait for the user, the oldest first."""
        return self.asking.forms

    def answer(self, question: AskedQuestion, option_id: str | None) -> None:
        """Answer a question with an option, or with none."""
        self.asking.answer(question, option_id)

    def reject(self, question: AskedQuestion, reason: str) -> bool:
        """Reject a question and say why: with the answer if the agent reads that, otherwise with the next prompt.

        False if the agent offers no option to reject it this time.
        """
        if not self.asking.reject(question, reason):
            return False
        if not question.details.get("readsReasons"):
            _ = self.send(reason)
        return True

    # Failures

    async def restart(self) -> None:
        """Start the agent again with this session. Raises: RequestError, ConnectionClosed."""
        if self.phase == "failed" or self._remote is None:
            self.retry()
            return
        self._interface.note("starting the agent again")
        self.trouble = await restart_agent(self._remote, self.session_id, self.agent or "")
        self.last_sign = monotonic()
        self._interface.note("the agent was started again" if self.trouble is None else self.trouble.headline)

    async def begin_again(self, agent: str | None = None) -> None:
        """Begin a new session; prompts that could not run in this one are sent there."""
        kept = list(self.unsent)
        self.unsent.clear()
        if self.phase == "failed":
            self.retry(agent=agent, is_new=True)
        else:
            await self.switch(None, agent=agent)
        for prompt in kept:
            _ = self.send(prompt.text, [block for block in prompt.blocks if not isinstance(block, v1.TextContent)])

    def dismiss_trouble(self) -> None:
        """The user has read it."""
        self.trouble = None
        self.last_sign = monotonic()
        self._interface.changed()

    # Settings

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode of the session. Raises: RequestError, ConnectionClosed."""
        if self._session is not None:
            await self._session.set_mode(mode_id)
            self._interface.changed()

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Change an option of the session. Raises: RequestError, ConnectionClosed."""
        if self._session is not None:
            await self._session.set_config_option(option_id, value)
            self._interface.changed()

    async def older_items(self) -> list[TimelineItem]:
        """The next page of what was before the state began, oldest first. Raises: RequestError, ConnectionClosed."""
        remote = self.remote
        if remote is None or self.session_id is None or not self.has_older:
            return []
        page, self.has_older = await read_older(remote, self.session_id)
        self.watched.adopt(page)
        return list(page.timeline)

    async def shorten(self) -> None:
        """Open the session again, with its end only: what was before stays with the host."""
        if is_too_long(self) and self._remote is not None:
            self._set_phase("opening")
            await self._remote.close()  # `run` connects again

    async def sessions(self) -> list[ListedSession]:
        """The sessions of the host, the last used first. Raises: RequestError, ConnectionClosed."""
        from dragoman.tui.local_host.session_rows import read_rows

        return [] if self.remote is None else await read_rows(self.remote)
