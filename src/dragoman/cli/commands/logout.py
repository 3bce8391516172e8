"""`dragoman logout`: logs out of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.command import CliCall, CliCommand, CliOption
from dragoman.cli.named_agent import AGENT, find_agent, folder, short_connection

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry


def run(call: CliCall) -> int:
    import asyncio

    given = call.given
    if given.url is not None:
        if call.program is not None or given.agent is not None:
            raise exits.CliError("--url names a host; leave out the agent", hint="see dragoman logout --help")
        return asyncio.run(_log_out_of_host(given.url, given.ca))
    if given.ca is not None:
        raise exits.CliError("--ca goes with --url", hint="see dragoman logout --help")
    cwd = folder("the current folder", ".")
    return asyncio.run(_log_out(find_agent("logout", call.given.agent, call.program, cwd).entry, cwd))


async def _log_out_of_host(url: str, ca: str | None) -> int:
    from dragoman.cli.connect import trusted
    from dragoman.cli.console import write_note
    from dragoman.cli.host_login import log_out

    is_revoked = await log_out(url, trusted(ca))
    write_note("logged out" if is_revoked else "logged out here; the provider was not reached or cannot revoke logins")
    return exits.OK


async def _log_out(entry: AgentEntry, cwd: str) -> int:
    from dragoman.cli.console import write_note
    from dragoman.errors import CapabilityError

    async with short_connection(entry, cwd) as agent:
        try:
            await agent.logout()
        except CapabilityError as error:
            raise exits.CliError(str(error), hint="log out with the agent's own program") from None
    write_note("logged out")
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Logs out of an agent, if the agent supports it; the next session may then require a login. With --url, ends\n"
        "the login to a host on another machine."
    ),
    options=(
        AGENT,
        CliOption("--url", "the host to log out of", value="URL"),
        CliOption("--ca", "with --url: certificates to trust, a PEM file", value="FILE"),
    ),
    examples=(
        "dragoman logout -a copilot",
        "dragoman logout -- my-agent --acp",
        "dragoman logout --url wss://agents.example/acp",
    ),
    takes_program=True,
)
