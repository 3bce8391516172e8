"""The updates a client receives for a stream: every row of the mapping, valid against the schema."""

from typing import Any

import pytest

from dragoman.schema import Unknown, v1
from dragoman.uistream import chunks as c
from dragoman.uistream.content import blocks_of, parts_of
from dragoman.uistream.display import KINDS, FileDiff, Location, ToolDisplay, display_of, with_display
from dragoman.uistream.fold import Reducer
from dragoman.uistream.messages import TextPart, ToolPart, UIMessage
from dragoman.uistream.unfold import replay
from dragoman.uistream.updates import LIMITS, Projector, stop_reason_of
from tests.builtin.streams import FILES, STREAMS, on_wire, project, stream

needs_streams = pytest.mark.skipif(not FILES, reason=f"no recorded streams in {STREAMS}")

# How the turn of each recording ends: a stop reason, or the error its prompt is answered with.
ENDS = {
    "abort": "cancelled",
    "error": "upstream 529",
    "error_before_start": "",
    "finish_content-filter": "refusal",
    "finish_length": "max_tokens",
}
# Recordings that end with a question; a second stream carries the answer.
WAITING = {"approval_request", "v7_toolapproval_user"}

SHOWN = ToolDisplay("edit", (Location("/w/a.py"),), (FileDiff("/w/a.py", None, "one\ntwo"),))


def statuses(updates: list[dict[str, Any]], call: str) -> list[str]:
    return [update["status"] for update in updates if update.get("toolCallId") == call and "status" in update]


