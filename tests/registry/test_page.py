"""The examples of docs/agents.md can be read, and its table of quirks is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.registry.catalogue import read_catalogue
from dragoman.registry.editors import read_editor_agents
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
    section = PAGE.read_text().partition("## Quirks")[2]
    rows = re.findall(r"^\| (\w+) \| (.+?) \| (.+) \|$", section, flags=re.MULTILINE)[1:]
    assert len(rows) == len(KNOWN)
    for name, done, reason in rows:
        [known] = [known for known in KNOWN if name in known.names]
        assert all(word in done for word in (*known.quirks.withhold, *known.quirks.spare))
        assert known.quirks.evidence.partition("#")[0] in reason
