"""Real agents in version 2 of the protocol, and behind the guard."""

from __future__ import annotations

import sys

import pytest

from tests.interop.agents.installed_agent import Done, InstalledAgent

pytestmark = pytest.mark.timeout(180)

HELLO = "Hello from the scripted model."
VERSION_2 = ("claude", "wrapped-claude")
"""The agents that answer version 2."""


def guarded(installed: InstalledAgent, words: tuple[str, ...], *guard: str) -> Done:
    """A run of `exec` with the guard in front of the agent's command."""
    front = (sys.executable, "-m", "dragoman", "guard", *guard, "--")
    command = ("exec", "--output", "json", *words, "--", *front, *installed.agent.command)
    return installed.run(*command, env=installed.agent.env)


@pytest.mark.parametrize("protocol", ["2", "auto"])
def test_a_bridge_that_speaks_version_2_is_driven_in_it(installed: InstalledAgent, protocol: str) -> None:
    if installed.name not in VERSION_2:
        pytest.skip("it speaks version 1")
    done = installed.exec("--protocol", protocol, "Hello")
    assert (done.code, done.result["text"].strip()) == (0, HELLO), done
    new = installed.work / "new.txt"
    done = installed.exec("--protocol", protocol, "--allow", "edit:new.txt", f"WRITE {new} one two")
    assert done.code == 0, done
    assert new.read_text() == "one two\n"
    assert [permission["action"] for permission in done.result["permissions"]] == ["allow"]
    assert str(new) in [change["path"] for change in done.result["files_changed"]]
    refused = installed.exec("--protocol", protocol, "--deny", "execute", "RUN touch ran.txt")
    assert not (installed.work / "ran.txt").exists(), refused


def test_behind_the_guard_an_agent_does_the_same(installed: InstalledAgent) -> None:
    done = guarded(installed, ("Hello",))
    assert (done.code, done.result["text"].strip()) == (0, HELLO), done
    new = installed.work / "new.txt"
    done = guarded(installed, ("--allow", "edit:new.txt", f"WRITE {new} one two"))
    assert done.code == 0, done
    assert new.read_text() == "one two\n"


def test_a_rule_of_the_guard_holds_whatever_the_editor_allows(installed: InstalledAgent) -> None:
    done = guarded(installed, ("--allow", "execute", "RUN touch ran.txt"), "--deny", "execute")
    assert not (installed.work / "ran.txt").exists(), done
    verified = installed.run("audit", "verify")
    assert verified.code == 0, verified
