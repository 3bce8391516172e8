"""What a client gets in the answer to `initialize`. Pure.

A connection that is bound to an agent gets that agent's capabilities, as far as the host passes them on; one that is
not gets what every agent of the host can do. What the host does itself is the same for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman._version import __version__
from dragoman.host.environment import machine_mark
from dragoman.host.local.build import hello

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.host.agent_descriptions import AgentDescription
    from dragoman.host.clients.client_kind import ClientKind

LOGIN_METHOD: Final = "dragoman-login"


def initialize_answer(
    kind: ClientKind,
    agents: Mapping[str, AgentDescription | None],
    bound: str | None,
    *,
    may_log_in: bool,
    is_local: bool,
    forks: bool = False,
    is_outdated: bool = False,
    own: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the answer for one client.

    Args:
        kind: What the client announced.
        agents: Every agent of the host, with its description if it was ever started.
        bound: The agent that the connection is bound to.
        may_log_in: Whether this client may log in and out.
        is_local: Whether it runs on this machine.
        forks: Whether the host copies sessions, which is unstable.
        is_outdated: Whether the files of the host have changed since it was started.
        own: What clients that know the host get besides: which of its methods they may call, and who they are.
    """
    about: dict[str, Any] = {**hello(), "agents": sorted(agents), **({"machine": machine_mark()} if is_local else {})}
    if is_outdated:
        about["isOutdated"] = True
    if kind.knows_us:
        about.update(own or {})
    described = None if bound is None else agents.get(bound)
    capabilities = _capabilities(agents, bound, may_log_in=may_log_in, forks=forks and kind.forks)
    if kind.unstable:  # the host does these itself, for the sessions of every agent
        capabilities["sessionCapabilities"] |= {"title": {}, "archive": {}}
    meta = described.capabilities.get("_meta") if described is not None else None
    capabilities["_meta"] = {**(meta if isinstance(meta, dict) else {}), "dragoman": about}
    info: dict[str, Any] = {"name": "dragoman", "title": "Dragoman host", "version": __version__}
    if described is not None and described.info is not None:
        info = described.info
    methods = auth_methods(kind, agents, bound, is_local=is_local) if may_log_in else []
    return {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info, "authMethods": methods}


def _capabilities(
    agents: Mapping[str, AgentDescription | None], bound: str | None, *, may_log_in: bool, forks: bool
) -> dict[str, Any]:
    def every(gate: str) -> bool:
        asked = [agents.get(bound)] if bound is not None else list(agents.values())
        return bool(asked) and all(agent is not None and agent.can(gate) for agent in asked)

    sessions: dict[str, Any] = {"list": {}, "resume": {}, "delete": {}, "close": {}}
    if every("sessionCapabilities.additionalDirectories"):
        sessions["additionalDirectories"] = {}
    if forks and every("sessionCapabilities.fork"):
        sessions["fork"] = {}
    capabilities: dict[str, Any] = {
        "loadSession": True,
        "promptCapabilities": {
            "image": every("promptCapabilities.image"),
            "audio": every("promptCapabilities.audio"),
            "embeddedContext": True,
        },
        "mcpCapabilities": {"http": every("mcpCapabilities.http"), "sse": every("mcpCapabilities.sse")},
        "sessionCapabilities": sessions,
    }
    if bound is not None and may_log_in and every("auth.logout"):
        capabilities["auth"] = {"logout": {}}
    return capabilities


def auth_methods(
    kind: ClientKind, agents: Mapping[str, AgentDescription | None], bound: str | None, *, is_local: bool
) -> list[dict[str, Any]]:
    """Return the login methods that a client can use.

    A method that runs in a terminal would start the client's own launch command, which is not the agent; one of ours
    takes its place. Its words stand behind that command, which is `dragoman connect` (rule 71). A client of ours on
    this machine gets the method itself, and runs `dragoman login` with its id.
    """
    found: list[dict[str, Any]] = []
    for name, described in agents.items():
        if described is None or (bound is not None and name != bound):
            continue
        runs_here = is_local and kind.terminal_login
        is_ours = runs_here and kind.knows_us and not kind.is_bridge
        methods = [method for method in described.auth_methods if is_ours or method.get("type") != "terminal"]
        found += [method if bound is not None else {**method, "id": f"{name}/{method.get('id')}"} for method in methods]
        if len(methods) < len(described.auth_methods) and runs_here:
            id = LOGIN_METHOD if bound is not None else f"{name}/{LOGIN_METHOD}"
            found.append({"type": "terminal", "id": id, "name": f"Log in to {name}", "args": ["login", "-a", name]})
    return found