@needs_streams
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_recorded_stream_projects_to_valid_updates_and_the_right_end(path) -> None:  # type: ignore[no-untyped-def]
    name = path.stem.removeprefix("aisdk_")
    projector = Projector()
    updates = on_wire(project(stream(name), projector))
    kind = name.split("_", 1)[1]
    if kind in ("error", "error_before_start"):
        assert projector.stop_reason is None
        assert projector.error
    else:
        assert projector.error is None
        assert projector.stop_reason == (None if kind in WAITING else ENDS.get(kind, "end_turn"))
        assert bool(projector.open_questions) == (kind in WAITING)
    open_calls = {update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call"}
    for call in open_calls if kind not in WAITING else ():
        assert statuses(updates, call)[-1] in ("completed", "failed")


@needs_streams
def test_text_and_thought_of_a_recording_arrive_whole_and_in_order() -> None:
    updates = on_wire(project(stream("v6_text_reasoning")))
    kinds = [update["sessionUpdate"] for update in updates]
    assert set(kinds) == {"agent_message_chunk", "agent_thought_chunk"}
    assert kinds.index("agent_thought_chunk") < kinds.index("agent_message_chunk")


def test_each_passage_is_a_message_of_its_own_and_a_replay_gives_the_same_ids() -> None:
    chunks: list[c.Chunk] = [
        c.Start("msg_1"),
        c.StartStep(),
        c.ReasoningStart("r"),
        c.ReasoningDelta("r", "hm"),
        c.ReasoningEnd("r"),
        c.TextStart("t"),
        c.TextDelta("t", "a"),
        c.TextDelta("t", "b"),
        c.TextEnd("t"),
        c.ToolInputAvailable("x", "read", {}),
        c.ToolOutputAvailable("x", {"text": "ok"}),
        c.FinishStep(),
        c.StartStep(),
        c.TextStart("t"),
        c.TextDelta("t", "c"),
        c.TextEnd("t"),
    ]
    live = [u["messageId"] for u in on_wire(project(chunks)) if "messageId" in u]
    assert live == ["msg_1.1", "msg_1.2", "msg_1.2", "msg_1.3"]
    reducer = Reducer(UIMessage("", "assistant", []))
    for chunk in chunks:
        reducer.feed(chunk)
    replayed = [u["messageId"] for u in on_wire(project(replay(reducer.message))) if "messageId" in u]
    assert replayed == ["msg_1.1", "msg_1.2", "msg_1.3"]


def test_a_call_shows_what_comes_with_its_chunks() -> None:
    arguments = {"path": "a.py", "text": "one\ntwo"}
    preview = {"kind": "edit", "locations": [{"path": "/w/a.py"}]}
    chunks: list[c.Chunk] = [
        with_display(c.ToolInputStart("x", "write"), "Write a file", ToolDisplay("edit")),
        c.ToolInputDelta("x", '{"path":"a.py",'),
        c.Data(
            "tool-preview",
            {"tool_call_id": "x", "title": "Write a.py", "display": preview},
            transient=True,
        ),
        with_display(c.ToolInputAvailable("x", "write", arguments), "Write a.py", SHOWN),
    ]
    wire = on_wire(project(chunks))
    assert wire[0]["sessionUpdate"] == "tool_call"
    assert (wire[0]["title"], wire[0]["kind"], wire[0]["status"]) == ("Write a file", "edit", "pending")
    assert wire[1]["title"] == "Write a.py"
    assert wire[1]["locations"] == [{"path": "/w/a.py"}]
    assert "rawInput" not in wire[1]
    assert wire[2]["content"] == [{"type": "diff", "path": "/w/a.py", "newText": "one\ntwo", "oldText": None}]
    assert wire[2]["rawInput"] == arguments
    assert len(wire) == 3


def test_a_replayed_call_shows_the_same_without_the_tool_that_made_it() -> None:
    call = with_display(c.ToolInputAvailable("x", "mcp_draw", {}), "Draw a cat", SHOWN)
    output = {"text": "", "diffs": [{"path": "/w/a.py", "old": None, "new": "one\ntwo"}]}
    outcomes: tuple[c.Chunk, ...] = (c.ToolOutputDenied("x"), c.ToolOutputAvailable("x", output))
    for outcome in outcomes:
        reducer = Reducer(UIMessage("m", "assistant", []))
        for chunk in (c.Start("m"), call, outcome):
            reducer.feed(chunk)
        for updates in (on_wire(project([call, outcome])), on_wire(project(replay(reducer.message)))):
            assert (updates[0]["title"], updates[0]["kind"]) == ("Draw a cat", "edit")
            diffs = [item for update in updates for item in update.get("content", ()) if item["type"] == "diff"]
            assert diffs[-1]["newText"] == "one\ntwo"


def test_a_call_of_a_sub_agent_names_the_call_that_it_belongs_to() -> None:
    call = with_display(c.ToolInputAvailable("y", "read", {}), "Read", ToolDisplay("read", parent="x"))
    assert on_wire(project([call]))[0]["_meta"] == {"dragoman": {"parentToolCallId": "x"}}
    assert "_meta" not in on_wire(project([c.ToolInputAvailable("z", "read", {})]))[0]


def test_a_call_through_another_tool_is_shown_as_what_it_calls() -> None:
    start = with_display(c.ToolInputStart("1", "call_tool"), "Call", ToolDisplay("other"))
    given = c.ToolInputAvailable("1", "call_tool", {"name": "s_t", "arguments": {"a": 1}})
    meant = ToolDisplay("read", mcp=("s", "t"), input={"a": 1})
    projector = Projector()
    announced, updated = on_wire(project([start, with_display(given, "s: t", meant)], projector))[:2]
    assert (announced["title"], announced.get("kind", "other"), "_meta" in announced) == ("Call", "other", False)
    assert (updated["title"], updated["kind"], updated["rawInput"]) == ("s: t", "read", {"a": 1})
    assert updated["_meta"] == {"dragoman": {"mcp": {"server": "s", "tool": "t"}}}
    assert projector.calls.patch("1").raw_input == {"a": 1}


def test_a_finished_call_stores_its_diff_once() -> None:
    reducer = Reducer(UIMessage("m", "assistant", []))
    output = {"text": "done", "diffs": [{"path": "/w/a.py", "old": None, "new": "one\ntwo"}]}
    reducer.feed(with_display(c.ToolInputAvailable("x", "write", {}), "Write a.py", SHOWN))
    reducer.feed(c.ToolOutputAvailable("x", output))
    (part,) = reducer.message.parts
    assert isinstance(part, ToolPart)
    assert display_of("write", part.provider_metadata) == ToolDisplay("edit", SHOWN.locations)


@pytest.mark.parametrize("metadata", [None, {}, {"dragoman": "x"}, {"dragoman": {"kind": 1}}, {"openai": {}}])
def test_metadata_without_a_display_gives_the_kind_of_the_tools_name(metadata: Any) -> None:
    assert display_of("bash", metadata) == ToolDisplay("execute")
    assert display_of("github_create_issue", metadata) == ToolDisplay("other")


def test_metadata_of_the_provider_is_kept() -> None:
    call = with_display(c.ToolInputStart("x", "read", provider_metadata={"google": {"id": 1}}), "Read", ToolDisplay())
    assert call.provider_metadata["google"] == {"id": 1}


@pytest.mark.parametrize("starts_on_input", [True, False])
def test_a_call_that_waits_for_permission_is_pending_until_it_was_given(starts_on_input: bool) -> None:
    chunks: list[c.Chunk] = [
        c.ToolInputAvailable("x", "bash", {"command": "ls"}),
        c.ToolApprovalRequest("q", "x"),
        c.ToolApprovalResponse("q", True),
        c.ToolOutputAvailable("x", {"text": "done"}),
    ]
    updates = on_wire(project(chunks, Projector(starts_on_input=starts_on_input)))
    assert statuses(updates, "x") == ["pending", "in_progress", "completed"]


def test_no_call_of_several_is_shown_as_running_before_its_question() -> None:
    chunks: list[c.Chunk] = [
        c.ToolInputAvailable("x", "bash", {}),
        c.ToolInputAvailable("y", "bash", {}),
        c.ToolApprovalRequest("q1", "x"),
        c.ToolApprovalRequest("q2", "y"),
        c.FinishStep(),
    ]
    updates = on_wire(project(chunks))
    assert (statuses(updates, "x"), statuses(updates, "y")) == (["pending"], ["pending"])


def test_a_running_call_stays_in_progress_when_a_later_question_comes() -> None:
    chunks: list[c.Chunk] = [
        c.ToolInputAvailable("x", "bash", {}),
        c.Data("tool-start", {"tool_call_id": "x"}),
        c.ToolApprovalRequest("q", "x"),
        c.ToolApprovalResponse("q", True),
    ]
    assert statuses(on_wire(project(chunks, Projector(starts_on_input=False))), "x") == ["pending", "in_progress"]


def test_a_call_without_a_question_is_in_progress_with_the_next_chunk_or_when_the_stream_rests() -> None:
    after: list[c.Chunk] = [c.FinishStep(), c.TextStart("t"), c.Data("weather", {})]
    for chunk in after:
        updates = on_wire(project([c.ToolInputAvailable("x", "bash", {}), chunk]))
        assert statuses(updates, "x") == ["pending", "in_progress"]
    projector = Projector()
    updates = on_wire([*project([c.ToolInputAvailable("x", "bash", {})], projector), *projector.settle()])
    assert statuses(updates, "x") == ["pending", "in_progress"]
    assert list(projector.settle()) == []


def test_a_stream_that_ends_with_open_questions_does_not_end_the_turn() -> None:
    projector = Projector()
    asked: list[c.Chunk] = [
        c.ToolInputAvailable("x", "bash", {}),
        c.ToolApprovalRequest("q1", "x"),
        c.ToolInputAvailable("y", "bash", {}),
        c.ToolApprovalRequest("q2", "y"),
        c.FinishStep(),
        c.Finish("tool-calls"),
    ]
    project(asked, projector)
    assert projector.stop_reason is None
    assert [(each.approval_id, each.tool_call_id) for each in projector.open_questions] == [("q1", "x"), ("q2", "y")]
    project([c.ToolApprovalResponse("q1", True), c.ToolApprovalResponse("q2", False)], projector)
    assert projector.open_questions == ()
    project([c.Start(), c.ToolOutputAvailable("x", "ok"), c.ToolOutputDenied("y"), c.Finish("stop")], projector)
    assert projector.stop_reason == "end_turn"


def test_a_question_that_the_source_answers_itself_is_not_open() -> None:
    projector = Projector()
    call = c.ToolInputAvailable("x", "bash", {})
    project([call, c.ToolApprovalRequest("q", "x", is_automatic=True), c.Finish("tool-calls")], projector)
    assert projector.open_questions == ()
    assert projector.stop_reason == "end_turn"


def test_the_loop_reports_when_a_call_that_needs_no_permission_starts() -> None:
    chunks: list[c.Chunk] = [
        c.ToolInputAvailable("x", "read", {}),
        c.Data("tool-start", {"tool_call_id": "x"}, transient=True),
        c.ToolOutputAvailable("x", {"text": "done"}),
    ]
    updates = on_wire(project(chunks, Projector(starts_on_input=False)))
    assert statuses(updates, "x") == ["pending", "in_progress", "completed"]


def test_a_refused_call_fails_and_is_never_started() -> None:
    chunks: list[c.Chunk] = [
        c.ToolInputAvailable("x", "bash", {}),
        c.ToolApprovalRequest("q", "x"),
        c.ToolApprovalResponse("q", False),
        c.ToolOutputDenied("x"),
    ]
    assert statuses(on_wire(project(chunks, Projector(starts_on_input=False))), "x") == ["pending", "failed"]


def test_a_call_that_the_source_refuses_without_a_question_is_never_shown_as_running() -> None:
    chunks: list[c.Chunk] = [c.ToolInputAvailable("x", "bash", {}), c.ToolOutputDenied("x")]
    assert statuses(on_wire(project(chunks)), "x") == ["pending", "failed"]


def test_the_last_value_of_a_generator_is_shown_once() -> None:
    chunks: list[c.Chunk] = [
        c.ToolInputAvailable("x", "bash", {}),
        c.ToolOutputAvailable("x", {"text": "a"}, True),
        c.ToolOutputAvailable("x", {"text": "ab"}, True),
        c.ToolOutputAvailable("x", {"text": "ab"}),
    ]
    contents = [update["content"][0]["content"]["text"] for update in on_wire(project(chunks)) if "content" in update]
    assert contents == ["a", "ab"]


def test_invalid_input_reported_twice_fails_once() -> None:
    chunks: list[c.Chunk] = [
        c.ToolInputStart("x", "read"),
        c.ToolInputError("x", "read", {"nope": 1}, "no such argument"),
        c.ToolOutputError("x", "no such argument"),
    ]
    assert statuses(on_wire(project(chunks)), "x") == ["pending", "failed"]


def test_an_abort_fails_what_is_open_and_ends_the_turn_as_cancelled() -> None:
    projector = Projector()
    updates = on_wire(project([c.ToolInputAvailable("x", "bash", {}), c.Abort("stop")], projector))
    assert statuses(updates, "x")[-1] == "failed"
    assert projector.stop_reason == "cancelled"


def test_a_command_that_failed_is_shown_as_failed() -> None:
    output = {"text": "boom", "is_error": True, "exit_code": 7}
    updates = on_wire(project([c.ToolInputAvailable("x", "bash", {}), c.ToolOutputAvailable("x", output)]))
    assert updates[-1]["status"] == "failed"
    assert updates[-1]["rawOutput"] == {"text": "boom", "isError": True, "exitCode": 7}


def test_output_shows_diffs_terminals_images_and_resources_and_else_the_text() -> None:
    output = {
        "text": "for the model",
        "diffs": [{"path": "/a", "old": "x", "new": "y"}],
        "terminal": "term_1",
        "images": [{"data": "AAAA", "media_type": "image/png"}],
        "resources": [{"uri": "mcp://a", "text": "t"}, {"uri": "mcp://b", "blob": "AAAA", "media_type": "x/y"}],
        "locations": [{"path": "/a", "line": 3}],
    }
    update = on_wire(project([c.ToolInputAvailable("x", "edit", {}), c.ToolOutputAvailable("x", output)]))[-1]
    assert [item["type"] for item in update["content"]] == ["diff", "terminal", "content", "content", "content"]
    assert update["locations"] == [{"path": "/a", "line": 3}]
    for foreign, shown in ((None, None), ("plain", "plain"), ({"a": 1}, '{\n  "a": 1\n}'), ([1], "[\n  1\n]")):
        update = on_wire(project([c.ToolInputAvailable("x", "other", {}), c.ToolOutputAvailable("x", foreign)]))[-1]
        assert (update["content"][0]["content"]["text"] if "content" in update else None) == shown


def test_files_and_sources_become_blocks_a_client_can_show() -> None:
    chunks: list[c.Chunk] = [
        c.File("data:image/png;base64,AAAA", "image/png"),
        c.File("data:audio/wav;base64,AAAA", "audio/wav"),
        c.File("data:application/pdf;base64,AAAA", "application/pdf"),
        c.File("https://example.com/a.png", "image/png"),
        c.SourceUrl("s", "https://example.com/x", "Example"),
        c.SourceDocument("d", "application/pdf", "Spec", "spec.pdf"),
        c.ReasoningFile("data:image/png;base64,AAAA", "image/png"),
    ]
    updates = on_wire(project(chunks))
    assert [update["content"]["type"] for update in updates] == [
        "image",
        "audio",
        "resource",
        "resource_link",
        "resource_link",
        "text",
        "image",
    ]
    assert updates[-1]["sessionUpdate"] == "agent_thought_chunk"


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("plan", {"entries": [{"content": "a"}]}, "plan"),
        ("usage", {"used": 10, "size": 100, "cost_usd": 0.5}, "usage_update"),
        ("usage", {"used": 10, "size": None}, None),
        ("title", {"title": "Fix it"}, "session_info_update"),
        ("mode", {"mode_id": "plan"}, "current_mode_update"),
        ("commands", {"commands": [{"name": "help", "description": "d", "hint": "h"}]}, "available_commands_update"),
        ("notice", {"title": "Look", "severity": "warning"}, "notice"),
        ("plan", "not a plan", None),
        ("weather", {"sunny": True}, None),
    ],
)
def test_a_data_chunk_becomes_the_update_of_its_kind(name: str, data: Any, expected: str | None) -> None:
    updates = project([c.Data(name, data)])
    names = [update["sessionUpdate"] for update in (on_wire(updates) if name != "notice" else [])]
    if name == "notice":
        assert isinstance(updates[0], v1.Notice)
    else:
        assert names == ([] if expected is None else [expected])


