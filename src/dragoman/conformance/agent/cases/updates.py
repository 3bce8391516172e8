"""What an agent reports while it works: messages, thoughts, tool calls, plans and the rest.

Each case leads the agent to one kind of update and holds it against the schema; rules about how updates follow each
other are checked where they can be seen.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.conformance.case import Case, Fail, Inconclusive, add_cases, case
from dragoman.conformance.expect import is_absolute
from dragoman.errors import RemoteProtocolError
from dragoman.schema import Loss, decode, v1

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn

_FINAL = ("completed", "failed")


@dataclass(frozen=True, kw_only=True)
class _Update(Case):
    """Leads the agent to an action; expects updates of this kind, which fit the schema."""

    action: str
    kind: str

    @property
    def steps(self) -> str:
        return f"Asks for the action {self.action!r}; expects {self.kind} updates as the schema has them."

    async def run(self, probe: AgentProbe) -> None:
        await _expect_fit(probe, self.action, self.kind)


add_cases(
    _Update(
        "agent/updates/message",
        rules=(108, 210, 211, 230),
        about="a piece of a message carries one content block",
        action="say",
        kind="agent_message_chunk",
    ),
    _Update(
        "agent/updates/thought",
        rules=(210, 211),
        about="a piece of a thought carries one content block",
        action="think",
        kind="agent_thought_chunk",
    ),
    _Update(
        "agent/updates/plan",
        rules=(262, 263),
        about="every entry of a plan has its content, a priority and a status",
        action="plan",
        kind="plan",
    ),
    _Update(
        "agent/updates/commands",
        rules=(268, 269),
        about="every slash command has a name and a description",
        action="commands",
        kind="available_commands_update",
    ),
)


@case("agent/updates/content", rules=(228, 230, 231, 232, 233, 234, 235))
async def content(probe: AgentProbe) -> None:
    """Content blocks of every type have their members, and base64 that can be decoded.

    Leads the agent to answer with other content than text; expects valid blocks.
    """
    turn = await _expect_fit(probe, "content", "agent_message_chunk")
    blocks = [update["content"] for update in turn.updates("agent_message_chunk")]
    if all(block.get("type") == "text" for block in blocks):
        raise Inconclusive("the answer has nothing but text")
    for block in blocks:
        _expect_block(block)


@case("agent/updates/plan-progress", rules=(264, 265), level="SHOULD")
async def plan_progress(probe: AgentProbe) -> None:
    """Progress is reported by sending the plan again, all of it.

    Leads the agent to plan; expects a later plan to have the entries of the first one, unless it is another plan.
    """
    turn = await probe.acted("plan")
    await turn.first_update("plan")
    plans = [[entry.get("content") for entry in update.get("entries") or ()] for update in turn.updates("plan")]
    if len(plans) < 2:
        raise Inconclusive("the plan was sent once, without progress")
    # Entries may be dropped (rule 267); a later plan that is a small part of an earlier one looks like a patch.
    for one, two in pairwise(plans):
        if two and len(two) < len(one) / 2 and set(two) < set(one):
            raise Fail(f"a plan of {len(one)} entries is followed by one with {len(two)} of them")


@case("agent/updates/usage", rules=(215, 216))
async def usage(probe: AgentProbe) -> None:
    """Usage has whole numbers, and a cost its amount and a currency of three letters.

    Leads the agent to report usage; expects usage_update as the schema has it.
    """
    turn = await _expect_fit(probe, "usage", "usage_update")
    for update in turn.updates("usage_update"):
        cost = update.get("cost")
        if cost and not re.fullmatch(r"[A-Z]{3}", str(cost.get("currency"))):
            raise Fail(f"the currency is {cost.get('currency')!r}")


@case("agent/updates/session-info", rules=(92, 217, 218))
async def session_info(probe: AgentProbe) -> None:
    """session_info_update carries what changed, and never the session's id, folder or directories.

    Leads the agent to name the session; expects no member that cannot change.
    """
    turn = await _expect_fit(probe, "title", "session_info_update")
    for update in turn.updates("session_info_update"):
        wrong = update.keys() & {"sessionId", "cwd", "additionalDirectories"}
        if wrong:
            raise Fail(f"session_info_update carries {sorted(wrong)[0]}")


@case("agent/updates/notice", rules=(219,))
async def notice(probe: AgentProbe) -> None:
    """A notice has a severity and a title that is not empty.

    Leads the agent to a notice; expects it as the schema has it.
    """
    turn = await _expect_fit(probe, "notice", "notice")
    for update in turn.updates("notice"):
        severity = update.get("severity")
        if severity not in ("info", "warning", "error") and not str(severity).startswith("_"):
            raise Fail(f"the severity is {severity!r}")
        if not update.get("title"):
            raise Fail("the title is empty")


@case("agent/updates/compaction", rules=(222, 223, 224))
async def compaction(probe: AgentProbe) -> None:
    """A compaction has an id and a status, its summary comes while it is in progress, and it ends once.

    Leads the agent to compact; expects in_progress, the summary, and one final status.
    """
    turn = await _expect_fit(probe, "compaction", "compaction_update")
    ended: set[str] = set()
    for update in turn.updates():
        kind, id = update.get("sessionUpdate"), update.get("compactionId")
        if kind not in ("compaction_update", "compaction_summary_chunk"):
            continue
        if id in ended:
            raise Fail(f"{kind} came after the compaction had ended")
        if update.get("status") in ("completed", "failed", "cancelled"):
            ended.add(str(id))


@case("agent/tool-calls/reported", rules=(238, 239, 240, 241, 245, 249))
async def reported(probe: AgentProbe) -> None:
    """A tool call is reported with an id, a title, and a kind and status the protocol knows.

    Leads the agent to use a tool; expects tool_call and tool_call_update as the schema has them.
    """
    turn = await _expect_fit(probe, "tool", "tool_call")
    for update in _tool_updates(turn):
        for member, known in (("kind", "ToolKind"), ("status", "ToolCallStatus")):
            value = update.get(member)
            if value is not None and value not in v1.KNOWN_VALUES[known]:
                raise Fail(f"the {member} of a tool call is {value!r}")


@case("agent/tool-calls/announced-once", rules=(239, 243), level="SHOULD")
async def announced_once(probe: AgentProbe) -> None:
    """A tool call is announced once, before any update of it.

    Leads the agent to use a tool; expects one tool_call per id, and no tool_call_update before it.
    """
    turn = await probe.acted("tool")
    await turn.first_update("tool_call")
    announced: set[str] = set()
    for update in _tool_updates(turn):
        id = str(update.get("toolCallId"))
        if update.get("sessionUpdate") == "tool_call":
            if id in announced:
                raise Fail(f"the tool call {id!r} is announced twice")
            announced.add(id)
        elif id not in announced:
            raise Fail(f"the tool call {id!r} is updated before it is announced")


@case("agent/tool-calls/unique-ids", rules=(239,))
async def unique_ids(probe: AgentProbe) -> None:
    """The ids of tool calls are unique in a session.

    Leads the agent to use a tool in two turns; expects different ids.
    """
    session_id = await probe.new_session()
    ids: list[set[str]] = []
    for _ in range(2):
        turn = await probe.acted("tool", session_id)
        await turn.first_update("tool_call")
        ids.append({str(update.get("toolCallId")) for update in turn.updates("tool_call")})
    again = ids[0] & ids[1]
    if again:
        raise Fail(f"the id {min(again)!r} is used in two turns")


@case("agent/tool-calls/finished", rules=(241, 242), level="SHOULD")
async def finished(probe: AgentProbe) -> None:
    """At the end of a turn its tool calls are completed or failed.

    Leads the agent to use a tool; expects a final status for every call when the turn has ended.
    """
    turn = await probe.acted("tool")
    await turn.first_update("tool_call")
    last: dict[str, Any] = {}
    for update in _tool_updates(turn):
        last[str(update.get("toolCallId"))] = update.get("status") or last.get(str(update.get("toolCallId")))
    left = [id for id, status in last.items() if status not in _FINAL]
    if left:
        raise Fail(f"the tool call {left[0]!r} is left {last[left[0]] or 'pending'}")


@case("agent/tool-calls/diff", rules=(246,))
async def diff(probe: AgentProbe) -> None:
    """The path of a diff is absolute, and its new text is there.

    Leads the agent to change a file; expects diffs with an absolute path and newText.
    """
    turn = await probe.acted("edit")
    diffs = [item for update in _tool_updates(turn) for item in _items(update) if item.get("type") == "diff"]
    asked = turn.sent("session/request_permission")
    for request in asked:
        diffs += [item for item in _items(request.params.get("toolCall") or {}) if item.get("type") == "diff"]
    if not diffs:
        raise Inconclusive("the turn showed no diff")
    for item in diffs:
        if not is_absolute(item.get("path")):
            raise Fail(f"the path of a diff is {item.get('path')!r}")
        if not isinstance(item.get("newText"), str):
            raise Fail("a diff has no newText")


@case("agent/tool-calls/locations", rules=(248, 274))
async def locations(probe: AgentProbe) -> None:
    """Locations are absolute paths, and lines count from one.

    Leads the agent to use a tool and to change a file; expects absolute paths and lines from 1.
    """
    found: list[dict[str, Any]] = []
    for action in ("tool", "edit"):
        turn = await probe.acted(action)
        found += [location for update in _tool_updates(turn) for location in update.get("locations") or ()]
    if not found:
        raise Inconclusive("no tool call had a location")
    for location in found:
        if not is_absolute(location.get("path")):
            raise Fail(f"the path of a location is {location.get('path')!r}")
        line = location.get("line")
        if line is not None and (not isinstance(line, int) or line < 1):
            raise Fail(f"the line of a location is {line!r}")


async def _expect_fit(probe: AgentProbe, action: str, kind: str) -> AgentTurn:
    """Play a turn with an update of this kind, all of whose updates fit the schema."""
    mark = probe.mark
    turn = await probe.act(action if probe.prompts.text(action) else "say")
    turn.mark = mark  # some updates come with the new session, before any prompt
    await turn.end()
    await probe.settle()
    if not turn.updates(kind):
        probe.text(action)
        raise Inconclusive(f"the turn ended without {kind}; a prompt that leads to it would help")
    losses: list[Loss] = []
    for update in turn.updates():
        params = msgspec.json.encode({"sessionId": turn.session_id, "update": update})
        try:
            decode(v1.SessionNotification, params, losses.append)
        except RemoteProtocolError as error:
            raise Fail(f"{update.get('sessionUpdate')} does not fit the schema: {error}") from error
        if losses:
            raise Fail(f"{update.get('sessionUpdate')} does not fit the schema: {losses[0].path}: {losses[0].why}")
    return turn


def _expect_block(block: dict[str, Any]) -> None:
    match block.get("type"):
        case "image" | "audio":
            _expect_base64(block.get("data"))
        case "resource":
            resource = block.get("resource") or {}
            if ("text" in resource) == ("blob" in resource):
                raise Fail("an embedded resource has not exactly one of text and blob")
            if "blob" in resource:
                _expect_base64(resource["blob"])


def _expect_base64(data: object) -> None:
    try:
        base64.b64decode(str(data), validate=True)
    except binascii.Error as error:
        raise Fail(f"data is not base64: {error}") from error


def _tool_updates(turn: AgentTurn) -> list[dict[str, Any]]:
    return [update for update in turn.updates() if str(update.get("sessionUpdate")).startswith("tool_call")]


def _items(update: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in update.get("content") or () if isinstance(item, dict)]
