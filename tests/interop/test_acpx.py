"""acpx, a headless client of others, drives the built-in agent: exec, sessions, modes, options, cancel, permission.

It is installed by `make interop` with a Node.js of its own; everywhere else these tests say so and are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.interop.agents.recipes import INSTALLED, why_missing
from tests.interop.wire_check import DEFINITIONS, violations

pytestmark = pytest.mark.timeout(180)

SECONDS: Final = 60.0  # two cores, and each command starts Node.js


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Acpx:
    """acpx with a home of its own, where the built-in agent is called `dragoman`."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.home = folder / "home"
        (self.home / ".acpx").mkdir(parents=True)
        agent = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted"]
        # The process that keeps a session's agent ends by itself soon after the last prompt, should a test forget it.
        settings = {"agents": {"dragoman": {"argv": agent}}, "ttl": 20}
        (self.home / ".acpx" / "config.json").write_text(json.dumps(settings))
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        self.env = {**kept, "HOME": str(self.home), "DRAGOMAN_HOME": str(folder / "dragoman"), "NO_COLOR": "1"}
        modules = INSTALLED / "acpx" / "node_modules"
        self.program = [str(modules / ".bin" / "node"), str(modules / "acpx" / "dist" / "cli.js")]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.program, *words],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> Done:
        with self.start(*words) as process:
            try:
                out, err = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
        return Done(process.returncode, out, err)

    def succeed(self, *words: str) -> str:
        done = self.run(*words)
        assert done.code == 0, done
        return done.out

    def left(self) -> list[int]:
        """Processes that have this home."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if f"HOME={self.home}".encode() in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
            except OSError:  # gone, or somebody else's
                continue
        return found


@pytest.fixture
def acpx(tmp_path: Path) -> Iterator[Acpx]:
    if not os.environ.get("DRAGOMAN_REAL_AGENTS"):
        pytest.skip("acpx drives the agent in make interop")
    if reason := why_missing("acpx"):
        pytest.skip(reason)
    running = Acpx(tmp_path)
    try:
        yield running
        assert running.left() == []
    finally:
        for pid in running.left():
            os.kill(pid, 9)


@pytest.fixture
def session(acpx: Acpx) -> Iterator[str]:
    """A session called `work`, closed afterwards, which ends the process that keeps it."""
    acpx.succeed("dragoman", "sessions", "new", "--name", "work")
    yield "work"
    acpx.succeed("dragoman", "sessions", "close", "work")


def frames(out: str) -> list[dict[str, Any]]:
    """What `--format json` prints: every message of the connection, in both directions."""
    return [json.loads(line) for line in out.splitlines()]


def test_exec_plays_a_whole_turn_and_every_update_is_right(acpx: Acpx) -> None:
    out = acpx.succeed(
        "--approve-all", "--format", "json", "dragoman", "exec", "think hm\nsay hello\nwrite a.txt hi\nrun cat a.txt"
    )
    seen = frames(out)
    updates = [each["params"] for each in seen if each.get("method") == "session/update"]
    form = DEFINITIONS["session/update", "Notification"]
    assert [problem for update in updates for problem in violations(form, update)] == []
    kinds = {update["update"]["sessionUpdate"] for update in updates}
    assert {"agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call_update", "usage_update"} <= kinds
    assert seen[-1]["result"]["stopReason"] == "end_turn"
    assert (acpx.work / "a.txt").read_text() == "hi"


def test_it_shows_the_plan_once_notices_as_thoughts_and_a_void_step_apart(acpx: Acpx) -> None:
    out = acpx.succeed("--approve-all", "dragoman", "exec", "todo [x] look; change\nbusy\nsay one\nrun true\ncut")
    assert "[plan]" in out
    assert "look" in out
    assert "to-do" not in out
    thoughts = [line for line in out.splitlines() if line.startswith("[thinking]")]
    assert any("the script makes the provider busy" in line for line in thoughts)
    assert "half an answ\n\n[The answer broke off here and begins again.]\n" in out
    assert "half an answer" in out


def test_an_error_of_the_model_is_shown(acpx: Acpx) -> None:
    done = acpx.run("dragoman", "exec", "say so far\nerror out of tea")
    assert done.code != 0
    assert "out of tea" in done.out + done.err


def test_a_permission_is_asked_and_its_answer_holds(acpx: Acpx) -> None:
    denied = acpx.run("--deny-all", "dragoman", "exec", "write a.txt hi\nsay as you wish")
    assert denied.code == 5, denied
    assert "as you wish" in denied.out
    nobody = acpx.run("--approve-reads", "dragoman", "exec", "read a.txt\nrun touch b.txt")
    assert nobody.code == 5, nobody
    assert list(acpx.work.iterdir()) == []
    acpx.succeed("--approve-all", "dragoman", "exec", "write a.txt hi")
    assert [path.name for path in acpx.work.iterdir()] == ["a.txt"]


def test_sessions_are_kept_and_gone_on_with(acpx: Acpx, session: str) -> None:
    assert "one" in acpx.succeed("dragoman", "-s", session, "say one")
    assert "two" in acpx.succeed("dragoman", "-s", session, "say two")
    id = acpx.succeed("dragoman", "sessions", "list").split()[0]
    assert id.startswith("ses_")
    history = acpx.succeed("dragoman", "sessions", "history", session)
    assert all(words in history for words in ("say one", "say two"))
    # The same session, with the client it was made by gone.
    agent = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted"]
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "sessions", "list", "--json", "--", *agent],
        cwd=acpx.work,
        env=acpx.env,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    assert id in done.stdout
    assert "say one" in done.stdout


def test_mode_and_options_are_set_and_have_their_effect(acpx: Acpx, session: str) -> None:
    assert "plan" in acpx.succeed("dragoman", "set-mode", "plan", "-s", session)
    assert "effort=high" in acpx.succeed("dragoman", "set", "effort", "high", "-s", session)
    assert acpx.run("dragoman", "set-mode", "nonsense", "-s", session).code != 0
    assert acpx.run("dragoman", "set", "effort", "enormous", "-s", session).code != 0
    refused = acpx.succeed("--approve-all", "dragoman", "-s", session, "write a.txt hi")
    assert "only reads and plans" in refused
    assert list(acpx.work.iterdir()) == []
    assert "The mode is edit now" in acpx.succeed("dragoman", "-s", session, "/mode edit")
    acpx.succeed("--approve-all", "dragoman", "-s", session, "write a.txt hi")
    assert (acpx.work / "a.txt").exists()


def test_a_cancel_ends_the_turn_and_the_command_it_runs(acpx: Acpx, session: str) -> None:
    gate = acpx.work / "gate"
    os.mkfifo(gate)
    ends: list[int] = []
    with acpx.start("--approve-all", "dragoman", "-s", session, "run cat gate\nsay never") as prompt:
        try:
            # Opens when the command has opened its end: then it runs, and waits for what is never written.
            opening = threading.Thread(target=lambda: ends.append(os.open(gate, os.O_WRONLY)), daemon=True)
            opening.start()
            opening.join(SECONDS)
            assert ends, "the command was never started"
            acpx.succeed("dragoman", "cancel", "-s", session)
            out, _ = prompt.communicate(timeout=SECONDS)
            with pytest.raises(BrokenPipeError):  # nobody reads any more
                os.write(ends[0], b"x")
        finally:
            prompt.kill()
            for end in ends:
                os.close(end)
    assert "cancelled" in out
    assert "never" not in out
    assert "alive" in acpx.succeed("dragoman", "-s", session, "say alive")
