"""A slash command, and a prompt that names one. Pure: files are read by `commands.py`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.builtin.context.history import COMMAND

if TYPE_CHECKING:
    from dragoman.builtin.skills.skill import Skill

_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")


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
        words = _words(arguments)

        def fill(place: re.Match[str]) -> str:
            if place[1] == "ARGUMENTS":
                return arguments
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
        return {COMMAND: {"name": self.name} if prompt is None else {"name": self.name, "prompt": prompt}}


def _words(arguments: str) -> list[str]:
    import shlex  # only for templates with places for arguments

    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe is not a quotation mark
        return arguments.split()
