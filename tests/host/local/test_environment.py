"""An agent has the environment of its client in every form of running: real programs, and a host with another one.

The table of docs/sessions.md names these tests.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest

from dragoman.host.environment import METHOD, block_for, differing, machine_mark, read_block, read_members
from dragoman.host.local.build import hello
from dragoman.host.local.place import HostPlace
from dragoman.host.local.thin import HostRefused, begin, begun, connect_to
from tests import machine
from tests.builtin.providers.server import ProviderServer, text_answer
from tests.cli.exec_kit import PROGRAM
from tests.cli.terminal_kit import at_terminal
from tests.host.local.kit import HostPlaceKit, kill, scripted, wait_for

AGENT: Final = Path(__file__).parent / "environment_agent.py"
ODD: Final = os.fsdecode(b"caf\xe9 \xff")
MINE: Final = {
    "OPENAI_API_KEY": "key-of-the-client",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "ANTHROPIC_API_KEY": "other-key-of-the-client",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1/anthropic",
    "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1/gemini",
    "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:1/azure",
    "OLLAMA_HOST": "127.0.0.1:1",
    "HTTPS_PROXY": "http://127.0.0.1:1/proxy",
    "NO_PROXY": "127.0.0.1,of-the-client",
    "SSL_CERT_FILE": "/certificates/of-the-client.pem",
    "PGPASSWORD": "password-of-the-client",
    "MY_OWN": "two lines\nof the client",
    "EMPTY": "",
    "ODD": ODD,
}
"""Of the client: keys, addresses, what no list of names has, and what is not text."""
SECRETS: Final = ("key-of-the-client", "password-of-the-client", "of-the-client.pem", "of the client")


class Forms(HostPlaceKit):
    """A client with its own environment, and a host that was started with another."""

    hosts = 0
    url = ""

    @property
    def settings_file(self) -> Path:
        return self.home / "dragoman" / "config" / "settings.json"

    def prepare(self) -> None:
        self.noted = self.temporary / "environments"
        entry = {
            "command": sys.executable,
            "args": ["-IS", str(AGENT), str(self.noted)],
            "env": {"FROM_SETTINGS": "yes", "OVERRIDDEN": "by the settings"},
        }
        narrow = {**entry, "env_allow": ["OPENAI_API_KEY"]}
        self.settings(
            agent_servers={"notes": entry, "narrow": narrow}, default_agent="notes", host={"env": ["NOT_NEEDED"]}
        )
        self.theirs = {**self.environment, "OPENAI_API_KEY": "key-of-the-host", "OVERRIDDEN": "by the host"}
        self.mine = {**self.environment, **MINE, "OVERRIDDEN": "by the client"}
        self.start_host()

    def start_host(self) -> None:
        """Starts a host with another environment than the client's, after ending the one that runs."""
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not self.pids())
        self.environment = self.theirs
        done = scripted(self, f"first {self.hosts}")
        self.environment, self.hosts = self.mine, self.hosts + 1
        assert done.code == 0, done

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.noted.read_text().splitlines()] if self.noted.exists() else []

    @contextmanager
    def serving(self, *words: str) -> Iterator[str]:
        """`dragoman serve` with the environment of the host; gives its address."""
        with subprocess.Popen(
            [*PROGRAM, "serve", *words],
            cwd=self.project,
            env=self.theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()
                process.communicate(timeout=60)


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forms]:
    place = Forms(tmp_path_factory.mktemp("forms"))
    try:
        place.prepare()
        git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.org")
        for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
            subprocess.run([*git, *words], cwd=place.project, check=True)
        yield place
    finally:
        place.end()


# Each runs the agent once, for a client.


def _in_terminal(place: Forms, *words: str) -> None:
    with at_terminal(place, "attach", *words, "--prompt", "hi", term="xterm-256color") as terminal:
        terminal.until_so(place.lines)
        terminal.until("noted")


def _resumed_by_attach(place: Forms) -> None:
    assert place.run("--session", "kept", "hello").code == 0
    place.start_host()
    place.noted.unlink()
    _in_terminal(place, "kept", "--plain")


def _resumed_by_exec(place: Forms) -> None:
    assert place.run("--session", "ended", "hello").code == 0
    kill(place.lines()[-1]["pid"])
    place.noted.unlink()
    assert place.run("--session", "ended", "again").code == 0


def _served(place: Forms) -> None:
    with place.serving("--listen", f"unix:{place.runtime}/served", "-a", "notes") as url:
        assert place.run("--url", url, "hi").code == 0


