"""What the documentation shows is what happens: its programs run, its commands print what stands below them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.project.pages import PAGES, Block, Step, blocks, steps
from tests.project.sources import ROOT
from tools.pages import GENERATED

PROGRAMS = [block for page in PAGES for block in blocks(page, "python")]
CONSOLES = [block for page in PAGES for block in blocks(page, "console")]
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}


def run(command: list[str] | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=ROOT,
        env=ENVIRONMENT,
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
    done = run([sys.executable, "-W", "error", str(program)])
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


def assert_output(step: Step) -> None:
    """Lines are compared as shell patterns, so that `*` stands for what differs between machines; `...` for lines."""
    done = run(step.command)
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
