"""`/mcp`: the MCP servers of the session with their states, and what they offer; `/mcp reconnect NAME` tries again.

Loaded when the command is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.builtin.tools.tool import ToolError
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.builtin.mcp.server import SessionServer
    from dragoman.builtin.mcp.servers import McpServers
    from dragoman.builtin.session import OpenSession

_MOST: Final = 100
_COLUMNS: Final = 120
_NONE: Final = (
    "There are no MCP servers. `dragoman mcp add NAME -- COMMAND` adds a program, `dragoman mcp add NAME --url URL` "
    "an address; the next session uses them."
)


async def show_servers(arguments: str, session: OpenSession) -> str:
    """Answer `/mcp [NAME | reconnect NAME]`."""
    servers = session.servers
    if servers is None:
        return _NONE
    words = arguments.split()
    await servers.ready()  # a session that was just opened would show nothing but starting servers
    try:
        if words[:1] == ["reconnect"] and len(words) == 2:
            server = await servers.reconnect(words[1])
            return _summary(server)
        if words:
            return _details(servers.named(" ".join(words)), servers)
    except ToolError as error:
        return f"{error}."
    lines = [_summary(server) for server in servers.all]
    lines += [
        f"- **{label(problem.name, 60)}**: not available: {label(problem.why, 300)}" for problem in servers.problems
    ]
    return "\n".join((*lines, "", "`/mcp NAME` lists what a server offers, `/mcp reconnect NAME` tries it again."))


def _summary(server: SessionServer) -> str:
    offered = server.listing
    if server.state != "connected":
        facts = f"{server.state}: {label(server.problem, 300)}"
    else:
        counts = (len(offered.tools), "tools"), (len(offered.resources), "resources"), (len(offered.prompts), "prompts")
        facts = "connected, " + (", ".join(f"{count} {what}" for count, what in counts if count) or "offers nothing")
    return f"- **{label(server.spec.name, 60)}** ({label(server.spec.where, 100)}): {facts}"


def _details(server: SessionServer, servers: McpServers) -> str:
    offered, spec = server.listing, server.spec
    known_as = {tool.offer.name: name for name, tool in servers.tools.items() if tool.server == spec.name}
    own = [name for name, command in servers.commands(()).items() if command.description.endswith(f"{spec.name})")]
    rights = {"elicitation": spec.elicitation, "sampling": spec.sampling != "never"}
    allowed = ", ".join(what for what, is_allowed in rights.items() if is_allowed) or "nothing"
    lines = [_summary(server)]
    if offered.title or offered.protocol:
        lines.append(f"- it calls itself {label(offered.title, 80)}, protocol {label(offered.protocol, 20)}")
    lines.append(f"- it may ask for: {allowed} (`dragoman mcp allow {label(spec.name, 60)} sampling` changes it)")
    lines += _section("tools", (f"`{known_as.get(tool.name, tool.name)}` {tool.description}" for tool in offered.tools))
    lines += _section("resources", (f"`@{spec.name}:{resource.uri}` {resource.name}" for resource in offered.resources))
    lines += _section("prompts", (f"`/{name}`" for name in own))
    lines += _section("skills that cannot be used", offered.problems)
    return "\n".join(lines)


def _section(title: str, entries: Iterable[str]) -> list[str]:
    lines = [f"  - {label(entry, _COLUMNS)}" for entry in entries]
    if not lines:
        return []
    more = [f"  - and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [f"- {title}:", *lines[:_MOST], *more]
