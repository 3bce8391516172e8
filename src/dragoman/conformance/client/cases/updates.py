"""Updates: every kind the protocol has, and every way in which one can be odd without being a reason to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import CaseNeeds, case

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe

_TEXT = {"type": "text", "text": "hello"}
_COMMAND = {"name": "plan", "description": "Makes a plan"}
_ENTRY = {"content": "Look", "priority": "high", "status": "pending"}
_LOCATION = {"path": "/nonexistent/a.py", "line": 3}
_EVIL: dict[str, Any] = {"session_id": "EVIL", "sessionId": "EVIL", "update": None, "self": 1, "example.com/x": [{}]}


@case("client/updates/every-kind", rules=(40,))
async def every_kind(probe: ClientProbe) -> None:
    """Every kind of update of the protocol is accepted.

    Sends every kind of update the client asked for; expects the turn to go on.
    """
    turn = await probe.prompted()
    for kind in ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"):
        turn.update(kind, content=_TEXT, messageId="message-1")
    diff = {"type": "diff", "path": "/nonexistent/a.py", "oldText": None, "newText": "new"}
    content = [{"type": "content", "content": _TEXT}, diff]
    turn.update("tool_call", toolCallId="call-1", title="Edit", kind="edit", content=content, locations=[_LOCATION])
    turn.update("tool_call_update", toolCallId="call-1", status="completed", rawOutput={"ok": True})
    turn.update("plan", entries=[_ENTRY, {**_ENTRY, "status": "completed"}])
    turn.update("available_commands_update", availableCommands=[_COMMAND, {**_COMMAND, "input": {"hint": "what"}}])
    turn.update("current_mode_update", currentModeId="code")
    turn.update("config_option_update", configOptions=[])
    turn.update("session_info_update", title="A title", updatedAt="2026-01-01T00:00:00Z")
    turn.update("session_info_update", title=None)
    turn.update("usage_update", used=10, size=100, cost={"amount": 0.5, "currency": "EUR"})
    if probe.offers("session.notices"):
        turn.update("notice", severity="info", title="By the way", description="All is well")
    if probe.offers("session.compaction"):
        turn.update("compaction_update", compactionId="c-1", status="in_progress")
        turn.update("compaction_summary_chunk", compactionId="c-1", content=_TEXT)
        turn.update("compaction_update", compactionId="c-1", status="completed")
    await probe.require_well(turn, "every kind of update")


@case("client/updates/every-content", rules=(228, 236))
async def every_content(probe: ClientProbe) -> None:
    """Every type of content is accepted in an agent's message, whatever its prompts may hold.

    Sends text, an image, audio, a link and embedded resources; expects the turn to go on.
    """
    turn = await probe.prompted()
    data = "aGVsbG8="
    blocks: list[dict[str, Any]] = [
        {**_TEXT, "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}},
        {"type": "image", "data": data, "mimeType": "image/png", "uri": None},
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "size": 3},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "hello", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": data}},
    ]
    for block in blocks:
        turn.update("agent_message_chunk", content=block)
    await probe.require_well(turn, "every type of content")


@case("client/updates/unknown-kind", rules=(225,), level="SHOULD")
async def unknown_kind(probe: ClientProbe) -> None:
    """An update of an unknown kind is dropped or shown as it is; it does not make the turn fail.

    Sends updates of an own and of a future kind, and one without a kind; expects the turn to go on.
    """
    turn = await probe.prompted()
    turn.update("_judge.example/mood", mood={"is": "good"})
    turn.update("holiday_update", days=[1, 2, 3])
    probe.notify("session/update", {"sessionId": probe.session_id, "update": {"content": _TEXT}})
    await probe.require_well(turn, "an update of an unknown kind")


@case("client/updates/unknown-content", rules=(225,), level="SHOULD")
async def unknown_content(probe: ClientProbe) -> None:
    """Content of an unknown type is dropped or shown as it is; it does not make the turn fail.

    Sends a block of the type hologram, and shows one in a tool call; expects the turn to go on.
    """
    turn = await probe.prompted()
    hologram = {"type": "hologram", "layers": [1]}
    turn.update("agent_message_chunk", content=hologram)
    content = [{"type": "content", "content": hologram}, {"type": "_judge.example/chart", "points": []}]
    turn.update("tool_call", toolCallId="call-1", title="Show", content=content)
    await probe.require_well(turn, "content of an unknown type")


@case("client/updates/odd-items", rules=(226,))
async def odd_items(probe: ClientProbe) -> None:
    """An item of a list that is malformed is skipped; the rest of the list is kept.

    Sends content, locations, plan entries and commands with one malformed item each; expects the turn to go on.
    """
    turn = await probe.prompted()
    content: list[Any] = [7, {"type": "diff"}, {"type": "content", "content": _TEXT}]
    turn.update("tool_call", toolCallId="call-1", title="Look", content=content, locations=[{"line": 1}, _LOCATION])
    turn.update("plan", entries=[{"content": 5}, "x", _ENTRY])
    turn.update("available_commands_update", availableCommands=[{"name": 5}, None, _COMMAND])
    await probe.require_well(turn, "lists with malformed items")


@case("client/updates/odd-members", rules=(227,))
async def odd_members(probe: ClientProbe) -> None:
    """An optional member that is malformed, or a word the client does not know, counts as absent.

    Sends tool calls with an unknown kind and status, and with members of wrong types; expects the turn to go on.
    """
    turn = await probe.prompted()
    turn.update("tool_call", toolCallId="call-1", title="Look", kind="_judge.example/dance", status="bored")
    turn.update("tool_call_update", toolCallId="call-1", kind=7, status=False, title=[], content="no list")
    turn.update("tool_call_update", toolCallId="call-1", locations={"path": 1}, status="completed")
    turn.update("session_info_update", title=5, updatedAt=["now"])
    turn.update("usage_update", used=1, size=2, cost="a lot")
    await probe.require_well(turn, "malformed optional members")


@case("client/updates/absent-members", rules=(213, 327))
async def absent_members(probe: ClientProbe) -> None:
    """Optional members may be absent or null: message ids, contents, locations, _meta.

    Sends updates without and with null in every optional member; expects the turn to go on.
    """
    turn = await probe.prompted()
    turn.update("agent_message_chunk", content=_TEXT)
    nulls = {**_TEXT, "annotations": None, "_meta": None}
    turn.update("agent_message_chunk", content=nulls, messageId=None, _meta=None)
    turn.update("agent_message_chunk", content=_TEXT, messageId="no/uuid at all ∞")
    turn.update("tool_call", toolCallId="call-1", title="Look")
    nothing = dict.fromkeys(("title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "_meta"))
    turn.update("tool_call_update", toolCallId="call-1", **nothing)
    turn.update("tool_call_update", toolCallId="call-1")
    await probe.require_well(turn, "absent and null members")


@case("client/updates/upsert", rules=(244,), level="SHOULD")
async def upsert(probe: ClientProbe) -> None:
    """An update of a tool call that was never announced, and a second announcement, are taken as they come.

    Updates an unknown tool call, then announces it, twice; expects the turn to go on.
    """
    turn = await probe.prompted()
    turn.update("tool_call_update", toolCallId="call-9", status="in_progress", title="Unannounced")
    turn.update("tool_call", toolCallId="call-9", title="Announced late")
    turn.update("tool_call", toolCallId="call-9", title="Announced twice", status="completed")
    turn.update("tool_call_update", toolCallId="call-9", status="in_progress")
    await probe.require_well(turn, "tool calls out of order")


@case("client/updates/unknown-severity", rules=(221,), needs=CaseNeeds(offers=("session.notices",)))
async def unknown_severity(probe: ClientProbe) -> None:
    """A notice of an unknown severity is kept and shown like any other.

    Sends notices with an own and an unknown severity; expects the turn to go on.
    """
    turn = await probe.prompted()
    turn.update("notice", severity="_judge.example/joke", title="Knock knock")
    turn.update("notice", severity="catastrophe", title="Who is there?", description=None)
    await probe.require_well(turn, "a notice of an unknown severity")


@case("client/updates/other-session", rules=(103,), level="SHOULD")
async def other_session(probe: ClientProbe) -> None:
    """Updates of a session the client did not open do no harm.

    Sends updates of a session that was not opened; expects the turn to go on.
    """
    turn = await probe.prompted()
    update = {"sessionUpdate": "agent_message_chunk", "content": _TEXT}
    probe.notify("session/update", {"sessionId": "sess-of-another-client", "update": update})
    await probe.require_well(turn, "an update of another session")


@case("client/updates/meta-ignored", rules=(327, 328))
async def meta_ignored(probe: ClientProbe) -> None:
    """_meta may be anywhere and hold anything; unknown members of it change nothing.

    Sends updates with _meta at every level, whose keys are those of the protocol; expects the turn to go on.
    """
    turn = await probe.prompted()
    update = {"sessionUpdate": "agent_message_chunk", "content": {**_TEXT, "_meta": _EVIL}, "_meta": _EVIL}
    probe.notify("session/update", {"sessionId": probe.session_id, "update": update, "_meta": _EVIL})
    turn.update("tool_call", toolCallId="call-1", title="Look", _meta=_EVIL, locations=[{**_LOCATION, "_meta": _EVIL}])
    await probe.require_well(turn, "updates with _meta")
