"""Checks of session/update, its content and its time: chunks, tool calls, usage, notices, compactions.

An update outside a turn is legal (rule 186) and only noted. It is reported where its id proves that it belongs to a
turn that is over, or to a history that should have come before a response.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.schema import Unknown, is_advertised, v1
from dragoman.state.compactions import FINISHED as FINAL_COMPACTION
from dragoman.state.tools import FINISHED
from dragoman.trace.checks.facts import ToolFacts, if_present
from dragoman.trace.checks.paths import check_path
from dragoman.trace.checks.settings import update_mode, update_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.trace.checks.facts import Checks, Facts, SessionFacts
    from dragoman.trace.inspect.exchange import DecodedFrame

# The updates of a conversation; the others (commands, titles, modes, usage) may come at any time.
CONVERSATION: Final = (
    v1.UserMessageChunk,
    v1.AgentMessageChunk,
    v1.AgentThoughtChunk,
    v1.ToolCall,
    v1.ToolCallUpdate,
    v1.Plan,
)
# Updates that need a capability of the client: the capability, and the rule.
GATES: Final[dict[type, tuple[str, int]]] = {
    v1.Notice: ("session.notices", 62),
    v1.CompactionUpdate: ("session.compaction", 63),
    v1.CompactionSummaryChunk: ("session.compaction", 63),
    v1.PlanUpdate: ("plan", 49),
    v1.PlanRemoved: ("plan", 49),
    v1.SubagentUpdate: ("subagents", 49),
    v1.SessionMessage: ("subagents", 49),
    v1.SessionMessageChunk: ("subagents", 49),
}
_AGENT_TALK: Final = (v1.AgentMessageChunk, v1.AgentThoughtChunk, v1.ToolCall, v1.ToolCallUpdate, v1.Plan)
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=\s-]*")


def _check_update(frame: DecodedFrame, facts: Facts) -> None:
    notification = frame.value
    if not isinstance(notification, v1.SessionNotification):
        return
    update, session = notification.update, facts.session(frame)
    if isinstance(update, Unknown):
        return
    _check_gate(frame, facts, update)
    if session is None:
        _note_unnamed(frame, facts)
    else:
        _check_place(frame, facts, session, update)
    step = STEPS.get(type(update))
    if step is not None and session is not None:
        step(frame, facts, session, update)


def _check_gate(frame: DecodedFrame, facts: Facts, update: object) -> None:
    gate, rule = GATES.get(type(update), ("", 0))
    if gate and facts.client is not None and not is_advertised(facts.client, gate):
        facts.report(rule, frame, f"{frame.update} needs the client's capability {gate}, which was not advertised")


def _note_unnamed(frame: DecodedFrame, facts: Facts) -> None:
    """Note an update of a session that no response has named: too early while session/new or fork is open."""
    if not facts.sees_start or frame.session_id is None:
        return
    if frame.session_id in facts.named:
        facts.report(86, frame, f"no response has named the session {frame.session_id!r}", "NOTE")
    elif opens_session(facts):
        facts.early.setdefault(frame.session_id, []).append(frame)
    else:
        report_invented(frame, facts)


def opens_session(facts: Facts) -> bool:
    """Whether a request is open whose answer may name a new session."""
    return any(request.method in ("session/new", "session/fork") for request in facts.exchange.open["c2a"].values())


def report_invented(frame: DecodedFrame, facts: Facts) -> None:
    """Report an update of a session that neither side has ever named."""
    facts.report(210, frame, f"there is no session {frame.session_id!r}: neither side has named it before", "SCHEMA")


def _check_place(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: Any) -> None:
    is_talk = isinstance(update, CONVERSATION)
    if session.turns or session.loading is not None:
        if session.loading is not None and isinstance(update, v1.Notice):
            facts.report(220, frame, "a notice in a replayed history")
        return
    if session.resuming is not None:
        if is_talk:
            facts.report(112, frame, f"{frame.update} between session/resume and its answer: resume replays nothing")
        return
    if session.is_after_load and is_talk:
        # A user message without a prompt can only be history.
        session.saw_history = session.saw_history or isinstance(update, v1.UserMessageChunk)
        if session.saw_history:
            facts.report(107, frame, f"{frame.update}: history after the answer to session/load")
            return
    _check_late(frame, facts, session, update, is_talk)


def _check_late(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: Any, is_talk: bool) -> None:
    turn = session.last
    # After a cancelled turn no other turn can have begun, so what an agent says or does belongs to that one.
    is_of_cancelled = turn is not None and turn.cancelled_at is not None and isinstance(update, _AGENT_TALK)
    belongs = turn is not None and (
        is_of_cancelled
        or (isinstance(update, v1.ContentChunk) and update.message_id in turn.message_ids)
        or (isinstance(update, (v1.ToolCall, v1.ToolCallPatch)) and update.tool_call_id in turn.tool_ids)
    )
    if turn is not None and belongs:
        what = f"{frame.update} of a turn that is over (message {turn.request.number})"
        if turn.cancelled_at is not None:
            facts.report(198, frame, what, "MUST")  # more updates are optional, their place before the response is not
        else:
            facts.report(185, frame, what)
    elif is_talk or isinstance(update, v1.UsageUpdate):
        facts.report(186, frame, f"{frame.update} outside a turn", "NOTE")


def _check_chunk(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.ContentChunk) -> None:
    if session.turn is not None and isinstance(update.message_id, str):
        session.turn.message_ids.add(update.message_id)
    check_block(frame, facts, update.content)


def check_block(frame: DecodedFrame, facts: Facts, block: Any) -> None:
    """Report data that is not base64; the decoder only checks that it is a string."""
    kind = type(block)
    if kind is v1.TextContent or facts.is_redacted:
        return
    text, rule = None, 233
    if kind is v1.ImageContent or kind is v1.AudioContent:
        text, rule = block.data, 231 if kind is v1.ImageContent else 232
    elif kind is v1.EmbeddedResource and isinstance(block.resource, v1.BlobResourceContents):
        text = block.resource.blob
    if text is not None and not _BASE64.fullmatch(text):
        facts.report(rule, frame, f"the data of the {block.__struct_config__.tag} is not base64")


def _check_tool_call(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.ToolCall) -> None:
    known = session.tools.get(update.tool_call_id)
    if known is not None and session.loading is None:
        is_new = known.is_finished and known.turn is not session.turn and update.status_or_default not in FINISHED
        if is_new:
            facts.report(239, frame, f"the tool call id {update.tool_call_id!r} is that of an earlier, finished call")
            known = None
        else:
            facts.report(243, frame, f"a second tool_call for {update.tool_call_id!r}")
    if known is None:
        session.tools[update.tool_call_id] = ToolFacts(session.turn)
    _note_tool(frame, facts, session, update)


def announce_tool(
    frame: DecodedFrame,
    facts: Facts,
    session: SessionFacts,
    update: v1.ToolCallPatch,
    *,
    is_permission: bool = False,
) -> None:
    """Check an update or a permission request, which must not be the first message of its tool call (rule 243)."""
    if update.tool_call_id not in session.tools:
        what = "a permission request" if is_permission else "tool_call_update"
        facts.report(243, frame, f"{what} for {update.tool_call_id!r}, which no tool_call announced")
        session.tools[update.tool_call_id] = ToolFacts(session.turn)
    _note_tool(frame, facts, session, update)


def _note_tool(
    frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.ToolCall | v1.ToolCallPatch
) -> None:
    tool = session.tools[update.tool_call_id]
    if update.status in FINISHED:
        tool.is_finished = True
    if session.turn is not None:
        session.turn.tool_ids.add(update.tool_call_id)
    for location in if_present(update.locations) or ():
        check_path(frame, facts, 248, "a location's path", location.path)
        if location.line == 0:
            facts.report(248, frame, "a location's line is 0; lines are counted from 1")
    for content in if_present(update.content) or ():
        _check_content(frame, facts, content)


def _check_content(frame: DecodedFrame, facts: Facts, content: Any) -> None:
    if isinstance(content, v1.Diff):
        check_path(frame, facts, 246, "a diff's path", content.path)
    elif isinstance(content, v1.Content):
        check_block(frame, facts, content.content)
    elif isinstance(content, v1.Terminal) and facts.sees_start:
        terminal = facts.terminals.get(content.terminal_id)
        session = facts.session(frame)
        if session is not None and session.loading is not None:
            return  # a terminal of another process
        if terminal is None:
            facts.report(251, frame, f"the client never created the terminal {content.terminal_id!r}")
        elif terminal.released_by is not None and content.terminal_id not in facts.embedded:
            facts.report(251, frame, f"the terminal was released by message {terminal.released_by} before it is shown")
        facts.embedded.add(content.terminal_id)


def _check_usage(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.UsageUpdate) -> None:
    cost = if_present(update.cost)
    if cost is not None and not _CURRENCY.fullmatch(cost.currency) and not facts.is_redacted:
        facts.report(216, frame, f"the currency {cost.currency!r} is not an ISO 4217 code")


def _check_compaction(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.CompactionUpdate) -> None:
    known = session.compactions.get(update.compaction_id)
    if known in FINAL_COMPACTION and known != update.status:
        facts.report(223, frame, f"compaction {update.compaction_id!r} is {known} and becomes {update.status}")
        return
    session.compactions[update.compaction_id] = update.status


def _check_summary(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.CompactionSummaryChunk) -> None:
    known = session.compactions.setdefault(update.compaction_id, "in_progress")
    if known in FINAL_COMPACTION:
        facts.report(224, frame, f"a summary chunk for compaction {update.compaction_id!r}, which is {known}")


def _note_child(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.SubagentUpdate) -> None:
    """Keep a child session that the agent presents: the client may use it."""
    facts.sessions.setdefault(update.session_id, type(session)())


STEPS: Final[dict[type, Callable[[DecodedFrame, Facts, SessionFacts, Any], None]]] = {
    v1.UserMessageChunk: _check_chunk,
    v1.AgentMessageChunk: _check_chunk,
    v1.AgentThoughtChunk: _check_chunk,
    v1.ToolCall: _check_tool_call,
    v1.ToolCallUpdate: announce_tool,
    v1.UsageUpdate: _check_usage,
    v1.ConfigOptionUpdate: update_options,
    v1.CurrentModeUpdate: update_mode,
    v1.CompactionUpdate: _check_compaction,
    v1.CompactionSummaryChunk: _check_summary,
    v1.SubagentUpdate: _note_child,
}

CHECKS: Checks = {("session/update", "params"): _check_update}
