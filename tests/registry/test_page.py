"""The examples of docs/agents.md can be read, and its table of quirks is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.registry.agents import read_editor_agents
from dragoman.registry.catalogue import read_catalogue
from dragoman.registry.facts import FACTS
from dragoman.registry.known import well_known_agents
from dragoman.registry.quirks import KNOWN
from dragoman.settings import read_settings_file
from dragoman.settings.documents import Document
from tests.project.pages import Block, blocks
from tests.project.sources import ROOT
from tests.registry.kit import write

PAGE = ROOT / "docs" / "agents.md"
EXAMPLES = blocks(PAGE, "json")


def test_every_kind_of_file_is_shown() -> None:
    assert {block.words[0] for block in EXAMPLES} == {"user", "zed", "project", "registry"}


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.place)
def test_example_is_read_without_a_note(block: Block, tmp_path: Path) -> None:
    if block.words == ("registry",):
        catalogue = read_catalogue(Document(PAGE, block.text).value, "page", 0.0)
        assert list(catalogue.agents) == ["lark-agent"]
        assert catalogue.agents["lark-agent"].kinds == ("npx", "uvx", "binary")
        assert not catalogue.skipped
        return
    path = write(tmp_path / "settings.json", block.text)
    is_own = block.words[0] != "zed"
    settings = read_settings_file(path, block.words[0]) if is_own else read_editor_agents(path)  # type: ignore[arg-type]
    assert settings.notes == ()
    assert settings.servers


def test_table_of_quirks_is_complete() -> None:
    section = PAGE.read_text().partition("## Quirks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (.+?) \| (.+) \|$", section, flags=re.MULTILINE)[1:]
    assert len(rows) == len(KNOWN)
    for name, done, reason in rows:
        [known] = [known for known in KNOWN if name in known.names]
        assert all(word in done for word in (*known.quirks.withhold, *known.quirks.daemons))
        assert known.quirks.evidence.partition("#")[0] in reason


def test_table_of_facts_is_complete() -> None:
    section = PAGE.read_text().partition("## What is known about agents")[2].partition("\n## ")[0]
    named = {name for row in re.findall(r"^\| ([\w, -]+) \|", section, flags=re.MULTILINE) for name in row.split(", ")}
    assert {facts.name for facts in FACTS} <= named
    for facts in FACTS:
        assert all(f"`~/{folder}`" in section for folder in facts.state), facts.name
        assert not facts.asking_mode or f"`{facts.asking_mode}`" in section


def test_table_of_well_known_agents_is_complete() -> None:
    section = PAGE.read_text().partition("## Well-known agents")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| ?(.*?) \| `(.+?)` \| ?(.*?) \| (yes|no) \|$", section, flags=re.MULTILINE)
    assert [row[0] for row in rows] == [agent.name for agent in well_known_agents()]
    for agent, (_, aliases, command, package, tested) in zip(well_known_agents(), rows, strict=True):
        assert aliases == ", ".join(agent.aliases)
        assert command == " ".join((agent.program, *agent.args))
        best = agent.packages[0] if agent.packages else None
        assert package.split(" ")[1:] == ([] if best is None else [f"`{best.package}`", best.version])
        assert (tested == "yes") is agent.is_verified
