"""Rules: what an agent may do is decided by lines of policy; what no rule covers is cancelled.

$ python examples/permission_rules.py
src/app.py: allowed
src/key.pem: not allowed (reject_once)
README.md: not allowed (cancelled)
allow, deny, cancelled
"""

from __future__ import annotations

import asyncio
import tempfile

from dragoman import Agent, Turn, rules
from dragoman.testing import linked

agent = Agent("asking", version="1.0")


@agent.prompt
async def reply(turn: Turn) -> None:
    for path in turn.text.split():
        async with turn.tool(f"Change {path}", kind="edit", locations=[path], start=False) as call:
            await call.diff(path, None, "new\n")
            permission = await turn.ask(call)
            answer = "allowed" if permission else f"not allowed ({permission.kind or 'cancelled'})"
            await turn.say(f"{path}: {answer}\n")


async def main() -> None:
    policy = rules("edit:src/**", deny=["edit:**/*.pem"])  # asker=dragoman.ask_in_terminal would ask about the rest
    with tempfile.TemporaryDirectory() as folder:
        async with linked(agent, permission=policy) as remote:
            session = await remote.new_session(cwd=folder)
            await session.prompt("src/app.py src/key.pem README.md")
    print(session.state.text, end="")
    print(", ".join(decision.action for decision in policy.decisions))


if __name__ == "__main__":
    asyncio.run(main())
