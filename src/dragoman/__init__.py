"""Dragoman speaks the Agent Client Protocol: be an agent, drive one, test one.

The façade: the names most programs need, each loaded from its package when first used, so that a program pays
for the role it plays and `import dragoman` alone loads nothing. It holds no code of its own, and no package
below imports it. Read `dragoman.agent` or `dragoman.client` first.
"""

from dragoman._version import __version__

# Not `typing.TYPE_CHECKING`: type checkers know this name too, and importing `typing` would triple the cost of
# `dragoman --version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dragoman.agent import Agent, Turn
    from dragoman.cli.prompt.in_terminal import ask_in_terminal
    from dragoman.client import PromptTurn, RemoteAgent, Session, connect
    from dragoman.errors import (
        AgentExited,
        CapabilityError,
        ConfigError,
        ConnectionClosed,
        DragomanError,
        LocalProtocolError,
        ProtocolError,
        RemoteProtocolError,
        RequestError,
        SlowConsumer,
        StoreError,
    )
    from dragoman.rpc import Limits, Observer
    from dragoman.schema import UNSET, Unknown, extension
    from dragoman.scripting import (
        allow_once,
        as_tool,
        ask,
        deny_all,
        follow_changes,
        image,
        resource,
        rules,
        run,
        spawn,
    )
    from dragoman.state import SessionState
    from dragoman.transports.memory import memory_pair

__all__ = [
    "UNSET",
    "Agent",
    "AgentExited",
    "CapabilityError",
    "ConfigError",
    "ConnectionClosed",
    "DragomanError",
    "Limits",
    "LocalProtocolError",
    "Observer",
    "PromptTurn",
    "ProtocolError",
    "RemoteAgent",
    "RemoteProtocolError",
    "RequestError",
    "Session",
    "SessionState",
    "SlowConsumer",
    "StoreError",
    "Turn",
    "Unknown",
    "__version__",
    "allow_once",
    "as_tool",
    "ask",
    "ask_in_terminal",
    "connect",
    "deny_all",
    "extension",
    "follow_changes",
    "image",
    "memory_pair",
    "resource",
    "rules",
    "run",
    "spawn",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            "dragoman.agent": ("Agent", "Turn"),
            "dragoman.client": ("PromptTurn", "RemoteAgent", "Session", "connect"),
            "dragoman.cli.prompt.in_terminal": ("ask_in_terminal",),
            "dragoman.scripting": (
                "allow_once",
                "as_tool",
                "ask",
                "deny_all",
                "follow_changes",
                "image",
                "resource",
                "rules",
                "run",
                "spawn",
            ),
            "dragoman.errors": (
                "AgentExited",
                "CapabilityError",
                "ConfigError",
                "ConnectionClosed",
                "DragomanError",
                "LocalProtocolError",
                "ProtocolError",
                "RemoteProtocolError",
                "RequestError",
                "SlowConsumer",
                "StoreError",
            ),
            "dragoman.rpc": ("Limits", "Observer"),
            "dragoman.schema": ("UNSET", "Unknown", "extension"),
            "dragoman.state": ("SessionState",),
            "dragoman.transports.memory": ("memory_pair",),
        },
    )


def __dir__() -> list[str]:
    return sorted(__all__)
