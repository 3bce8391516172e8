"""The state of one session: every update folded in, in order, at a cost that does not grow with what is there.

`fold` changes the state it is given and returns it. Between two folds it reads as a value: what the properties return
is a string, a tuple, a frozen struct, or a view that cannot be changed. Nothing here waits, so a program that looks
without awaiting sees one moment. `revision` tells whether anything changed; items have their own.
Does not know the wire, the clock, or who looks.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET, Unknown, v1
from dragoman.state import compactions, messages, plans, settings, subagents, tools
from dragoman.state.compactions import CompactionState
from dragoman.state.messages import Message
from dragoman.state.plans import PlanState
from dragoman.state.subagents import SessionMessageState, SubagentState
from dragoman.state.text_buffer import View
from dragoman.state.tools import ToolCallState
from dragoman.state.turns import TurnState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from dragoman.schema import UnsetType

    # Updates that could not be folded: of a kind, or with a plan in a form, this version does not know; or frames of
    # a compaction that is over.
    Unfolded: TypeAlias = Unknown | v1.PlanUpdate | v1.CompactionUpdate | v1.CompactionSummaryChunk

TimelineItem: TypeAlias = (
    Message | ToolCallState | PlanState | CompactionState | SubagentState | SessionMessageState | v1.Notice | Unknown
)


class SessionState:
    """What is known of one session. Programs look at it; only `fold` and the turn's marks change it."""

    __slots__ = (
        "_by_id",
        "_commands",
        "_compactions",
        "_config_options",
        "_cost",
        "_late",
        "_messages",
        "_meta",
        "_mode",
        "_modes",
        "_nobody",
        "_notices",
        "_open",
        "_plan",
        "_plan_is_open",
        "_plans",
        "_revision",
        "_running",
        "_session_messages",
        "_subagents",
        "_thoughts",
        "_timeline",
        "_title",
        "_tools",
        "_turns",
        "_unknown",
        "_updated_at",
        "_usage",
    )

    def __init__(self) -> None:
        self._revision = 0
        self._nobody = messages.nobody()
        self._open = self._nobody  # the message a chunk without an id continues
        self._by_id: dict[tuple[str, str], Message] = {}
        self._messages: list[Message] = []
        self._thoughts: list[Message] = []
        self._timeline: list[TimelineItem] = []
        self._tools: dict[str, ToolCallState] = {}
        self._plan: PlanState | None = None
        self._plan_is_open = False  # the next plan replaces this one in the timeline
        self._plans: dict[str, PlanState] = {}
        self._compactions: dict[str, CompactionState] = {}
        self._subagents: dict[str, SubagentState] = {}
        self._session_messages: dict[str, SessionMessageState] = {}
        self._notices: list[v1.Notice] = []
        self._unknown: list[Unfolded] = []
        self._usage: v1.UsageUpdate | None = None
        self._cost: v1.Cost | None = None
        self._mode: str | None = None
        self._modes: v1.SessionModeState | None = None
        self._config_options: tuple[v1.SessionConfigOption, ...] = ()
        self._commands: tuple[v1.AvailableCommand, ...] = ()
        self._title: str | None = None
        self._updated_at: str | None = None
        self._meta: dict[str, Any] | None = None
        self._turns: list[TurnState] = []
        self._running: TurnState | None = None
        self._late: TurnState | None = None  # a cancelled turn, until the next one begins

    @property
    def revision(self) -> int:
        """Grows with every change."""
        return self._revision

    @property
    def timeline(self) -> Sequence[TimelineItem]:
        """Everything there is to show, in the order in which it first came; changed items keep their place."""
        return View(self._timeline)

    @property
    def messages(self) -> Sequence[Message]:
        """Messages of all roles, in the order in which they began."""
        return View(self._messages)

    @property
    def thoughts(self) -> Sequence[Message]:
        """The messages of role `thought` alone."""
        return View(self._thoughts)

    @property
    def turns(self) -> Sequence[TurnState]:
        """The prompts made here, with their answers; a replayed history has none."""
        return View(self._turns)

    @property
    def text(self) -> str:
        """The agent's text of the last turn."""
        return self._turns[-1].text if self._turns else ""

    @property
    def stop_reason(self) -> v1.StopReason | None:
        """Why the last turn ended; None while it runs, and if it broke off without an answer."""
        return self._turns[-1].stop_reason if self._turns else None

    @property
    def is_running(self) -> bool:
        """A turn has begun and not ended."""
        return self._running is not None

    @property
    def is_after_cancel(self) -> bool:
        """The last turn was cancelled and no other has begun: what an agent says now, it says too late."""
        return self._late is not None

    @property
    def tool_calls(self) -> Mapping[str, ToolCallState]:
        """By id, in the order in which they were first heard of."""
        return MappingProxyType(self._tools)

    @property
    def plan(self) -> tuple[v1.PlanEntry, ...]:
        """The steps of the current plan."""
        return () if self._plan is None else self._plan.entries

    @property
    def plans(self) -> Mapping[str, PlanState]:
        """Plans that have an id (unstable), without the removed ones."""
        return MappingProxyType(self._plans)

    @property
    def usage(self) -> v1.UsageUpdate | None:
        """How full the context is, as last reported."""
        return self._usage

    @property
    def cost(self) -> v1.Cost | None:
        """What the session has cost, as last reported: it adds up, so a report without it does not take it back."""
        return self._cost

    @property
    def mode(self) -> str | None:
        """The current mode's id, from `modes` or from the option of category `mode`."""
        return self._mode

    @property
    def modes(self) -> v1.SessionModeState | None:
        """The modes there are and the current one, if the agent has modes."""
        return self._modes

    @property
    def config_options(self) -> tuple[v1.SessionConfigOption, ...]:
        """The configuration options with their current values."""
        return self._config_options

    @property
    def commands(self) -> tuple[v1.AvailableCommand, ...]:
        """The slash commands that can be used now."""
        return self._commands

    @property
    def title(self) -> str | None:
        """The session's title."""
        return self._title

    @property
    def updated_at(self) -> str | None:
        """When the agent last worked on it, as the agent wrote it."""
        return self._updated_at

    @property
    def meta(self) -> dict[str, Any] | None:
        """The last `_meta` of a session_info_update."""
        return self._meta

    @property
    def notices(self) -> Sequence[v1.Notice]:
        """Passing information for the user."""
        return View(self._notices)

    @property
    def compactions(self) -> Mapping[str, CompactionState]:
        """Compactions of the context, by id."""
        return MappingProxyType(self._compactions)

    @property
    def subagents(self) -> Mapping[str, SubagentState]:
        """Child sessions (unstable), by session id."""
        return MappingProxyType(self._subagents)

    @property
    def session_messages(self) -> Mapping[str, SessionMessageState]:
        """Messages between sessions (unstable), by message id."""
        return MappingProxyType(self._session_messages)

    @property
    def unknown(self) -> Sequence[Unfolded]:
        """Updates of kinds this version does not know, and those that contradict what came before."""
        return View(self._unknown)

    def open(
        self,
        modes: v1.SessionModeState | UnsetType | None = None,
        config_options: Sequence[v1.SessionConfigOption] | UnsetType | None = None,
    ) -> None:
        """Take what the answer to session/new, load, resume or fork says; what it leaves out stays."""
        if modes is not None and modes is not UNSET:
            self._modes = modes
            self._mode = modes.current_mode_id
        if config_options is not None and config_options is not UNSET:
            settings.set_config_options(self, config_options)
        self._revision += 1

    def begin_turn(self, prompt: Sequence[v1.ContentBlock]) -> TurnState:
        """Mark that a prompt goes out; it becomes a user message.

        Raises: LocalProtocolError while another turn runs (rule 187).
        """
        if self._running is not None:
            raise LocalProtocolError("a turn of this session is running: end it before the next one begins")
        messages.close_open(self)
        self._late = None
        turn = TurnState(len(self._turns), tuple(prompt), len(self._timeline))
        self._turns.append(turn)
        self._running = turn
        turn._prompt_message = messages.say_prompt(self, turn.prompt)
        self._revision += 1
        return turn

    def cancel_turn(self) -> None:
        """Mark the running turn's unfinished tool calls at once when a cancel goes out (rule 193); the turn runs on."""
        if self._running is not None:
            tools.cancel_unfinished(self, self._running._start)
            self._revision += 1

    def end_turn(self, stop_reason: v1.StopReason | None, usage: v1.Usage | UnsetType | None = None) -> TurnState:
        """Mark the prompt's answer; None for a turn that broke off without one.

        Raises: LocalProtocolError when no turn runs.
        """
        turn = self._running
        if turn is None:
            raise LocalProtocolError("no turn of this session is running: begin_turn comes first")
        if stop_reason is None or stop_reason == "cancelled":
            # Nothing will finish these any more; left alone they would look busy for ever. After any other reason an
            # unfinished call is one that goes on in the background.
            tools.cancel_unfinished(self, turn._start)
        if stop_reason == "cancelled":
            # What is still on its way belongs to this turn, and continues the message it was part of.
            self._open._absorb()
            self._late = turn
        else:
            messages.close_open(self)
        turn._end = len(self._timeline)
        turn._is_running = False
        turn._stop_reason = stop_reason
        turn._usage = None if usage is UNSET else usage
        self._running = None
        self._revision += 1
        return turn

    def lose_agent(self) -> None:
        """Mark that the agent is gone: the running turn breaks off, and what it worked on has failed."""
        tools.fail_unfinished(self)
        if self._running is not None:
            self._running._is_lost = True
            self.end_turn(None)
        self._revision += 1

    def note_permission(self, tool_call: v1.ToolCallPatch) -> ToolCallState:
        """Take what a permission request says of its tool call: some agents announce it nowhere else."""
        call = tools.upsert(self, tool_call)
        self._revision += 1
        return call

    def __repr__(self) -> str:
        return f"SessionState(revision={self._revision}, turns={len(self._turns)}, timeline={len(self._timeline)})"

    @property
    def _turn_index(self) -> int | None:
        turn = self._running or self._late
        return None if turn is None else turn._index


