"""Clients written on the official SDKs drive our agent: turns, updates, cancellation, what is asked of the client."""

import json

import pytest

from tests.interop.support import SDKS, Walks

both = pytest.mark.parametrize("sdk", SDKS)


@both
@pytest.mark.rule(31, 54, 55, 180, 181, 185, 210, 211)
def test_a_stream_arrives_complete_in_order_and_before_its_result(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "stream")
    chunks = [update for update in seen.updates("stream 120") if update["sessionUpdate"] == "agent_message_chunk"]
    assert [chunk["content"]["text"] for chunk in chunks] == [f"{number} " for number in range(120)]
    assert seen.result("stream 120")["stopReason"] == "end_turn"
    *_, blocks, echoed, big = seen.texts()
    assert big == "x" * 300_000
    assert blocks == "blocks: text,resource_link,image,audio,resource"
    assert echoed == "You said: hello \u2028 \U0001f600 there"


@both
@pytest.mark.rule(238, 239, 240, 241, 242, 243, 245, 246, 248, 249)
def test_a_tool_call_is_announced_runs_and_ends(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "tools")
    announced, *changes = [update for update in seen.updates("tool") if update.get("toolCallId") == "tool-1"]
    assert announced["sessionUpdate"] == "tool_call"
    assert (announced["title"], announced["kind"], announced["status"]) == ("Read a.txt", "read", "pending")
    assert announced["locations"] == [{"path": "/w/a.txt", "line": 3}]
    assert announced["rawInput"] == {"path": "/w/a.txt"}
    assert {change["sessionUpdate"] for change in changes} == {"tool_call_update"}
    assert [change["status"] for change in changes if "status" in change] == ["in_progress", "completed"]
    told = {key: value for change in changes for key, value in change.items()}
    assert told["rawOutput"] == {"lines": 3}
    assert told["content"] == [{"type": "content", "content": {"type": "text", "text": "3 lines"}}]
    diffs = [update["content"] for update in seen.updates("diff") if "content" in update]
    assert diffs == [[{"type": "diff", "path": "/w/a.txt", "oldText": "a", "newText": "b"}]]


@both
@pytest.mark.rule(164, 174, 181, 214, 215, 216, 217, 263, 265, 268, 269)
def test_every_kind_of_news_is_understood(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "facts")
    [thought] = [update for update in seen.updates("think") if update["sessionUpdate"] == "agent_thought_chunk"]
    assert thought["content"] == {"type": "text", "text": "hm"}
    plans = [[(entry["content"], entry["status"]) for entry in plan["entries"]] for plan in seen.updates("plan")]
    assert plans == [
        [("read", "pending"), ("write", "pending")],
        [("read", "completed"), ("write", "in_progress")],
    ]
    [usage] = seen.updates("usage")
    assert usage == {
        "sessionUpdate": "usage_update",
        "used": 1200,
        "size": 200000,
        "cost": {"amount": 0.25, "currency": "EUR"},
    }
    [commands] = seen.updates("commands")
    assert [command["name"] for command in commands["availableCommands"]] == ["review", "plan"]
    assert commands["availableCommands"][1]["input"] == {"hint": "what for"}
    assert seen.updates("title") == [{"sessionUpdate": "session_info_update", "title": "A good title"}]
    assert seen.updates("mode") == [{"sessionUpdate": "current_mode_update", "currentModeId": "code"}]
    [config] = seen.updates("config")
    assert [option["currentValue"] for option in config["configOptions"]] == ["large", False]
    assert seen.result("stop max_tokens")["stopReason"] == "max_tokens"
    assert seen.result("stop refusal")["stopReason"] == "refusal"


