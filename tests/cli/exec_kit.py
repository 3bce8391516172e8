"""Runs `dragoman exec` from outside, as a script would, and sees to it that nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.warm_python import WarmPython

SECONDS = 60.0
ODD_AGENT = Path(__file__).parent / "odd_agent.py"
MARK = "DRAGOMAN_TEST_RUN"
PROGRAM = (sys.executable, "-m", "dragoman")


class Done(NamedTuple):
    """A finished run."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """What `--output json` printed."""
        found: dict[str, Any] = json.loads(self.out)
        assert found["exit_code"] == self.code
        assert (found["error"] is None) == (self.code == 0)
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Place:
    """A project folder and a user's home of its own.

    Args:
        warm: What starts runs that are not at a terminal and that a test does not talk to.
    """

    def __init__(self, folder: Path, warm: WarmPython | None = None) -> None:
        self._warm = warm
        self.project = folder / "project"
        self.home = folder / "home"
        self.temporary = folder / "tmp"
        for each in (self.project, self.home, self.temporary):
            each.mkdir()
        self.mark = uuid.uuid4().hex
        self.agent = ODD_AGENT
        self.python = sys.executable
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN", "XDG", "GITHUB"))},
            "HOME": str(self.home),
            "DRAGOMAN_HOME": str(self.home / "dragoman"),
            "TMPDIR": str(self.temporary),
            MARK: self.mark,
        }

    def words(self, *words: str, odd: str | None = None) -> list[str]:
        agent = ["--", self.python, "-IS", str(self.agent), odd] if odd else []
        return [*PROGRAM, *words, *agent]

    def name_agent(self, name: str) -> None:
        """Lets the odd agent run as a program of this name."""
        self.agent = self.home / name
        shutil.copy(ODD_AGENT, self.agent)

    def hide_bubblewrap(self) -> None:
        """Leaves a few programs on the PATH, and bubblewrap is not one of them."""
        programs = self.home / "programs"
        programs.mkdir()
        for name in ("sh", "cat", "git", "touch", "rm", "mkdir", "chmod"):
            (programs / name).symlink_to(str(shutil.which(name)))
        self.environment["PATH"] = str(programs)

    def run(self, *words: str, odd: str | None = None, stdin: str | None = None, verb: str = "exec") -> Done:
        """Runs it to its end. `odd` names the habit of an agent that stands behind `--`."""
        command, done = self.words(verb, *words, odd=odd), None
        if self._warm is not None:
            own = command[len(PROGRAM) :]
            done = self._warm.run(own, cwd=self.project, env=self.environment, stdin=stdin or "", seconds=SECONDS)
        if done is None:
            done = subprocess.run(
                command,
                cwd=self.project,
                env=self.environment,
                input=stdin or "",
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        # Of ours: those of the agent's commands are shown indented.
        assert not re.search(r"^Traceback \(most recent call last\)", done.stderr, re.MULTILINE), done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def started(self, *words: str, odd: str | None = None) -> Iterator[subprocess.Popen[str]]:
        """Starts it; ends it if the test does not."""
        with subprocess.Popen(
            self.words("exec", *words, odd=odd),
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def leftovers(self) -> list[str]:
        """Command lines of processes that carry this place's mark."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:  # of another user, or already gone
                continue
        return found

    def assert_clean(self) -> None:
        """No process and no temporary file is left of what ran here."""
        deadline = time.monotonic() + 20.0
        while (left := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.01)  # one that was just killed raises no event here
        assert left == []
        assert list(self.temporary.iterdir()) == []


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Iterator[Place]:
    """Where a run happens; fails the test if something is left behind."""
    found = Place(tmp_path, warm_python)
    yield found
    found.assert_clean()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """What the process writes to stdout up to a line with these words."""
    assert process.stdout is not None
    seen = ""
    while words not in seen:
        line = process.stdout.readline()
        assert line, f"it ended without {words!r}: {seen!r}"
        seen += line
    return seen