FORMS: Final[dict[str, Callable[[Forms], object]]] = {
    "exec": lambda place: place.run("hi"),
    "exec --session": lambda place: place.run("--session", "named", "hi"),
    "plain": lambda place: _in_terminal(place, "--plain", "-a", "notes"),
    "inline": lambda place: _in_terminal(place, "--inline", "-a", "notes"),
    "full": lambda place: _in_terminal(place, "-a", "notes"),
    "attach to a session of an earlier host": _resumed_by_attach,
    "exec --session after its agent was killed": _resumed_by_exec,
    "compare": lambda place: place.run("notes", "hi", verb="compare"),
    "guard": lambda place: place.run("hi", "--", *PROGRAM, "guard", "-a", "notes"),
    "connect to the local host": lambda place: place.run("--url", f"unix:{place.socket}", "hi"),
    "serve, for a client on this machine": _served,
}


@pytest.mark.parametrize("form", FORMS)
def test_an_agent_has_the_environment_of_its_client_in_every_form(forms: Forms, form: str) -> None:
    done = FORMS[form](forms)
    found = forms.lines()
    forms.noted.unlink(missing_ok=True)
    assert len(found) == 1, done
    expected = {**MINE, "FROM_SETTINGS": "yes", "OVERRIDDEN": "by the settings"}
    assert {name: found[0].get(name) for name in expected} == expected
    assert len(forms.pids()) == 1


def test_an_agent_that_is_only_logged_in_to_has_the_environment_of_its_client(forms: Forms) -> None:
    client = forms.connect(begins=False)
    own = client.result(begin(client))["agentCapabilities"]["_meta"]["dragoman"]
    block = b64encode(b"OPENAI_API_KEY=key-of-the-client\0PATH=" + os.environb[b"PATH"]).decode()
    assert own["machine"] == machine_mark()
    client.notify(METHOD, block=block)
    wanted = {"agent": "notes", "method": "any"}
    client.send({"jsonrpc": "2.0", "id": "login", "method": "_dragoman/log_in", "params": wanted})
    while (answer := client.read()).get("id") != "login":
        pass
    assert answer["result"] == {}
    client.close()
    (found,) = forms.lines()
    forms.noted.unlink()
    assert (found["OPENAI_API_KEY"], found.get("HOME")) == ("key-of-the-client", None)


def test_the_program_of_an_agent_is_found_on_the_path_of_its_client(forms: Forms) -> None:
    programs = forms.temporary / "programs"
    programs.mkdir()
    for name in ("gemini", "only-here"):
        (programs / name).write_text(f"#!/bin/sh\nexec {sys.executable} -IS {AGENT} {forms.noted}\n")
        (programs / name).chmod(0o700)
    try:
        forms.environment = {**forms.mine, "PATH": f"{programs}:{forms.mine['PATH']}"}
        for words in (("-a", "gemini", "hi"), ("hi", "--", "only-here")):
            done = forms.run("--session", f"found {words[1]}", *words)
            assert done.code == 0, done
        assert len(forms.lines()) == 2
    finally:
        forms.environment = forms.mine
        forms.noted.unlink(missing_ok=True)


@pytest.mark.parametrize("words", [(), ("--session", "narrow")], ids=["exec", "exec --session"])
def test_a_key_that_the_settings_allow_has_its_address(forms: Forms, words: tuple[str, ...]) -> None:
    done = forms.run(*words, "-a", "narrow", "hi")
    (found,) = forms.lines()
    forms.noted.unlink()
    inherited = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "SSL_CERT_FILE"}
    assert {name for name in MINE if name in found} == inherited, done
    assert found["OVERRIDDEN"] == "by the settings"