@pytest.mark.rule(62, 63, 217, 219, 222, 224)
def test_newer_news_is_understood_by_the_sdk_that_knows_it(walks: Walks) -> None:
    """The Python SDK pins an older schema: no notices, no compaction, and it cannot tell null from absent."""
    seen = walks.report("ts", "newer")
    [title] = [update for update in seen.updates("untitle") if update["sessionUpdate"] == "session_info_update"]
    assert title["title"] is None
    [notice] = seen.updates("notice")
    assert (notice["severity"], notice["title"], notice["description"]) == ("warning", "Nearly full", "90 %")
    kinds = [update["sessionUpdate"] for update in seen.updates("compaction")]
    assert kinds == ["compaction_update", "compaction_summary_chunk", "compaction_update"]


@both
@pytest.mark.rule(252, 253, 254, 255, 261)
def test_permission_is_judged_by_the_kind_of_the_chosen_option(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "permission")
    assert seen.texts() == ["permission: allow_once", "permission: reject_once", "permission: cancelled"]
    asked = seen.requests()[0]
    assert asked["method"] == "session/request_permission"
    assert asked["toolCall"]["toolCallId"] == "asked-1"
    assert [option["optionId"] for option in asked["options"]] == ["yes", "no"]
    # The client had heard of the tool call before it was asked about it.
    assert seen.updates("permission")[-2]["toolCallId"] == "asked-1"


@both
@pytest.mark.rule(272, 273, 274, 275, 278, 279, 280)
def test_files_are_read_and_written_through_the_client(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "files")
    assert seen.texts() == ["read: two\n", "error: -32002", "written"]
    window, missing, written = seen.requests()
    assert (window["line"], window["limit"]) == (2, 1)
    assert (missing["line"], missing["limit"]) == (None, None)
    assert (written["method"], written["content"]) == ("fs/write_text_file", "fresh")
    assert [event["text"] for event in seen.events if event["event"] == "disk"] == ["fresh"]


@both
@pytest.mark.rule(251, 282, 283, 284, 290, 291, 292)
def test_terminals_are_released_whatever_happened_in_them(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "terminals")
    assert [json.loads(text) for text in seen.texts()] == [
        {"exitCode": 3, "output": "out", "truncated": False},
        {"killed": True, "running": True},
    ]
    verbs = [request["method"].removeprefix("terminal/") for request in seen.requests()]
    assert verbs[:4] == ["create", "wait_for_exit", "output", "release"]
    assert verbs[4:] == ["create", "output", "kill", "wait_for_exit", "output", "release"]
    shown = [update["content"] for update in seen.updates("terminal") if "content" in update and "toolCallId" in update]
    assert [item["type"] for item in shown[0]] == ["terminal"]


@both
@pytest.mark.rule(302, 303, 304, 312, 314, 316, 318)
def test_forms_and_urls_are_asked_and_every_answer_is_handled(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "elicitation")
    assert seen.texts() == ['form: accept {"name": "Ada"}', "form: decline {}", "form: cancel {}", "url: accept"]
    asked = [request["message"] for request in seen.requests()]
    assert asked == ["Who are you?", "Who are you?", "Who are you?", "Please log in", "Who are you?"]
    # The last form was asked while its session was being made: it belongs to that request.
    opened = [event["result"]["sessionId"] for event in seen.events if "sessionId" in event.get("result", {})]
    assert len(opened) == 1
    scopes = [frame["params"] for frame in seen.frames.outgoing if frame.get("method") == "elicitation/create"]
    opened_by = [frame["id"] for frame in seen.frames.incoming if frame.get("method") == "session/new"]
    assert "sessionId" not in scopes[-1]
    assert scopes[-1]["requestId"] == opened_by[-1]
    assert [event["elicitationId"] for event in seen.notifications()] == ["url-1"]


@both
@pytest.mark.rule(49, 62, 63, 150, 153, 272, 282, 298, 299, 300)
def test_a_client_without_capabilities_is_asked_for_nothing(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "bare")
    assert seen.requests() == []
    assert seen.texts()[:3] == ["no forms", "no notices", "no compaction"]
    # Files and terminals are local then.
    ran, *rest = seen.texts()[3:]
    assert json.loads(ran) == {"exitCode": 3, "output": "out", "truncated": False}
    assert rest == ["written", "read: local"]
    [config] = seen.updates("config")
    assert [option["type"] for option in config["configOptions"]] == ["select"]


