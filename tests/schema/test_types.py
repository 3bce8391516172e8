"""The shape of the generated types as their users meet them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import schema
from dragoman.schema import UNSET, Unknown, v1

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_required_members_come_first_so_that_short_calls_read_well() -> None:
    assert v1.TextContent("hi").text == "hi"
    assert v1.ToolCall("1", "title") == v1.ToolCall(tool_call_id="1", title="title")
    assert v1.ResourceLink("name", "uri").uri == "uri"


def test_types_are_frozen() -> None:
    with pytest.raises(AttributeError):
        v1.TextContent("hi").text = "other"  # type: ignore[misc]  # that it is refused is the point


@pytest.mark.rule(58, 240, 241)
def test_a_schema_default_is_read_through_an_accessor_and_never_written() -> None:
    call = v1.ToolCall("1", "t")
    assert (call.kind, call.status, call.content) == (UNSET, UNSET, UNSET)
    assert (call.kind_or_default, call.status_or_default, call.content_or_default) == ("other", "pending", ())
    assert v1.ToolCall("1", "t", kind="read").kind_or_default == "read"
    capabilities = v1.InitializeResponse(1).agent_capabilities_or_default
    assert capabilities.load_session_or_default is False
    assert capabilities.prompt_capabilities_or_default.image_or_default is False
    assert v1.ElicitationSchema().type_or_default == "object"
    assert v1.ElicitationSchema().properties_or_default == {}
    assert schema.encode(v1.InitializeResponse(1)) == b'{"protocolVersion":1}'


def test_variants_of_one_definition_share_a_base() -> None:
    said: v1.ContentChunk = v1.AgentMessageChunk(v1.TextContent("hi"))
    asked: v1.ContentChunk = v1.UserMessageChunk(v1.TextContent("hi"))
    assert said != asked
    assert isinstance(v1.ToolCallUpdate("1"), v1.ToolCallPatch)


def test_a_union_without_tags_answers_isinstance_for_its_variants_only() -> None:
    assert isinstance(v1.McpServerStdio("n", "/c", [], []), v1.McpServer)
    assert isinstance(Unknown("x", {}), v1.McpServer)
    assert not isinstance(v1.TextContent("hi"), v1.McpServer)
    assert isinstance([], v1.SessionConfigSelectOptions)


def test_unknown_matches_by_position_and_shows_no_body() -> None:
    match Unknown("x", {"type": "x", "token": "s3cret"}):
        case Unknown(tag, raw):
            assert (tag, raw["token"]) == ("x", "s3cret")
    assert repr(Unknown("x", {"token": "s3cret"})) == "Unknown(tag='x')"
    assert Unknown("x", {}) != Unknown("y", {})
    assert Unknown("x", {}) != "x"
    with pytest.raises(TypeError):
        hash(Unknown("x", {}))


def test_known_values_are_there_for_every_open_enum() -> None:
    assert v1.KNOWN_VALUES["StopReason"] == {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
    assert all(v1.KNOWN_VALUES.values())


def test_a_name_that_is_not_defined_is_an_attribute_error() -> None:
    for module in (schema, v1):
        with pytest.raises(AttributeError, match="NoSuchType"):
            _ = module.NoSuchType
    assert {"TextContent", "ForkSessionRequest"} <= set(dir(v1))
    assert schema.TextContent is v1.TextContent


def test_the_package_import_loads_no_type_and_nothing_beyond_msgspec() -> None:
    program = (
        "import sys, typing, types, msgspec; before = set(sys.modules)\n"
        "import dragoman.schema\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert "dragoman.schema.codec" in loaded
    assert [name for name in loaded if not name.startswith("dragoman")] == []
    assert not {"dragoman.schema.v1.session", "dragoman.schema.v1.handshake", "dragoman.schema.forgiving"} & set(loaded)


def test_the_handshake_needs_one_module_of_types() -> None:
    program = (
        "import sys; from dragoman import schema\n"
        "schema.decode(schema.AGENT_METHODS['initialize'].params, b'{\"protocolVersion\":1}')\n"
        "schema.encode(schema.v1.InitializeResponse(1))\n"
        "print(*(name for name in sys.modules if name.startswith('dragoman.schema.v1.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert sorted(done.stdout.split()) == ["dragoman.schema.v1.handshake", "dragoman.schema.v1.methods"]


@pytest.mark.soak  # make types, a part of every make test, checks this file with all others
def test_a_type_checker_sees_open_unions_and_absent_members() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", str(HERE / "typing_cases.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stdout