def test_values_of_the_environment_are_in_no_file_and_in_nothing_that_is_shown(forms: Forms) -> None:
    recorded = forms.temporary / "recorded.jsonl"
    shown = [
        forms.run("hi", "--", *PROGRAM, "guard", "-a", "notes"),
        forms.run("--session", "recorded", "--record", str(recorded), "--output", "events", "hi"),
        forms.run("show", "last", "--full", verb="sessions"),
        forms.run("export", "last", "--format", "json", verb="sessions"),
        forms.run("report", "last", "-o", str(forms.temporary / "report.zip"), verb="sessions"),
        forms.run("--session", "recorded", "repeat it"),
        forms.run("--session", "recorded", "die of it"),
    ]
    assert [done.code for done in shown] == [0, 0, 0, 0, 0, 0, 4], shown
    assert [done.out for done in shown[5:]] == ["noted [OPENAI_API_KEY]\n", "noted\n"]
    assert "refused: [OPENAI_API_KEY]" in shown[6].err
    assert "session/prompt" in recorded.read_text()
    forms.noted.unlink()
    files = [path for path in (forms.home, forms.temporary) for path in path.rglob("*") if path.is_file()]
    assert {"hosted", "ledger", "recorded"} <= {path.stem.partition("-")[0] for path in files}
    # As it travels: where the bytes of a value begin in base64 depends on what is before them.
    encoded = [b64encode(b"=" * before + b"key-of-the-client").decode()[4:-4] for before in range(3)]
    kept = {path: path.read_bytes() for path in files}
    with ZipFile(forms.temporary / "report.zip") as report:
        kept |= {Path(name): report.read(name) for name in report.namelist()}
    assert {"audit", "report"} <= {part for path in kept for part in (*path.parent.parts[-2:], path.stem)}
    for secret in (*SECRETS, *encoded):
        assert not [path for path, data in kept.items() if secret.encode() in data]
        assert not [done for done in shown if secret in done.out + done.err]


def test_a_client_with_another_environment_is_not_shown_the_key_that_an_agent_repeats(forms: Forms) -> None:
    assert forms.run("--session", "repeated", "repeat it").code == 0
    try:
        forms.environment = forms.theirs
        with at_terminal(forms, "sessions", "watch", "repeated") as terminal:
            terminal.until("noted [OPENAI_API_KEY]")
    finally:
        forms.environment = forms.mine
        forms.noted.unlink(missing_ok=True)


def test_commands_of_agents_get_no_keys(forms: Forms) -> None:
    words = ("--session", "commands", "-a", "scripted", "--dangerously-allow-all", "terminal env")
    seen = forms.run(*words).out + forms.run(*words[2:]).out
    assert len(re.findall(rf"(?:^|: )HOME={forms.home}$", seen, re.MULTILINE)) == 2, seen
    assert {name for name in MINE if re.search(rf"(?:^|: ){name}=", seen, re.MULTILINE)} == {"SSL_CERT_FILE"}


@machine.needs_sandbox("bubblewrap")
def test_places_that_variables_of_the_client_name_are_hidden_in_the_sandbox(forms: Forms) -> None:
    secret = forms.project / "kube.yaml"
    secret.write_text("the content\n")
    found = {}
    for name in ("KUBECONFIG", "OTHER"):
        forms.environment = {**forms.mine, name: str(secret)}
        words = ("--session", f"hidden {name}", "-a", "scripted", "--sandbox", "require", "terminal cat kube.yaml")
        found[name] = "the content" in forms.run(*words).out
    forms.environment = forms.mine
    assert found == {"KUBECONFIG": False, "OTHER": True}


def test_an_agent_that_runs_keeps_its_environment_and_the_next_start_has_that_of_the_last_client(forms: Forms) -> None:
    place = forms
    assert "other values" not in place.run("--session", "shared", "one").err
    try:
        place.environment = {**place.mine, "OPENAI_API_KEY": "key-of-the-second", "MY_OWN": "x", "SHLVL": "7"}
        second = place.run("--session", "shared", "two")
        place.environment = {**place.mine, "PWD": "/", "TERM": "other", "MY_OWN": "y"}
        third = place.run("--session", "shared", "three")
        (one, two, three) = place.lines()
        assert one == two == three
        assert "started with other values of OPENAI_API_KEY than this client has" in second.err
        assert "key-of" not in second.err
        assert third.err == ""  # nothing that decides which provider is called differs
        place.environment = {**place.mine, "OPENAI_API_KEY": "key-of-the-second"}
        place.run("--session", "shared", "four")
        kill(one["pid"])
        assert "other values" not in place.run("--session", "shared", "five").err
        assert [found["OPENAI_API_KEY"] for found in place.lines()[3:]] == ["key-of-the-client", "key-of-the-second"]
    finally:
        place.environment = place.mine
        place.noted.unlink(missing_ok=True)


