"""`dragoman mcp serve`: an MCP server, on stdin and stdout or over HTTP, whose tools run turns of an ACP agent.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dragoman.cli.exits import OK, CliError
from dragoman.cli.named_agent import find_agent, folder, with_url
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    import socket

    from dragoman.cli.command import CliCall
    from dragoman.policy import Rule
    from dragoman.scripting.tools.mcp_server import AgentMcpServer

TOKEN_VARIABLE: Final = "DRAGOMAN_MCP_TOKEN"


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
    if given.listen is None and os.isatty(0):
        raise CliError("mcp serve speaks with an MCP client on stdin", hint="let the client start this command")
    sock = None if given.listen is None else _listen(given.listen)
    try:
        import mcp.server.stdio  # noqa: F401 - to see that it is there, before a client waits
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "mcp_types"):
            raise
        from dragoman.extras import install_command

        raise ConfigError(f"MCP needs one more package: {install_command('agent')}") from None
    import asyncio

    from dragoman.cli.console import shown_log
    from dragoman.scripting.tools.mcp_server import AgentMcpServer, serve_stdio

    async def serve() -> None:
        server = AgentMcpServer(agent, name=name, cwd=cwd, rules=rules)
        await (serve_stdio(server) if sock is None else _serve_http(server, sock))

    with shown_log():
        asyncio.run(serve())
    return OK


def _listen(address: str) -> socket.socket:
    from dragoman.agent.serving import bind_port, is_loopback, read_address

    host, port = read_address(address)
    if not is_loopback(host):
        raise CliError(
            f"--listen {address}: other machines could reach it",
            hint="listen at 127.0.0.1:PORT, behind a proxy that speaks TLS",
        )
    return bind_port(host, port)


async def _serve_http(server: AgentMcpServer, sock: socket.socket) -> None:
    import asyncio
    import secrets
    import signal
    import sys

    from dragoman.cli.console import write_note
    from dragoman.scripting.tools.mcp_http import PATH, serve_http

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
    if TOKEN_VARIABLE not in os.environ:
        write_note(f"the token, unless {TOKEN_VARIABLE} sets one: {token}")
    sys.stdout.write(f"http://{shown}:{port}{PATH}\n")
    sys.stdout.flush()
    await serve_http(server, sock, token, stop)


def _rules(call: CliCall, cwd: str) -> list[Rule]:
    """Return the rules of the command line, the rule file and the settings, in this order."""
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
