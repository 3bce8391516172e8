"""A redacted recording holds no text of the conversation, and is otherwise equal to the original."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from dragoman import schema
from dragoman.schema import AGENT_METHODS, CLIENT_METHODS, Method, v1
from dragoman.state import SessionState, fold
from dragoman.trace import Direction, Frame, Header, Redactor, Stderr, TraceWriter, open_trace
from dragoman.trace.redact import WORDS, _vocabulary
from tests.conftest import IS_SOAK
from tests.schema.model import DEFINITIONS, MODEL, definition_of
from tests.schema.strategies import Values
from tests.trace.kit import RECORDINGS
from tools.schema.model import ListOf, Ref, Scalar

KNOWN = Values(unknown=False)
OPEN = Values(unknown=True)
FEW = settings(
    max_examples=100 if IS_SOAK else 6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
METHODS = [*AGENT_METHODS.values(), *CLIENT_METHODS.values()]
# A path, a URL or a text of x; a pseudonym; a date; a media type; a currency.
PLACEHOLDER = re.compile(
    r"(/|C:[\\/]|file://|https?://)?[x\n]*|[A-Za-z]+-\d+|2000-01-01T00:00:00.*|(text|image|audio|video|application)/x*|[A-Z]{3}"
)
PROTOCOL_WORDS = {value for enum in MODEL.enums.values() for value in enum.values} | {
    record.tag for record in MODEL.records.values() if record.tag
}


def redact(direction: Direction, message: dict[str, Any], redactor: Redactor | None = None) -> dict[str, Any]:
    line = (redactor or Redactor()).frame(direction, schema.encode({"jsonrpc": "2.0", **message}))
    found: dict[str, Any] = json.loads(line)
    assert found.pop("jsonrpc") == "2.0"
    return found


def redact_params(method: Method, params: Any) -> Any:
    direction: Direction = "c2a" if method.side == "agent" else "a2c"
    return redact(direction, {"method": method.name, "params": params})["params"]


def redact_result(method: Method, result: Any) -> Any:
    asks, answers = ("c2a", "a2c") if method.side == "agent" else ("a2c", "c2a")
    redactor = Redactor()
    redact(asks, {"id": 1, "method": method.name}, redactor)  # type: ignore[arg-type]
    return redact(answers, {"id": 1, "result": result}, redactor)["result"]  # type: ignore[arg-type]


def strings(value: Any, owner: str = "") -> Iterator[tuple[str, str]]:
    """Every string with the name of the object it stands in; names are strings of the object ''."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield "", name
            yield from strings(each, name if isinstance(each, dict) else owner)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each, owner)
    elif isinstance(value, str):
        yield owner, value


def assert_says_nothing(value: Any) -> None:
    for owner, text in strings(value):
        if owner not in ("clientInfo", "agentInfo"):
            assert PLACEHOLDER.fullmatch(text) or text in PROTOCOL_WORDS or text in _vocabulary(), text


def judge(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition_of(name)}", "$defs": DEFINITIONS})


PARTS = [(method, method._params, redact_params) for method in METHODS] + [
    (method, method._result, redact_result) for method in METHODS if method._result is not None
]
PART_IDS = [f"{method.side}-{name}" for method, name, _ in PARTS]


@pytest.mark.parametrize(("method", "name", "redacted"), PARTS, ids=PART_IDS)
def test_any_message_says_nothing_any_more_and_is_still_valid(method: Method, name: str, redacted: Any) -> None:
    validator, decoder = judge(name), schema.decoder(getattr(v1, name))

    @FEW
    @given(KNOWN.of(name))
    def survives(value: Any) -> None:
        found = redacted(method, value)
        assert_says_nothing(found)
        validator.validate(found)
        original = strictly(decoder, json.loads(schema.encode(value)))
        assert strictly(decoder, found) is original

    survives()


