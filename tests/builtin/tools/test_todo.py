"""`todo` keeps the list and shows it as the plan."""

from pathlib import Path

import pytest

from tests.builtin.tools.fixtures import TOOLS, FakeContext


async def test_the_list_is_the_plan(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    items = [
        {"content": "look", "status": "completed", "priority": "high"},
        {"content": " write ", "status": "in_progress"},
        {"content": "test"},
    ]
    assert await context.text("todo", items=items) == "The to-do list is updated: 1 of 3 done. Now: write."
    entries = [
        {"content": "look", "priority": "high", "status": "completed"},
        {"content": "write", "priority": "medium", "status": "in_progress"},
        {"content": "test", "priority": "medium", "status": "pending"},
    ]
    assert context.sent == [("plan", {"entries": entries}, "plan")]
    assert context.memory["todo"] == entries


async def test_each_list_replaces_the_one_before(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    await context.call("todo", items=[{"content": "a"}])
    assert await context.text("todo", items=[]) == "The to-do list is empty now."
    assert context.sent[-1] == ("plan", {"entries": []}, "plan")


async def test_two_at_a_time_is_advised_against_but_taken(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    items = [{"content": name, "status": "in_progress"} for name in "ab"]
    assert "it is better to have one at a time" in await context.text("todo", items=items)
    assert len(context.sent) == 1


@pytest.mark.parametrize(
    ("written", "meant"), [("done", "completed"), ("In-Progress", "in_progress"), ("todo", "pending")]
)
async def test_other_words_for_a_status_are_understood(tmp_path: Path, written: str, meant: str) -> None:
    context = FakeContext(tmp_path)
    await context.call("todo", items=[{"content": "a", "status": written}])
    assert context.memory["todo"][0]["status"] == meant


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"content": "a", "status": "maybe"}, "use one of pending, in_progress, completed"),
        ({"content": "a", "priority": "urgent"}, "use one of high, medium, low"),
        ({"content": " "}, "item 2 is empty"),
    ],
)
async def test_a_wrong_item_is_refused_and_nothing_changes(tmp_path: Path, item: dict[str, str], why: str) -> None:
    context = FakeContext(tmp_path)
    assert why in await context.refusal("todo", items=[{"content": "ok"}, item])
    assert context.sent == []
    assert context.memory == {}


async def test_a_list_without_end_is_refused(tmp_path: Path) -> None:
    assert "too many" in await FakeContext(tmp_path).refusal("todo", items=[{"content": "a"}] * 201)


def test_the_plan_needs_no_permission(tmp_path: Path) -> None:
    assert FakeContext(tmp_path).requests("todo", items=[]) == ()


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({}, "Update the to-do list"),
        ({"items": "x"}, "Update the to-do list"),
        ({"items": [{"status": "completed"}, {"status": "pend"}, 3]}, "Update the to-do list (1 of 3 done)"),
    ],
)
def test_a_title_shows_the_progress(arguments: dict[str, object], title: str) -> None:
    assert TOOLS["todo"].preview(arguments, "/w").title == title
