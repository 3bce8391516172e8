"""Two starters, stale sockets, locks, descriptors: how programs agree on one host."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dragoman.host.local.place import HostPlace
from dragoman.host.local.start import NoHost, holder_of, is_here, own_identity, reach_host
from tests.host.local.kit import HostPlaceKit, kill, processes, scripted, wait_for

STARTERS = 6
REACH = """
import os, sys
from dragoman.host.local.place import find_places
from dragoman.host.local.start import reach_host
from dragoman.host.local.thin import begin, begun
sys.stdin.readline()
client = reach_host(find_places())
begun(client, begin(client))
print(client.call("_dragoman/host")["pid"])
"""


def race(place: HostPlaceKit) -> set[int]:
    """Lets several programs start a host at one moment; gives the hosts that they found."""
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", REACH],
            env=place.environment,
            cwd=place.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(STARTERS)
    ]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    found = set()
    for starter in starters:
        out, _ = starter.communicate(timeout=60)
        assert starter.returncode == 0
        found.add(int(out))
    return found


def kill_host(place: HostPlaceKit, pid: int) -> None:
    kill(pid)
    wait_for(lambda: pid not in place.pids())


def test_of_six_starters_exactly_one_starts_a_host_also_on_a_stale_socket(place: HostPlaceKit) -> None:
    for _ in range(3):
        found = race(place)
        assert len(found) == 1
        assert place.pids() == sorted(found)
        kill_host(place, *found)  # leaves a socket that refuses
        assert place.socket.exists()


@pytest.mark.soak
def test_of_six_starters_exactly_one_starts_a_host_in_forty_rounds(place: HostPlaceKit) -> None:
    for _ in range(40):
        found = race(place)
        assert len(found) == 1
        assert place.pids() == sorted(found)
        kill_host(place, *found)


def test_a_client_that_a_leaving_host_did_not_answer_asks_for_another_one(place: HostPlaceKit) -> None:
    place.places.first.make()
    leaving = socket.socket(socket.AF_UNIX)
    leaving.bind(str(place.socket))
    leaving.listen()

    def leave() -> None:
        client, _ = leaving.accept()
        place.socket.unlink()
        leaving.close()
        client.close()

    thread = threading.Thread(target=leave)
    thread.start()
    try:
        assert scripted(place).out == "hello\n"
    finally:
        thread.join(60)


def test_a_stale_socket_is_replaced_and_the_lock_file_stays(place: HostPlaceKit) -> None:
    place.places.first.make()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(place.socket))
    stale.close()
    assert scripted(place).out == "hello\n"
    inode = os.stat(place.places.first.lock).st_ino
    os.kill(place.host()["pid"], signal.SIGTERM)
    wait_for(lambda: not place.pids())
    assert not place.socket.exists()
    assert scripted(place, "other").code == 0
    assert os.stat(place.places.first.lock).st_ino == inode


def test_only_the_folders_owner_can_reach_the_files_of_a_host(running: HostPlaceKit) -> None:
    assert oct(os.stat(running.socket.parent).st_mode & 0o777) == "0o700"
    assert oct(os.stat(running.socket).st_mode & 0o777) == "0o600"
    assert oct(os.stat(running.places.first.lock).st_mode & 0o777) == "0o600"
    for path in (running.home / "dragoman" / "data").iterdir():
        assert not os.stat(path).st_mode & 0o077, path


def test_a_lock_that_is_never_released_is_named_with_its_holder(
    place: HostPlaceKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.places.first
    first.make()
    held = os.open(first.lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.write(held, json.dumps({"pid": 4711, "executable": "/x/python", **own_identity()}).encode())
    monkeypatch.setattr("dragoman.host.local.start.START_SECONDS", 0.1)
    monkeypatch.setenv("DRAGOMAN_HOST", "on")
    try:
        with pytest.raises(NoHost, match="4711"):
            reach_host(place.places)
    finally:
        os.close(held)


def test_the_pid_in_a_lock_of_another_container_is_not_used(tmp_path: Path) -> None:
    place = HostPlace(str(tmp_path), "00000000")
    Path(place.lock).write_text(json.dumps({"pid": 1, **own_identity(), "namespace": "pid:[1]"}))
    assert "another machine or container" in holder_of(place)
    assert not is_here({**own_identity(), "boot": "another"})
    assert is_here(dict(own_identity()))
    Path(place.lock).write_text("")
    assert "its pid is not known yet" in holder_of(place)


def test_a_host_that_cannot_start_is_explained_by_its_log(place: HostPlaceKit) -> None:
    (place.home / "dragoman" / "data").mkdir(parents=True)
    (place.home / "dragoman" / "data" / "hosted.db").write_bytes(b"not a database at all" * 100)
    done = scripted(place)
    assert done.code == 2
    assert "the host could not be started" in done.err
    assert "hosted.db" in done.err
    assert place.pids() == []


def test_two_runtime_folders_never_write_one_log(place: HostPlaceKit) -> None:
    """A runtime folder that was removed and made again leads to a second host; the first one still has the log."""
    assert scripted(place, "s", "hello").code == 0
    held = place.connect()  # it must not leave by itself
    first = place.pids()
    other = dict(place.environment)
    place.environment["XDG_RUNTIME_DIR"] = str(place.home)
    place.home.chmod(0o700)
    done = scripted(place, "s", "again")
    assert done.code == 2
    assert "still writes the sessions" in done.err
    assert place.pids() == first
    place.environment.update(other)
    held.close()


def test_a_host_inherits_nothing_that_keeps_its_starter_waiting(place: HostPlaceKit) -> None:
    # As in `$(dragoman exec --session x ...)`: the reader waits until every copy of the pipe is closed.
    done = subprocess.run(
        ["sh", "-c", f'echo "$({sys.executable} -m dragoman exec -a scripted --session x hello 3>&1)"'],
        env=place.environment,
        cwd=place.project,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "hello\n"
    (pid,) = place.pids()
    names = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    kept = {name for name in names if name.startswith(("pipe:", "/"))}
    assert all(
        str(place.home) in name or str(place.runtime) in name or name.startswith("/dev/null")
        for name in kept
        if not name.startswith("pipe:")
    ), kept
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{pid}/fd/1").endswith(".log")


def test_a_host_is_a_process_of_its_own(running: HostPlaceKit) -> None:
    (pid,) = running.pids()
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    parent, group, session, terminal = (int(stat[index]) for index in (1, 2, 3, 4))
    assert terminal == 0
    assert session not in (os.getsid(0), 0)
    assert group == session
    assert parent != os.getpid()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    umask = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Umask"))
    assert umask.split()[1] == "0077"
    assert oct(os.stat(next((running.home / "dragoman" / "state").glob("*.log"))).st_mode & 0o777) == "0o600"


def test_an_agent_inherits_neither_the_lock_nor_the_socket_and_is_ended_first_without_memory(
    running: HostPlaceKit,
) -> None:
    (host,) = running.pids()
    agents = [pid for pid, command in processes("dragoman-host-") if "scripted" in command and pid != host]
    mine = [pid for pid in agents if _parent(pid) == host]
    assert len(mine) == 1
    # The agent has sockets of its own, and pipes to the host, but nothing that the host has open.
    kept = {link for link in _open_files(mine[0]) if not link.startswith(("pipe:", "/dev/null", "anon_inode:"))}
    assert not kept & _open_files(host)
    assert running.places.first.lock in _open_files(host)
    own = int(Path(f"/proc/{host}/oom_score_adj").read_text())
    assert int(Path(f"/proc/{mine[0]}/oom_score_adj").read_text()) == min(1000, own + 300)


def _open_files(pid: int) -> set[str]:
    return {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"DRAGOMAN_HOST": "off"}, "DRAGOMAN_HOST=off"),
        ({"DRAGOMAN_HOST": "", "CI": "true"}, "CI is set"),
    ],
)
def test_no_host_is_started_where_the_user_or_the_place_forbids_it(
    place: HostPlaceKit, changes: dict[str, str], words: str
) -> None:
    place.environment |= changes
    done = scripted(place)
    assert done.code == 2
    assert words in done.err
    assert place.pids() == []