@both
@pytest.mark.rule(116, 192, 195, 196, 197, 198, 200)
def test_cancel_and_close_end_a_turn_with_exactly_one_cancelled(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "cancel")
    ends = [(event["call"], event["result"].get("stopReason")) for event in seen.events if event["event"] == "result"]
    assert ends[:3] == [("wait", "cancelled"), ("permission", "cancelled"), ("permission", "cancelled")]
    assert ends[3:] == [("still here", "end_turn"), ("wait", "cancelled"), ("close", None)]
    assert not [event for event in seen.events if event["event"] == "error"]


@both
@pytest.mark.rule(208)
def test_cancelling_a_turn_takes_its_open_questions_back(walks: Walks, sdk: str) -> None:
    frames = walks.report(sdk, "cancel").frames
    asked = [frame["id"] for frame in frames.outgoing if frame.get("method") == "session/request_permission"]
    taken_back = [frame["params"] for frame in frames.outgoing if frame.get("method") == "$/cancel_request"]
    # The first question may have been answered before there was anything to take back.
    assert taken_back[-1] == {"requestId": asked[-1]}


@pytest.mark.rule(201, 203, 204, 206, 207, 209)
def test_request_cancellation_works_both_ways_with_an_sdk_that_has_it(walks: Walks) -> None:
    seen = walks.report("ts", "cancel_request")
    assert seen.error("slow")[0] == -32800
    assert seen.result("wait")["stopReason"] == "cancelled"
    # Our agent withdrew its question, the SDK's handler was aborted.
    assert [event["method"] for event in seen.events if event["event"] == "aborted"] == ["session/request_permission"]
    assert "withdrawn" in seen.texts()
    assert seen.result("still here")["stopReason"] == "end_turn"


@pytest.mark.rule(201, 202, 204)
def test_request_cancellation_does_no_harm_with_an_sdk_that_lacks_it(walks: Walks) -> None:
    """The Python SDK sends nothing when a call is cancelled, and ignores our `$/cancel_request`."""
    seen = walks.report("py", "cancel_request")
    assert "$/cancel_request" not in seen.frames.received_methods()
    assert "$/cancel_request" in seen.frames.sent_methods()
    assert seen.texts() == ["withdrawn", "You said: still here"]
    assert seen.result("still here")["stopReason"] == "end_turn"


@both
@pytest.mark.rule(32)
def test_a_waiting_turn_does_not_hold_up_another_session(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "side_by_side")
    ends = [(event["call"], event["result"]["stopReason"]) for event in seen.events if event["event"] == "result"]
    assert ends == [("stream 5", "end_turn"), ("wait", "cancelled")]
    assert seen.texts() == ["waiting", *(f"{number} " for number in range(5))]


@both
@pytest.mark.rule(15)
def test_a_client_that_leaves_in_the_middle_takes_the_agent_along(walks: Walks, sdk: str) -> None:
    """The report itself asserts that our agent exits with 0."""
    seen = walks.report(sdk, "leave")
    assert seen.texts() == ["waiting"]
    assert len([frame for frame in seen.frames.incoming if frame.get("method") == "session/prompt"]) == 1


@both
@pytest.mark.rule(24, 29, 331, 332, 333, 334)
def test_extension_methods_work_both_ways(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "extensions")
    assert seen.result("echo") == {"deep": {"list": [1, None, "x"]}}
    assert seen.result("notes") == {"notes": [{"text": "first"}]}
    assert seen.texts() == ["add: 3, none: -32601"]
    assert [(event["method"], event["params"]) for event in seen.notifications()] == [("_interop/told", {"x": 1})]
