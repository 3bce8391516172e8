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
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from dragoman.errors import AuthRequired, ConnectionClosed, DragomanError, LocalProtocolError, RequestError
from dragoman.host.local.start import NoHost
from dragoman.schema import v1
from dragoman.state import SessionState
from dragoman.tui.host_connection import HostLink
from dragoman.tui.older_blocks import read_older
from dragoman.tui.values import AgentInput, AskedQuestion, ListedSession, OpenForm, TypedPrompt
from dragoman.view.watched import WatchedSession

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from dragoman.client import RemoteAgent, Session
    from dragoman.state import TimelineItem
    from dragoman.tui.interface import Interface
    from dragoman.tui.values import Phase

_RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 2.0)
_MOST_TRIES: Final = 20
TAIL_EVENTS: Final = 4_000
"""Of a session that is opened: what was before them comes when the user scrolls to it."""
MOST_ITEMS: Final = 6_000
"""Of a session that grows: then it is opened again, with its end only."""
_ORDER_TRIES: Final = 20


class Opening(Protocol):
    """How a session is opened: made by the command line, which knows agents, rules and settings."""

    cwd: str

    def new(self, agent: str | None) -> dict[str, Any]:
        """The params of `session/new` for an agent, or for the one the user named. Raises: DragomanError."""


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
        self.questions: list[AskedQuestion] = []
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
        self._agent_name: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._is_leaving = False
        self._login_methods: Sequence[v1.AuthMethod] = ()
        self.accepts = AgentInput()
        """What the agent takes in prompts; nothing but text and links until it is known."""

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
    def login_methods(self) -> Sequence[v1.AuthMethod]:
        """How the user can log in, if the agent asked for it."""
        return self._login_methods

    # The life of the connection

    async def run(self) -> None:
        """Keep the conversation connected until `leave`. Errors become the phase `failed`, and wait for `retry`."""
        tries = 0
        while not self._has_left():
            try:
                async with HostLink(self) as remote:
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
            params = await asyncio.to_thread(self._opening.new, self._agent_name)
            self._session = session = await remote.new_session(
                params["cwd"],
                mcp_servers=params["mcp_servers"],
                additional_directories=params.get("additional_directories", ()),
                meta=params["meta"],
            )
            self.session_id = session.id
            self.agent = str(params["meta"]["dragoman"].get("agent", ""))
        else:
            self._session = session = await remote.load_session(
                self.session_id, self.folder, meta={"dragoman": {"tail": TAIL_EVENTS}}
            )
            self.has_older = True  # perhaps: the answer to the first question for them says it
        self.state = session.state
        self.watched.adopt(session.state)
        self._login_methods = ()
        self._interface.reloaded()
        _ = self._start(self._follow(session))
        _ = self._start(self._ask_input(remote, session.id))
        self._set_phase("ready")
        for prompt in list(self.prompts):
            # The same id is the same prompt: one that the host has already is not run again.
            prompt.has_started = False
            prompt.sending = self._start(self._prompt(session, prompt))

    async def _follow(self, session: Session) -> None:
        async for received in session.updates():
            update = received.update
            if isinstance(update, v1.UserMessageChunk) and received.replayed == "no":
                self._begin_foreign()
            if received.replayed != "yes":
                self.watched.note(update, monotonic())
            self._interface.changed()

    async def _ask_input(self, remote: RemoteAgent, session_id: str) -> None:
        """Learn what the agent takes; a host of an older version does not know, and gets text and links."""
        self.accepts = AgentInput()
        with suppress(RequestError, ConnectionClosed):
            found = await remote.request("_dragoman/input", {"sessionId": session_id})
            if isinstance(found, dict):
                image, embedded, steer = (found.get(name) is True for name in ("image", "embeddedContext", "steer"))
                self.accepts = AgentInput(image, embedded, steer)
                self._interface.changed()

    def _lose(self, error: Exception | None) -> None:
        had_session = self._session is not None
        self._session = None
        for task in list(self._tasks):
            task.cancel()
        for question in list(self.questions):
            self._withdraw(question, "the connection was lost")
        self.is_foreign_turn, self.started_at = False, None
        if had_session and self.phase == "ready":
            self._set_phase("lost")
            self._interface.note("the host is gone; looking for it")

    def _fail(self, error: Exception) -> None:
        if isinstance(error, AuthRequired):
            self._login_methods = tuple(getattr(error, "methods", ()))
        self.failure = str(error)
        self._set_phase("failed")

    async def _wait_for_user(self) -> None:
        self._changed.clear()
        await self._changed.wait()
        self.failure = ""
        self._set_phase("connecting")

    def _forget_work(self) -> None:
        self.prompts.clear()
        self.questions.clear()
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
        for _ in range(_ORDER_TRIES):
            remote, session = self.remote, self._session
            if remote is None or session is None:
                return  # the prompts are sent in this order when there is a host
            ids = [prompt.id for prompt in self.queued]
            try:
                found = await remote.request("_dragoman/reorder", {"sessionId": session.id, "promptIds": ids})
            except (RequestError, ConnectionClosed) as error:
                self._interface.note(f"the host did not take the order of the prompts: {error}")
                return
            known = found.get("promptIds") if isinstance(found, dict) else None
            if not isinstance(known, list) or {prompt.id for prompt in self.queued} <= set(known):
                return
            await asyncio.sleep(0.02)  # one that was sent a moment ago is still on its way

    async def _prompt(self, session: Session, prompt: TypedPrompt) -> None:
        assert self._remote is not None
        own = {"promptId": prompt.id, "queue": True}
        params = v1.PromptRequest(session.id, prompt.blocks, meta={"dragoman": own})
        stop_reason, error, usage = None, "", None
        try:
            answer = await self._remote.call("session/prompt", params)
            stop_reason, usage = answer.stop_reason, answer.usage
        except RequestError as failure:
            error = str(failure)
        except ConnectionClosed:
            return  # it is sent again under the same id, or its outcome is found
        if prompt not in self.prompts:
            return
        if not prompt.has_started:
            self._begin(prompt)
        self.prompts.remove(prompt)
        self.started_at = None
        with suppress(LocalProtocolError):
            turn = self.state.end_turn(stop_reason, usage)
            self.watched.end_turn(turn.index, monotonic())
        self._interface.ended(prompt, stop_reason, error)
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

    @property
    def may_have_children(self) -> bool:
        """Whether updates of subagents' sessions may come: while a session is loaded its children are not known yet."""
        return self.phase == "opening" or bool(self.state.subagents)

    def is_child(self, session_id: str) -> bool:
        """Whether a session is that of a subagent."""
        return session_id != self.session_id and (self.phase == "opening" or session_id in self.state.subagents)

    def note_child(self, session_id: str, update: v1.SessionUpdate) -> None:
        """A subagent's session went on."""
        self.watched.note_child(session_id, update)
        self._interface.changed()

    # Messages of the host's own

    def note(self, text: str) -> None:
        """The host has a sentence for the user."""
        self._interface.note(text)

    def turn_started(self, params: dict[str, Any]) -> None:
        """The host began a prompt of ours."""
        for prompt in self.prompts:
            if prompt.id == params.get("promptId") and not prompt.has_started:
                self._begin(prompt)
                self._interface.changed()

    def turn_ended(self, params: dict[str, Any]) -> None:
        """A turn of another client ended."""
        self.is_foreign_turn, self.started_at = False, None
        reason = params.get("stopReason")
        self._interface.ended(None, reason if isinstance(reason, str) else None, "")
        self._interface.changed()

    def answered(self, params: dict[str, Any]) -> None:
        """A question was answered; by whom is shown if that was another client."""
        for question in list(self.questions):
            if question.id == params.get("questionId") and not question.answer.done():
                by = str(params.get("who") or params.get("by") or "another client")
                option = params.get("option")
                name = next((each.name for each in question.options if each.option_id == option), None)
                self._withdraw(question, f"{name or 'answered'}, by {by}")

    # Questions

    async def permission(self, request: v1.RequestPermissionRequest, session: Session) -> str | None:
        """Ask the user; cancelled when the question is withdrawn."""
        meta = request.meta if isinstance(request.meta, dict) else {}
        own = meta.get("dragoman")
        id = str(own.get("questionId", "")) if isinstance(own, dict) else ""
        question = AskedQuestion(id or os.urandom(8).hex(), request, monotonic())
        self.questions.append(question)
        self._interface.asked(question)
        try:
            return await question.answer
        except asyncio.CancelledError:
            self._withdraw(question, "not open any more")
            raise
        finally:
            if question in self.questions:
                self.questions.remove(question)
            self._interface.changed()

    def answer(self, question: AskedQuestion, option_id: str | None) -> None:
        """Answer a question with an option, or with none."""
        if not question.answer.done():
            question.answer.set_result(option_id)

    def _withdraw(self, question: AskedQuestion, why: str) -> None:
        if question in self.questions:
            self.questions.remove(question)
            self._interface.withdrawn(question, why)
        if not question.answer.done():
            question.answer.cancel()

    async def ask_form(self, request: v1.ElicitationFormMode) -> dict[str, Any] | None:
        """Show a form and wait for its values; None if the user declines."""
        form = OpenForm(request)
        self._interface.form(form)
        try:
            return await form.answer
        except asyncio.CancelledError:
            self._interface.form_withdrawn(form)
            raise

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

    @property
    def is_too_long(self) -> bool:
        """Whether the state has more than a client needs to keep, and nothing is going on."""
        return (
            len(self.state.timeline) > MOST_ITEMS
            and self.phase == "ready"
            and not (self.prompts or self.questions or self.is_running)
        )

    async def shorten(self) -> None:
        """Open the session again, with its end only: what was before stays with the host."""
        if self.is_too_long and self._remote is not None:
            self._set_phase("opening")
            await self._remote.close()  # `run` connects again

    async def sessions(self) -> list[ListedSession]:
        """The sessions of the host, the last used first. Raises: RequestError, ConnectionClosed."""
        rows: list[ListedSession] = []
        if self._remote is None:
            return rows
        async for each in self._remote.sessions():
            meta = each.meta if isinstance(each.meta, dict) else {}
            own = meta.get("dragoman") or {}
            rows.append(
                ListedSession(
                    session_id=each.session_id,
                    name=own.get("name"),
                    agent=str(own.get("agent", "")),
                    folder=each.cwd,
                    state=str(own.get("state", "idle")),
                    title=each.title if isinstance(each.title, str) else None,
                    updated_at=each.updated_at if isinstance(each.updated_at, str) else None,
                )
            )
        return rows
