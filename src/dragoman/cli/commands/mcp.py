"""`dragoman mcp`: MCP servers for sessions, and agents for MCP clients. Each action has a function in `cli/mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.named_agent import AGENT, TOKEN_ENV
from dragoman.cli.suggestions import mcp_server_names

if TYPE_CHECKING:
    from collections.abc import Callable

_OAUTH: Final = ("client_id", "client_secret_env", "scope", "callback_port")
# Action -> the options and words it takes, and whether it takes a program.
ACTIONS: Final = {
    "list": (("json",), False),
    "add": (("server", "url", "transport", "header", "env", "project", "replace", *_OAUTH), True),
    "remove": (("server", "project"), False),
    "login": (("server", "no_browser", "timeout"), False),
    "logout": (("server",), False),
    "test": (("server", "timeout", "json"), False),
    "allow": (("server", "right", "always"), False),
    "deny": (("server", "right"), False),
    "serve": (
        ("agent", "url", "token_env", "cwd", "allow", "deny", "name", "listen", "yes"),
        True,
    ),
}
# As in `settings/servers.py`; a test compares them. The help must not import it.
RIGHTS: Final = ("elicitation", "sampling")
_SEE_HELP: Final = "see dragoman mcp --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.action is None:
        raise exits.CliError("mcp: missing action", hint=f"use {', '.join(ACTIONS)}; {_SEE_HELP}")
    taken, takes_program = ACTIONS[given.action]
    for option in COMMAND.options:
        name = option.flag.removeprefix("--").replace("-", "_")
        if getattr(given, name) not in (None, False, []) and name not in taken:
            raise exits.CliError(f"mcp {given.action} does not take {option.flag}", hint=_SEE_HELP)
    for word in ("server", "right"):
        if getattr(given, word) is not None and word not in taken:
            raise exits.CliError(f"mcp {given.action} does not take {getattr(given, word)!r}", hint=_SEE_HELP)
    if call.program is not None and not takes_program:
        raise exits.CliError(f"mcp {given.action} does not take a command after --", hint=_SEE_HELP)
    return _function(given.action)(call)


def _function(action: str) -> Callable[[CliCall], int]:
    """Return the function of an action; the modules of the others are not imported."""
    match action:
        case "list":
            from dragoman.cli.mcp.list import list_servers as function
        case "add":
            from dragoman.cli.mcp.add import add_server as function
        case "remove":
            from dragoman.cli.mcp.add import remove_server as function
        case "login":
            from dragoman.cli.mcp.login import login_server as function
        case "logout":
            from dragoman.cli.mcp.login import logout_server as function
        case "test":
            from dragoman.cli.mcp.test import test_server as function
        case "allow":
            from dragoman.cli.mcp.rights import allow_server as function
        case "deny":
            from dragoman.cli.mcp.rights import deny_server as function
        case _:
            from dragoman.cli.mcp.serve import serve_agent as function
    return function


COMMAND = CliCommand(
    run=run,
    description=(
        "Manages the MCP servers of your sessions, and offers agents to MCP clients. docs/mcp.md describes servers,\n"
        "docs/agents-as-tools.md describes `serve`.\n"
        "  list    the servers of your settings and those the project proposes, with the state of their login\n"
        "  add     write a server into your settings: a command after --, or an address with --url;\n"
        "          with --project into the project's, as a proposal that each user has to accept\n"
        "  remove  remove a server from your settings, or with --project from the project's\n"
        "  login   log in to a server with OAuth, in your browser, or by pasting the address the browser ends at\n"
        "  logout  remove a stored login\n"
        "  test    connect to a server and show what it offers; exit code 7 if it wants a login, 3 if it does not\n"
        "          answer in time, 8 for every other failure\n"
        "  allow   let a server ask you questions (elicitation) or use the model (sampling; you are asked each time)\n"
        "  deny    take that back\n"
        "  serve   be an MCP server on stdin and stdout, whose tools run turns of an agent: `prompt` gives it a task\n"
        "          and returns its report and a session_id to continue, `result` waits for a task, `cancel` ends one.\n"
        "          Rules decide what the agent may do; the rest is asked through the MCP client (elicitation), and\n"
        "          refused if the client cannot ask"
    ),
    arguments=(
        Argument("action", "what to do", choices=tuple(ACTIONS), is_optional=True),
        Argument("server", "the name of a server, or its address", is_optional=True, suggest=mcp_server_names),
        Argument("right", "allow and deny: elicitation or sampling", is_optional=True, suggest=lambda: RIGHTS),
    ),
    options=(
        CliOption("--url", "add: the address of the server; serve: the agent or host at this URL", value="URL"),
        CliOption("--transport", "add: how an address is spoken to (default: http)", "KIND", ("http", "sse")),
        CliOption("--header", "add: a header for each request", value="NAME=VALUE", is_repeatable=True),
        CliOption("--env", "add: a variable for the command", value="NAME=VALUE", is_repeatable=True),
        CliOption("--client-id", "add: an OAuth client that was registered before", value="ID"),
        CliOption("--client-secret-env", "add: the variable that holds its secret", value="NAME"),
        CliOption("--scope", "add: a scope to ask for", value="SCOPE", is_repeatable=True),
        CliOption("--callback-port", "add: the port of the redirect that was registered", value="PORT"),
        CliOption("--project", "add, remove: the project's settings, as a proposal"),
        CliOption("--replace", "add: overwrite a server of this name"),
        CliOption("--no-browser", "login: only show the page, do not open it"),
        CliOption("--timeout", "login, test: the longest wait (login: 300, test: 60)", value="SECONDS"),
        CliOption("--always", "allow: sampling without a question each time"),
        JSON,
        AGENT,
        TOKEN_ENV,
        CliOption("--cwd", "serve: the folder the agent works in (default: the current one)", value="DIR"),
        CliOption("--allow", "serve: what the agent may do without asking", value="RULE", is_repeatable=True),
        CliOption("--deny", "serve: what it may never do", value="RULE", is_repeatable=True),
        CliOption("--name", "serve: what the agent is called in the tools (default: its name)", value="NAME"),
        CliOption("--listen", "serve: speak HTTP at this address of this machine, with a token", value="HOST:PORT"),
        CliOption("--yes", "serve: a well-known agent that is not installed may be downloaded"),
    ),
    examples=(
        "dragoman mcp add docs --url https://docs.example/mcp",
        "dragoman mcp add files -- mcp-files --read-only",
        "dragoman mcp login docs",
        "dragoman mcp test docs",
        "dragoman mcp allow docs sampling",
        "dragoman mcp serve -a claude --cwd ~/src/project",
        "dragoman mcp serve -a gemini --allow 'edit:src/**' --allow 'execute:npm test'",
        "dragoman mcp serve --url wss://agents.example/acp --token-env AGENTS_TOKEN",
        "dragoman mcp serve -- python my_agent.py",
        "DRAGOMAN_MCP_TOKEN=secret dragoman mcp serve -a codex --listen 127.0.0.1:8790",
    ),
    takes_program=True,
)
