"""The decision whether the tools of MCP servers are listed to the model, or found with `tool_search`.

Owns the threshold and the setting. The decision is made when the servers are ready, and a session that searches goes on
to do so: the list of tools that a model is given must not change, because the provider's cache begins with it. Loaded
where MCP servers have tools.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.window.estimate import tokens_of_tools
from dragoman.builtin.models.model import ToolSpec
from dragoman.builtin.tools.built_in import ListedTool, schema_of
from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.builtin.mcp.servers import McpServers
    from dragoman.builtin.tools.tool import Tool

MOST_TOKENS: Final = 10_000
"""Of descriptions and schemas that are listed; or this share of the window, if that is less."""
MOST_SHARE: Final = 0.1
_SERVERS_SHOWN: Final = 50


def searched_tools(servers: McpServers, tools: Mapping[str, Tool], setting: str, window: int) -> frozenset[str] | None:
    """Return the names of the tools that are not listed; None if all are.

    Args:
        tools: the session's table, with the tool that describes the servers.
        setting: `on`, `off` or `auto`.
        window: size of the model's context window, in tokens.
    """
    offered = servers.tools
    if not servers.are_searched:
        if not offered or setting == "off":
            return None
        if setting != "on" and _tokens(offered) <= min(MOST_TOKENS, window * MOST_SHARE):
            return None
        servers.are_searched = True
        search = tools.get("tool_search")
        if isinstance(search, ListedTool):
            search.listing = _listing(servers)
    return frozenset(offered)


def _tokens(tools: Mapping[str, Tool]) -> int:
    return tokens_of_tools(ToolSpec(tool.name, tool.description, schema_of(tool)) for tool in tools.values())


def _listing(servers: McpServers) -> str:
    """Return the servers with the numbers of their tools; later numbers are not stated, for the cache's sake."""
    counts = Counter(tool.server for tool in servers.tools.values())
    lines = [f"- {sentence(name)}: {count} tool{'s' if count > 1 else ''}" for name, count in counts.items()]
    more = [f"- and {len(lines) - _SERVERS_SHOWN} more servers"] if len(lines) > _SERVERS_SHOWN else []
    return "\n".join(("Servers:", *lines[:_SERVERS_SHOWN], *more))
