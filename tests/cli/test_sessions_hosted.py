"""`dragoman sessions` and the local host: live state, watch, cancel, close, and clients of every kind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import connect
from tests.cli.exec_kit import read_until
from tests.cli.step_kit import STEP_AGENT
from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit, local_place, scripted, wait_for


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path_factory.mktemp("host"), warm_python) as found:
        yield found


@pytest.fixture
def place(shared: HostPlaceKit, tmp_path: Path) -> HostPlaceKit:
    shared.project = tmp_path
    return shared


def listed(place: HostPlaceKit) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        place.run("--json", "--offline", "--cwd", str(place.project), verb="sessions").out
    )
    return found


def test_the_list_shows_the_state_and_who_is_attached(place: HostPlaceKit) -> None:
    assert scripted(place, "idle-one").code == 0
    assert scripted(place, "busy-one", "slow", "--no-wait").code == 0
    states = {row["name"]: row["state"] for row in listed(place)}
    assert states == {"idle-one": "idle", "busy-one": "running"}
    shown = place.run("--offline", "--cwd", str(place.project), verb="sessions").out
    assert re.search(r"\[busy-one\].* \(running\)", shown)
    with watching(place, "busy-one") as watch:
        read_until(watch, "working")
        shown = place.run("--offline", "--cwd", str(place.project), verb="sessions").out
        assert re.search(r"\[busy-one\].* \(running, 1 attached\)", shown)
    assert place.run("cancel", "busy-one", verb="sessions").code == 0
    wait_for(lambda: {row["state"] for row in listed(place)} == {"idle"})
    again = place.run("cancel", "busy-one", verb="sessions")
    assert again.code == 0
    assert "no turn runs" in again.err


def watching(place: HostPlaceKit, name: str, *words: str) -> subprocess.Popen[str]:
    class Watch(subprocess.Popen[str]):
        def __exit__(self, *error: Any) -> None:
            self.kill()
            super().__exit__(*error)

    return Watch(
        place.words("sessions", "watch", name, *words),
        cwd=place.project,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_watch_shows_the_conversation_and_what_is_added(place: HostPlaceKit) -> None:
    assert scripted(place, "w", "say first").code == 0
    with watching(place, "w") as watch:
        assert "> say first" in read_until(watch, "first")
        assert place.run("--session", "w", "tool").code == 0
        seen = read_until(watch, "the turn ended: end_turn")
        assert "> tool" in seen
        assert "[read] Reading README.md" in seen
        watch.send_signal(signal.SIGINT)
        assert watch.wait(60) == 130
    with watching(place, "w", "--json") as watch:
        assert watch.stdout is not None
        first = json.loads(watch.stdout.readline())
        assert first["sessionUpdate"] == "user_message_chunk"


def test_watching_does_not_answer_questions(place: HostPlaceKit) -> None:
    assert scripted(place, "q", "permission", "--no-wait").code == 0
    wait_for(lambda: listed(place)[0]["state"] == "waiting")
    with watching(place, "q") as watch:
        read_until(watch, "Deleting everything")
        assert listed(place)[0]["state"] == "waiting"
    assert place.run("cancel", "q", verb="sessions").code == 0


def test_close_ends_the_agent_and_frees_the_name(place: HostPlaceKit) -> None:
    assert scripted(place, "c", "title Old").code == 6  # a title is not an answer
    before = place.host()["agents"]
    done = place.run("close", "c", verb="sessions")
    assert (done.code, "closed c" in done.err) == (0, True)
    assert place.host()["agents"] == before - 1
    assert scripted(place, "c", "title New").code == 6  # a title is not an answer
    assert [(row["name"], row["title"]) for row in listed(place)] == [("c", "New"), (None, "Old")]


def test_a_session_is_named_by_its_name_or_its_id(place: HostPlaceKit) -> None:
    assert scripted(place, "n").code == 0
    (row,) = listed(place)
    for word in (row["session_id"], row["session_id"][:10]):
        assert place.run("cancel", word, verb="sessions").code == 0
    missing = place.run("cancel", "no-such-session", verb="sessions")
    assert missing.code == 2
    assert "no session 'no-such-session'" in missing.err
    assert place.run("cancel", verb="sessions").code == 2
    assert place.run("list", "--host", verb="sessions").code == 2


async def test_every_client_can_attach_by_the_address_of_the_host(place: HostPlaceKit) -> None:
    assert scripted(place, "attach", "say hello there").code == 0
    address = place.host()["socket"]
    async with connect(address) as agent:
        (info,) = [each async for each in agent.sessions(cwd=str(place.project))]
        session = await agent.load_session(info.session_id, info.cwd)
        assert "hello there" in "".join(str(item) for item in session.state.timeline)
        turn = session.prompt("say from another client")
        async for _ in turn:
            pass
        assert turn.result.stop_reason == "end_turn"
    assert place.run("--session", "attach", "hello").out == "hello\n"


def test_without_a_host_the_sessions_are_read_from_the_log(tmp_path: Path, warm_python: WarmPython) -> None:
    with local_place(tmp_path, warm_python) as place:
        nothing = place.run("--host", verb="sessions")
        assert (nothing.code, nothing.out) == (0, "")
        assert "no host runs" in nothing.err
        assert listed(place) == []
        assert place.pids() == []
        assert scripted(place, "kept", "title Kept").code == 6  # a title is not an answer
        os.kill(place.pids()[0], signal.SIGTERM)
        wait_for(lambda: not place.pids())
        (row,) = listed(place)
        assert (row["name"], row["title"], row["state"]) == ("kept", "Kept", "idle")
        assert place.run("watch", "kept", verb="sessions").code == 2
        assert place.pids() == []  # looking starts nothing


def test_completion_offers_the_names_of_sessions(place: HostPlaceKit) -> None:
    assert scripted(place, "completed-name").code == 0
    done = subprocess.run(
        place.words("completion", "bash"),
        cwd=place.project,
        env=place.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "completed-name" in done.stdout
    for word in ("--no-wait", "--queue", "cancel", "watch", "close"):
        assert word in done.stdout


def test_a_turn_in_the_host_is_followed_shown_and_taken_back(place: HostPlaceKit) -> None:
    notes = place.project / "notes.txt"
    notes.write_text("one\n")
    script = place.home / "changes.json"
    script.write_text(json.dumps({"tries": [[["write", str(notes), "two\n"], ["say", "done"]]]}))
    command = ["--", sys.executable, "-IS", str(STEP_AGENT), str(script)]
    done = place.run("--session", "changing", "--output", "json", "go", *command)
    assert [(each["path"], each["kind"]) for each in done.result["changes"]["paths"]] == [(str(notes), "modified")]
    shown = place.run("diff", "changing", "--stat", verb="sessions")
    assert "notes.txt" in shown.out, shown.err
    assert place.run("rewind", "changing", "--yes", verb="sessions").code == 0
    assert notes.read_text() == "one\n"
    quiet = place.run("--session", "silent", "--no-snapshots", "--output", "json", "go", *command)
    assert quiet.result["changes"] is None
