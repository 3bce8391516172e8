"""Well-known agents by name: the program on the PATH, the package after one confirmation, and what is listed of them.

The programs are stand-ins of their names on a PATH of the test. Each notes its arguments and is the scripted agent.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_kit import Done, Place, place
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]

GEMINI = "@google/gemini-cli@0.61.0"


class Machine:
    """A machine with nothing on its PATH but a shell and the stand-ins of a test."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.programs = place.home / "bin"
        self.programs.mkdir()
        (self.programs / "sh").symlink_to(str(shutil.which("sh")))
        place.environment["PATH"] = str(self.programs)
        for name in [name for name in place.environment if name.endswith(("_KEY", "_TOKEN"))]:
            del place.environment[name]

    def add(self, name: str, folder: Path | None = None) -> Path:
        """An agent of this name, which notes what it was started with."""
        program = (folder or self.programs) / name
        program.parent.mkdir(parents=True, exist_ok=True)
        # The path of the log is absolute: it is the same for every copy of the program.
        program.write_text(
            f'#!/bin/sh\necho {name} "$@" >> {self.place.home}/started\n'
            f"exec {sys.executable} -m dragoman.testing.scripted_agent\n"
        )
        program.chmod(0o755)
        return program

    def add_node(self, version: str) -> None:
        (self.programs / "node").write_text(f"#!/bin/sh\necho {version}\n")
        (self.programs / "node").chmod(0o755)

    @property
    def started(self) -> list[str]:
        """The starts of agents; a download before one is not one."""
        return [line for line in self.ran if not line.endswith(("-c true", "python -c "))]

    @property
    def ran(self) -> list[str]:
        try:
            return (self.place.home / "started").read_text().splitlines()
        except FileNotFoundError:
            return []

    def settings(self, **servers: dict[str, Any]) -> None:
        config = self.place.home / "dragoman" / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "settings.json").write_text(json.dumps({"agent_servers": servers}))

    def exec(self, name: str, *words: str) -> Done:
        return self.place.run("-a", name, *words, "hello")

    def agents(self, *words: str) -> Done:
        return self.place.run(*words, verb="agents")

    def listed(self, name: str) -> dict[str, Any]:
        [found] = [entry for entry in json.loads(self.agents("list", "--json").out) if entry["name"] == name]
        assert isinstance(found, dict)
        return found


@pytest.fixture
def machine(place: Place) -> Machine:
    return Machine(place)


# The program on the PATH


@pytest.mark.parametrize("name", ["gemini", "Gemini", "gemini-cli"])
def test_the_program_on_the_path_is_started_in_its_acp_mode(machine: Machine, name: str) -> None:
    machine.add("gemini")
    machine.add("npx")
    done = machine.exec(name, "--output", "json")
    assert done.code == 0, done.err
    assert done.result["agent"]["name"] == "gemini"
    assert machine.started == ["gemini --acp"]


def test_an_entry_of_the_settings_counts_more_than_the_path(machine: Machine) -> None:
    machine.add("gemini")
    machine.settings(gemini={"command": str(machine.add("other")), "args": ["--mine"]})
    assert machine.exec("gemini").code == 0
    assert machine.started == ["other --mine"]


def test_a_project_cannot_take_a_well_known_name(machine: Machine) -> None:
    machine.add("gemini")
    (machine.place.project / ".dragoman").mkdir()
    proposed = {"agent_servers": {name: {"command": str(machine.add("evil"))} for name in ("gemini", "gemini-cli")}}
    (machine.place.project / ".dragoman" / "settings.json").write_text(json.dumps(proposed))
    for name in ("gemini", "gemini-cli"):
        done = machine.exec(name)
        assert done.code == 0, done.err
        assert f"agent '{name}' is not used" in done.err
    assert machine.started == ["gemini --acp"] * 2
    sources = {entry["name"]: entry["source"] for entry in json.loads(machine.agents("list", "--json").out)}
    assert sources["gemini"] == "known"
    assert "gemini-cli" not in sources


# The package, after one confirmation


def test_nothing_is_downloaded_unless_it_was_confirmed(machine: Machine) -> None:
    machine.add("npx")
    done = machine.exec("gemini")
    assert done.code == 2
    assert f"npx -y --prefix {machine.place.home}/dragoman/data/npx {GEMINI} --acp" in done.err
    assert "use --yes" in done.err
    assert machine.started == []


