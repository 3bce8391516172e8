"""Prompts of MCP servers as slash commands: `/SERVER:PROMPT ARGUMENTS`.

Owns the names of the commands, how arguments are read (by position, or as `name=value`), and the text that the model is
given. A command of the agent, the user or the project keeps its name; the prompt is then `/mcp:SERVER:PROMPT`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.command import Command, argument_words
from dragoman.builtin.tools.tool import ToolError
from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from dragoman.builtin.mcp.listing import PromptMessage, PromptOffer
    from dragoman.builtin.mcp.server import SessionServer

_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_NAMED: Final = re.compile(r"([A-Za-z0-9_.-]+)=(.*)", re.DOTALL)
_DESCRIPTION_CHARACTERS: Final = 120
_PROMPT_CHARACTERS: Final = 100_000


def prompt_commands(
    servers: Sequence[SessionServer], taken: Container[str]
) -> dict[str, tuple[Command, SessionServer, PromptOffer]]:
    """Return the commands of the servers' prompts by name."""
    found: dict[str, tuple[Command, SessionServer, PromptOffer]] = {}
    for server in servers:
        for offer in server.listing.prompts:
            plain = ":".join(_UNFIT.sub("_", part).strip("_.-") for part in (server.spec.name, offer.name))
            name = next((each for each in (plain, f"mcp:{plain}") if each not in taken and each not in found), None)
            if name is None or not all(plain.split(":")):
                continue
            words = shorten(sentence(offer.description), _DESCRIPTION_CHARACTERS) or offer.name
            hint = " ".join(f"<{each.name}>" if each.is_required else f"[{each.name}]" for each in offer.parameters)
            command = Command(name, f"{words} (MCP: {server.spec.name})", sentence(hint), source="mcp")
            found[name] = command, server, offer
    return found


def read_arguments(text: str, offer: PromptOffer) -> dict[str, str]:
    """Read the arguments after a command: `name=value`, and the others by position; the last takes the rest.

    Raises: ToolError that says what is missing.
    """
    names = [parameter.name for parameter in offer.parameters]
    given: dict[str, str] = {}
    plain: list[str] = []
    for word in argument_words(text):
        named = _NAMED.fullmatch(word)
        if named is not None and named[1] in names:
            given[named[1]] = named[2]
        else:
            plain.append(word)
    free = [name for name in names if name not in given]
    for index, name in enumerate(free):
        if index < len(plain):
            is_last = index == len(free) - 1
            given[name] = " ".join(plain[index:]) if is_last else plain[index]
    if plain and not free:
        raise ToolError(f"the prompt {offer.name} takes no such argument: {plain[0]}")
    missing = [each.name for each in offer.parameters if each.is_required and each.name not in given]
    if missing:
        raise ToolError(f"the prompt {offer.name} needs {', '.join(missing)}: write {'=... '.join(missing)}=...")
    return given


def prompt_text(messages: Sequence[PromptMessage]) -> str:
    """Return the messages of a prompt as one text for the model."""
    if len(messages) == 1:
        text = messages[0].text
    else:
        text = "\n\n".join(f"{'User' if each.role == 'user' else 'Assistant'}: {each.text}" for each in messages)
    return text[:_PROMPT_CHARACTERS]