def strictly(decoder: msgspec.json.Decoder[Any], value: Any) -> type | None:
    """The type a value is read as; None for the few that only the forgiving pass reads, such as large numbers."""
    try:
        return type(decoder.decode(schema.encode(value)))
    except msgspec.ValidationError:
        return None


@pytest.mark.parametrize(("method", "name", "redacted"), PARTS, ids=PART_IDS)
def test_a_message_with_unknown_parts_keeps_its_shape(method: Method, name: str, redacted: Any) -> None:
    @FEW
    @given(OPEN.of(name))
    def survives(value: Any) -> None:
        found = redacted(method, value)
        assert shape(found) == shape(json.loads(schema.encode(value)))
        schema.decode(getattr(v1, name), schema.encode(found), lambda loss: pytest.fail(f"{loss}"))

    survives()


def shape(value: Any) -> Any:
    """A value without its contents: types, lengths and how many of each there are."""
    match value:
        case dict():
            return sorted((shape(each) for each in value.values()), key=repr)
        case list():
            return [shape(each) for each in value]
    return type(value).__name__


SECRET = "swordfish"
SESSION = {"sessionId": f"{SECRET}-session"}


@pytest.mark.parametrize(
    ("direction", "message"),
    [
        ("c2a", {"method": "session/new", "params": {"cwd": f"/home/{SECRET}", "mcpServers": []}}),
        ("c2a", {"method": "session/prompt", "params": {**SESSION, "prompt": [{"type": "text", "text": SECRET}]}}),
        ("c2a", {"method": "session/prompt", "params": {**SESSION, "prompt": SECRET}}),
        ("c2a", {"method": "session/prompt", "params": SECRET}),
        ("c2a", {"method": "session/prompt", "params": {**SESSION, "_meta": {SECRET: {SECRET: SECRET}}}}),
        ("c2a", {"method": "session/prompt", "params": {**SESSION, SECRET: 1}}),
        (
            "c2a",
            {
                "method": "session/new",
                "params": {
                    "cwd": "/",
                    "mcpServers": [
                        {
                            "name": SECRET,
                            "command": f"/bin/{SECRET}",
                            "args": ["--token", SECRET],
                            "env": [{"name": "TOKEN", "value": SECRET}],
                        },
                        {
                            "type": "http",
                            "name": "x",
                            "url": f"https://{SECRET}.example",
                            "headers": [{"name": "Authorization", "value": f"Bearer {SECRET}"}],
                        },
                        {"type": "smoke", "signal": SECRET},
                    ],
                },
            },
        ),
        ("a2c", {"method": "fs/write_text_file", "params": {**SESSION, "path": f"/{SECRET}", "content": SECRET}}),
        (
            "a2c",
            {
                "method": "terminal/create",
                "params": {**SESSION, "command": SECRET, "args": [SECRET], "env": [{"name": SECRET, "value": SECRET}]},
            },
        ),
        (
            "a2c",
            {
                "method": "session/update",
                "params": {
                    **SESSION,
                    "update": {
                        "sessionUpdate": "tool_call",
                        "toolCallId": SECRET,
                        "title": f"Reading {SECRET}",
                        "rawInput": {"changes": {f"/home/{SECRET}.py": [SECRET, {"pin": 31415926}]}},
                        "rawOutput": 31415926,
                        "content": [{"type": "diff", "path": f"/{SECRET}", "oldText": SECRET, "newText": SECRET}],
                        "locations": [{"path": f"C:\\{SECRET}", "line": 3}],
                    },
                },
            },
        ),
        (
            "a2c",
            {
                "method": "session/update",
                "params": {
                    **SESSION,
                    "update": {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "image", "data": f"{SECRET}=", "mimeType": f"image/{SECRET}"},
                    },
                },
            },
        ),
        ("a2c", {"method": "_vendor/thing", "params": {"a": [SECRET]}}),
        ("a2c", {"method": f"the {SECRET} method", "params": {}}),
        ("a2c", {"id": f"{SECRET}-1", "result": SECRET}),
        ("a2c", {"id": 1, "error": {"code": -32603, "message": f"no {SECRET}", "data": {SECRET: 31415926}}}),
        ("a2c", {"id": 1, "error": SECRET}),
        ("a2c", {SECRET: SECRET}),
        ("c2a", {"method": "initialize", "params": {"protocolVersion": 1, "clientInfo": {"name": f"{SECRET}\n"}}}),
    ],
    ids=lambda value: str(value.get("method", "answer")) if isinstance(value, dict) else "",
)
def test_no_secret_survives(direction: Direction, message: dict[str, Any]) -> None:
    line = Redactor().frame(direction, schema.encode({"jsonrpc": "2.0", **message}))
    assert SECRET.encode() not in line
    assert b"31415926" not in line


