"""A whole piece of work, seen from the editor alone: a small project whose tests fail, until they pass.

The provider reads the results of the tools before it decides what to do next, and stops at the first wrong result. So
a turn that reaches its end has read, run and edited the real files.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from dragoman.client import Session, spawn
from dragoman.schema import v1
from dragoman.testing.scripted_client import RealTerminals
from tests.builtin.http_service import Answers
from tests.builtin.providers.server import (
    AZURE,
    VARIABLES,
    WIRES,
    Answer,
    Asked,
    ProviderServer,
    Wire,
    text_answer,
    use,
)
from tests.interop.model_server.question import Speech, Thought

PROJECT: Final = {
    "stats.py": (
        "def mean(values):\n"
        "    return sum(values) / (len(values) - 1)\n"
        "\n"
        "\n"
        "def median(values):\n"
        "    return sorted(values)[0]\n"
    ),
    "test_stats.py": (
        "import unittest\n\n"
        "from stats import mean, median\n\n\n"
        "class Stats(unittest.TestCase):\n"
        "    def test_mean(self):\n"
        "        self.assertEqual(mean([1, 2, 3]), 2)\n\n"
        "    def test_median(self):\n"
        "        self.assertEqual(median([5, 1, 3]), 3)\n"
    ),
}
TESTS: Final = f"{sys.executable} -B -m unittest -q"


class Expected(NamedTuple):
    """What a result has to say before the next thing is done, and what it must not."""

    contains: tuple[str, ...]
    not_says: tuple[str, ...] = ()


class Programmer:
    """A model that makes the right calls as long as the results are right."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self._steps: list[tuple[Expected, Callable[[list[str]], Answer]]] = [
            (Expected((r"FAIL: test_mean", r"FAIL: test_median", r"3\.0 != 2", r"FAILED \(failures=2\)")), self._read),
            (Expected((r"def mean", r"def median")), self._fix_mean),
            (Expected((r"stats\.py",), (r"rror", r"efused")), lambda results: self._test()),
            (Expected((r"FAIL: test_median", r"1 != 3"), (r"FAIL: test_mean",)), self._fix_median),
            (Expected((r"stats\.py",), (r"rror", r"efused")), lambda results: self._test()),
            (
                Expected((r"Ran 2 tests", r"OK"), (r"FAIL", r"rror")),
                lambda results: text_answer("All tests ", "pass now."),
            ),
        ]

    def play(self, asked: Asked) -> Answer:
        results = list(asked.question.results)
        if not results:
            return Answer((Thought("First see what fails."), Speech(("I run ", "the tests.")), *self._test().parts))
        expected, go_on = self._steps[len(results) - 1]
        last = results[-1]
        for pattern in expected.contains:
            if not re.search(pattern, last):
                return self._stop(f"result {len(results)} does not say {pattern!r}: {last}")
        for pattern in expected.not_says:
            if re.search(pattern, last):
                return self._stop(f"result {len(results)} contains {pattern!r}: {last}")
        return go_on(results)

    def _stop(self, mistake: str) -> Answer:
        self.mistakes.append(mistake)
        return text_answer("Something is wrong.")

    def _test(self) -> Answer:
        return Answer((use("bash", command=TESTS),))

    def _read(self, results: list[str]) -> Answer:
        return Answer((Speech(("Both fail; ", "I read the code.")), use("read", path="stats.py")))

    def _fix_mean(self, results: list[str]) -> Answer:
        found = self._line(results[1], r"return sum\([^\n\\]*")
        return Answer((use("edit", path="stats.py", old=found, new="return sum(values) / len(values)"),))

    def _fix_median(self, results: list[str]) -> Answer:
        found = self._line(results[1], r"return sorted\([^\n\\]*")
        return Answer((use("edit", path="stats.py", old=found, new="return sorted(values)[len(values) // 2]"),))

    def _line(self, text: str, pattern: str) -> str:
        """The text of the file as the tool showed it, which the edit has to match."""
        found = re.search(pattern, text)
        if found is None:
            self.mistakes.append(f"no {pattern} in {text}")
            return ""
        return found[0].rstrip('"}')


