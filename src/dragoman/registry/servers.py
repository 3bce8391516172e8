"""One entry of `agent_servers` or `mcp_servers`: the shapes editors use, checked.

Owns what a command, its arguments, its environment and the quirks of an agent look like in a file, and the sentence
for each that does not. Does not know files as a whole, nor who may run what.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.registry.quirks import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.registry.documents import Document, Key

LONGEST_NAME: Final = 100
_MEMBERS: Final = ("type", "command", "args", "env", "quirks", "id")
# Members of editors that say nothing about how an agent is started.
_FOREIGN: Final = ("default_mode", "default_model", "default_config_options", "favorite_models", "use_idea_mcp")
_QUIRKS: Final = ("withhold", "spare", "missing_file", "replays_late")
EXAMPLE: Final = '{"command": "gemini", "args": ["--acp"]}'


class Server(Struct, frozen=True):
    """An agent as a file describes it: a command, or the id of one in the registry."""

    name: str
    where: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    quirks: dict[str, object] = {}
    registry_id: str = ""


def read_server(document: Document, keys: tuple[Key, ...], name: str, value: Any, *, notes: list[str]) -> Server:
    """The entry, or a ConfigError that points into the file; what is unknown but harmless is a note."""
    if why := wrong_name(name):
        raise document.error(why, *keys)
    if not isinstance(value, dict):
        raise document.error(f"an agent is an object: {EXAMPLE}", *keys)
    for member in value:
        if member not in _MEMBERS and member not in _FOREIGN:
            hint = nearest(member, _MEMBERS) or "remove it, or see docs/agents.md"
            notes.append(f"{document.place(*keys, member)}: {member!r} of {name!r} is not known and not used; {hint}")
    if isinstance(first := value.get("command"), dict):  # as Zed wrote it in its first releases
        value = {**value, "command": first.get("path"), "args": first.get("args", []), "env": first.get("env") or {}}
    where = document.place(*keys)
    env = _environment(document, (*keys, "env"), value.get("env", {}))
    quirks = _quirks(document, (*keys, "quirks"), value.get("quirks", {}))
    match value.get("type", "custom"):
        case "custom":
            command = _command(document, keys, value)
            return Server(name, where, command, env, quirks)
        case "registry":
            registry_id = value.get("id", name)
            if not isinstance(registry_id, str) or not registry_id:
                raise document.error("id is the agent's id in the registry, a text", *keys, "id")
            return Server(name, where, (), env, quirks, registry_id)
        case other:
            known = '"custom" (a command) or "registry"'
            raise document.error(f"type {other!r} of agent {name!r} is not known; write {known}", *keys, "type")


def nearest(word: str, known: Iterable[str]) -> str:
    """A question for somebody who misspelt one of these words; empty if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=3)
    return f"did you mean {' or '.join(near)}?" if near else ""


def wrong_name(name: str) -> str:
    """Why an agent cannot be called that; empty if it can."""
    if not name or not name.isprintable() or name != name.strip() or len(name) > LONGEST_NAME:
        return f"an agent's name is 1 to {LONGEST_NAME} printable characters without space around them"
    if name.startswith("-"):
        return f"an agent's name cannot start with a dash: {name!r}"
    return ""


def check_mcp_server(document: Document, keys: tuple[Key, ...], value: Any) -> None:
    """An MCP server is a command or a URL; ConfigError if it is neither or both."""
    if not isinstance(value, dict) or ("command" in value) == ("url" in value):
        raise document.error('an MCP server has a "command" or a "url"', *keys)
    if "url" in value:
        if not isinstance(value["url"], str):
            raise document.error("url is a text", *keys, "url")
        _environment(document, (*keys, "headers"), value.get("headers", {}))
    else:
        _command(document, keys, value)
        _environment(document, (*keys, "env"), value.get("env", {}))


def _command(document: Document, keys: tuple[Key, ...], value: dict[str, Any]) -> tuple[str, ...]:
    command, args = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not command or "\0" in command:
        raise document.error(f"an agent needs a command, the program's name or path: {EXAMPLE}", *keys)
    if not isinstance(args, list):
        raise document.error('args is a list, one text for each argument: ["--acp"]', *keys, "args")
    for place, word in enumerate(args):
        if not isinstance(word, str) or "\0" in word:
            raise document.error("an argument is a text in double quotes", *keys, "args", place)
    return (os.path.expanduser(command) if command.startswith("~/") else command, *args)


def _environment(document: Document, keys: tuple[Key, ...], value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise document.error(f'{keys[-1]} is an object: {{"NAME": "value"}}', *keys)
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            raise document.error(f"{name!r} cannot be the name of a variable", *keys, name)
        if not isinstance(text, str) or "\0" in text:
            raise document.error(f"the value of {name} is a text in double quotes", *keys, name)
    return dict(value)


def _quirks(document: Document, keys: tuple[Key, ...], value: Any) -> dict[str, object]:
    if not isinstance(value, dict):
        raise document.error('quirks is an object: {"withhold": [...]}', *keys)
    given: dict[str, object] = {}
    for name, part in value.items():
        match name:
            case "withhold":
                given[name] = frozenset(_texts(document, (*keys, name), part))
                if unknown := set(part) - CAPABILITIES:
                    known = ", ".join(sorted(CAPABILITIES))
                    raise document.error(f"{unknown.pop()!r} cannot be withheld; these can: {known}", *keys, name)
            case "spare":
                given[name] = words = _texts(document, (*keys, name), part)
                if not all(words):  # an empty word is in every command line
                    raise document.error("a word to spare by cannot be empty", *keys, name)
            case "missing_file":
                if part not in ("error", "empty"):
                    raise document.error('missing_file is "error" or "empty"', *keys, name)
                given[name] = part
            case "replays_late":
                if not isinstance(part, bool):
                    raise document.error("replays_late is true or false", *keys, name)
                given[name] = part
            case _:
                raise document.error(f"{name!r} is no quirk; known are {', '.join(_QUIRKS)}", *keys, name)
    return given


def _texts(document: Document, keys: tuple[Key, ...], value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise document.error(f"{keys[-1]} is a list of texts", *keys)
    return tuple(value)
