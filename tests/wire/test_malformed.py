"""A line that is no message tells why, and whom it concerns."""

from __future__ import annotations

import pytest
from msgspec import UNSET, UnsetType

from dragoman.errors import INVALID_REQUEST, PARSE_ERROR
from dragoman.wire import NODE_LIMIT, Framer, Id, Kind, Malformed, TooLong, Truncated, read_message, refuse

Case = tuple[bytes, int, Kind, Id | UnsetType]

NOT_JSON: dict[str, Case] = {
    "noise": (b"Loading model...", PARSE_ERROR, "unknown", UNSET),
    "a log line that quotes a frame": (b'sent {"jsonrpc":"2.0","id":3,"result":1}', PARSE_ERROR, "unknown", UNSET),
    "a binary zero": (b"\x00", PARSE_ERROR, "unknown", UNSET),
    "a byte order mark": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}', PARSE_ERROR, "unknown", UNSET),
    "an object that is cut": (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{', PARSE_ERROR, "request", 1),
    "two objects": (b'{"jsonrpc":"2.0","id":1,"method":"m"} {}', PARSE_ERROR, "request", 1),
    "a trailing comma": (b'{"jsonrpc":"2.0","id":1,"method":"m",}', PARSE_ERROR, "request", 1),
    "single quotes": (b"{'jsonrpc':'2.0'}", PARSE_ERROR, "unknown", UNSET),
    "a batch that is cut": (b'[{"jsonrpc":"2.0","id":1,"method":"m"},', PARSE_ERROR, "unknown", UNSET),
    "a string that is cut": (b'"abc', PARSE_ERROR, "unknown", UNSET),
    "NaN in params": (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}', PARSE_ERROR, "request", 1),
    "NaN in a result": (b'{"jsonrpc":"2.0","id":1,"result":NaN}', PARSE_ERROR, "response", 1),
    "NaN before the id": (b'{"jsonrpc":"2.0","result":[NaN],"id":1}', PARSE_ERROR, "response", 1),
    "Infinity": (b'{"jsonrpc":"2.0","method":"m","params":[-Infinity]}', PARSE_ERROR, "request", UNSET),
    "NaN alone": (b"NaN", PARSE_ERROR, "unknown", UNSET),
    "a leading zero": (b'{"jsonrpc":"2.0","id":1,"result":01}', PARSE_ERROR, "response", 1),
    "a tab in a string": (b'{"jsonrpc":"2.0","id":1,"result":"a\tb"}', PARSE_ERROR, "response", 1),
    "a wrong version and a cut": (b'{"jsonrpc":"1.0","id":1,"method":"m","params":', PARSE_ERROR, "request", 1),
}

NOT_TEXT: dict[str, Case] = {
    "in params": (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xff"}}', PARSE_ERROR, "request", 1),
    "in a result": (b'{"jsonrpc":"2.0","id":1,"result":"\xc3"}', PARSE_ERROR, "response", 1),
    "in a member nobody reads": (b'{"jsonrpc":"2.0","id":1,"method":"m","x":"\xff"}', PARSE_ERROR, "request", 1),
    "in a name nobody reads": (b'{"jsonrpc":"2.0","id":1,"method":"m","\xff":1}', PARSE_ERROR, "request", 1),
    "in the method": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', PARSE_ERROR, "request", 1),
    "an encoded surrogate": (b'{"jsonrpc":"2.0","id":1,"result":"\xed\xa0\x80"}', PARSE_ERROR, "response", 1),
    "a lone high surrogate": (b'{"jsonrpc":"2.0","id":1,"result":"\\ud800"}', PARSE_ERROR, "response", 1),
    "a lone low surrogate": (b'{"jsonrpc":"2.0","id":1,"result":"\\udc00"}', PARSE_ERROR, "response", 1),
    "surrogates the wrong way": (
        b'{"jsonrpc":"2.0","id":1,"x":"\\udc00\\ud800","result":1}',
        PARSE_ERROR,
        "response",
        1,
    ),
    "a surrogate in the method": (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', PARSE_ERROR, "request", 1),
}

NOT_A_MESSAGE: dict[str, Case] = {
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"m"}]', INVALID_REQUEST, "unknown", UNSET),
    "an empty batch": (b"[]", INVALID_REQUEST, "unknown", UNSET),
    "a batch behind blanks": (b" \t[1]", INVALID_REQUEST, "unknown", UNSET),
    "a number": (b"42", INVALID_REQUEST, "unknown", UNSET),
    "a string": (b'"hello"', INVALID_REQUEST, "unknown", UNSET),
    "null": (b"null", INVALID_REQUEST, "unknown", UNSET),
    "true": (b"true", INVALID_REQUEST, "unknown", UNSET),
    "an empty object": (b"{}", INVALID_REQUEST, "unknown", UNSET),
    "a version only": (b'{"jsonrpc":"2.0"}', INVALID_REQUEST, "unknown", UNSET),
    "no version": (b'{"id":1,"method":"m"}', INVALID_REQUEST, "request", 1),
    "no version in a response": (b'{"id":1,"result":{}}', INVALID_REQUEST, "response", 1),
    "an older version": (b'{"jsonrpc":"1.0","id":1,"method":"m"}', INVALID_REQUEST, "request", 1),
    "a version that is a number": (b'{"jsonrpc":2.0,"id":1,"method":"m"}', INVALID_REQUEST, "request", 1),
    "a version that is null": (b'{"jsonrpc":null,"id":"1","method":"m"}', INVALID_REQUEST, "request", "1"),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":1,"method":1}', INVALID_REQUEST, "request", 1),
    "a method that is null": (b'{"jsonrpc":"2.0","id":1,"method":null}', INVALID_REQUEST, "request", 1),
    "a method that is missing": (b'{"jsonrpc":"2.0","id":1,"params":{}}', INVALID_REQUEST, "request", 1),
    "an id that is true": (b'{"jsonrpc":"2.0","id":true,"method":"m"}', INVALID_REQUEST, "request", UNSET),
    "an id with a fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', INVALID_REQUEST, "request", UNSET),
    "an id written as a float": (b'{"jsonrpc":"2.0","id":1.0,"method":"m"}', INVALID_REQUEST, "request", UNSET),
    "an id that is an object": (b'{"jsonrpc":"2.0","id":{},"method":"m"}', INVALID_REQUEST, "request", UNSET),
    "an id that is an array": (b'{"jsonrpc":"2.0","id":[1],"method":"m"}', INVALID_REQUEST, "request", UNSET),
    "an id of 5,000 digits": (
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"m"}',
        INVALID_REQUEST,
        "request",
        UNSET,
    ),
    "an id that is wrong in a response": (b'{"jsonrpc":"2.0","id":[],"result":1}', INVALID_REQUEST, "response", UNSET),
    "an id that is wrong the first time": (
        b'{"jsonrpc":"2.0","id":true,"id":1,"method":"m"}',
        INVALID_REQUEST,
        "request",
        1,
    ),
    "an id that is wrong the first time, beside a result": (
        b'{"jsonrpc":"2.0","id":true,"id":1,"result":1}',
        INVALID_REQUEST,
        "response",
        1,
    ),
    "an id that is wrong the first time, beside an error": (
        b'{"jsonrpc":"2.0","id":true,"id":1,"error":{"code":1,"message":""}}',
        INVALID_REQUEST,
        "response",
        1,
    ),
    "params that are a string": (b'{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}', INVALID_REQUEST, "request", 1),
    "params that are a number": (b'{"jsonrpc":"2.0","id":1,"method":"m","params":1}', INVALID_REQUEST, "request", 1),
    "params that are true": (b'{"jsonrpc":"2.0","method":"m","params":true}', INVALID_REQUEST, "request", UNSET),
    "method and result": (b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}', INVALID_REQUEST, "request", 1),
    "method and error": (
        b'{"jsonrpc":"2.0","id":1,"method":"m","error":{"code":1,"message":""}}',
        INVALID_REQUEST,
        "request",
        1,
    ),
    "result and error": (
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
        INVALID_REQUEST,
        "response",
        1,
    ),
    "result and a null error": (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', INVALID_REQUEST, "response", 1),
    "neither result nor error": (b'{"jsonrpc":"2.0","id":1}', INVALID_REQUEST, "response", 1),
    "nothing but a null id": (b'{"jsonrpc":"2.0","id":null}', INVALID_REQUEST, "unknown", None),
    "a result without id": (b'{"jsonrpc":"2.0","result":{}}', INVALID_REQUEST, "response", UNSET),
    "an error without id": (b'{"jsonrpc":"2.0","error":{"code":1,"message":""}}', INVALID_REQUEST, "response", UNSET),
    "a null error": (b'{"jsonrpc":"2.0","id":1,"error":null}', INVALID_REQUEST, "response", 1),
    "an error that is a string": (b'{"jsonrpc":"2.0","id":1,"error":"no"}', INVALID_REQUEST, "response", 1),
    "an error without code": (b'{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}', INVALID_REQUEST, "response", 1),
    "an error without message": (b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}', INVALID_REQUEST, "response", 1),
    "a code that is a string": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"no"}}',
        INVALID_REQUEST,
        "response",
        1,
    ),
    "a code with a fraction": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"no"}}',
        INVALID_REQUEST,
        "response",
        1,
    ),
    "a code of 5,000 digits": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":' + b"9" * 5000 + b',"message":"no"}}',
        INVALID_REQUEST,
        "response",
        1,
    ),
    "a message that is null": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}',
        INVALID_REQUEST,
        "response",
        1,
    ),
}

