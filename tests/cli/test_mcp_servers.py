"""`dragoman mcp list|add|remove|login|logout|test|allow|deny`, from outside: what is printed, stored and returned."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp")
import httpx2

from dragoman.cli import exits
from dragoman.cli.commands.mcp import RIGHTS
from dragoman.cli.main import main
from dragoman.settings.servers import MCP_RIGHTS

SERVERS = Path(__file__).parent.parent / "builtin" / "mcp"
OLD = [sys.executable, str(SERVERS / "old_server.py")]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Shell:
    """Runs `dragoman mcp` in this process, in a project of its own and with a separate home."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = folder / "own"
        self.project = folder / "project"
        self.settings = self.home / "config" / "settings.json"
        self._capsys = capsys

    def __call__(self, *words: str) -> Ran:
        self._capsys.readouterr()
        code = main(["mcp", *words])
        return Ran(code, *self._capsys.readouterr())

    def member(self, *keys: str) -> Any:
        value = json.loads(self.settings.read_text())
        for key in keys:
            value = value[key]
        return value


@pytest.fixture
def mcp(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = Shell(tmp_path, capsys)
    (shell.project / ".git").mkdir(parents=True)
    monkeypatch.setenv("DRAGOMAN_HOME", str(shell.home))
    monkeypatch.chdir(shell.project)
    return shell


def test_a_server_is_added_listed_changed_and_removed(mcp: Shell) -> None:
    assert "there are no MCP servers" in mcp("list").err
    mcp.settings.parent.mkdir(parents=True)
    mcp.settings.write_text('{"future_setting": 1}')
    assert "try it with: dragoman mcp test files" in mcp("add", "files", "--env", "KEY=hidden-value", "--", *OLD).err
    web = ("add", "web", "--url", "https://u:p@docs.example/mcp?key=hidden-value", "--header", "X-Key: hidden-value")
    assert mcp(*web).code == exits.OK
    oauth = ("--client-id", "me", "--client-secret-env", "SECRET", "--scope", "read", "--callback-port", "7777")
    assert mcp("add", "own", "--url", "https://own.example/mcp", "--transport", "sse", *oauth).code == exits.OK
    assert mcp.member("future_setting") == 1
    assert mcp.member("mcp_servers", "files") == {"command": OLD[0], "args": OLD[1:], "env": {"KEY": "hidden-value"}}
    assert mcp.member("mcp_servers", "own", "oauth") == {
        "clientId": "me",
        "clientSecretEnv": "SECRET",
        "scopes": ["read"],
        "callbackPort": 7777,
    }
    again = mcp(*web)
    assert (again.code, "--replace" in again.err) == (exits.USAGE, True)
    assert mcp(*web, "--replace").code == exits.OK
    listed = mcp("list")
    assert re.search(r"files +user +used +- +-", listed.out)
    assert re.search(r"own +user +used +logged out", listed.out)
    rows = mcp("list", "--json")
    assert [(row["name"], row["kind"], row["login"]) for row in rows.document] == [
        ("files", "stdio", ""),
        ("web", "http", "logged out"),
        ("own", "sse", "logged out"),
    ]
    assert "hidden-value" not in listed.out + rows.out
    assert "you are asked each time" in mcp("allow", "files", "sampling").err
    assert mcp("allow", "files", "elicitation").code == exits.OK
    assert mcp("list", "--json").document[0]["may"] == ["elicitation", "sampling"]
    assert mcp("allow", "files", "sampling", "--always").code == exits.OK
    assert mcp.member("mcp_servers", "files", "sampling") == "always"
    assert mcp("deny", "files", "sampling").code == exits.OK
    assert "sampling" not in mcp.member("mcp_servers", "files")
    assert mcp("remove", "files").code == exits.OK
    assert "files" not in mcp.member("mcp_servers")
    assert stat.S_IMODE(mcp.settings.stat().st_mode) == 0o600


def test_a_project_only_proposes_and_cannot_allow_itself_anything(mcp: Shell) -> None:
    assert "agents accept --mcp db" in mcp("add", "db", "--project", "--", *OLD, "fine").err
    path = mcp.project / ".dragoman" / "settings.json"
    document = json.loads(path.read_text())
    document["mcp_servers"]["db"] |= {"sampling": "always", "elicitation": True}
    document["mcp_servers"]["far"] = {"url": "https://x.example", "oauth": {"clientSecretEnv": "HOME", "clientId": "i"}}
    path.write_text(json.dumps(document))
    listed = mcp("list", "--json")
    rows = {row["name"]: row for row in listed.document}
    assert (rows["db"]["source"], rows["db"]["state"], rows["db"]["may"]) == ("project", "proposed", [])
    for member in ("sampling", "elicitation", "oauth.clientSecretEnv"):
        assert f"cannot set {member} of an MCP server" in listed.err
    refused = mcp("test", "db")
    assert (refused.code, "agents accept --mcp db" in refused.err) == (exits.USAGE, True)
    assert "comes from the project" in mcp("allow", "db", "sampling").err
    assert "--project" in mcp("remove", "db").err
    assert mcp("remove", "db", "--project").code == exits.OK


def test_a_file_of_the_project_stays_readable_for_all_and_is_not_written_through_a_link(mcp: Shell) -> None:
    folder = mcp.project / ".dragoman"
    mcp("add", "db", "--project", "--", "db-server")
    path = folder / "settings.json"
    usual = 0o644 & ~_umask()
    assert stat.S_IMODE(path.stat().st_mode) == usual
    path.chmod(0o664)
    mcp("add", "far", "--project", "--url", "https://x.example")
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    mcp("add", "mine", "--", "my-server")
    path.unlink()
    path.symlink_to(mcp.settings)
    before = mcp.settings.read_text()
    refused = mcp("add", "db", "--project", "--", "db-server")
    assert (refused.code, "leads out of the project" in refused.err) == (exits.USAGE, True)
    assert mcp.settings.read_text() == before


def _umask() -> int:
    os.umask(now := os.umask(0o022))
    return now


def test_completion_names_the_rights_that_there_are() -> None:
    assert RIGHTS == MCP_RIGHTS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "missing action"),
        (("add", "x"), "either a command after -- or --url"),
        (("add", "x", "--url", "ftp://h"), "not an http or https address"),
        (("add", "a:b", "--url", "http://h"), "cannot be called"),
        (("add", "x", "--header", "A=b", "--", "cmd"), "--header is for a server with --url"),
        (("add", "x", "--url", "http://h", "--env", "A=b"), "--env is for a server with a command"),
        (("add", "x", "--url", "http://h", "--header", "hidden-value"), "--header takes NAME=VALUE"),
        (("add", "x", "--url", "http://h", "--callback-port", "0"), "not a port"),
        (("list", "x"), "mcp list does not take 'x'"),
        (("list", "--replace"), "mcp list does not take --replace"),
        (("test",), "needs the name of a server"),
        (("test", "nothing"), "there is no MCP server 'nothing'"),
        (("allow", "x", "everything"), "needs a server and one of elicitation, sampling"),
        (("login", "http://h", "--timeout", "soon"), "not a number of seconds"),
    ],
)
def test_wrong_words_are_explained(mcp: Shell, words: tuple[str, ...], message: str) -> None:
    ran = mcp(*words)
    assert (ran.code, ran.out) == (exits.USAGE, "")
    assert message in ran.err


