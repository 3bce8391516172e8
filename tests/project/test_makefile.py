"""make explains what is missing in a sentence, and sets nothing up before it has looked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.project.runtime_packages import RUNTIME, closure, pinned_at_run_time
from tests.project.sources import ROOT
from tools.installing import pins

TOOLS = ("make", "bash", "rm", "touch", "sed", "expand")


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A copy of what make reads, and a `bin` with nothing but the basic tools."""
    for name in ("Makefile", "package.json", "package-lock.json", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "web").mkdir()
    for name in ("package.json", "package-lock.json", "build.mjs"):
        shutil.copy(ROOT / "web" / name, tmp_path / "web")
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


@pytest.mark.parametrize("stamp", ["web/node_modules/.ready", "web/node_modules/.runtime"])
def test_without_node_the_web_page_is_not_built_and_make_run_goes_on(
    stamp: str, bare_machine: Path, fake_python: Path
) -> None:
    assert "Node.js 20 or newer with npm is needed to build" in sentence(make(bare_machine, stamp))
    done = make(bare_machine, "-o", "src/dragoman/_version.py", "run")
    assert done.returncode == 0, done.stderr
    assert "the page of dragoman web is left out: Node.js 20 or newer with npm is needed" in done.stdout


def test_make_run_fetches_what_builds_the_page_and_the_tests_fetch_the_rest(
    bare_machine: Path, fake_python: Path
) -> None:
    """What builds it has no test tools among it; nothing is fetched twice, and a change of the sources builds it."""
    for tool in ("sleep", "du", "cut", "mkdir"):
        (bare_machine / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    notes = bare_machine / "npm-notes"
    install_fake(bare_machine, "npm", f'echo "${{PWD##*/}}: npm $*" >>{notes}; mkdir -p node_modules')
    page = "src/dragoman/host/serving/page"
    install_fake(
        bare_machine,
        "node",
        f'[ "$1" = -e ] && exit 0; echo "node $*" >>{notes}; mkdir -p {page}; touch {page}/table.json',
    )

    def started(*words: str) -> list[str]:
        notes.write_text("")
        done = make(bare_machine, "-o", "src/dragoman/_version.py", *words)
        assert done.returncode == 0, done.stderr
        return notes.read_text().splitlines()

    built = "node web/build.mjs"
    assert started("run") == ["web: npm ci --silent --omit=dev", built]
    assert started("run") == []
    assert started(f"{page}/table.json") == ["web: npm ci --silent", built]
    assert started("run") == []
    later = (bare_machine / page / "table.json").stat().st_mtime + 10
    os.utime(bare_machine / "web/build.mjs", (later, later))
    assert started("run") == [built]


@pytest.mark.parametrize("failing", ["--dist worksteal", "-m alone", "tools.pythons", ""])
def test_types_and_both_passes_of_the_tests_run_and_each_can_fail(failing: str, bare_machine: Path) -> None:
    programs = bare_machine / ".venv" / "bin"
    programs.mkdir(parents=True)
    fake = f'#!{shutil.which("bash")}\necho "$*"\n[ -z "{failing}" ] || [[ "$*" != *"{failing}"* ]]\n'
    for name in ("python", "ruff", "mypy"):
        (programs / name).write_text(fake)
        (programs / name).chmod(0o755)
    stamps = (".venv/.ready", ".venv/.installed", "node_modules/.ready", "web/node_modules/.ready")
    for stamp in (*stamps, "src/dragoman/host/serving/page/table.json"):
        (bare_machine / stamp).parent.mkdir(parents=True, exist_ok=True)
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
    ("stamp", "pins"),
    [
        (".venv/.ready", "requirements/test.txt"),
        ("node_modules/.ready", "package-lock.json"),
        ("web/node_modules/.ready", "web/package-lock.json"),
    ],
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


@pytest.fixture
def fake_python(bare_machine: Path) -> Path:
    """A Python that makes environments with itself, and writes down what it was started for; returns its notes."""
    notes = bare_machine / "notes"
    made = "".join(
        f"{shutil.which(tool)} {words}; " for tool, words in (("mkdir", "-p $3/bin"), ("cp", '"$0" $3/bin/python'))
    )
    install_fake(
        bare_machine, "python3.11", f'[ "$1" = -c ] && exit 0; echo "$*" >>{notes}; if [ "$2" = venv ]; then {made} fi'
    )
    return notes


def installed_by(machine: Path, notes: Path, *targets: str) -> list[str]:
    """Return what Python was started for: `venv`, the requirement files, or the package itself."""
    notes.write_text("")
    done = make(machine, "-o", "src/dragoman/_version.py", *targets)
    assert done.returncode == 0, done.stderr
    added = []
    for line in notes.read_text().splitlines():
        if line == "-m venv .venv":
            added.append("a new environment")
        elif line.startswith("-m tools.installing"):
            added.append(line.removeprefix("-m tools.installing ").replace("requirements/", ""))
        elif "--editable" in line:
            added.append("the package")
    return added


ALL = sorted(path.name for path in (ROOT / "requirements").glob("*.txt"))


def test_make_run_installs_what_the_program_needs_and_the_tests_add_theirs(
    bare_machine: Path, fake_python: Path
) -> None:
    added = installed_by(bare_machine, fake_python, "run")
    assert added == ["a new environment", " ".join(RUNTIME), "the package"]
    assert installed_by(bare_machine, fake_python, "run") == []
    *others, files, package = installed_by(bare_machine, fake_python, ".venv/.installed")
    assert (others, sorted(files.split()), package) == ([], ALL, "the package"), "what make run installed is kept"
    assert installed_by(bare_machine, fake_python, ".venv/.installed") == []
    assert installed_by(bare_machine, fake_python, "run") == []


def test_an_environment_for_the_tests_is_made_at_once_and_serves_make_run(
    bare_machine: Path, fake_python: Path
) -> None:
    venv, files, package = installed_by(bare_machine, fake_python, ".venv/.installed")
    assert (venv, sorted(files.split()), package) == ("a new environment", ALL, "the package")
    (bare_machine / ".venv/.runtime").unlink()  # made before there was this stamp
    assert installed_by(bare_machine, fake_python, "run") == []
    assert installed_by(bare_machine, fake_python, ".venv/.installed") == []


def test_what_make_run_installs_is_closed_and_at_most_50_packages_and_130_megabytes() -> None:
    pinned = pinned_at_run_time()
    needed = closure(sorted(pinned))
    assert needed.keys() == pinned, "every package that these need is pinned among them"
    with_tools = {**needed, **closure(["pip"])}
    assert len(with_tools) + 2 <= 50, "with dragoman, and setuptools in the environments of older Pythons"
    files = (file.locate() for found in with_tools.values() for file in found.files or ())
    megabytes = sum(Path(str(path)).stat().st_size for path in files if Path(str(path)).is_file()) / 1e6
    assert 30 < megabytes < 120, "as many as the files of the distributions say"


def test_what_the_tests_install_is_closed() -> None:
    """pip looks for nothing that no file names."""
    pinned = set(pins([str(path) for path in (ROOT / "requirements").glob("*.txt")]))
    assert closure(sorted(pinned)).keys() <= pinned


def run_installing(*files: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, "-m", "tools.installing", *files]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100)


def test_an_installation_says_how_many_packages_there_are_and_shows_what_pip_says_about_a_failure(
    tmp_path: Path,
) -> None:
    done = run_installing("requirements/base.txt")
    assert done.returncode == 0, done.stderr
    assert re.match(
        r"installing 1 pinned packages? into .*\n(  .* packages found .*\n)*  0 packages added in \d+ s; .* \d+ MB\n",
        done.stdout,
    )
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("no-such-package==1.0\n")
    failed = run_installing(str(wrong))
    assert failed.returncode == 1
    assert "No matching distribution found for no-such-package==1.0" in failed.stderr
    assert failed.stderr.splitlines()[-1] == "make: pip failed with code 1; its output is above"
