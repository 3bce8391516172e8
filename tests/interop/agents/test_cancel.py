"""Ctrl-C while a real agent works: the turn is cancelled, the exit code says so, and nothing goes on behind it."""

from __future__ import annotations

import pytest

from tests.interop.agents.installed_agent import Done, InstalledAgent

pytestmark = pytest.mark.timeout(180)


def assert_cancelled(done: Done) -> None:
    assert done.code == 130, done
    assert done.result["error"]["kind"] == "cancelled"
    # It was the agent that ended the turn, in time and in the way the protocol asks for.
    assert done.result["stop_reason"] == "cancelled"


def test_cancelled_while_it_streams(installed: InstalledAgent) -> None:
    with installed.started("SLOW") as running:
        running.until_event("message")
        running.interrupt()
        assert_cancelled(running.end())
    # The model is not kept busy either.
    slow = installed.server.wait_for(
        lambda exchange: exchange.intent.verb == "slow" and bool(exchange.tool_names) and exchange.is_over
    )
    assert slow.has_hung_up


def test_cancelled_while_a_permission_is_open(installed: InstalledAgent) -> None:
    with installed.started("RUN touch ran.txt", at_terminal=True) as running:
        running.until_shown("touch ran.txt")
        running.until_shown(" > ")
        running.interrupt()
        done = running.end()
    assert_cancelled(done)
    assert [permission["action"] for permission in done.result["permissions"]] == ["cancelled"]
    assert not (installed.work / "ran.txt").exists()


def test_cancelled_while_a_command_runs(installed: InstalledAgent) -> None:
    """The command would go on by itself; that it is gone is looked at when the run is over."""
    script = installed.work / "wait.sh"
    script.write_text("#!/bin/sh\ntouch started.txt\nsleep 61\ntouch finished.txt\n")
    script.chmod(0o755)
    with installed.started("--allow", "execute:./wait.sh", "RUN ./wait.sh") as running:
        running.until_file(installed.work / "started.txt")
        running.interrupt()
        assert_cancelled(running.end())
    assert not (installed.work / "finished.txt").exists()
