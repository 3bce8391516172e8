"""One entry of `agent_servers` or `mcp_servers` in a settings file: its members, and what is wrong with one.

Editors use the same shapes. This module does not know the file around an entry, nor whether it may be started.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.settings.documents import did_you_mean

if TYPE_CHECKING:
    from dragoman.settings.documents import Document, Key

LONGEST_NAME: Final = 100
WITHHOLDABLE: Final = frozenset({"fs.readTextFile", "fs.writeTextFile", "terminal"})
"""Capabilities of the client that `quirks.withhold` can name."""
_MEMBERS: Final = (
    *("type", "command", "args", "env", "env_allow", "quirks", "id", "dangerously_allow_all"),
    *("url", "token_env", "headers", "ca"),
)
_SCHEMES: Final = ("ws", "wss", "http", "https")
# Members that editors write and that do not change how an agent is started.
_EDITOR_MEMBERS: Final = ("default_mode", "default_model", "default_config_options", "favorite_models", "use_idea_mcp")
_QUIRKS: Final = ("withhold", "spare", "missing_file", "replays_late")
EXAMPLE: Final = '{"command": "gemini", "args": ["--acp"]}'


class AgentServer(Struct, frozen=True):
    """An entry of `agent_servers`: an agent with its command, or with its id in the registry."""

    name: str
    where: str
    """`file:line:column` of the entry."""
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    quirks: dict[str, object] = {}
    """The members of `dragoman.registry.Quirks` that are set, with checked values."""
    registry_id: str = ""
    allows_all: bool = False
    """`dangerously_allow_all`: everything that the agent asks for is allowed, unless a rule denies it."""
    env_allow: tuple[str, ...] | None = None
    """The variables it may inherit, by name or pattern; None if the entry does not narrow them."""
    url: str = ""
    """Where the agent or the host is, instead of a command."""
    token_env: str = ""
    """The variable that holds the token for the URL."""
    headers: dict[str, str] = {}
    ca: str = ""
    """A file with certificates to trust for the URL."""


def read_agent_server(
    document: Document, keys: tuple[Key, ...], name: str, value: Any, *, notes: list[str]
) -> AgentServer:
    """Read an entry of `agent_servers`.

    Args:
        document: the file it is in, to point at what is wrong.
        keys: the path of the entry in the document.
        name: the name of the agent.
        value: the entry as it was parsed.
        notes: receives a sentence for each unknown member that is ignored.

    Raises:
        ConfigError: the entry is wrong.
    """
    if why := wrong_agent_name(name):
        raise document.error(why, *keys)
    if not isinstance(value, dict):
        raise document.error(f"an agent must be an object: {EXAMPLE}", *keys)
    for member in value:
        if member not in _MEMBERS and member not in _EDITOR_MEMBERS:
            hint = did_you_mean(member, _MEMBERS) or "remove it, or see docs/agents.md"
            notes.append(f"{document.place(*keys, member)}: {member!r} of {name!r} is unknown and not used; {hint}")
    if isinstance(first := value.get("command"), dict):  # the form of Zed's first releases
        value = {**value, "command": first.get("path"), "args": first.get("args", []), "env": first.get("env") or {}}
    where = document.place(*keys)
    env = _environment(document, (*keys, "env"), value.get("env", {}))
    quirks = _quirks(document, (*keys, "quirks"), value.get("quirks", {}))
    allows_all = value.get("dangerously_allow_all", False)
    if not isinstance(allows_all, bool):
        raise document.error("dangerously_allow_all must be true or false", *keys, "dangerously_allow_all")
    env_allow = _names(document, (*keys, "env_allow"), value["env_allow"]) if "env_allow" in value else None
    match value.get("type", "custom"):
        case "custom" if "url" in value:
            url, token_env, headers, ca = _remote(document, keys, value)
            return AgentServer(name, where, (), env, quirks, "", allows_all, env_allow, url, token_env, headers, ca)
        case "custom":
            command = _command(document, keys, value)
            return AgentServer(name, where, command, env, quirks, "", allows_all, env_allow)
        case "registry":
            registry_id = value.get("id", name)
            if not isinstance(registry_id, str) or not registry_id:
                raise document.error("id must be a string, the agent's id in the registry", *keys, "id")
            return AgentServer(name, where, (), env, quirks, registry_id, allows_all, env_allow)
        case other:
            known = '"custom" (a command) or "registry"'
            raise document.error(f"type {other!r} of agent {name!r} is unknown; use {known}", *keys, "type")


def _remote(document: Document, keys: tuple[Key, ...], value: dict[str, Any]) -> tuple[str, str, dict[str, str], str]:
    """Return the URL of an agent, what is sent to it, and which certificates are trusted."""
    import os
    from urllib.parse import urlsplit

    url, token_env = value["url"], value.get("token_env", "")
    if "command" in value:
        raise document.error('an agent has either a "command" or a "url"', *keys)
    example = "it looks like wss://agents.example/acp or unix:/run/agents.sock"
    if not isinstance(url, str) or not url.isprintable() or url != url.strip():
        raise document.error(f"url must be a string; {example}", *keys, "url")
    try:
        parts = urlsplit(url)
        is_known = url.startswith("unix:/") or (parts.scheme in _SCHEMES and bool(parts.hostname))
    except ValueError:
        is_known = False
    if not is_known:
        raise document.error(f"{url!r} is not the URL of an agent; {example}", *keys, "url")
    if parts.username is not None or parts.password is not None:
        raise document.error("a URL must not hold a token; name the variable that holds it: token_env", *keys, "url")
    if not isinstance(token_env, str) or "=" in token_env or "\0" in token_env:
        raise document.error("token_env must be the name of a variable", *keys, "token_env")
    ca = value.get("ca", "")
    if not isinstance(ca, str) or "\0" in ca or not (ca == "" or os.path.isabs(os.path.expanduser(ca))):
        raise document.error("ca must be the path of a file with certificates, absolute or with ~", *keys, "ca")
    headers = _environment(document, (*keys, "headers"), value.get("headers", {}))
    return url, token_env, headers, os.path.expanduser(ca)


def wrong_agent_name(name: str) -> str:
    """Return why an agent cannot have this name; empty if it can."""
    if not name or not name.isprintable() or name != name.strip() or len(name) > LONGEST_NAME:
        return f"an agent's name must be 1 to {LONGEST_NAME} printable characters without space around them"
    if name.startswith("-"):
        return f"an agent's name cannot start with a dash: {name!r}"
    return ""


def check_mcp_server(document: Document, keys: tuple[Key, ...], value: Any) -> None:
    """Check an entry of `mcp_servers`, which has either a command or a URL.

    Raises:
        ConfigError: the entry is wrong.
    """
    if not isinstance(value, dict) or ("command" in value) == ("url" in value):
        raise document.error('an MCP server needs either a "command" or a "url"', *keys)
    if "url" in value:
        if not isinstance(value["url"], str):
            raise document.error("url must be a string", *keys, "url")
        _environment(document, (*keys, "headers"), value.get("headers", {}))
    else:
        _command(document, keys, value)
        _environment(document, (*keys, "env"), value.get("env", {}))
    _check_mcp_rights(document, keys, value)


MCP_RIGHTS: Final = ("elicitation", "sampling")
"""Members of an MCP server that allow it to ask something; only the user's own file can set them."""
_OAUTH: Final = (
    *("clientId", "clientSecret", "clientSecretEnv", "scopes", "scope", "callbackPort", "issuer", "clientCredentials"),
)
_SECRETS: Final = ("clientSecret", "clientSecretEnv")


