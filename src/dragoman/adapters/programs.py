"""Installed programs that have an adapter of their own, by the name that `dragoman wrap` takes.

To add one, write its module with a function that makes the adapter, and add it to `PROGRAMS` by a function here that
imports it: the modules of the others are not loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.adapters.adapter import Adapter


def program_adapter(name: str) -> Adapter:
    """Return the adapter of a known program. Raises: ConfigError."""
    make = PROGRAMS.get(name)
    if make is None:
        raise ConfigError(
            f"{name!r} cannot be wrapped; write MODULE:OBJECT, FILE.py:OBJECT or a URL, or one of {', '.join(PROGRAMS)}"
        )
    return make()


def command_adapter(words: Sequence[str]) -> Adapter:
    """Return the adapter of a command line. Raises: ConfigError."""
    from dragoman.adapters.makers import command

    return command(words)


def _claude() -> Adapter:
    from dragoman.adapters.makers import claude_code

    return claude_code()


def _codex() -> Adapter:
    from dragoman.adapters.codex import codex

    return codex()


PROGRAMS: Final[dict[str, Callable[[], Adapter]]] = {"claude": _claude, "codex": _codex}