def test_a_server_is_tested_and_failures_are_told_apart(mcp: Shell) -> None:
    for name, way in (("fine", "fine"), ("mute", "mute"), ("broken", "broken")):
        assert mcp("add", name, "--", *OLD, way).code == exits.OK
    mcp("add", "none", "--", "no-such-program")
    mcp("add", "far", "--url", "http://127.0.0.1:9/mcp")
    tested = mcp("test", "fine", "--json")
    assert tested.document["tools"] == [{"name": "act", "description": ""}]
    assert tested.document["seconds"] > 0
    assert re.match(r"fine: old 1, MCP 2025-06-18, in \d+\.\d\d s\n", mcp("test", "fine").out)
    for name, words, code in (
        ("mute", ("--timeout", "0.2"), exits.TIMED_OUT),
        ("broken", (), exits.CHECK_FAILED),
        ("none", (), exits.CHECK_FAILED),
        ("far", (), exits.CHECK_FAILED),
    ):
        failed = mcp("test", name, *words)
        assert (failed.code, failed.out) == (code, ""), failed.err
        assert f"error: {name}: " in failed.err
    assert "its last words on stderr: no key was given" in mcp("test", "broken").err
    assert "not found" in mcp("test", "none").err
    assert "cannot be reached" in mcp("test", "far").err
    assert "is a program, which has no login" in mcp("login", "fine").err


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, str(SERVERS / "login_server.py")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("is_pasted", [True, False])
def test_a_user_logs_in_and_out(mcp: Shell, locked: str, is_pasted: bool) -> None:
    mcp("add", "locked", "--url", f"{locked}/mcp")
    refused = mcp("test", "locked")
    assert refused.code == exits.AUTH_REQUIRED
    assert "log in with: dragoman mcp login locked" in refused.err
    login = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "mcp", "login", "locked", "--no-browser", "--timeout", "30"],
        cwd=mcp.project,
        env=os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert login.stdin is not None
    assert login.stderr is not None
    for line in login.stderr:
        if line.strip().startswith("http"):
            where = httpx2.get(line.strip()).headers["location"]
            break
    if is_pasted:
        login.stdin.write(f"{where}\n")
        login.stdin.flush()
    else:
        assert "You are logged in" in httpx2.get(where).text
    out, err = login.communicate(timeout=30)
    assert (login.returncode, out) == (exits.OK, ""), err
    assert "logged in to locked, which offers 1 tools" in err
    assert re.search(r"locked +user +used +logged in", mcp("list").out)
    assert "opened" not in mcp("test", "locked").err
    assert mcp("test", "locked").code == exits.OK
    tokens = json.loads((mcp.home / "config" / "mcp-tokens.json").read_text())
    secret = tokens["logins"][f"{locked}/mcp"]["tokens"]["access_token"]
    assert secret not in err + mcp("list", "--json").out
    assert "was removed from this machine" in mcp("logout", "locked").err
    assert "there is no stored login" in mcp("logout", "locked").err
    assert mcp("test", "locked").code == exits.AUTH_REQUIRED


def test_a_page_that_is_not_mcp_is_named(mcp: Shell, locked: str) -> None:
    mcp("add", "page", "--url", f"{locked}/nothing-here")
    failed = mcp("test", "page")
    assert failed.code == exits.CHECK_FAILED
    assert "HTTP 404; check the address" in failed.err
