"""A project, a home with secrets and a folder outside, and commands that really run in a sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dragoman.process.command import child_environment
from dragoman.process.sandbox import Backend, Denial, Sandbox, make_policy
from dragoman.process.terminal import Terminal
from tests import machine
from tests.project.sources import ROOT

AVAILABLE = machine.sandbox()
# The interpreter itself: an environment of ours may lie in /tmp, which is private in bubblewrap.
PYTHON = os.path.realpath(sys.executable)
GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def backend(name: Backend) -> Any:
    """A parameter for one backend, skipped with the reason where it does not work."""
    reason = AVAILABLE.reasons.get(name)
    return pytest.param(name, marks=pytest.mark.skipif(reason is not None, reason=f"{name}: {reason}"))


both = pytest.mark.parametrize("name", [backend("thread"), backend("bubblewrap")])
only_thread = pytest.mark.parametrize("name", [backend("thread")])
only_bubblewrap = pytest.mark.parametrize("name", [backend("bubblewrap")])


class Place(NamedTuple):
    home: Path
    project: Path
    outside: Path
    temporary: Path
    aside: Path

    def sandbox(self, name: Backend, **options: Any) -> Sandbox:
        options = {"temporary": self.temporary, "home": self.home, **options}
        return Sandbox(make_policy(options.pop("roots", [self.project]), **options), name)


def shared_folder() -> Path:
    """A folder that commands see in every sandbox; skips the test where this machine has none that can be written."""
    private = ("/tmp", "/var/tmp", "/run")
    for folder in (Path.home(), Path("/root"), Path("/srv"), Path("/opt"), ROOT):
        is_private = any(folder.resolve().is_relative_to(Path(name).resolve()) for name in private)
        if not is_private and os.access(folder, os.W_OK):
            return folder
    pytest.skip("the sandbox hides every folder here that can be written: set HOME to one that is not in /tmp")


@contextmanager
def place() -> Iterator[Place]:
    """Not in /tmp, which is private in bubblewrap: nothing there would show that it is hidden or read-only."""
    base = Path(tempfile.mkdtemp(prefix=".dragoman-test-", dir=shared_folder()))
    try:
        found = Place(*(base / name for name in Place._fields))
        for folder in found:
            folder.mkdir()
        (found.home / ".ssh").mkdir()
        (found.home / ".ssh" / "id").write_text("secret-key")
        (found.home / ".netrc").write_text("secret-password")
        (found.home / "notes").write_text("notes")
        (found.outside / "file").write_text("before")
        yield found
    finally:
        shutil.rmtree(base)


def git(folder: Path, *words: str) -> str:
    environment = {**os.environ, **GIT}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def outside(*argv: str, cwd: Path | None = None) -> tuple[int, str]:
    """The same command without a sandbox: exit code and stdout."""
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


@contextmanager
def sleeper(**variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process outside."""
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, **variables}) as process:
        try:
            yield process
        finally:
            process.kill()


class Ran(NamedTuple):
    code: int | None
    text: str
    denials: list[Denial]


async def run(sandbox: Sandbox, *argv: str, cwd: Path | None = None, pty: bool = False, **variables: str) -> Ran:
    """Run a command to its end."""
    folder = str(cwd or sandbox.policy.roots[0])
    environment = child_environment({"HOME": sandbox.policy.roots[0], **GIT, **variables})
    confined = sandbox.confine(argv, cwd=folder, env=environment)
    terminal = Terminal.start(confined.argv, cwd=confined.cwd, env=confined.env, pty=pty, starter=confined.starter)
    try:
        await terminal.wait()
        return Ran(terminal.exit_code, terminal.text, confined.denials(terminal.text))
    finally:
        await terminal.release()


async def shell(sandbox: Sandbox, line: str, **options: Any) -> Ran:
    return await run(sandbox, "sh", "-c", line, **options)


async def python(sandbox: Sandbox, code: str, **options: Any) -> Ran:
    return await run(sandbox, PYTHON, "-I", "-c", code, **options)
