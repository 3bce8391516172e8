"""Agents by name: which source wins, what prevents a start, and the error for an unknown name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.registry import resolve_command
from dragoman.registry.catalogue import refresh_catalogue
from dragoman.registry.installed import Installed, InstalledAgents
from tests.registry.kit import Home, lark, own_names, write


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def install_lark(home: Home) -> Installed:
    """The state after an installation."""
    agents = InstalledAgents(home.data)
    folder = agents.fresh_folder("lark-agent", "0.4.2")
    entry = Installed(
        id="lark-agent",
        name="Lark",
        version="0.4.2",
        distribution="binary",
        source="https://example.org/lark.tar.gz",
        command=("bin/lark", "acp"),
        folder=folder,
        env={"LARK_LOG": "warn", "LARK_TTY": "0"},
    )
    write(agents.root / folder / "bin" / "lark", "#!/bin/sh\n")
    agents.keep(entry)
    return entry


def test_scripted_is_always_there_and_marked_as_such(home: Home) -> None:
    entry = home.load().find("scripted")
    assert entry.command == (sys.executable, "-P", "-m", "dragoman.testing.scripted_agent")
    assert entry.is_scripted
    assert entry.source == "built-in"
    assert "no model" in entry.where


def test_no_other_agent_can_be_called_scripted(home: Home) -> None:
    home.user({"agent_servers": {"Scripted": {"command": "evil"}}})
    write(home.zed, {"agent_servers": {"scripted": {"command": "evil"}}})
    home.repository({"agent_servers": {"SCRIPTED": {"command": "evil"}}})
    agents = home.load()
    for name in ("scripted", "Scripted", "SCRIPTED"):
        assert agents.find(name).is_scripted
    assert own_names(agents) == ("dragoman", "scripted")
    assert sum("is reserved" in note for note in agents.notes) == 2


def test_no_other_agent_can_be_called_dragoman(home: Home) -> None:
    home.user({"agent_servers": {"Dragoman": {"command": "evil"}}})
    write(home.zed, {"agent_servers": {"Dragoman": {"command": "dragoman", "args": ["agent"]}}})
    home.repository({"agent_servers": {"DRAGOMAN": {"command": "evil"}}, "default_agent": "DRAGOMAN"})
    agents = home.load()
    for name in ("dragoman", "Dragoman", "DRAGOMAN"):
        assert agents.find(name).command == (sys.executable, "-P", "-m", "dragoman", "agent")
    assert agents.is_default(agents.find("dragoman"))
    assert own_names(agents) == ("dragoman", "scripted")
    # The entry of an editor is the same agent, as docs/editors.md has it, and needs no note.
    assert sum("is reserved" in note for note in agents.notes) == 1


def test_places_are_asked_in_order(home: Home) -> None:
    folder = install_lark(home).folder
    for names, write_file in (
        (("one", "two", "three"), lambda servers: write(home.jetbrains, servers)),
        (("one", "two"), lambda servers: write(home.zed, servers)),
        (("one",), home.user),
    ):
        write_file({"agent_servers": {name: {"command": names[-1]} for name in names}})
    agents = home.load()
    found = {entry.name: entry.source for entry in agents.entries() if entry.source != "known"}
    assert found == {
        "dragoman": "built-in",
        "lark-agent": "registry",
        "one": "user",
        "scripted": "built-in",
        "three": "jetbrains",
        "two": "zed",
    }
    assert agents.find("one").command == ("one",)
    assert agents.find("lark-agent").command == (str(home.data / "agents" / folder / "bin" / "lark"), "acp")


def test_own_agent_costs_no_look_at_other_files(home: Home) -> None:
    home.user({"agent_servers": {"mine": {"command": "mine"}}})
    write(home.zed, "broken {")
    agents = home.load()
    assert agents.find("mine").command == ("mine",)
    assert not agents.notes
    agents.entries()
    assert len(agents.notes) == 1
    assert agents.notes[0].startswith(f"not used: {home.zed}:1:1:")


def test_entry_of_the_registry_needs_an_install_and_adds_its_environment(home: Home) -> None:
    path = home.user({"agent_servers": {"lark": {"type": "registry", "id": "lark-agent", "env": {"LARK_TTY": "1"}}}})
    with pytest.raises(ConfigError, match=r"not installed; install it with: dragoman agents install lark-agent"):
        home.load().find("lark")
    install_lark(home)
    entry = home.load().find("lark")
    assert entry.env == {"LARK_LOG": "warn", "LARK_TTY": "1"}
    assert entry.command[-1] == "acp"
    assert entry.where == f"{path}:1:28"


def test_case_counts_only_between_two(home: Home) -> None:
    home.user({"agent_servers": {"Mine": {"command": "a"}, "Two": {"command": "b"}, "two": {"command": "c"}}})
    agents = home.load()
    assert agents.find("mine").name == "Mine"
    assert agents.find("two").command == ("c",)
    assert agents.find("Two").command == ("b",)
    assert agents.look_up("TWO") is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gemni", ["no agent is called 'gemni'", "did you mean gemini?", "dragoman agents add gemni -- COMMAND"]),
        ("zzz", ["known agents: amp, ", ", dragoman, ", ", gemini, ", ", scripted, "]),
        ("gemini --acp", ["To run a command write -- gemini --acp"]),
        ("lark-agent", ["'lark-agent' is in the registry but not installed", "dragoman agents install lark-agent"]),
    ],
)
def test_unknown_name_is_an_error_that_lists_the_known_ones(home: Home, name: str, parts: list[str]) -> None:
    home.user({"agent_servers": {"gemini": {"command": "gemini"}}})
    refresh_catalogue(home.cache, str(write(home.cache / "source.json", {"agents": [lark(npx={"package": "a"})]})))
    with pytest.raises(ConfigError) as caught:
        home.load().find(name)
    for part in parts:
        assert part in str(caught.value)


def test_default_is_the_users(home: Home) -> None:
    assert home.load().default is None
    home.user({"default_agent": "mine"})
    home.repository({"default_agent": "theirs"})
    assert home.load().default == "mine"


def test_broken_file_of_the_user_or_the_project_stops(home: Home) -> None:
    path = home.user("{")
    with pytest.raises(ConfigError, match=f"{path}:1:2"):
        home.load()
    path.unlink()
    path = home.repository("[1,")
    with pytest.raises(ConfigError, match=f"{path}:1:4"):
        home.load()


def test_typed_command_is_an_agent_with_the_quirks_of_its_program() -> None:
    entry = resolve_command(["/opt/bin/gemini", "--acp"])
    assert (entry.name, entry.command, entry.source) == ("gemini", ("/opt/bin/gemini", "--acp"), "command")
    assert entry.quirks.withhold == {"fs.readTextFile"}
    with pytest.raises(ConfigError, match="empty"):
        resolve_command([])
