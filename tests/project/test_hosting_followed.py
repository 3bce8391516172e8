"""docs/hosting.md, followed as it is written: each command of the page runs in its order, in folders of the test.

A line that cannot run here is in `CANNOT`, with the reason; one that is in neither place fails the test. The paths of
the page are replaced by folders of the test, its agent by the scripted one, its port by a free one.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from dragoman.host.serving.page_files import PageFiles
from tests import machine
from tests.project.pages import blocks
from tests.project.sources import ROOT

PAGE = ROOT / "docs" / "hosting.md"
SECONDS = 60.0
_SYSTEMD = "no systemd runs in the container of the tests; tests/interop/test_packaging.py lets systemd read the units"
_IMAGES = "its images come from the network; tests/interop/test_packaging.py lets compose read its file"
_INSTALLED = "installs into /opt; make package installs the wheel into an empty environment"
CANNOT = {
    "sudo useradd": "makes a user of the machine",
    "sudo python3 -m venv": _INSTALLED,
    "sudo /opt/dragoman/bin/pip install": _INSTALLED,
    "sudo systemctl": _SYSTEMD,
    "dragoman login claude": "logs in with a browser; tests/cli/test_agent_login.py does it with an agent of the tests",
    "make package": "builds the wheel, which the gate does by itself",
    "podman": _IMAGES,
    "docker compose": _IMAGES,
    "--oidc-issuer": "asks a provider; tests/host/serving/test_oidc_logins.py runs one",
}
"""Parts of lines that cannot run here, with the reasons."""


def why_not(line: str) -> str:
    """Why a line of the page cannot run here; empty if it can."""
    reasons = [reason for part, reason in CANNOT.items() if part in line]
    if "--sandbox require" in line and not machine.sandbox().backends:
        reasons.append(machine.sandbox().describe())
    if "--web" in line and not PageFiles().is_complete:
        reasons.append("the web page was not built")
    return reasons[0] if reasons else ""


class Follower:
    """One who types the commands of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = {
            "/var/lib/dragoman": folder / "lib",
            "/etc/systemd/system": folder / "units",
            "/srv/src": folder / "src",
            "/backup": folder / "backup",
        }
        programs = folder / "bin"
        for made in (programs, *self.places.values()):
            made.mkdir()
        run = shlex.join([sys.executable, "-m", "dragoman"])
        for name, text in (("dragoman", f'exec {run} "$@"'), ("sudo", '[ "$1" = -u ] && shift 2\nexec env "$@"')):
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        settings = folder / "lib" / "config"
        settings.mkdir()
        claude = {"command": sys.executable, "args": ["-m", "dragoman.testing.scripted_agent"]}
        (settings / "settings.json").write_text(json.dumps({"agent_servers": {"claude": claude}}))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN", "XDG"))}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "DRAGOMAN_HOME": str(folder / "lib"),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        self.host: subprocess.Popen[str] | None = None
        self.last_start = ""
        self.url = ""

    def typed(self, line: str) -> str:
        """The line with the places of the test."""
        line = line.replace("/opt/dragoman/bin/dragoman", "dragoman").replace("wss://agents.example/acp", self.url)
        for shown, used in self.places.items():
            line = line.replace(shown, str(used))
        return line

    def follow(self, line: str) -> None:
        """Type one line of the page."""
        words = shlex.split(line, comments=True)
        starts = words[:2] == ["dragoman", "serve"] and (len(words) == 2 or words[2].startswith("-"))
        if starts:
            self.start(line, replaces="--replace" in words)
            return
        if words[1:3] == ["serve", "restore"] and "--check" not in words:
            self.stop()  # as the page says
        done = subprocess.run(
            ["sh", "-ec", self.typed(line)],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if words[:5] == ["dragoman", "serve", "token", "add", "operator"]:
            self.environment["OPERATOR_TOKEN"] = done.stdout.split()[0]

    def start(self, line: str, *, replaces: bool) -> None:
        """Start a host, in place of the one that runs; it has to be ready."""
        if replaces and self.host is None:
            self.start(self.last_start, replaces=False)
        before = self.host
        if not replaces:
            self.stop()
            self.last_start = line
        typed = self.typed(line).replace("127.0.0.1:8787", "127.0.0.1:0")
        typed += "" if "--listen" in typed else " --listen 127.0.0.1:0"
        errors = self.folder / "errors"
        with errors.open("w") as file:
            self.host = subprocess.Popen(
                ["sh", "-ec", f"exec {typed}"],
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        assert self.host.stdout is not None
        self.url = self.host.stdout.readline().strip()
        assert self.url, f"{line}\n{errors.read_text()}"
        if replaces and before is not None:
            assert before.wait(SECONDS) == 0
            self._close(before)
        ready = self.url.replace("ws://", "http://").replace("/acp", "/readyz")
        with urllib.request.urlopen(ready, timeout=SECONDS) as answer:
            assert answer.read() == b"ready\n"

    def stop(self) -> None:
        if self.host is not None:
            self.host.send_signal(signal.SIGTERM)
            assert self.host.wait(SECONDS) == 0
            self._close(self.host)
            self.host = None

    @staticmethod
    def _close(host: subprocess.Popen[str]) -> None:
        assert host.stdout is not None
        host.stdout.close()


def test_the_page_is_followed_as_it_is_written(tmp_path: Path) -> None:
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    assert all(any(part in line for line in lines) for part in CANNOT), "a reason for a line that the page has not"
    (tmp_path / "home").mkdir()
    follower = Follower(tmp_path)
    followed = []
    try:
        for line in lines:
            if not why_not(line):
                follower.follow(line)
                followed.append(line)
    finally:
        if follower.host is not None and follower.host.poll() is None:
            follower.stop()
    assert len(followed) >= 12
    assert (tmp_path / "units" / "dragoman-serve.service").exists()
    assert (tmp_path / "backup" / "agents-monday" / "manifest.json").exists()
