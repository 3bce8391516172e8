"""An update while a host runs: its turns end, nothing is lost, and a host of the new code goes on with its sessions."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.local.build import PROTOCOL
from dragoman.host.local.place import HostPlace
from dragoman.host.local.thin import HostRefused, ThinClient, begin, begun, connect_to
from tests.host.local.installations import Installation, copy_package, run
from tests.host.local.kit import SECONDS, HostPlaceKit, wait_for
from tests.host.local.test_daemon import is_alive, read_to_the_end
from tests.tui.kit import Plain

# It keeps how many prompts a session had in a file, so that another process goes on. `wait FILE` goes on when the file
# is there, `ask` asks for a permission.
AGENT = """
import json, os, sys, time
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def say(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})
for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message or "id" not in message: continue
    params, result = message.get("params") or {}, {}
    if message["method"] == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    if message["method"] == "session/new":
        result = {"sessionId": f"{time.time_ns()}"}
    if message["method"] == "session/prompt":
        session, text = params["sessionId"], params["prompt"][0]["text"]
        path = os.path.join(os.path.dirname(__file__), session)
        count = int(open(path).read()) + 1 if os.path.exists(path) else 1
        with open(path, "w") as file: file.write(str(count))
        say(f"prompt {count}")
        if text.startswith("wait "):
            while not os.path.exists(text[5:]): time.sleep(0.01)
            say(" went on")
        if text == "ask":
            options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
            call = {"toolCallId": "c", "title": "Do it", "kind": "other"}
            send({"id": "q", "method": "session/request_permission",
                  "params": {"sessionId": session, "toolCall": call, "options": options}})
            say(" got " + json.loads(sys.stdin.readline())["result"]["outcome"]["outcome"])
        result = {"stopReason": "end_turn"}
    send({"id": message["id"], "result": result})
"""


class Updated:
    """A user whose installation is updated while its host runs."""

    def __init__(self, place: HostPlaceKit, folder: Path) -> None:
        self.place = place
        self.installed = Installation(folder / "installed")
        (folder / "agent").mkdir()
        self.agent = folder / "agent" / "agent.py"
        self.agent.write_text(AGENT)
        self.command = ("--", sys.executable, "-IS", str(self.agent))
        self.gate = folder / "gate"
        self._version = 1

    def run(self, *words: str, verb: str = "exec") -> Any:
        return self.installed.run(self.place, *words, verb=verb)

    def update(self) -> None:
        old = f'"{_version(self.installed)}"'
        self._version += 1
        self.installed.change("_version.py", old, f'"9.0.{self._version}"')

    def host(self) -> dict[str, Any]:
        found: dict[str, Any] | None = json.loads(self.run("--host", "--json", verb="sessions").out)
        return found or {}

    def rows(self) -> list[dict[str, Any]]:
        """The named sessions, as `sessions list` has them."""
        return [row for row in json.loads(self.run("list", "--json", verb="sessions").out) if row["name"]]

    def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in self.rows()}

    def client(self) -> ThinClient:
        folder, _, name = self.host()["socket"].removeprefix("unix:").rpartition("/")
        client = connect_to(HostPlace(folder, name.removeprefix("host-").removesuffix(".sock")))
        assert client is not None
        client.set_timeout(SECONDS)
        begun(client, begin(client))
        return client

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.installed.words("exec", *words),
            cwd=self.place.project,
            env=self.place.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def _version(installed: Installation) -> str:
    return (installed.package / "_version.py").read_text().split('"')[-2]


def until(process: subprocess.Popen[str], text: str) -> str:
    """The next line on stderr that has a text."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without {text!r}")


@pytest.fixture
def user(place: HostPlaceKit, tmp_path: Path) -> Updated:
    return Updated(place, tmp_path)


def test_an_idle_host_is_replaced_by_the_next_prompt_and_the_session_goes_on(user: Updated) -> None:
    assert user.run("--session", "s", "x", *user.command).out.strip() == "prompt 1"
    old = user.host()["pid"]
    assert user.run("--session", "s", "x").out.strip() == "prompt 2"
    assert user.host()["pid"] == old
    user.update()
    done = user.run("--session", "s", "x")
    assert done.out.strip() == "prompt 3"
    assert "is replaced by 9.0.2" in done.err
    assert not is_alive(old)
    assert user.host()["version"] == "9.0.2"
    assert len(user.place.pids()) == 1