def test_words_that_steer_are_shown_as_the_users() -> None:
    (update,) = on_wire(project([c.SteeringMessage("u", [{"type": "text", "text": "use tabs"}, {"type": "x"}])]))
    assert (update["sessionUpdate"], update["content"]["text"]) == ("user_message_chunk", "use tabs")


def test_a_reset_step_fails_open_calls_and_says_so() -> None:
    updates = on_wire(project([c.ToolInputAvailable("x", "read", {}), c.ResetStep()]))
    assert statuses(updates, "x")[-1] == "failed"
    assert "begins again" in updates[-1]["content"][-1]["content"]["text"]


def test_a_notice_may_have_no_description_and_has_no_control_characters() -> None:
    for description, shown in ((None, None), ("a\x1b[2Jb\nc", "ab\nc")):
        notice = {"severity": "info", "title": "x\u202ey\n", "description": description}
        (update,) = on_wire(project([c.Data("notice", notice)]))
        assert (update["title"], update["description"]) == ("xy", shown)


def test_a_reset_step_that_showed_thoughts_only_is_a_thought_and_one_that_showed_nothing_is_nothing() -> None:
    thinking: list[c.Chunk] = [c.Start("m"), c.StartStep(), c.ReasoningStart("r"), c.ReasoningDelta("r", "hm")]
    updates = on_wire(project([*thinking, c.ResetStep(), c.ResetStep()]))
    assert [update["sessionUpdate"] for update in updates] == ["agent_thought_chunk"] * 2
    assert updates[0]["messageId"] != updates[1]["messageId"]
    assert project([c.Start("m"), c.StartStep(), c.ResetStep()]) == []


