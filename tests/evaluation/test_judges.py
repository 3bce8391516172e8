"""Every judge is proven: the right solution passes, the wrong one and the untouched project fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.evaluation.attempt import attempt
from dragoman.evaluation.results import EvalRun
from dragoman.evaluation.solutions import PLAYS, Play, prove
from dragoman.evaluation.task import Task, load_tasks
from tests.evaluation.in_process import in_process

TASKS = load_tasks()


def failed_checks(run: EvalRun) -> list[str]:
    return [check.name for check in run.checks if not check.is_passed]


def one_of_each_kind() -> list[Any]:
    """Each task as a parameter; of a category the first one is proven in every run, make soak has all."""
    first = {task.category: task for task in reversed(TASKS)}.values()
    return [pytest.param(task, id=task.name, marks=() if task in first else pytest.mark.soak) for task in TASKS]


@pytest.mark.parametrize("task", one_of_each_kind())
async def test_right_passes_and_wrong_and_untouched_fail(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    if reasons := task.reasons_to_skip():
        pytest.skip(reasons[0])
    runs: dict[Play, EvalRun] = {}
    for play in PLAYS:
        driver = None if play == "untouched" else in_process(play, monkeypatch)
        runs[play] = await asyncio.wait_for(attempt(task, 1, driver), 100)
    assert prove(task.name, runs).faults == []
    # A judge that refuses everything for one reason would prove nothing.
    assert all(check.is_passed for check in runs["right"].checks)
    assert runs["right"].facts is not None
    assert runs["right"].facts.protocol_violations == []


async def test_an_agent_that_did_nothing_is_not_accused_of_what_was_not_permitted() -> None:
    [task] = [each for each in TASKS if each.name == "release-refused"]
    run = await asyncio.wait_for(attempt(task, 1, None), 100)
    assert "it is one commit with the right message" in failed_checks(run)
    assert "what was not permitted did not happen" not in failed_checks(run)


def test_there_are_tasks_of_every_kind() -> None:
    assert len(TASKS) >= 18
    kinds = {task.category for task in TASKS}
    wanted = ("bug", "feature", "refactoring", "question", "refused permission", "MCP", "injection", "long task", "git")
    assert {kind for kind in wanted if kind in kinds} == set(wanted)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_of_ours_is_complete(task: Task) -> None:
    assert task.obstacles == ()
    assert task.notes == ()
    assert task.description
    assert len(task.settings.history) >= 2
    for solution in ("right", "wrong"):
        assert task.script(solution).is_file()
