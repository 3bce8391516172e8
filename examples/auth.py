"""Login: an agent that needs one, and a client that logs in and tries again.

$ python examples/auth.py
the agent asks for a login: Log in first
logged in by token
Hello, member.
logged out, and refused again: Log in first
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman import Agent, RemoteAgent, RequestError, Session, Turn
from dragoman.agent import AgentSession
from dragoman.client import AuthRequired, LoginMethod, with_login
from dragoman.schema import v1
from dragoman.testing import linked

agent = Agent("members", version="1.0", auth_methods=[v1.AuthMethodAgent("token", "With a token")])
logged_in: set[str] = set()


@agent.authenticate
async def log_in(method_id: str) -> None:
    logged_in.add(method_id)
    print("logged in by", method_id)


@agent.logout
async def log_out() -> None:
    logged_in.clear()


@agent.new_session
async def open_session(session: AgentSession) -> None:
    if not logged_in:
        raise RequestError.auth_required("Log in first")


@agent.prompt
async def reply(turn: Turn) -> None:
    await turn.say("Hello, member.")


async def choose(methods: Sequence[LoginMethod], refusal: AuthRequired) -> LoginMethod:
    print("the agent asks for a login:", refusal.message)
    return methods[0]  # a program shows them to its user


async def work(remote: RemoteAgent) -> Session:
    session = await remote.new_session(cwd=".")
    await session.prompt("Hello")
    print(session.state.text)
    await remote.logout()
    try:
        await remote.new_session(cwd=".")
    except AuthRequired as error:
        print("logged out, and refused again:", error.message)
    return session


async def main() -> None:
    await with_login(lambda: linked(agent), work, choose=choose)


if __name__ == "__main__":
    asyncio.run(main())
