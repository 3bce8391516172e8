"""The state of one session: all updates folded in order, at a cost per update that does not grow with the session.

`fold` changes the state it is given and returns it. Between two folds the state reads as a value: the properties
return a string, a tuple, a frozen struct, or a read-only view. Nothing here awaits, so a program that reads without
awaiting sees one moment. `revision` shows whether anything changed; items have their own.

`SessionState` is composed of objects that each own one list and fold its updates: `Messages`, `ToolCalls`, `Plans` and
so on. They share the `Timeline`, in which every new item gets its place. Does not know the wire or the clock.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET, Unknown, v1
from dragoman.state.compactions import Compactions, CompactionState
from dragoman.state.info import Info
from dragoman.state.message import Message
from dragoman.state.messages import Messages
from dragoman.state.plans import Plans, PlanState
from dragoman.state.settings import SessionSettings
from dragoman.state.subagents import SessionMessages, SessionMessageState, Subagents, SubagentState
from dragoman.state.text_buffer import TextRoom, View
from dragoman.state.timeline import Notices, Timeline, UnfoldedUpdates
from dragoman.state.tools import ToolCalls, ToolCallState
from dragoman.state.turns import Turns, TurnState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from dragoman.schema import UnsetType, v2
    from dragoman.state.message import Role
    from dragoman.state.terminals import TerminalState
    from dragoman.state.timeline import Unfolded
    from dragoman.state.version2.steps import Version2State

# The longest answers of real agents have a few hundred thousand characters.
TEXT_LIMIT: Final = 16 * 1024 * 1024

TimelineItem: TypeAlias = (
    Message | ToolCallState | PlanState | CompactionState | SubagentState | SessionMessageState | v1.Notice | Unknown
)


class SessionState:
    """What is known of one session. Programs read it; only `fold` and the turn's marks change it."""

    __slots__ = (
        "_compactions",
        "_info",
        "_messages",
        "_notices",
        "_plans",
        "_revision",
        "_session_messages",
        "_settings",
        "_steps",
        "_subagents",
        "_timeline",
        "_tool_calls",
        "_turns",
        "_unfolded",
        "_version2",
    )

    def __init__(self, *, text_limit: int | None = TEXT_LIMIT) -> None:
        """Create the state of a session that has no updates yet.

        Args:
            text_limit: how many characters of messages are kept for each turn; None keeps everything. Of a longer
                text the beginning is kept, and `lost_characters` of the message and of the turn count the rest.
        """
        self._revision = 0
        self._timeline = timeline = Timeline()
        self._turns = turns = Turns()
        self._messages = messages = Messages(timeline, turns, TextRoom(text_limit))
        self._unfolded = unfolded = UnfoldedUpdates(timeline)
        self._notices = Notices(timeline)
        self._tool_calls = ToolCalls(timeline, messages, turns)
        self._plans = Plans(timeline, messages, turns, unfolded)
        self._compactions = Compactions(timeline, messages, turns, unfolded)
        self._subagents = Subagents(timeline, turns)
        self._session_messages = SessionMessages(timeline, messages, turns)
        self._settings = SessionSettings()
        self._info = Info()
        self._version2: Version2State | None = None
        # Bound methods of the parts, so that an update costs one lookup and one call.
        self._steps: dict[type, Callable[[Any], object]] = {
            v1.AgentMessageChunk: messages.fold_chunk,
            v1.AgentThoughtChunk: messages.fold_chunk,
            v1.UserMessageChunk: messages.fold_user_chunk,
            v1.ToolCall: self._tool_calls.fold,
            v1.ToolCallUpdate: self._tool_calls.fold,
            v1.Plan: self._plans.fold,
            v1.PlanUpdate: self._plans.fold_update,
            v1.PlanRemoved: self._plans.fold_removed,
            v1.AvailableCommandsUpdate: self._settings.fold_commands,
            v1.CurrentModeUpdate: self._settings.fold_mode,
            v1.ConfigOptionUpdate: self._settings.fold_config_options,
            v1.SessionInfoUpdate: self._info.fold,
            v1.UsageUpdate: self._info.fold_usage,
            v1.Notice: self._notices.fold,
            v1.CompactionUpdate: self._compactions.fold,
            v1.CompactionSummaryChunk: self._compactions.fold_chunk,
            v1.SubagentUpdate: self._subagents.fold,
            v1.SessionMessage: self._session_messages.fold,
            v1.SessionMessageChunk: self._session_messages.fold_chunk,
            Unknown: unfolded.fold,
        }

    @property
    def revision(self) -> int:
        """Grows with every change."""
        return self._revision

    @property
    def timeline(self) -> Sequence[TimelineItem]:
        """All items in the order in which they first came; changed items keep their place."""
        return View(self._timeline.items)

    def changed_since(self, mark: int) -> tuple[int, frozenset[int] | None]:
        """Return where items of the timeline changed since an earlier mark, and the next mark; the first mark is 0.

        The places are those of replaced items, and of texts that began to grow again; new items are not among them.
        A text that grows is to be watched by its `revision`. None if there were more changes than are remembered.
        """
        return self._timeline.changed_since(mark)

    @property
    def messages(self) -> Sequence[Message]:
        """Messages of all roles, in the order in which they began."""
        return View(self._messages.items)

    def find_message(self, role: Role, message_id: str) -> Message | None:
        """Return the message of this role that has this id; None if there is none."""
        return self._messages.find(role, message_id)

    @property
    def thoughts(self) -> Sequence[Message]:
        """The messages of role `thought` alone."""
        return View(self._messages.thoughts)

    @property
    def turns(self) -> Sequence[TurnState]:
        """The prompts sent in this session, with their responses; of a replayed history only those that were noted."""
        return View(self._turns.items)

    @property
    def turn_count(self) -> int:
        """How many `turns` there are."""
        return len(self._turns.items)

    @property
    def text(self) -> str:
        """The agent's text of the last turn."""
        turns = self._turns.items
        return turns[-1].text if turns else ""

    @property
    def stop_reason(self) -> v1.StopReason | None:
        """Why the last turn ended; None while it runs, and if it ended without a response."""
        turns = self._turns.items
        return turns[-1].stop_reason if turns else None

    @property
    def is_running(self) -> bool:
        """A turn has begun and not ended."""
        return self._turns.running is not None

    @property
    def is_after_cancel(self) -> bool:
        """The last turn was cancelled and no other has begun: updates that come now are late."""
        return self._turns.late is not None

    @property
    def tool_calls(self) -> Mapping[str, ToolCallState]:
        """By id, in the order in which they were first reported."""
        return MappingProxyType(self._tool_calls.by_id)

    @property
    def plan(self) -> tuple[v1.PlanEntry, ...]:
        """The steps of the current plan; with an agent of version 2, which names its plans, those of all of them."""
        if self._version2 is not None:
            return tuple(entry for plan in self._plans.by_id.values() for entry in plan.entries)
        plan = self._plans.current
        return () if plan is None else plan.entries

    @property
    def plans(self) -> Mapping[str, PlanState]:
        """Plans that have an id (unstable), without the removed ones."""
        return MappingProxyType(self._plans.by_id)

    @property
    def usage(self) -> v1.UsageUpdate | None:
        """How full the context is, as last reported."""
        return self._info.usage

    @property
    def cost(self) -> v1.Cost | None:
        """The total cost of the session, as last reported."""
        return self._info.cost

    @property
    def mode(self) -> str | None:
        """The current mode's id, from `modes` or from the option of category `mode`."""
        return self._settings.mode

    @property
    def modes(self) -> v1.SessionModeState | None:
        """The available modes and the current one, if the agent has modes."""
        return self._settings.modes

    @property
    def mode_option(self) -> v1.SessionConfigSelect | None:
        """The option of category `mode`, by which newer agents offer their modes."""
        return self._settings.mode_option()

    @property
    def config_options(self) -> tuple[v1.SessionConfigOption, ...]:
        """The configuration options with their current values."""
        return self._settings.config_options

    @property
    def commands(self) -> tuple[v1.AvailableCommand, ...]:
        """The slash commands that can be used now."""
        return self._settings.commands

    @property
    def title(self) -> str | None:
        """The session's title."""
        return self._info.title

    @property
    def updated_at(self) -> str | None:
        """When the agent last changed the session, as the agent wrote it."""
        return self._info.updated_at

    @property
    def meta(self) -> dict[str, Any] | None:
        """The last `_meta` of a session_info_update."""
        return self._info.meta

    @property
    def notices(self) -> Sequence[v1.Notice]:
        """Short-lived information for the user."""
        return View(self._notices.items)

    @property
    def compactions(self) -> Mapping[str, CompactionState]:
        """Compactions of the context, by id."""
        return MappingProxyType(self._compactions.by_id)

    @property
    def subagents(self) -> Mapping[str, SubagentState]:
        """Child sessions (unstable), by session id."""
        return MappingProxyType(self._subagents.by_id)

    @property
    def session_messages(self) -> Mapping[str, SessionMessageState]:
        """Messages between sessions (unstable), by message id."""
        return MappingProxyType(self._session_messages.by_id)

    @property
    def activity(self) -> v2.SessionStateUpdateKind:
        """What the session does: `idle`, `running`, `requires_action` (of the user), or a word of the agent's own.

        An agent of version 2 reports it; with one of version 1 it follows from the turns.
        """
        if self._version2 is not None:
            return self._version2.activity
        return "running" if self.is_running else "idle"

    @property
    def background(self) -> tuple[v2.BackgroundWork, ...] | None:
        """Work that goes on while the session is idle (version 2); None if the agent does not report it."""
        return None if self._version2 is None else self._version2.background

    @property
    def terminals(self) -> Mapping[str, TerminalState]:
        """Terminals that the agent runs itself (version 2), by id."""
        return MappingProxyType({} if self._version2 is None else self._version2.terminals.by_id)

    @property
    def unknown(self) -> Sequence[Unfolded]:
        """Updates of kinds this version does not know, and those that contradict earlier ones."""
        return View(self._unfolded.items)

    def open(
        self,
        modes: v1.SessionModeState | UnsetType | None = None,
        config_options: Sequence[v1.SessionConfigOption] | UnsetType | None = None,
    ) -> None:
        """Take the modes and options of the response to session/new, load, resume or fork.

        Args:
            modes: None or UNSET if the response has none; then the known modes stay.
            config_options: None or UNSET if the response has none; then the known options stay.
        """
        if modes is not None and modes is not UNSET:
            self._settings.set_modes(modes)
        if config_options is not None and config_options is not UNSET:
            self._settings.set_config_options(config_options)
        self._revision += 1

    def begin_turn(self, prompt: Sequence[v1.ContentBlock]) -> TurnState:
        """Mark that a prompt is being sent; it becomes a user message.

        Raises: LocalProtocolError while another turn runs (rule 187).
        """
        if self._turns.running is not None:
            raise LocalProtocolError("a turn of this session is running: end it before the next one begins")
        self._messages.close()
        turn = self._turns.begin(tuple(prompt), len(self._timeline))
        self._messages.add_prompt(turn.prompt)
        self._revision += 1
        return turn

    def note_past_turn(
        self, start: int, end: int, stop_reason: v1.StopReason | None, usage: v1.Usage | None = None
    ) -> TurnState:
        """Take a turn of a replayed history, of which it is known how it ended.

        Args:
            start: Where in the timeline it begins, with its prompt.
            end: Where it ends.
            stop_reason: None for a turn that ended without a response.
            usage: The tokens of the response, if they are known.

        Raises: LocalProtocolError while a turn runs.
        """
        if self._turns.running is not None:
            raise LocalProtocolError("a turn of this session is running: turns of the past come before it")
        turn = self._turns.begin((), start)
        self._turns.end(end, stop_reason, usage, is_lost=False)
        self._turns.late = self._turns.current_index = None
        self._revision += 1
        return turn

    def cancel_turn(self) -> None:
        """Mark the running turn's unfinished tool calls when a cancel is sent (rule 193); the turn goes on."""
        if self._turns.running is not None:
            self._tool_calls.cancel_unfinished(self._turns.running.start)
            self._revision += 1

    def end_turn(self, stop_reason: v1.StopReason | None, usage: v1.Usage | UnsetType | None = None) -> TurnState:
        """Mark the response to the prompt.

        Args:
            stop_reason: None for a turn that ended without a response.
            usage: The tokens of the response, if it reports them.

        Raises: LocalProtocolError when no turn runs.
        """
        return self._end_turn(stop_reason, None if usage is UNSET else usage)

    def lose_agent(self) -> None:
        """Mark that the agent is gone: the running turn ends without a response, and its tool calls have failed."""
        if self._version2 is not None:
            self._version2.activity = "unknown"
            self._version2.background = None
        self._tool_calls.fail_unfinished()
        if self._turns.running is not None:
            self._end_turn(None, None, is_lost=True)
        self._revision += 1

    def name_prompt(self, message_id: str) -> None:
        """Take the id that an agent of version 2 gave the prompt of the last turn."""
        self._messages.name_prompt(message_id)
        self._revision += 1

    def note_permission(self, tool_call: v1.ToolCallPatch | v2.ToolCallPatch) -> ToolCallState:
        """Take the tool call of a permission request: some agents do not report it otherwise."""
        step: Callable[[Any], Any] = self._step_of_version2(tool_call) or self._tool_calls.fold
        call: ToolCallState = step(tool_call)
        self._revision += 1
        return call

    def _step_of_version2(self, update: object) -> Callable[[Any], object] | None:
        """Return the step of an update of version 2, whose types are loaded with the first of them.

        None for other objects.
        """
        if not type(update).__module__.startswith("dragoman.schema.v2."):
            return None
        if self._version2 is None:
            from dragoman.state.version2.steps import Version2State

            self._version2 = Version2State(self._messages, self._tool_calls, self._info)
            self._steps |= self._version2.steps(self._steps)
        return self._steps.get(type(update))

    def _end_turn(self, reason: v1.StopReason | None, usage: v1.Usage | None, *, is_lost: bool = False) -> TurnState:
        turn = self._turns.running
        if turn is None:
            raise LocalProtocolError("no turn of this session is running: begin_turn comes first")
        if reason is None or reason == "cancelled":
            # Nothing will finish these any more; unmarked they would look busy forever. After any other reason an
            # unfinished call is one that goes on in the background.
            self._tool_calls.cancel_unfinished(turn.start)
        if reason == "cancelled":
            # Chunks that are still on their way belong to this turn, and continue the message they were part of.
            self._messages.compress_open()
        else:
            self._messages.close()
        self._turns.end(len(self._timeline), reason, usage, is_lost=is_lost)
        self._revision += 1
        return turn

    def __repr__(self) -> str:
        turns, items = len(self._turns.items), len(self._timeline)
        return f"SessionState(revision={self._revision}, turns={turns}, timeline={items})"


def fold(state: SessionState, update: v1.SessionUpdate | v2.SessionUpdate) -> SessionState:
    """Change the state by this update, and return it.

    Raises: TypeError for an object that is not a session update.
    """
    step = state._steps.get(type(update)) or state._step_of_version2(update)
    if step is None:
        raise TypeError(f"{type(update).__name__} is not a session update")
    step(update)
    state._revision += 1
    state._messages.compress_long()
    return state


def fold_all(state: SessionState, updates: Sequence[v1.SessionUpdate | v2.SessionUpdate]) -> SessionState:
    """Change the state by these updates, one after another, and return it.

    Raises: TypeError for an object that is not a session update; the updates before it are folded.
    """
    steps = state._steps
    for update in updates:
        step = steps.get(type(update)) or state._step_of_version2(update)
        if step is None:
            raise TypeError(f"{type(update).__name__} is not a session update")
        step(update)
        state._revision += 1
    state._messages.compress_long()
    return state
