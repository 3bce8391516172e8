"""How a recording becomes a script: lanes, partners, names."""

from __future__ import annotations

import json

import pytest

from dragoman.trace.replay.difference import Comparison
from dragoman.trace.replay.ids import IdMap, is_made_up
from dragoman.trace.replay.script import Step, read_script
from tests.trace.replay_kit import script


def lanes(*lines: str) -> list[str]:
    return [step.lane for step in read_script(script(*lines).entries, "a2c")]


NEW = ('> {"id":1,"method":"session/new","params":{}}', '< {"id":1,"result":{"sessionId":"s"}}')
PROMPT = '> {"id":2,"method":"session/prompt","params":{"sessionId":"s"}}'
UPDATE = '< {"method":"session/update","params":{"sessionId":"s","update":{}}}'


def test_a_session_is_a_lane_from_the_moment_its_client_speaks_in_it() -> None:
    assert lanes(*NEW, UPDATE, PROMPT, UPDATE, '< {"id":2,"result":{}}') == ["", "", "", "s", "s", "s"]


def test_an_update_of_an_unknown_session_stays_in_the_lane_of_the_line_before() -> None:
    child = UPDATE.replace('"s"', '"child"')
    assert lanes(*NEW, PROMPT, UPDATE, child, UPDATE) == ["", "", "s", "s", "s", "s"]


def test_an_answer_is_in_the_lane_of_its_question() -> None:
    asked = '< {"id":5,"method":"fs/read_text_file","params":{"sessionId":"s"}}'
    assert lanes(PROMPT, asked, '> {"id":5,"result":{}}') == ["s", "s", "s"]


def test_a_request_is_cancelled_in_its_own_lane() -> None:
    cancel = '> {"method":"$/cancel_request","params":{"requestId":2}}'
    assert lanes(PROMPT, *NEW, cancel) == ["s", "", "", "s"]


def test_noise_stays_where_it_was() -> None:
    assert lanes(*NEW, "< noise", PROMPT, "< noise") == ["", "", "", "s", "s"]


def steps(*lines: str) -> list[Step]:
    return read_script(script(*lines).entries, "a2c")


def test_ids_of_the_two_directions_are_apart() -> None:
    asked, wondered, answered, found = steps(
        '> {"id":1,"method":"a"}', '< {"id":1,"method":"b"}', '< {"id":1,"result":{}}', '> {"id":1,"result":{}}'
    )
    assert answered.answers is asked
    assert asked.answer is answered
    assert found.answers is wondered
    assert (answered.method, found.method) == ("a", "b")


def test_numbers_are_those_of_the_entries() -> None:
    trace = script("> {}", "! 3", "< x")
    assert [step.number for step in read_script(trace.entries, "c2a")] == [1, 3]


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ("sessionId", True),
        ("senderSessionId", True),
        ("toolCallId", True),
        ("terminalId", True),
        ("modeId", False),
        ("optionId", False),
        ("id", False),
    ],
)
def test_ids_with_a_meaning_are_not_made_up(member: str, expected: bool) -> None:
    assert is_made_up(member) is expected


def test_names_are_learned_once_and_both_ways() -> None:
    names = IdMap()
    names.learn({"a": [{"sessionId": "r1"}]}, {"a": [{"sessionId": "l1"}]})
    names.learn({"sessionId": "r1"}, {"sessionId": "other"})
    names.learn({"sessionId": "r2"}, {"sessionId": "l1"})
    assert names.live("r1") == "l1"
    assert names.may_be("r1", "l1")
    assert not names.may_be("r1", "l2")
    assert not names.may_be("r2", "l1")
    assert names.may_be("r2", "l2")


def test_a_line_is_rewritten_only_where_it_has_to_be() -> None:
    names = IdMap()
    line = b'{ "jsonrpc":"2.0","id": 1, "result":{"x": 1.0, "sessionId":"r"} }'
    assert names.rewrite(line) == line
    assert names.rewrite(line, 1) == line
    assert names.rewrite(line, "one") == b'{"jsonrpc":"2.0","id":"one","result":{"x": 1.0, "sessionId":"r"}}'
    names.learn({"sessionId": "r"}, {"sessionId": "l"})
    assert json.loads(names.rewrite(line)) == {"jsonrpc": "2.0", "id": 1, "result": {"x": 1.0, "sessionId": "l"}}
    about = b'{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"requestId":7}}'
    assert json.loads(names.rewrite(about, request_id="seven"))["params"] == {"requestId": "seven"}


def test_values_are_compared_as_json() -> None:
    compare = Comparison(IdMap(), ["m ignored.*"])
    assert compare.changes("m", {"a": 1}, {"a": 1.0}) == []
    assert [path for path, _, _ in compare.changes("m", {"a": 1}, {"a": True})] == ["a"]
    assert [path for path, _, _ in compare.changes("m", {"a": [1, 2]}, {"a": [1]})] == ["a[1]"]
    assert [path for path, _, _ in compare.changes("m", {"a": None}, {})] == ["a"]
    assert compare.changes("m", {"ignored": {"x": [1]}}, {"ignored": {"x": [2]}}) == []
    assert len(compare.changes("n", {"ignored": {"x": 1}}, {"ignored": {"x": 2}})) == 1


def test_brackets_in_a_pattern_are_just_that() -> None:
    compare = Comparison(IdMap(), ["m a[0].b"])
    assert compare.changes("m", {"a": [{"b": 1}]}, {"a": [{"b": 2}]}) == []
    assert len(compare.changes("m", {"a": [{}, {"b": 1}]}, {"a": [{}, {"b": 2}]})) == 1
