"""Code blocks of the documentation, as data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.project.sources import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


class Block(NamedTuple):
    """One fenced block: where it stands, its language, the words after the language, and its text."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        """The name it is saved under, if the page builds programs step by step: ```` ```python file=agent.py ````."""
        names = [word.removeprefix("file=") for word in self.words if word.startswith("file=")]
        return names[0] if names else None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Step(NamedTuple):
    """One `$ command` of a console block with the output shown below it."""

    command: str
    output: str


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text()
    found = []
    for fence in re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        if fence[1] in languages:
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Block(page, line, fence[1], tuple(fence[2].split()), fence[3]))
    return found


def steps(block: Block) -> list[Step]:
    """A comment after two spaces and a hash is for the reader."""
    found = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        found.append(Step(command.partition("  # ")[0].strip(), output))
    return found
