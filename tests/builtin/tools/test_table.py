"""Every built-in tool is what the loop, the projector and the model expect of one."""

import json
import subprocess
import sys
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.builtin.loop import tool_spec
from dragoman.builtin.models.scripted import _arguments
from dragoman.builtin.tools.built_in import derive_schema
from dragoman.builtin.tools.table import built_in_tools, offered_tools
from dragoman.uistream.display import KINDS
from tests.conftest import IS_SOAK
from tools import descriptions

TOOLS = built_in_tools()
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


LAST = ["web_search", "web_fetch", "tool_search", "call_tool"]


def test_the_tools_come_in_one_order() -> None:
    names = ["read", "write", "edit", "apply_patch", "glob", "grep", "bash", "bash_output", "bash_stop"]
    assert list(TOOLS) == [*names, "todo", "question", "task", "skill", "present_plan", *LAST]
    assert list(built_in_tools()) == list(TOOLS)


@pytest.mark.parametrize(
    ("model", "is_patching"),
    [
        ("openai:gpt-5.2", True),
        ("openai:gpt-6.1-sol", True),
        ("openrouter:openai/gpt-5-codex", True),
        ("openai:gpt-4o", False),
        ("ollama:gpt-oss:120b", False),
        ("anthropic:claude-sonnet-5-5", False),
        ("scripted", False),
    ],
)
def test_a_model_changes_files_in_the_way_it_was_trained_on(model: str, is_patching: bool) -> None:
    names = [tool.name for tool in offered_tools(TOOLS, model)]
    assert ("apply_patch" in names) is is_patching
    assert ("edit" in names) is ("write" in names) is not is_patching


@pytest.mark.parametrize(
    ("variables", "is_offered"),
    [
        ({}, False),
        ({"BRAVE_API_KEY": "k"}, True),
        ({"DRAGOMAN_SEARCH_URL": "https://search.example"}, True),
        # Set up wrongly: the call reports what is wrong.
        ({"DRAGOMAN_SEARCH_PROVIDER": "other"}, True),
    ],
)
def test_a_search_of_the_web_is_offered_only_where_a_service_is_set_up(
    variables: dict[str, str], is_offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "BRAVE_API_KEY",
        "TAVILY_API_KEY",
        "DRAGOMAN_SEARCH_URL",
        "DRAGOMAN_SEARCH_KEY",
        "DRAGOMAN_SEARCH_PROVIDER",
    )
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    offered = [tool.name for tool in offered_tools(TOOLS, "scripted")]
    assert ("web_search" in offered) is is_offered
    assert "web_fetch" in offered


@pytest.mark.parametrize("name", TOOLS)
def test_every_argument_has_a_description(name: str) -> None:
    tool = TOOLS[name]
    assert (tool.name, tool.kind) == (name, KINDS[name])
    spec = tool_spec(tool)
    schema = dict(spec.parameters)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    for argument, described in schema["properties"].items():
        assert described.get("description"), f"{name} does not describe {argument}"
    assert set(schema["required"]) <= set(schema["properties"])
    assert 40 < len(spec.description) < 600


def test_tools_are_described_as_they_are() -> None:
    assert descriptions.FILE.read_bytes() == descriptions.descriptions(), "run `python -m tools.descriptions`"
    for name, tool in TOOLS.items():
        assert tool.tool.name == name
        assert tool_spec(tool) == tool_spec(tool.tool)
        # In the same order too: it is part of the request.
        assert json.dumps(tool_spec(tool).parameters) == json.dumps(derive_schema(tool.arguments))


@pytest.mark.parametrize(
    ("verb", "rest"),
    [
        ("read", "a"),
        ("write", "a text"),
        ("edit", "a old => new"),
        ("glob", "*.py"),
        ("grep", "x"),
        ("run", "ls"),
        ("todo", "[x] a; [>] b; c"),
        ("question", "Which? | A | B"),
    ],
)
def test_what_the_scripted_model_calls_is_valid(verb: str, rest: str) -> None:
    name, arguments = _arguments(verb, rest)
    jsonschema.validate(arguments, dict(tool_spec(TOOLS[name]).parameters))
    msgspec.convert(arguments, TOOLS[name].arguments, strict=False)


@pytest.mark.parametrize("name", TOOLS)
def test_what_may_be_left_out_may_also_be_null(name: str) -> None:
    """Some providers make models give every argument."""
    schema = tool_spec(TOOLS[name]).parameters
    given = {key: [] if key == "items" else "x" for key in schema["required"]}
    absent = {key: None for key in schema["properties"] if key not in schema["required"]}
    msgspec.convert({**given, **absent}, TOOLS[name].arguments, strict=False)
    jsonschema.validate({**given, **absent}, dict(schema))


@given(name=st.sampled_from(list(TOOLS)), data=st.data())
@settings(max_examples=4000 if IS_SOAK else 200)
def test_a_preview_never_fails(name: str, data: st.DataObject) -> None:
    schema = tool_spec(TOOLS[name]).parameters
    arguments: dict[str, Any] = data.draw(
        st.dictionaries(st.sampled_from(list(schema["properties"])) | st.text(max_size=3), ODD, max_size=5)
    )
    preview = TOOLS[name].preview(arguments, "/w")
    assert preview.title
    msgspec.json.encode(preview)


def test_nothing_heavy_is_imported_before_a_tool_runs() -> None:
    """The agent has to answer `initialize` at once."""
    code = (
        "import asyncio, msgspec, sys; before = set(sys.modules)\n"
        "from dragoman.builtin.tools.table import built_in_tools; built_in_tools()\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"difflib", "hashlib", "shutil", "tempfile", "dragoman.policy", "dragoman.process", "dragoman.workspace"}
    assert heavy.isdisjoint(done.stdout.split())
