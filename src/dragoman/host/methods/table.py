"""The table of the host's own methods: the right that each needs, and where its handler is.

It holds for clients on this machine and elsewhere, on every host. A handler is loaded when it is called first, so that
a host starts without it. A row without one is served by the connection itself (`clients/session_requests.py`); methods
that only the local host has, for clients on its machine, are in `local/local_host.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.host.methods.params import read_params

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call

    Handler = Callable[[Host, HostConnection, Call], Coroutine[Any, Any, object]]

_HERE: Final = "dragoman.host.methods"


class HostMethod(Struct, frozen=True):
    """A method of the host's own."""

    right: str
    """What a client needs to call it: `view`, `prompt`, `answer` or `admin`."""
    handler: str = ""
    """The module and the function that answers, `module:function`; empty for one that the connection serves."""
    needs: str = ""
    """The attribute of a host that must be true; a host without it does not have the method."""

    def is_on(self, host: Host) -> bool:
        """Whether a host has the method."""
        return not self.needs or bool(getattr(host, self.needs))

    def load(self) -> Handler:
        """Return the function that answers."""
        from importlib import import_module

        module, _, name = self.handler.partition(":")
        found: Handler = getattr(import_module(module), name)
        return found


METHODS: Final[Mapping[str, HostMethod]] = {
    "_dragoman/answer": HostMethod("answer", f"{_HERE}.answering:answer"),
    "_dragoman/detach": HostMethod("view"),
    "_dragoman/history": HostMethod("view"),
    "_dragoman/input": HostMethod("view"),
    "_dragoman/ledger": HostMethod("view"),
    "_dragoman/log_in": HostMethod("admin", f"{_HERE}.agents:log_in"),
    "_dragoman/login_methods": HostMethod("admin", f"{_HERE}.agents:list_login_methods"),
    "_dragoman/reorder": HostMethod("prompt"),
    "_dragoman/report": HostMethod("view", f"{_HERE}.agents:report"),
    "_dragoman/restart_agent": HostMethod("prompt", f"{_HERE}.agents:restart_agent"),
    "_dragoman/sessions/unwatch": HostMethod("view", f"{_HERE}.watching:unwatch"),
    "_dragoman/sessions/watch": HostMethod("view", f"{_HERE}.watching:watch"),
    "_dragoman/search": HostMethod("view", f"{_HERE}.search:search"),
    "_dragoman/steer": HostMethod("prompt"),
    "_dragoman/take": HostMethod("prompt"),
    "_dragoman/traffic": HostMethod("admin", f"{_HERE}.traffic:answer_traffic", "keeps_traffic"),
    "_dragoman/turns": HostMethod("view"),
}

ACP_RIGHTS: Final[Mapping[str, str]] = {
    "session/list": "view",
    "session/load": "view",
    "session/resume": "view",
    "session/close": "prompt",
    "session/delete": "prompt",
    "session/fork": "prompt",
    "session/new": "prompt",
    "session/prompt": "prompt",
    "session/set_config_option": "prompt",
    "session/set_mode": "prompt",
}
"""The rights that methods of the protocol need."""
SERVED_RIGHTS: Final = {**ACP_RIGHTS, **{name: method.right for name, method in METHODS.items() if not method.handler}}
"""The rights for what the connection serves; its handlers look whether the client only observes the session."""


def open_methods(host: Host, client: HostConnection) -> list[str]:
    """Return the methods of the host that a client may call, for the answer to `initialize`."""
    return [name for name, method in METHODS.items() if method.is_on(host) and client.may(method.right)]


def call_method(host: Host, client: HostConnection, call: Call) -> Coroutine[Any, Any, object] | None:
    """Return the call of a handler of the table; None if there is none for this method.

    Raises:
        RequestError: the client may not call it.
    """
    method = METHODS.get(call.method)
    if method is None or not method.handler or not method.is_on(host):
        return None
    id = read_params(call.params).get("sessionId")
    client.require(method.right, id if isinstance(id, str) else "")
    return method.load()(host, client, call)
