"""`dragoman logout`: logs out of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.command import CliCommand, Invocation
from dragoman.cli.named_agent import AGENT, find_agent, folder, short_connection

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry


def run(call: Invocation) -> int:
    import asyncio

    cwd = folder("the current folder", ".")
    return asyncio.run(_log_out(find_agent("logout", call.given.agent, call.program, cwd).entry, cwd))


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
    description="Logs out of an agent, if the agent supports it; the next session may then require a login.",
    options=(AGENT,),
    examples=("dragoman logout -a copilot", "dragoman logout -- my-agent --acp"),
    takes_program=True,
)
