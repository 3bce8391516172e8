"""What `dragoman inspect` prints for one small recording, kept in data/small.golden.

`python -m tests.trace.golden --write` writes it anew; look at the difference before you commit it.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from dragoman.cli.main import main

DATA = Path(__file__).parent / "data"
RECORDING = DATA / "small.jsonl"
GOLDEN = DATA / "small.golden"
VIEWS = (
    "",
    "--all --session s1 --method '*_chunk'",
    "--dir c2a --since 1 --until 5",
    "--errors",
    "--grep 'will rename it'",
    "--message 18",
    "--message 2",
    "--message 14",
    "--state",
    "--state --at 15 --session sess_01J9Z4",
    "--stats --session s1",
    "--findings",
    "--json --method session/prompt",
    "--json --message 23",
    "--json --state --session s2",
    "--json --findings",
)


def printed(words: str) -> str:
    """The output of one view, 110 columns wide and without colour."""
    out = StringIO()
    before = os.environ.get("COLUMNS"), os.getcwd()
    os.environ["COLUMNS"] = "110"
    os.chdir(DATA)
    try:
        with redirect_stdout(out):
            assert main(["inspect", RECORDING.name, *shlex.split(words)]) == 0
    finally:
        os.chdir(before[1])
        if before[0] is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before[0]
    return out.getvalue()


def golden() -> dict[str, str]:
    """View -> what it should print."""
    sections = GOLDEN.read_text("utf-8").split("$ dragoman inspect small.jsonl")[1:]
    return {words.strip(): text for words, _, text in (section.partition("\n") for section in sections)}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.trace.golden --write")
    views = [f"$ dragoman inspect small.jsonl {words}".rstrip() + "\n" + printed(words) for words in VIEWS]
    GOLDEN.write_text("".join(views), "utf-8")
