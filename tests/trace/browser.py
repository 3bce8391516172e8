"""A real browser for tests: Chromium behind ChromeDriver, spoken to with the standard library.

Both come from the system's packages (chromium, chromium-driver); where they are absent, tests say so and are skipped.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import machine

DRIVER = machine.program("chromedriver")
CHROMIUM = next(filter(None, map(machine.program, ("chromium", "chromium-browser", "google-chrome"))), None)
WAIT_SECONDS = 60.0
# The first four let it run as root in a container; the rest keep it from calling home, which would be refused anyway.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-ipc-flooding-protection",  # a test shows many messages one after another, each with its fragment
    "--window-size=1400,900",
)


class Browser:
    """One window."""

    def __init__(self, port: int, session: str) -> None:
        self._port = port
        self._path = f"/session/{session}"

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a file and wait until its script is through."""
        self.command("POST", "/url", {"url": "about:blank"})  # else only a new fragment would not open it anew
        self.command("POST", "/url", {"url": page.as_uri() + fragment})
        ready = self.run_async(
            "const look = () => document.documentElement.dataset.ready"
            " ? done(document.documentElement.dataset.ready) : requestAnimationFrame(look); look();"
        )
        assert ready == "yes", self.run("return document.getElementById('facts').textContent")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: Any) -> Any:
        """A script that ends by calling `done(value)`."""
        script = f"const done = arguments[arguments.length - 1]; {script}"
        return self.command("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
        )
        return found

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def type(self, selector: str, text: str) -> None:
        """Put a text in a field, as if typed, and wait for what that causes."""
        self.run_async(
            "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true}));"
            "setTimeout(() => requestAnimationFrame(() => done()), 200);",
            selector,
            text,
        )

    def log(self) -> list[str]:
        """What the page complained about: errors, and everything its policy refused."""
        return [entry["message"] for entry in self.command("POST", "/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Every address the page asked for, itself included."""
        entries = [
            json.loads(entry["message"])["message"]
            for entry in self.command("POST", "/se/log", {"type": "performance"})
        ]
        return [each["params"]["request"]["url"] for each in entries if each["method"] == "Network.requestWillBeSent"]

    def emulate(self, scheme: str) -> None:
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def devtools(self, method: str, **params: Any) -> Any:
        return self.command("POST", "/goog/cdp/execute", {"cmd": method, "params": params})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(b64decode(self.command("GET", "/screenshot")))

    def command(self, verb: str, path: str, body: Any = None) -> Any:
        return _ask(self._port, verb, self._path + path, body)


def _ask(port: int, verb: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(verb, path, data, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
    finally:
        connection.close()
    if isinstance(answer, dict) and "error" in answer:
        raise AssertionError(f"{path}: {answer['error']}: {answer['message']}")
    return answer


@contextmanager
def browser() -> Iterator[Browser]:
    """A fresh browser with an empty profile; skips the test where there is none."""
    if DRIVER is None or CHROMIUM is None:
        pytest.skip("no chromium and chromedriver here (Debian: apt install chromium chromium-driver)")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver,
    ):
        try:
            port = _port(driver)
            options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
            wanted = {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "timeouts": {"script": int(WAIT_SECONDS * 1000)},
            }
            session = _ask(port, "POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            try:
                yield Browser(port, session)
            finally:
                _ask(port, "DELETE", f"/session/{session}")
        finally:
            driver.send_signal(signal.SIGTERM)
            driver.communicate(timeout=WAIT_SECONDS)


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        if found := re.search(r"started successfully on port (\d+)", line):
            return int(found[1])
    raise AssertionError("chromedriver did not start")
