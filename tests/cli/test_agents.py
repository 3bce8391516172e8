"""`dragoman agents` from outside: arguments, output, exit codes, and changes of the user's files."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import exits
from dragoman.cli.agents import install
from dragoman.cli.main import main
from dragoman.cli.suggestions import agent_names
from dragoman.registry.packages import InstallFailed, InstallProgress
from tests.registry.kit import PYTHON_AGENT, binary, lark, sha256, site, tar, write

Captured = pytest.CaptureFixture[str]
PROGRAM = f"#!{sys.executable}\n{PYTHON_AGENT}\nmain()\n".encode()


class User:
    """The home of one user, and a project as the current folder."""

    def __init__(self, tmp_path: Path, capsys: Captured) -> None:
        self.home = tmp_path / "home"
        self.project = tmp_path / "project"
        self.settings = self.home / "config" / "settings.json"
        self.accepted = self.home / "config" / "accepted.json"
        self.repository = self.project / ".dragoman" / "settings.json"
        (self.project / ".git").mkdir(parents=True)
        self._capsys = capsys

    def run(self, *words: str, code: int = exits.OK) -> tuple[str, str]:
        found = main(["agents", *words])
        out, err = self._capsys.readouterr()
        assert found == code, err
        return out, err

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json")[0])

    def own(self) -> list[dict[str, Any]]:
        """The listed agents without the well-known ones."""
        return [entry for entry in self.json("list") if entry["source"] != "known"]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> User:
    found = User(tmp_path, capsys)
    monkeypatch.setenv("DRAGOMAN_HOME", str(found.home))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(found.project)
    return found


# list and show


def test_list_names_every_agent_with_its_source(user: User) -> None:
    write(
        user.settings, {"agent_servers": {"mine": {"command": "my agent", "args": ["--acp"]}}, "default_agent": "mine"}
    )
    write(user.repository, {"agent_servers": {"theirs": {"command": "theirs"}}})
    write(user.home.parent / ".config" / "zed" / "settings.json", '{"agent_servers": {"z": {"command": "z",}}} // Zed')
    out, err = user.run("list")
    header, *rows = [line.split() for line in out.partition("\n\n")[0].splitlines()]
    assert header == ["NAME", "FROM", "STATE", "VERSION", "LOGIN", "COMMAND"]
    assert [row[:3] for row in rows] == [
        ["dragoman", "built-in", "ready"],
        ["mine", "user", "default"],
        ["scripted", "built-in", "ready"],
        ["theirs", "project", "not"],
        ["z", "zed", "ready"],
    ]
    assert "'my agent' --acp" in out
    assert err == ""
    listed = user.own()
    assert [entry["name"] for entry in listed] == ["dragoman", "mine", "scripted", "theirs", "z"]
    assert [entry["is_default"] for entry in listed] == [False, True, False, False, False]
    assert [entry["scripted"] for entry in listed] == [False, False, True, False, False]
    assert "dragoman agents accept" in listed[3]["problem"]


def test_the_built_in_agent_is_the_default_unless_another_is_set(user: User) -> None:
    assert [row.split()[:3] for row in user.run("list")[0].partition("\n\n")[0].splitlines()[1:]] == [
        ["dragoman", "built-in", "default"],
        ["scripted", "built-in", "ready"],
    ]
    assert "-m dragoman agent" in user.run("show", "dragoman")[0]
    user.run("add", "scripted", "--default")
    assert [entry["is_default"] for entry in user.own()] == [False, True]


def test_values_of_the_environment_are_not_shown(user: User) -> None:
    write(user.settings, {"agent_servers": {"mine": {"command": "mine", "env": {"MY_KEY": "hunter2"}}}})
    for words in (["list"], ["list", "--json"], ["show", "mine"], ["show", "mine", "--json"]):
        out, err = user.run(*words)
        assert "hunter2" not in out + err
    assert "MY_KEY" in user.run("show", "mine")[0]


def test_show_lists_quirks_and_where_they_come_from(user: User) -> None:
    write(user.settings, {"agent_servers": {"g": {"command": "gemini", "args": ["--acp"]}}})
    out, _ = user.run("show", "g")
    assert "does not offer fs.readTextFile" in out
    assert "transcripts/gemini.jsonl" in out
    assert user.json("show", "g")["quirks"]["withhold"] == ["fs.readTextFile"]


def test_show_states_what_the_settings_allow_to_an_agent(user: User) -> None:
    entry = {"command": "gemini", "env_allow": ["MY_*"], "dangerously_allow_all": True}
    write(user.settings, {"agent_servers": {"g": entry, "h": {"command": "h"}}})
    out, _ = user.run("show", "g")
    assert "MY_*" in out
    assert "everything that no rule denies, without asking (dangerously_allow_all)" in out
    shown = [(user.json("show", name)["env_allow"], user.json("show", name)["dangerously_allow_all"]) for name in "gh"]
    assert shown == [(["MY_*"], True), (None, False)]


def test_show_of_an_unknown_name_suggests(user: User) -> None:
    _, err = user.run("show", "scripte", code=exits.USAGE)
    assert "did you mean scripted?" in err


def test_notes_go_to_stderr(user: User) -> None:
    write(user.settings, {"agent_servers": {"mine": {"command": "mine"}}})
    content = {"agent_servers": {"mine": {"command": "evil"}}, "rules": {"allow": ["execute:curl *"]}}
    write(user.repository, content)
    out, err = user.run("list")
    assert "evil" not in out
    assert "agent 'mine' is not used: the name is taken" in err
    assert "cannot allow anything: execute:curl *" in err


def test_what_others_wrote_cannot_act_on_the_terminal(user: User) -> None:
    write(
        user.repository, {"agent_servers": {"x": {"command": "a\x1b[2J", "args": ["\u202egnp"], "env": {"A": "\x07"}}}}
    )
    write(
        user.home.parent / ".config" / "zed" / "settings.json", {"agent_servers": {"\x1b]0;evil\x07": {"command": "a"}}}
    )
    for words in (["list"], ["show", "x"], ["accept", "x", "--yes"], ["doctor", "x"]):
        code = exits.USAGE if words[0] == "doctor" else exits.OK
        out, err = user.run(*words, code=code)
        assert not set("\x1b\x07\u202e") & set(out + err)
    assert "\\u202egnp" in user.run("show", "x")[0]


def test_broken_settings_are_pointed_at(user: User) -> None:
    write(user.settings, '{\n  "agent_servers": {\n    "x": {"command": 3}\n  }\n}')
    _, err = user.run("list", code=exits.USAGE)
    assert f"{user.settings}:3:10: command must be a string" in err


# add and remove


def test_added_agent_is_there_and_the_rest_of_the_file_stays(user: User) -> None:
    write(user.settings, {"rules": {"deny": ["delete"]}, "future": [1]})
    user.run("add", "mine", "--env", "A=1", "--env", "B=x=y", "--default", "--", "my-agent", "--acp", "--json")
    assert json.loads(user.settings.read_text()) == {
        "rules": {"deny": ["delete"]},
        "future": [1],
        "agent_servers": {"mine": {"command": "my-agent", "args": ["--acp", "--json"], "env": {"A": "1", "B": "x=y"}}},
        "default_agent": "mine",
    }
    assert user.settings.stat().st_mode & 0o777 == 0o600
    assert [entry["name"] for entry in user.json("list") if entry["is_default"]] == ["mine"]


def test_default_can_be_set_to_an_agent_that_is_there(user: User) -> None:
    user.run("add", "scripted", "--default")
    assert json.loads(user.settings.read_text()) == {"default_agent": "scripted"}
    user.run("add", "unknown", "--default", code=exits.USAGE)


def test_overwriting_an_agent_needs_a_flag(user: User) -> None:
    user.run("add", "mine", "--", "one")
    _, err = user.run("add", "mine", "--", "two", code=exits.USAGE)
    assert "--replace" in err
    user.run("add", "mine", "--replace", "--", "two")
    assert user.json("show", "mine")["command"] == ["two"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["add"], "needs a name"),
        (["add", "mine"], "needs the agent's command"),
        (["add", "mine", "--"], "needs the agent's command"),
        (["add", "scripted", "--", "x"], "is reserved"),
        (["add", "Dragoman", "--", "x"], "is reserved"),
        (["add", "Scripted", "--", "x"], "is reserved"),
        (["add", "a\nb", "--", "x"], "printable"),
        (["add", "mine", "--env", "A", "--", "x"], "NAME=VALUE"),
        (["list", "mine"], "does not take a name"),
        (["list", "--yes"], "does not take --yes"),
        (["show", "mine", "--", "x"], "does not take a command"),
        (["remove"], "needs a name"),
        (["remove", "unknown"], "no agent is called"),
        (["remove", "scripted"], "cannot be removed by dragoman"),
        (["doctor"], "needs a name"),
        (["doctor", "scripted", "--", "x"], "not both"),
        (["doctor", "scripted", "--timeout", "soon"], "number of seconds"),
        (["install"], "needs a name"),
        (["accept", "scripted"], "proposes no agent"),
        (["accept", "--mcp", "db"], "proposes no MCP server"),
        (["list", "--registry"], "has not been fetched yet"),
        (["explode"], "invalid choice"),
    ],
)
def test_wrong_use_is_an_error_and_changes_nothing(user: User, words: list[str], why: str) -> None:
    out, err = user.run(*words, code=exits.USAGE)
    assert out == ""
    assert why in err
    assert "hint: " in err or "no agent is called" in err
    assert not user.settings.exists()


def test_broken_settings_are_never_written_over(user: User) -> None:
    write(user.settings, '{"agent_servers": {,}}')
    for words in (["add", "x", "--", "x"], ["remove", "x"], ["add", "scripted", "--default"]):
        user.run(*words, code=exits.USAGE)
    assert user.settings.read_text() == '{"agent_servers": {,}}'


def test_removed_agent_is_not_the_default_any_more(user: User) -> None:
    user.run("add", "mine", "--default", "--", "x")
    user.run("remove", "mine")
    assert json.loads(user.settings.read_text()) == {"agent_servers": {}}


def test_agent_of_an_editor_cannot_be_removed(user: User) -> None:
    path = write(user.home.parent / ".jetbrains" / "acp.json", {"agent_servers": {"j": {"command": "j"}}})
    _, err = user.run("remove", "j", code=exits.USAGE)
    assert "~/.jetbrains/acp.json" in err
    assert path.exists()


# accept


THEIRS = {"command": "./agent.py", "args": ["--acp"], "env": {"A": "1"}}


def test_nothing_of_a_project_is_accepted_without_a_yes(user: User) -> None:
    write(user.repository, {"agent_servers": {"theirs": THEIRS}})
    _, err = user.run("accept", "theirs", code=exits.USAGE)
    assert "the question cannot be asked" in err
    assert f"  {user.project}/agent.py --acp\n" in err
    assert "  A=1\n" in err
    assert not user.accepted.exists()


def test_accepted_agent_asks_again_when_its_command_changes(user: User) -> None:
    write(user.repository, {"agent_servers": {"theirs": THEIRS}})
    write(user.project / "agent.py", "")
    _, err = user.run("accept", "theirs", "--yes")
    assert "You are not asked again if they change" in err
    assert user.json("show", "theirs")["problem"] is None
    write(user.repository, {"agent_servers": {"theirs": {**THEIRS, "args": ["--acp", "--evil"]}}})
    assert "not accepted" in user.json("show", "theirs")["problem"]
    write(user.repository, {"agent_servers": {"theirs": THEIRS}})
    user.run("remove", "theirs")
    assert "not accepted" in user.json("show", "theirs")["problem"]


def test_default_and_server_of_a_project_are_accepted_too(user: User) -> None:
    write(user.repository, {"default_agent": "scripted", "mcp_servers": {"db": {"command": "db", "args": ["a b"]}}})
    assert [entry["name"] for entry in user.json("list") if entry["is_default"]] == ["dragoman"]
    _, err = user.run("accept", "scripted", "--yes")
    assert "the default agent of this project" in err
    assert [entry["name"] for entry in user.json("list") if entry["is_default"]] == ["scripted"]
    _, err = user.run("accept", "--mcp", "db", "--yes")
    assert "  db 'a b'\n" in err
    kinds = [(entry["kind"], entry["name"]) for entry in json.loads(user.accepted.read_text())["accepted"]]
    assert kinds == [("default", "scripted"), ("mcp", "db")]


@pytest.mark.parametrize(("answer", "code"), [("y", exits.OK), ("n", exits.CANCELLED), ("", exits.CANCELLED)])
def test_user_at_a_terminal_is_asked(user: User, answer: str, code: int) -> None:
    write(user.repository, {"agent_servers": {"theirs": THEIRS}})
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "agents", "accept", "theirs"],
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, done.stderr
    assert "Accept theirs? [y/N]" in done.stderr
    assert user.accepted.exists() is (code == exits.OK)


# install, update, doctor


def registry(user: User, address: str, content: bytes, version: str = "0.4.2") -> Path:
    entry = lark(binary=binary(f"{address}/lark.tgz", sha256=sha256(content)))
    return write(user.project / "registry.json", {"version": "1", "agents": [{**entry, "version": version}]})


def test_agent_is_found_in_the_registry_installed_examined_and_removed(user: User) -> None:
    content = tar(("lark", PROGRAM))
    with site() as place:
        place.pages["/lark.tgz"] = content
        registry(user, place.address, content)
        assert user.json("update", "registry.json") == {
            "origin": str(user.project / "registry.json"),
            "agents": 1,
            "differ": {},
        }
        out, err = user.run("list", "--registry")
        assert out.splitlines()[1].split()[:4] == ["lark-agent", "0.4.2", "-", "binary"]
        assert "old" in err
        _, err = user.run("doctor", "lark-agent", code=exits.USAGE)
        assert "dragoman agents install lark-agent" in err
        installed = user.json("install", "lark-agent", "--default", "--yes")
    assert (installed["version"], installed["distribution"]) == ("0.4.2", "binary")
    assert user.json("list", "--registry")["agents"][0]["installed"] == "0.4.2"
    found = user.json("doctor", "lark-agent")
    assert (found["initialize"]["name"], found["initialize"]["version"]) == ("lark", "0.4.2")
    assert found["error"] is None
    registry(user, "https://example.org", content, version="0.5.0")
    differ = user.json("update", "registry.json")["differ"]
    assert differ == {"lark-agent": {"installed": "0.4.2", "registry": "0.5.0"}}
    user.run("remove", "lark-agent")
    assert not Path(installed["command"][0]).exists()
    assert [entry["name"] for entry in user.own()] == ["dragoman", "scripted"]


def test_registry_of_the_settings_is_used_and_an_old_copy_is_better_than_none(user: User) -> None:
    content = tar(("lark", PROGRAM))
    with site() as place:
        place.pages["/r.json"] = registry(user, place.address, content).read_bytes()
        place.pages["/lark.tgz"] = content
        write(user.settings, {"registry": f"{place.address}/r.json"})
        user.run("install", "lark-agent")
        assert place.asked == ["/r.json", "/lark.tgz"]
        kept = user.home / "cache" / "registry.json"
        kept.write_text(json.dumps({**json.loads(kept.read_text()), "fetched": 0}))
        del place.pages["/r.json"]
        _, err = user.run("install", "lark-agent")
        assert "an old copy of the registry is used" in err
        _, err = user.run("install", "larc-agent", code=exits.USAGE)
        assert "did you mean lark-agent?" in err


def test_wrong_checksum_is_a_failure_and_installs_nothing(user: User) -> None:
    with site() as place:
        place.pages["/lark.tgz"] = tar(("lark", b"evil"))
        registry(user, place.address, tar(("lark", PROGRAM)))
        user.run("update", "registry.json")
        out, err = user.run("install", "lark-agent", code=exits.USAGE)
    assert out == ""
    assert "refused: its sha256 is" in err
    assert [entry["name"] for entry in user.own()] == ["dragoman", "scripted"]


def test_doctor_shows_the_answer_of_the_scripted_agent(user: User) -> None:
    out, _ = user.run("doctor", "scripted")
    assert "ok: initialize: Scripted agent (no model)" in out
    assert "protocol version 1" in out
    assert "loadSession" in out
    assert "login: scripted-login" in out
    assert "login: terminal-login" in out


def test_doctor_of_a_missing_program_shows_how_to_get_it(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    out, _ = user.run("doctor", "--", "gemini", "--acp", code=exits.USAGE)
    assert "missing: program: gemini is not found on the PATH\n" in out
    assert "get it with: npm install -g @google/gemini-cli (with Node.js >=20)\n" in out
    assert "not started: something is missing\n" in out
    found = json.loads(user.run("doctor", "--json", "--", "gemini", code=exits.USAGE)[0])
    assert found["findings"][0]["state"] == "missing"
    assert found["initialize"] is None


def test_doctor_of_an_agent_that_dies_shows_the_end_of_its_stderr(user: User) -> None:
    out, _ = user.run("doctor", "--", "sh", "-c", "echo no key >&2; exit 3", code=exits.AGENT_DIED)
    assert "failed: initialize: the agent exited with code 3" in out
    assert "    no key\n" in out


def test_doctor_of_a_silent_agent_ends(user: User) -> None:
    out, _ = user.run("doctor", "--timeout", "0.2", "--", "sh", "-c", "cat > /dev/null", code=exits.AGENT_DIED)
    assert "did not answer initialize within 0.2 seconds" in out


# completion


def test_names_of_agents_are_completed(user: User, capsys: Captured) -> None:
    write(
        user.settings,
        {"agent_servers": {"mine": {"command": "a"}, "with space": {"command": "a"}, "$(id)": {"command": "a"}}},
    )
    names = agent_names()
    assert {"dragoman", "mine", "scripted", "gemini", "claude", "codex"} <= set(names)
    assert not {"with space", "$(id)"} & set(names)
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == exits.OK
        script = capsys.readouterr().out
        assert " ".join(names) in script
        assert "$(id)" not in script
    write(user.settings, "broken")
    assert agent_names() == ()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_installation_is_one_line_at_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    half = InstallProgress(4_000_000, 8_000_000, "Downloading a.whl")
    for stream, shown in (
        (_Terminal(), "dragoman: fetching it\n\r\x1b[K  4.0 MB of 8.0 MB (50 %) · Downloading a.whl\r\x1b[K"),
        (io.StringIO(), "dragoman: fetching it\ndragoman:   4.0 MB of 8.0 MB (50 %) · Downloading a.whl\n"),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(install, "monotonic", count(0.0, 10.0).__next__)  # more than the time between two lines
        failed = InstallFailed("npm failed", ("npm error 404", "npm error gone"))
        with suppress(InstallFailed), install.InstallDisplay() as display:
            display.report("fetching it")
            display.progress(half)
            raise failed
        assert stream.getvalue() == f"{shown}  npm error 404\n  npm error gone\n"
