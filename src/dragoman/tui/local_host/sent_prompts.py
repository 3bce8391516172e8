"""The prompts of one conversation, from Enter until each is in the conversation, in the queue, or back in the input.

Theory of operation
-------------------
A prompt has an id, and the host logs it before it does anything else. So a prompt that has a turn is in the history of
its session, and one that waits is in the queue of the host, whatever becomes of this client. What is left are texts
that are nowhere but here: the host refused them, ended before their turn, or never got them. Those are given back to
the user interface, which puts them where the user types.

Text for the turn that runs is such a prompt, too. It waits in the host until the agent shows that it took it; its
answer then says so, and otherwise it becomes the next prompt.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConnectionClosed, DragomanError, LocalProtocolError, RequestError
from dragoman.schema import UNSET, v1
from dragoman.tui.local_host.prompt_requests import send_order
from dragoman.tui.questions.failures import explain, work_of
from dragoman.tui.values import TypedPrompt

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence

    from dragoman.client import RemoteAgent, Session
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.interface import Interface
    from dragoman.tui.local_host.loaded_turns import LoadedTurns

_NOT_RUN: Final = ("agent_lost", "agent_start", "store", "servers_missing", "draining")
"""Reasons with which the host refuses a prompt that a new session could run."""
_MAY_HAVE_RUN: Final = ("interrupted", "agent_exited")


class SentPrompts:
    """The prompts that were sent and have no end yet, and those that could not run."""

    def __init__(
        self,
        conversation: HostedConversation,
        interface: Interface,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self.items: list[TypedPrompt] = []
        self.unsent: list[TypedPrompt] = []
        """Prompts that could not run; they go to the session that is begun instead."""
        self._taken_back: set[str] = set()  # ids; the host may begin the turn of one before it knows
        self._conversation = conversation
        self._interface = interface
        self._start = start

    @property
    def queued(self) -> list[TypedPrompt]:
        """Those that wait for their turn."""
        return [prompt for prompt in self.items if not prompt.has_started]

    def find(self, id: object) -> TypedPrompt | None:
        """Return the prompt with an id."""
        return next((prompt for prompt in self.items if prompt.id == id), None)

    # Sending

    def send(self, text: str, blocks: Sequence[v1.ContentBlock]) -> TypedPrompt:
        """Send a prompt, or keep it until there is a session."""
        content: list[v1.ContentBlock] = [v1.TextContent(text), *blocks] if text else list(blocks)
        return self._submit(TypedPrompt(os.urandom(16).hex(), content, text))

    def steer(self, text: str, written_out: str) -> TypedPrompt:
        """Send a text for the turn that runs."""
        return self._submit(TypedPrompt(os.urandom(16).hex(), [v1.TextContent(written_out)], text, is_steered=True))

    def _submit(self, prompt: TypedPrompt) -> TypedPrompt:
        # As in the host: text for the turn that runs is before the prompts that wait.
        before = [item for item in self.items if not prompt.is_steered or item.has_started or item.is_steered]
        self.items = [*before, prompt, *(item for item in self.items if item not in before)]
        self._send(prompt)
        self._interface.changed()
        return prompt

    def send_again(self, turns: LoadedTurns) -> None:
        """Send everything to a session that was opened; the same id is the same prompt, which never runs twice."""
        for prompt in list(self.items):
            prompt.has_started = turns.has(prompt.id)
            self._send(prompt)

    def _send(self, prompt: TypedPrompt) -> None:
        remote, session = self._conversation.remote, self._conversation.session
        if remote is not None and session is not None:
            prompt.sending = self._start(self._prompt(remote, session, prompt))

    async def _prompt(self, remote: RemoteAgent, session: Session, prompt: TypedPrompt) -> None:
        own = {"promptId": prompt.id, "queue": True, "steer": prompt.is_steered}
        params = v1.PromptRequest(session.id, prompt.blocks, meta={"dragoman": own})

        # Noted in the order of the wire: this task goes on later than updates of the next turn are folded.
        def ended(answer: v1.PromptResponse) -> None:
            if _is_taken(answer):
                self._taken(prompt)
            else:
                self._ended(prompt, answer.stop_reason, usage=answer.usage)

        def failed(error: Exception) -> None:
            if not isinstance(error, ConnectionClosed):  # then it is sent again under its id, or its outcome is found
                self._ended(prompt, None, error)

        with suppress(DragomanError):
            await remote.call("session/prompt", params, on_result=ended, on_error=failed)

    # Waiting

    def take_back(self, prompt: TypedPrompt) -> bool:
        """Take a prompt back; False if its turn runs already, or the agent has it."""
        if prompt.has_started or prompt.is_steered or prompt not in self.items:
            return False
        self.items.remove(prompt)  # first: an answer that is on its way finds no prompt to end
        self._cancel(prompt)
        self._interface.changed()
        return True

    def _cancel(self, prompt: TypedPrompt) -> None:
        self._taken_back.add(prompt.id)
        if prompt.sending is not None:
            prompt.sending.cancel()  # the host gets `$/cancel_request`, which ends this prompt only

    def was_taken_back(self, id: object) -> bool:
        """Return whether a prompt was taken back: if its turn begins all the same, it is cancelled already."""
        return id in self._taken_back

    def take_waiting(self) -> list[TypedPrompt]:
        """Take every prompt back that waits, also text for the turn that runs: the turn is being stopped."""
        waiting = self.queued
        self.items = [prompt for prompt in self.items if prompt not in waiting]
        for prompt in waiting:
            self._cancel(prompt)
        text = "\n".join(prompt.text for prompt in waiting if prompt.text)
        if text:
            self._interface.returned(text, "the turn was stopped")
        return waiting

    def reorder(self, wanted: Sequence[TypedPrompt]) -> asyncio.Task[None]:
        """Put prompts that wait into another order: here at once, in the host when the task is done."""
        waiting = [prompt for prompt in dict.fromkeys(wanted) if prompt in self.queued]
        waiting += [prompt for prompt in self.queued if prompt not in waiting]
        self.items = [prompt for prompt in self.items if prompt.has_started] + waiting
        self._interface.changed()
        return self._start(self._send_order())

    async def _send_order(self) -> None:
        remote, session = self._conversation.remote, self._conversation.session
        if remote is not None and session is not None:  # else they are sent in this order later
            problem = await send_order(remote, session.id, lambda: [prompt.id for prompt in self.queued])
            if problem:
                self._interface.note(problem)

    # Turns

    def begin(self, prompt: TypedPrompt) -> None:
        """Begin the turn of a prompt."""
        conversation = self._conversation
        prompt.has_started = True
        prompt.is_steered = False
        conversation.started_at = conversation.clock()
        with suppress(LocalProtocolError):
            conversation.watched.begin_turn(conversation.state.begin_turn(prompt.blocks).index, conversation.started_at)

    def end_steering(self) -> None:
        """End a turn: a text that it did not take is a prompt like any other."""
        left = [prompt for prompt in self.items if prompt.is_steered]
        for prompt in left:
            prompt.is_steered = False
        if left:
            self._interface.note("the turn ended before the agent took your text; it is the next prompt")

    def _taken(self, prompt: TypedPrompt) -> None:
        if prompt in self.items:
            self.items.remove(prompt)
            self._interface.note("added to the turn that runs")
            self._interface.changed()

    def _ended(
        self, prompt: TypedPrompt, stop_reason: str | None, error: Exception | None = None, usage: Any = UNSET
    ) -> None:
        conversation = self._conversation
        if prompt not in self.items:  # taken back, or forgotten with its session, while the answer was on its way
            return
        self.items.remove(prompt)
        conversation.note_end()
        if _is_refused(prompt, stop_reason, error):
            why = "it was cancelled before its turn" if error is None else _words(error)
            self._give_back(prompt, why)
            self._interface.changed()
            return
        prompt.is_logged = prompt.has_started
        if not prompt.has_started and _reason(error) not in _MAY_HAVE_RUN:  # otherwise it is in the history
            self.begin(prompt)
        seconds = None if conversation.started_at is None else conversation.clock() - conversation.started_at
        conversation.started_at = None
        with suppress(LocalProtocolError):
            turn = conversation.state.end_turn(stop_reason, usage)
            conversation.watched.end_turn(turn.index, conversation.clock())
        if error is not None:
            data = error.data if isinstance(error, RequestError) else None
            unfinished = data.get("unfinished", ()) if isinstance(data, dict) else ()
            work = work_of(conversation.state, seconds, unfinished)
            conversation.trouble = explain(error, is_fatal=False, agent=conversation.agent, work=work)
            if _reason(error) in _NOT_RUN:
                self.unsent.append(prompt)
        self.end_steering()
        self._interface.ended(prompt, stop_reason, "" if error is None else str(error))
        self._interface.changed()

    # Giving back

    def take_unsent(self) -> list[TypedPrompt]:
        """Take the prompts that could not run, for another session."""
        unsent, self.unsent = self.unsent, []
        return unsent

    def give_back_unsent(self, why: str, *, with_waiting: bool) -> None:
        """Give back what is nowhere but here.

        Args:
            why: For the user.
            with_waiting: What waits for a session, too: there will be none.
        """
        waiting = self.queued if with_waiting and self._conversation.session is None else []
        refused = [prompt for prompt in self.unsent if not prompt.is_logged]
        self.items = [prompt for prompt in self.items if prompt not in waiting]
        self.unsent = [prompt for prompt in self.unsent if prompt.is_logged]
        for prompt in reversed([*refused, *waiting]):  # each is put before what is in the input
            self._give_back(prompt, why)

    def forget(self) -> None:
        """Forget everything, since another session is opened; what the host of this one has stays there."""
        self.items.clear()
        self.unsent.clear()

    def _give_back(self, prompt: TypedPrompt, why: str) -> None:
        if prompt.text:
            self._interface.returned(prompt.text, why)


def _words(error: Exception) -> str:
    return error.message if isinstance(error, RequestError) else str(error)


def _reason(error: Exception | None) -> str:
    data = error.data if isinstance(error, RequestError) else None
    reason = data.get("reason") if isinstance(data, dict) else None
    return reason if isinstance(reason, str) else ""


def _is_refused(prompt: TypedPrompt, stop_reason: str | None, error: Exception | None) -> bool:
    """Whether a prompt has its answer and never had a turn, so that its text is not in the conversation."""
    if prompt.has_started:
        return False
    return stop_reason == "cancelled" if error is None else _reason(error) not in (*_NOT_RUN, *_MAY_HAVE_RUN)


def _is_taken(answer: v1.PromptResponse) -> bool:
    """Whether the agent took a text into the turn that ran, instead of a turn of its own."""
    own = answer.meta.get("dragoman") if isinstance(answer.meta, dict) else None
    return isinstance(own, dict) and own.get("isTaken") is True
