"""The one decode point and the one encoder."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.errors import INVALID_PARAMS, PARSE_ERROR, LocalProtocolError, RemoteProtocolError
from dragoman.schema import UNSET, Loss, Unknown, decode, decoder, encode, v1
from tests.schema.model import no_loss

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}'
CHUNK = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}'

NOT_JSON = {
    "empty": b"",
    "truncated": b'{"sessionId":"s"',
    "trailing": b'{"sessionId":"s"} x',
    "NaN": b'{"sessionId":"s","_meta":{"a":NaN}}',
    "Infinity": b'{"sessionId":"s","_meta":{"a":-Infinity}}',
    "bad UTF-8": b'{"sessionId":"\xff"}',
    "overlong UTF-8": b'{"sessionId":"\xc0\x80"}',
    "lone surrogate, escaped": b'{"sessionId":"\\ud800"}',
    "lone low surrogate, escaped": b'{"sessionId":"\\udc00x"}',
    "lone surrogate, raw": b'{"sessionId":"\xed\xa0\x80"}',
    "100,000 deep": b'{"sessionId":"s","_meta":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    # What is only skipped takes less of the stack, which Python 3.14 uses up before it counts.
    "1,000,000 deep in an unknown member": b'{"sessionId":"s","x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
    "5,000 digits": b'{"sessionId":"s","_meta":{"a":' + b"9" * 5000 + b"}}",
    "1e999": b'{"sessionId":"s","_meta":{"a":1e999}}',
    "byte order mark": b'\xef\xbb\xbf{"sessionId":"s"}',
    "single quotes": b"{'sessionId':'s'}",
    "raw line feed in a string": b'{"sessionId":"a\nb"}',
}


@pytest.mark.rule(1, 12, 337)
@pytest.mark.parametrize("data", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_a_parse_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(v1.CancelNotification, data)
    assert caught.value.code == PARSE_ERROR


@pytest.mark.parametrize("text", ["9" * 5000, "1e999", "-1e999"])
def test_a_number_nothing_can_hold_is_a_parse_error_in_a_typed_member_too(text: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(v1.UsageUpdate, b'{"used":%s,"size":1}' % text.encode())
    assert caught.value.code == PARSE_ERROR


NOT_IN_RANGE: list[tuple[Any, bytes, str]] = [
    (v1.InitializeRequest, b'{"protocolVersion":65536}', "$.protocolVersion"),
    (v1.InitializeRequest, b'{"protocolVersion":-1}', "$.protocolVersion"),
    (v1.InitializeRequest, b'{"protocolVersion":"1"}', "$.protocolVersion"),
    (v1.InitializeRequest, b'{"protocolVersion":1.5}', "$.protocolVersion"),
    (v1.ReadTextFileRequest, b'{"sessionId":"s","path":"/p","line":4294967296}', "$.line"),
    (v1.ReadTextFileRequest, b'{"sessionId":"s","path":"/p","limit":-1}', "$.limit"),
    (v1.MultiSelectPropertySchema, b'{"items":{"anyOf":[]},"maxItems":18446744073709551616}', "$.maxItems"),
    (v1.CancelRequestNotification, b'{"requestId":9223372036854775808}', "$.requestId"),
    (v1.CancelRequestNotification, b'{"requestId":1.5}', "$.requestId"),
    (v1.CancelRequestNotification, b'{"requestId":' + b"9" * 400 + b"}", "$.requestId"),
    (v1.Cost, b'{"amount":' + b"9" * 400 + b',"currency":"EUR"}', "$.amount"),
    (v1.Notice, b'{"sessionUpdate":"notice","severity":"info","title":""}', "$.title"),
]


@pytest.mark.rule(20, 37, 215, 219, 275, 337)
@pytest.mark.parametrize(("kind", "data", "path"), NOT_IN_RANGE, ids=lambda case: str(case)[-60:])
def test_a_value_out_of_its_declared_range_is_refused_with_its_path(kind: Any, data: bytes, path: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(kind, data)
    assert (caught.value.code, caught.value.path) == (INVALID_PARAMS, path)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (v1.InitializeRequest, b'{"protocolVersion":65535}'),
        (v1.ReadTextFileRequest, b'{"sessionId":"s","path":"/p","line":4294967295,"limit":0}'),
        (v1.UsageUpdate, b'{"sessionUpdate":"usage_update","used":18446744073709551615,"size":9223372036854775808}'),
        (v1.CancelRequestNotification, b'{"requestId":-9223372036854775808}'),
    ],
)
def test_the_ends_of_every_range_are_read(kind: Any, data: bytes) -> None:
    assert json.loads(encode(decode(kind, data, no_loss))) == json.loads(data)


@pytest.mark.rule(345)
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (v1.NewSessionRequest, b'{"cwd":"/","mcpServers":[{"type":"http","name":"n","url":"u","headers":"s3cret"}]}'),
        (v1.NewSessionRequest, b'{"cwd":"/","mcpServers":[{"type":"s3cret"},"s3cret"]}'),
        (v1.AuthMethod, b'{"type":"terminal","id":"i","name":"n","env":{"s3cret":1}}'),
        (v1.PromptRequest, b'{"sessionId":"s","prompt":[{"type":"text","text":["s3cret"]}]}'),
        (v1.SessionNotification, b'{"sessionId":"s","update":"s3cret"}'),
        (v1.CancelNotification, b'{"sessionId":"s3cret'),
        (v1.CancelNotification, b'{"sessionId":"s3cret\xff"}'),
    ],
)
def test_an_error_never_quotes_what_the_peer_sent(kind: Any, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(kind, data)
    assert "s3cret" not in f"{caught.value} {caught.value.path} {caught.value.__cause__} {caught.value.args}"


def test_a_report_never_quotes_what_the_peer_sent() -> None:
    losses: list[Loss] = []
    data = b'{"toolCallId":"1","title":"t","kind":["s3cret"],"locations":[{"path":["s3cret"]}],"_meta":"s3cret"}'
    decode(v1.ToolCall, data, losses.append)
    assert len(losses) == 3
    assert "s3cret" not in str(losses)


@pytest.mark.rule(109, 279)
@pytest.mark.parametrize("kind", [v1.LoadSessionResponse, v1.WriteTextFileResponse, v1.AuthenticateResponse])
def test_a_null_result_reads_as_the_empty_object_where_nothing_is_required(kind: Any) -> None:
    assert decode(kind, b"null", no_loss) == kind()


@pytest.mark.parametrize("kind", [v1.NewSessionResponse, v1.PromptResponse, v1.RequestPermissionOutcome, v1.McpServer])
def test_a_null_result_is_refused_where_something_is_required(kind: Any) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(kind, b"null")
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("data", [CHUNK, memoryview(CHUNK), msgspec.Raw(CHUNK)], ids=["bytes", "memoryview", "Raw"])
def test_every_kind_of_buffer_is_read(data: bytes | memoryview | msgspec.Raw) -> None:
    assert decode(v1.SessionUpdate, data) == v1.AgentMessageChunk(v1.TextContent("hi"))


def test_the_decoder_of_a_type_is_made_once() -> None:
    assert decoder(v1.PromptRequest) is decoder(v1.PromptRequest)


def test_a_whole_update_line_is_read_in_one_pass() -> None:
    frames = decoder(v1.UpdateFrame).decode_lines(b"\n".join([UPDATE % CHUNK] * 3))
    assert [frame.params.update for frame in frames] == [v1.AgentMessageChunk(v1.TextContent("hi"))] * 3


@pytest.mark.parametrize(
    "line",
    [
        (UPDATE % CHUNK)[:-1] + b',"id":1}',
        (UPDATE % CHUNK)[:-1] + b',"id":"no notification has an id "}',
        (UPDATE % CHUNK)[:-1] + b',"id":null}',
        (UPDATE % CHUNK).replace(b"2.0", b"1.0"),
        (UPDATE % CHUNK).replace(b'"jsonrpc":"2.0",', b""),
        (UPDATE % CHUNK).replace(b"session/update", b"session/updates"),
        UPDATE % b'{"sessionUpdate":"_new"}',
    ],
)
def test_the_one_pass_refuses_every_line_that_is_not_a_clean_update(line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoder(v1.UpdateFrame).decode(line)


@pytest.mark.parametrize("name", ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"])
def test_streaming_calls_no_hook(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the decode hook was called")

    for choice in (v1.McpServer, v1.EmbeddedResourceResource, v1.SessionConfigSelectOptions):
        monkeypatch.setattr(choice, "pick", refuse)
    blocks = [b'{"type":"text","text":"a"}', b'{"type":"image","data":"","mimeType":"image/png"}']
    for block in blocks:
        decoder(v1.UpdateFrame).decode(UPDATE % (b'{"sessionUpdate":"%s","content":%s}' % (name.encode(), block)))
    diff = b'[{"type":"diff","path":"/a","newText":"b"}]'
    call = b'{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","content":%s}' % diff
    decoder(v1.UpdateFrame).decode(UPDATE % call)


def test_lone_surrogates_are_replaced_in_everything_written() -> None:
    block = v1.TextContent("a\ud800b", meta={"k\udc00": ["\udfff"]})
    assert json.loads(encode(block)) == {"type": "text", "text": "a\ufffdb", "_meta": {"k\ufffd": ["\ufffd"]}}
    assert json.loads(encode(Unknown("x", {"type": "x\ud800"}))) == {"type": "x\ufffd"}


def test_a_pair_of_surrogates_is_written_as_the_character_it_means() -> None:
    assert encode(["\ud83d\ude00", "\ud800"]).decode() == '["😀","\ufffd"]'


@pytest.mark.parametrize("value", [object(), {1: object()}, v1.TextContent("a", meta={"a": {1j}})])
def test_what_is_not_a_json_value_is_not_written(value: object) -> None:
    with pytest.raises(LocalProtocolError):
        encode(value)


def test_a_cycle_is_not_written() -> None:
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    with pytest.raises(LocalProtocolError):
        encode(v1.TextContent("a", meta=cycle))


def test_meta_that_carries_argument_names_stays_a_member() -> None:
    data = b'{"sessionId":"s","_meta":{"sessionId":"other","session_id":"third","meta":1,"self":2}}'
    value = decode(v1.CancelNotification, data, no_loss)
    assert value.session_id == "s"
    assert value.meta == {"sessionId": "other", "session_id": "third", "meta": 1, "self": 2}


def test_members_the_schema_does_not_know_are_left_out() -> None:
    assert encode(decode(v1.CancelNotification, b'{"sessionId":"s","extra":1}', no_loss)) == b'{"sessionId":"s"}'


def test_absent_null_and_value_are_three_things() -> None:
    titles = [decode(v1.SessionInfoUpdate, data).title for data in (b"{}", b'{"title":null}', b'{"title":"t"}')]
    assert titles == [UNSET, None, "t"]
