"""What is unstable is found by comparing the two schemas, and found again in any value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import schema
from dragoman.schema import UNSTABLE_MEMBERS, UNSTABLE_TYPES, find_unstable, v1
from tests.schema.model import DEFINITIONS, MODEL, STABLE
from tools.schema.files import HERE

STABLE_DEFINITIONS: dict[str, Any] = json.loads((HERE / "acp-v1.json").read_text())["$defs"]


def test_types_only_the_unstable_schema_defines_are_unstable() -> None:
    by_definition = {getattr(v1, name) for name in set(DEFINITIONS) - set(STABLE_DEFINITIONS) if name in MODEL.records}
    assert by_definition <= UNSTABLE_TYPES
    assert {v1.PlanUpdate, v1.SubagentUpdate, v1.McpServerAcp, v1.Usage, v1.ForkSessionRequest} <= UNSTABLE_TYPES
    assert not UNSTABLE_TYPES & {v1.TextContent, v1.ToolCall, v1.AgentMessageChunk, v1.Notice, v1.McpServerHttp}
    assert {getattr(v1, name) for name in set(MODEL.records) - set(STABLE.records)} == UNSTABLE_TYPES


def test_members_only_the_unstable_schema_has_are_unstable() -> None:
    wanted = {}
    for name, node in STABLE_DEFINITIONS.items():
        new = set(DEFINITIONS[name].get("properties", {})) - set(node.get("properties", {}))
        if new and name in MODEL.records:
            wanted[getattr(v1, name)] = new
    found = {
        kind: {kind.__struct_encode_fields__[kind.__struct_fields__.index(attribute)] for attribute in attributes}
        for kind, attributes in UNSTABLE_MEMBERS.items()
    }
    assert found == wanted
    assert UNSTABLE_MEMBERS[v1.PromptResponse] == ("usage",)


USAGE = v1.Usage(1, 1, 0)


@pytest.mark.rule(191)
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (v1.PromptResponse("end_turn", USAGE), "$.usage"),
        (v1.PromptResponse("end_turn"), None),
        (v1.PromptResponse("end_turn", None), None),
        (v1.SessionNotification("s", v1.PlanRemoved("p")), "$.update"),
        (v1.SessionNotification("s", v1.AgentMessageChunk(v1.TextContent("hi"))), None),
        (v1.NewSessionRequest("/", [v1.McpServerAcp("n", "i")]), "$.mcpServers[0]"),
        (v1.NewSessionRequest("/", [v1.McpServerStdio("n", "/c", [], [])]), None),
        (v1.NewSessionRequest("/", (), system_prompt=v1.SystemPrompt("append", [])), "$.systemPrompt"),
        (
            v1.InitializeResponse(
                1,
                v1.AgentCapabilities(
                    load_session=True, session_capabilities=v1.SessionCapabilities(fork=v1.SessionForkCapabilities())
                ),
            ),
            "$.agentCapabilities.sessionCapabilities.fork",
        ),
        (v1.ForkSessionRequest("s", "/"), "$"),
        ({"a": 1}, None),
        (schema.Unknown("x", {}), None),
    ],
)
def test_the_first_unstable_part_of_a_value_is_found_by_its_path(value: object, path: str | None) -> None:
    assert find_unstable(value) == path
