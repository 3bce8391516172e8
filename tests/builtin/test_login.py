"""Logging in over ACP, in the running agent: what each kind of client is offered, and what `authenticate` takes."""

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

from dragoman.settings.credentials import Credentials
from tests.builtin.providers.server import VARIABLES, WIRES, Answer, Asked, ProviderServer, refused, text_answer

KEY = "sk-ant-api03-0123456789abcdef"
MODEL = WIRES["anthropic"].model
SECONDS = 30.0


class Wire:
    """The agent as a process, and a client that writes its lines itself."""

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self._process = process
        self.home = home
        self.credentials = Credentials(home / "config")
        self._number = 0
        self.received: list[dict[str, Any]] = []

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the result, or the error under `error`."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            answer = json.loads(line)
            self.received.append(answer)
            if answer.get("id") == self._number and "method" not in answer:
                found: dict[str, Any] = answer["result"] if "result" in answer else {"error": answer["error"]}
                return found
        raise AssertionError("the agent ended")

    def start(self, **capabilities: Any) -> dict[str, Any]:
        return self.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)

    def open(self) -> dict[str, Any]:
        return self.ask("session/new", cwd=str(self.home.parent), mcpServers=[])

    def prompt(self, session: str, text: str = "hello") -> dict[str, Any]:
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


