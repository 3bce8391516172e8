"""A well-known agent by its name, as `npx` really downloads and runs it in its pinned version.

The adapter for pi is the smallest of them: its package is 80 kB, and it answers `initialize` without pi itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.registry.known import well_known

pytestmark = pytest.mark.timeout(180)


class User:
    """A user with an empty home, in the folder of a project whose `.npmrc` names a registry that does not exist."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / ".npmrc").write_text("registry=http://127.0.0.1:9/\n")
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN")},
            "DRAGOMAN_HOME": str(folder / "dragoman"),
        }

    def run(self, *words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "agents", *words],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def user(tmp_path: Path) -> User:
    if not os.environ.get("DRAGOMAN_REAL_AGENTS"):
        pytest.skip("needs the network: make interop")
    return User(tmp_path)


def test_npx_runs_the_pinned_version_after_a_confirmation(user: User) -> None:
    code, out, _ = user.run("doctor", "pi", "--json")
    before: dict[str, Any] = json.loads(out)
    assert (code, before["initialize"]) == (2, None)
    assert user.run("accept", "pi", "--yes")[0] == 0
    code, out, err = user.run("doctor", "pi", "--json", "--timeout", "120")
    assert code == 0, err
    agent = well_known("pi")
    assert agent is not None
    assert json.loads(out)["initialize"]["version"] == agent.npm[0].version
