"""How the actions of `dragoman agents` show commands, paths and notes that other people wrote."""

from __future__ import annotations

import json
import os
from shlex import quote
from typing import TYPE_CHECKING

from dragoman.cli.console import write_note
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.registry.agents import Agents


def write_notes(agents: Agents) -> None:
    """Write to stderr what was ignored in settings and agents, one line each."""
    for note in agents.notes:
        write_note(f"note: {note}")


def shown_command(words: Sequence[str]) -> str:
    """Return a command to read and paste. Other than ASCII is escaped, because it could look like something else."""
    return " ".join(map(shown_word, words))


def shown_word(word: str) -> str:
    """Return one word of a command, quoted for a shell."""
    return quote(word) if word.isascii() and word.isprintable() else json.dumps(word)


def shown_path(path: str) -> str:
    """Return a path with `~` for the home directory."""
    home = os.path.expanduser("~")
    return one_line(f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path)
