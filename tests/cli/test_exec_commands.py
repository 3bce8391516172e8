"""Commands of the built-in agent in `dragoman exec`: safe ones need no rule, and mode `auto` has a boundary."""

from __future__ import annotations

import json
import os

import pytest

from dragoman.process.sandbox import available
from tests import machine
from tests.cli.exec_kit import Place
from tests.cli.ways import place, plain_place, shared_host
from tests.process.sandbox.kit import PYTHON

__all__ = ["place", "plain_place", "shared_host"]

SCRIPTED = ("--model", "scripted", "--output", "json")
needs_sandbox = machine.needs_sandbox()


@pytest.mark.parametrize("mode", ["ask", "edit", "plan"])
def test_a_safe_command_needs_no_rule(place: Place, mode: str) -> None:
    (place.project / "a.txt").write_text("a")
    done = place.run(*SCRIPTED, "--mode", mode, "run ls -la | head -n 5\nsay {result}")
    assert done.code == 0, done.err
    assert "a.txt" in done.result["text"]
    assert done.result["permissions"] == []
    assert done.result["violations"] == []


@pytest.mark.parametrize("rule", ["execute:ls *", "execute", "dragoman@execute"])
def test_a_deny_of_the_run_holds_for_safe_commands(place: Place, rule: str) -> None:
    done = place.run(*SCRIPTED, "--fail-on-deny", "--deny", rule, "run ls -la\nsay {result}")
    assert done.code == 9
    assert f"denied by rule {rule} (--deny)" in done.result["text"]
    assert done.result["violations"] == []


def test_a_deny_of_a_file_holds_for_a_command_that_reads_it_in_a_folder_below(place: Place) -> None:
    (place.project / ".git").mkdir()
    (place.project / "sub").mkdir()
    (place.project / "sub" / "key.txt").write_text("the key")
    words = (*SCRIPTED, "--deny", "read:sub/key.txt", "--cwd", str(place.project / "sub"))
    done = place.run(*words, "run cat key.txt\nsay {result}")
    assert "the key" not in done.out
    assert "the key" in place.run(*SCRIPTED, "--cwd", str(place.project / "sub"), "run cat key.txt\nsay {result}").out


def test_the_settings_switch_safe_commands_off(plain_place: Place) -> None:
    settings = plain_place.home / "dragoman" / "config" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"safe_commands": False}))
    assert plain_place.run(*SCRIPTED, "run ls").code == 5
    settings.write_text(json.dumps({"safe_commands": "no"}))
    assert "safe_commands must be true or false" in plain_place.run(*SCRIPTED, "run ls").err


@needs_sandbox
def test_mode_auto_runs_commands_in_the_sandbox(place: Place) -> None:
    done = place.run(*SCRIPTED, "--mode", "auto", "run touch made\nsay {result}")
    assert done.code == 0, done.err
    assert done.result["permissions"] == []
    assert done.result["text"] == "[no output, exit code 0]\n[ran in the sandbox]"
    assert (place.project / "made").exists()


@needs_sandbox
def test_mode_auto_does_not_leave_the_sandbox_without_permission(place: Place) -> None:
    line = f"{PYTHON} -c \"import socket; socket.create_connection(('192.0.2.7', 443), 2)\""
    done = place.run(*SCRIPTED, "--mode", "auto", f"run {line}\nsay {{result}}")
    assert done.code == 5, done.err
    assert f"which kept from it the network ({os.path.basename(PYTHON)[:15]}" in done.result["text"]
    assert "it was not run outside the sandbox. Not permitted: " in done.result["text"]
    denied = place.run(*SCRIPTED, "--mode", "auto", "--deny", "execute", "run touch made\nsay {result}")
    assert "denied by rule execute (--deny)" in denied.result["text"]
    assert not (place.project / "made").exists()


def test_the_doctor_states_which_sandbox_is_in_force(plain_place: Place) -> None:
    done = plain_place.run("doctor", "--model", "scripted", "--json", verb="agent")
    assert done.code == 0, done.err
    (found,) = [finding for finding in json.loads(done.out)["findings"] if finding["what"] == "sandbox"]
    backends = available().backends  # as the program finds them, at this moment
    if backends:
        assert found["state"] == "ok"
        assert found["detail"].startswith(f"{backends[0]}. Commands run ")
        assert str(plain_place.project) in found["detail"]
        assert "It does not stop" in found["detail"]
    else:
        assert found["state"] == "note"
        assert "mode auto is not offered here" in found["detail"]
