"""`dragoman exec` with real agents: what they were asked for happens on the disk, and the exit code tells the truth."""

from __future__ import annotations

import pytest

from tests.interop.agents.recipes import version_of
from tests.interop.agents.stage import Done, Stage

pytestmark = pytest.mark.timeout(180)

HELLO = "Hello from the scripted model."


def succeeded(done: Done) -> Done:
    assert done.code == 0, done
    assert done.result["stop_reason"] == "end_turn"
    return done


def test_says_what_its_model_says(stage: Stage) -> None:
    done = succeeded(stage.exec("Hello"))
    assert done.result["text"].strip() == HELLO
    assert done.result["agent"]["version"] == version_of(stage.name)
    assert not done.result["scripted"]


def test_runs_as_a_command_after_two_dashes(stage: Stage) -> None:
    done = stage.run("exec", "Hello", "--", *stage.agent.command, env=stage.agent.env)
    assert (done.code, done.out.strip()) == (0, HELLO), done


def test_reads_a_file(stage: Stage) -> None:
    notes = stage.work / "notes.txt"
    notes.write_text("alpha\nbeta\n")
    done = succeeded(stage.exec(f"READ {notes}"))
    assert "alpha" in done.result["text"]
    assert done.result["permissions"] == []


def test_writes_a_file_that_a_rule_allows(stage: Stage) -> None:
    new = stage.work / "new.txt"
    done = succeeded(stage.exec("--allow", "edit:new.txt", f"WRITE {new} one two"))
    assert new.read_text() == "one two\n"
    [permission, *_] = done.result["permissions"]
    assert (permission["action"], permission["rule"]) == ("allow", "edit:new.txt")
    assert permission["option_kind"] == "allow_once"
    assert [change["path"] for change in done.result["files_changed"]] == [str(new)]


def test_edits_a_file_that_a_rule_allows(stage: Stage) -> None:
    notes = stage.work / "notes.txt"
    notes.write_text("alpha\nbeta\n")
    done = succeeded(stage.exec("--allow", "edit:*.txt", f"EDIT {notes} alpha omega"))
    assert notes.read_text() == "omega\nbeta\n"
    [change] = done.result["files_changed"]
    assert (change["path"], change["change"]) == (str(notes), "modified")


def test_runs_a_command_that_a_rule_allows(stage: Stage) -> None:
    done = succeeded(stage.exec("--allow", "execute:touch ran.txt", "RUN touch ran.txt"))
    assert (stage.work / "ran.txt").exists()
    [permission] = done.result["permissions"]
    assert (permission["action"], permission["rule"]) == ("allow", "execute:touch ran.txt")
    assert "execute:touch ran.txt" in done.err


def test_does_not_run_another_command_than_the_rule_says(stage: Stage) -> None:
    done = stage.exec("--allow", "execute:touch ran.txt", "RUN touch ran.txt; touch more.txt")
    assert done.code == 5, done
    assert not list(stage.work.iterdir())


def test_does_not_run_what_a_rule_denies(stage: Stage) -> None:
    done = stage.exec("--deny", "execute", "RUN touch ran.txt")
    # A refusal ends the turn of this one agent; to the others it is news for their model.
    assert done.code == (6 if stage.name == "codex" else 0), done
    assert not list(stage.work.iterdir())
    [permission] = done.result["permissions"]
    assert (permission["action"], permission["rule"]) == ("deny", "execute")


@pytest.mark.parametrize("prompt", ["RUN touch new.txt", "WRITE {work}/new.txt one"])
def test_does_nothing_that_nobody_can_be_asked_about(stage: Stage, prompt: str) -> None:
    done = stage.exec(prompt.replace("{work}", str(stage.work)))
    assert done.code == 5, done
    assert not list(stage.work.iterdir())
    assert {permission["decided_by"] for permission in done.result["permissions"]} == {"nobody"}


def test_error_of_the_model_is_not_taken_for_an_answer(stage: Stage) -> None:
    done = stage.exec("ERROR 400")
    if stage.name == "copilot":
        # It says so in words and ends its turn as if all were well: nobody could know better.
        assert done.code == 0
        assert done.result["text"].startswith("Error: 400")
    else:
        assert done.code == 1, done
        assert done.result["error"]["kind"] == "agent_error"