def test_yes_holds_for_one_run(machine: Machine) -> None:
    machine.add("npx")
    # A project's `.npmrc` could name another registry, so npx must not take the project for its own.
    (machine.place.project / ".npmrc").write_text("registry=http://127.0.0.1:9/\n")
    folder = machine.place.home / "dragoman" / "data" / "npx"
    done = machine.exec("gemini", "--yes")
    assert done.code == 0, done.err
    assert machine.started == [f"npx -y --prefix {folder} {GEMINI} --acp"]
    assert list(folder.iterdir()) == []
    assert machine.exec("gemini").code == 2
    assert len(machine.started) == 1


def test_an_accepted_download_is_remembered_until_it_is_removed(machine: Machine) -> None:
    machine.add("npx")
    assert machine.agents("accept", "gemini").code == 2  # no terminal and no --yes
    assert machine.exec("gemini").code == 2
    assert machine.agents("accept", "gemini", "--yes").code == 0
    assert machine.started == []
    for _ in range(2):
        assert machine.exec("gemini").code == 0
    assert len(machine.started) == 2
    assert machine.agents("remove", "gemini").code == 0
    assert machine.exec("gemini").code == 2
    assert len(machine.started) == 2


def test_a_download_comes_before_the_start_and_a_failed_one_shows_its_output(machine: Machine) -> None:
    """It takes nothing of the time that the agent has for its answer to initialize."""
    program = machine.add("npx")
    place, folder = machine.place, machine.place.home / "dragoman" / "data" / "npx"
    real = program.read_text()
    program.write_text(real.replace("exec ", "echo the registry is down >&2; exit 3\nexec "))
    done = machine.exec("gemini", "--yes")
    assert done.code == 2
    assert f"downloading {GEMINI}" in done.err
    assert "\n  the registry is down\n" in done.err
    assert f"{GEMINI}: npx failed with code 3; all of its output is in {place.home}/dragoman/data/logs/" in done.err
    program.write_text(real)
    assert machine.exec("gemini", "--yes").code == 0
    start = f"npx -y --prefix {folder} {GEMINI} --acp"
    assert machine.ran[1:] == [f"npx -y --prefix {folder} --package {GEMINI} -c true", start]
    cached = place.home / ".npm" / "_npx" / "0a1b" / "node_modules" / "@google" / "gemini-cli" / "package.json"
    cached.parent.mkdir(parents=True)
    cached.write_text("{}")
    assert machine.exec("gemini", "--yes").code == 0
    assert machine.ran[3:] == [start], "it is downloaded once"


def test_a_confirmation_holds_for_one_version(machine: Machine) -> None:
    machine.add("npx")
    machine.agents("accept", "gemini", "--yes")
    file = machine.place.home / "dragoman" / "config" / "downloads.json"
    file.write_text(file.read_text().replace("0.61.0", "0.60.0"))
    assert machine.exec("gemini").code == 2
    file.write_text("broken")
    done = machine.exec("gemini")
    assert done.code == 2
    assert "downloads.json" in done.err
    assert machine.started == []


def test_a_user_at_a_terminal_is_asked_once(machine: Machine) -> None:
    machine.add("npx")
    prompt = machine.place.home / "prompt"
    prompt.write_text("hello")
    # The prompt comes from stdin, and the answer from the terminal.
    with at_terminal(machine.place, "exec", "-a", "gemini", stdin=prompt) as terminal:
        terminal.until(f"This downloads {GEMINI} and runs it:")
        terminal.until("[y/N] ")
        assert machine.started == []
        terminal.type("y\n")
        assert terminal.wait() == 0, terminal.text
    with at_terminal(machine.place, "exec", "-a", "gemini", stdin=prompt) as terminal:
        assert terminal.wait() == 0, terminal.text
        assert "[y/N]" not in terminal.text
    assert len(machine.started) == 2


def test_a_user_who_refuses_gets_no_download(machine: Machine) -> None:
    machine.add("npx")
    with at_terminal(machine.place, "exec", "-a", "gemini", "hello") as terminal:
        terminal.until("[y/N] ")
        terminal.type("\n")
        assert terminal.wait() == 2
        assert "gemini is not downloaded" in terminal.text
    assert machine.started == []
    assert not (machine.place.home / "dragoman" / "config" / "downloads.json").exists()