def test_what_a_user_enters_into_a_form_is_gone() -> None:
    redactor = Redactor()
    asked = redact(
        "a2c", {"id": 1, "method": "elicitation/create", "params": {"mode": "form", "sessionId": "s"}}, redactor
    )
    assert asked["params"]["mode"] == "form"
    answered = redact(
        "c2a",
        {"id": 1, "result": {"action": "accept", "content": {"pin": 31415926, "name": SECRET, "ok": True}}},
        redactor,
    )
    assert answered["result"]["action"] == "accept"
    assert sorted(map(str, answered["result"]["content"].values())) == ["0", "True", "xxxxxxxxx"]


@pytest.mark.parametrize(
    "line",
    [
        b"swordfish is loading...",
        b'{"broken": "swordfish"',
        b'["swordfish"]',
        b'"swordfish"',
        b"\xffswordfish",
        b'{"n":1e999,"s":"swordfish"}',
        b'{"a":' * 300 + b'"swordfish"' + b"}" * 300,
    ],
)
def test_a_line_that_is_not_a_message_is_replaced_as_a_whole(line: bytes) -> None:
    found = Redactor().frame("a2c", line)
    assert len(found) == len(line)
    assert b"swordfish" not in found


def test_entries_that_are_not_frames_are_redacted_too() -> None:
    redactor = Redactor()
    assert redactor.entry(Header(command=("swordfish",), cwd="/swordfish", by="x")) == Header(by="x", redacted=True)
    assert redactor.entry(Stderr(1.0, "swordfish!")) == Stderr(1.0, "xxxxxxxxxx")
    assert redactor.entry(Frame(1.0, "c2a", b"", b"\r\n")) == Frame(1.0, "c2a", b"", b"\r\n")


def test_a_redacting_writer_never_writes_what_it_was_given() -> None:
    file = io.BytesIO()
    writer = TraceWriter(file, command=["swordfish"], cwd="/swordfish", redact=True)
    writer.frame("c2a", b'{"jsonrpc":"2.0","method":"x","params":{"a":"swordfish"}}')
    writer.stderr("swordfish")
    writer.close()
    assert b"swordfish" not in file.getvalue()
    file.seek(0)
    assert open_trace(file).header.redacted


def test_ids_are_pseudonyms_that_stay_the_same_and_apart() -> None:
    redactor = Redactor()
    one = {"method": "session/cancel", "params": {"sessionId": "one"}}
    two = {"method": "session/cancel", "params": {"sessionId": "two"}}
    first, second, third = (redact("c2a", message, redactor) for message in (one, two, one))
    assert first == third
    assert first != second
    assert first["params"]["sessionId"] == "session-1"


def test_a_request_and_its_answer_still_belong_together() -> None:
    redactor = Redactor()
    asked = redact("c2a", {"id": "7f3a", "method": "session/new", "params": {}}, redactor)
    answered = redact("a2c", {"id": "7f3a", "result": {"sessionId": "s"}}, redactor)
    cancelled = redact("c2a", {"method": "$/cancel_request", "params": {"requestId": "7f3a"}}, redactor)
    assert asked["id"] == answered["id"] == cancelled["params"]["requestId"] != "7f3a"
    assert redact("c2a", {"id": 7, "method": "x"}, redactor)["id"] == 7


