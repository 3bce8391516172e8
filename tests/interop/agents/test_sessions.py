"""Sessions of real agents outlive the process: they are listed, and a later run goes on with one."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.interop.agents.stage import Stage

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


def later(stage: Stage) -> dict[str, str]:
    """The environment of a run that begins when a session of the run before can be loaded."""
    if stage.name != "gemini":
        return {}
    clock = stage.work.parent / "later.cjs"
    clock.write_text(_LATER)
    return {"NODE_OPTIONS": f"--require {clock}"}


def test_session_is_listed_after_its_process_has_ended(stage: Stage) -> None:
    session_id = stage.exec("Hello").result["session_id"]
    listed = stage.run("sessions", "list", "-a", stage.name, "--cwd", str(stage.work), "--json")
    if stage.name == "gemini":
        assert listed.code == 2, "it can list its sessions now: drop this exception"
        assert "hint: not every agent can list its sessions" in listed.err
    else:
        assert listed.code == 0, listed
        assert [found["session_id"] for found in json.loads(listed.out)] == [session_id]


def test_later_run_goes_on_with_a_session(stage: Stage) -> None:
    first = stage.exec("My favourite flower is the ranunculus.")
    assert first.code == 0, first
    session_id = first.result["session_id"]
    words = ("exec", "-a", stage.name, "--output", "json", "--resume", session_id, "Hello again, COUNT on me.\nCOUNT 3")
    second = stage.run(*words, env=later(stage))
    assert second.code == 0, second
    assert second.result["session_id"] == session_id
    # What was said before belongs to the session, and not to this turn.
    assert second.result["text"].split() == ["1", "2", "3"]
    asked = [exchange.body for exchange in stage.server.exchanges if exchange.intent.verb == "count"]
    assert asked
    assert "ranunculus" in asked[0]


def test_session_that_does_not_exist_is_an_error(stage: Stage) -> None:
    done = stage.exec("--resume", "00000000-0000-4000-8000-000000000000", "Hello")
    assert done.code == 1, done
    assert done.result["error"]["kind"] == "agent_error"
    assert done.result["text"] == ""
