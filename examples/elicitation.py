"""Elicitation: the agent asks the user for input, in a form or on a web page.

$ python examples/elicitation.py
the form asks: Where shall I deploy? (region)
the page to visit: https://example.com/connect
Deployed to eu.
"""

from __future__ import annotations

import asyncio

from dragoman import Agent, Session, Turn
from dragoman.schema import v1
from dragoman.testing import linked

agent = Agent("curious", version="1.0")


@agent.prompt
async def reply(turn: Turn) -> None:
    fields: dict[str, v1.ElicitationPropertySchema] = {"region": v1.StringPropertySchema(title="Region")}
    form = v1.ElicitationSchema(properties=fields, required=["region"])
    answer = await turn.elicit("Where shall I deploy?", form)
    page = await turn.elicit("Connect your account", url="https://example.com/connect")
    if isinstance(answer, v1.AcceptElicitation) and isinstance(page, v1.AcceptElicitation) and answer.content:
        await turn.say(f"Deployed to {answer.content['region']}.")


class Answers:
    """A user interface; offering it advertises both capabilities."""

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> v1.AcceptElicitation:
        print(f"the form asks: {request.message} ({', '.join(request.requested_schema.properties or {})})")
        return v1.AcceptElicitation({"region": "eu"})

    async def url(self, request: v1.ElicitationUrlMode, session: Session | None) -> v1.AcceptElicitation:
        print("the page to visit:", request.url)
        return v1.AcceptElicitation()


async def main() -> None:
    async with linked(agent, elicitation=Answers()) as remote:
        session = await remote.new_session(cwd=".")
        await session.prompt("go")
        print(session.state.text)


if __name__ == "__main__":
    asyncio.run(main())