def test_the_terminal_client_shows_that_a_session_has_another_key(forms: Forms) -> None:
    assert forms.run("--session", "seen", "one").code == 0
    try:
        forms.environment = {**forms.mine, "OPENAI_BASE_URL": "http://127.0.0.1:2/v1"}
        with at_terminal(forms, "attach", "seen", "--plain") as terminal:
            terminal.until("other values of OPENAI_BASE_URL than this client has")
    finally:
        forms.environment = forms.mine
        forms.noted.unlink(missing_ok=True)


@pytest.mark.parametrize("way", ["connect", "the socket of the local host"])
@pytest.mark.parametrize("mark", [machine_mark(), "00000000", "", None])
def test_a_host_on_another_machine_is_sent_no_environment(tmp_path: Path, way: str, mark: str | None) -> None:
    """A socket that leads to another machine, as `ssh -L` makes it: what is behind it answers as hosts do."""
    own = {**hello(), "agents": ["x"], "machine": mark}
    answer = {"protocolVersion": 1, "agentCapabilities": {"_meta": {"dragoman": own}}}
    with _forwarded(HostPlace(str(tmp_path), "a"), answer) as (place, received):
        if way == "connect":
            words = [*PROGRAM, "exec", "--no-ledger", "--url", f"unix:{place.socket}", "hi"]
            env = {**os.environ, "DRAGOMAN_HOME": str(tmp_path / "home"), "PGPASSWORD": "secret"}
            done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
            assert "not today" in done.stderr
        else:
            client = connect_to(place)
            assert client is not None
            begun(client, begin(client))
            with pytest.raises(HostRefused, match="not today"):
                client.call("session/new", cwd="/", mcpServers=[])
            client.close()
    methods = [message["method"] for message in received]
    expected = ["initialize", *([METHOD] if mark == machine_mark() else []), "session/new"]
    assert methods == expected


def test_no_session_is_opened_in_a_host_that_does_not_pass_the_environment_on(place: HostPlaceKit) -> None:
    """One of an earlier version, which works: it keeps its list of names, and would drop the address of a key."""
    answer = {"protocolVersion": 1, "agentCapabilities": {"_meta": {"dragoman": {**hello(), "protocol": 2}}}}
    where, refusal = place.places.first, "a key without the address that it is for"
    where.make()
    with _forwarded(where, answer) as (_, received):
        assert refusal in scripted(place, "new").err
    words = ("attach", "--plain", "-a", "scripted")
    with _forwarded(where, answer) as (_, received_too), at_terminal(place, *words) as terminal:
        terminal.until(refusal)
    assert "session/list" in [message["method"] for message in received]
    assert not [one for one in (*received, *received_too) if one["method"] in (METHOD, "session/new")]


@contextmanager
def _forwarded(place: HostPlace, hello: dict[str, Any]) -> Iterator[tuple[HostPlace, list[dict[str, Any]]]]:
    """A host at a place that answers `initialize` with `hello` and has no sessions; gives what it receives, too."""
    received: list[dict[str, Any]] = []
    with socket.socket(socket.AF_UNIX) as listening:
        with suppress(FileNotFoundError):
            os.unlink(place.socket)
        listening.bind(place.socket)
        listening.listen()

        def serve() -> None:
            with suppress(OSError), listening.accept()[0] as client, client.makefile("rw", encoding="utf-8") as lines:
                for line in lines:
                    message = json.loads(line)
                    received.append(message)
                    if "id" in message:
                        answer = {"result": known[message["method"]]} if message["method"] in known else refusal
                        lines.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
                        lines.flush()

        known: dict[str, object] = {"initialize": hello, "session/list": {"sessions": []}}
        refusal: dict[str, object] = {"error": {"code": -32603, "message": "not today"}}
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield place, received
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_any_environment_travels_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {b"A": b"1", b"EMPTY": b"", b"ODD": b"\xff\n=\x01 \xe2\x82"}
    monkeypatch.setattr(os, "environb", found)
    hello = {"machine": machine_mark()}
    assert read_block(block_for(hello)) == {"A": "1", "EMPTY": "", "ODD": os.fsdecode(found[b"ODD"])}
    found.clear()
    assert block_for(hello) == ""
    others: list[object] = [None, 1, {}, "no base64!", "QQ", "Q"]
    assert [read_block(broken) for broken in others] == [None] * len(others)


