"""The connection's end of a session with an agent of version 2: when prompts begin and end, and what readers get.

Theory of operation
-------------------
In version 1 the response to a prompt ends its turn. In version 2 the response says that the prompt's message is part of
the conversation now, and a state update `idle` says that the session has stopped working; it names no prompt. Several
prompts can be open: an agent may hold one until another has ended, or take it into the running work.

*Begin.* A prompt begins when it is sent and no other is open; else when its user message is seen, or its response
comes. The message is recognised by its id, or, before the response has named the id, by its content.

*End.* An idle ends exactly those open prompts whose message was seen before it. An agent that holds a second prompt is
idle between the two, and that idle must not end the second. If the response with the id is still missing, the idle is
kept with what was seen by then, and decided when the response comes. An agent that never sends the user's message is
followed by its states: `running` after the response shows that the prompt was taken.

*Readers.* The state folds updates as they are. A program that iterates a turn gets the update of version 1 wherever it
says the same, so that it works with agents of both versions; what version 2 adds comes as the type of version 2. A
whole message that is new, or that only adds to what is known, is passed on as chunks.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman.client.session_link import HISTORY, SessionLink
from dragoman.client.turn import RunningTurn
from dragoman.errors import INTERNAL_ERROR, REQUEST_CANCELLED, ConnectionClosed, LocalProtocolError, RequestError
from dragoman.schema import decode, encode, v1, v2
from dragoman.state import fold
from dragoman.state.messages import begins_with
from dragoman.state.version2.reading import read_blocks, read_tool_patch, read_update

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.rpc import Inbox, Pending

_WHOLE: Final[dict[type, Any]] = {
    v2.UserMessage: ("user", v1.UserMessageChunk),
    v2.AgentMessage: ("agent", v1.AgentMessageChunk),
    v2.AgentThought: ("thought", v1.AgentThoughtChunk),
}
_STOP_REASONS: Final = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
# What a replay repeats and version 1 does not have.
_OWN_HISTORY: Final = (
    v2.UserMessage, v2.AgentMessage, v2.AgentThought, v2.UserMessageChunk, v2.ToolCallContentChunk, v2.TerminalUpdate,
    v2.TerminalOutputChunk,
)  # fmt: skip


class SentPrompt:
    """A prompt that has not ended."""

    __slots__ = ("blocks", "echo_id", "has_begun", "has_turn", "idles", "message_id", "pending", "turn", "was_running")

    def __init__(self, blocks: Sequence[v1.ContentBlock], turn: RunningTurn) -> None:
        self.blocks = blocks
        self.turn = turn
        self.pending: Pending | None = None
        self.message_id: str | None = None
        self.echo_id: str | None = None
        """The id of a message that has the content of this prompt, before the response has named it."""
        self.has_begun = False
        self.has_turn = False
        """The state has a turn for it; a prompt that joins running work has none."""
        self.was_running = False
        """The agent reported that it runs after it had accepted this prompt."""
        self.idles: list[tuple[int, v2.SessionStateUpdate]] = []


class Version2Link(SessionLink):
    """The state and the open prompts of one session."""

    def __init__(self, connection: Any, session_id: str) -> None:
        super().__init__(connection, session_id)
        self._prompts: list[SentPrompt] = []
        self._seen: dict[str, int] = {}  # user messages by id, and how many updates there were before
        self._step = 0

    # Updates

    def deliver(self, updates: Sequence[Any], share_bytes: int) -> Sequence[Any]:
        """Fold updates into the state, put them into every reader's queue, and end the prompts that an idle ends."""
        run: list[Any] = []
        every: list[Any] = []
        for update in updates:
            self._step += 1
            shown = self._shown(update)
            every += shown
            if self._skips_replay:
                shown = [
                    update for update in shown if type(update) not in HISTORY and not isinstance(update, _OWN_HISTORY)
                ]
                if not shown:
                    continue
            if isinstance(update, v2.UserMessage | v2.UserMessageChunk):
                self.hand_out(run, share_bytes)
                run = []
                self._see(update)
            elif isinstance(update, v2.AgentMessageChunk | v2.AgentThoughtChunk):
                update = shown[0]  # it is folded as it is shown, and so read once
            fold(self.state, update)
            run += shown
            if isinstance(update, v2.SessionStateUpdate):
                self.hand_out(run, share_bytes)
                run = []
                self._on_state(update)
        self.hand_out(run, share_bytes)
        return every

    def hand_out(self, updates: Sequence[Any], share_bytes: int) -> None:
        """Put updates that are folded into every reader's queue."""
        if updates:
            super().hand_out(updates, share_bytes)

    def _turn_inboxes(self) -> list[Inbox[v1.SessionUpdate]]:
        """Return the queues of the prompts that have begun; one that the agent still holds has no updates."""
        turns = [prompt.turn for prompt in self._prompts if prompt.has_begun]
        return [turn.inbox for turn in turns if turn.inbox is not None]

    def _shown(self, update: Any) -> list[Any]:
        """Return the updates that readers get."""
        if isinstance(update, v2.UserMessage | v2.UserMessageChunk) and self._find(update) is not None:
            return [update]  # the program knows its own prompt: it is not shown again as a message of version 1
        same = read_update(update)
        if same is not None:
            return [same]
        if isinstance(update, v2.ToolCallUpdate):
            return [read_tool_patch(update)]
        return self._shown_message(update) if type(update) in _WHOLE else [update]

    def _shown_message(self, update: Any) -> list[Any]:
        role, chunk = _WHOLE[type(update)]
        if update.content is UNSET:
            return [update]
        known = self.state.find_message(role, update.message_id)
        blocks = read_blocks(update.content)
        if known is None or not known.blocks:
            rest = blocks
        elif begins_with(blocks, known.blocks):
            kept = len(known.text)
            rest = [v1.TextContent("".join(block.text for block in blocks if isinstance(block, v1.TextContent))[kept:])]
            if any(not isinstance(block, v1.TextContent) for block in blocks):
                return [update]
        else:
            return [update]
        return [chunk(block, message_id=update.message_id) for block in rest] or [update]

    # Prompts

    def start_turn(
        self, prompt: Sequence[v1.ContentBlock], *, has_reader: bool, meta: Mapping[str, Any] | None = None
    ) -> RunningTurn:
        """Send a prompt; the agent may hold it while another one runs.

        Raises: LocalProtocolError for an empty prompt or after the session was closed; ConnectionClosed after the agent
        was lost.
        """
        self.require_open()
        if not prompt:
            raise LocalProtocolError("a prompt needs at least one content block")
        opened = SentPrompt(prompt, RunningTurn())
        added = {} if self.connection.prompt_meta is None else self.connection.prompt_meta(self.id)
        request = v1.PromptRequest(self.id, list(prompt), meta={**added, **(meta or {})} or UNSET)

        def settle(response: v2.PromptResponse | None, error: Exception | None) -> None:
            if response is None:
                self._refuse(opened, error)
            else:
                self._accept(opened, response.message_id)

        opened.pending = self.connection.peer.ask("session/prompt", request, v2.PromptResponse, settle, lane=self.id)
        self._replaying = "no"
        self._skips_replay = False
        self._received_at = monotonic()
        self._prompts.append(opened)
        if self.turn is None:
            self.turn = opened.turn
            self._begin(opened)
        if has_reader:
            opened.turn.inbox = self.new_inbox()
        return opened.turn

    def _begin(self, prompt: SentPrompt) -> None:
        prompt.has_begun = True
        if not self.state.is_running:
            self.state.begin_turn(prompt.blocks)
            prompt.has_turn = True

    def _accept(self, prompt: SentPrompt, message_id: str) -> None:
        """Note that the agent has taken the prompt into the conversation.

        An idle that came before may have ended it.
        """
        prompt.message_id = message_id
        # From here on the task that awaits the prompt waits for updates instead of for the response.
        self.connection.peer.flow.note_asked(self.id)
        if not prompt.has_begun:
            self._begin(prompt)
        if prompt.has_turn and self.state.is_running:
            self.state.name_prompt(message_id)
        for step, idle in prompt.idles:
            if self._seen.get(message_id, step + 1) <= step:
                self._finish(prompt, idle)
                return
        prompt.idles.clear()

    def _refuse(self, prompt: SentPrompt, error: Exception | None) -> None:
        is_withdrawn = isinstance(error, RequestError) and error.code == REQUEST_CANCELLED
        if is_withdrawn and prompt.turn.is_cancelling:
            self._settle(prompt, v1.PromptResponse("cancelled"), None)
        else:
            self._settle(prompt, None, error)

    def _see(self, update: v2.UserMessage | v2.UserMessageChunk) -> None:
        self._seen.setdefault(update.message_id, self._step)
        prompt = self._find(update)
        if prompt is None:
            return
        if prompt.message_id is None:
            prompt.echo_id = update.message_id
        if not prompt.has_begun:
            self._begin(prompt)

    def _find(self, update: v2.UserMessage | v2.UserMessageChunk) -> SentPrompt | None:
        """Return the open prompt that this message is."""
        for prompt in self._prompts:
            if update.message_id in (prompt.message_id, prompt.echo_id):
                return prompt
        if update.content is UNSET or update.message_id in self._seen:
            return None
        content = read_blocks([update.content] if isinstance(update, v2.UserMessageChunk) else update.content)
        for prompt in self._prompts:
            if prompt.message_id is None and prompt.echo_id is None and begins_with(prompt.blocks, content):
                return prompt
        return None

    def _on_state(self, update: v2.SessionStateUpdate) -> None:
        for prompt in list(self._prompts):
            if update.state == "running":
                prompt.was_running = prompt.was_running or prompt.message_id is not None
            elif update.state != "idle":
                continue
            elif prompt.message_id is not None:
                if prompt.message_id in self._seen or prompt.was_running:
                    self._finish(prompt, update)
            elif not prompt.idles or next(reversed(self._seen.values()), 0) > prompt.idles[-1][0]:
                prompt.idles.append((self._step, update))  # a repetition with nothing new says nothing new

    def _finish(self, prompt: SentPrompt, idle: v2.SessionStateUpdate) -> None:
        if idle.stop_reason == "error":
            given = idle.error or None
            error = RequestError(INTERNAL_ERROR, "the agent reported an error without saying which")
            if given is not None:
                error = RequestError(given.code, given.message, None if given.data is UNSET else given.data)
            self._settle(prompt, None, error)
            return
        reason = idle.stop_reason or "end_turn"
        meta = idle.meta
        if reason not in _STOP_REASONS:
            meta = {**(meta or {}), "dragoman": {"stopReason": reason}}
            reason = "end_turn"
        usage: Any = UNSET if not idle.usage else decode(v1.Usage, encode(idle.usage))
        self._settle(prompt, v1.PromptResponse(reason, usage=usage, meta=meta), None)

    def _settle(self, prompt: SentPrompt, response: v1.PromptResponse | None, error: Exception | None) -> None:
        """End a prompt with its response or its error."""
        if prompt not in self._prompts:
            return
        self._prompts.remove(prompt)
        if prompt.message_id is not None and not isinstance(error, ConnectionClosed):
            self.connection.peer.flow.note_answered(self.id)
        if prompt.has_turn and self.state.is_running:
            if response is not None:
                self.state.end_turn(response.stop_reason, response.usage)
            elif isinstance(error, ConnectionClosed):
                self.state.lose_agent()
            else:
                self.state.end_turn(None, UNSET)
        if self.turn is prompt.turn:
            self.turn = self._prompts[0].turn if self._prompts else None
            if self.turn is None and self.connection.changes is not None:
                self.connection.changes.end_turn(self.session)
        prompt.turn.settle(response, self.connection.explain(error))

    async def cancel(self) -> None:
        """Cancel the session's work, the prompts that the agent still holds, and every open question."""
        for prompt in self._prompts:
            prompt.turn.is_cancelling = True
        await super().cancel()

    async def cancel_turn(self, turn: RunningTurn) -> None:
        """Cancel the work of a prompt; one that the agent still holds is withdrawn, and the others go on."""
        for prompt in self._prompts:
            if prompt.turn is turn and not prompt.has_begun and prompt.pending is not None:
                turn.is_cancelling = True
                self.connection.peer.withdraw(prompt.pending)
                return
        await self.cancel()

    async def cancel_one(self, method: str, params: object) -> None:
        """Cancel a single tool call or terminal."""
        self.require_open()
        await self.connection.peer.request(method, params, Any)

    # The life of the link

    def opened(self, response: Any) -> None:
        """Take the options and commands of the response."""
        super().opened(response)
        if response.available_commands:
            fold(self.state, v1.AvailableCommandsUpdate(response.available_commands))

    def end(self, reason: ConnectionClosed | None) -> None:
        """End the session, which was closed or, with a reason, whose connection was.

        Nothing more will end its prompts.
        """
        for prompt in list(self._prompts):
            if reason is not None:
                self._settle(prompt, None, reason)
            elif prompt.message_id is not None:
                self._settle(prompt, v1.PromptResponse("cancelled"), None)
        super().end(reason)