def mcp_server_of_project(document: Document, keys: tuple[Key, ...], value: dict[str, Any], notes: list[str]) -> Any:
    """Return the entry of a project without what only the user can decide, with a note about each such member."""
    refused: list[tuple[str, ...]] = [(member,) for member in MCP_RIGHTS if value.get(member)]
    oauth = value.get("oauth")
    if isinstance(oauth, dict):  # the name of a variable would send any secret of the user to any address
        refused += [("oauth", member) for member in _SECRETS if member in oauth]
        value = {**value, "oauth": {name: part for name, part in oauth.items() if name not in _SECRETS}}
    for path in refused:
        notes.append(
            f"{document.place(*keys, *path)}: a project's file cannot set {'.'.join(path)} of an MCP server; "
            "write the server in your own settings"
        )
    return {name: part for name, part in value.items() if name not in MCP_RIGHTS}


def _check_mcp_rights(document: Document, keys: tuple[Key, ...], value: dict[str, Any]) -> None:
    if not isinstance(value.get("elicitation", False), bool):
        raise document.error("elicitation must be true or false", *keys, "elicitation")
    if value.get("sampling", False) not in (True, False, "always"):
        raise document.error('sampling must be true (ask each time), "always" or false', *keys, "sampling")
    oauth = value.get("oauth", True)
    if isinstance(oauth, bool):
        return
    if not isinstance(oauth, dict):
        raise document.error('oauth must be an object, such as {"clientId": "..."}, or false', *keys, "oauth")
    for name in oauth:
        if name not in _OAUTH:
            hint = did_you_mean(name, _OAUTH) or f"use {', '.join(_OAUTH)}"
            raise document.error(f"{name!r} is not a member of oauth; {hint}", *keys, "oauth", name)


