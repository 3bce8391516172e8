"""An agent has the environment of its client in every form of running: real programs, and a host with another one.

The table of docs/sessions.md names these tests.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from dragoman.host.environment import block_for, differing, machine_mark, read_block, read_members
from tests.cli.exec_kit import PROGRAM
from tests.cli.terminal_kit import at_terminal
from tests.host.local.kit import HostPlaceKit, scripted, wait_for

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

    def prepare(self) -> None:
        self.noted = self.temporary / "environments"
        entry = {
            "command": sys.executable,
            "args": ["-IS", str(AGENT), str(self.noted)],
            "env": {"FROM_SETTINGS": "yes", "OVERRIDDEN": "by the settings"},
        }
        self.settings(agent_servers={"notes": entry}, default_agent="notes", host={"env": ["NOT_NEEDED"]})
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
        while not place.lines():
            terminal.until_more()
        terminal.until("noted")


def _resumed_by_attach(place: Forms) -> None:
    assert place.run("--session", "kept", "hello").code == 0
    place.start_host()
    place.noted.unlink()
    _in_terminal(place, "kept", "--plain")


def _resumed_by_exec(place: Forms) -> None:
    assert place.run("--session", "ended", "hello").code == 0
    os.kill(place.lines()[-1]["pid"], signal.SIGKILL)
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


def test_values_of_the_environment_are_in_no_file_and_in_nothing_that_is_shown(forms: Forms) -> None:
    recorded = forms.temporary / "recorded.jsonl"
    shown = [
        forms.run("--session", "recorded", "--record", str(recorded), "--output", "events", "hi"),
        forms.run("show", "last", "--full", verb="sessions"),
        forms.run("export", "last", "--format", "json", verb="sessions"),
        forms.run("report", "last", "-o", str(forms.temporary / "report.zip"), verb="sessions"),
    ]
    assert [done.code for done in shown] == [0, 0, 0, 0], shown
    assert "session/prompt" in recorded.read_text()
    forms.noted.unlink()
    files = [path for path in (forms.home, forms.temporary) for path in path.rglob("*") if path.is_file()]
    assert {"hosted", "ledger", "recorded"} <= {path.stem.partition("-")[0] for path in files}
    # As it travels: where the bytes of a value begin in base64 depends on what is before them.
    encoded = [b64encode(b"=" * before + b"key-of-the-client").decode()[4:-4] for before in range(3)]
    for secret in (*SECRETS, *encoded):
        assert not [path for path in files if secret.encode() in path.read_bytes()]
        assert not [done for done in shown if secret in done.out + done.err]


def test_commands_of_agents_get_no_keys(forms: Forms) -> None:
    words = ("--session", "commands", "-a", "scripted", "--dangerously-allow-all", "terminal env")
    seen = forms.run(*words).out + forms.run(*words[2:]).out
    assert len(re.findall(rf"^HOME={forms.home}$", seen, re.MULTILINE)) == 2, seen
    assert {name for name in MINE if re.search(rf"^{name}=", seen, re.MULTILINE)} == {"SSL_CERT_FILE"}


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
        os.kill(one["pid"], signal.SIGKILL)
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


def test_a_host_on_another_machine_is_sent_no_environment() -> None:
    assert read_block(block_for({"machine": machine_mark()})) == dict(os.environ)
    others: list[object] = [{}, {"machine": ""}, {"machine": "00000000"}, {"machine": None}, None, [], {"version": "1"}]
    for hello in others:
        assert block_for(hello) == ""


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