def test_what_is_not_a_variable_is_not_taken_from_a_client() -> None:
    assert read_members({"A": "1", "B": 2, "": "x", "C=D": "x", "E": "a\0b", "F": ""}) == {"A": "1", "F": ""}
    assert read_members(None) is read_members([("A", "1")]) is None


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        *((name, True) for name in ("OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_BASE_URL", "OPENAI_API_BASE")),
        *(
            (name, True)
            for name in ("AZURE_OPENAI_ENDPOINT", "OLLAMA_HOST", "https_proxy", "NO_PROXY", "SSL_CERT_FILE")
        ),
        *((name, False) for name in ("PWD", "SHLVL", "TERM", "XDG_ACTIVATION_TOKEN", "VSCODE_GIT_IPC_AUTH_TOKEN")),
    ],
)
def test_only_keys_addresses_and_proxies_are_worth_a_notice(name: str, matters: bool) -> None:
    assert differing({"SAME": "1", name: "1"}, {"SAME": "1", name: "2"}) == ((name,) if matters else ())
    assert differing({name: ""}, {}) == ()
    is_address = name.endswith(("_URL", "_BASE", "_ENDPOINT", "_HOST"))
    assert differing({name: "1"}, {}) == ((name,) if is_address else ())
    assert differing({}, {name: "1"}) == ((name,) if matters else ())


# Agents elsewhere, and the providers of models


REMOTE_FORMS: Final[dict[str, Callable[[Forms], object]]] = {
    "exec": lambda place: place.run("-a", "far", "hi"),
    "exec --session": lambda place: place.run("--session", "far", "-a", "far", "hi"),
    "plain": lambda place: _in_terminal(place, "--plain", "-a", "far"),
    "compare": lambda place: place.run("far", "hi", verb="compare"),
    "guard": lambda place: place.run("hi", "--", *PROGRAM, "guard", "-a", "far"),
    "connect": lambda place: place.run("hi", "--", *PROGRAM, "connect", place.url, "--token-env", "FAR_TOKEN"),
}


@pytest.fixture(scope="module")
def far(forms: Forms) -> Iterator[Forms]:
    """The same, with an agent that is reached by a URL and a token."""
    with forms.serving("--listen", "127.0.0.1:0", "-a", "notes", "--folder", "/") as forms.url:
        token = (forms.home / "dragoman/data/serve/first.token").read_text().strip()
        entry = {"url": forms.url, "token_env": "FAR_TOKEN"}
        kept = json.loads(forms.settings_file.read_text())
        forms.settings(**{**kept, "agent_servers": {**kept["agent_servers"], "far": entry}})
        forms.environment = forms.mine = {**forms.mine, "FAR_TOKEN": token}
        yield forms


@pytest.mark.parametrize("form", REMOTE_FORMS)
def test_the_token_of_a_remote_agent_is_found_in_every_form_and_nothing_else_is_sent(far: Forms, form: str) -> None:
    done = REMOTE_FORMS[form](far)
    found = far.lines()
    far.noted.unlink(missing_ok=True)
    assert len(found) == 1, done
    assert found[0]["OPENAI_API_KEY"] == "key-of-the-host"
    assert not [name for name in (*MINE, "FAR_TOKEN") if found[0].get(name) == far.mine[name]]


class _Trap:
    """A proxy that everything would go through that is not for this machine; it only counts."""

    def __init__(self, listening: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.count = 0


@contextmanager
def _counted() -> Iterator[_Trap]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        trap = _Trap(listening)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    listening.accept()[0].close()
                    trap.count += 1

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield trap
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("form", ["plain", "exec --session"])
def test_a_prompt_goes_to_the_server_that_the_client_names_and_nowhere_else(forms: Forms, form: str) -> None:
    with ProviderServer(play=lambda asked: text_answer("from the stand-in")) as provider, _counted() as trap:
        own = {"OPENAI_API_KEY": "key-of-my-server", "OPENAI_BASE_URL": f"{provider.url}/v1"}
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), trap.url)
        forms.environment = {**forms.theirs, **own, **proxies, "NO_PROXY": "127.0.0.1"}
        try:
            words = ("-a", "dragoman", "--model", "openai:gpt-5")
            if form == "plain":
                with at_terminal(forms, "attach", "--plain", *words, "--prompt", "hi") as terminal:
                    terminal.until("from the stand-in")
            else:
                done = forms.run("--session", "own server", *words, "hi")
                assert done.out == "from the stand-in\n", done
        finally:
            forms.environment = forms.mine
    assert provider.asked
    for asked in provider.asked:
        assert {name.lower(): value for name, value in asked.headers.items()}[
            "authorization"
        ] == "Bearer key-of-my-server"
    assert trap.count == 0
