"""`dragoman logout`: logs out of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.command import Call, Command
from dragoman.cli.entry import AGENT, find_agent, folder, talk

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry


def run(call: Call) -> int:
    import asyncio

    cwd = folder("the current folder", ".")
    return asyncio.run(_log_out(find_agent("logout", call.given.agent, call.program, cwd).entry, cwd))


async def _log_out(entry: AgentEntry, cwd: str) -> int:
    from dragoman.cli.console import write_note
    from dragoman.errors import CapabilityError

    async with talk(entry, cwd) as agent:
        try:
            await agent.logout()
        except CapabilityError as error:
            raise exits.Failure(str(error), hint="log out with the agent's own program") from None
    write_note("logged out")
    return exits.OK


COMMAND = Command(
    run=run,
    description="Logs out of an agent, if it can; it may want a login for the next session then.",
    options=(AGENT,),
    examples=("dragoman logout -a copilot", "dragoman logout -- my-agent --acp"),
    takes_program=True,
)
