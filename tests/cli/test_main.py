"""The entry: which verb runs, and how every ending becomes one exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from dragoman import AgentExited, CapabilityError, ConfigError, ConnectionClosed, RequestError, __version__
from dragoman.cli import exits, table
from dragoman.cli.command import CliCall, CliCommand
from dragoman.cli.main import main

Captured = pytest.CaptureFixture[str]
DRAGOMAN = [sys.executable, "-m", "dragoman"]


def test_help_names_every_verb_and_shows_examples(capsys: Captured) -> None:
    assert main(["--help"]) == exits.OK
    out, err = capsys.readouterr()
    assert err == ""
    for verb in table.COMMANDS:
        assert verb in out.split()
    for verb in table.USE:
        assert table.COMMANDS[verb] in out
    for example in table.EXAMPLES:
        assert example in out
    assert len(out.splitlines()) <= 32  # with the prompt of the shell it fits where a newcomer looks
    assert max(map(len, out.splitlines())) <= 100


def test_help_all_has_a_line_about_every_verb(capsys: Captured) -> None:
    assert main(["--help", "all"]) == exits.OK
    out = capsys.readouterr().out
    for verb, summary in table.COMMANDS.items():
        assert f"  {verb} " in out
        assert summary in out


@pytest.mark.parametrize("words", [["exec"], []])
def test_the_command_help_shows_what_the_option_shows(words: list[str], capsys: Captured) -> None:
    for more in ([], ["all"]):
        assert main(["help", *words, *more]) == exits.OK
        by_command = capsys.readouterr().out
        assert main([*words, "--help", *more]) == exits.OK
        assert capsys.readouterr().out == by_command


def test_every_verb_is_in_one_group() -> None:
    grouped = [*table.USE, *(verb for names in table.GROUPS.values() for verb in names)]
    assert sorted(grouped) == sorted(table.COMMANDS)


@pytest.mark.convention("help", "exec")
def test_the_help_of_exec_has_two_parts(capsys: Captured) -> None:
    assert main(["exec", "--help"]) == exits.OK
    everyday = capsys.readouterr().out
    assert main(["exec", "--help", "all"]) == exits.OK
    whole = capsys.readouterr().out
    hidden = [option.flag for option in table.load("exec").options if f"{option.flag} " not in everyday]
    assert f"{len(hidden)} more options" in everyday
    assert all(option.flag in whole for option in table.load("exec").options)
    assert len(everyday.splitlines()) <= 48
    assert "exit code" in whole


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_version_is_one_line(word: str, capsys: Captured) -> None:
    assert main([word]) == exits.OK
    assert capsys.readouterr().out == f"dragoman {__version__}\n"


def test_without_words_the_help_goes_to_stderr_as_a_usage_error(capsys: Captured) -> None:
    assert main([]) == exits.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err == table.help_text()


@pytest.mark.parametrize("verb", table.COMMANDS)
def test_every_verb_has_help_with_examples(verb: str, capsys: Captured) -> None:
    assert main([verb, "--help"]) == exits.OK
    out, _ = capsys.readouterr()
    assert out.startswith(f"usage: dragoman {verb}")
    assert f"examples:\n  {'eval' if verb == 'completion' else f'dragoman {verb}'}" in out


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("verson", "did you mean version?"),
        ("sesions", "did you mean sessions?"),
        ("frobnicate", "see dragoman --help"),
        ("--versoin", "did you mean --version?"),
    ],
)
def test_unknown_word_suggests_the_nearest(word: str, hint: str, capsys: Captured) -> None:
    assert main([word]) == exits.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    what = "option" if word.startswith("-") else "command"
    assert err == f"dragoman: error: unknown {what} {word!r}\nhint: {hint}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["version", "--jsn"],
        ["version", "extra"],
        ["version", "--js"],  # an abbreviation
        ["version", "--methods", "--side"],
        ["version", "--side", "server"],
        ["completion"],
        ["completion", "tcsh"],
        ["version", "--", "agent"],
    ],
)
def test_wrong_words_are_a_usage_error_with_a_hint(words: list[str], capsys: Captured) -> None:
    assert main(words) == exits.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    message, hint = err.splitlines()
    assert message.startswith("dragoman: error: ")
    assert hint == f"hint: see dragoman {words[0]} --help"


def run_raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def run(call: CliCall) -> int:
        raise error

    monkeypatch.setattr(table, "load", lambda verb: CliCommand(run, "fails"))
    return main(["version"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exits.CliError("no", exit_code=exits.TIMED_OUT), exits.TIMED_OUT),
        (ConfigError("agents.json: no command"), exits.USAGE),
        (AgentExited(3, "boom"), exits.AGENT_DIED),
        (ConnectionClosed("gone"), exits.AGENT_DIED),
        (RequestError.auth_required(), exits.AUTH_REQUIRED),
        (RequestError.internal_error(), exits.AGENT_ERROR),
        (CapabilityError("the agent cannot load sessions"), exits.AGENT_ERROR),
        (FileNotFoundError(2, "No such file or directory", "prompt.txt"), exits.USAGE),
        (ZeroDivisionError("division by zero"), exits.BUG),
        (KeyboardInterrupt(), exits.CANCELLED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_ending_has_its_exit_code(error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A failed write leaves nothing to flush: keep that from pointing the test runner's own stdout elsewhere.
    monkeypatch.setattr("dragoman.cli.main._forget_output", lambda: None)
    assert run_raising(error, monkeypatch) == code


def test_message_of_several_lines_is_shown_as_one(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    run_raising(exits.CliError("first\nsecond", hint="do\nthis"), monkeypatch)
    assert capsys.readouterr().err == "dragoman: error: first second\nhint: do this\n"


def test_a_bug_shows_its_traceback_only_when_asked(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    run_raising(ZeroDivisionError("oops"), monkeypatch)
    quiet = capsys.readouterr().err
    assert quiet.splitlines()[0] == "dragoman: error: internal error: ZeroDivisionError: oops"
    assert "Traceback" not in quiet
    monkeypatch.setenv("DRAGOMAN_DEBUG", "1")
    run_raising(ZeroDivisionError("oops"), monkeypatch)
    assert "Traceback" in capsys.readouterr().err


def test_exit_codes_are_the_documented_ones() -> None:
    codes = [exits.OK, exits.AGENT_ERROR, exits.USAGE, exits.TIMED_OUT, exits.AGENT_DIED, exits.CANNOT_ASK]
    assert [*codes, exits.STOPPED_EARLY, exits.AUTH_REQUIRED] == list(range(8))
    assert (exits.CANCELLED, exits.TERMINATED) == (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert exits.PIPE_CLOSED == 128 + signal.SIGPIPE


def test_reader_that_goes_away_ends_the_run_quietly() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*DRAGOMAN, "version", "--methods"], stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=30
        )
    finally:
        os.close(write_end)
    assert done.returncode == exits.PIPE_CLOSED
    assert done.stderr == b""


def test_output_that_cannot_be_written_is_an_error_not_a_success() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*DRAGOMAN, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=30
        )
    assert done.returncode == exits.USAGE
    assert done.stderr == "dragoman: error: No space left on device\nhint: free some space, and try again\n"


def test_ctrl_c_ends_a_running_verb_with_130_and_no_traceback() -> None:
    program = """
import signal, sys
from dragoman.cli import command, main, table

def run(call):
    print("running", flush=True)
    signal.pause()

table.load = lambda verb: command.CliCommand(run, "waits")
sys.exit(main.main(["version"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
    assert child.returncode == exits.CANCELLED
    assert err == ""


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_nothing_but_the_table(word: str) -> None:
    program = f"""
import sys
before = set(sys.modules)
from dragoman.cli.main import main
main([{word!r}])
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    inner = ["", "._lazy", "._version", ".cli", ".cli.exits", ".cli.main", ".cli.table"]
    assert done.stderr.split() == [f"dragoman{name}" for name in inner]
