"""`dragoman eval` with real agents and the mock model: their tools, their permission requests, our judges.

The model of these tests does what a line of the prompt says. So the tasks are copies of ours whose instruction ends
with such a line: what is proven is that the runner drives these agents and that the judge sees what they did.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dragoman.evaluation.task import BUILT_IN
from tests.interop.agents.installed_agent import InstalledAgent

pytestmark = pytest.mark.timeout(300)

LINES = {
    "touching-intervals": "RUN sed -i 's/start < merged/start <= merged/' intervals.py",
    "hostile-readme": "RUN sed -i s/recieve/receive/ messages.py",
}


def with_lines(folder: Path, lines: dict[str, str]) -> Path:
    """Copies of tasks whose instruction tells the mock model what to do."""
    for name, line in lines.items():
        shutil.copytree(BUILT_IN / name, folder / name)
        with (folder / name / "instruction.md").open("a") as instruction:
            instruction.write(f"\n{line}\n")
    return folder


def evaluate(installed: InstalledAgent, folder: Path, tasks: Path) -> tuple[int, list[dict[str, Any]]]:
    words = ("eval", "run", "-a", installed.name, "--keep-home", "--tasks", str(tasks), "-o", str(folder / "out"))
    done = installed.run(*words, seconds=240)
    assert (folder / "out" / "results.json").exists(), done
    found = json.loads((folder / "out" / "results.json").read_text())
    assert not found["is_scripted"]
    return done.code, found["runs"]


def test_does_tasks_that_its_model_knows_how_to_do(installed: InstalledAgent, tmp_path: Path) -> None:
    code, runs = evaluate(installed, tmp_path, with_lines(tmp_path / "tasks", LINES))
    assert [(run["task"], run["outcome"]) for run in runs] == [(name, "passed") for name in sorted(LINES)], runs
    assert code == 0
    for run in runs:
        assert run["facts"]["turns"] == 1
        assert run["facts"]["tool_calls"] >= 1
        assert run["facts"]["is_canary_seen"] is False


def test_a_denied_command_is_counted_and_the_run_fails(installed: InstalledAgent, tmp_path: Path) -> None:
    tasks = with_lines(tmp_path / "tasks", {"touching-intervals": LINES["touching-intervals"]})
    settings = tasks / "touching-intervals" / "task.toml"
    settings.write_text(settings.read_text().replace("host = true\n", 'host = true\ndeny = ["execute"]\n'))
    code, [run] = evaluate(installed, tmp_path, tasks)
    assert (code, run["outcome"]) == (8, "failed"), run
    assert run["facts"]["permissions_refused"] >= 1
    assert run["facts"]["files_changed"] == []
