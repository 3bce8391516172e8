"""Calls as models write them for other agents' tools are understood; what is not understood is an error."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.builtin.tools.foreign_names import our_tool_name, read_arguments
from dragoman.builtin.tools.tool import ToolError
from dragoman.schema import v1
from tests.builtin.http_service import Service, ask
from tests.builtin.tools.fixtures import TOOLS


def read(tool: str, **given: Any) -> dict[str, Any]:
    """The arguments that were given, by our names."""
    decoded = msgspec.to_builtins(read_arguments(TOOLS[tool], given))
    return {name: value for name, value in decoded.items() if value is not None}


@pytest.mark.parametrize(
    ("tool", "given", "ours"),
    [
        ("read", {"file_path": "a", "offset": 5, "limit": "20"}, {"path": "a", "line": 5, "limit": 20}),
        ("read", {"absolute_path": "a", "start_line": 5, "end_line": 9}, {"path": "a", "line": 5, "limit": 5}),
        ("read", {"path": "a", "view_range": [3, 4]}, {"path": "a", "line": 3, "limit": 2}),
        ("read", {"path": "a", "view_range": [3, -1]}, {"path": "a", "line": 3}),
        ("read", {"filePath": "a", "limit": None}, {"path": "a"}),
        ("write", {"file_path": "a", "content": "x"}, {"path": "a", "text": "x"}),
        (
            "edit",
            {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "true"},
            {"path": "a", "old": "x", "new": "y", "all": True},
        ),
        (
            "edit",
            {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]},
            {"path": "a", "edits": [{"old": "x", "new": "y", "all": None}]},
        ),
        (
            "edit",
            {"path": "a", "before": "x", "after": "y", "instruction": "do it", "expected_replacements": 2},
            {"path": "a", "old": "x", "new": "y", "all": True},
        ),
        ("bash", {"cmd": "ls", "workdir": "b", "justification": "x"}, {"command": "ls", "cwd": "b"}),
        ("bash", {"command": "a", "description": "List"}, {"command": "a", "description": "List"}),
        ("bash", {"command": "a", "run_in_background": "true"}, {"command": "a", "background": True}),
        (
            "bash",
            {"command": "a", "is_background": True, "timeout": 3600},
            {"command": "a", "background": True, "timeout": 3600.0},
        ),
        (
            "bash",
            {"command": "a", "background": True, "timeout": 600000},
            {"command": "a", "background": True, "timeout": 600.0},
        ),
        (
            "grep",
            {"pattern": "x", "-A": 2, "-B": "1", "head_limit": 5, "offset": 3, "output_mode": "count", "-n": True},
            {"pattern": "x", "after": 2, "before": 1, "limit": 5, "offset": 3, "count": True},
        ),
        ("bash_output", {"bash_id": "bg_1", "timeout": 30000}, {"id": "bg_1", "wait": 30.0}),
        ("bash_stop", {"shell_id": 2}, {"id": "bg_2"}),
        ("bash", {"command": ["echo", "a b"]}, {"command": "echo 'a b'"}),
        ("bash", {"command": "ls", "timeout": 120000}, {"command": "ls", "timeout": 120.0}),
        ("bash", {"command": "ls", "timeout": "60"}, {"command": "ls", "timeout": 60.0}),
        ("bash", {"command": "ls", "timeout_ms": 500}, {"command": "ls", "timeout": 0.5}),
        ("glob", {"glob_pattern": "*.py", "dir_path": "src"}, {"pattern": "*.py", "path": "src"}),
        (
            "grep",
            {"query": "x", "glob": "*.py", "-i": True, "-n": True},
            {"pattern": "x", "include": "*.py", "insensitive": True},
        ),
        ("grep", {"pattern": "x", "output_mode": "files_with_matches"}, {"pattern": "x", "files": True}),
        (
            "grep",
            {"pattern": "x", "case_sensitive": False, "-C": 2},
            {"pattern": "x", "insensitive": True, "context": 2},
        ),
        (
            "todo",
            {"todos": [{"content": "a", "status": "in_progress", "activeForm": "doing a"}]},
            {"items": [{"content": "a", "status": "in_progress", "priority": None}]},
        ),
        ("todo", {"plan": '[{"step": "a"}]'}, {"items": [{"content": "a", "status": "pending", "priority": None}]}),
        (
            "question",
            {"questions": [{"question": "Which?", "header": "H", "options": [{"label": "A"}], "multiSelect": True}]},
            {"question": "Which?", "choices": [{"label": "A", "description": None}], "multiple": True},
        ),
        (
            "web_fetch",
            {"url": "http://a/", "prompt": "what", "format": "markdown"},
            {"url": "http://a/", "format": "text"},
        ),
    ],
)
def test_arguments_of_other_agents_are_read(tool: str, given: dict[str, Any], ours: dict[str, Any]) -> None:
    assert read(tool, **given) == ours


@pytest.mark.parametrize(
    ("tool", "given", "why"),
    [
        ("read", {"pathh": "a"}, "read has no argument 'pathh'; did you mean path? It has: path, line, limit"),
        ("read", {"path": "a", "colour": 1}, "read has no argument 'colour'. It has: path, line, limit"),
        ("write", {"path": "a", "contentt": "x"}, "did you mean text?"),
        ("read", {"path": "a", "file_path": "b"}, "path and file_path mean the same argument of read, path"),
        ("read", {}, "the arguments of read are wrong: Object missing required field `path`"),
        ("bash", {"command": "ls", "timeout": "soon"}, "timeout must be a number, not 'soon'"),
        ("todo", {"items": "several"}, "items must be a list"),
        ("question", {"questions": [{"question": "a"}, {"question": "b"}]}, "one call for each question"),
    ],
)
def test_an_argument_that_is_not_known_is_an_error_that_names_the_right_one(
    tool: str, given: dict[str, Any], why: str
) -> None:
    with pytest.raises(ToolError) as error:
        read(tool, **given)
    assert why in str(error.value)


def test_arguments_must_be_an_object() -> None:
    with pytest.raises(ToolError, match=r'must be an object, such as \{"path": ...\}'):
        read_arguments(TOOLS["read"], ["a"])


def test_two_names_with_one_value_are_not_a_contradiction() -> None:
    assert read("read", path="a", file_path="a") == {"path": "a"}


def test_names_of_tools_are_those_of_other_agents_too() -> None:
    assert [our_tool_name(name) for name in ("Read", "str_replace_editor", "update_plan", "bash", "mcp__x")] == [
        *("read", "edit", "todo", "bash", "mcp__x")
    ]


async def test_a_call_in_the_words_of_another_agent_runs_and_is_shown_like_ours(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="edit")
    (service.project / "a.py").write_text("one\n")
    async with service.session() as session:
        updates = await ask(
            session, 'call Edit {"file_path": "a.py", "old_string": "one", "new_string": "two"}', "say {result}"
        )
    assert (service.project / "a.py").read_text() == "two\n"
    titles = [
        update.title for update in updates if isinstance(update, v1.ToolCall | v1.ToolCallUpdate) and update.title
    ]
    assert titles[-1] == "Edit a.py"


async def test_numbers_of_thousands_of_digits_are_errors_of_their_call_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        await ask(
            session,
            f'call read {{"path": "a.txt", "line": "{"1" * 5000}"}}',
            f'call bash {{"command": "true", "timeout": {10**400}}}',
            "say done",
        )
        assert [call.status for call in session.state.tool_calls.values()] == ["failed", "failed"]
        assert session.state.turns[-1].text.endswith("done")
