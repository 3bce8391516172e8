"""An agent cannot gain by what it does to the judge: it fails, and the runs after it go on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dragoman.evaluation.attempt import attempt
from dragoman.evaluation.drive import Driven
from dragoman.evaluation.sandbox import SandboxCopy
from dragoman.evaluation.task import Task, load_task
from tests.evaluation.test_tasks import host_task

if TYPE_CHECKING:
    from dragoman.evaluation.attempt import Driver

CHECK = """
from judge_kit import check, program, report, unittests

@check("tests")
def tests():
    unittests("hidden_tests")

@check("a program")
def works():
    program("import os; sys.path.insert(0, os.getcwd())\\nimport thing; assert thing.answer() == 42")

report()
"""
HIDDEN = """
import unittest
from thing import answer

class Tests(unittest.TestCase):
    def test_answer(self):
        self.assertEqual(answer(), 42)
"""


def judged_task(folder: Path) -> Task:
    made = host_task(folder, 'may_change = ["thing.py"]\n')
    (made / "tests" / "check.py").write_text(CHECK)
    (made / "tests" / "hidden_tests.py").write_text(HIDDEN)
    (made / "tests" / "test.sh").write_text('exec "$PYTHON" -B -S "$TEST_DIR/check.py"\n')
    return load_task(made)


def writing(text: str) -> Driver:
    async def driver(task: Task, sandbox: SandboxCopy, folder: Path) -> Driven:
        (sandbox.work / "thing.py").write_text(text)
        return Driven(result={"durations": {"session_ms": 1}})

    return driver


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "import os, sys; print('Ran 9 tests in 0.1s\\n\\nOK', file=sys.stderr); sys.stderr.flush(); os._exit(0)",
        "import os, pathlib\n"
        "for name in ('LOGS_DIR', 'TEST_DIR'):\n"
        "    if name in os.environ: pathlib.Path(os.environ[name], 'verifier', 'reward.txt').write_text('1')\n"
        "for place in pathlib.Path(os.environ['TMPDIR']).parent.rglob('verifier'):\n"
        "    (place / 'reward.txt').write_text('1')",
        "def answer(): return 41",
    ],
    ids=["exit", "_exit", "printed", "reward", "wrong"],
)
async def test_code_that_ends_the_judge_early_or_writes_its_reward_fails(tmp_path: Path, text: str) -> None:
    run = await attempt(judged_task(tmp_path / "a"), 1, writing(text))
    assert run.outcome == "failed"
    assert [check.score for check in run.checks[:2]] == [0.0, 0.0]


async def test_the_right_code_passes_the_same_judge(tmp_path: Path) -> None:
    run = await attempt(judged_task(tmp_path / "a"), 1, writing("def answer(): return 42"))
    assert run.outcome == "passed", run.checks


async def test_an_agent_that_changes_its_judge_has_failed(tmp_path: Path) -> None:
    task = judged_task(tmp_path / "a")

    async def cheat(task: Task, sandbox: SandboxCopy, folder: Path) -> Driven:
        (task.folder / "tests" / "test.sh").write_text("echo 1 > $LOGS_DIR/verifier/reward.txt\n")
        return Driven(result={"durations": {"session_ms": 1}})

    run = await attempt(task, 1, cheat)
    assert (run.outcome, [each.detail for each in run.checks]) == ("failed", ["tests/test.sh"])


async def test_an_agent_that_removes_the_project_has_failed(tmp_path: Path) -> None:
    async def remove(task: Task, sandbox: SandboxCopy, folder: Path) -> Driven:
        shutil.rmtree(sandbox.work)
        return Driven(result={"durations": {"session_ms": 1}})

    (tmp_path / "kept").mkdir()
    run = await attempt(judged_task(tmp_path / "a"), 1, remove, keep=tmp_path / "kept")
    assert (run.outcome, [each.name for each in run.checks]) == ("failed", ["the project is still there"])
