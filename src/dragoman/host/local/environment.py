"""Which variables of a client reach the agents that the host starts for it.

The host's own environment is that of the program that happened to start it. An agent gets the variables of the client
that opened its session instead, and of those only what is listed here: paths, language, proxies, and the keys of
models. The settings can add names (`host.env`), and so can the entry of an agent (`env_allow`). Nothing of it is
written down.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from dragoman.process.command import KEPT_VARIABLES
from dragoman.registry.facts import MODEL_KEYS
from dragoman.registry.needs import needs_of
from dragoman.registry.quirks import programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dragoman.registry.agents import AgentEntry

_PROXIES: Final = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
ALLOWED: Final = tuple(
    sorted(
        {
            *KEPT_VARIABLES,
            "LC_*",
            *("SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "DRAGOMAN_HOME"),
            *_PROXIES,
            *(name.upper() for name in _PROXIES),
        }
    )
)
"""What every agent may have; names, and patterns with `*`."""


def allowed_names(entry: AgentEntry | None, added: Iterable[str] = ()) -> list[str]:
    """Return the names and patterns for one agent.

    Args:
        entry: The agent; None for one that is not known yet.
        added: From the settings, `host.env`.
    """
    own: list[str] = []
    if entry is not None:
        needs = needs_of(programs(entry.command))
        own = [*(entry.env_allow or ()), *(() if needs is None else needs.variables)]
    return [*dict.fromkeys((*ALLOWED, *MODEL_KEYS, *added, *own))]


def pick(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the variables whose names are allowed."""
    listed = set(names)
    patterns = [name for name in listed if "*" in name or "?" in name or "[" in name]
    return {
        name: value
        for name, value in environment.items()
        if name in listed or any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def received(found: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return what a client sent, as far as it is text and allowed."""
    return pick({name: value for name, value in found.items() if isinstance(value, str)}, names)
