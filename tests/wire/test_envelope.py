"""A line is a message of one kind, whatever else is in it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from dragoman.errors import INVALID_REQUEST, PARSE_ERROR
from dragoman.wire import (
    ErrorObject,
    Framer,
    Id,
    Malformed,
    Notification,
    Request,
    Response,
    read_message,
    refuse,
)


def text_of(raw: Raw | UnsetType | None) -> bytes | None:
    return bytes(raw) if isinstance(raw, Raw) else None


REQUESTS: dict[str, tuple[bytes, Id, str, bytes | None]] = {
    "object params": (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1]}}', 1, "m", b'{"a":[1]}'),
    "array params": (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}', 1, "m", b"[1]"),
    "no params": (b'{"jsonrpc":"2.0","id":1,"method":"m"}', 1, "m", None),
    "null params": (b'{"jsonrpc":"2.0","id":1,"method":"m","params": null }', 1, "m", None),
    "another order": (b'{"params":{},"method":"m","id":1,"jsonrpc":"2.0"}', 1, "m", b"{}"),
    "white space": (b' {\t"jsonrpc" : "2.0" ,\r"id" : 1 , "method" : "m" , "params" : {} } ', 1, "m", b"{}"),
    "escapes": (b'{"jsonrpc":"2\\u002e0","\\u0069d":1,"method":"\\u006d"}', 1, "m", None),
    "members nobody knows": (b'{"jsonrpc":"2.0","id":1,"method":"m","extra":{"id":9},"_meta":{}}', 1, "m", None),
    "a name that occurs twice": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', 2, "m", None),
    "string id": (b'{"jsonrpc":"2.0","id":"1","method":"m"}', "1", "m", None),
    "empty string id": (b'{"jsonrpc":"2.0","id":"","method":"m"}', "", "m", None),
    "null id": (b'{"jsonrpc":"2.0","id":null,"method":"m"}', None, "m", None),
    "negative id": (b'{"jsonrpc":"2.0","id":-1,"method":"m"}', -1, "m", None),
    "an id of 30 digits": (b'{"jsonrpc":"2.0","id":' + b"9" * 30 + b',"method":"m"}', 10**30 - 1, "m", None),
    "U+2028 in a string": (
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\u2028"}}'.encode(),
        1,
        "m",
        '{"a":"\u2028"}'.encode(),
    ),
    "5,000 digits inside params": (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":[' + b"9" * 5000 + b"]}",
        1,
        "m",
        b"[" + b"9" * 5000 + b"]",
    ),
    "argument names in _meta": (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"method":"x","id":7}}}',
        1,
        "m",
        b'{"_meta":{"method":"x","id":7}}',
    ),
}


@pytest.mark.rule(19, 20)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_keeps_its_id_by_type_and_its_params_undecoded(name: str) -> None:
    line, id, method, params = REQUESTS[name]
    message = read_message(line)
    assert isinstance(message, Request)
    assert (message.id, type(message.id), message.method) == (id, type(id), method)
    assert text_of(message.params) == params


@pytest.mark.parametrize(
    ("params", "expected"),
    [(b"", None), (b',"params":null', None), (b',"params":{"a":1}', b'{"a":1}'), (b',"params":[]', b"[]")],
    ids=["absent", "null", "object", "array"],
)
def test_a_message_with_method_and_without_id_is_a_notification(params: bytes, expected: bytes | None) -> None:
    message = read_message(b'{"jsonrpc":"2.0","method":"m"' + params + b"}")
    assert isinstance(message, Notification)
    assert message.method == "m"
    assert text_of(message.params) == expected


@pytest.mark.rule(20, 22)
@pytest.mark.parametrize("result", [b"{}", b"null", b"[]", b"1", b'"x"', b"false"])
@pytest.mark.parametrize("id", [b"1", b'"1"', b"null"])
def test_any_value_is_a_result(id: bytes, result: bytes) -> None:
    message = read_message(b'{"jsonrpc":"2.0","id":' + id + b',"result":' + result + b"}")
    assert isinstance(message, Response)
    assert message.id == msgspec.json.decode(id)
    assert text_of(message.result) == result
    assert message.error is None


@pytest.mark.rule(23, 339)
def test_an_error_keeps_its_code_and_its_data_undecoded() -> None:
    message = read_message(b'{"jsonrpc":"2.0","id":1,"error":{"code":-31999,"message":"no","data":{"a":[1]},"x":1}}')
    assert isinstance(message, Response)
    assert message.result is None
    assert isinstance(message.error, ErrorObject)
    assert (message.error.code, message.error.message) == (-31999, "no")
    assert text_of(message.error.data) == b'{"a":[1]}'


@pytest.mark.rule(23)
def test_an_error_without_data_and_one_with_null_differ() -> None:
    absent = read_message(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}')
    null = read_message(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no","data":null}}')
    assert isinstance(absent, Response)
    assert isinstance(null, Response)
    assert absent.error is not None
    assert null.error is not None
    assert absent.error.data is UNSET
    assert text_of(null.error.data) == b"null"


members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "id": st.sampled_from([1, "1", None, True, 1.5, [], {}]),
        "method": st.sampled_from(["m", "", 1, None]),
        "params": st.sampled_from([{}, [], None, 1, "x"]),
        "result": st.sampled_from([{}, None, 1]),
        "error": st.sampled_from([{"code": 1, "message": "m"}, {"code": 1}, None, "x"]),
        "other": st.sampled_from([1, {"id": 9, "method": "n"}]),
    },
)


def is_id(value: object) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def expected_kind(message: dict[str, Any]) -> type:
    """The rules once more, as directly as they can be written."""
    if message.get("jsonrpc") != "2.0" or not is_id(message.get("id")):
        return Malformed
    has_outcome = "result" in message or "error" in message
    if "method" in message:
        is_sound = isinstance(message["method"], str) and isinstance(message.get("params"), dict | list | None)
        kind: type = Request if "id" in message else Notification
        return kind if is_sound and not has_outcome else Malformed
    if "id" not in message or ("result" in message) == ("error" in message):
        return Malformed
    return Response if message.get("error", {"code": 1, "message": "m"}) == {"code": 1, "message": "m"} else Malformed


@pytest.mark.rule(19, 20, 22, 23)
@settings(deadline=None, max_examples=500)
@given(members)
def test_every_combination_of_members_is_judged_by_the_rules(message: dict[str, Any]) -> None:
    read = read_message(msgspec.json.encode(message))
    assert type(read) is expected_kind(message)
    if isinstance(read, Malformed):
        assert read.code == INVALID_REQUEST
        assert read.id is UNSET or read.id == message["id"]


ENVELOPE = [b'{"jsonrpc":"2.0",', b'"id":1,', b'"id":"x"', b'"method":"m"', b',"params":{}', b'"result":1', b"null"]
MARKS = [b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\n", b"\r\n", b" ", b"\x00"]
ODDITIES = [b"\\ud800", b"\xff", b"\xe2\x80\xa8", b"NaN", b"1e5"]
fragments = st.sampled_from(ENVELOPE + MARKS + ODDITIES)


@pytest.mark.rule(6, 12)
@settings(deadline=None, max_examples=300)
@given(st.one_of(st.binary(max_size=60), st.lists(fragments, max_size=20).map(b"".join)))
def test_any_input_gives_messages_or_documented_faults_at_once_and_byte_by_byte(data: bytes) -> None:
    def messages(step: int) -> list[tuple[type, object, object]]:
        framer = Framer(limit_bytes=40)
        frames = [frame for at in range(0, len(data), step) for frame in framer.feed(data[at : at + step])]
        frames += framer.end()
        read = [read_message(frame) if isinstance(frame, bytes) else refuse(frame) for frame in frames]
        return [(type(one), getattr(one, "code", None), getattr(one, "id", None)) for one in read]

    at_once = messages(max(len(data), 1))
    assert messages(1) == at_once
    for kind, code, id in at_once:
        assert kind in (Request, Notification, Response, Malformed)
        assert code in ((PARSE_ERROR, INVALID_REQUEST) if kind is Malformed else (None,))
        assert id is UNSET or is_id(id)
