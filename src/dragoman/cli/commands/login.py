"""`dragoman login`: logs in to an agent with one of the methods it offers."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.named_agent import AGENT, find_agent, folder, short_connection

if TYPE_CHECKING:
    from dragoman.client.login import LoginMethod
    from dragoman.registry.agents import AgentEntry

_SEE_HELP = "see dragoman login --help"


def run(call: CliCall) -> int:
    import asyncio

    given = call.given
    if given.url is not None:
        return _log_in_to_host(call)
    if given.ca is not None or given.yes:
        raise exits.CliError("--ca and --yes go with --url", hint=_SEE_HELP)
    if given.list and given.method is not None:
        raise exits.CliError("--list does not take a method", hint=_SEE_HELP)
    if given.json and not given.list:
        raise exits.CliError("--json goes with --list", hint=_SEE_HELP)
    cwd = folder("the current folder", ".")
    entry = find_agent("login", given.agent, call.program, cwd).entry
    if given.list:
        return _list(asyncio.run(_offered(entry, cwd)), is_json=given.json)
    return asyncio.run(_log_in(entry, cwd, given.method))


def _log_in_to_host(call: CliCall) -> int:
    import asyncio

    from dragoman.cli.connect import trusted
    from dragoman.cli.host_login import log_in_here

    given = call.given
    if call.program is not None or given.agent is not None or given.method is not None or given.list or given.json:
        raise exits.CliError("--url logs in to a host, which has one way for it", hint="leave out everything else")
    asyncio.run(log_in_here(given.url, trusted(given.ca), is_sure=given.yes))
    return exits.OK


async def _offered(entry: AgentEntry, cwd: str) -> tuple[LoginMethod, ...]:
    from dragoman.client.login import login_methods

    async with short_connection(entry, cwd, terminal_login=True) as agent:
        return login_methods(agent.auth_methods, entry.command)


async def _log_in(entry: AgentEntry, cwd: str, wanted: str | None) -> int:
    from dragoman.cli.console import write_note
    from dragoman.cli.login_here import choose, use, user_here
    from dragoman.client.login import login_methods, terminal_login
    from dragoman.errors import LoginFailed

    user = user_here(entry)
    async with short_connection(entry, cwd, terminal_login=True) as agent:
        method = await choose(entry, login_methods(agent.auth_methods, entry.command), wanted, user)
        if method.kind != "terminal":
            write_note(f"logging in: {method.name}")
            write_note(await use(entry, agent, method, user))
            return exits.OK
    # After the agent has ended: it is the same program, and two instances could disturb each other.
    write_note(f"running {shlex.join(method.argv)}")
    try:
        await terminal_login(entry.command, method, cwd=cwd, env=entry.env)
    except LoginFailed as error:
        raise exits.CliError(str(error), exit_code=exits.AUTH_REQUIRED) from None
    write_note(f"logged in to {entry.name}")
    return exits.OK


def _list(methods: tuple[LoginMethod, ...], *, is_json: bool) -> int:
    from dragoman.cli.console import write_json, write_note, write_table

    if is_json:
        write_json([_row(method) for method in methods])
    elif methods:
        rows = [[text or "-" for text in (method.id, method.kind, method.name, _how(method))] for method in methods]
        write_table(("METHOD", "KIND", "NAME", "HOW"), rows)
    else:
        write_note("this agent offers no login method")
    return exits.OK


def _how(method: LoginMethod) -> str:
    if method.kind == "environment":
        return f"set {', '.join(method.variables)}"
    return shlex.join(method.argv) if method.argv else method.description


def _row(method: LoginMethod) -> dict[str, Any]:
    return {
        "id": method.id,
        "name": method.name,
        "kind": method.kind,
        "description": method.description or None,
        "command": list(method.argv) or None,
        "variables": list(method.variables),
    }


COMMAND = CliCommand(
    run=run,
    description=(
        "Logs in to an agent. Some agents log in by themselves on request, some run a program on this terminal, and\n"
        "some take a key, which you type here without showing it; --list shows the methods. Exit code 7 if the login\n"
        "failed.\n"
        "With --url, logs in to a host on another machine (dragoman serve) with the provider that it names: you type\n"
        "a code in a browser. The login is stored, and used by connect, exec --url and agents with this address."
    ),
    arguments=(Argument("method", "the login method, if there are several", is_optional=True),),
    options=(
        AGENT,
        CliOption("--list", "list the login methods and do not log in"),
        CliOption("--url", "the host to log in to, such as wss://agents.example/acp", value="URL"),
        CliOption("--ca", "with --url: certificates to trust, a PEM file", value="FILE"),
        CliOption("--yes", "with --url: also if another host that you use takes the same tokens"),
        JSON,
    ),
    examples=(
        "dragoman login -a gemini",
        "dragoman login -a gemini oauth-personal",
        "dragoman login -a kimi --list --json",
        "dragoman login -- my-agent --acp",
        "dragoman login --url wss://agents.example/acp",
    ),
    takes_program=True,
)
