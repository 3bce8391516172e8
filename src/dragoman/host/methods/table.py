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
    is_owners: bool = False
    """Whether it is for administrators alone, where a host has several users."""

    def is_on(self, host: Host) -> bool:
        """Whether a host has the method."""
        return not self.needs or bool(getattr(host, self.needs))

    def is_open_to(self, host: Host, client: HostConnection) -> bool:
        """Whether a client is one of those whom a host of several users shows it to."""
        return not self.is_owners or host.may_log_in(client.visitor)

    def load(self) -> Handler:
        """Return the function that answers."""
        from importlib import import_module

        module, _, name = self.handler.partition(":")
        found: Handler = getattr(import_module(module), name)
        return found


METHODS: Final[Mapping[str, HostMethod]] = {
    "_dragoman/agents": HostMethod("view", f"{_HERE}.agents:list_agents"),
    "_dragoman/answer": HostMethod("answer", f"{_HERE}.answering:answer"),
    "_dragoman/changes": HostMethod("view", f"{_HERE}.changes:list_turns"),
    "_dragoman/changes/context": HostMethod("view", f"{_HERE}.changes:read_context"),
    "_dragoman/changes/decide": HostMethod("prompt", f"{_HERE}.changes:decide"),
    "_dragoman/changes/files": HostMethod("view", f"{_HERE}.changes:list_files"),
    "_dragoman/changes/reviewed": HostMethod("prompt", f"{_HERE}.changes:mark_reviewed"),
    "_dragoman/detach": HostMethod("view"),
    "_dragoman/devices": HostMethod("view", f"{_HERE}.devices:list_devices", "pairing"),
    "_dragoman/devices/code": HostMethod("admin", f"{_HERE}.devices:make_code", "pairing"),
    "_dragoman/devices/remove": HostMethod("view", f"{_HERE}.devices:remove_device", "pairing"),
    "_dragoman/files": HostMethod("view", f"{_HERE}.places:find_files"),
    "_dragoman/fleet/end": HostMethod("admin", f"{_HERE}.fleet:end_session", "quotas"),
    "_dragoman/fleet/hosts": HostMethod("admin", f"{_HERE}.fleet:list_hosts", "quotas"),
    "_dragoman/fleet/quota": HostMethod("admin", f"{_HERE}.fleet:change_quota", "quotas"),
    "_dragoman/fleet/sessions": HostMethod("admin", f"{_HERE}.fleet:list_sessions", "quotas"),
    "_dragoman/fleet/show": HostMethod("admin", f"{_HERE}.fleet:show_session", "quotas"),
    "_dragoman/fleet/users": HostMethod("admin", f"{_HERE}.fleet:list_users", "quotas"),
    "_dragoman/folders": HostMethod("prompt", f"{_HERE}.places:list_folders"),
    "_dragoman/history": HostMethod("view"),
    "_dragoman/input": HostMethod("view"),
    "_dragoman/ledger": HostMethod("view"),
    "_dragoman/log_in": HostMethod("admin", f"{_HERE}.agents:log_in"),
    "_dragoman/login_methods": HostMethod("admin", f"{_HERE}.agents:list_login_methods"),
    "_dragoman/presence": HostMethod("view", f"{_HERE}.push:note_presence"),
    "_dragoman/push/key": HostMethod("view", f"{_HERE}.push:answer_key"),
    "_dragoman/push/subscribe": HostMethod("view", f"{_HERE}.push:subscribe"),
    "_dragoman/push/unsubscribe": HostMethod("view", f"{_HERE}.push:unsubscribe"),
    "_dragoman/queue/edit": HostMethod("prompt", f"{_HERE}.queue:edit"),
    "_dragoman/queue/remove": HostMethod("prompt", f"{_HERE}.queue:remove"),
    "_dragoman/reorder": HostMethod("prompt"),
    "_dragoman/report": HostMethod("view", f"{_HERE}.agents:report"),
    "_dragoman/restart_agent": HostMethod("prompt", f"{_HERE}.agents:restart_agent"),
    "_dragoman/rewind/apply": HostMethod("prompt", f"{_HERE}.rewinding:apply_rewind"),
    "_dragoman/rewind/plan": HostMethod("prompt", f"{_HERE}.rewinding:plan_rewind"),
    "_dragoman/search": HostMethod("view", f"{_HERE}.search:search"),
    "_dragoman/sessions/unwatch": HostMethod("view", f"{_HERE}.watching:unwatch"),
    "_dragoman/sessions/watch": HostMethod("view", f"{_HERE}.watching:watch"),
    "_dragoman/steer": HostMethod("prompt"),
    "_dragoman/take": HostMethod("prompt"),
    "_dragoman/traffic": HostMethod("view", f"{_HERE}.traffic:answer_traffic", "keeps_traffic", is_owners=True),
    "_dragoman/traffic/save": HostMethod("view", f"{_HERE}.traffic:save_traffic", "keeps_traffic", is_owners=True),
    "_dragoman/turns": HostMethod("view"),
    "_dragoman/worktrees": HostMethod("view", f"{_HERE}.worktrees:list_all"),
    "_dragoman/worktrees/discard": HostMethod("prompt", f"{_HERE}.worktrees:discard"),
    "_dragoman/worktrees/merge": HostMethod("prompt", f"{_HERE}.worktrees:merge"),
    "session/archive": HostMethod("prompt", f"{_HERE}.upkeep:archive"),
    "session/set_title": HostMethod("prompt", f"{_HERE}.upkeep:set_title"),
    "session/unarchive": HostMethod("prompt", f"{_HERE}.upkeep:unarchive"),
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
    return [
        name
        for name, method in METHODS.items()
        # What is not `_dragoman/` is announced as a capability.
        if name.startswith("_") and method.is_on(host) and client.may(method.right) and method.is_open_to(host, client)
    ]


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
    if not method.is_open_to(host, client):
        client.require("admin")
    return method.load()(host, client, call)
