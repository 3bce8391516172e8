"""Sessions of real agents outlive the process: they are listed, and a later run goes on with one."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.interop.agents.installed_agent import InstalledAgent

pytestmark = pytest.mark.timeout(180)

# Gemini CLI names the file of a session by the minute, and a process that is started in that minute cannot load it
# ("Invalid session identifier"). So its next process finds its clock two minutes ahead, instead of a test that waits.
_LATER: Final = """
const real = Date;
globalThis.Date = class extends real {
  constructor(...given) { given.length ? super(...given) : super(real.now() + 120000); }
  static now() { return real.now() + 120000; }
};
"""


def later(installed: InstalledAgent) -> dict[str, str]:
    """The environment of a run that begins when a session of the run before can be loaded."""
    if installed.name != "gemini":
        return {}
    clock = installed.work.parent / "later.cjs"
    clock.write_text(_LATER)
    return {"NODE_OPTIONS": f"--require {clock}"}


def test_session_is_listed_after_its_process_has_ended(installed: InstalledAgent) -> None:
    session_id = installed.exec("Hello").result["session_id"]
    listed = installed.run("sessions", "list", "-a", installed.name, "--cwd", str(installed.work), "--json")
    assert listed.code == 0, listed
    assert [found["session_id"] for found in json.loads(listed.out)] == [session_id]
    # Gemini CLI cannot list its sessions: they come from the ledger, which is stated.
    assert ("the agent does not list its sessions" in listed.err) is (installed.name == "gemini")


def test_later_run_goes_on_with_a_session(installed: InstalledAgent) -> None:
    first = installed.exec("My favourite flower is the ranunculus.")
    assert first.code == 0, first
    session_id = first.result["session_id"]
    words = (
        "exec",
        "-a",
        installed.name,
        "--output",
        "json",
        "--resume",
        session_id,
        "Hello again, COUNT on me.\nCOUNT 3",
    )
    second = installed.run(*words, env=later(installed))
    assert second.code == 0, second
    assert second.result["session_id"] == session_id
    # What was said before belongs to the session, and not to this turn.
    assert second.result["text"].split() == ["1", "2", "3"]
    asked = [exchange.body for exchange in installed.server.exchanges if exchange.intent.verb == "count"]
    assert asked
    assert "ranunculus" in asked[0]


def test_session_that_does_not_exist_is_an_error(installed: InstalledAgent) -> None:
    done = installed.exec("--resume", "00000000-0000-4000-8000-000000000000", "Hello")
    assert done.code == 1, done
    assert done.result["error"]["kind"] == "agent_error"
    assert done.result["text"] == ""
