"""Which arguments and which environment a request to run something means."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.process.command import child_environment, find_program, resolve_command

ENV = {"PATH": "/usr/bin:/bin"}


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.rule(284)
@pytest.mark.parametrize("line", ["touch x && echo y", "ls /tmp", "ls ", "A=1 make\ntest", "no-such-program -x"])
def test_a_command_with_white_space_that_is_not_a_program_is_a_shell_line(line: str, tmp_path: Path) -> None:
    assert resolve_command(line, [], ENV, str(tmp_path)) == (["/bin/sh", "-c", line], True)


@pytest.mark.rule(284)
@pytest.mark.parametrize(
    ("command", "args"),
    [("ls", []), ("ls", ["a b"]), ("ls -l", ["x"]), ("no-such-program", []), ("ls;id", []), ("", []), ("  ", [])],
)
def test_everything_else_is_run_as_it_was_sent(command: str, args: list[str], tmp_path: Path) -> None:
    assert resolve_command(command, args, ENV, str(tmp_path)) == ([command, *args], False)


def test_a_program_may_have_white_space_in_its_name(tmp_path: Path) -> None:
    path = program(tmp_path / "my tools" / "run it")
    assert resolve_command(str(path), [], ENV, "/") == ([str(path)], False)
    assert resolve_command("run it", [], {"PATH": str(path.parent)}, "/") == (["run it"], False)
    assert resolve_command("./my tools/run it", [], ENV, str(tmp_path)) == (["./my tools/run it"], False)


def test_programs_are_looked_for_where_the_command_will_run(tmp_path: Path) -> None:
    path = program(tmp_path / "bin" / "tool")
    (tmp_path / "bin" / "note").write_text("no program")
    assert find_program("tool", {"PATH": f"/nowhere:{path.parent}"}, "/") == str(path)
    assert find_program("tool", {"PATH": "bin"}, str(tmp_path)) == str(path)
    assert find_program("bin/tool", ENV, str(tmp_path)) == str(path)
    for name in ("tool", "./note", "bin/note", "bin", "", "a\0b"):
        assert find_program(name, ENV, str(tmp_path)) is None, name


def test_an_environment_has_what_programs_need_and_no_secret() -> None:
    source = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_TIME": "C",
        "SECRET_X": "canary",
        "OPENAI_API_KEY": "canary",
        "SSH_AUTH_SOCK": "/tmp/canary",
        "LD_PRELOAD": "/tmp/canary",
    }
    found = child_environment({"ADDED": "1"}, source=source)
    assert "canary" not in str(found)
    assert {name: found[name] for name in ("PATH", "HOME", "LC_TIME", "ADDED")} == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_TIME": "C",
        "ADDED": "1",
    }


def test_variables_that_were_named_are_kept_and_the_request_has_the_last_word() -> None:
    source = {"PATH": "/bin", "SECRET_X": "known", "TERM": "vt100"}
    found = child_environment({"PATH": "/mine", "PAGER": "less"}, kept={"SECRET_X"}, source=source)
    assert (found["SECRET_X"], found["PATH"], found["PAGER"], found["TERM"]) == ("known", "/mine", "less", "vt100")


@pytest.mark.parametrize("source", [{}, {"TERM": "dumb"}])
def test_a_program_without_a_terminal_still_gives_its_commands_a_good_one(source: dict[str, str]) -> None:
    assert child_environment({}, source=source)["TERM"] == "xterm-256color"
    assert child_environment({"TERM": "dumb"}, source=source)["TERM"] == "dumb"
