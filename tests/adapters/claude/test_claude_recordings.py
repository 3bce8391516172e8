"""Every recording of the real program projects to valid updates that tell what the recording itself tells.

What is expected is read from the whole messages; the story is made from the events that were streamed before them.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters.claude.calls import PLAN_TOOLS
from dragoman.adapters.claude.choices import ClaudeChoices, commands_of
from dragoman.adapters.claude.events import LOGIN, ClaudeEvents
from dragoman.adapters.claude.plan_entries import PlanEntries
from dragoman.adapters.claude.prompted_turn import PromptedTurn
from dragoman.adapters.claude.questions import permission_options, suggested
from dragoman.adapters.tools import decorated
from dragoman.uistream.updates import Projector
from tests.adapters.fixtures import RECORDINGS
from tests.adapters.stories import story_of

FOLDER = RECORDINGS / "claude"
FILES = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.jsonl"))] or [
    pytest.param(None, marks=pytest.mark.skip(reason=f"no recordings in {FOLDER}"), id="no recordings")
]


def received(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["msg"] for line in lines if line["dir"] == "out"]


def turns(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The messages up to each result."""
    turn: list[dict[str, Any]] = []
    for message in received(path):
        turn.append(message)
        if message.get("type") == "result":
            yield turn
            turn = []


