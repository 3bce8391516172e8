"""make explains what is missing in a sentence, and sets nothing up before it has looked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.project.sources import ROOT

TOOLS = ("make", "bash", "rm", "touch", "sed", "expand")


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A copy of what make reads, and a `bin` with nothing but the basic tools."""
    for name in ("Makefile", "package.json", "package-lock.json", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, f"{tool} is needed to run the tests at all"
        (programs / tool).symlink_to(found)
    return tmp_path


def install_fake(machine: Path, name: str, script: str) -> None:
    program = machine / "bin" / name
    program.write_text(f"#!{shutil.which('bash')}\n{script}\n")
    program.chmod(0o755)


def make(machine: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(machine / "bin"), "HOME": str(machine)}
    command = [str(machine / "bin" / "make"), "--no-print-directory", *words]
    return subprocess.run(
        command, cwd=machine, env=environment, capture_output=True, text=True, check=False, timeout=30
    )


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The line make was asked to print, without make's own line about the failed recipe."""
    assert done.returncode != 0
    [line] = [line for line in done.stderr.splitlines() if "***" not in line]
    return line


def test_without_python_it_says_which_one_to_install(bare_machine: Path) -> None:
    assert sentence(make(bare_machine, ".venv/.ready")).startswith("make: Python 3.11, 3.12, 3.13 or 3.14")
    assert not (bare_machine / ".venv").exists()


def test_a_python_that_is_too_old_or_only_a_shim_does_not_count(bare_machine: Path) -> None:
    for name in ("python3", "python3.11"):
        install_fake(bare_machine, name, "echo 'command not found' >&2; exit 127")
    assert sentence(make(bare_machine, ".venv/.ready")).startswith("make: Python 3.11, 3.12, 3.13 or 3.14")


def test_without_node_it_says_what_it_is_for(bare_machine: Path) -> None:
    assert sentence(make(bare_machine, "node_modules/.ready")).startswith("make: Node.js 20 or newer with npm")


def test_a_node_that_is_too_old_does_not_count(bare_machine: Path) -> None:
    install_fake(bare_machine, "npm", "exit 0")
    install_fake(bare_machine, "node", "exit 1")
    assert sentence(make(bare_machine, "node_modules/.ready")).startswith("make: Node.js 20 or newer with npm")
    assert not (bare_machine / "node_modules").exists()


@pytest.mark.parametrize("failing", ["--dist worksteal", "-m alone", "tools.pythons", ""])
def test_types_and_both_passes_of_the_tests_run_and_each_can_fail(failing: str, bare_machine: Path) -> None:
    programs = bare_machine / ".venv" / "bin"
    programs.mkdir(parents=True)
    fake = f'#!{shutil.which("bash")}\necho "$*"\n[ -z "{failing}" ] || [[ "$*" != *"{failing}"* ]]\n'
    for name in ("python", "ruff", "mypy"):
        (programs / name).write_text(fake)
        (programs / name).chmod(0o755)
    (bare_machine / "node_modules").mkdir()
    for stamp in (".venv/.ready", ".venv/.installed", "node_modules/.ready"):
        (bare_machine / stamp).touch()
    done = make(bare_machine, "-o", "src/dragoman/_version.py", "test")
    passes = [line for line in done.stdout.splitlines() if line.startswith("-m pytest")]
    assert [line.rpartition("-m ")[2] for line in passes] == ["not alone", "alone"]
    assert (done.returncode != 0) == bool(failing), done.stderr


def test_make_types_reads_the_cases_of_a_type_checker_and_refuses_an_ignore_that_nothing_needs() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["strict"], "of which warn_unused_ignores is a part"
    cases = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("typing_cases.py")]
    assert len(cases) == 2
    for path in cases:
        assert path.parts[0] in settings["files"]
        assert not any(re.search(pattern, path.as_posix()) for pattern in settings["exclude"])
        assert "# mypy:" not in (ROOT / path).read_text()


def test_help_lists_every_target(bare_machine: Path) -> None:
    done = make(bare_machine, "help")
    assert done.returncode == 0, done.stderr
    for target in ("run", "test", "check", "bench", "interop"):
        assert f"make {target}" in done.stdout


@pytest.mark.parametrize(
    ("stamp", "pins"), [(".venv/.ready", "requirements/test.txt"), ("node_modules/.ready", "package-lock.json")]
)
def test_an_environment_is_remade_when_a_pin_changes(stamp: str, pins: str, bare_machine: Path) -> None:
    """`make -q` does nothing and answers 1 if there is something to do."""
    ready = bare_machine / stamp
    ready.parent.mkdir()
    ready.touch()
    assert make(bare_machine, "-q", stamp).returncode == 0
    later = ready.stat().st_mtime + 10
    os.utime(bare_machine / pins, (later, later))
    assert make(bare_machine, "-q", stamp).returncode == 1
