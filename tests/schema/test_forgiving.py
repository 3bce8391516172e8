"""What is kept, what is given up and what is refused when the strict pass fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.errors import INVALID_PARAMS, RemoteProtocolError
from dragoman.schema import UNSET, Loss, Unknown, decode, encode, v1
from tests.schema.model import no_loss


def read(kind: Any, value: Any) -> tuple[Any, list[Loss]]:
    losses: list[Loss] = []
    return decode(kind, encode(value), losses.append), losses


def refused(kind: Any, value: Any) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(kind, encode(value))
    assert caught.value.code == INVALID_PARAMS
    return caught.value


STDIO = {"name": "n", "command": "/c", "args": [], "env": []}


@pytest.mark.rule(98)
@pytest.mark.parametrize("extra", [{}, {"type": "stdio"}, {"type": None}])
def test_a_server_without_type_or_of_type_stdio_is_a_program(extra: dict[str, Any]) -> None:
    server = decode(v1.McpServer, encode({**STDIO, **extra}), no_loss)
    assert server == v1.McpServerStdio("n", "/c", [], [])


@pytest.mark.rule(99)
@pytest.mark.parametrize(("tag", "kind"), [("http", v1.McpServerHttp), ("sse", v1.McpServerSse)])
def test_a_server_is_read_by_its_type(tag: str, kind: type) -> None:
    server = decode(v1.McpServer, encode({"type": tag, "name": "n", "url": "u", "headers": []}), no_loss)
    assert type(server) is kind


@pytest.mark.parametrize("tag", ["websocket", "Stdio", "", "_x"])
def test_a_server_of_unknown_type_is_never_taken_for_a_program(tag: str) -> None:
    given = {"cwd": "/", "mcpServers": [{**STDIO, "type": tag}]}
    request = decode(v1.NewSessionRequest, encode(given), no_loss)
    assert request.mcp_servers == [Unknown(tag, {**STDIO, "type": tag})]
    assert json.loads(encode(request)) == given


@pytest.mark.rule(64, 65)
def test_an_auth_method_without_type_is_the_agents_own_and_an_unknown_type_is_kept() -> None:
    methods = [{"id": "1", "name": "a"}, {"id": "2", "name": "b", "type": "agent"}, {"id": "3", "type": "env_var"}]
    response = decode(v1.InitializeResponse, encode({"protocolVersion": 1, "authMethods": methods}), no_loss)
    assert response.auth_methods == [
        v1.AuthMethodAgent("1", "a"),
        v1.AuthMethodAgent("2", "b"),
        Unknown("env_var", methods[2]),
    ]


@pytest.mark.rule(98, 99, 100)
@pytest.mark.parametrize(
    ("server", "path"),
    [
        ({"name": "n"}, "$.mcpServers[0].command"),
        ({**STDIO, "env": [{"name": "A"}]}, "$.mcpServers[0].env[0].value"),
        ({**STDIO, "env": {"A": "b"}}, "$.mcpServers[0].env"),
        ({**STDIO, "type": 5}, "$.mcpServers[0]"),
        ({"type": "http", "name": "n", "url": "u", "headers": {}}, "$.mcpServers[0].headers"),
        ("server", "$.mcpServers[0]"),
    ],
)
def test_a_bad_server_refuses_the_session_with_its_path_from_the_root(server: Any, path: str) -> None:
    assert refused(v1.NewSessionRequest, {"cwd": "/", "mcpServers": [server]}).path == path


@pytest.mark.rule(100)
def test_null_reads_as_empty_in_server_lists_and_their_members() -> None:
    servers = [{**STDIO, "args": None, "env": None}]
    request, losses = read(v1.LoadSessionRequest, {"cwd": "/", "sessionId": "s", "mcpServers": servers})
    assert request.mcp_servers == [v1.McpServerStdio("n", "/c", [], [])]
    assert [loss.path for loss in losses] == ["$.mcpServers[0].args", "$.mcpServers[0].env"]
    request, losses = read(v1.NewSessionRequest, {"cwd": "/", "mcpServers": None, "additionalDirectories": None})
    assert (request.mcp_servers, request.additional_directories_or_default) == ([], ())
    assert len(losses) == 2


@pytest.mark.rule(261)
def test_an_unknown_permission_kind_is_kept_as_its_string() -> None:
    option = decode(v1.PermissionOption, b'{"optionId":"1","name":"n","kind":"allow_forever"}', no_loss)
    assert option.kind == "allow_forever"
    assert option.kind not in v1.KNOWN_VALUES["PermissionOptionKind"]


def test_a_bad_permission_option_refuses_the_request() -> None:
    given = {"sessionId": "s", "toolCall": {"toolCallId": "1"}, "options": [{"optionId": "1", "name": "n", "kind": 1}]}
    assert refused(v1.RequestPermissionRequest, given).path == "$.options[0].kind"


@pytest.mark.rule(225)
def test_an_unknown_update_is_kept_and_written_back() -> None:
    update = {"sessionUpdate": "_later", "body": [1, {"a": None}]}
    given = {"sessionId": "s", "update": update}
    notification = decode(v1.SessionNotification, encode(given), no_loss)
    assert notification.update == Unknown("_later", update)
    assert json.loads(encode(notification)) == given


def test_a_known_variant_with_a_bad_body_is_not_an_unknown_variant() -> None:
    given = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}}
    assert refused(v1.SessionNotification, given).path == "$.update.content.text"


@pytest.mark.parametrize("tag", [None, 5, ["text"], {}])
def test_a_tag_that_is_not_a_string_is_refused(tag: Any) -> None:
    assert refused(v1.PromptRequest, {"sessionId": "s", "prompt": [{"type": tag}]}).path == "$.prompt[0].type"


def test_a_variant_without_tag_is_refused() -> None:
    error = refused(v1.PromptRequest, {"sessionId": "s", "prompt": [{"text": "hi"}]})
    assert (error.path, error.message) == ("$.prompt[0].type", "a required member is missing")


@pytest.mark.rule(226)
def test_the_nearest_mark_decides_and_its_neighbours_are_kept() -> None:
    content: list[dict[str, Any]] = [
        {"type": "content", "content": {"type": "text"}},
        {"type": "content", "content": {"type": "text", "text": "kept", "annotations": {"priority": "high"}}},
        {"type": "_new", "kept": True},
        {"type": "terminal"},
    ]
    update, losses = read(v1.ToolCallPatch, {"toolCallId": "1", "content": content, "status": {}})
    annotations = v1.Annotations()
    assert update.content == [
        v1.Content(v1.TextContent("kept", annotations)),
        Unknown("_new", content[2]),
    ]
    assert update.status is UNSET
    assert [loss.path for loss in losses] == [
        "$.status",
        "$.content[0].content.text",
        "$.content[1].content.annotations.priority",
        "$.content[3].terminalId",
    ]


def test_losses_inside_what_was_given_up_are_not_reported_twice() -> None:
    bad = {"currentModeId": 1, "availableModes": [5], "_meta": 5}
    response, losses = read(v1.NewSessionResponse, {"sessionId": "s", "modes": bad})
    assert response == v1.NewSessionResponse("s")
    assert [loss.path for loss in losses] == ["$.modes.currentModeId"]
    groups = [{"group": "1", "name": "n", "options": ["skipped"]}, {"group": "2", "options": []}]
    select = {"type": "select", "id": "i", "name": "n", "currentValue": "v", "options": groups}
    response, losses = read(v1.NewSessionResponse, {"sessionId": "s", "configOptions": [select]})
    assert response.config_options == []
    assert [loss.path for loss in losses] == ["$.configOptions[0].options[1].name"]


@pytest.mark.rule(226)
def test_a_value_that_is_not_a_list_falls_back_to_the_empty_one() -> None:
    plan, losses = read(v1.Plan, {"sessionUpdate": "plan", "entries": {"content": "c"}})
    assert plan == v1.Plan([])
    assert [loss.path for loss in losses] == ["$.entries"]


@pytest.mark.rule(59)
def test_a_malformed_capability_reads_as_unsupported() -> None:
    given: dict[str, Any] = {
        "terminal": "yes",
        "fs": {"readTextFile": True, "writeTextFile": 1},
        "session": [],
        "elicitation": None,
    }
    capabilities, losses = read(v1.ClientCapabilities, given)
    assert capabilities.terminal_or_default is False
    assert capabilities.fs_or_default.read_text_file_or_default is True
    assert capabilities.fs_or_default.write_text_file_or_default is False
    assert capabilities.session is UNSET
    assert [loss.path for loss in losses] == ["$.fs.writeTextFile", "$.terminal", "$.session"]


@pytest.mark.rule(174)
def test_the_mode_of_an_update_is_also_read_from_the_name_the_prose_uses() -> None:
    update, losses = read(v1.SessionUpdate, {"sessionUpdate": "current_mode_update", "modeId": "code"})
    assert update == v1.CurrentModeUpdate("code")
    assert [loss.path for loss in losses] == ["$.modeId"]
    both = {"sessionUpdate": "current_mode_update", "modeId": "code", "currentModeId": "ask"}
    assert decode(v1.SessionUpdate, encode(both), no_loss) == v1.CurrentModeUpdate("ask")
    wrong = {"sessionUpdate": "current_mode_update", "modeId": 5}
    assert refused(v1.SessionUpdate, wrong).path == "$.modeId"


@pytest.mark.rule(233)
def test_a_resource_is_text_or_blob_and_never_neither() -> None:
    text = decode(v1.EmbeddedResourceResource, b'{"uri":"u","text":"t"}', no_loss)
    blob = decode(v1.EmbeddedResourceResource, b'{"uri":"u","blob":"AA=="}', no_loss)
    assert (text, blob) == (v1.TextResourceContents("t", "u"), v1.BlobResourceContents("AA==", "u"))
    prompt = [{"type": "text", "text": "t"}, {"type": "resource", "resource": {"uri": "u"}}]
    assert refused(v1.PromptRequest, {"sessionId": "s", "prompt": prompt}).path == "$.prompt[1].resource"
    prompt[1] = {"type": "resource", "resource": {"blob": "AA=="}}
    assert refused(v1.PromptRequest, {"sessionId": "s", "prompt": prompt}).path == "$.prompt[1].resource.uri"


@pytest.mark.rule(148)
def test_select_options_are_flat_or_grouped_and_never_mixed() -> None:
    flat = [{"value": "1", "name": "one"}]
    grouped = [{"group": "g", "name": "G", "options": flat}]
    select = {"type": "select", "id": "i", "name": "n", "currentValue": "1"}
    option = v1.SessionConfigSelectOption("1", "one")
    for options, expected in ((flat, [option]), (grouped, [v1.SessionConfigSelectGroup("g", "G", [option])]), ([], [])):
        value = decode(v1.SessionConfigOption, encode({**select, "options": options}), no_loss)
        assert isinstance(value, v1.SessionConfigSelect)
        assert value.options == expected
    assert refused(v1.SessionConfigOption, {**select, "options": flat + grouped}).path == "$.options[1].value"
    assert refused(v1.SessionConfigOption, {**select, "options": {"a": 1}}).path == "$.options"


@pytest.mark.rule(154)
def test_one_bad_config_option_leaves_the_others() -> None:
    good = {"type": "boolean", "id": "b", "name": "n", "currentValue": True}
    slider = {"type": "slider", "id": "s"}
    options = [good, slider, {"type": "boolean", "id": "c", "name": "n", "currentValue": 1}]
    update, losses = read(v1.ConfigOptionUpdate, {"configOptions": options})
    assert update.config_options == [v1.SessionConfigBoolean("b", "n", True), Unknown("slider", slider)]
    assert [loss.path for loss in losses] == ["$.configOptions[2].currentValue"]


@pytest.mark.rule(162)
def test_a_boolean_value_needs_its_type() -> None:
    given = {"sessionId": "s", "configId": "c", "value": True}
    kind = v1.SetSessionConfigOptionRequest
    assert decode(kind, encode({**given, "type": "boolean"}), no_loss) == v1.SetSessionConfigBoolean("s", "c", True)
    assert decode(kind, encode({**given, "value": "v"}), no_loss) == v1.SetSessionConfigSelect("s", "c", "v")
    assert refused(kind, given).path == "$.value"
    assert refused(kind, {**given, "type": "boolean", "value": "v"}).path == "$.value"


@pytest.mark.rule(302)
def test_an_elicitation_needs_a_scope() -> None:
    form = {"mode": "form", "message": "m", "requestedSchema": {}}
    kind = v1.CreateElicitationRequest
    for scope in ({"sessionId": "s"}, {"requestId": 1}, {"requestId": None}):
        decode(kind, encode({**form, **scope}), no_loss)
    assert refused(kind, form).message == "needs `sessionId` or `requestId`"
    with pytest.raises(ValueError, match="sessionId"):
        v1.ElicitationUrlMode("m", "e", "https://example.org")


@pytest.mark.rule(325)
def test_unknown_elicitation_modes_and_property_types_keep_their_payload() -> None:
    voice = {"mode": "_voice", "message": "m", "sessionId": "s"}
    assert decode(v1.CreateElicitationRequest, encode(voice), no_loss) == Unknown("_voice", voice)
    given = {"properties": {"a": {"type": "_colour", "x": 1}, "b": {"type": "array", "items": {"type": "_y"}}}}
    form = decode(v1.ElicitationSchema, encode(given), no_loss)
    assert form.properties_or_default["a"] == Unknown("_colour", {"type": "_colour", "x": 1})
    assert json.loads(encode(form)) == given


def test_an_mcp_answer_is_a_result_or_an_error() -> None:
    assert decode(v1.MessageMcpResponse, b'{"result":null}', no_loss) == v1.McpResult(None)
    failure = decode(v1.MessageMcpResponse, b'{"error":{"code":-1,"message":"m"}}', no_loss)
    assert failure == v1.McpFailure(v1.McpError(-1, "m"))
    assert refused(v1.MessageMcpResponse, {}).path == "$"


def test_a_tagged_tool_call_in_a_place_without_tag_does_not_leak_its_tag() -> None:
    update = v1.ToolCallUpdate("1", title="t", raw_input={"a": 1})
    request = v1.RequestPermissionRequest("s", update, [])
    assert type(request.tool_call) is v1.ToolCallPatch
    assert json.loads(encode(request))["toolCall"] == {"toolCallId": "1", "title": "t", "rawInput": {"a": 1}}
    assert json.loads(encode(update))["sessionUpdate"] == "tool_call_update"
    given = {"sessionId": "s", "toolCall": {"toolCallId": "1", "sessionUpdate": "tool_call_update"}, "options": []}
    assert decode(v1.RequestPermissionRequest, encode(given)).tool_call == v1.ToolCallPatch("1")