@pytest.mark.parametrize("limit", sorted(LIMITS))
def test_a_limit_ends_the_turn_with_its_own_stop_reason(limit: str) -> None:
    projector = Projector()
    project([c.Data("limit", {"limit": limit}), c.Finish("tool-calls")], projector)
    assert projector.stop_reason == {"steps": "max_turn_requests", "tokens": "max_tokens", "cost": "max_tokens"}[limit]


def test_every_finish_reason_has_its_stop_reason() -> None:
    table = {
        "stop": "end_turn",
        "tool-calls": "end_turn",
        "other": "end_turn",
        "length": "max_tokens",
        "content-filter": "refusal",
        "error": None,
        "interrupted": "end_turn",
    }
    assert {reason: stop_reason_of(reason) for reason in table} == table


def test_what_the_client_knows_of_a_call_goes_into_the_permission_request() -> None:
    projector = Projector(starts_on_input=False)
    project([with_display(c.ToolInputAvailable("x", "write", {}), "Write a.py", SHOWN)], projector)
    patch = projector.calls.patch("x")
    assert (patch.tool_call_id, patch.title, patch.kind, patch.status) == ("x", "Write a.py", "edit", "pending")
    assert patch.content == [v1.Diff("/w/a.py", "one\ntwo", None)]


def test_the_users_message_is_repeated_block_by_block() -> None:
    blocks: list[v1.ContentBlock] = [
        v1.TextContent("look at"),
        v1.ImageContent("AAAA", "image/png"),
        v1.AudioContent("AAAA", "audio/wav"),
        v1.ResourceLink("a.py", "file:///a.py", title="A", mime_type="text/x-python"),
        v1.EmbeddedResource(v1.TextResourceContents("body", "file:///b", "text/plain")),
        v1.EmbeddedResource(v1.BlobResourceContents("AAAA", "file:///c")),
    ]
    parts = parts_of([*blocks, Unknown("hologram", {"type": "hologram"})])
    assert blocks_of(parts) == blocks
    updates = on_wire(Projector().user_message(UIMessage("u1", "user", parts)))
    assert [update["messageId"] for update in updates] == ["u1"] * 6
    assert isinstance(parts[0], TextPart)


