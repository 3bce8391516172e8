"""An editor started from a menu has no PATH; the login shell knows one."""

import os
from pathlib import Path

import pytest

from dragoman.builtin.environment import RESOLVING, login_environment, needs_login_environment
from tests.process.kit import Deaths

BARE = "/usr/bin:/bin:/usr/sbin:/sbin"


@pytest.mark.parametrize(
    ("env", "is_needed"),
    [
        ({}, True),
        ({"PATH": ""}, True),
        ({"PATH": ":"}, True),
        ({"PATH": "", "SHLVL": "1"}, True),
        ({"PATH": BARE}, True),
        ({"PATH": "/usr/local/bin/:/usr/bin/:/bin"}, True),
        ({"PATH": BARE, "SHLVL": "1"}, False),
        ({"PATH": f"/home/someone/.local/bin:{BARE}"}, False),
        ({"PATH": f"{BARE}:/opt/homebrew/bin"}, False),
        ({"PATH": BARE, RESOLVING: "1"}, False),
        ({RESOLVING: "1"}, False),
    ],
)
def test_a_bare_path_that_no_shell_gave_needs_the_login_shell(env: dict[str, str], is_needed: bool) -> None:
    assert needs_login_environment(env) is is_needed


def make_shell(folder: Path, *lines: str, name: str = "fakesh") -> str:
    """A shell whose start files are `lines`; the command of -c runs after them."""
    shell = folder / name
    arguments = "while [ $# -gt 1 ]; do shift; done"
    shell.write_text("\n".join(["#!/bin/sh", f'echo "$@" > {folder}/arguments', *lines, arguments, 'eval "$1"', ""]))
    shell.chmod(0o755)
    return str(shell)


def editor(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": BARE, "HOME": str(folder), **more}


def test_path_of_the_shell_comes_first_and_ours_is_kept(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "export PATH=/opt/tools/bin:/usr/bin")
    found = login_environment(editor(tmp_path), shell=shell)
    assert found is not None
    assert found["PATH"] == "/opt/tools/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    assert (tmp_path / "arguments").read_text().startswith("-l -i -c ")


def test_only_unset_variables_are_added(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "export EDITOR=vi NODE=/n LANG=C.UTF-8", "export LINES_OF_TEXT='a\nb=c'")
    found = login_environment(editor(tmp_path, LANG="de_DE"), shell=shell)
    assert found is not None
    assert (found["EDITOR"], found["NODE"], found["LANG"]) == ("vi", "/n", "de_DE")
    assert found["LINES_OF_TEXT"] == "a\nb=c"


def test_what_is_true_of_the_shell_alone_is_left_out(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "export SHLVL=3 PS1=x OLDPWD=/ TERM=dumb A=1")
    found = login_environment(editor(tmp_path), shell=shell)
    assert found is not None
    assert found["A"] == "1"
    assert not {"SHLVL", "PS1", "OLDPWD", "PWD", "TERM", "_", RESOLVING} & found.keys()


def test_output_of_start_files_is_not_taken_for_a_variable(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "echo Welcome=back", "echo oops >&2", "export A=1", "trap 'echo BYE=1' EXIT")
    found = login_environment(editor(tmp_path), shell=shell)
    assert found is not None
    assert found["A"] == "1"
    assert not {"Welcome", "BYE"} & found.keys()


def test_a_shell_is_asked_once(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, f"echo asked >> {tmp_path}/count", "export A=1")
    first, second = (login_environment(editor(tmp_path, B=b), shell=shell) for b in "12")
    assert first is not None
    assert second is not None
    assert (first["A"], first["B"], second["A"], second["B"]) == ("1", "1", "1", "2")
    assert (tmp_path / "count").read_text() == "asked\n"


def test_shell_of_the_environment_is_asked(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "export A=1")
    found = login_environment(editor(tmp_path, SHELL=shell))
    assert found is not None
    assert found["A"] == "1"


def test_a_shell_without_a_login_option_is_started_without_one(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "export A=1", name="tcsh")
    assert login_environment(editor(tmp_path), shell=shell) is not None
    assert (tmp_path / "arguments").read_text().startswith("-c ")


def test_start_file_that_hangs_is_given_up_with_everything_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    shell = make_shell(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid", f"read -r line < {pipe}")
    assert login_environment(editor(tmp_path), shell=shell, seconds=0.5) is None
    assert Deaths(int((tmp_path / "pid").read_text())).wait() == []
    # It would hang again, so it is not started again.
    assert login_environment(editor(tmp_path), shell=shell, seconds=3600) is None


def test_a_background_program_that_holds_the_pipe_delays_nothing(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid", "export A=1")
    found = login_environment(editor(tmp_path), shell=shell, seconds=20)
    assert found is not None
    assert found["A"] == "1"
    assert Deaths(int((tmp_path / "pid").read_text())).wait() == []


@pytest.mark.parametrize("lines", [["exit 3"], ["echo nothing", "exec true"]])
def test_shell_that_says_nothing_changes_nothing(tmp_path: Path, lines: list[str]) -> None:
    assert login_environment(editor(tmp_path), shell=make_shell(tmp_path, *lines)) is None


@pytest.mark.parametrize("shell", ["/nowhere/sh", "/etc/passwd", "/"])
def test_shell_that_cannot_run_changes_nothing(tmp_path: Path, shell: str) -> None:
    assert login_environment(editor(tmp_path), shell=shell) is None


def test_nothing_is_started_when_nothing_is_missing(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "export A=1")
    assert login_environment(editor(tmp_path, SHLVL="1"), shell=shell) is None
    assert not (tmp_path / "arguments").exists()