def test_a_clone_whose_file_was_changed_has_another_host(place: HostPlaceKit, tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    clone = copy_package(tmp_path / "clone")
    exec_s = [sys.executable, "-m", "dragoman", "exec", "--session", "s", "-a", "scripted", "hello"]
    exec_t = [*exec_s[:5], "t", *exec_s[6:]]
    path = {"PYTHONPATH": str(clone.parent)}
    assert run(place, exec_s, **path).code == 0
    (old,) = place.pids()
    (clone / "view" / ".labels.py.swp").touch()  # of an editor
    changed = clone / "view" / "labels.py"
    made = changed.with_name("labels.new")
    made.write_text(changed.read_text() + "# changed\n")
    made.replace(changed)
    # It looks at the files at most once in a second, which the starts of two programs take.
    wait_for(lambda: "its host is replaced" in run(place, exec_t, **path).err)
    assert not is_alive(old)
    assert len(place.pids()) == 1


def test_a_turn_that_runs_ends_in_the_old_host_and_a_prompt_for_another_session_waits_for_it(user: Updated) -> None:
    with user.started("--session", "s", "--output", "json", f"wait {user.gate}", *user.command) as first:
        wait_for(lambda: user.host() and user.states().get("s") == "running")
        old = user.host()["pid"]
        user.update()
        busy = user.run("--session", "s", "x")  # of this session nothing else than always is said
        assert busy.code == 2
        assert "--queue waits behind it" in busy.err
        late = user.run("--session", "t", "--timeout", "0.5", "x", *user.command)
        assert "time is up" in late.err
        assert late.code == 3
        with user.started("--session", "t", "x", *user.command) as second:
            line = until(second, "dragoman was updated")
            assert "the prompt waits for the turn in s (dragoman sessions cancel s)" in line
            assert user.host()["isOutdated"]
            assert user.host()["pid"] == old
            user.gate.touch()
            out, err = first.communicate(timeout=SECONDS)
            assert first.returncode == 0, err
            assert json.loads(out)["text"] == "prompt 1 went on"
            out, err = second.communicate(timeout=SECONDS)
            assert (second.returncode, out.strip()) == (0, "prompt 1"), err
    assert not is_alive(old)
    assert user.run("--session", "s", "x").out.strip() == "prompt 2"
    assert user.host()["version"] == "9.0.2"


def test_a_question_stays_open_in_the_old_host_and_a_prompt_waits_for_it_for_a_while_only(
    user: Updated, request: pytest.FixtureRequest
) -> None:
    assert user.run("--session", "s", "--no-wait", "ask", *user.command).code == 0
    wait_for(lambda: user.states() == {"s": "waiting"})
    old = user.host()["pid"]
    user.update()
    user.installed.change("host/local/succession.py", "ANSWER_SECONDS: Final = 60.0", "ANSWER_SECONDS: Final = 0.1")
    done = user.run("--session", "t", "x", *user.command)
    assert done.code == 2
    remedy = "an answer in s (dragoman attach s, or: sessions cancel s)"
    assert f"the prompt waits for {remedy}" in done.err
    assert f"its host cannot be replaced: it waits for {remedy}" in done.err
    # A new client is asked, and its answer counts.
    client = user.client()
    request.addfinalizer(client.close)
    assert user.host()["pid"] == old
    (row,) = client.call("session/list")["sessions"]
    client.request("session/resume", sessionId=row["sessionId"], cwd=row["cwd"], mcpServers=[])
    while (question := client.read()).get("method") != "session/request_permission":
        pass
    client.answer(question["id"], {"outcome": {"outcome": "selected", "optionId": "y"}})
    wait_for(lambda: not is_alive(old))
    done = user.run("--session", "s", "x")
    assert done.out.strip() == "prompt 2", done.err
    shown = user.run("show", "s", "--json", verb="sessions").out
    assert "got selected" in shown


def test_a_prompt_that_waits_behind_a_turn_runs_in_the_old_host_before_it_ends(user: Updated) -> None:
    assert user.run("--session", "s", "--no-wait", f"wait {user.gate}", *user.command).code == 0
    assert user.run("--session", "s", "--no-wait", "x").code == 0
    old = user.host()["pid"]
    user.update()
    with user.started("--session", "t", "x", *user.command) as other:
        until(other, "dragoman was updated")
        user.gate.touch()
        out, err = other.communicate(timeout=SECONDS)
        assert (other.returncode, out.strip()) == (0, "prompt 1"), err
    assert not is_alive(old)
    assert user.run("--session", "s", "x").out.strip() == "prompt 3"


def test_a_held_prompt_can_be_cancelled_and_the_turn_that_runs_is_not(
    user: Updated, request: pytest.FixtureRequest
) -> None:
    assert user.run("--session", "s", "--no-wait", f"wait {user.gate}", *user.command).code == 0
    client = user.client()
    request.addfinalizer(client.close)
    (row,) = client.call("session/list")["sessions"]
    assert client.call("_dragoman/retire") == {
        "now": False,
        "work": [{"name": "s", "sessionId": row["sessionId"], "cwd": row["cwd"], "state": "running"}],
    }
    blocks = [{"type": "text", "text": "x"}]
    seen: list[dict[str, Any]] = []
    for _ in range(3):  # the cancel comes in one piece with the prompt, or not
        prompt = client.request("session/prompt", sessionId=row["sessionId"], prompt=blocks)
        client.notify("session/cancel", sessionId=row["sessionId"])
        assert client.result(prompt, seen.append) == {"stopReason": "cancelled"}
    assert any("this waits for the turn in s" in each["params"].get("text", "") for each in seen)
    client.request("session/prompt", sessionId=row["sessionId"], prompt=blocks)
    client.request("session/new", cwd=row["cwd"], mcpServers=[])
    # A client that does not know the host would not send it again.
    plain = connect_to(client.place)
    assert plain is not None
    request.addfinalizer(plain.close)
    plain.set_timeout(SECONDS)
    plain.call("initialize", protocolVersion=1, clientCapabilities={})
    with pytest.raises(HostRefused) as refused:
        plain.call("session/new", cwd=row["cwd"], mcpServers=[])
    assert refused.value.reason == "retiring"
    user.gate.touch()
    answers = [each for each in read_to_the_end(client) if "method" not in each]
    assert answers == []  # neither is answered here: they are for the next host
    shown = user.run("show", "s", "--json", verb="sessions").out
    assert "went on" in shown
    assert user.run("--session", "s", "x").out.strip() == "prompt 2"


def test_a_prompt_that_a_leaving_host_did_not_take_goes_to_the_next_one(place: HostPlaceKit) -> None:
    place.places.first.make()
    leaving = socket.socket(socket.AF_UNIX)
    leaving.bind(str(place.socket))
    leaving.listen()
    named = {"sessionId": "1", "cwd": str(place.project), "agent": "scripted", "state": "idle", "isBusy": False}
    own = {"version": "1", "protocol": PROTOCOL}
    answers: dict[str, Any] = {
        "initialize": {"protocolVersion": 1, "agentCapabilities": {"_meta": {"dragoman": own}}},
        "_dragoman/named": {"session": {**named, "hasAgent": True, "terms": {}}},
    }
    met: list[str] = []

    def leave() -> None:
        client, _ = leaving.accept()
        with client, client.makefile("rw") as lines:
            for line in lines:
                message = json.loads(line)
                met.append(message["method"])
                if message["method"] not in answers:
                    break
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": answers[message["method"]]}
                lines.write(json.dumps(answer) + "\n")
                lines.flush()
            place.socket.unlink()
            leaving.close()

    thread = threading.Thread(target=leave)
    thread.start()
    try:
        done = place.run("--session", "s", "-a", "scripted", "hello")
        assert done.out == "hello\n", done.err
    finally:
        thread.join(60)
    assert met == ["initialize", "_dragoman/named", "session/prompt"]


def test_a_terminal_client_comes_along_with_a_prompt_that_it_sent_meanwhile(user: Updated) -> None:
    place, python = user.place, str(user.installed.folder / "bin" / "python")
    client = Plain(place, *user.command, python=python)
    try:
        client.until("note: session")
        client.type("x")
        client.until("prompt 1")
        client.until("-- done")
        assert user.run("--session", "s", "--no-wait", f"wait {user.gate}", *user.command).code == 0
        old = user.host()["pid"]
        user.update()
        with user.started("--session", "t", "x", *user.command) as other:
            until(other, "dragoman was updated")
            client.type("x")
            client.until("this waits for the turn in s")
            user.gate.touch()
            client.until("the host is back")
            client.until("prompt 2")
            client.until("-- done")
            assert other.wait(SECONDS) == 0
        assert not is_alive(old)
        assert client.end() == 0
        assert len([line for line in client.seen if "prompt 2" in line]) == 1
    finally:
        client.close()


def test_watch_goes_on_at_the_new_host(user: Updated) -> None:
    assert user.run("--session", "s", "x", *user.command).code == 0
    command = user.installed.words("sessions", "watch", "s")
    with subprocess.Popen(
        command, cwd=user.place.project, env=user.place.environment, stdout=subprocess.PIPE, text=True
    ) as watch:
        try:
            assert watch.stdout is not None
            wait_for(lambda: user.rows()[0]["attached"] == 1)
            assert user.run("--session", "s", "y").code == 0
            user.update()
            assert user.run("--session", "s", "z").code == 0
            seen = [watch.stdout.readline().rstrip() for _ in range(8)]
            ended = "-- the turn ended: end_turn"
            assert seen == ["> x", "prompt 1", "> y", "prompt 2", ended, "> z", "prompt 3", ended]
        finally:
            watch.kill()


def test_a_terminal_client_that_is_opened_meanwhile_shows_what_it_waits_for(user: Updated) -> None:
    assert user.run("--session", "s", "--no-wait", f"wait {user.gate}", *user.command).code == 0
    old = user.host()["pid"]
    user.update()
    client = Plain(user.place, *user.command, python=str(user.installed.folder / "bin" / "python"))
    try:
        client.until("new prompts wait for the turn in s")
        client.type("x")
        user.gate.touch()
        client.until("prompt 1")  # of the new host, to which it came when the old one had ended, or just before
        client.until("-- done")
        wait_for(lambda: not is_alive(old))
        assert client.end() == 0
    finally:
        client.close()


def test_an_idle_host_with_an_attached_client_is_replaced_and_the_client_comes_along(user: Updated) -> None:
    client = Plain(user.place, *user.command, python=str(user.installed.folder / "bin" / "python"))
    try:
        client.until("note: session")
        old = user.host()["pid"]
        user.update()
        assert user.run("--session", "t", "x", *user.command).code == 0
        client.until("the host is back")
        client.type("x")
        client.until("prompt 1")
        assert not is_alive(old)
        assert os.path.exists(user.host()["socket"].removeprefix("unix:"))
        assert client.end() == 0
    finally:
        client.close()
