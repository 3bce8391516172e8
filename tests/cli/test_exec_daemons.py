"""Daemons that an agent starts end with the run; those that were there before stay, and are named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from tests import machine
from tests.cli.exec_kit import ODD_AGENT, Done, Place, place
from tests.process.kit import DAEMON, is_alive

__all__ = ["place"]

# Each of them runs $DAEMON, which writes its pid to a file, away from the agent's process group.
WAYS = {
    "setsid": 'setsid sh -c "$DAEMON" &',
    "double fork": '(setsid sh -c "(sh -c \\"\\$DAEMON\\" &)" &)',
    "nohup": '(nohup setsid sh -c "$DAEMON" >/dev/null 2>&1 &)',
    "tmux": 'tmux -Lodd new-session -d "$DAEMON"',
}
AGENT = 'until [ -s "$FILE" ]; do sleep 0.01; done; exec "$PYTHON" -IS "$ODD" plain'


def run(place: Place, start: str, *words: str) -> tuple[Done, int]:
    """A run of an agent that starts a daemon first, and the daemon's pid."""
    file = place.home / "daemon.pid"
    place.environment |= {
        "DAEMON": f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 4343",
        "FILE": str(file),
        "PYTHON": sys.executable,
        "ODD": str(ODD_AGENT),
        "TMUX_TMPDIR": str(place.home),
    }
    done = place.run("hello", *words, "--", "sh", "-c", f"{start}\n{AGENT}")
    return done, int(file.read_text())


@pytest.mark.parametrize("way", WAYS)
def test_a_daemon_ends_with_the_run_that_started_it(place: Place, way: str) -> None:
    if way == "tmux" and machine.program("tmux") is None:
        pytest.skip("tmux is not installed")
    done, daemon = run(place, WAYS[way])
    assert (done.code, done.out) == (0, "hello\n"), done.err
    assert not is_alive(daemon)
    assert place.leftovers() == []


def test_a_daemon_that_was_there_before_stays_and_is_named(place: Place) -> None:
    place.name_agent("cline")
    with subprocess.Popen(["sh", "-c", "echo; read line", "--cline-hub-daemon"], stdin=PIPE, stdout=PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline()  # it runs
        done = place.run("hello", odd="plain")
        assert daemon.poll() is None
        daemon.communicate(b"")
    assert done.code == 0
    line = "dragoman: left running: sh -c echo; read line --cline-hub-daemon"
    assert f"{line} (pid {daemon.pid}), because this run did not start it\n" in done.err


def test_an_agent_without_known_daemons_has_no_note(place: Place) -> None:
    assert "left running" not in place.run("hello", odd="plain").err


def test_a_daemon_that_the_settings_spare_stays_and_is_named(place: Place) -> None:
    code = DAEMON.replace("os.write(1,", "os.write(2,").replace("os.read(0, 1)", "")
    hub = place.home / "hub.py"
    hub.write_text(code)
    start = f'{sys.executable} -IS {hub} --own-hub 2> "$FILE"'
    place.environment |= {"FILE": str(place.home / "hub.pid"), "PYTHON": sys.executable, "ODD": str(ODD_AGENT)}
    agent = {"command": "sh", "args": ["-c", f"{start}\n{AGENT}"], "quirks": {"spare": ["--own-hub"]}}
    write_settings(place.home / "dragoman/config", {"agent_servers": {"a": agent}})
    done = place.run("hello", "-a", "a")
    daemon = int((place.home / "hub.pid").read_text())
    try:
        assert done.code == 0, done.err
        assert is_alive(daemon)
        assert f"(pid {daemon}), because `spare` in the settings names it\n" in done.err
    finally:
        os.kill(daemon, signal.SIGKILL)


def write_settings(folder: Path, settings: object) -> None:
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(settings))