TOO_MUCH: dict[str, Case] = {
    "nesting of 257": (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 256 + b"]" * 256 + b"}",
        PARSE_ERROR,
        "request",
        1,
    ),
    "nesting of 100,000": (
        b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        PARSE_ERROR,
        "response",
        1,
    ),
    "nesting of 100,000 without end": (b"[" * 100_000, PARSE_ERROR, "unknown", UNSET),
    "nesting of 100,000 objects before the id": (
        b'{"jsonrpc":"2.0","method":"m","params":' + b'{"id":' * 100_000 + b"1" + b"}" * 100_000 + b',"id":1}',
        PARSE_ERROR,
        "request",
        1,
    ),
    "a million and one values": (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":[' + b"1," * NODE_LIMIT + b"1]}",
        INVALID_REQUEST,
        "request",
        1,
    ),
}

MALFORMED = {
    f"{group}: {name}": case
    for group, cases in {
        "not JSON": NOT_JSON,
        "not text": NOT_TEXT,
        "not a message": NOT_A_MESSAGE,
        "too much": TOO_MUCH,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.rule(1, 5, 6, 7, 10, 11, 12, 19, 20, 21, 22, 23, 337)
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_line_has_its_code_its_kind_and_its_id(name: str) -> None:
    line, code, kind, id = MALFORMED[name]
    message = read_message(line)
    assert isinstance(message, Malformed)
    assert (message.code, message.kind, message.id) == (code, kind, id)
    assert type(message.id) is type(id)
    assert message.raw == line
    assert message.why


def test_lines_that_are_wrong_in_different_ways_are_told_apart() -> None:
    reasons = {
        message.why for line, *_ in NOT_A_MESSAGE.values() if isinstance(message := read_message(line), Malformed)
    }
    assert reasons == {
        "a batch; the protocol has one message per line",
        "a message is a JSON object",
        '"jsonrpc" is missing',
        '"jsonrpc" must be "2.0"',
        '"id" must be a string, an integer or null',
        '"method" is missing',
        '"method" must be a string',
        '"params" must be an object',
        'a message has "method", or else "result" or "error"',
        'a message has "method" or "id"',
        'a response has exactly one of "result" and "error"',
        '"error" must have an integer "code" and a string "message"',
        "a member occurs twice and one of its values is wrong",
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"jsonrpc":NaN}', "the line is not valid JSON (byte 11)"),
        (b'{"jsonrpc":"2.0"', "the line is not valid JSON: it ends too early"),
        (b"[1,]", "the line is not valid JSON (byte 3)"),
        (b"[1,", "the line is not valid JSON: it ends too early"),
        (b'{"jsonrpc":"2.0","x":"\xff"}', "the line is not valid UTF-8"),
        (b"[" * 600 + b"]" * 600, "the line nests deeper than 256 levels"),
        (b"[" + b"1," * NODE_LIMIT + b"1]", "the line holds more than 1000000 values"),
    ],
    ids=["object", "cut object", "array", "cut array", "not UTF-8", "depth", "values"],
)
def test_a_line_that_cannot_be_decoded_names_where_it_fails(line: bytes, why: str) -> None:
    message = read_message(line)
    assert isinstance(message, Malformed)
    assert message.why == why


