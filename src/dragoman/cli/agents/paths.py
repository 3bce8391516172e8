"""Where the parts of `dragoman agents` find their agents, and how they show what others wrote."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.registry.agents import Agents


def here() -> Agents:
    """The agents for the folder this runs in. Notes go to stderr when the caller asks for them with `tell_notes`."""
    from dragoman.registry import load_agents
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import cache_dir, config_dir, data_dir

    return load_agents(load_settings(config_dir(), find_project(Path.cwd())), data_dir(), cache_dir())


def cache() -> Path:
    from dragoman.settings.places import cache_dir

    return cache_dir()


def needed(name: str | None, action: str, example: str) -> str:
    if name is None:
        raise exits.Failure(f"agents {action} needs a name", hint=example)
    return name


def tell_notes(agents: Agents) -> None:
    """What was left out, one line each."""
    for note in agents.notes:
        say(f"note: {note}")


def say(sentence: str) -> None:
    sys.stderr.write(f"dragoman: {one_line(sentence)}\n")
    sys.stderr.flush()


def shown_command(words: Sequence[str]) -> str:
    """A command that can be read and pasted. What is not plain ASCII is escaped: it could look like something else."""
    return " ".join(map(shown_word, words))


def shown_word(word: str) -> str:
    return quote(word) if word.isascii() and word.isprintable() else json.dumps(word)


def shown_path(path: str) -> str:
    home = os.path.expanduser("~")
    return one_line(f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path)
