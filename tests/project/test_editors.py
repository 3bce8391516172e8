"""The settings shown for editors can be pasted: JSON parses, every command exists and takes the words it is given."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.builtin.context.own_commands import OWN
from dragoman.builtin.models.find import find_model
from dragoman.cli.command import parse
from dragoman.cli.exits import CliError
from dragoman.cli.table import COMMANDS, load
from dragoman.errors import ConfigError
from tests.project.pages import Block, blocks
from tests.project.sources import ROOT

PAGE = ROOT / "docs" / "editors.md"
JSON = blocks(PAGE, "json")
TEXT = PAGE.read_text()


def commands_in(value: Any) -> Iterator[list[str]]:
    """Every `command` with its `args`, and every `argv`, anywhere in a settings file."""
    if not isinstance(value, dict):
        return
    if "command" in value:
        yield [value["command"], *value["args"]]
    if "argv" in value:
        yield value["argv"]
    for inner in value.values():
        yield from commands_in(inner)


def quoted(block: Block) -> list[str]:
    """The words in double quotes from `"dragoman"` on, as Lua and Lisp write a list of them."""
    words = re.findall(r'"([^"]*)"', block.text[block.text.index('"dragoman"', block.text.index("command")) :])
    return words[: next((number for number, word in enumerate(words) if ":" in word), len(words)) + 1]


def shell_lines() -> list[str]:
    return [line for block in blocks(PAGE, "sh") for line in block.text.splitlines() if line.strip()]


def assert_starts(words: list[str]) -> None:
    program, verb, *rest = words
    assert program.rsplit("/", 1)[-1] == "dragoman"
    assert verb in COMMANDS
    given = parse(verb, load(verb), rest).given
    if getattr(given, "model", None):
        find_model(given.model)


@pytest.mark.parametrize("block", JSON, ids=lambda block: block.place)
def test_settings_are_json_and_start_the_agent(block: Block) -> None:
    found = list(commands_in(json.loads(block.text)))
    assert found
    for words in found:
        assert_starts(words)


@pytest.mark.parametrize("language", ["lua", "elisp"])
def test_settings_in_a_language_start_the_agent(language: str) -> None:
    (block,) = blocks(PAGE, language)
    for opening, closing in ("()", "{}", "[]"):
        assert block.text.count(opening) == block.text.count(closing)
    assert_starts(quoted(block))


def test_the_settings_are_those_the_registry_reads() -> None:
    """What is pasted for Zed and JetBrains is also found by `dragoman agents list`."""
    servers = [json.loads(block.text).get("agent_servers", {}) for block in JSON]
    assert sum("Dragoman" in each for each in servers) == 2


def test_shell_lines_name_commands_that_exist() -> None:
    for line in shell_lines():
        words = shlex.split(line)
        if words[0] == "toad":
            assert_starts(shlex.split(words[2]))
        elif words[0] == "dragoman":
            assert_starts(words)
        else:
            assert words[0] == "acpx"


def test_every_command_and_client_is_named() -> None:
    for command in OWN:
        assert f"`/{command.name}`" in TEXT
    for client in ("Zed", "JetBrains", "CodeCompanion", "agent-shell", "acpx", "Toad"):
        assert len(re.findall(rf"^\| {client}\b", TEXT, flags=re.MULTILINE)) == 2


def test_a_command_that_does_not_exist_is_found() -> None:
    with pytest.raises(AssertionError):
        assert_starts(["dragoman", "agnet"])
    with pytest.raises(CliError, match="--modle"):
        assert_starts(["dragoman", "agent", "--modle"])
    with pytest.raises(ConfigError, match="oracle"):
        assert_starts(["dragoman", "agent", "--model", "oracle:delphi"])
