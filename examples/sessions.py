"""Sessions that outlive a connection: listed, loaded with their history, resumed without it, closed and deleted.

$ python examples/sessions.py
listed: first words
history: UserMessageChunk first words
history: AgentMessageChunk I remember 1.
resumed: I remember 2.
left after delete: 0
"""

from __future__ import annotations

import asyncio
import os

from dragoman import Agent, RequestError, Turn
from dragoman.agent import AgentSession
from dragoman.schema import UNSET, v1
from dragoman.testing import linked

agent = Agent("archivist", version="1.0")
histories: dict[str, list[v1.SessionUpdate]] = {}  # a real agent keeps them in a file or a database


@agent.prompt
async def reply(turn: Turn) -> None:
    history = histories.setdefault(turn.session.id, [])
    history.append(v1.UserMessageChunk(v1.TextContent(turn.text)))
    answer = f"I remember {sum(isinstance(update, v1.UserMessageChunk) for update in history)}."
    history.append(v1.AgentMessageChunk(v1.TextContent(answer)))
    await turn.say(answer)


@agent.list_sessions
async def sessions(cwd: object) -> v1.ListSessionsResponse:
    here = os.getcwd() if cwd is UNSET else str(cwd)
    return v1.ListSessionsResponse([v1.SessionInfo(each, here, title="first words") for each in histories])


@agent.load_session
async def load(session: AgentSession) -> None:
    if session.id not in histories:
        raise RequestError.not_found()
    await session.update_all(histories[session.id])


@agent.resume_session
async def resume(session: AgentSession) -> None:
    if session.id not in histories:
        raise RequestError.not_found()


@agent.close_session
async def close(session: AgentSession) -> None:
    """The turns are over by now; release what the session holds."""


@agent.delete_session
async def delete(session_id: str) -> None:
    histories.pop(session_id, None)


async def main() -> None:
    async with linked(agent) as remote:
        await (await remote.new_session(cwd=".")).prompt("first words")
    async with linked(agent) as remote:
        [info] = [info async for info in remote.sessions()]
        print("listed:", info.title)
        loading = remote.load_session(info.session_id, cwd=".")
        async for update in loading:
            if isinstance(update, v1.ContentChunk) and isinstance(update.content, v1.TextContent):
                print("history:", type(update).__name__, update.content.text)
        await loading.session.close()
        session = await remote.resume_session(info.session_id, cwd=".")
        await session.prompt("second words")
        print("resumed:", session.state.text)
        await remote.delete_session(session.id)
        print("left after delete:", len([info async for info in remote.sessions()]))


if __name__ == "__main__":
    asyncio.run(main())