@pytest.mark.rule(345)
def test_the_reason_quotes_nothing_of_the_line() -> None:
    for line in (
        b'{"jsonrpc":"hunter2","id":1,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":"hunter2"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"token":"hunter2"',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"hunter2","message":"m"}}',
        b"hunter2",
    ):
        message = read_message(line)
        assert isinstance(message, Malformed)
        assert "hunter2" not in message.why


def test_a_decoder_that_runs_out_of_stack_is_not_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(line: bytes) -> object:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("dragoman.wire.envelope._decode_strict", give_up)
    monkeypatch.setattr("dragoman.wire.diagnosis._decode_loose", give_up)
    message = read_message(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    assert isinstance(message, Malformed)
    assert (message.code, message.kind, message.id) == (PARSE_ERROR, "request", 1)
    assert message.why == "the line nests too deeply"


@pytest.mark.rule(14)
def test_an_over_long_line_still_names_its_request() -> None:
    framer = Framer(1024)
    text = b"x" * 2000
    request = b'{"jsonrpc":"2.0","id":1,"method":"m","params":"' + text + b'"}\n'
    response = b'{"jsonrpc":"2.0","result":"' + text + b'","id":"2"}\n'
    noise = text + b"\n"
    refused = [refuse(frame) for frame in framer.feed(request + response + noise) if isinstance(frame, TooLong)]
    assert [(one.code, one.kind, one.id) for one in refused] == [
        (INVALID_REQUEST, "request", 1),
        (INVALID_REQUEST, "response", "2"),
        (INVALID_REQUEST, "unknown", UNSET),
    ]
    assert refused[0].raw == request[:-1]
    assert refused[0].why == (
        f"a message of {len(request) - 1} bytes was dropped: one may have 1024 bytes; send it in smaller parts"
    )


@pytest.mark.rule(13)
def test_a_truncated_line_names_its_request() -> None:
    frame = Truncated(b'{"jsonrpc":"2.0","id":1,"result":{"a', 36)
    message = refuse(frame)
    assert (message.code, message.kind, message.id) == (PARSE_ERROR, "response", 1)
    assert message.raw == frame.head
    assert "36 bytes" in message.why
