"""`dragoman mcp`: agents for MCP clients. Each action has a module in `cli/mcp`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import Argument, CliCall, CliCommand, CliOption
from dragoman.cli.named_agent import AGENT, TOKEN_ENV, URL

if TYPE_CHECKING:
    from collections.abc import Callable

# Action, which is also the module of `cli/mcp` -> its function, the options it takes, and whether it takes a program.
ACTIONS: Final = {
    "serve": ("serve_agent", ("agent", "url", "token_env", "cwd", "allow", "deny", "name", "listen", "yes"), True),
}
_SEE_HELP: Final = "see dragoman mcp --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.action is None:
        raise exits.CliError("mcp: missing action", hint=f"use {', '.join(ACTIONS)}; {_SEE_HELP}")
    function, taken, takes_program = ACTIONS[given.action]
    for option in COMMAND.options:
        name = option.flag.removeprefix("--").replace("-", "_")
        if getattr(given, name) not in (None, False, []) and name not in taken:
            raise exits.CliError(f"mcp {given.action} does not take {option.flag}", hint=_SEE_HELP)
    if call.program is not None and not takes_program:
        raise exits.CliError(f"mcp {given.action} does not take a command after --", hint=_SEE_HELP)
    action: Callable[[CliCall], int] = getattr(import_module(f"dragoman.cli.mcp.{given.action}"), function)
    return action(call)


COMMAND = CliCommand(
    run=run,
    description=(
        "Connects agents with the Model Context Protocol (MCP). docs/agents-as-tools.md describes the tools.\n"
        "  serve  be an MCP server on stdin and stdout, whose tools run turns of an agent: `prompt` gives it a task\n"
        "         and returns its report with a session_id to continue, `result` waits for a task, `cancel` ends one.\n"
        "         Rules decide what the agent may do; the rest is asked through the MCP client (elicitation), and\n"
        "         refused if the client cannot ask"
    ),
    arguments=(Argument("action", "what to do", choices=tuple(ACTIONS), is_optional=True),),
    options=(
        AGENT,
        URL,
        TOKEN_ENV,
        CliOption("--cwd", "serve: the folder the agent works in (default: the current one)", value="DIR"),
        CliOption("--allow", "serve: what the agent may do without asking", value="RULE", is_repeatable=True),
        CliOption("--deny", "serve: what it may never do", value="RULE", is_repeatable=True),
        CliOption("--name", "serve: what the agent is called in the tools (default: its name)", value="NAME"),
        CliOption("--listen", "serve: speak HTTP at this address of this machine, with a token", value="HOST:PORT"),
        CliOption("--yes", "serve: a well-known agent that is not installed may be downloaded"),
    ),
    examples=(
        "dragoman mcp serve -a claude --cwd ~/src/project",
        "dragoman mcp serve -a gemini --allow 'edit:src/**' --allow 'execute:npm test'",
        "dragoman mcp serve --url wss://agents.example/acp --token-env AGENTS_TOKEN",
        "dragoman mcp serve -- python my_agent.py",
        "DRAGOMAN_MCP_TOKEN=secret dragoman mcp serve -a codex --listen 127.0.0.1:8790",
    ),
    takes_program=True,
)
