"""`dragoman mcp serve`: an MCP server on stdin and stdout whose tools run turns of an ACP agent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.cli.exits import OK, CliError
from dragoman.cli.named_agent import find_agent, folder, with_url
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.policy import Rule


def serve_agent(call: CliCall) -> int:
    """Serve until the client is gone.

    Raises:
        CliError, ConfigError: something about the command line is wrong.
    """
    given = call.given
    cwd = folder("--cwd", given.cwd or ".")
    named = with_url(call)
    found = find_agent("mcp serve", given.agent, named.program, cwd, is_sure=given.yes)
    rules = _rules(call, cwd)
    # The words of a command are passed on; an agent that has a name is found by it again, with its variables.
    agent = found.entry.command if named.program is not None else found.entry.name
    name = given.name or ("agent" if given.url is not None else found.entry.name)
    try:
        import mcp.server.stdio  # noqa: F401 - to see that it is there, before a client waits
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigError("MCP needs one more package: pip install 'dragoman[agent]'") from None
    import asyncio

    from dragoman.cli.console import shown_log
    from dragoman.scripting.tools.mcp_server import AgentMcpServer, serve_stdio

    async def serve() -> None:
        await serve_stdio(AgentMcpServer(agent, name=name, cwd=cwd, rules=rules))

    if os.isatty(0):
        raise CliError("mcp serve speaks with an MCP client on stdin", hint="let the client start this command")
    with shown_log():
        asyncio.run(serve())
    return OK


def _rules(call: CliCall, cwd: str) -> list[Rule]:
    """The rules of the command line, the rule file and the settings, in this order."""
    from pathlib import Path

    from dragoman.policy import parse_rule
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import config_dir
    from dragoman.settings.rule_file import open_rules

    given = call.given
    project = find_project(Path(cwd))
    typed = [parse_rule(text, "deny", "flag", "--deny") for text in given.deny]
    typed += [parse_rule(text, "allow", "flag", "--allow") for text in given.allow]
    return [*typed, *open_rules().rules(str(project)), *load_settings(config_dir(), project).rules()]