def test_a_python_package_runs_with_uvx(machine: Machine) -> None:
    machine.add("uvx")
    assert machine.exec("hermes", "--yes").code == 0
    assert machine.started == ["uvx --python 3.12 --from hermes-agent[acp]==0.19.0 hermes-acp"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gemini", ["needs Node.js 20 or newer, with npm; none was found; install it with: "]),
        ("vibe", ["needs uvx", "pip install uv", "dragoman agents install vibe"]),
        ("cursor", ["needs cursor-agent", "cursor.com"]),
        ("gemni", ["no agent is called 'gemni'", "did you mean gemini?"]),
        ("factry-droid", ["did you mean factory-droid"]),
    ],
)
def test_what_is_missing_and_how_to_get_it(machine: Machine, name: str, words: list[str]) -> None:
    done = machine.exec(name, "--yes")
    assert done.code == 2
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    ("node", "version"), [("v22.11.0", "0.99.1"), ("v20.20.2", "0.49.0"), ("v18.1.0", None), ("odd", "0.99.1")]
)
def test_the_version_fits_the_node_that_is_here(machine: Machine, node: str, version: str | None) -> None:
    machine.add("npx")
    machine.add_node(node)
    done = machine.exec("claude", "--yes")
    if version is None:
        assert done.code == 2
        assert "needs Node.js 20 or newer, with npm; found 18.1.0 at " in done.err
        assert machine.started == []
    else:
        assert done.code == 0, done.err
        assert machine.started[0].endswith(f"@agentclientprotocol/claude-agent-acp@{version}")


@pytest.mark.parametrize(("version", "is_dead"), [("1.52.0", True), ("1.44.0", False)])
def test_a_dead_package_on_the_path_is_passed_over(machine: Machine, version: str, is_dead: bool) -> None:
    environment = machine.place.home / "tools" / "kimi-cli"
    (machine.programs / "kimi").symlink_to(machine.add("kimi", environment / "bin"))
    metadata = environment / "lib" / "python3.13" / "site-packages" / f"kimi_cli-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "entry_points.txt").write_text("[console_scripts]\nkimi = kimi_cli:main\n")
    machine.add("npx")
    machine.add_node("v22.19.0")
    done = machine.exec("kimi", "--yes")
    assert done.code == 0, done.err
    if is_dead:
        assert machine.started[0].endswith("@moonshot-ai/kimi-code@2.1.0 acp")
        assert "is not used: it is kimi-cli, and it only prints that it is no longer maintained" in done.err
    else:
        assert machine.started == ["kimi acp"]
        assert "is not used" not in done.err
        assert machine.listed("kimi")["version"] == "1.44.0"


# What is listed


def test_list_reads_versions_and_logins_without_starting_anything(machine: Machine) -> None:
    package = machine.place.home / "lib" / "node_modules" / "@google" / "gemini-cli"
    program = machine.add("gemini", package / "bundle")
    (machine.programs / "gemini").symlink_to(program)
    (package / "package.json").write_text('{"name": "@google/gemini-cli", "version": "0.58.1"}')
    machine.add("copilot")
    machine.add("npx")
    codex = machine.place.home / "codex-home"
    codex.mkdir()
    (codex / "auth.json").write_text("{}")
    machine.place.environment |= {"GH_TOKEN": "t", "CODEX_HOME": str(codex)}
    found = {entry["name"]: entry for entry in json.loads(machine.agents("list", "--json").out)}
    assert machine.started == []
    shown = {name: (found[name]["state"], found[name]["version"], found[name]["login"]["sign"]) for name in found}
    assert shown["gemini"] == ("ready", "0.58.1", "none")
    assert shown["copilot"] == ("ready", None, "variable")
    assert shown["codex"] == ("can be downloaded", "2.6.0", "file")
    assert shown["cursor"] == ("not installed", None, "unknown")
    assert found["codex"]["login"]["detail"] == str(codex / "auth.json")
    assert found["codex"]["needs_confirmation"]
    assert found["cursor"]["is_verified"] is False
    out = machine.agents("list").out
    here, absent = out.split("\n\n")
    assert [line.split()[:4] for line in here.splitlines() if line.startswith(("gemini", "copilot"))] == [
        ["copilot", "PATH", "ready", "-"],
        ["gemini", "PATH", "ready", "0.58.1"],
    ]
    assert "npx: @agentclientprotocol/codex-acp@2.6.0" in absent
    assert "gemini" not in absent


def test_a_listed_login_is_not_the_value_of_a_key(machine: Machine) -> None:
    machine.add("gemini")
    machine.place.environment["GEMINI_API_KEY"] = "hunter2hunter2"
    done = machine.agents("list")
    assert "$GEMINI_API_KEY" in done.out
    assert "hunter2" not in done.out + done.err + machine.agents("list", "--json").out


def test_show_of_a_well_known_agent_names_its_evidence(machine: Machine) -> None:
    machine.add("npx")
    out = machine.agents("show", "claude-code").out
    assert "also called" in out
    assert "--append-system-prompt" in out
    assert "confirm that once with: dragoman agents accept claude" in out
    assert "not tested" in machine.agents("show", "goose").out