@contextmanager
def wire(folder: Path, *words: str, through: tuple[str, ...] = (), **variables: str) -> Iterator[Wire]:
    home = folder / "home"
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    own = {"DRAGOMAN_HOME": str(home), "SHLVL": "1", "DRAGOMAN_MODEL_LISTS": "off", **variables}
    command = [*through, sys.executable, "-m", "dragoman", "agent", "--log-level", "debug", *words]
    with subprocess.Popen(
        command, env={**env, **own}, cwd=folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield Wire(process, home)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(SECONDS)


@contextmanager
def provider() -> Iterator[ProviderServer]:
    """A provider that accepts one key, and repeats any other."""

    def play(asked: Asked) -> Answer:
        key = asked.headers.get("x-api-key", "")
        return text_answer("I am here") if key == KEY else refused(401, f"invalid key {key}")

    with ProviderServer(play=play) as server:
        yield server


def assert_no_key(client: Wire, *keys: str) -> None:
    """No key is in what the agent sent or wrote."""
    sent = json.dumps(client.received)
    for key in keys or (KEY,):
        assert key not in sent
        files = [path for path in client.home.rglob("*") if path.is_file() and path != client.credentials.path]
        assert [path for path in files if key.encode() in path.read_bytes()] == []


# What each kind of client is offered


def kinds(methods: list[dict[str, Any]]) -> dict[str, str]:
    return {method["id"]: method.get("type", "agent") for method in methods}


def test_a_client_without_terminals_is_offered_the_providers_only(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        methods = client.start(fs={"readTextFile": True}, terminal=True)["authMethods"]
        assert kinds(methods) == {"anthropic": "agent", "openai": "agent", "google": "agent"}
        assert all("dragoman agent login" in method["description"] for method in methods)
        assert "terminal-auth" not in json.dumps(methods)
        refusal = client.ask("authenticate", methodId="login")
        assert refusal["error"]["code"] == -32602


def test_a_client_with_terminals_is_offered_a_login_there(tmp_path: Path) -> None:
    with wire(tmp_path, "--model", MODEL) as client:
        methods = client.start(auth={"terminal": True})["authMethods"]
        assert kinds(methods) == {"anthropic": "agent", "login": "terminal"}
        assert methods[-1]["args"] == ["login"]
        assert "_meta" not in methods[-1]
        refusal = client.ask("authenticate", methodId="login")
        assert refusal["error"]["code"] == -32602, "a terminal method is never passed to authenticate"


def test_a_client_of_the_older_form_gets_the_command_that_it_can_run(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        methods = client.start(_meta={"terminal-auth": True})["authMethods"]
        assert kinds(methods)["login"] == "agent"
        form = methods[-1]["_meta"]["terminal-auth"]
        assert os.path.isabs(form["command"])
        assert form["label"] == "Log in"
        ended = subprocess.run(
            [form["command"], *form["args"], "anthropic"],
            env={**os.environ, "DRAGOMAN_HOME": str(client.home), "DRAGOMAN_MODEL_LISTS": "off"},
            input=KEY, text=True, check=False, timeout=SECONDS, capture_output=True,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert client.ask("authenticate", methodId="login") == {}
        assert "sessionId" in client.open()


# In the running process


def test_a_session_can_be_opened_after_a_login_elsewhere(tmp_path: Path) -> None:
    with provider() as server, wire(tmp_path, ANTHROPIC_BASE_URL=server.url) as client:
        client.start()
        refusal = client.open()["error"]
        assert refusal["code"] == -32000
        assert "dragoman agent login" in refusal["message"]
        assert client.ask("authenticate", methodId="anthropic")["error"]["code"] == -32000
        client.credentials.put("anthropic", KEY)
        session = client.open()["sessionId"]
        assert client.prompt(session)["stopReason"] == "end_turn"
        assert client.ask("authenticate", methodId="anthropic") == {}
        assert_no_key(client)


def test_a_refused_key_is_replaced_by_a_login_without_a_restart(tmp_path: Path) -> None:
    wrong = "sk-ant-wrong-0123456789"
    Credentials(tmp_path / "home" / "config").put("anthropic", wrong)
    with provider() as server, wire(tmp_path, ANTHROPIC_BASE_URL=server.url) as client:
        client.start()
        session = client.open()["sessionId"]
        refusal = client.prompt(session)["error"]
        assert refusal["code"] == -32000
        assert "invalid key [ANTHROPIC_API_KEY]" in refusal["message"]
        client.credentials.put("anthropic", KEY)
        assert client.prompt(session)["stopReason"] == "end_turn"
        client.credentials.remove("anthropic")
        assert client.open()["error"]["code"] == -32000
        assert_no_key(client, KEY, wrong)


@pytest.mark.parametrize(
    ("passed", "is_stored"),
    [
        (KEY, False),
        ({"apiKey": KEY}, False),
        ({"apiKey": KEY, "provider": "anthropic"}, False),
        ({"apiKey": KEY, "store": True}, True),
    ],
)
def test_a_client_passes_a_key(tmp_path: Path, passed: Any, is_stored: bool) -> None:
    # A key that is passed comes before one in the environment, which may be the reason for passing it.
    wrong = "sk-ant-wrong-01234567"
    with provider() as server, wire(tmp_path, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=wrong) as client:
        client.start()
        assert client.ask("authenticate", methodId="anthropic", _meta={"api-key": passed}) == {}
        session = client.open()["sessionId"]
        assert client.prompt(session)["stopReason"] == "end_turn"
        assert_no_key(client)
    assert Credentials(tmp_path / "home" / "config").path.exists() is is_stored


@pytest.mark.parametrize("verb", [("record",), ("inspect", "--live")])
@pytest.mark.parametrize("passed", [KEY, {"apiKey": KEY}])
def test_a_passed_key_is_in_no_recording(tmp_path: Path, verb: tuple[str, ...], passed: Any) -> None:
    recording = tmp_path / "r.jsonl"
    through = (sys.executable, "-m", "dragoman", *verb, "-o", str(recording), "--")
    with provider() as server, wire(tmp_path, "--unstable", through=through, ANTHROPIC_BASE_URL=server.url) as client:
        client.start()
        assert client.ask("authenticate", methodId="anthropic", _meta={"api-key": passed}) == {}
        assert client.prompt(client.open()["sessionId"])["stopReason"] == "end_turn", "the agent got the key itself"
        config = {"providerId": "google", "apiType": "_gemini", "baseUrl": server.url}
        assert client.ask("providers/set", **config, headers={"Authorization": "Bearer sk-google-0123456789"}) == {}
        assert_no_key(client)
    text = recording.read_text()
    assert "[passed key]" in text
    assert KEY not in text
    assert "sk-google" not in text


@pytest.mark.parametrize("verb", [("record",), ("inspect", "--live")])
def test_a_stored_key_is_in_no_recording(tmp_path: Path, verb: tuple[str, ...]) -> None:
    recording = tmp_path / "r.jsonl"
    through = (sys.executable, "-m", "dragoman", *verb, "-o", str(recording), "--")
    stored = Credentials(tmp_path / "home" / "config")
    stored.put("anthropic", KEY)
    with wire(tmp_path, "--model", "scripted", "--mode", "full", through=through) as client:
        client.start()
        client.prompt(client.open()["sessionId"], f"run cat {stored.path}")
        assert KEY in json.dumps(client.received), "the conversation itself is passed on unchanged"
    text = recording.read_text()
    assert "[ANTHROPIC_API_KEY]" in text
    assert KEY not in text


@pytest.mark.parametrize(
    ("passed", "path"),
    [
        (7, '$._meta["api-key"]'),
        ("", '$._meta["api-key"]'),
        ("two words", '$._meta["api-key"]'),
        ({"apiKey": ["x"]}, '$._meta["api-key"]'),
        ({"apiKey": KEY, "provider": "bedrock"}, '$._meta["api-key"].provider'),
        ({"apiKey": KEY, "provider": 7}, '$._meta["api-key"].provider'),
    ],
)
def test_what_is_not_a_key_is_refused(tmp_path: Path, passed: Any, path: str) -> None:
    with wire(tmp_path) as client:
        client.start()
        error = client.ask("authenticate", methodId="anthropic", _meta={"api-key": passed})["error"]
        assert error["code"] == -32602
        assert path in json.dumps(error).replace('\\"', '"')
        assert client.open()["error"]["code"] == -32000
        assert_no_key(client)


# Unstable parts


def test_without_the_flag_the_unstable_methods_are_not_there(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        assert "providers" not in client.start()["agentCapabilities"]
        for method in ("providers/list", "auth/status"):
            assert client.ask(method)["error"]["code"] == -32601


def test_a_client_sets_and_disables_a_provider(tmp_path: Path) -> None:
    with provider() as server, wire(tmp_path, "--unstable") as client:
        assert client.start()["agentCapabilities"]["providers"] == {}
        assert client.ask("auth/status")["state"] == "unauthenticated"
        found = {each["providerId"]: each for each in client.ask("providers/list")["providers"]}
        assert found["anthropic"]["supported"] == ["anthropic"]
        assert found["anthropic"].get("current") is None
        config = {"providerId": "anthropic", "apiType": "anthropic", "baseUrl": server.url}
        assert client.ask("providers/set", **config, headers={"X-Api-Key": KEY, "X-Team": "blue"}) == {}
        found = {each["providerId"]: each for each in client.ask("providers/list")["providers"]}
        assert found["anthropic"]["current"] == {"apiType": "anthropic", "baseUrl": server.url}
        status = client.ask("auth/status")
        assert (status["state"], len(status["accounts"])) == ("authenticated", 1)
        session = client.open()["sessionId"]
        assert client.prompt(session)["stopReason"] == "end_turn"
        assert server.asked[-1].headers["x-team"] == "blue"
        count = len(server.asked)
        assert client.ask("providers/disable", providerId="anthropic") == {}
        assert client.prompt(session)["error"]["code"] == -32000
        assert client.open()["error"]["code"] == -32000
        assert len(server.asked) == count
        assert_no_key(client)
        assert not client.credentials.path.exists()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"providerId": "oracle"}, "$.providerId"),
        ({"apiType": "bedrock"}, "$.apiType"),
        ({"baseUrl": "ftp://127.0.0.1"}, "$.baseUrl"),
        ({"headers": {"bad name": "x"}}, "$.headers"),
        ({"headers": {"authorization": f"Bearer {KEY}\r\nhost: evil"}}, "$.headers"),
    ],
)
def test_a_provider_that_cannot_be_set_is_refused(tmp_path: Path, change: dict[str, Any], path: str) -> None:
    config = {"providerId": "anthropic", "apiType": "anthropic", "baseUrl": "http://127.0.0.1:1", "headers": {}}
    with wire(tmp_path, "--unstable") as client:
        client.start()
        error = client.ask("providers/set", **{**config, **change})["error"]
        assert error["code"] == -32602
        assert path in json.dumps(error)
        assert client.open()["error"]["code"] == -32000
        assert_no_key(client)


def test_a_scripted_model_needs_no_login(tmp_path: Path) -> None:
    with wire(tmp_path, "--unstable", "--model", "scripted") as client:
        assert client.start(auth={"terminal": True})["authMethods"] == []
        assert client.ask("auth/status")["state"] == "not_required"
