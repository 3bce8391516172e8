"""Rules about the form of messages: every kind is valid as it stands here, and each change breaks the rule beside it.

The official JSON schema is the oracle: what it refuses is found, and nothing it accepts is called a failure.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dragoman.schema import AGENT_METHODS, CLIENT_METHODS
from dragoman.trace.checks import fit, shape
from dragoman.trace.violations import Finding
from tests.project.sources import ROOT
from tests.trace.talk import AGENT, CLIENT, INFO, MODES, OPTIONS, SELECT, Talk, findings, started, text

GONE = object()
SCHEMA = json.loads((ROOT / "tools" / "schema" / "acp-v1-unstable.json").read_text())
KINDS = {"request": "Request", "notification": "Notification"}

STDIO = {"name": "m", "command": "/m", "args": ["-x"], "env": [{"name": "A", "value": "b"}]}
HTTP = {"type": "http", "name": "m", "url": "http://h/", "headers": [{"name": "A", "value": "b"}]}
NOTE = {"audience": ["user"], "priority": 0.5}
TOOL: dict[str, Any] = {
    "toolCallId": "t",
    "title": "T",
    "kind": "edit",
    "status": "pending",
    "name": "edit",
    "locations": [{"path": "/p/a", "line": 1}],
    "content": [
        {"type": "content", "content": text()},
        {"type": "diff", "path": "/p/a", "oldText": None, "newText": "x"},
    ],
    "rawInput": {"any": [1]},
}
CONTENT = [
    {**text(), "annotations": NOTE},
    {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": None},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
    {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3},
]
FORM: dict[str, Any] = {
    "mode": "form",
    "message": "?",
    "sessionId": "s",
    "requestedSchema": {
        "type": "object",
        "properties": {"a": {"type": "string", "format": "email"}, "b": {"type": "integer", "minimum": 1}},
        "required": ["a"],
    },
}
BOOLEAN = {"type": "boolean", "id": "b", "name": "B", "currentValue": True}
SETTINGS = {"modes": MODES, "configOptions": [{**SELECT, "category": "model"}, BOOLEAN]}
LOGIN = {"id": "l", "name": "L", "type": "terminal", "args": [], "env": {"A": "b"}}

# (method, part) -> a valid value; several with a number where one method has several forms.
VALID: dict[str, Any] = {
    "initialize params": {"protocolVersion": 1, "clientCapabilities": CLIENT, "clientInfo": INFO},
    "initialize result": {
        "protocolVersion": 1,
        "agentCapabilities": AGENT,
        "agentInfo": INFO,
        "authMethods": [{"id": "a", "name": "A"}, LOGIN],
    },
    "authenticate params": {"methodId": "a"},
    "authenticate result": {},
    "logout result": {},
    "session/new params": {"cwd": "/p", "mcpServers": [STDIO, HTTP]},
    "session/new result": {"sessionId": "new", **SETTINGS},
    "session/load params": {"sessionId": "s", "cwd": "/p", "mcpServers": []},
    "session/load result": SETTINGS,
    "session/resume params": {"sessionId": "s", "cwd": "/p"},
    "session/close params": {"sessionId": "s"},
    "session/close result": {},
    "session/list params": {"cwd": "/p"},
    "session/list result": {"sessions": [{"sessionId": "s", "cwd": "/p", "title": "t"}]},
    "session/delete result": {},
    "session/set_mode params": {"sessionId": "s", "modeId": "ask"},
    "session/set_mode result": {},
    "session/set_config_option params": {"sessionId": "s", "configId": "model", "value": "small"},
    "session/set_config_option result": {"configOptions": SETTINGS["configOptions"]},
    "session/prompt params": {"sessionId": "s", "prompt": CONTENT},
    "session/prompt result": {"stopReason": "end_turn"},
    "session/cancel params": {"sessionId": "s"},
    "session/request_permission params": {"sessionId": "s", "toolCall": TOOL, "options": OPTIONS},
    "session/request_permission result": {"outcome": {"outcome": "selected", "optionId": "y"}},
    "fs/read_text_file params": {"sessionId": "s", "path": "/p/a", "line": 1, "limit": 5},
    "fs/read_text_file result": {"content": "x"},
    "fs/write_text_file params": {"sessionId": "s", "path": "/p/a", "content": "x"},
    "fs/write_text_file result": {},
    "terminal/create params": {"sessionId": "s", "command": "ls", "args": [], "env": []},
    "terminal/create result": {"terminalId": "x"},
    "terminal/output result": {"output": "x", "truncated": False, "exitStatus": {"exitCode": 0}},
    "terminal/wait_for_exit result": {"exitCode": 0, "signal": None},
    "elicitation/create params": FORM,
    "elicitation/create params 2": {
        "mode": "url",
        "message": "?",
        "sessionId": "s",
        "elicitationId": "e",
        "url": "https://h/",
    },
    "elicitation/create result": {"action": "accept", "content": {"a": "b"}},
    "elicitation/create result 2": {"action": "decline"},
    "elicitation/complete params": {"elicitationId": "e"},
    "$/cancel_request params": {"requestId": 1},
    **{
        f"session/update params {update['sessionUpdate']}": {"sessionId": "s", "update": update}
        for update in (
            {"sessionUpdate": "agent_message_chunk", "content": text(), "messageId": None},
            {"sessionUpdate": "tool_call", **TOOL},
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"},
            {"sessionUpdate": "plan", "entries": [{"content": "c", "priority": "high", "status": "pending"}]},
            {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "n", "description": "d"}]},
            {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
            {"sessionUpdate": "config_option_update", "configOptions": SETTINGS["configOptions"]},
            {"sessionUpdate": "session_info_update", "title": None},
            {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.1, "currency": "EUR"}},
            {"sessionUpdate": "notice", "severity": "info", "title": "t"},
            {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"},
            {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text()},
        )
    },
}

# What is changed, to what, and the rule that breaks.
BROKEN: list[tuple[int, str, str, Any]] = [
    (37, "initialize params", "protocolVersion", "1"),
    (37, "initialize result", "protocolVersion", 70000),
    (43, "initialize params", "clientCapabilities", []),
    (42, "initialize result", "agentCapabilities", 1),
    (46, "initialize params", "clientInfo.version", GONE),
    (57, "initialize params", "clientCapabilities.session.notices", True),
    (57, "initialize result", "agentCapabilities.sessionCapabilities.list", True),
    (58, "initialize params", "clientCapabilities.terminal", "yes"),
    (58, "initialize result", "agentCapabilities.loadSession", {}),
    (64, "initialize result", "authMethods.0.name", GONE),
    (74, "initialize result", "authMethods.1.env", []),
    (67, "authenticate params", "methodId", GONE),
    (76, "authenticate result", "", None),
    (84, "session/new params", "mcpServers", GONE),
    (85, "session/new result", "sessionId", 5),
    (98, "session/new params", "mcpServers.0.env", {"A": "b"}),
    (98, "session/new params", "mcpServers.0.env.0.value", GONE),
    (99, "session/new params", "mcpServers.1.headers", GONE),
    (105, "session/load params", "cwd", GONE),
    (109, "session/load result", "configOptions", 7),
    (111, "session/resume params", "cwd", 1),
    (115, "session/close params", "sessionId", GONE),
    (117, "session/close result", "", []),
    (123, "session/list params", "cwd", 1),
    (126, "session/list result", "sessions", GONE),
    (127, "session/list result", "sessions.0.cwd", GONE),
    (136, "session/delete result", "", None),
    (147, "session/new result", "configOptions.0.name", GONE),
    (147, "session/new result", "configOptions.0.type", "slider"),
    (152, "session/new result", "configOptions.0.currentValue", GONE),
    (148, "session/new result", "configOptions.0.options", {}),
    (148, "session/new result", "configOptions.0.options.0.name", 1),
    (151, "session/new result", "configOptions.1.currentValue", "yes"),
    (151, "session/new result", "configOptions.1.options", []),
    (162, "session/set_config_option params", "value", GONE),
    (163, "session/set_config_option result", "configOptions", GONE),
    (164, "session/update params config_option_update", "update.configOptions", GONE),
    (170, "session/new result", "modes.currentModeId", GONE),
    (170, "session/new result", "modes.availableModes.0.name", GONE),
    (171, "session/set_mode params", "modeId", GONE),
    (173, "session/set_mode result", "", 1),
    (174, "session/update params current_mode_update", "update.currentModeId", GONE),
    (178, "session/prompt params", "prompt", "hello"),
    (181, "session/prompt result", "stopReason", "done"),
    (181, "session/prompt result", "stopReason", GONE),
    (192, "session/cancel params", "sessionId", GONE),
    (201, "$/cancel_request params", "requestId", GONE),
    (210, "session/update params plan", "sessionId", GONE),
    (210, "session/update params plan", "update.sessionUpdate", "dance"),
    (211, "session/update params agent_message_chunk", "update.content", [text()]),
    (215, "session/update params usage_update", "update.used", -1),
    (215, "session/update params usage_update", "update.cost.currency", GONE),
    (217, "session/update params session_info_update", "update.title", 5),
    (218, "session/update params session_info_update", "update.cwd", "/x"),
    (219, "session/update params notice", "update.title", ""),
    (219, "session/update params notice", "update.severity", "loud"),
    (222, "session/update params compaction_update", "update.status", GONE),
    (222, "session/update params compaction_update", "update.status", "running"),
    (224, "session/update params compaction_summary_chunk", "update.content", GONE),
    (228, "session/prompt params", "prompt.0.type", "video"),
    (230, "session/prompt params", "prompt.0.text", GONE),
    (231, "session/prompt params", "prompt.1.mimeType", GONE),
    (232, "session/prompt params", "prompt.2.data", GONE),
    (233, "session/prompt params", "prompt.3.resource.uri", GONE),
    (233, "session/prompt params", "prompt.3.resource.text", GONE),
    (234, "session/prompt params", "prompt.4.name", GONE),
    (235, "session/prompt params", "prompt.0.annotations.audience", ["nobody"]),
    (235, "session/prompt params", "prompt.0.annotations.priority", "high"),
    (239, "session/update params tool_call", "update.title", GONE),
    (240, "session/update params tool_call", "update.kind", "sing"),
    (241, "session/update params tool_call_update", "update.status", "cancelled"),
    (242, "session/update params tool_call_update", "update.toolCallId", GONE),
    (245, "session/update params tool_call", "update.content.0", text()),
    (246, "session/update params tool_call", "update.content.1.newText", GONE),
    (248, "session/update params tool_call", "update.locations.0.path", GONE),
    (250, "session/update params tool_call", "update.name", 4),
    (253, "session/request_permission params", "options", GONE),
    (254, "session/request_permission params", "options.0.kind", "maybe"),
    (255, "session/request_permission result", "outcome", "selected"),
    (255, "session/request_permission result", "outcome.outcome", "allowed"),
    (263, "session/update params plan", "update.entries.0.priority", GONE),
    (263, "session/update params plan", "update.entries.0.status", "done"),
    (269, "session/update params available_commands_update", "update.availableCommands.0.description", GONE),
    (273, "fs/write_text_file params", "content", GONE),
    (275, "fs/read_text_file params", "line", -1),
    (277, "fs/read_text_file result", "content", None),
    (279, "fs/write_text_file result", "", []),
    (283, "terminal/create params", "env", {"A": "b"}),
    (285, "terminal/create result", "terminalId", GONE),
    (288, "terminal/output result", "truncated", GONE),
    (289, "terminal/wait_for_exit result", "exitCode", -1),
    (302, "elicitation/create params", "sessionId", GONE),
    (303, "elicitation/create params", "requestedSchema.properties.b.minimum", "1"),
    (304, "elicitation/create params 2", "url", GONE),
    (312, "elicitation/create result", "content", []),
    (312, "elicitation/create result 2", "content", {}),
    (318, "elicitation/complete params", "elicitationId", GONE),
    (327, "session/prompt params", "_meta", "x"),
    (26, "session/new params", "mcp_servers", []),
]
OPEN_WORDS = {219, 222}  # the schema takes any word there; its prose wants a `_` before one's own


def changed(value: Any, path: str, new: Any) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    holder = value
    for step in way:
        holder = holder[step]
    if new is GONE:
        del holder[last]
    else:
        holder[last] = new
    return value


def exchanged(key: str, value: Any) -> list[Finding]:
    """What is found in a message with this value that was not found before it."""
    method, part = key.split()[:2]
    is_agents = method in AGENT_METHODS or method.startswith("$")
    row = (AGENT_METHODS if is_agents else CLIENT_METHODS).get(method)
    talk = Talk() if method == "initialize" else started()
    asked = None
    if part == "result":
        params = VALID.get(f"{method} params", {"sessionId": "s", "terminalId": "x"})
        asked = talk.ask(method, params, by="c2a" if is_agents else "a2c")
    before = findings(talk)
    if asked is not None:
        talk.frame("a2c" if is_agents else "c2a", {"jsonrpc": "2.0", "id": asked, "result": value})
    elif row is None or row.kind == "notification":
        talk.notify(method, value, by="c2a" if is_agents else "a2c")
    else:
        talk.ask(method, value, by="c2a" if is_agents else "a2c")
    return [finding for finding in findings(talk) if finding not in before]


@cache
def validator(key: str) -> Draft202012Validator:
    method, part = key.split()[:2]
    row = AGENT_METHODS.get(method) or CLIENT_METHODS.get(method)
    name = "CancelRequestNotification" if row is None else row._params if part == "params" else str(row._result)
    return Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{name}"})


def is_about_form(finding: Finding) -> bool:
    """A failure the decoder or the shape found, not one of the order or of content."""
    return finding.is_failure and (
        finding.message.startswith("$") or "the schema requires" in finding.message or "needs `" in finding.message
    )


@pytest.mark.parametrize("key", VALID)
def test_valid_message_has_no_finding_about_its_form(key: str) -> None:
    assert validator(key).is_valid(VALID[key])
    assert [finding for finding in exchanged(key, VALID[key]) if is_about_form(finding)] == []


@pytest.mark.parametrize(
    ("rule", "key", "path", "new"), BROKEN, ids=lambda value: "gone" if value is GONE else str(value)[:40]
)
def test_broken_form_is_found_under_its_rule(rule: int, key: str, path: str, new: Any) -> None:
    value = changed(VALID[key], path, new)
    found = {finding.rule: finding for finding in exchanged(key, value)}
    assert rule in found
    is_open_word = rule in OPEN_WORDS and type(new) is str and new
    assert found[rule].is_failure or is_open_word
    is_ours = rule in (26, 74, 218) or path.endswith(("1.options", "content")) or is_open_word
    assert is_ours or not validator(key).is_valid(value), "the schema has no objection"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("session/new result", "models"),
        ("session/load result", "sessionId"),
        ("initialize result", "agentCapabilities.sessionCapabilities.own"),
        ("session/update params tool_call", "update.content.0.content.color"),
        ("session/prompt result", "cost"),
    ],
)
def test_extra_member_has_a_level_of_its_own(key: str, path: str) -> None:
    found = exchanged(key, changed(VALID[key], path, {"a": 1}))
    [finding] = [finding for finding in found if finding.rule == 329]
    assert (finding.level, finding.is_failure) == ("EXTRA", False)
    assert finding.message.startswith(f"$.{path.partition('.0')[0]}")
    assert not any(is_about_form(finding) for finding in found)


def test_login_of_an_unknown_type_is_an_extra_member_as_the_schema_has_it() -> None:
    value = changed(VALID["initialize result"], "authMethods.0.type", "env_var")
    assert validator("initialize result").is_valid(value)
    assert {finding.level for finding in exchanged("initialize result", value)} == {"EXTRA"}
    assert 64 in [each.rule for each in exchanged("initialize result", changed(value, "authMethods.0.name", GONE))]


@pytest.mark.parametrize("key", ["session/load result", "fs/write_text_file result"])
def test_null_where_the_documentation_shows_null_is_only_noted(key: str) -> None:
    assert [finding.level for finding in exchanged(key, None)] == ["NOTE"]


def test_null_list_is_only_noted() -> None:
    value = changed(VALID["session/new params"], "mcpServers", None)
    assert [(each.rule, each.level) for each in exchanged("session/new params", value)] == [(84, "NOTE")]


# To the schema a broken terminal login is a good plain one (rule 74 knows better).
OURS = "authMethods.1"
ANY = st.sampled_from([None, True, 0, -1, 1.5, "x", "", [], {}, ["x"], {"type": "x"}])


def paths(value: Any, path: str = "") -> list[str]:
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        found += paths(each, f"{path}.{key}" if path else str(key))
    return found


@given(st.data())
def test_form_is_judged_as_the_official_schema_judges_it(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(VALID)))
    places = [path for path in paths(VALID[key]) if not path.startswith(OURS)]
    if not places:
        return
    path = data.draw(st.sampled_from(places))
    value = changed(VALID[key], path, data.draw(ANY | st.just(GONE)))
    if key == "initialize params" and value.get("protocolVersion") != 1 and type(value.get("protocolVersion")) is int:
        return  # another version is not judged
    found = [finding for finding in exchanged(key, value) if is_about_form(finding)]
    noted = [finding for finding in exchanged(key, value) if "null read as" in finding.message]
    if validator(key).is_valid(value):
        assert found == [], (key, path, value)
    else:
        assert found or noted, (key, path, value)


def test_every_closed_word_list_of_the_schema_is_checked() -> None:
    closed: set[tuple[str, str]] = set()
    own: set[tuple[str, str]] = set()
    for name, definition in SCHEMA["$defs"].items():
        for member, shape_ in definition.get("properties", {}).items():
            for enum in set(_references(shape_)):
                options = SCHEMA["$defs"][enum].get("oneOf") or SCHEMA["$defs"][enum].get("anyOf") or []
                if options and all(option.get("type") == "string" for option in options):
                    (closed if all("const" in option for option in options) else own).add((name, member))
    spelled = {"ToolCallUpdate": ("ToolCallUpdate", "ToolCallPatch")}
    wanted = {(each, member) for name, member in closed for each in spelled.get(name, (name,))}
    assert shape.CLOSED.keys() == wanted
    stable = {("Notice", "severity"), ("CompactionUpdate", "status"), ("SessionConfigOption", "category")}
    assert stable <= own


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [value["$ref"].rpartition("/")[2]] if "$ref" in value else []
        return found + [each for inner in value.values() for each in _references(inner)]
    return [each for inner in value for each in _references(inner)] if isinstance(value, list) else []


def test_every_rule_about_a_form_has_a_change_that_breaks_it() -> None:
    shown = {rule for rule, *_ in BROKEN} | {157}  # options of a session: test_inspect_order.py
    reported = {*fit.RULES.values(), *fit.VARIANT_RULES.values(), *fit.FORBIDDEN.values(), fit.META, fit.CAMEL_CASE}
    assert reported <= shown