def test_lengths_lines_and_the_form_of_paths_and_dates_stay() -> None:
    def of(text: str) -> str:
        found: str = redact("a2c", {"method": "_x", "params": {"text": text}})["params"]["text"]
        return found

    assert of("ab\ncd ef") == "xx\nxxxxx"
    assert of("/home/me") == "/xxxxxxx"
    assert of("D:\\me") == "C:\\xx"
    assert of("file:///me") == "file://xxx"
    assert of("2026-11-15T21:00:00.123Z") == "2000-01-01T00:00:00.000Z"


def test_signals_currencies_and_media_types_stay_if_they_are_what_they_should_be() -> None:
    def of(member: str, value: str) -> str:
        cost = {"amount": 1.5, "currency": value}
        block = {"type": "image", "data": "", "mimeType": value}
        status = {"output": "", "truncated": False, "exitStatus": {"signal": value}}
        if member == "signal":
            found: str = redact_result(CLIENT_METHODS["terminal/output"], status)["exitStatus"]["signal"]
        else:
            update = {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost}
            if member == "mimeType":
                update = {"sessionUpdate": "agent_message_chunk", "content": block}
            params = redact_params(CLIENT_METHODS["session/update"], {"sessionId": "s", "update": update})
            found = params["update"]["cost" if member == "currency" else "content"][member]
        return found

    assert (of("signal", "SIGTERM"), of("signal", "swordfish")) == ("SIGTERM", "xxxxxxxxx")
    assert (of("currency", "USD"), of("currency", "swordfish")) == ("USD", "xxxxxxxxx")
    assert (of("mimeType", "image/png"), of("mimeType", "image/fish")) == ("image/png", "image/xxxx")


def test_what_programs_say_about_themselves_stays() -> None:
    params = {"protocolVersion": 1, "clientInfo": {"name": "zed", "title": "Zed", "version": "1.2.3-beta (x)"}}
    found = redact("c2a", {"method": "initialize", "params": params})["params"]
    assert found == {"protocolVersion": 1, "clientInfo": {"name": "zed", "title": "xxx", "version": "1.2.3-beta (x)"}}


def test_every_enumeration_of_the_schema_is_kept_and_nothing_else() -> None:
    enums, texts = set(), set()
    for name in MODEL.records:
        for member in MODEL.members_of(name):
            kind = member.type.item if isinstance(member.type, ListOf) else member.type
            if isinstance(kind, Ref) and kind.name in MODEL.enums:
                enums.add(member.wire)
            elif isinstance(kind, Scalar) and kind.name in ("str", "NonEmptyStr"):
                texts.add(member.wire)
    assert enums <= WORDS
    assert not WORDS & texts


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recordings_of_real_agents_decode_and_fold_as_before(path: Path) -> None:
    trace = open_trace(path)
    redactor = Redactor()
    redacted = [entry for entry in map(redactor.entry, trace.entries) if isinstance(entry, Frame)]
    assert [(frame.t, frame.dir) for frame in redacted] == [(frame.t, frame.dir) for frame in trace.frames]
    assert summary(redacted) == summary(trace.frames)


def summary(frames: list[Frame]) -> list[Any]:
    """What a fold makes of all updates, without words."""
    states: dict[str, SessionState] = {}
    strict = 0
    for frame in frames:
        if b'"session/update"' not in frame.data:
            continue
        try:
            schema.decoder(v1.UpdateFrame).decode(frame.data)
            strict += 1
        except msgspec.ValidationError:
            pass
        params = schema.decode(v1.SessionNotification, schema.encode(json.loads(frame.data)["params"]))
        fold(states.setdefault(params.session_id, SessionState()), params.update)
    return [
        strict,
        *(
            (
                [(message.role, len(message.text)) for message in state.messages],
                [(call.kind, call.status, len(call.content)) for call in state.tool_calls.values()],
                len(state.unknown),
            )
            for state in states.values()
        ),
    ]
