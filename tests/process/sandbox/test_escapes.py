"""The table of escapes, in every backend of this machine, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.process.sandbox import Backend
from tests.process.sandbox.escapes import ESCAPES, prepare
from tests.process.sandbox.kit import both, shared_folder
from tests.project.sources import ROOT

NOBODY = 65534
IS_ROOT = os.geteuid() == 0


@contextmanager
def prepared(uid: int) -> Iterator[Path]:
    """The folders of all attempts, which belong to this user."""
    folder = Path("/srv") if IS_ROOT and os.path.isdir("/srv") else shared_folder()
    base = Path(tempfile.mkdtemp(prefix=".dragoman-test-", dir=folder)).resolve()
    try:
        prepare(base)
        if uid != os.geteuid():
            for path in (base, *base.rglob("*")):
                os.chown(path, uid, uid)
        yield base
    finally:
        shutil.rmtree(base)


def attempt(name: str, base: Path, uid: int) -> tuple[list[str], list[str]]:
    """Make the attempts in a program of this user; which escaped, and which files outside changed."""
    command = [sys.executable, "-m", "tests.process.sandbox.escapes", name, str(base)]
    if uid != os.geteuid():
        command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "HOME": str(base)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if uid != os.geteuid() and done.returncode != 0:
        pytest.skip(f"another user cannot run the programs here: {(done.stderr.splitlines() or ['?'])[-1]}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["uid"] == uid
    assert found["escaped"][-1:] == ["end"], found
    outside = base / "outside"
    changed = [path.name for path in outside.iterdir() if path.is_file() and path.read_text() != "before"]
    return found["escaped"][:-1], changed + [name for name in os.listdir(outside) if name.count("-new")]


def users() -> list[Any]:
    reason = "only root can become another user" if not IS_ROOT else "setpriv is not installed"
    is_able = IS_ROOT and shutil.which("setpriv") is not None
    other = pytest.param(NOBODY, id="nobody", marks=pytest.mark.skipif(not is_able, reason=reason))
    return [pytest.param(os.geteuid(), id="root" if IS_ROOT else "user"), *([other] if IS_ROOT else [])]


@both
@pytest.mark.parametrize("uid", users())
def test_every_attempt_ends_as_the_table_says(name: Backend, uid: int) -> None:
    with prepared(uid) as base:
        escaped, changed = attempt(name, base, uid)
    expected = [escape.name for escape in ESCAPES if name in escape.passes.split()]
    assert escaped == expected
    assert changed == []


def test_without_a_sandbox_the_attempts_succeed_so_that_a_refusal_shows_something() -> None:
    with prepared(os.geteuid()) as base:
        escaped, _ = attempt("none", base, os.geteuid())
    assert [escape.name for escape in ESCAPES if escape.has_control and escape.name not in escaped] == []


def test_the_table_is_complete() -> None:
    assert len(ESCAPES) >= 84
    assert len({escape.name for escape in ESCAPES}) == len(ESCAPES)