def _command(document: Document, keys: tuple[Key, ...], value: dict[str, Any]) -> tuple[str, ...]:
    command, args = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not command or "\0" in command:
        raise document.error(f"command must be a string, the name or path of a program: {EXAMPLE}", *keys)
    if not isinstance(args, list):
        raise document.error('args must be a list with one string for each argument: ["--acp"]', *keys, "args")
    for index, word in enumerate(args):
        if not isinstance(word, str) or "\0" in word:
            raise document.error("an argument must be a string", *keys, "args", index)
    return (os.path.expanduser(command) if command.startswith("~/") else command, *args)


def _environment(document: Document, keys: tuple[Key, ...], value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise document.error(f'{keys[-1]} must be an object: {{"NAME": "value"}}', *keys)
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            raise document.error(f"{name!r} cannot be the name of a variable", *keys, name)
        if not isinstance(text, str) or "\0" in text:
            raise document.error(f"the value of {name} must be a string", *keys, name)
    return dict(value)


def _quirks(document: Document, keys: tuple[Key, ...], value: Any) -> dict[str, object]:
    if not isinstance(value, dict):
        raise document.error('quirks must be an object: {"withhold": [...]}', *keys)
    given: dict[str, object] = {}
    for name, part in value.items():
        match name:
            case "withhold":
                given[name] = frozenset(_texts(document, (*keys, name), part))
                if unknown := set(part) - WITHHOLDABLE:
                    known = ", ".join(sorted(WITHHOLDABLE))
                    raise document.error(f"{unknown.pop()!r} cannot be withheld; use {known}", *keys, name)
            case "spare":
                given[name] = words = _texts(document, (*keys, name), part)
                if not all(words):  # an empty word is part of every command line
                    raise document.error("a word of spare cannot be empty", *keys, name)
            case "missing_file":
                if part not in ("error", "empty"):
                    raise document.error('missing_file must be "error" or "empty"', *keys, name)
                given[name] = part
            case "replays_late":
                if not isinstance(part, bool):
                    raise document.error("replays_late must be true or false", *keys, name)
                given[name] = part
            case _:
                raise document.error(f"{name!r} is not a quirk; use {', '.join(_QUIRKS)}", *keys, name)
    return given


def _names(document: Document, keys: tuple[Key, ...], value: Any) -> tuple[str, ...]:
    names = _texts(document, keys, value)
    if wrong := next((name for name in names if not name or "=" in name), None):
        raise document.error(f"{wrong!r} cannot be the name of a variable; write it like API_KEY or MY_*", *keys)
    return names


def _texts(document: Document, keys: tuple[Key, ...], value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise document.error(f"{keys[-1]} must be a list of strings", *keys)
    return tuple(value)
