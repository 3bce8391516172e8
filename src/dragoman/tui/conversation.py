"""One conversation with an agent, through the local host: what every form of the terminal client shares.

Owns the connection, the session, the prompts on their way, and the open questions. A user interface reads `state`,
`prompts`, `questions` and `phase`, is called when something changed, and calls the methods; it never sees a message of
the protocol. Everything here runs on one event loop.

A lost host is looked for again, and started if it is gone: the session is loaded from its log, with a turn that was
running closed as interrupted. What was typed and not sent belongs to the user interface, and stays.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConnectionClosed, DragomanError, RequestError
from dragoman.host.local.start import NoHost
from dragoman.schema import v1
from dragoman.state import SessionState
from dragoman.text.visible import label
from dragoman.tui.background import in_turn
from dragoman.tui.local_host.loaded_turns import LoadedTurns, read_turns
from dragoman.tui.local_host.older_blocks import TAIL_EVENTS, is_too_long, read_older
from dragoman.tui.local_host.prompt_requests import read_input, restart_agent
from dragoman.tui.local_host.sent_prompts import SentPrompts
from dragoman.tui.questions.failures import explain
from dragoman.tui.questions.open_questions import OpenQuestions
from dragoman.tui.values import AgentInput
from dragoman.view.watched import WatchedSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from dragoman.client import RemoteAgent, Session
    from dragoman.tui.interface import Interface, Opening
    from dragoman.tui.local_host.host_connection import HostLink
    from dragoman.tui.local_host.older_blocks import OlderPage
    from dragoman.tui.questions.failures import Failure
    from dragoman.tui.values import AskedQuestion, ListedSession, OpenForm, Phase, TypedPrompt

_RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 2.0)
_TAKE_BACK_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 5.0
"""So long an agent may take to end its turn when the client is left with it."""
_MOST_TRIES: Final = 20  # about 40 seconds: a host that is restarted on a busy machine is back by then


def _load_link() -> type[HostLink]:
    """Import the client library, for which the first frame does not wait."""
    from dragoman.tui.local_host.host_connection import HostLink

    return HostLink


class HostedConversation:
    """A session of the local host in which a user works."""

    def __init__(
        self,
        opening: Opening,
        interface: Interface,
        *,
        session_id: str | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.clock = clock
        """The time that the conversation and its user interface go by; not set back, as `time.monotonic`."""
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
        self.asking = OpenQuestions(interface, clock)
        self.is_foreign_turn = False
        """A turn of another client runs."""
        self.session_id = session_id
        self.folder = opening.cwd
        self.started_at: float | None = None
        """When the running turn began, by `clock`."""
        self._opening = opening
        self._interface = interface
        self._remote: RemoteAgent | None = None
        self._session: Session | None = None
        self._was_lost = False
        self._agent_name: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._turn_id: str | None = None  # of the prompt whose turn began last, if it is known
        self._turn_message: object = None  # the id of the message of that prompt
        # What the host reports of turns while a session is opened, whose history is not here yet; None at other times.
        self._early: list[tuple[Callable[[dict[str, Any]], None], dict[str, Any]]] | None = None
        self._turn_over = asyncio.Event()
        self._stopped: tuple[str | None] | None = None  # the turn that was asked to stop last
        self._sent = SentPrompts(self, interface, self._start)
        self._is_leaving = False
        self.accepts = AgentInput()
        """What the agent takes in prompts; nothing but text and links until it is known."""
        self.trouble: Failure | None = None
        """What went wrong and was not dealt with yet."""
        self.last_sign = self.clock()
        """When something last came from the agent, by `clock`."""
        self.prepare: Callable[[Session, str], Awaitable[None]] | None = None
        """Called with each new session and the name of its agent, before its first prompt."""
        self.list_changed: Callable[[dict[str, Any]], object] = lambda params: None
        """Called with what the host reports of its list of sessions, if that is watched over this connection."""

    # Reading

    @property
    def is_running(self) -> bool:
        """Whether a turn runs in the session."""
        return self.is_foreign_turn or any(prompt.has_started for prompt in self._sent.items)

    @property
    def is_stopping(self) -> bool:
        """Whether the turn that runs was asked to stop."""
        return self.is_running and self._stopped == (self._turn_id,)

    @property
    def turn_id(self) -> str | None:
        """The id of the prompt whose turn runs; None if none runs, or it is not known."""
        return self._turn_id if self.is_running else None

    @property
    def prompts(self) -> list[TypedPrompt]:
        """Our prompts that have no end yet."""
        return self._sent.items

    @property
    def queued(self) -> list[TypedPrompt]:
        """Our prompts that wait for their turn."""
        return self._sent.queued

    @property
    def session(self) -> Session | None:
        """The session on the connection to the host; None while there is none."""
        return self._session

    @property
    def remote(self) -> RemoteAgent | None:
        """The connection to the host, for what the conversation has no method for; None while there is none."""
        return self._remote if self._remote is not None and self._remote.is_open else None

    @property
    def silence_seconds(self) -> float:
        """How long nothing came from the agent in the turn that runs; 0 without a turn, or while the user is asked."""
        if not self.is_running or self.questions or self.forms:
            return 0.0
        return self.clock() - max(self.last_sign, self.started_at or 0.0)

    # The life of the connection

    async def run(self) -> None:
        """Keep the conversation connected until `leave`. Errors become the phase `failed`, and wait for `retry`."""
        tries = 0
        while not self._has_left():
            try:
                link = await in_turn(_load_link)
                async with link(self) as remote:
                    self._remote = remote
                    await self._enter(remote)
                    tries = 0
                    await remote.wait_closed()
            except (NoHost, DragomanError, OSError) as error:
                if self._has_left():
                    return
                self._lose(error)
                tries += 1
                # What refuses once refuses again, so the user decides; a connection that broke is tried again.
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
        self._sent.give_back_unsent("the client was left", with_waiting=True)
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
        self._sent.give_back_unsent("another session was opened", with_waiting=True)
        # Before the connection ends: `run` enters the session that is set here when it has connected again.
        self.session_id = None if row is None else row.session_id
        self.folder = self._opening.cwd if row is None else row.folder
        if agent is not None:
            self._agent_name = agent
        self._forget_work()
        remote = self._remote
        if remote is not None and remote.is_open:
            self._set_phase("connecting")  # first: a connection that ends while it is ready is reported as lost
            await remote.close()
        self._changed.set()  # after a failure there is no connection to end: `run` waits for this

    async def _enter(self, remote: RemoteAgent) -> None:
        self._set_phase("opening")
        self.watched = WatchedSession()
        turns = LoadedTurns()
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
            self._early = []
            self._session = session = await remote.load_session(
                self.session_id, self.folder, meta={"dragoman": {"tail": TAIL_EVENTS}}
            )
            self.has_older = True  # perhaps: the answer to the first question for them says it
            turns = await self._look_at_turns(remote, session.id)
        self.state = session.state
        self.watched.adopt(session.state)
        turns.note_in(session.state, self.watched)
        self.trouble = None
        # The user interface has the history before it is called about an update behind it, and prompts are sent last:
        # `turns` says which of them the host has, and a prompt with a turn in the history must not be shown as waiting.
        self._interface.reloaded()
        _ = self._start(self._follow(session))
        _ = self._start(self._ask_input(remote, session.id))
        self._set_phase("ready")
        if self._was_lost:
            self._was_lost = False
            self._interface.note("the host is back")
        self._take_early(turns)
        self._sent.send_again(turns)

    def _take_early(self, turns: LoadedTurns) -> None:
        """Note what the host reported of turns while the session was opened, unless the history has it already."""
        early, self._early = self._early, None
        for take, params in early or ():
            if not turns.has_ended(params.get("promptId")):
                take(params)

    async def _look_at_turns(self, remote: RemoteAgent, session_id: str) -> LoadedTurns:
        """Find out which agent the session has, and whether a turn runs that was begun before we came."""
        from dragoman.tui.local_host.session_rows import read_rows

        turns = await read_turns(remote, session_id)
        self._turn_id, self._turn_message = turns.running, turns.begun
        if turns.running is not None:
            self.started_at = self.clock() - turns.seconds
            self.is_foreign_turn = self._sent.find(turns.running) is None
        rows = await read_rows(remote, 50)
        self.agent = next((row.agent for row in rows if row.session_id == session_id), self.agent)
        return turns

    async def _follow(self, session: Session) -> None:
        with suppress(ConnectionClosed):  # `run` meets it, too, and reports it
            async for received in session.updates():
                self.last_sign = self.clock()
                if received.replayed != "yes":
                    self.watched.note(received.update, self.last_sign)
                self._interface.changed()

    async def _ask_input(self, remote: RemoteAgent, session_id: str) -> None:
        self.accepts = await read_input(remote, session_id)
        self._interface.changed()

    def _lose(self, error: Exception | None) -> None:
        self._early = None
        had_session = self._session is not None
        self._session = None  # first: a prompt that is sent from here on waits for the next session
        for task in list(self._tasks):
            task.cancel()
        self.asking.lose("the connection was lost")
        self.is_foreign_turn, self.started_at = False, None
        self.note_end()
        for prompt in self.prompts:
            prompt.is_steered = False  # sent again, it is the same prompt
        if had_session and self.phase == "ready":
            self._set_phase("lost")
            self._was_lost = True
            self._interface.note("the host is gone; looking for it")
        elif self.phase == "opening" and isinstance(
            error, ConnectionClosed
        ):  # a host that leaves after an update holds what is to be opened
            self._was_lost = True

    def _fail(self, error: Exception) -> None:
        self.failure = str(error)
        self.trouble = explain(error, is_fatal=True, agent=self.agent)
        self._set_phase("failed")

    async def _wait_for_user(self) -> None:
        self._changed.clear()  # what was set before belongs to an earlier failure
        await self._changed.wait()
        self.failure, self.trouble = "", None
        self._set_phase("connecting")

    def _forget_work(self) -> None:
        self._sent.forget()
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
        if self.phase == "ready":
            self.trouble = None
        return self._sent.send(text, blocks)

    def steer(self, text: str, written_out: str = "") -> TypedPrompt:
        """Pass text to the turn that runs. Until the agent takes it, it is the next prompt.

        Args:
            text: As it was typed.
            written_out: The same for the agent, with what is attached; empty if nothing is.
        """
        return self._sent.steer(text, written_out or text)

    async def cancel(self) -> None:
        """Cancel the turn that runs."""
        session = self._session
        if session is not None:
            with suppress(ConnectionClosed):
                await session.cancel()

    def stop(self) -> asyncio.Task[None] | None:
        """Stop the turn that runs, and give back to the user what waits behind it, so that nothing begins by itself.

        Returns: what sends it; None if there is nothing to stop, or it was asked to stop before.
        """
        is_running = self.is_running and not self.is_stopping
        waiting = self._sent.take_waiting()
        if not is_running and not waiting:
            return None
        if is_running:
            self._stopped = (self._turn_id,)
        return self._start(self._stop(waiting, is_running=is_running))

    async def _stop(self, waiting: Sequence[TypedPrompt], *, is_running: bool) -> None:
        # The prompts leave the queue of the host first: the end of the turn begins whatever waits then.
        sending = [prompt.sending for prompt in waiting if prompt.sending is not None]
        if sending:
            _ = await asyncio.wait(sending, timeout=_TAKE_BACK_SECONDS)
        if is_running:
            await self.cancel()

    async def stop_and_wait(self) -> None:
        """Stop the turn that runs, and wait for its end, which an agent may not come to: bounded."""
        stopping = self.stop()
        if stopping is not None:
            _ = await asyncio.wait([stopping], timeout=_STOP_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                while self.is_running:
                    self._turn_over.clear()
                    await self._turn_over.wait()

    def note_end(self) -> None:
        """Wake what waits for the end of the turn."""
        self._turn_over.set()

    @property
    def is_temporary(self) -> bool:
        """Whether the session ends with the client, so that it need not be stopped."""
        return self._opening.is_temporary

    def farewell(self, *, was_running: bool) -> str:
        """Return how to come back, and how to stop what goes on; empty without a session that stays.

        Args:
            was_running: a turn ran when the client was left.
        """
        if self.session_id is None or self.is_temporary:
            return ""
        id = label(self.session_id, 80)
        back = f"dragoman attach {id} brings you back"
        if not was_running:
            return back
        if self.is_stopping:
            return f"the turn is being stopped; {back}"
        # The end of a turn begins what waits behind it.
        end, what = ("close", "ends it, with what waits") if self.queued else ("cancel", "stops it")
        return f"still running; {back}, dragoman sessions {end} {id} {what}"

    def take_back(self, prompt: TypedPrompt) -> bool:
        """Take a queued prompt back; False if its turn runs already, or the agent has it."""
        return self._sent.take_back(prompt)

    def reorder(self, wanted: Sequence[TypedPrompt]) -> asyncio.Task[None]:
        """Put our prompts that wait into another order: here at once, in the host when the task is done."""
        return self._sent.reorder(wanted)

    def _begin_foreign(self) -> None:
        # In a turn of ours it is text that was added to the turn.
        if not self.is_foreign_turn and not any(prompt.has_started for prompt in self.prompts):
            self.is_foreign_turn = True
            self.started_at = self.clock()

    def updated(self, session_id: str, updates: Sequence[v1.SessionUpdate], lines: Sequence[bytes]) -> None:
        """Follow a session that went on. Those of subagents are not open here: they are shown in their parent."""
        is_loading = self.phase == "opening"  # then its children are not known yet
        if session_id != self.session_id and (is_loading or session_id in self.state.subagents):
            for update in updates:
                self.watched.note_child(session_id, update)
            self._interface.changed()

    # Messages of the host's own

    def note(self, text: str) -> None:
        """Show a sentence of the host to the user."""
        self._interface.note(text)

    def turn_started(self, params: dict[str, Any]) -> None:
        """Note that the host began a prompt, of ours or of another client."""
        self.last_sign = self.clock()
        if self._early is not None:
            self._early.append((self.turn_started, params))
            return
        id = params.get("promptId")
        self._turn_id = id if isinstance(id, str) else None
        self._turn_message = params.get("messageId")
        prompt = self._sent.find(id)
        if prompt is None:
            # No answer comes to the request of a prompt that was taken back, so that its end would never be known.
            if not self._sent.was_taken_back(id):
                self._begin_foreign()
        elif not prompt.has_started:
            self._sent.begin(prompt)
        self._interface.changed()

    def turn_ended(self, params: dict[str, Any]) -> None:
        """Note the end of a turn of another client, or of a prompt of it that waited."""
        if self._early is not None:
            self._early.append((self.turn_ended, params))
            return
        id = params.get("promptId")
        if self._sent.find(id) is not None or (self._turn_id is not None and id not in (None, self._turn_id)):
            return  # the answer to it follows; or it never had a turn
        if self.is_foreign_turn and self.started_at is not None:
            ended = {**params, "messageId": self._turn_message, "seconds": self.clock() - self.started_at}
            LoadedTurns([ended]).note_last_in(self.state, self.watched)
        self.is_foreign_turn, self.started_at = False, None
        self.note_end()
        self._sent.end_steering()
        result = params.get("result")
        reason = result.get("stopReason") if isinstance(result, dict) else None
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
        if not question.details.reads_reasons:
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
        self.last_sign = self.clock()
        if self.trouble is not None:  # a new session, which the card offers, takes what was not sent
            self._interface.note(self.trouble.headline)
            return
        self._interface.note("the agent was started again")
        self._sent.give_back_unsent("it was not sent", with_waiting=False)

    async def begin_again(self, agent: str | None = None) -> None:
        """Begin a new session; prompts that could not run in this one are sent there."""
        kept = self._sent.take_unsent()
        if self.phase == "failed":
            self.retry(agent=agent, is_new=True)
        else:
            await self.switch(None, agent=agent)
        for prompt in kept:
            _ = self.send(prompt.text, [block for block in prompt.blocks if not isinstance(block, v1.TextContent)])

    def dismiss_trouble(self) -> None:
        """Drop a failure that the user has read."""
        self._sent.give_back_unsent("it was not sent", with_waiting=False)
        self.trouble = None
        self.last_sign = self.clock()
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

    async def older_page(self) -> OlderPage | None:
        """Return the next page of what was before the state began. Raises: RequestError, ConnectionClosed."""
        remote = self.remote
        if remote is None or self.session_id is None or not self.has_older:
            return None
        page = await read_older(remote, self.session_id)
        self.has_older = page.has_more
        self.watched.adopt(page.state)
        return page

    async def shorten(self) -> None:
        """Open the session again, with its end only: what was before stays with the host."""
        if is_too_long(self) and self._remote is not None:
            self._set_phase("opening")
            await self._remote.close()  # `run` connects again

    async def sessions(self) -> list[ListedSession]:
        """Return the sessions of the host, the last used first. Raises: RequestError, ConnectionClosed."""
        from dragoman.tui.local_host.session_rows import read_rows

        return [] if self.remote is None else await read_rows(self.remote)
