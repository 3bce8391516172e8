"""What the Python SDK's client does with a coding agent that plays scripts: a project, its files, sessions that last.

`INTEROP_PROJECT` names the project's folder. The last two scenarios come back to what the first ones left.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Any

import acp
from acp import schema as s

from tests.interop.peers.py_scenarios import EVERYTHING, ME, Scenario, say

if TYPE_CHECKING:
    from tests.interop.peers.py_client import ReportingClient


async def open_project(agent: Any, client: "ReportingClient") -> str:
    """Initialize and a session in the project; returns its id."""
    await client.call(
        "initialize", agent.initialize(protocol_version=1, client_capabilities=EVERYTHING, client_info=ME)
    )
    created = await client.call("new", agent.new_session(cwd=os.environ["INTEROP_PROJECT"]))
    return str(created.session_id)


async def work(agent: Any, client: "ReportingClient") -> None:
    session_id = await open_project(agent, client)
    await say(agent, client, session_id, "think hm\ntodo [x] look; [>] change; test\nread a.txt\nsay it says {result}")


async def permission_to_write(agent: Any, client: "ReportingClient") -> None:
    session_id = await open_project(agent, client)
    for client.permission, name in (("allow-once", "yes"), ("reject-once", "no"), ("cancelled", "unanswered")):
        await say(agent, client, session_id, f"write {name}.txt new\nsay and on")


async def tool_access(agent: Any, client: "ReportingClient") -> None:
    session_id = await open_project(agent, client)
    client.permission = "allow-once"
    await say(agent, client, session_id, "read a.txt\nedit a.txt two => zwei")
    await say(agent, client, session_id, "run touch made.txt; echo from the terminal\nsay {result}")
    client.elicitation = s.AcceptElicitationResponse(action="accept", content={"answer": "that"})
    await say(agent, client, session_id, "question Which one? | this | that\nsay {result}")


async def choices(agent: Any, client: "ReportingClient") -> None:
    session_id = await open_project(agent, client)
    option: Any = agent.set_config_option
    await client.call("mode", agent.set_session_mode(session_id=session_id, mode_id="plan"))
    await client.call("mode junk", agent.set_session_mode(session_id=session_id, mode_id="junk"))
    await client.call("effort", option(session_id=session_id, config_id="effort", value="high"))
    await client.call("effort junk", option(session_id=session_id, config_id="effort", value="junk"))
    await say(agent, client, session_id, "write planned.txt no")


async def stop(agent: Any, client: "ReportingClient") -> None:
    session_id = await open_project(agent, client)
    turn = asyncio.create_task(say(agent, client, session_id, "slow 500"))
    await client.texts.get()
    await agent.cancel(session_id=session_id)
    await turn
    client.permission = "hold"
    turn = asyncio.create_task(say(agent, client, session_id, "run touch held.txt"))
    await client.asked.wait()
    await agent.cancel(session_id=session_id)
    client.answer.set()
    await turn
    await say(agent, client, session_id, "say still here")


async def steer(agent: Any, client: "ReportingClient") -> None:
    session_id = await open_project(agent, client)
    client.permission = "hold"
    turn = asyncio.create_task(say(agent, client, session_id, "run touch held.txt\nsay done"))
    await client.asked.wait()
    words = {"sessionId": session_id, "text": "use tabs"}
    await client.call("steer", agent.ext_method("dragoman/steer", words))
    client.answer.set()
    await turn
    await client.call("steer late", agent.ext_method("dragoman/steer", words))


async def come_back(agent: Any, client: "ReportingClient") -> None:
    project = os.environ["INTEROP_PROJECT"]
    await agent.initialize(protocol_version=1, client_capabilities=EVERYTHING, client_info=ME)
    listed = await client.call("list", agent.list_sessions(cwd=project))
    # The newest comes first, so the oldest is the one that `work` left.
    oldest, newest = listed.sessions[-1].session_id, listed.sessions[0].session_id
    await client.call("load", agent.load_session(cwd=project, session_id=oldest))
    await client.call("load missing", agent.load_session(cwd=project, session_id="ses_nobody"))
    await client.call("resume", agent.resume_session(cwd=project, session_id=newest))
    await say(agent, client, newest, "say on we go")
    turn = asyncio.create_task(say(agent, client, newest, "slow 500"))
    while await client.texts.get() != "1 ":
        pass
    await client.call("close", agent.close_session(session_id=newest))
    await turn
    await client.call("closed", agent.prompt(session_id=newest, prompt=[acp.text_block("say no")]))


CODING: dict[str, Scenario] = {
    "work": work,
    "permission_to_write": permission_to_write,
    "tool_access": tool_access,
    "choices": choices,
    "stop": stop,
    "steer": steer,
    "come_back": come_back,
}
