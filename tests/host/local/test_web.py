"""`dragoman web` as a user meets it: real processes, from the first code to the host after an update."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.host.local.installations import Installation
from tests.host.local.kit import SECONDS, HostPlaceKit, wait_for
from tests.host.serving.page_kit import FILES, HELLO, build_page

PAGE = "host/serving/page"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    installation = Installation(tmp_path_factory.mktemp("installed"))
    shutil.rmtree(installation.package / PAGE, ignore_errors=True)
    return installation


@contextmanager
def held(
    installed: Installation, place: HostPlaceKit, *words: str, command: tuple[str, ...] = ("web",), **env: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`dragoman web`, or another command that opens the page, in the foreground, and the line that it printed."""
    with subprocess.Popen(
        installed.words(*command, *words),
        cwd=place.project,
        env={**place.environment, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line, process.communicate(timeout=SECONDS)
            yield process, line
        finally:
            process.kill()


def until(process: subprocess.Popen[str], text: str) -> str:
    """Read stderr up to a line with a text."""
    assert process.stderr is not None
    read = ""
    for line in process.stderr:
        read += line
        if text in line:
            return read
    raise AssertionError(read)


class Browser:
    """A browser that has opened the page."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"
        self.headers: dict[str, str] = {}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes, str]:
        line = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            sent = {"origin": self.origin, "content-type": "application/json", **self.headers}
            line.request(method, path, None if body is None else json.dumps(body), sent)
            answer = line.getresponse()
            return answer.status, answer.read(), answer.headers.get("set-cookie", "")
        finally:
            line.close()

    def pair(self, code: str) -> None:
        status, body, cookie = self.ask("POST", "/pair", {"code": code, "name": "tests"})
        assert status == 200, body
        self.headers = {"cookie": cookie.partition(";")[0], "x-dragoman-half": json.loads(body)["half"]}

    def ticket(self) -> int:
        return self.ask("POST", "/ticket", {})[0]

    @contextmanager
    def line(self) -> Iterator[ClientConnection]:
        status, body, _ = self.ask("POST", "/ticket", {})
        assert status == 200, body
        names: Any = ["acp.v1", f"acp.ticket.{json.loads(body)['ticket']}"]
        origin: Any = self.origin
        with connect(f"ws://127.0.0.1:{self.port}/acp", origin=origin, subprotocols=names, proxy=None) as line:
            yield line

    @staticmethod
    def call(line: ClientConnection, method: str, **params: Any) -> Any:
        line.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
        while (found := json.loads(line.recv(timeout=SECONDS))).get("id") != method:
            pass
        return found


def pid_of(installed: Installation, place: HostPlaceKit) -> int:
    return int(json.loads(installed.run(place, "--host", "--json", verb="sessions").out)["pid"])


def is_open(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def test_an_installation_without_the_page_says_how_to_get_it(installed: Installation, place: HostPlaceKit) -> None:
    done = installed.run(place, verb="web")
    assert done.code == 2
    assert "no web page" in done.err
    assert "Node.js" in done.err
    assert json.loads(installed.run(place, "status", "--json", verb="web").out)["isOpen"] is False


def test_the_page_of_the_local_host_from_its_first_code_to_the_host_after_an_update(
    installed: Installation, place: HostPlaceKit, tmp_path: Path
) -> None:
    build_page(installed.package / PAGE)
    with held(installed, place) as (process, printed):
        address, _, code = printed.partition("/#")
        browser = Browser(int(address.rpartition(":")[2]))
        assert address == browser.origin
        said = until(process, "Ctrl-C closes")
        assert code in said
        for way in ("ssh -L", "--behind-proxy", "--tls-cert"):
            assert way in said
        assert browser.ask("GET", "/")[:2] == (200, FILES["/"][3])
        browser.pair(code)
        with browser.line() as line:
            line.send(json.dumps(HELLO))
            hello = json.loads(line.recv(timeout=SECONDS))["result"]["agentCapabilities"]["_meta"]["dragoman"]
            assert "scripted" in hello["agents"]
            assert hello["user"] == "local"
            assert hello["device"].startswith("device-")
            assert (hello["machineName"], hello["page"]) == (os.uname().nodename, "1")
            # The scripted agent is offered to who chose it, and is ready without a key.
            for chosen, states in ({}, None), ({"default_agent": "scripted"}, ("ready", True)):
                place.settings(**chosen)
                agents = browser.call(line, "_dragoman/agents")["result"]["agents"]
                found = {row["name"]: (row["state"], row["isDefault"]) for row in agents}
                assert found.get("scripted") == states
                assert "dragoman" in found
            place.settings()
            marker = tmp_path / "ran"
            for agent in (f"-- touch {marker}", f"scripted; touch {marker}", "scripted --other", "/bin/sh", ""):
                meta = {"dragoman": {"agent": agent}}
                refused = browser.call(line, "session/new", cwd=str(place.project), mcpServers=[], _meta=meta)
                assert refused["error"]["code"] == -32602, agent
            assert "error" in browser.call(line, "_dragoman/web", do="stop")
            meta = {"dragoman": {"agent": "scripted"}}
            made = browser.call(line, "session/new", cwd=str(place.project), mcpServers=[], _meta=meta)
            id = made["result"]["sessionId"]
            listed = json.loads(installed.run(place, "list", "--json", verb="sessions").out)
            assert id in json.dumps(listed)
            assert not marker.exists()
        # Killed, the host comes back at the same port, and the browser is still paired.
        os.kill(pid_of(installed, place), signal.SIGKILL)
        until(process, "open again at")
        assert browser.ticket() == 200
        second = json.loads(installed.run(place, "pair", "--right", "view", "--json", verb="web").out)
        assert second["url"] == f"{browser.origin}/#{second['code']}"
        phone = Browser(browser.port)
        phone.pair(second["code"])
        shown = json.loads(installed.run(place, "status", "--json", verb="web").out)
        assert [device["rights"] for device in shown["devices"]].count(["view"]) == 1
        # Another program holds it too; it stays until the last one lets it go.
        with held(installed, place, "--json") as (other, _):
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0
            assert browser.ticket() == 200
            done = installed.run(place, "stop", verb="web")
            assert "closed" in done.err
            assert other.wait(SECONDS) == 0
        wait_for(lambda: not is_open(browser.port))
    # Detached, it is open without a program, and the host after an update opens it again.
    assert installed.run(place, "--detach", verb="web").out.startswith(f"{browser.origin}/#")
    before = pid_of(installed, place)
    installed.change("_version.py", '__version__ = "', '__version__ = "9.')
    with browser.line() as line:
        line.send(json.dumps(HELLO))
        line.recv(timeout=SECONDS)
        assert installed.run(place, "-a", "scripted", "--session", "s", "hello").code == 0
        with suppress(ConnectionClosed):
            while True:
                line.recv(timeout=SECONDS)
        assert line.close_code == 4503
    assert pid_of(installed, place) != before
    wait_for(lambda: is_open(browser.port))
    assert browser.ticket() == 200
    busy = installed.run(place, "--port", "99999", verb="web")
    assert (busy.code, "not a port" in busy.err) == (2, True)
    done = installed.run(place, "--listen", "0.0.0.0", "--host", "x.example", "-d", verb="web")
    assert done.code == 2
    assert "--tls-cert" in done.err
    assert browser.ticket() == 200  # what is wrong with a choice leaves the page as it is
    installed.run(place, "stop", verb="web")
    wait_for(lambda: not is_open(browser.port))


def test_a_detached_page_keeps_an_idle_host_and_a_served_host_has_the_same_page(
    installed: Installation, place: HostPlaceKit, tmp_path: Path
) -> None:
    build_page(installed.package / PAGE)
    place.settings(host={"idle": 0.1, "keep": 0})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = installed.run(place, "--detach", "--port", port, verb="web")
        assert done.code == 2
        assert "have to be paired again" in done.err
    made = json.loads(installed.run(place, "--detach", "--port", port, "--json", verb="web").out)
    assert made["address"] == f"http://127.0.0.1:{port}/"
    wait_for(lambda: "it stays for the web page" in place.log())
    assert is_open(int(port))
    installed.run(place, "stop", verb="web")
    wait_for(lambda: not place_has_host(installed, place))
    served = [*installed.words("serve"), "--web", "-a", "scripted", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*served, "--data", str(tmp_path / "data")],
        cwd=place.project,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            noted = until(process, "serve token pair")
            address = noted.partition("the web page is at ")[2].split()[0]
            browser = Browser(int(address.rstrip("/").rpartition(":")[2]))
            assert browser.ask("GET", "/")[:2] == (200, FILES["/"][3])
            words = ("token", "pair", "--user", "ada", "--right", "view", "--data", str(tmp_path / "data"))
            browser.pair(installed.run(place, *words, verb="serve").out.strip())
            assert browser.ticket() == 200
            tokens = json.loads(
                installed.run(place, "token", "list", "--json", "--data", str(tmp_path / "data"), verb="serve").out
            )
            (device,) = [token for token in tokens if token["kind"] == "device"]
            assert (device["user"], device["rights"], device["title"]) == ("ada", ["view"], "tests")
            revoke = ("token", "revoke", device["name"], "--data", str(tmp_path / "data"))
            assert installed.run(place, *revoke, verb="serve").code == 0
            assert browser.ticket() == 401
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SECONDS)


def place_has_host(installed: Installation, place: HostPlaceKit) -> bool:
    return installed.run(place, "--host", "--json", verb="sessions").out.strip() != "null"


def test_the_tour_of_the_demo_opens_in_a_browser_and_nothing_of_it_stays(
    installed: Installation, place: HostPlaceKit, tmp_path: Path
) -> None:
    """A session with the scripted model waits there; leaving ends its host and removes its folder."""
    build_page(installed.package / PAGE)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = ("demo", "--web")
    with held(installed, place, command=command, TMPDIR=str(temporary), BROWSER="true") as (process, line):
        assert line.startswith("http://127.0.0.1:")
        [folder] = temporary.glob("demo-*")
        assert (folder / "greeting" / "README.md").is_file()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode in (0, 130), errors  # 130 if it came before the page waits
        assert "A tour with a scripted model in your browser" in errors
    assert not folder.exists()
