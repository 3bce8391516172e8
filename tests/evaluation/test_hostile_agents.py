"""An agent cannot gain by what it does to the judge: it fails, and the runs after it go on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dragoman.cli.evaluation.run import from_here
from dragoman.evaluation.attempt import attempt
from dragoman.evaluation.drive import Driven
from dragoman.evaluation.measure import from_result
from dragoman.evaluation.sandbox import SandboxCopy
from dragoman.evaluation.task import Task, load_task
from dragoman.process import proctable
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
        return Driven(result={"durations": {"turn_ms": 1}})

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
        return Driven(result={"durations": {"turn_ms": 1}})

    run = await attempt(task, 1, cheat)
    assert (run.outcome, [each.detail for each in run.checks]) == ("failed", ["tests/test.sh"])


async def test_an_agent_that_removes_the_project_has_failed(tmp_path: Path) -> None:
    async def remove(task: Task, sandbox: SandboxCopy, folder: Path) -> Driven:
        shutil.rmtree(sandbox.work)
        return Driven(result={"durations": {"turn_ms": 1}})

    (tmp_path / "kept").mkdir()
    run = await attempt(judged_task(tmp_path / "a"), 1, remove, keep=tmp_path / "kept")
    assert (run.outcome, [each.name for each in run.checks]) == ("failed", ["the project is still there"])


def test_a_process_that_has_lost_its_environment_is_found_by_its_folder(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path, env={"PATH": os.defpath}, start_new_session=True) as process:
        try:
            assert process.pid in proctable.working_below(str(tmp_path))
            assert process.pid not in proctable.working_below(str(tmp_path / "other"))
        finally:
            process.kill()


def test_files_of_this_folder_in_the_command_of_an_agent_are_found_from_the_folder_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python").touch()
    (tmp_path / "agent.py").touch()
    assert from_here(("python", "agent.py", "--fast")) == ("python", f"{tmp_path}/agent.py", "--fast")
    assert from_here(("./python", "-m", "agent")) == (f"{tmp_path}/python", "-m", "agent")


def test_an_agent_that_ends_before_the_prompt_has_no_turn() -> None:
    assert from_result({"durations": {"start_ms": 1, "session_ms": 5, "turn_ms": None}}).turns == 0
    assert from_result({"durations": {"start_ms": 1, "session_ms": 5, "turn_ms": 9}}).turns == 1
