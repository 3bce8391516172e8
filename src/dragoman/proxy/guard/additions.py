"""What the guard changes in the requests of the editor: its own capabilities, MCP servers, instructions.

Pure: dictionaries in, dictionaries out. A request that needs no change is left alone, so that it passes as its bytes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

VERSION: Final = 1
"""The version of the protocol towards the agent: in version 1 the agent can be asked to work through its client."""
OPENING: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
"""The requests that open a session."""


class Additions(msgspec.Struct, frozen=True, kw_only=True):
    """What every session gets.

    `servers` are MCP servers as the protocol writes them, `meta_path` is the member of `_meta` in which the agent takes
    instructions, and `withheld` are capabilities that the agent is known not to handle.
    """

    servers: tuple[dict[str, Any], ...] = ()
    instructions: str = ""
    meta_path: tuple[str, ...] = ()
    withheld: frozenset[str] = frozenset()
    offers_terminals: bool = True
    offers_files: bool = True


def offer_services(params: dict[str, Any], additions: Additions) -> dict[str, Any]:
    """Return the params of `initialize`, with files and terminals offered and version 1 asked for."""
    version = params.get("protocolVersion")
    if isinstance(version, int) and version > VERSION:
        params["protocolVersion"] = VERSION
    given = params.get("clientCapabilities")
    capabilities = params["clientCapabilities"] = dict(given) if isinstance(given, dict) else {}
    files = capabilities.get("fs")
    files = dict(files) if isinstance(files, dict) else {}
    for name in ("readTextFile", "writeTextFile"):
        _offer(files, name, additions.offers_files, is_withheld=f"fs.{name}" in additions.withheld)
    if files or "fs" in capabilities:
        capabilities["fs"] = files
    _offer(capabilities, "terminal", additions.offers_terminals, is_withheld="terminal" in additions.withheld)
    return params


def _offer(capabilities: dict[str, Any], name: str, is_offered: bool, *, is_withheld: bool) -> None:
    """Offer a service, whether or not the editor does, but none that the agent does not handle, even the editor's."""
    if is_withheld:
        capabilities.pop(name, None)
    elif is_offered:
        capabilities[name] = True


def complete_session(
    params: dict[str, Any], additions: Additions, capabilities: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the params of a request that opens a session, with servers and instructions; and notes for the user.

    Args:
        capabilities: those of the agent.
    """
    notes: list[str] = []
    mcp = capabilities.get("mcpCapabilities")
    taken = [server for server in additions.servers if _is_taken(server, mcp if isinstance(mcp, dict) else {})]
    notes += [
        f"the agent does not take MCP servers of the kind of {_name(server)!r}; it is left out"
        for server in additions.servers
        if server not in taken
    ]
    if taken:
        given = params.get("mcpServers")
        names = {_name(server) for server in taken}
        kept = [server for server in (given if isinstance(given, list) else []) if _name(server) not in names]
        params["mcpServers"] = [*kept, *taken]
    if additions.instructions and takes_instructions(additions, capabilities):
        if _has_system_prompt(capabilities):
            block = {"type": "text", "text": additions.instructions}
            params["systemPrompt"] = {"mode": "append", "content": [block]}
        else:
            meta = params["_meta"] = dict(params["_meta"]) if isinstance(params.get("_meta"), dict) else {}
            for name in additions.meta_path[:-1]:
                meta = meta.setdefault(name, {})
            meta[additions.meta_path[-1]] = additions.instructions
    return params, notes


def takes_instructions(additions: Additions, capabilities: dict[str, Any]) -> bool:
    """Whether the agent takes instructions when a session is opened; others get them with the first prompt."""
    return bool(additions.meta_path) or _has_system_prompt(capabilities)


def instruct(params: dict[str, Any], instructions: str) -> dict[str, Any]:
    """Return the params of a prompt, with the instructions as its first block."""
    given = params.get("prompt")
    params["prompt"] = [{"type": "text", "text": instructions}, *(given if isinstance(given, list) else [])]
    return params


def _has_system_prompt(capabilities: dict[str, Any]) -> bool:
    session = capabilities.get("sessionCapabilities")
    return isinstance(session, dict) and isinstance(session.get("systemPrompt"), dict)


def _is_taken(server: dict[str, Any], capabilities: dict[str, Any]) -> bool:
    kind = server.get("type")
    return kind not in ("http", "sse") or capabilities.get(kind) is True


def _name(server: Any) -> Any:
    return server.get("name") if isinstance(server, dict) else None