def test_the_kind_table_names_the_tools_and_strangers_are_other() -> None:
    assert KINDS == {
        "read": "read",
        "write": "edit",
        "edit": "edit",
        "apply_patch": "edit",
        "glob": "search",
        "grep": "search",
        "bash": "execute",
        "bash_output": "execute",
        "present_plan": "switch_mode",
        "bash_stop": "execute",
        "todo": "other",
        "task": "other",
        "question": "other",
        "web_search": "fetch",
        "web_fetch": "fetch",
        "skill": "think",
        "tool_search": "search",
        "call_tool": "other",
    }
    assert set(KINDS.values()) <= v1.KNOWN_VALUES["ToolKind"]


def test_raw_output_has_the_names_of_the_protocol_at_every_depth_and_foreign_output_its_own() -> None:
    own = {"text": "x", "exit_code": 1, "images": [{"data": "AAAA", "media_type": "image/png"}]}
    renamed = {"text": "x", "exitCode": 1, "images": [{"data": "AAAA", "mimeType": "image/png"}]}
    for output, raw in ((own, renamed), ({"exit_code": 1}, {"exit_code": 1})):
        update = on_wire(project([c.ToolInputAvailable("x", "bash", {}), c.ToolOutputAvailable("x", output)]))[-1]
        assert update["rawOutput"] == raw
