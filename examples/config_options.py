"""Config options: a choice and a switch, such as the model of an agent.

$ python examples/config_options.py
model: Model = small
loud: Loud = False
hello, says small
HELLO, SAYS LARGE
"""

from __future__ import annotations

import asyncio

from dragoman import Agent, Turn
from dragoman.agent import AgentSession
from dragoman.schema import Unknown, v1
from dragoman.testing import linked

agent = Agent("choosy", version="1.0")


@agent.new_session
async def open_session(session: AgentSession) -> v1.NewSessionResponse:
    models = [v1.SessionConfigSelectOption("small", "Small"), v1.SessionConfigSelectOption("large", "Large")]
    options: list[v1.SessionConfigOption] = [
        v1.SessionConfigSelect("model", "Model", "small", models, category="model"),
        v1.SessionConfigBoolean("loud", "Loud", False),
    ]
    return v1.NewSessionResponse(session.id, config_options=options)


@agent.set_config_option
async def choose(config_id: str, value: str | bool, session: AgentSession) -> None:
    """Called for offered values only. The library answers with the complete list: session.options."""


@agent.prompt
async def reply(turn: Turn) -> None:
    chosen = {option.id: option.current_value for option in turn.session.options if not isinstance(option, Unknown)}
    text = f"{turn.text}, says {chosen['model']}"
    await turn.say(text.upper() if chosen["loud"] else text)


async def main() -> None:
    async with linked(agent) as remote:
        session = await remote.new_session(cwd=".")
        for option in session.state.config_options:
            if not isinstance(option, Unknown):
                print(f"{option.id}: {option.name} = {option.current_value}")
        await session.prompt("hello")
        print(session.state.text)
        await session.set_config_option("model", "large")
        await session.set_config_option("loud", True)
        await session.prompt("hello")
        print(session.state.text)


if __name__ == "__main__":
    asyncio.run(main())
