"""Installed programs that have an adapter of their own, by the name that `dragoman wrap` takes.

To add one, write its module with a function that makes the adapter, and add a line to `PROGRAMS`; for any command line
after `--`, set `COMMAND`. A maker of a program is called without arguments, `COMMAND`'s with the words of the command.
Modules are imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.adapters.adapter import Adapter

PROGRAMS: Final[dict[str, str]] = {
    "claude": "dragoman.adapters.makers:claude_code",
    "codex": "dragoman.adapters.codex:codex",
}
"""Name -> `module:function`."""
COMMAND: str | None = "dragoman.adapters.makers:command"
"""`module:function` of the adapter for any command line."""


def program_adapter(name: str) -> Adapter:
    """Return the adapter of a known program. Raises: ConfigError."""
    place = PROGRAMS.get(name)
    if place is None:
        known = f", or one of {', '.join(PROGRAMS)}" if PROGRAMS else ""
        raise ConfigError(f"{name!r} cannot be wrapped; write MODULE:OBJECT, FILE.py:OBJECT or a URL{known}")
    return _made(place)


def command_adapter(words: Sequence[str]) -> Adapter:
    """Return the adapter of a command line. Raises: ConfigError."""
    if COMMAND is None:
        raise ConfigError("a command cannot be wrapped by this version; write MODULE:OBJECT or a URL")
    return _made(COMMAND, words)


def _made(place: str, *arguments: object) -> Adapter:
    module, _, name = place.partition(":")
    adapter: Adapter = getattr(import_module(module), name)(*arguments)
    return adapter
