"""What goes out: one line, valid JSON, ids by type."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from dragoman.wire import (
    NOTIFICATION_END,
    Id,
    Notification,
    Request,
    Response,
    notification_start,
    read_message,
    write_error,
    write_notification,
    write_request,
    write_result,
)

IDS: list[Id] = [0, 1, -1, 2**63, 10**30, "", "1", 'a"b\\c\n\u2028é𝄞', None]


def only_line(data: bytes) -> Any:
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    return json.loads(data)


@pytest.mark.rule(4, 5, 19, 20)
@pytest.mark.parametrize("id", IDS, ids=repr)
def test_every_id_goes_out_and_comes_back_with_its_type(id: Id) -> None:
    request = read_message(write_request(id, "a/b", b'{"x":1}')[:-1])
    result = read_message(write_result(id, b"null")[:-1])
    error = read_message(write_error(id, -32603, "no")[:-1])
    assert isinstance(request, Request)
    assert isinstance(result, Response)
    assert isinstance(error, Response)
    assert [request.id, result.id, error.id] == [id] * 3
    assert {type(request.id), type(result.id), type(error.id)} == {type(id)}


@pytest.mark.rule(4, 19, 22, 23)
def test_messages_have_the_members_the_rules_name_and_no_others() -> None:
    assert only_line(write_request(1, "m", b"{}")) == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {}}
    assert only_line(write_request(1, "m")) == {"jsonrpc": "2.0", "id": 1, "method": "m"}
    assert only_line(write_notification("m", b"{}")) == {"jsonrpc": "2.0", "method": "m", "params": {}}
    assert only_line(write_notification("m")) == {"jsonrpc": "2.0", "method": "m"}
    assert only_line(write_result("1", b"{}")) == {"jsonrpc": "2.0", "id": "1", "result": {}}
    error = {"code": -32601, "message": "no"}
    for nothing in (None, UNSET):
        assert only_line(write_error(None, -32601, "no", nothing)) == {"jsonrpc": "2.0", "id": None, "error": error}
    data = {"method": "m"}
    assert only_line(write_error(1, -32601, "no", data)) == {"jsonrpc": "2.0", "id": 1, "error": error | {"data": data}}


def test_the_two_halves_of_a_notification_make_the_same_line() -> None:
    assert notification_start("a/b") + b'{"x":1}' + NOTIFICATION_END == write_notification("a/b", b'{"x":1}')


@pytest.mark.rule(5)
def test_json_that_was_laid_out_over_lines_goes_out_as_one() -> None:
    laid_out = b'{\n  "a": "\\n"\r\n}'
    for line in (
        write_request(1, "m", laid_out),
        write_notification("m", laid_out),
        write_result(1, laid_out),
        write_error(1, 1, "no", Raw(laid_out)),
    ):
        assert json.dumps({"a": "\n"}) in json.dumps(only_line(line))


class Detail(msgspec.Struct):
    text: str
    more: list[str]


@pytest.mark.rule(1)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud83d", "\ufffd\ufffd"),
        ("\ud834\udd1e", "𝄞"),
        (
            {"k\ud800": ["\ud800", {"x": ("\udfff", 1, None, True)}]},
            {"k\ufffd": ["\ufffd", {"x": ["\ufffd", 1, None, True]}]},
        ),
        ({"\ud800"}, ["\ufffd"]),
        (Detail("a\ud800", ["\ud800"]), {"text": "a\ufffd", "more": ["\ufffd"]}),
    ],
    ids=["one", "two", "a pair", "nested", "set", "struct"],
)
def test_lone_surrogates_are_replaced(data: object, expected: object) -> None:
    assert only_line(write_error(1, 1, "no", data))["error"]["data"] == expected


@pytest.mark.rule(1)
def test_lone_surrogates_are_replaced_in_id_method_and_message() -> None:
    assert only_line(write_request("\ud800", "m\ud800", b"{}")) == {
        "jsonrpc": "2.0",
        "id": "\ufffd",
        "method": "m\ufffd",
        "params": {},
    }
    assert only_line(write_error(1, 1, "a\udc00"))["error"]["message"] == "a\ufffd"


def test_data_without_a_json_form_is_an_error_of_the_caller() -> None:
    with pytest.raises(TypeError):
        write_error(1, 1, "no", object())


def test_a_number_that_json_lacks_becomes_null() -> None:
    assert only_line(write_error(1, 1, "no", [float("nan"), float("inf")]))["error"]["data"] == [None, None]


any_text = st.text(st.characters(exclude_categories=()), max_size=20)
any_data = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=10,
)


@settings(deadline=None)
@given(id=st.none() | st.integers() | any_text, method=any_text, data=any_data)
def test_anything_written_is_read_back(id: Id, method: str, data: object) -> None:
    request = read_message(write_request(id, method, b"{}")[:-1])
    assert isinstance(request, Request)
    assert isinstance(read_message(write_notification(method)[:-1]), Notification)
    error = read_message(write_error(id, -1, method, data)[:-1])
    assert isinstance(error, Response)
    assert error.error is not None
    assert error.error.message == request.method
    assert only_line(write_error(id, -1, method, data))