def fold(state: SessionState, update: v1.SessionUpdate) -> SessionState:
    """The state after this update: the same object, changed inside.

    Raises: TypeError for what is not a session update at all.
    """
    try:
        step = _STEPS[type(update)]
    except KeyError:
        raise TypeError(f"{type(update).__name__} is not a session update") from None
    step(state, update)
    state._revision += 1
    return state


def _fold_unknown(state: SessionState, update: Unknown) -> None:
    state._unknown.append(update)
    state._timeline.append(update)


def fold_all(state: SessionState, updates: Sequence[v1.SessionUpdate]) -> SessionState:
    """The state after these updates, one after another.

    Raises: TypeError for what is not a session update at all; what stands before it is folded.
    """
    for update in updates:
        step = _STEPS.get(type(update))
        if step is None:
            raise TypeError(f"{type(update).__name__} is not a session update")
        step(state, update)
        state._revision += 1
    return state


def _fold_commands(state: SessionState, update: v1.AvailableCommandsUpdate) -> None:
    state._commands = tuple(update.available_commands)


def _fold_info(state: SessionState, update: v1.SessionInfoUpdate) -> None:
    # Only changed members come; null clears (rule 217).
    if update.title is not UNSET:
        state._title = update.title
    if update.updated_at is not UNSET:
        state._updated_at = update.updated_at
    if update.meta is not UNSET:
        state._meta = update.meta


