"""The judge itself: a check that finds nothing wrong must be one that could have."""

import json
from typing import Any

import pytest

from tests.interop.wire_check import SCHEMA, WireCheck, violations

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
SAID = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}


def update(**changes: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {**SAID, **changes}}}


def judge(*frames: dict[str, Any], asked: tuple[dict[str, Any], ...] = ()) -> list[str]:
    check = WireCheck()
    for frame in asked:
        check.received(json.dumps(frame).encode())
    for frame in frames:
        check.sent(json.dumps(frame).encode())
    return check.problems()


def test_good_frames_pass() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}
    assert judge(answer, update(), update(messageId="m"), asked=(HELLO,)) == []
    assert judge(HELLO, {"jsonrpc": "2.0", "method": "_vendor/anything", "params": {"x": 1}}) == []


@pytest.mark.parametrize(
    ("problem", "frames"),
    [
        ("was unexpected", [update(usage={"used": 1})]),
        ("is not valid under any", [update(sessionUpdate="_unknown")]),
        ("is not valid under any", [update(content="hi")]),
        ("'sessionId' is a required property", [{**update(), "params": {"update": SAID}}]),
        ("is no stable method", [{**HELLO, "method": "session/fork"}]),
        ("is no stable method", [{**update(), "id": 1}]),
        ("jsonrpc is not 2.0", [{**update(), "jsonrpc": "1.0"}]),
        ("an answer nobody asked for", [{"jsonrpc": "2.0", "id": "1", "result": {}}]),
    ],
)
def test_a_bad_frame_is_a_problem(problem: str, frames: list[dict[str, Any]]) -> None:
    assert any(problem in found for found in judge(*frames))


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [{"result": {"protocolVersion": 1}}, {"result": {"protocolVersion": 1}}],
        [{"result": {"protocolVersion": "1"}}],
        [{"result": {"protocolVersion": 1}, "error": {"code": 1, "message": "both"}}],
        [{"error": {"code": "1", "message": "a code is a number"}}],
        [{}],
    ],
)
def test_a_request_needs_exactly_one_valid_answer(answers: list[dict[str, Any]]) -> None:
    assert judge(*({"jsonrpc": "2.0", "id": 1, **answer} for answer in answers), asked=(HELLO,)) != []


def test_a_right_value_hides_no_wrong_one_of_a_similar_form() -> None:
    def judged(title: object, status: str = "completed") -> list[str]:
        update = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": title, "status": status}
        return violations("SessionUpdate", update)

    assert judged("one") == judged("another") == []
    assert judged("one", "in_progress") == []
    assert judged("one", "no such status") != []
    assert judged("one", "no such status") != [], "each time"
    assert judged(1) != []
    assert judged(None) != []


def test_the_schema_asks_nothing_of_strings_but_which_or_whether_there_is_one() -> None:
    """Else values of one form could differ."""

    def asked(schema: object) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(asked, schema))
        if not isinstance(schema, dict):
            return set()
        names = {name for name, value in schema.items() if not isinstance(value, dict)}
        return names.union(*map(asked, schema.values()))

    assert not asked(SCHEMA) & {"pattern", "maxLength", "propertyNames", "patternProperties", "contentEncoding"}
