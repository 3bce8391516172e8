"""What a client may name when it opens a session: folders, and MCP servers.

Owns the checks. MCP servers run next to the agent with the rights of the host, so what a remote client may start or
reach there is limited. Nothing is ever left out silently.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dragoman.agent.sessions import require_folder
from dragoman.errors import RequestError
from dragoman.policy.paths import is_below
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.host.host import Visitor


def admit_folder(path: str, visitor: Visitor, where: str = "$.cwd") -> str:
    """Return the folder if a session of this visitor may work in it.

    Raises:
        RequestError: it is not absolute, not on this machine, or not one of the visitor's.
    """
    require_folder(path, where)
    real = os.path.realpath(path)
    if visitor.folders is not None and not any(is_below(real, os.path.realpath(folder)) for folder in visitor.folders):
        raise RequestError.invalid_params(f"sessions may not work in {path}", path=where)
    return path


def admit_folders(paths: Iterable[str], visitor: Visitor) -> list[str]:
    """Return the additional directories. Raises: RequestError."""
    return [admit_folder(path, visitor, "$.additionalDirectories") for path in paths]


def admit_servers(servers: Any, visitor: Visitor) -> list[v1.McpServer]:
    """Return the MCP servers if this visitor may have them started or reached.

    Raises:
        RequestError: one is a program and the visitor may start none, or leads to the host's own machine.
    """
    for server in servers:
        if isinstance(server, v1.McpServerStdio):
            if not visitor.may_start_programs:
                raise _refused(server.name, "is a program; this host starts none for remote clients")
        elif isinstance(server, v1.McpServerHttp | v1.McpServerSse) and not visitor.is_local and _is_here(server.url):
            raise _refused(server.name, "leads to the host's own machine or its link, which remote clients may not use")
    return list(servers)


def is_same_folder(path: str, other: str) -> bool:
    """Whether two paths are the same, however they are written."""
    return os.path.normpath(path) == os.path.normpath(other)


def _refused(name: str, why: str) -> RequestError:
    return RequestError.invalid_params(f"the MCP server {name!r} {why}", path="$.mcpServers")


def _is_here(url: str) -> bool:
    """Whether an address is one of the host's loopback or link-local nets. What a name resolves to is not looked up."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return True
    if host in ("", "localhost") or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        # 127.1 and 2130706433 are addresses to every resolver.
        return host.replace(".", "").isdigit() or host.startswith("0x")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    return address.is_loopback or address.is_link_local or address.is_unspecified
