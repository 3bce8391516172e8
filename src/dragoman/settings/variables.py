"""Variables in the user's own settings of MCP servers: `${NAME}` and `${NAME:-default}`. Pure.

So a key can stay in the environment, out of the file. A project's file has no variables: it could send any of the
user's keys to any address. Loaded only if a server has one: settings are read at every start.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_MEMBERS: Final = ("command", "args", "env", "cwd", "url", "headers")


def filled_server(server: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return an entry of `mcp_servers` with its variables replaced.

    One that is not set and has no default stays written.
    """
    return {
        name: _filled(value, environment) if name in _MEMBERS and "${" in str(value) else value
        for name, value in server.items()
    }


def missing_variables(server: dict[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Return the names of variables of an entry that are not set and have no default."""
    found = {
        name: None
        for member in _MEMBERS
        for text in _texts(server.get(member))
        for name, default in _VARIABLE.findall(text)
        if not default and f"${{{name}:-" not in text and name not in environment
    }
    return list(found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _texts(member)


def _filled(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: environment.get(found[1]) or _default(found), value)
    if isinstance(value, dict):
        return {name: _filled(member, environment) for name, member in value.items()}
    return [_filled(item, environment) for item in value] if isinstance(value, list) else value


def _default(match: re.Match[str]) -> str:
    return match[0] if match[2] is None else match[2]
