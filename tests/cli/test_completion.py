"""Completion scripts: every verb, option and choice is offered, by the shells themselves where they are installed."""

from __future__ import annotations

import subprocess

import pytest

from dragoman.cli import exits, table
from dragoman.cli.main import main
from tests import machine


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == exits.OK
    return capsys.readouterr().out


def complete_in_bash(script: str, *words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    program = f"""{script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"
_dragoman
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-uc", program, "bash", *words], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["dragoman", ""], [*table.COMMANDS, "--help", "--version"]),
        (["dragoman", "me"], []),
        (["dragoman", "mc"], ["mcp"]),
        (["dragoman", "version", ""], ["--methods", "--side", "--json", "--help"]),
        (["dragoman", "version", "--side", ""], ["agent", "client", "protocol"]),
        (["dragoman", "version", "--side", "c"], ["client"]),
        (["dragoman", "completion", ""], ["bash", "zsh", "fish", "--help"]),
        (["dragoman", "version", "--j"], ["--json"]),
        (["dragoman", "agent", "im"], ["import"]),
        (["dragoman", "agent", "import", "co"], ["cohere", "codex"]),
        (["dragoman", "agent", "import", "--dr"], ["--dry-run"]),
        (["dragoman", "unheard", ""], []),
        (["dragoman", "version", "--", "--"], []),
    ],
)
def test_bash_offers(words: list[str], offered: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert complete_in_bash(script("bash", capsys), *words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_verb_option_and_choice_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    for verb in table.COMMANDS:
        assert verb in text
        for option in table.load(verb).options:
            assert option.flag.removeprefix("--") in text
            assert " ".join(option.choices) in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if reason := machine.why_missing(shell):
        pytest.skip(reason)
    subprocess.run([shell, "-n"], input=script(shell, capsys), text=True, check=True, timeout=30)