def _fold_usage(state: SessionState, update: v1.UsageUpdate) -> None:
    state._usage = update
    if update.cost is not UNSET and update.cost is not None:
        state._cost = update.cost


def _fold_notice(state: SessionState, notice: v1.Notice) -> None:
    state._notices.append(notice)
    state._timeline.append(notice)


_STEPS: Final[dict[type, Callable[[SessionState, Any], None]]] = {
    v1.AgentMessageChunk: messages.fold_chunk,
    v1.AgentThoughtChunk: messages.fold_chunk,
    v1.UserMessageChunk: messages.fold_user_chunk,
    v1.ToolCall: tools.fold_tool_call,
    v1.ToolCallUpdate: tools.fold_tool_call,
    v1.Plan: plans.fold_plan,
    v1.PlanUpdate: plans.fold_plan_update,
    v1.PlanRemoved: plans.fold_plan_removed,
    v1.AvailableCommandsUpdate: _fold_commands,
    v1.CurrentModeUpdate: settings.fold_mode,
    v1.ConfigOptionUpdate: settings.fold_config_options,
    v1.SessionInfoUpdate: _fold_info,
    v1.UsageUpdate: _fold_usage,
    v1.Notice: _fold_notice,
    v1.CompactionUpdate: compactions.fold_compaction,
    v1.CompactionSummaryChunk: compactions.fold_compaction_chunk,
    v1.SubagentUpdate: subagents.fold_subagent,
    v1.SessionMessage: subagents.fold_session_message,
    v1.SessionMessageChunk: subagents.fold_session_message_chunk,
    Unknown: _fold_unknown,
}
