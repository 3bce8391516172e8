"""Every command, slash command, settings key and test that docs/coming-from.md names exists."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from dragoman.builtin.context.own_commands import OWN
from dragoman.cli import table
from dragoman.cli.command import parse
from dragoman.errors import ConfigError
from dragoman.foreign.proposal import KINDS, STATES
from dragoman.settings import read_settings_file
from dragoman.tui.screen.keys.actions import ACTIONS
from tests.project.sources import ROOT

PAGE = (ROOT / "docs" / "coming-from.md").read_text()
SLASH = {f"/{name}" for each in (*OWN, *ACTIONS) for name in (each.name, *getattr(each, "aliases", ()))} | {
    "/git-commit"  # an example of a template
}


def ours() -> str:
    """The page without the left columns, which name what others have."""
    return re.sub(r"^\|(?:[^|\n]*\|)+(?=[^|\n]*\|$)", "|", PAGE, flags=re.MULTILINE)


def spans() -> list[str]:
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"``[^\n]*?``", "", ours().replace("```", "")))


def command_lines() -> list[str]:
    blocks = "".join(re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL))
    lines = [line.split("  #")[0].strip() for line in blocks.splitlines()]
    found = [*lines, *(span for span in spans() if span == "dragoman" or span.startswith("dragoman "))]
    return sorted({line for line in found if line.startswith("dragoman")})


def settings_keys() -> list[str]:
    written = [name for span in spans() for name in re.findall(r'^"([a-z_]+)":', span)]
    return sorted({span for span in spans() if re.fullmatch(r"[a-z]+(_[a-z]+)+", span)} | set(written))


@pytest.mark.parametrize("line", command_lines())
def test_a_command_line_of_the_page_can_be_parsed(line: str) -> None:
    words = shlex.split(line)[1:]
    if not words or words[0].startswith("-"):
        words = ["attach", *words]
    if " ".join(words[:2]) in table.NESTED:
        words = [" ".join(words[:2]), *words[2:]]
    assert words[0] in (*table.COMMANDS, *table.NESTED)
    parse(words[0], table.load(words[0]), words[1:])


def test_there_are_command_lines() -> None:
    assert len(command_lines()) > 20
    assert len(settings_keys()) > 1


def test_every_slash_command_of_the_page_exists() -> None:
    named = {word for span in spans() for word in re.findall(r"^/[a-z-]+", span)}
    assert len(named) > 12
    assert named <= SLASH, named - SLASH


@pytest.mark.parametrize("key", [*settings_keys(), "hooks", "model"])
def test_a_settings_key_of_the_page_exists(key: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({key: None}))
    try:
        notes = read_settings_file(path, "user").notes
    except ConfigError:
        return  # it is known, and null is not one of its values
    assert not [note for note in notes if "is not a setting" in note]


def test_the_page_lists_every_kind_and_every_state() -> None:
    for word in (*KINDS, *STATES):
        assert re.search(rf"^\| `{word}` \|", PAGE, flags=re.MULTILINE), word
