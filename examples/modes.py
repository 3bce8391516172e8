"""Modes: the agent offers some, the user switches, and the agent may switch by itself.

$ python examples/modes.py
it offers: ask, code
ask: May I?
code: Done.
it switched to: ask
"""

from __future__ import annotations

import asyncio

from dragoman import Agent, Turn
from dragoman.agent import AgentSession
from dragoman.schema import v1
from dragoman.testing import linked

agent = Agent("modal", version="1.0")


@agent.new_session
async def open_session(session: AgentSession) -> v1.NewSessionResponse:
    modes = [v1.SessionMode("ask", "Ask", "Asks before it acts"), v1.SessionMode("code", "Code", "Acts")]
    return v1.NewSessionResponse(session.id, modes=v1.SessionModeState("ask", modes))


@agent.set_mode
async def switch(mode_id: str, session: AgentSession) -> None:
    session.extra["switched"] = mode_id  # the library keeps the mode itself: session.modes


@agent.prompt
async def reply(turn: Turn) -> None:
    modes = turn.session.modes
    assert modes is not None
    await turn.say("May I?" if modes.current_mode_id == "ask" else "Done.")
    if turn.text == "be careful":
        await turn.mode("ask")


async def main() -> None:
    async with linked(agent) as remote:
        session = await remote.new_session(cwd=".")
        assert session.state.modes is not None
        print("it offers:", ", ".join(mode.id for mode in session.state.modes.available_modes))
        await session.prompt("change it")
        print(f"{session.state.mode}: {session.state.text}")
        await session.set_mode("code")
        await session.prompt("change it")
        print(f"{session.state.mode}: {session.state.text}")
        await session.prompt("be careful")
        print("it switched to:", session.state.mode)


if __name__ == "__main__":
    asyncio.run(main())