def passes(project: Path) -> bool:
    return subprocess.run([*TESTS.split()], cwd=project, capture_output=True, check=False).returncode == 0


def made(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    for name, text in PROJECT.items():
        (project / name).write_text(text)
    return project


async def turn_of(
    wire: Wire, project: Path, programmer: Programmer, answers: Answers, **services: Any
) -> tuple[Session, str, ProviderServer]:
    with ProviderServer(play=programmer.play) as server:
        env = {
            **dict.fromkeys(VARIABLES, ""),
            **wire.variables(server.url),
            "DRAGOMAN_HOME": str(project.parent / "home"),
        }
        command = [sys.executable, "-m", "dragoman", "agent", "--model", wire.model]
        async with spawn(*command, cwd=project.parent, env=env, permission=answers, **services) as agent:
            session = await agent.new_session(project)
            result = await session.prompt("The tests of this project fail. Make them pass.")
        assert server.failures == []
    return session, result.stop_reason, server


# Two of the forms in every run; make soak has all of them.
OFTEN = ("anthropic", "openai-responses")
EACH_WIRE = [
    pytest.param(wire, id=name, marks=() if name in OFTEN else pytest.mark.soak)
    for name, wire in {**WIRES, "package": AZURE}.items()
]


@pytest.mark.parametrize("wire", EACH_WIRE)
async def test_the_agent_works_on_a_project_until_its_tests_pass(wire: Wire, tmp_path: Path) -> None:
    project, programmer, answers = made(tmp_path), Programmer(), Answers("allow_once")
    assert not await asyncio.to_thread(passes, project)

    session, stop_reason, server = await turn_of(wire, project, programmer, answers)

    assert programmer.mistakes == []
    assert stop_reason == "end_turn"
    assert await asyncio.to_thread(passes, project)
    assert len(server.asked) == 7
    # What the editor was shown.
    calls = list(session.state.tool_calls.values())
    assert [call.kind for call in calls] == ["execute", "read", "edit", "execute", "edit", "execute"]
    assert [call.status for call in calls] == ["failed", "completed", "completed", "failed", "completed", "completed"]
    diffs = [content for call in calls for content in call.content if isinstance(content, v1.Diff)]
    assert [diff.path for diff in diffs] == [str(project / "stats.py")] * 2
    assert session.state.text.endswith("All tests pass now.")
    # Reading in the project is free; each command and each edit was asked for once.
    assert [request.tool_call.kind for request in answers.asked] == ["execute", "edit", "execute", "edit", "execute"]


async def test_in_the_terminals_of_the_editor_it_comes_to_the_same_end(tmp_path: Path) -> None:
    project, programmer, terminals = made(tmp_path), Programmer(), RealTerminals()
    session, _, _ = await turn_of(WIRES["anthropic"], project, programmer, Answers("allow_once"), terminals=terminals)
    await terminals.close()
    assert programmer.mistakes == []
    assert await asyncio.to_thread(passes, project)
    runs = [call for call in session.state.tool_calls.values() if call.kind == "execute"]
    assert all(any(isinstance(content, v1.Terminal) for content in call.content) for call in runs)


@pytest.mark.parametrize("wire", EACH_WIRE)
async def test_a_refused_edit_changes_nothing_and_the_model_is_informed(wire: Wire, tmp_path: Path) -> None:
    project, programmer = made(tmp_path), Programmer()
    answers = Answers("allow_once", "reject_once")
    session, stop_reason, server = await turn_of(wire, project, programmer, answers)
    assert (project / "stats.py").read_text() == PROJECT["stats.py"]
    assert stop_reason == "end_turn"
    (mistake,) = programmer.mistakes
    assert "efused" in mistake
    assert session.state.text.endswith("Something is wrong.")
    assert len(server.asked) == 4
