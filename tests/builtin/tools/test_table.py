"""Every built-in tool is what the loop, the projector and the model expect of one."""

import subprocess
import sys
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.loop import tool_spec
from dragoman.builtin.models.scripted import _arguments
from dragoman.builtin.tools.table import built_in_tools
from dragoman.uistream.display import KINDS

TOOLS = built_in_tools()
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def test_the_tools_come_in_one_order() -> None:
    names = ["read", "write", "edit", "glob", "grep", "bash", "todo", "question", "web_search", "web_fetch"]
    assert list(TOOLS) == names
    assert list(built_in_tools()) == list(TOOLS)


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


@pytest.mark.parametrize("name", TOOLS)
@given(data=st.data())
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
