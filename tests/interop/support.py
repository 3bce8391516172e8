"""Where the peers are and how they are started: the official SDKs' programs, and ours for them.

Owns the commands and the reports of the SDK clients. Knows nothing of what a test expects.
"""

import fcntl
import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import machine
from tests.interop.wire_check import WireCheck, read_recording, read_trace
from tests.warm_programs import python_sdk, warm

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "tests" / "interop" / "peers"
# Warnings of all kinds are shown: a coroutine nobody awaited or a file nobody closed is a fault of ours.
OUR_AGENT = (sys.executable, "-W", "default", str(ROOT / "tests" / "interop" / "our_agent.py"))
DRAGOMAN = (sys.executable, "-m", "dragoman")
BUILT_IN_AGENT = (*DRAGOMAN, "agent", "--model", "scripted")
TS_SDK = ROOT / "node_modules" / "@agentclientprotocol" / "sdk" / "package.json"
SDKS = ("py", "ts")
COMMON = (
    *("initialize", "sessions", "auth", "stream", "tools", "facts", "settings", "permission", "files", "terminals"),
    *("elicitation", "bare", "cancel", "cancel_request", "errors", "extensions", "side_by_side", "leave"),
)
CODING_COMMON = ("work", "permission_to_write", "tool_access", "choices", "stop", "steer", "come_back")
CODING = {"py": CODING_COMMON, "ts": (*CODING_COMMON, "forget")}
SCENARIOS = {"py": COMMON, "ts": (*COMMON, "newer")}
# Each scenario has its own bound far below this.
WALK_SECONDS = 60.0

Event = dict[str, Any]


def require(sdk: str) -> None:
    """Skips the test, saying why, when this SDK is not installed."""
    if sdk == "py" and importlib.util.find_spec("acp") is None:
        pytest.skip("the Python SDK is not installed: pip install agent-client-protocol")
    if sdk == "ts" and machine.program("node") is None:
        pytest.skip("the TypeScript SDK needs Node.js 20 or newer on the PATH")
    if sdk == "ts" and not TS_SDK.exists():
        pytest.skip(f"the TypeScript SDK is not installed: run npm ci in {ROOT}")


def agent_command(sdk: str) -> tuple[str, ...]:
    """The program of an agent written on this SDK."""
    require(sdk)
    if sdk == "py":
        return python_sdk().command(str(PEERS / "py_agent.py"))
    return ("node", str(PEERS / "ts_agent.mjs"))


def client_command(sdk: str) -> tuple[str, ...]:
    require(sdk)
    if sdk == "py":
        return python_sdk().command("-m", "tests.interop.peers.py_client")
    return ("node", str(PEERS / "ts_client.mjs"))


def guard_command(*words: str) -> tuple[str, ...]:
    """`dragoman guard`, in a process that has imported it."""
    modules = ("cli.main", "cli.commands.guard", "cli.guard.setup", "proxy.guard.relay")
    return warm(*(f"dragoman.{name}" for name in modules)).command("-m", "dragoman", "guard", *words)


class Report:
    """What an SDK's client saw of our agent in one scenario, and every frame our agent sent meanwhile."""

    def __init__(self, events: list[Event], frames: WireCheck, *, left: bool = False) -> None:
        """`left`: the client went away in the middle, so that an answer may be missing."""
        self.events = events
        self.frames = frames
        failures = [event["error"] for event in events if event["event"] == "failed"]
        assert failures == [], f"{failures} after {events}"
        # Its stdin was closed: our agent goes by itself, without an error (rule 15).
        assert events[-1]["event"] == "exit"
        assert events[-1]["code"] == 0
        assert [problem for problem in self.frames.problems() if not (left and "answered 0 times" in problem)] == []

    def result(self, call: str) -> Any:
        [event] = self._of_call(call)
        assert event["event"] == "result", event
        return event["result"]

    def error(self, call: str) -> tuple[int, Any]:
        [event] = self._of_call(call)
        assert event["event"] == "error", event
        return event["code"], event["data"]

    def updates(self, call: str | None = None) -> list[dict[str, Any]]:
        """The updates seen, all or only those between the end of the call before and the end of this one."""
        if call is None:
            return [event["update"] for event in self.events if event["event"] == "update"]
        seen: list[dict[str, Any]] = []
        for event in self.events:
            if event["event"] == "update":
                seen.append(event["update"])
            elif event.get("call") == call:
                return seen
            elif "call" in event:
                seen = []
        raise AssertionError(f"{call} was not called")

    def texts(self) -> list[str]:
        """What the agent said, chunk by chunk."""
        chunks = [update for update in self.updates() if update["sessionUpdate"] == "agent_message_chunk"]
        return [chunk["content"]["text"] for chunk in chunks]

    def requests(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "request"]

    def notifications(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "notification"]

    def _of_call(self, call: str) -> list[Event]:
        return [event for event in self.events if event.get("call") == call]


