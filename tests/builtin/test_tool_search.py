"""Tools of MCP servers that are searched instead of listed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dragoman.builtin.mcp.tools import McpTool, Offer
from dragoman.builtin.tools.deferral import searched_tools
from dragoman.builtin.tools.table import built_in_tools, offered_tools
from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.tools.tool_search import OUTPUT_CHARACTERS, _shown, rank, unwrap
from dragoman.client import Session
from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.settings.file import read_settings_file
from tests.builtin.http_service import Answers, RecordingModel, Service, ask, recording_model
from tests.builtin.mcp.fixtures import HERE
from tests.builtin.skills.fixtures import outputs_of
from tests.warm_programs import mcp_package


def many(count: int) -> v1.McpServerStdio:
    command, *arguments = mcp_package().command(str(HERE / "many_server.py"), str(count))
    return v1.McpServerStdio("many", command, arguments, [])


def tool(name: str, description: str = "", *arguments: str) -> McpTool:
    schema = {"properties": {argument: {"type": "string"} for argument in arguments}}
    return McpTool(name, name.partition("_")[0], Offer(name, "", description, schema), None)  # type: ignore[arg-type]


TOOLS = {
    each.name: each
    for each in (
        tool("github_createIssue", "Creates an issue in a repository", "title", "body"),
        tool("github_list_issues", "Lists the issues of a repository", "state"),
        tool("github_merge", "Merges a pull request", "number"),
        tool("jira_transition", "Moves a ticket, which is an issue, to another state", "ticket_id"),
        tool("mail_send", "Sends a message", "recipient", "subject"),
    )
}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("create issue", ["github_createIssue", "github_list_issues", "jira_transition"]),
        ("LIST issues", ["github_list_issues", "github_createIssue", "jira_transition"]),
        ("recipient", ["mail_send"]),
        ("mail", ["mail_send"]),
        ("merging", ["github_merge"]),
        ("github_merge", ["github_merge"]),
        ("select:mail_send,jira_transition", ["mail_send", "jira_transition"]),
        ("weather", []),
        ("", []),
        ("?!", []),
    ],
)
def test_tools_are_ranked_by_name_description_and_arguments(query: str, names: list[str]) -> None:
    assert [each.name for each in rank(query, TOOLS)][: len(names) or 1] == names


def test_what_a_search_returns_is_bounded() -> None:
    tools = {
        f"s_{number}": tool(f"s_{number}", "word " * 300, *(f"a{i}" * 50 for i in range(90))) for number in range(99)
    }
    text = _shown(rank("word", tools), 20, tools)
    assert len(text) < OUTPUT_CHARACTERS + 10_000
    assert "too long to show" in text
    assert "Also matching" in text


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"name": "mail_send", "arguments": {"a": 1}}, {"a": 1}),
        ({"name": " mail_send ", "arguments": '{"a": 1}'}, {"a": 1}),
        ({"name": "mail_send", "input": {"a": 1}}, {"a": 1}),
        ({"name": "mail_send", "a": 1}, {"a": 1}),
        ({"name": "mail_send"}, {}),
        ({"name": "mail_send", "arguments": ""}, {}),
    ],
)
def test_the_arguments_of_the_other_tool_are_found(given: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert unwrap(given, TOOLS) == (TOOLS["mail_send"], arguments)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("mail_send", "must be"),
        ({}, "must be"),
        ({"name": "send"}, "there is no tool 'send'"),
        ({"name": "call_tool", "arguments": {"name": "mail_send"}}, "there is no tool 'call_tool'"),
        ({"name": "mail_send", "arguments": "{"}, "must be an object"),
    ],
)
def test_a_wrong_call_says_what_would_be_right(given: Any, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        unwrap(given, {**TOOLS, "call_tool": TOOLS["mail_send"]})


class Talk:
    """A session with the server `many`, and what its model and its client were given."""

    def __init__(self, session: Session, model: RecordingModel, answers: Answers) -> None:
        self.session = session
        self.model = model
        self.answers = answers

    @property
    def names(self) -> list[str]:
        """The tools that the model was offered last."""
        return [each.name for each in self.model.requests[-1].tools]


@asynccontextmanager
async def talk(folder: Path, monkeypatch: pytest.MonkeyPatch, count: int, **settings: Any) -> AsyncIterator[Talk]:
    model, service, answers = recording_model(monkeypatch), Service(folder), Answers("allow_once")
    service.home.mkdir(exist_ok=True)
    (service.home / "settings.json").write_text(json.dumps(settings))
    async with service.client(permission=answers) as remote:
        yield Talk(await remote.new_session(service.project, mcp_servers=[many(count)]), model, answers)


async def test_sixty_tools_are_searched_and_the_list_of_tools_never_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talk(tmp_path, monkeypatch, 60) as held:
        updates = await ask(
            held.session,
            'call tool_search {"query": "invoice of a customer", "limit": 1}',
            'call call_tool {"name": "many_find_invoice", "arguments": {"customer": "Ada"}}',
            'call many_adjust_7 {"item_identifier": "pen"}',
            'call call_tool {"name": "many_adjust_8", "arguments": {"item_identifier": "ink", "quantity": 2}}',
            'call call_tool {"name": "nothing"}',
        )
        assert {"tool_search", "call_tool"} <= set(held.names)
        assert not [name for name in held.names if name.startswith("many")]
        described = {each.name: each.description for each in held.model.requests[0].tools}
        assert "- many: 60 tools" in described["tool_search"]
        found, invoice, pen, ink, nothing = outputs_of(updates)
        assert found.startswith("many_find_invoice\nLooks up an invoice")
        assert '"customer"' in found
        assert "adjust" not in found
        assert (invoice, pen, ink) == ("invoice of Ada", "7: 1 x pen", "8: 2 x ink")
        assert "find the right name with tool_search" in nothing
        # The user sees and permits the real tool, with its own arguments.
        asked = [(each.tool_call.title, each.tool_call.raw_input) for each in held.answers.asked]
        assert asked[0] == ("many: find_invoice", {"customer": "Ada"})
        assert asked[2] == ("many: adjust_8", {"item_identifier": "ink", "quantity": 2})
        calls = held.session.state.tool_calls.values()
        assert [call.kind for call in calls] == ["search", "read", "other", "other", "other"]
        # The model gets its own calls back as it made them.
        (tmp_path / "project" / "AGENTS.md").write_text("be brief")
        await ask(held.session, "say goodbye")
        announced = [part.data["text"] for part in held.model.requests[-1].messages[2].parts if hasattr(part, "data")]
        assert any("be brief" in text for text in announced)
        inputs = [part.input for part in held.model.requests[-1].messages[1].parts if hasattr(part, "input")]
        assert inputs[1] == {"name": "many_find_invoice", "arguments": {"customer": "Ada"}}
        # What stands before the conversation in every request, and begins the provider's cache.
        assert len(held.model.requests) > 6
        assert len({msgspec.json.encode((each.system, each.tools)) for each in held.model.requests}) == 1


@pytest.mark.parametrize(
    ("setting", "count", "window", "is_searching"),
    [
        ("auto", 10, 200_000, False),
        ("auto", 60, 200_000, True),
        ("auto", 10, 20_000, True),
        ("on", 1, 200_000, True),
        ("on", 0, 200_000, False),
        ("off", 60, 20_000, False),
    ],
)
def test_the_setting_and_the_size_of_the_descriptions_decide(
    setting: str, count: int, window: int, is_searching: bool
) -> None:
    table: dict[str, Any] = built_in_tools()
    offered = {f"s_{number}": tool(f"s_{number}", "word " * 180) for number in range(count)}
    servers: Any = SimpleNamespace(tools=offered, are_searched=False)
    searched = searched_tools(servers, table, setting, window)
    assert bool(searched) is servers.are_searched is is_searching
    names = [each.name for each in offered_tools({**table, **offered}, "scripted", searched=searched)]
    assert ("tool_search" in names) is ("call_tool" in names) is is_searching
    assert ("s_0" in names) is (count > 0 and not is_searching)
    if is_searching:
        # It goes on in the same way when tools go, and the description stays.
        described = table["tool_search"].description
        servers.tools = dict(list(offered.items())[:1])
        assert searched_tools(servers, table, setting, window) == frozenset({"s_0"})
        assert table["tool_search"].description == described
        servers.tools = {}  # the only server is being started again
        lost = searched_tools(servers, table, setting, window)
        assert [each.name for each in offered_tools(table, "scripted", searched=lost)] == names
        # A subagent that has no search is offered its tools by name.
        own = {"read": table["read"], **offered}
        assert "s_0" in [each.name for each in offered_tools(own, "scripted", searched=searched)]


def test_a_wrong_setting_is_reported(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"tool_search": "sometimes"}')
    with pytest.raises(ConfigError, match="tool_search must be auto, on or off"):
        read_settings_file(tmp_path / "settings.json", "user")
    assert read_settings_file(tmp_path / "none.json", "user").tool_search == "auto"


async def test_rules_hooks_and_the_count_of_repetitions_see_the_tool_that_is_really_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "hooked"
    hooks = {"before_tool": [{"matcher": "many_.*", "command": f"cat >> {log}"}]}
    rules = {"deny": ["mcp:many:adjust_0"]}
    call = 'call call_tool {"name": "many_find_invoice", "arguments": {"customer": "Ada"}}'
    async with talk(tmp_path, monkeypatch, 3, tool_search="on", hooks=hooks, rules=rules) as held:
        denied = 'call call_tool {"name": "many_adjust_0", "arguments": {"item_identifier": "x"}}'
        updates = await ask(held.session, denied, call, call, call)
        assert len(held.answers.asked) == 3
    outputs = outputs_of(updates)
    assert "0: 1 x x" not in outputs[0]
    assert outputs[1] == "invoice of Ada"
    assert "This call of many_find_invoice gave this result 3 times" in outputs[3]
    hooked = [json.loads(line) for line in log.read_text().replace("}{", "}\n{").splitlines()]
    assert [each["tool_name"] for each in hooked] == ["many_adjust_0", *["many_find_invoice"] * 3]
    assert hooked[1]["tool_input"] == {"customer": "Ada"}
