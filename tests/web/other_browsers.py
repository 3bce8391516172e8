"""Firefox and WebKitGTK, driven by what they bring along: WebDriver BiDi, and WebKitWebDriver.

One interface for both: open an address, evaluate a function of the page. Where a browser, or the virtual screen that
WebKitGTK needs, is not installed, the test is skipped with the reason.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import re
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from glob import glob
from typing import Any, Protocol

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests import machine

START_SECONDS = 60.0
SCREEN = "1400x900x24"


class OtherBrowser(Protocol):
    """A window of a browser."""

    async def open(self, address: str) -> None: ...

    async def evaluate(self, function: str, *arguments: Any) -> Any:
        """Call a function of the page, which may give a promise; gives its result."""

    async def press(self, x: int, y: int) -> None:
        """Press a place of the window with the pointer."""


def _pressing(x: int, y: int) -> list[dict[str, Any]]:
    steps = [
        {"type": "pointerMove", "x": x, "y": y},
        {"type": "pointerDown", "button": 0},
        {"type": "pointerUp", "button": 0},
    ]
    return [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}]


class Firefox:
    """One window of Firefox, over WebDriver BiDi."""

    def __init__(self, line: ClientConnection) -> None:
        self._line = line
        self._ids = itertools.count(1)
        self._window = ""

    async def begin(self) -> None:
        await self._ask("session.new", {"capabilities": {}})
        tree = await self._ask("browsingContext.getTree", {})
        self._window = tree["contexts"][0]["context"]

    async def open(self, address: str) -> None:
        await self._ask("browsingContext.navigate", {"context": self._window, "url": address, "wait": "complete"})

    async def evaluate(self, function: str, *arguments: Any) -> Any:
        call = f"(async () => JSON.stringify((await ({function})(...{json.dumps(arguments)})) ?? null))()"
        answer = await self._ask(
            "script.evaluate", {"expression": call, "target": {"context": self._window}, "awaitPromise": True}
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    async def press(self, x: int, y: int) -> None:
        await self._ask("input.performActions", {"context": self._window, "actions": _pressing(x, y)})

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        id = next(self._ids)
        await self._line.send(json.dumps({"id": id, "method": method, "params": params}))
        while True:
            async with asyncio.timeout(START_SECONDS):
                answer = json.loads(await self._line.recv())
            if answer.get("id") == id:
                assert answer["type"] == "success", answer
                return answer["result"]


class WebKit:
    """One window of WebKitGTK, over its WebDriver."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._path = ""

    async def begin(self, browser: str) -> None:
        wanted = {
            "webkitgtk:browserOptions": {"binary": browser, "args": ["--automation"]},
            "timeouts": {"script": int(START_SECONDS * 1000)},
        }
        made = await self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._path = f"/session/{made['sessionId']}"

    async def end(self) -> None:
        await self._ask("DELETE", self._path)

    async def open(self, address: str) -> None:
        await self._ask("POST", f"{self._path}/url", {"url": address})

    async def evaluate(self, function: str, *arguments: Any) -> Any:
        script = (
            f"const done = arguments[arguments.length - 1]; const given = [...arguments].slice(0, -1);"
            f"Promise.resolve(({function})(...given)).then(found => done({{found: found ?? null}}),"
            f" error => done({{error: String(error)}}));"
        )
        answer = await self._ask("POST", f"{self._path}/execute/async", {"script": script, "args": list(arguments)})
        assert "error" not in answer, answer
        return answer["found"]

    async def press(self, x: int, y: int) -> None:
        await self._ask("POST", f"{self._path}/actions", {"actions": _pressing(x, y)})

    async def _ask(self, verb: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(self._ask_now, verb, path, body)

    def _ask_now(self, verb: str, path: str, body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=START_SECONDS)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(verb, path, data, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())["value"]
        except TimeoutError:
            raise AssertionError(f"WebKitWebDriver did not answer {verb} {path}: {body}") from None
        finally:
            connection.close()
        assert not (isinstance(answer, dict) and "error" in answer and "message" in answer), answer
        return answer


@asynccontextmanager
async def firefox() -> AsyncIterator[Firefox]:
    """Firefox with an empty profile."""
    program = next(filter(None, map(machine.program, ("firefox-esr", "firefox"))), None)
    if program is None:
        pytest.skip("no firefox here (Debian: apt install firefox-esr)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        async with _started(program, "--headless", "--remote-debugging-port=0", "--profile", profile) as process:
            address = await _announced(process, rb"WebDriver BiDi listening on (ws://\S+)")
            async with connect(f"{address}/session", proxy=None, max_size=None) as line:
                window = Firefox(line)
                await window.begin()
                yield window


@asynccontextmanager
async def webkit() -> AsyncIterator[WebKit]:
    """WebKitGTK's small browser on a virtual screen."""
    driver, screen = machine.program("WebKitWebDriver"), machine.program("Xvfb")
    browsers = glob("/usr/lib/*/webkit2gtk-4.*/MiniBrowser") + glob("/usr/lib*/webkit*gtk-*/MiniBrowser")
    if driver is None or not browsers:
        pytest.skip("no WebKitGTK with its driver here (Debian: apt install webkit2gtk-driver)")
    if screen is None:
        pytest.skip("no virtual screen here for WebKitGTK (Debian: apt install xvfb)")
    ready, told = os.pipe()
    async with _started(screen, "-displayfd", str(told), "-screen", "0", SCREEN, pass_fds=(told,)):
        os.close(told)
        number = (await asyncio.to_thread(os.read, ready, 16)).decode().strip()
        os.close(ready)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            env = {**os.environ, "DISPLAY": f":{number}", "HOME": home, "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1"}
            async with _started(driver, f"--port={port}", env=env):
                await _listens(port)
                window = WebKit(port)
                await window.begin(browsers[0])
                try:
                    yield window
                finally:
                    await window.end()


@asynccontextmanager
async def _started(program: str, *words: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        program, *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, **options
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _announced(process: asyncio.subprocess.Process, pattern: bytes) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(START_SECONDS):
        while line := await process.stderr.readline():
            if found := re.search(pattern, line):
                return found[1].decode()
    raise AssertionError(f"the browser ended without {pattern!r}")


async def _listens(port: int) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return
