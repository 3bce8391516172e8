"""What is known of one turn, folded from its events: the result, and whether the turn may be repeated.

Valid at any moment, also before the agent has answered for the first time. What the session's state holds (texts, tool
calls, usage) is read from it when the result is made. Pure: it reads no file and no clock but the events'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.runs import result as results
from dragoman.runs.events import (
    CommandEnded,
    Decided,
    Initialized,
    LeftUnjudged,
    Opened,
    TurnEnded,
    Updated,
    Violated,
)
from dragoman.runs.tool_calls import ToolWatch
from dragoman.schema import v1
from dragoman.state import Message
from dragoman.state.tools import ToolCallState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.client.terminals import Look
    from dragoman.policy.decide import Decision
    from dragoman.runs.events import RunEvent
    from dragoman.runs.patch import PatchWatch
    from dragoman.runs.terms import Terms
    from dragoman.state import SessionState
    from dragoman.state.turns import TurnState
    from dragoman.workspace import Change

END_TURN: Final = "end_turn"
# Kinds of tool call that change nothing.
_HARMLESS: Final = frozenset({"read", "search", "think"})
# A turn in a host may last for days; what comes after so many is counted in the state, and not described here.
_MOST: Final = 10_000


class RunRecord:
    """The record of one turn.

    Args:
        terms: of the run.
        look: what a terminal shows, by its id.
        written: the files that this program wrote for the agent in the turn.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        look: Callable[[str], Look | None] = lambda terminal_id: None,
        written: Callable[[], Sequence[Change]] = lambda: (),
    ) -> None:
        self.terms = terms
        self.tools = ToolWatch(terms.project)
        self.tools.look = look
        self.agent = describe_agent(terms)
        self.session_id: str | None = None
        self.is_scripted = terms.entry is not None and terms.entry.is_scripted
        self.decisions: list[Decision] = []
        """What was decided, in order."""
        self.commands: list[results.RunCommand] = []
        self.violations: list[results.RunViolation] = []
        self.unjudged: list[results.RunUnjudged] = []
        self.changes: results.TreeChanges | None = None
        """What the folders show; None if it is not known."""
        self.stop_reason: str | None = None
        self.own_usage: dict[str, Any] = {}
        """The usage in the `_meta` of the built-in agent's answer."""
        self.written = written
        self.patch: PatchWatch | None = None
        self._has_usage = False
        self._kinds: dict[str, str] = {}

    def copy_before(self) -> Callable[[Sequence[str]], None]:
        """Copy files from now on before they change, for a patch; returns what is to be called with their paths."""
        from dragoman.runs.patch import PatchWatch

        self.patch = PatchWatch(self.terms.roots[0])
        return self.patch.copy

    def copy_named(self, updates: Sequence[v1.SessionUpdate], state: SessionState) -> None:
        """Copy the files that tool calls are going to change, if a patch is wanted."""
        for update in updates if self.patch is not None else ():
            if isinstance(update, v1.ToolCall | v1.ToolCallUpdate) and self.patch is not None:
                self.patch.note(state.tool_calls[update.tool_call_id])

    def next_turn(self) -> RunRecord:
        """Make a record for another turn of the same session."""
        record = RunRecord(self.terms, look=self.tools.look, written=self.written)
        record.agent, record.session_id, record.is_scripted = self.agent, self.session_id, self.is_scripted
        return record

    @property
    def may_have_changed(self) -> bool:
        """Whether the turn may have changed something, as far as it was seen; such a turn is never repeated."""
        if self.commands or self.written() or (self.changes is not None and self.changes.paths):
            return True
        if any(made.is_allowed and made.kind not in _HARMLESS for made in self.decisions):
            return True
        return any(kind not in _HARMLESS for kind in self._kinds.values())

    def take(self, event: RunEvent) -> None:
        """Take the next event."""
        match event:
            case Updated(updates=updates, session_id=session_id):
                if session_id == self.session_id:  # a subagent's calls are a part of the call that started it
                    for update in updates:
                        self._update(update, event.at)
            case Decided():
                self._decide(event)
            case CommandEnded(command=command, hint=hint) if len(self.commands) < _MOST:
                self.commands.append(results.finished_command(command, hint))
            case Violated(violation=violation) if len(self.violations) < _MOST:
                self.violations.append(violation)
            case LeftUnjudged(unjudged=unjudged) if len(self.unjudged) < _MOST:
                self.unjudged.append(unjudged)
            case Initialized(agent=agent):
                self.agent = agent
            case Opened(session_id=id, is_scripted=is_scripted):
                self.session_id, self.is_scripted = id, is_scripted
            case TurnEnded(end=end) if end.response is not None:
                self._end(end.response, was_cancelled=end.was_cancelled)
            case _:
                pass

    def _decide(self, event: Decided) -> None:
        decision = event.decision
        if decision.tool_call_id is not None:
            self.tools.begin(decision.tool_call_id, event.at)
        if len(self.decisions) < _MOST:
            self.decisions.append(decision)

    def _update(self, update: v1.SessionUpdate, at: float) -> None:
        if isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
            self.tools.note(update, at)
            if update.kind:
                self._kinds[update.tool_call_id] = update.kind
            else:
                self._kinds.setdefault(update.tool_call_id, "other")
        elif isinstance(update, v1.UsageUpdate):
            self._has_usage = self._has_usage or bool(update.used or update.cost)

    def _end(self, response: v1.PromptResponse, *, was_cancelled: bool) -> None:
        own = response.meta.get("dragoman") if isinstance(response.meta, dict) else None
        own = own if isinstance(own, dict) else {}
        self.is_scripted = self.is_scripted or own.get("scripted") is True
        usage = own.get("usage")
        self.own_usage = usage if isinstance(usage, dict) else {}
        answered = response.stop_reason
        # An agent that was asked to stop may still report that it is done; the turn was interrupted all the same.
        self.stop_reason = answered if answered == "cancelled" or not was_cancelled else None

    def is_empty(self, state: SessionState) -> bool:
        """Whether the agent ended the turn as if it was done, with neither text nor anything else that an agent does.

        Some agents end a turn like this when their model fails. Thoughts and notices are not an answer.
        """
        if self.stop_reason != END_TURN or self._has_usage or self.own_usage or self.commands or self.decisions:
            return False
        turn = state.turns[-1]
        if turn.usage is not None and turn.usage.total_tokens:
            return False
        if self.written() or any(text.strip() for text in turn.texts):
            return False
        _prompt, *items = state.timeline[turn.start : turn.end]
        return all(_says_nothing(item) for item in items)

    def result(self, state: SessionState | None) -> results.RunResult:
        """Return the result as far as the turn decides it; the program adds exit code, error, times, retries, patch."""
        turn = state.turns[-1] if state is not None and state.turns else None
        text = ""
        if state is not None and turn is not None:
            text = results.final_text(state, turn) + results.cut_notice(turn)
        return results.RunResult(
            exit_code=0,
            error=None,
            text=text,
            messages=[] if turn is None else [text for text in turn.texts if text],
            lost_characters=0 if turn is None else turn.lost_characters,
            stop_reason=self.stop_reason,
            session_id=self.session_id,
            agent=self.agent,
            scripted=self.is_scripted,
            usage=None if state is None else results.usage(state, None if turn is None else turn.usage, self.own_usage),
            tool_calls=self.tool_calls(state, turn),
            files_changed=self._files_changed(state, turn),
            permissions=(permissions := self.permissions()),
            duration_ms=0,
            project_code=results.project_code(permissions),
            violations=list(self.violations),
            unjudged=list(self.unjudged),
            dangerously_allow_all=self.terms.allows_all,
            sandbox=_sandbox(self.terms),
            commands=list(self.commands),
            changes=self.changes,
        )

    def permissions(self) -> list[results.RunPermission]:
        """Return what was decided, with repetitions counted."""
        return results.permissions(map(results.permission, self.decisions))

    def tool_calls(self, state: SessionState | None, turn: TurnState | None) -> list[results.ToolCall]:
        """Return the tool calls of a turn, in the order in which they were first reported."""
        if state is None or turn is None:
            return []
        calls = [item for item in state.timeline[turn.start : turn.end] if isinstance(item, ToolCallState)]
        return [self.tools.describe(call) for call in calls]

    def _files_changed(self, state: SessionState | None, turn: TurnState | None) -> list[results.FileChange]:
        if state is None:
            return []
        return results.with_seen(results.files_changed(self.written(), state, turn), self.changes)


def describe_agent(terms: Terms, info: v1.Implementation | None = None) -> results.RunAgent:
    """Describe the agent of a run for people and programs; `info` is what it says about itself."""
    entry = terms.entry
    is_named = entry is None or entry.source != "command"
    return results.RunAgent(
        name=terms.agent if is_named else None,
        command=[] if entry is None else list(entry.command),
        title=None if info is None else info.title or info.name,
        version=None if info is None else info.version,
    )


def _says_nothing(item: object) -> bool:
    if isinstance(item, Message):
        return item.role != "agent" or all(isinstance(block, v1.TextContent) for block in item.blocks)
    return isinstance(item, v1.Notice)


def _sandbox(terms: Terms) -> results.RunSandbox:
    found = terms.sandboxes
    return results.RunSandbox(
        mode=found.mode,
        backend=found.backend,
        promise=None if found.commands is None else found.commands.describe(),
        reason=found.reason or None,
        agent=None if found.agent is None else found.agent.backend,
        agent_state=list(found.state),
    )
