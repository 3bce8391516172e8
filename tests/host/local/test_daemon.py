"""The life of a host: idle end, SIGTERM, `kill -9`, a removed folder, other versions, clients without variables."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DragomanError
from dragoman.host.local.daemon import own_log, shorten_log
from dragoman.host.local.thin import HostLost, ThinClient, begin
from dragoman.store.sqlite_log import SqliteLog
from tests.host.local.kit import HostPlaceKit, processes, scripted, wait_for


def agents_of(pid: int) -> list[int]:
    """The agents that a host runs; its guard is not one."""
    found = []
    for each, command in processes("dragoman-host-"):
        try:
            parent = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid and "scripted" in command:
            found.append(each)
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def read_to_the_end(client: ThinClient) -> list[dict[str, Any]]:
    """Everything that is still received on a connection that the host ends."""
    seen = []
    with suppress(HostLost):
        while True:
            seen.append(client.read())
    return seen


# Ends


def test_a_host_ends_after_its_idle_time_and_takes_its_agents_along(place: HostPlaceKit) -> None:
    place.settings(host={"idle": 0.2, "keep": 0})
    assert scripted(place).code == 0
    wait_for(lambda: not place.pids())
    wait_for(lambda: not place.leftovers())
    assert not place.socket.exists()
    assert "ended" in place.log()


def test_a_host_without_an_idle_time_waits_for_the_client_that_started_it(place: HostPlaceKit) -> None:
    place.settings(host={"idle": 0, "keep": 0})
    done = scripted(place)
    assert done.code == 0, done.err
    wait_for(lambda: not place.pids())


def test_a_host_lives_while_a_client_is_connected_or_a_turn_runs(place: HostPlaceKit) -> None:
    place.settings(host={"idle": 0.05, "keep": 0})
    assert scripted(place, "s", "slow 60", "--no-wait").code == 0
    (pid,) = place.pids()
    client = place.connect()
    states = {each["_meta"]["dragoman"]["state"] for each in client.call("session/list")["sessions"]}
    assert states == {"running"}
    assert place.run("cancel", "s", verb="sessions").code == 0
    # The turn has ended, and this client is still connected for ten idle times.
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        assert client.call("_dragoman/host")["pid"] == pid
    client.close()
    wait_for(lambda: not place.pids())


def test_sigterm_cancels_turns_notifies_clients_and_ends_agents(place: HostPlaceKit) -> None:
    assert scripted(place, "s", "slow 60", "--no-wait").code == 0
    (pid,) = place.pids()
    (agent,) = agents_of(pid)
    client = place.connect()
    (session,) = client.call("session/list")["sessions"]
    client.call("session/resume", sessionId=session["sessionId"], cwd=session["cwd"], mcpServers=[])
    os.kill(pid, signal.SIGTERM)
    seen = read_to_the_end(client)
    notices = [each["params"]["text"] for each in seen if each.get("method") == "_dragoman/notice"]
    assert "The host was asked to end." in notices
    wait_for(lambda: not is_alive(pid))
    assert not is_alive(agent)
    assert not place.socket.exists()
    # What it wrote is complete: the next host finds no turn that is still open.
    assert place.run("--session", "s", "--output", "json", "hello").code in (0, 1, 4)
    assert "interrupted" not in place.log()


def test_a_host_whose_folder_was_removed_finishes_its_turn_and_leaves(place: HostPlaceKit) -> None:
    assert scripted(place, "s", "slow 1", "--no-wait").code == 0
    (pid,) = place.pids()
    shutil.rmtree(place.socket.parent)
    wait_for(lambda: not is_alive(pid))
    assert "the socket is gone" in place.log()
    # The turn was not cancelled for that.
    rows = read_events(place)
    assert b'"stopReason":"end_turn"' in rows
    assert place.run("--session", "s2", "-a", "scripted", "hello").out == "hello\n"


def read_events(place: HostPlaceKit) -> bytes:
    path = place.home / "dragoman" / "data" / "hosted.db"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return b"\n".join(row[0] for row in connection.execute("SELECT bodies FROM segments ORDER BY session, first"))
    finally:
        connection.close()


@pytest.mark.soak
def test_fifty_hosts_that_are_killed_lose_nothing(place: HostPlaceKit) -> None:
    for number in range(50):
        kill_in_the_middle(place, after=1 + 7 * number)


def test_kill_9_loses_no_event_that_a_client_saw_and_no_agent_outlives_the_host(place: HostPlaceKit) -> None:
    kill_in_the_middle(place, after=23)


def kill_in_the_middle(place: HostPlaceKit, after: int) -> None:
    """Kills the host while an agent streams; everything that a client has received is in the log."""
    assert scripted(place, "s", "hello").code == 0
    (pid,) = place.pids()
    (agent,) = agents_of(pid)
    client = place.connect()
    listed = client.call("session/list")["sessions"]
    (session,) = [each for each in listed if each["_meta"]["dragoman"]["name"] == "s"]  # of earlier rounds: no name
    client.request(
        "session/prompt",
        sessionId=session["sessionId"],
        prompt=[{"type": "text", "text": "flood 5000"}],
        _meta={"dragoman": {"promptId": "flood"}},
    )
    seen: list[dict[str, Any]] = []
    while len(seen) < after:
        message = client.read()
        if message.get("method") == "session/update":
            seen.append(message)
    os.kill(pid, signal.SIGKILL)
    seen += [each for each in read_to_the_end(client) if each.get("method") == "session/update"]
    wait_for(lambda: not is_alive(pid) and not is_alive(agent))
    kept = stored(place, session["sessionId"])
    for message in seen:
        number = message["params"]["_meta"]["dragoman"]["seq"]
        assert json.loads(kept[number]) == message["params"]["update"], number
    # The next host closes what was open: the turn was interrupted, and nothing is run again.
    assert place.run("--session", "other", "-a", "scripted", "hello").code == 0
    client = place.connect()
    client.call("session/resume", sessionId=session["sessionId"], cwd=session["cwd"], mcpServers=[])
    client.call("_dragoman/queued")  # what the host closes is in the log now
    loaded = client.call("session/resume", sessionId=session["sessionId"], cwd=session["cwd"], mcpServers=[])
    assert loaded["_meta"]["dragoman"]["outcomes"]["flood"]["error"]["data"]["reason"] == "interrupted"
    client.close()
    place.run("close", "s", verb="sessions")
    place.run("close", "other", verb="sessions")
    os.kill(place.pids()[0], signal.SIGTERM)
    wait_for(lambda: not place.pids())


def stored(place: HostPlaceKit, session: str) -> dict[int, bytes]:
    """The events of a session as the next host finds them."""

    async def read() -> dict[int, bytes]:
        log = SqliteLog(place.home / "dragoman" / "data" / "hosted.db")
        found = {event.number: event.body for event in await log.read(session, 0, 1_000_000)}
        await log.close()
        return found

    return asyncio.run(read())


def test_the_next_host_ends_what_a_host_and_its_guard_left_behind(place: HostPlaceKit) -> None:
    data = place.home / "dragoman" / "data"
    data.mkdir(parents=True)
    (data / "hosted.owner").write_text("dragoman-host-00000000-lost")
    orphan = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**place.environment, "DRAGOMAN_HOSTED": "dragoman-host-00000000-lost"},
    )
    try:
        assert scripted(place).code == 0
        assert orphan.wait(timeout=60) < 0
    finally:
        orphan.kill()
        orphan.wait()


# Versions


def test_an_idle_host_of_another_protocol_is_replaced(place: HostPlaceKit) -> None:
    assert place.run_as_older("--session", "s", "-a", "scripted", "hello").code == 0
    (old,) = place.pids()
    done = place.run("--session", "t", "-a", "scripted", "hello")
    assert done.code == 0, done.err
    assert "its host is replaced" in done.err
    assert not is_alive(old)
    assert len(place.pids()) == 1


def test_a_host_whose_files_were_replaced_leaves_when_it_is_idle(place: HostPlaceKit) -> None:
    stamp = place.home / "stamp"
    stamp.write_text("before")
    change = f"build.build_stamp = lambda: open({str(stamp)!r}).read()"
    assert place.run_patched(change, "--session", "s", "-a", "scripted", "hello").code == 0
    (old,) = place.pids()
    place.connect().close()
    assert is_alive(old)
    stamp.write_text("after")
    place.connect().close()  # it looks when a client comes
    wait_for(lambda: not is_alive(old))


def test_a_log_of_a_newer_version_is_refused_with_a_sentence(place: HostPlaceKit) -> None:
    data = place.home / "dragoman" / "data"
    data.mkdir(parents=True)
    connection = sqlite3.connect(data / "hosted.db")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    done = scripted(place)
    assert done.code == 2
    assert "newer dragoman" in done.err


def test_the_host_says_what_it_is(running: HostPlaceKit) -> None:
    shown = running.run("--host", "--json", verb="sessions")
    found = json.loads(shown.out)
    assert found["executable"] == sys.executable
    assert found["pid"] == running.pids()[0]
    assert found["socket"] == f"unix:{running.socket}"
    assert {"version", "protocol", "build", "uptimeSeconds", "log"} <= set(found)
    text = running.run("--host", verb="sessions").out
    assert f"unix:{running.socket}" in text
    assert sys.executable in text


# Environments


def test_commands_that_the_host_runs_have_the_environment_of_the_session(place: HostPlaceKit) -> None:
    for name in ("one", "two"):
        place.environment["VIRTUAL_ENV"] = f"/venv/{name}"
        done = scripted(place, name, "terminal echo $VIRTUAL_ENV", "--dangerously-allow-all")
        assert f"/venv/{name}" in done.out, done.err


def test_a_client_that_sends_no_environment_gets_a_notice(running: HostPlaceKit) -> None:
    client = running.connect(begins=False)
    assert client.result(begin(client))["protocolVersion"] == 1
    own = {"agent": "scripted"}
    opened = client.call("session/new", cwd=str(running.project), mcpServers=[], _meta={"dragoman": own})
    seen: list[dict[str, Any]] = []
    done = client.request(
        "session/prompt", sessionId=opened["sessionId"], prompt=[{"type": "text", "text": "terminal echo x"}]
    )
    while True:
        message = client.read()
        seen.append(message)
        if message.get("method") == "session/request_permission":
            client.answer(message["id"], {"outcome": {"outcome": "cancelled"}})
        if message.get("id") == done and "method" not in message:
            break
    notices = [each["params"]["text"] for each in seen if each.get("method") == "_dragoman/notice"]
    assert any("environment of the host" in text for text in notices)


def test_the_environment_of_a_session_is_not_written_down(running: HostPlaceKit) -> None:
    for path in (running.home / "dragoman").rglob("*"):
        if path.is_file():
            assert b"key-that-must-not-be-stored" not in path.read_bytes(), path


# The log of the program


def test_the_log_of_the_program_starts_again_when_it_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab") as file:
        file.write(b"x" * 100)
        file.flush()
        shorten_log(file.fileno(), most_bytes=100)
        assert path.stat().st_size == 100
        file.write(b"y")
        file.flush()
        shorten_log(file.fileno(), most_bytes=100)
        assert path.stat().st_size == 0
        file.write(b"z")
    assert path.read_bytes() == b"z"


def test_a_second_writer_of_the_sessions_is_refused(tmp_path: Path) -> None:
    first, log = own_log(tmp_path)
    with pytest.raises(DragomanError, match=rf"another host( \(pid {os.getpid()}\))? still writes"):
        own_log(tmp_path, seconds=0.0)
    os.close(first)
    again, same = own_log(tmp_path, seconds=0.0)
    os.close(again)
    assert log == same == tmp_path / "hosted.db"