class Walk:
    """Scenarios of one SDK's client, walked once, because starting an SDK costs more than all the rest."""

    def __init__(
        self, sdk: str, folder: Path, scenarios: Sequence[str], agent: Sequence[str], **variables: str
    ) -> None:
        """`{scenario}` in the agent's command is replaced; `variables` are added to the environment."""
        self.folder = folder
        folder.mkdir()
        done = subprocess.run(
            [*client_command(sdk), *scenarios, "--", *agent],
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=WALK_SECONDS,
            check=False,
        )
        self.events = [json.loads(line) for line in done.stdout.split("\n") if line]  # U+2028 ends no line
        self.stderr = done.stderr
        self._failure = f"the {sdk} client ended with {done.returncode}" if done.returncode else ""

    @classmethod
    def shared(cls, sdk: str, folder: Path, scenarios: Sequence[str], agent: Sequence[str], **variables: str) -> "Walk":
        """The same, but a walk to a folder is made once by all test processes; the others read what it saw."""
        with open(f"{folder}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = folder.with_suffix(".walk")
            if not kept.exists():
                kept.write_bytes(pickle.dumps(cls(sdk, folder, scenarios, agent, **variables)))
            walk: Walk = pickle.loads(kept.read_bytes())
        return walk

    def report(self, scenario: str, frames: WireCheck) -> Report:
        assert not self._failure, f"{self._failure}:\n{self.stderr[-3000:]}"
        events = [event for event in self.events if event["scenario"] == scenario]
        return Report(events, frames, left=scenario == "leave")


class Walks:
    """The walks made so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._walks: dict[str, Walk] = {}

    def of(self, sdk: str) -> Walk:
        """With our agent for SDKs."""
        require(sdk)
        if sdk not in self._walks:
            folder = self._folder / sdk
            agent = (*OUR_AGENT, "--record", str(folder / "{scenario}"))
            self._walks[sdk] = Walk.shared(sdk, folder, SCENARIOS[sdk], agent)
        return self._walks[sdk]

    def report(self, sdk: str, scenario: str) -> Report:
        walk = self.of(sdk)
        return walk.report(scenario, read_recording(walk.folder / scenario))

    def coding(self, sdk: str, scenario: str) -> Report:
        """A scenario with the built-in agent, which `dragoman record` listens to."""
        require(sdk)
        name = f"{sdk}-coding"
        if name not in self._walks:
            folder, project = self._folder / name, self.project(sdk)
            with suppress(FileExistsError):  # another process has walked
                project.mkdir()
                (project / "a.txt").write_text("one\ntwo\n")
            agent = (*DRAGOMAN, "record", "-o", str(folder / "{scenario}"), "--", *BUILT_IN_AGENT)
            variables = {"DRAGOMAN_HOME": str(folder / "home"), "INTEROP_PROJECT": str(project)}
            self._walks[name] = Walk.shared(sdk, folder, CODING[sdk], agent, **variables)
        walk = self._walks[name]
        return walk.report(scenario, read_trace(walk.folder / scenario))

    def project(self, sdk: str) -> Path:
        """The folder the built-in agent works in."""
        return self._folder / f"{sdk}-project"
