"""What the documentation shows is what happens: its programs run, its commands print what stands below them."""

from __future__ import annotations

import ast
import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.project.pages import PAGES, Block, Step, blocks, steps
from tests.project.sources import ROOT
from tests.warm_programs import our_programs
from tools.pages import GENERATED

# Pages that build programs step by step, which are run in order, in a folder of their own.
STEPWISE = [page for page in PAGES if any(block.file for block in blocks(page, "python"))]
PROGRAMS = [block for page in PAGES if page not in STEPWISE for block in blocks(page, "python")]
CONSOLES = [block for page in PAGES if page not in STEPWISE for block in blocks(page, "console")]
# Pages leave nothing in the folders of the user who runs the tests, and find nothing there.
HOME = tempfile.mkdtemp(prefix="dragoman-pages-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "NO_COLOR": "1",
    "DRAGOMAN_HOME": HOME,
}


def run(
    command: Sequence[str] | str, cwd: Path = ROOT, env: dict[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_program_runs(block: Block, tmp_path: Path) -> None:
    """A block marked `fragment` has no beginning or end of its own, so only its syntax is checked."""
    if "fragment" in block.words:
        ast.parse(f"async def fragment():\n{re.sub('^', '    ', block.text, flags=re.MULTILINE)}")
        return
    program = tmp_path / "program.py"
    program.write_text(block.text)
    done = run(our_programs().command("-W", "error", str(program)))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("block", CONSOLES, ids=lambda block: block.place)
def test_commands_print_what_is_shown(block: Block) -> None:
    assert steps(block), f"{block.place}: no `$ ` line"
    for step in steps(block):
        if step.command.startswith("make "):
            assert_target_exists(step)
        elif step.command.startswith(("dragoman ", "python ")):
            assert_output(step)
        else:
            pytest.fail(f"{block.place}: only make, dragoman and python are shown, not {step.command!r}")


def assert_target_exists(step: Step) -> None:
    for target in step.command.split()[1:]:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), step.command


@pytest.mark.parametrize("page", STEPWISE, ids=lambda page: page.name)
def test_a_page_that_builds_programs_step_by_step_works_in_order(page: Path, tmp_path: Path) -> None:
    """A file that a shown command names is only saved, as a reader does; another is run, to know that it works."""
    shown = " ".join(step.command for block in blocks(page, "console") for step in steps(block))
    for block in blocks(page, "python", "console"):
        if block.language == "console":
            for step in steps(block):
                assert_output(step, tmp_path)
            continue
        assert block.file, f"{block.place}: name the file"
        (tmp_path / block.file).write_text(block.text)
        if block.file in shown:
            continue
        is_test = block.file.startswith("test_")
        how = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_test else ["-W", "error"]
        done = run([sys.executable, *how, block.file], tmp_path)
        assert done.returncode == 0, f"{block.place}: {done.stdout}{done.stderr}"


def test_the_tutorial_says_to_run_every_program_that_it_shows() -> None:
    page = ROOT / "docs" / "tutorial.md"
    commands = [step.command for block in blocks(page, "console") for step in steps(block)]
    files = {block.file for block in blocks(page, "python")}
    assert files == {"agent.py", "client.py", "make_notes.py", "test_both.py"}
    assert [file for file in files if not any(str(file) in command.split() for command in commands)] == []
    # The name of a file is in the text above it: readers do not see what stands behind the fence.
    unnamed = re.findall(r"^(?!.*`\w+\.py`)[^\n]*\n\n```python file=(\S+)", page.read_text(), flags=re.MULTILINE)
    assert unnamed == []


def scripts_of(workflow: str) -> list[str]:
    """The shell scripts of a workflow's steps."""
    found = re.findall(r"^( *)(?:- )?run: \|\n((?:\1  .*\n|\n)+)", workflow, flags=re.MULTILINE)
    return [textwrap.dedent(text) for _, text in found]


def test_the_commands_of_the_workflow_do_what_the_page_says(tmp_path: Path) -> None:
    review, fix = blocks(ROOT / "docs" / "ci.md", "yaml")
    place, temporary = tmp_path / "checkout", tmp_path / "temporary"
    place.mkdir()
    temporary.mkdir()
    env = {
        **ENVIRONMENT,
        "AGENT": "scripted",
        "BASE": "main",
        "RUNNER_TEMP": str(temporary),
        "GITHUB_STEP_SUMMARY": str(temporary / "summary.md"),
        "DRAGOMAN_HOME": str(tmp_path / "home"),
    }
    git = "git -c user.name=a -c user.email=a@example.com"
    commit = f"{git} commit -q --allow-empty -m a && git update-ref refs/remotes/origin/main HEAD"
    change = f"echo changed > a.txt && git add a.txt && {git} commit -q -m b"
    assert run(f"git init -q . && {commit} && {change}", place, env).returncode == 0
    install, ask, show = scripts_of(review.text)
    assert install.startswith("pip install dragoman\n")
    for script in (ask, show, *scripts_of(fix.text)):
        done = run(["bash", "-e", "-c", script], place, env)
        assert done.returncode == 0, done.stderr
    summary = (temporary / "summary.md").read_text()
    assert "Review this change." in summary
    assert "+changed" in summary


def assert_output(step: Step, cwd: Path = ROOT) -> None:
    """Lines are compared as shell patterns, so that `*` stands for what differs between machines; `...` for lines."""
    program, _, rest = step.command.partition(" ")
    command = step.command
    if program == "dragoman":
        command = f"{shlex.join(our_programs().command('-m', 'dragoman'))} {rest}"
    elif rest.endswith(".py") and " " not in rest:
        command = shlex.join(our_programs().command(rest))
    done = run(command, cwd)
    assert done.returncode == 0, done.stderr
    if not step.output.strip():
        return
    shown, printed = step.output.rstrip().splitlines(), done.stdout.rstrip().splitlines()
    if shown[-1] == "...":
        shown, printed = shown[:-1], printed[: len(shown) - 1]
    assert len(shown) == len(printed), done.stdout
    wrong = [(pattern, line) for pattern, line in zip(shown, printed, strict=True) if not fnmatchcase(line, pattern)]
    assert not wrong, f"{step.command}: {wrong}"


def test_readme_shows_an_agent_and_a_client_of_ten_lines() -> None:
    agent, client = blocks(ROOT / "README.md", "python")[:2]
    for block in (agent, client):
        assert len([line for line in block.text.splitlines() if line.strip()]) <= 10
    assert agent.text == (ROOT / "examples" / "echo_agent.py").read_text()


def test_readme_client_drives_the_readme_agent(tmp_path: Path) -> None:
    program = tmp_path / "client.py"
    program.write_text(blocks(ROOT / "README.md", "python")[1].text)
    done = run([sys.executable, "-W", "error", str(program)])
    assert "You said: What is this project?" in done.stdout, done.stderr
    assert "end_turn" in done.stdout


def test_the_first_command_of_the_readme_is_there_after_make_run() -> None:
    """A user who has run `make run` starts the program with what is installed: no other installer is needed."""
    first = blocks(ROOT / "README.md", "sh")[0].text.split()[0]
    assert first == ".venv/bin/dragoman"
    if Path(sys.prefix) == ROOT / ".venv":
        assert run([str(ROOT / first), "--version"]).stdout.startswith("dragoman ")


@pytest.mark.parametrize("name", GENERATED)
def test_generated_page_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == GENERATED[name](), "run make docs"


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken
