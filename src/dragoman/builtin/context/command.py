"""A slash command, and a prompt that names one. Pure: files are read by `commands.py`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.builtin.context.history import CLEAR, COMMAND

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.builtin.skills.skill import Skill
    from dragoman.builtin.undo import SessionRewinding

_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")
# The time that `shlex` takes grows with the square of a word's length: 200,000 letters take seconds.
_QUOTED_CHARACTERS: Final = 10_000


class Command(Struct, frozen=True):
    """One command. Without a body it is one of the agent's own, which acts by itself."""

    name: str
    description: str
    hint: str = ""
    body: str | None = None
    source: Literal["agent", "user", "project", "mcp"] = "agent"
    has_places: bool = True
    """Whether `$1` and `$ARGUMENTS` in the body stand for arguments."""
    skill: Skill | None = None
    """The skill that it starts; its body is read when it is called."""

    @property
    def shown(self) -> str:
        """The description, as clients list it."""
        return f"{self.description} (from the project)" if self.source == "project" else self.description

    def expand(self, arguments: str) -> str:
        """Expand the template: `$1` to `$9` are single arguments, `$ARGUMENTS` is all of them."""
        body = self.body or ""
        if not self.has_places or not _PLACE.search(body):
            return f"{body}\n\n{arguments}" if arguments else body
        words: list[str] | None = None

        def fill(place: re.Match[str]) -> str:
            nonlocal words
            if place[1] == "ARGUMENTS":
                return arguments
            words = argument_words(arguments) if words is None else words
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        # In one pass, so that an argument is not expanded again.
        return _PLACE.sub(fill, body)


class Invocation(Struct, frozen=True):
    """A prompt that names a command; `command` is None if there is none of that name."""

    name: str
    arguments: str
    command: Command | None

    @property
    def prompt(self) -> str | None:
        """The text for the model; None if the agent answers by itself, empty if a server is asked for it first."""
        if self.command is not None and self.command.source == "mcp":
            return ""
        if self.command is None or self.command.body is None:
            return None
        return self.command.expand(self.arguments)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata stored with the message. It holds the expanded text, because the template may change later."""
        prompt = self.prompt
        if prompt is not None:
            return {COMMAND: {"name": self.name, "prompt": prompt}}
        # The name of `/clear` alone makes the model forget; with words behind it, it is refused.
        return {COMMAND: {"name": "refused" if self.name == CLEAR and self.arguments else self.name}}


class TurnCommand(Struct, frozen=True):
    """A command of the agent that works in the turn itself, such as `/compact`: no model is asked."""

    name: str
    arguments: str
    config_dir: Path
    """Folder with the user's own instructions."""
    rewinding: SessionRewinding | None
    """Takes turns back; None where no user could be asked about it."""


def argument_words(arguments: str) -> list[str]:
    """Return the words after a command.

    Quotes keep words together, except in a long text, which is pasted and not typed.
    """
    import shlex  # only for templates with places for arguments

    if len(arguments) > _QUOTED_CHARACTERS:
        return arguments.split()
    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe is not a quotation mark
        return arguments.split()