def blocks(turn: list[dict[str, Any]], kind: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The lines of a kind, each with every block of its message."""
    lines = [line for line in turn if line.get("type") == kind and isinstance(line["message"]["content"], list)]
    return [(line, block) for line in lines for block in line["message"]["content"]]


def texts(turn: list[dict[str, Any]]) -> Iterator[str]:
    """What was said in a turn, and what its slash commands printed. Errors are in the result."""
    for line in turn:
        content = line.get("message", {}).get("content")
        if isinstance(content, str) and content.startswith("<local-command-stdout>"):
            yield content.removeprefix("<local-command-stdout>").partition("</")[0].strip()
        elif line.get("type") == "assistant" and not line["parent_tool_use_id"] and not line.get("error"):
            yield from (block["text"] for block in content if block["type"] == "text")


@pytest.mark.parametrize("path", FILES)
def test_a_recorded_turn_of_claude(path: Path) -> None:
    plan = PlanEntries()
    for turn in turns(path):
        events = ClaudeEvents(plan, read=lambda path: None)
        chunks = [chunk for message in turn for chunk in events.feed(message)]
        told = story_of(chunks, Projector(shows_compactions=True))
        assert told.text == "".join(texts(turn))
        thoughts = [block["thinking"] for line, block in blocks(turn, "assistant") if block["type"] == "thinking"]
        assert told.thoughts == "".join(thoughts)
        called = {
            block["id"]: block
            for _, block in blocks(turn, "assistant")
            if block["type"] == "tool_use" and block["name"] not in PLAN_TOOLS
        }
        assert told.calls.keys() == called.keys()
        for call, block in called.items():
            assert told.calls[call][1] == block["input"]
        for _, block in blocks(turn, "user"):
            if block["type"] == "tool_result" and block["tool_use_id"] in called:
                expected = "failed" if block.get("is_error") else "completed"
                assert told.outcomes[block["tool_use_id"]] == expected
        result = turn[-1]
        if result["is_error"] and not result.get("terminal_reason", "").startswith("aborted"):
            assert (result.get("result") or result["errors"][0]) in str(told.error)
        else:
            assert (told.stop_reason, told.error) == ("end_turn", None)


@pytest.mark.parametrize("path", FILES)
def test_results_of_turns_that_claude_started_by_itself_end_no_prompt(path: Path) -> None:
    for turn in turns(path):
        result = turn[-1]
        named = result.get("user_message_uuids", [])
        prompted = PromptedTurn()
        assert prompted.owns(result) == ("origin" not in result and not named)
        prompted.uuid = named[0] if named else prompted.uuid
        assert prompted.owns(result) == ("origin" not in result)


@pytest.mark.parametrize("path", FILES)
def test_always_means_one_of_the_suggestions(path: Path) -> None:
    requests = [each["request"] for each in received(path) if each.get("type") == "control_request"]
    for request in [each for each in requests if each["subtype"] == "can_use_tool"]:
        suggestions = request.get("permission_suggestions") or []
        chosen = suggested(suggestions)
        rules = [each for each in suggestions if each["type"] == "addRules"]
        assert chosen == (rules[0] if rules else suggestions[0] if suggestions else None)
        options = permission_options(request["tool_name"], chosen)
        assert [option.id for option in options if option.scope != "once"] == (["always"] if suggestions else [])
        assert len({option.label for option in options}) == len(options)


@pytest.mark.parametrize("path", FILES)
def test_settings_and_commands_are_those_that_the_program_names(path: Path) -> None:
    answers = [each["response"].get("response", {}) for each in received(path) if each["type"] == "control_response"]
    for started in [answer for answer in answers if "models" in answer]:
        choices = ClaudeChoices(started, {"applied": {"model": "claude-sonnet-5-5", "effort": "medium"}})
        mode, model, effort = choices.settings()
        assert (mode.current, model.current, effort.current) == ("default", "sonnet", "medium")
        assert [value.id for value in model.values] == [each["value"] for each in started["models"]]
        assert [name for name, _ in commands_of(started)] == [each["name"] for each in started["commands"]]
        assert ClaudeChoices(started, {}).settings()[1].current == "default"


@pytest.mark.skipif(not FOLDER.exists(), reason=f"no recordings in {FOLDER}")
def test_details_of_the_recordings_are_shown() -> None:
    diffs: list[Any] = []
    notices, parents, compactions, usages, plans = [], set(), [], [], []
    for path in FOLDER.glob("*.jsonl"):
        events = ClaudeEvents(read=lambda path: None)
        for chunk in [chunk for message in received(path) for chunk in events.feed(message)]:
            name, data = getattr(chunk, "name", ""), getattr(chunk, "data", {})
            notices += [data["description"]] if name == "notice" else []
            compactions += [data["status"]] if name == "compaction" else []
            usages += [(data["used"], data["size"])] if name == "usage" else []
            plans += [data["entries"]] if name == "plan" else []
            output = getattr(chunk, "output", None)
            diffs += output.get("diffs", []) if isinstance(output, dict) else []
            shown = getattr(chunk, "provider_metadata", None)
            if isinstance(shown, dict) and shown["dragoman"].get("parent"):
                parents.add(shown["dragoman"]["parent"])
    assert "Attempt 1 of 10 in 0.5 s: overloaded (529)" in notices
    assert compactions == ["in_progress", "completed"]
    assert (120, 1_000_000) in usages
    assert [{"content": "mock todo", "status": "pending"}] in plans
    edited = {"path": "/home/user/project/a.txt", "old": "one\nalpha\nthree\n", "new": "one\nomega\nthree\n"}
    assert edited in diffs
    assert {"toolu_00025_1", "toolu_00010_1", "toolu_00014_1"} <= parents


@pytest.mark.parametrize(
    ("result", "stop_reason", "error"),
    [
        ({"subtype": "success", "stop_reason": "max_tokens"}, "max_tokens", None),
        ({"subtype": "success", "stop_reason": "refusal"}, "refusal", None),
        ({"subtype": "error_max_turns", "is_error": True}, "max_turn_requests", None),
        ({"subtype": "error_max_budget_usd", "is_error": True}, "max_tokens", None),
        ({"subtype": "error_of_tomorrow", "is_error": True}, None, "Claude Code: error_of_tomorrow"),
        ({"subtype": "success", "is_error": True, "result": "OAuth token revoked · Please run /login"}, None, LOGIN),
        ({"subtype": "success", "is_error": True, "terminal_reason": "aborted_tools"}, "end_turn", None),
    ],
)
def test_results_end_a_turn_with_their_reason(result: dict[str, Any], stop_reason: str, error: str | None) -> None:
    told = story_of(ClaudeEvents().feed({"type": "result", **result}))
    assert told.stop_reason == stop_reason
    assert (told.error or "").startswith(error or "")
    assert (told.error is None) == (error is None)


def test_the_model_is_recognised_with_and_without_the_size_of_its_window() -> None:
    models = [{"value": "default", "resolvedModel": "big-1"}, {"value": "small[1m]", "resolvedModel": "small-1[1m]"}]
    choices = ClaudeChoices({"models": models}, {})
    assert choices.note_model("big-1[1m]") is None
    assert choices.note_model("small-1") == "small[1m]"
    assert choices.note_model("another") == "another"
    assert [value.id for value in choices.settings()[1].values] == ["default", "small[1m]", "another"]


def mutated(value: Any, chance: random.Random) -> Any:
    """The value with some of its members replaced or left out."""
    if chance.random() < 0.03:
        return chance.choice([None, 3, True, "x", [], [1], {}, {"a": 1}, ["x", {"type": "text"}]])
    if isinstance(value, dict):
        return {name: mutated(each, chance) for name, each in value.items() if chance.random() > 0.01}
    return [mutated(each, chance) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", FILES)
def test_messages_with_members_of_any_kind_are_survived(path: Path) -> None:
    chance = random.Random(path.stem)
    events, projector = ClaudeEvents(read=lambda path: None), Projector()
    for message in [mutated(message, chance) for message in received(path)]:
        if not isinstance(message, dict):
            continue
        for chunk in events.feed(message):
            projector.project(decorated(chunk))
        request, response = message.get("request"), message.get("response")
        if isinstance(request, dict):
            for chunk in events.announce(request):
                projector.project(decorated(chunk))
            permission_options(str(request.get("tool_name")), suggested(request.get("permission_suggestions")))
        if isinstance(response, dict):
            ClaudeChoices(response, response).settings()
            commands_of(response)
