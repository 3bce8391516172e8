"""What the judges of tasks share; the runner puts it next to the task's own tests.

Owns how a judge states what it found. Standard library only, and nothing of dragoman: a judge runs alone, in the work
folder, with `TEST_DIR`, `LOGS_DIR`, `START_DIR` and `STATE_DIR` in its environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

TESTS = Path(os.environ.get("TEST_DIR", "/tests"))
LOGS = Path(os.environ.get("LOGS_DIR", "/logs"))
START = Path(os.environ.get("START_DIR", "/start"))
STATE = Path(os.environ.get("STATE_DIR", "/state"))
WORK = Path.cwd()
_run_file = LOGS / "run.json"
RUN: dict[str, Any] = json.loads(_run_file.read_text()) if _run_file.is_file() else {}
_OWN = ("TEST_DIR", "LOGS_DIR", "START_DIR", "STATE_DIR")
_rewards: dict[str, float] = {}
_details: dict[str, str] = {}


def check(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Run the decorated function at once. It holds if nothing is raised; a number it returns is its score."""

    def judge(function: Callable[[], object]) -> Callable[[], object]:
        try:
            score = function()
            _rewards[name] = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else 1.0
            _details[name] = "" if _rewards[name] >= 1 else f"{_rewards[name]:.0%}"
        except Exception as error:  # whatever the agent's code raises is the result of this check
            _rewards[name] = 0.0
            _details[name] = str(error) or traceback.format_exc().strip().splitlines()[-1]
        return function

    return judge


def report() -> None:
    """Write the reward; the last call of every judge."""
    folder = LOGS / "verifier"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reward.txt").unlink(missing_ok=True)  # it would count instead, and is not from here
    (folder / "details.json").write_text(json.dumps(_details))
    (folder / "reward.json").write_text(json.dumps(_rewards))


def need(condition: object, reason: str) -> None:
    """Fail the check with a reason unless the condition holds."""
    if not condition:
        raise AssertionError(reason)


def run(*words: str, seconds: float = 60.0, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program in the work folder. It does not get the places of the judge's own files."""
    env = {name: value for name, value in os.environ.items() if name not in _OWN}
    return subprocess.run(words, capture_output=True, text=True, timeout=seconds, input=given, env=env, check=False)


def python(*words: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run Python in the work folder, which its modules are imported from."""
    return run(sys.executable, "-B", "-S", *words, seconds=seconds)


def program(source: str, *words: str, seconds: float = 60.0) -> str:
    """Run a Python program that uses the project's modules, and return what it prints. Fails unless it gets to its end.

    The code under test runs in the same process and may end it at any moment with any exit code. So the program gets a
    word before, which it repeats at its end.
    """
    word = token_hex(16)
    whole = f"import sys\nword = sys.stdin.read()\n{source}\nsys.stdout.write(word)\n"
    done = run(sys.executable, "-B", "-S", "-c", whole, *words, seconds=seconds, given=word)
    failed = re.findall(r"^(?:FAIL|ERROR): (\S+)", done.stderr, re.MULTILINE)
    ended = done.stderr.strip()[-300:] or f"it ended too early, with exit code {done.returncode}"
    need(done.stdout.endswith(word), f"fails: {', '.join(failed)}" if failed else ended)
    return done.stdout.removesuffix(word)


def unittests(name: str, *, seconds: float = 60.0) -> None:
    """Run the judge's own test file; the project is imported from the work folder."""
    program(_UNITTEST, str(TESTS), name, seconds=seconds)


# The work folder comes first on the path, so that the project's modules win over anything next to the judge.
_UNITTEST = """
import os, unittest
sys.path[:0] = [os.getcwd(), sys.argv[1]]
result = unittest.main(module=sys.argv[2], argv=["judge"], verbosity=0, exit=False).result
if not result.wasSuccessful() or not result.testsRun:
    sys.exit(1)
"""


def text(path: str) -> str:
    """Read the text of a file of the project; fail the check if it is not there."""
    need((WORK / path).is_file(), f"{path} is not there")
    return (WORK / path).read_text(encoding="utf-8")


def answer() -> str:
    """Return the agent's final text."""
    return str(RUN.get("answer") or "")


def commands() -> list[str]:
    """Return the commands that the agent ran or asked for, as far as it reports them."""
    return [str(call["command"]) for call in RUN.get("tool_calls", ()) if call.get("command")]
