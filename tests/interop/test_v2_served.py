"""The official SDK's client of version 2 with our programs, which are written in version 1: nothing in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support import BUILT_IN_AGENT, DRAGOMAN, PEERS, require
from tests.versions.oracle import Judge

SECONDS = 90.0
SCRIPTED = (sys.executable, "-m", "dragoman.testing.scripted_agent")
SCRIPTED_WORDS = {"plain": "tool\nsay hello", "permission": "permission", "slow": "slow 0.5", "endless": "slow"}
MODEL_WORDS = {
    "plain": "read a.txt\nsay hello",
    "permission": "write made.txt new",
    "slow": "slow 20",
    "endless": "slow 100000",
}


class Walked:
    """What the client reported, and every message."""

    def __init__(self, folder: Path, events: list[dict[str, Any]]) -> None:
        self.events = events
        self.judge = Judge(2)
        for line in (folder / "frames").read_text().split("\n")[:-1]:
            frame = json.loads(line)
            self.judge.see(frame["from"], frame["message"])

    def of(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    def updates(self, kind: str) -> list[dict[str, Any]]:
        return [each["update"] for each in self.of("update") if each["update"]["sessionUpdate"] == kind]


def walk(folder: Path, words: dict[str, str], *target: str, is_new: bool, **variables: str) -> Walked:
    require("ts")
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (project / "a.txt").write_text("one\n")
    config = {"cwd": str(project), "frames": str(folder / "frames"), "isNew": is_new, **words}
    done = subprocess.run(
        ["node", str(PEERS / "ts_v2_walk.mjs"), json.dumps(config), "--", *target],
        cwd=project,
        env={**os.environ, "DRAGOMAN_HOME": str(folder / "home"), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return Walked(folder, [json.loads(line) for line in done.stdout.split("\n")[:-1]])


def check(walked: Walked) -> None:
    """What every agent must have done, by whatever way it was reached."""
    assert walked.judge.faults == []
    assert walked.judge.checked > 50
    assert {each["result"]["protocolVersion"] for each in walked.of("initialized")} == {2}
    assert {each["code"] for each in walked.of("exit")} <= {0}
    assert len(walked.of("asked")) == 1
    assert walked.of("listed") == [{"event": "listed", "ids": True}]
    assert walked.of("closed")

    # A turn: the message, running, what the agent does, idle. A question is a state of its own.
    states = [update["state"] for update in walked.updates("state_update")]
    asking = ["running", "requires_action", "running", "idle"]
    assert states == ["running", "idle", *asking, *["running", "idle"] * 3, "idle", "running", "idle"]
    reasons = [update["stopReason"] for update in walked.updates("state_update") if "stopReason" in update]
    assert reasons == ["end_turn"] * 4 + ["cancelled", "end_turn"]

    # The second of two prompts was accepted after the first had ended.
    places = [place for place, each in enumerate(walked.events) if each["event"] == "accepted"]
    idles = [
        place
        for place, each in enumerate(walked.events)
        if each["event"] == "update" and each["update"].get("state") == "idle"
    ]
    assert places[2] < idles[2] < places[3]
    assert not walked.of("refused")

    # The replay has what was shown, each message under its id.
    [replayed] = walked.of("replayed")
    updates = replayed["updates"]
    assert updates[-1] == {"sessionUpdate": "state_update", "state": "idle"}
    shown = [update for update in updates if update["sessionUpdate"] == "user_message_chunk"]
    assert len({update["messageId"] for update in shown}) == 5
    assert any(update["sessionUpdate"] == "tool_call_update" for update in updates)


def test_an_agent_of_the_library(tmp_path: Path) -> None:
    check(walk(tmp_path, SCRIPTED_WORDS, *SCRIPTED, is_new=False))


def test_the_built_in_agent(tmp_path: Path) -> None:
    walked = walk(tmp_path, MODEL_WORDS, *BUILT_IN_AGENT, is_new=True)
    check(walked)
    assert (tmp_path / "project" / "made.txt").read_text() == "new"
    diffs = [item for update in walked.updates("tool_call_update") for item in update.get("content", ())]
    assert any(item["type"] == "diff" and item["changes"][0]["operation"] == "add" for item in diffs)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """A host on a port; its URL and its token."""
    (folder / "project").mkdir()
    with subprocess.Popen(
        [
            *DRAGOMAN,
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            str(folder / "data"),
            "--drain",
            "1",
            "--",
            *SCRIPTED,
        ],
        cwd=folder / "project",
        env={**os.environ, "DRAGOMAN_HOME": str(folder / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as host:
        assert host.stdout is not None
        try:
            yield host.stdout.readline().strip(), (folder / "data" / "first.token").read_text().strip()
        finally:
            host.terminate()


@pytest.mark.parametrize("way", ["ws", "http", "connect"])
def test_a_host(tmp_path: Path, way: str) -> None:
    with served(tmp_path) as (url, token):
        if way == "connect":
            command = (*DRAGOMAN, "connect", url, "--token-env", "ACP_TOKEN")
            check(walk(tmp_path, SCRIPTED_WORDS, *command, is_new=True, ACP_TOKEN=token))
        else:
            target = url.replace("ws:", f"{way}:")
            check(walk(tmp_path, SCRIPTED_WORDS, target, is_new=True, ACP_TOKEN=token))
