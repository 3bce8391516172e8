"""The scenarios of the Python SDK's client: each a walk over one part of the protocol, reported call by call."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import acp
from acp import schema as s

if TYPE_CHECKING:
    from tests.interop.peers.py_client import ReportingClient

Scenario = Callable[[Any, "ReportingClient"], Awaitable[None]]
EVERYTHING = s.ClientCapabilities(
    fs=s.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    elicitation=s.ElicitationCapabilities(form=s.ElicitationFormCapabilities(), url=s.ElicitationUrlCapabilities()),
    session=s.ClientSessionCapabilities(
        config_options=s.SessionConfigOptionsCapabilities(boolean=s.BooleanConfigOptionCapabilities())
    ),
)
ME = s.Implementation(name="py-client", version="1.0")


async def start(agent: Any, client: "ReportingClient", capabilities: s.ClientCapabilities = EVERYTHING) -> str:
    """Initialize and one session; returns its id."""
    await agent.initialize(protocol_version=1, client_capabilities=capabilities, client_info=ME)
    session = await agent.new_session(cwd="/tmp")
    return str(session.session_id)


async def say(agent: Any, client: "ReportingClient", session_id: str, text: str) -> None:
    await client.call(text, agent.prompt(session_id=session_id, prompt=[acp.text_block(text)]))


async def initialize(agent: Any, client: "ReportingClient") -> None:
    await client.call("early", agent.new_session(cwd="/work-a"))
    await client.call(
        "initialize", agent.initialize(protocol_version=1, client_capabilities=EVERYTHING, client_info=ME)
    )
    await client.call("again", agent.initialize(protocol_version=99, client_capabilities=EVERYTHING))


async def sessions(agent: Any, client: "ReportingClient") -> None:
    await agent.initialize(protocol_version=1, client_capabilities=EVERYTHING, client_info=ME)
    servers = [
        s.McpServerStdio(name="tools", command="/bin/true", args=[], env=[]),
        s.HttpMcpServer(type="http", name="far", url=cast(Any, "https://example.com/mcp"), headers=[]),
    ]
    new = agent.new_session(cwd="/work-a", additional_directories=["/work-b"], mcp_servers=servers)
    created = await client.call("new", new)
    await client.call("list", agent.list_sessions())
    await client.call("list next", agent.list_sessions(cursor="2"))
    await client.call("list cwd", agent.list_sessions(cwd="/work-b"))
    await client.call("list junk", agent.list_sessions(cursor="junk"))
    await client.call("load", agent.load_session(cwd="/work-a", session_id="old-1"))
    await client.call("load missing", agent.load_session(cwd="/work-a", session_id="nobody"))
    await client.call("resume", agent.resume_session(cwd="/work-a", session_id="old-2"))
    await say(agent, client, "old-2", "after resume")
    await client.call("close", agent.close_session(session_id=created.session_id))
    await say(agent, client, created.session_id, "after close")


async def auth(agent: Any, client: "ReportingClient") -> None:
    await agent.initialize(protocol_version=1, client_capabilities=EVERYTHING, client_info=ME)
    await client.call("locked", agent.new_session(cwd="/locked"))
    await client.call("wrong key", agent.authenticate(method_id="wrong"))
    await client.call("authenticate", agent.authenticate(method_id="key"))
    await client.call("unlocked", agent.new_session(cwd="/locked"))


async def stream(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    await say(agent, client, session_id, "stream 120")
    blocks = [
        acp.text_block("one"),
        acp.resource_link_block("a.txt", "file:///w/a.txt"),
        acp.image_block("aGk=", "image/png"),
        acp.audio_block("aGk=", "audio/wav"),
        acp.resource_block(acp.embedded_text_resource("file:///w/b.txt", "text")),
    ]
    await client.call("blocks", agent.prompt(session_id=session_id, prompt=blocks))
    await say(agent, client, session_id, "hello \u2028 \U0001f600 there")
    await say(agent, client, session_id, "big 300000")


async def side_by_side(agent: Any, client: "ReportingClient") -> None:
    first = await start(agent, client)
    second = (await agent.new_session(cwd="/tmp")).session_id
    turn = asyncio.create_task(say(agent, client, first, "wait"))
    await client.texts.get()
    await say(agent, client, second, "stream 5")
    await agent.cancel(session_id=first)
    await turn


async def leave(agent: Any, client: "ReportingClient") -> None:
    """Goes away in the middle of a turn."""
    session_id = await start(agent, client)
    turn = asyncio.create_task(say(agent, client, session_id, "wait"))
    await client.texts.get()
    turn.cancel()


def prompts(*texts: str) -> Scenario:
    async def run(agent: Any, client: "ReportingClient") -> None:
        session_id = await start(agent, client)
        for text in texts:
            await say(agent, client, session_id, text)

    return run


async def settings(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    await client.call("mode", agent.set_session_mode(session_id=session_id, mode_id="code"))
    await client.call("mode junk", agent.set_session_mode(session_id=session_id, mode_id="junk"))
    option: Any = agent.set_config_option
    await client.call("model", option(session_id=session_id, config_id="model", value="large"))
    await client.call("fast", option(session_id=session_id, config_id="fast", value=True))
    await client.call("model junk", option(session_id=session_id, config_id="model", value="junk"))
    await client.call("junk", option(session_id=session_id, config_id="junk", value="small"))


async def permission(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    for client.permission in ("yes", "no", "cancelled"):
        await say(agent, client, session_id, "permission")


def put(path: str, text: str) -> None:
    Path(path).write_text(text)


def get(path: str) -> str:
    return Path(path).read_text()


async def files(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    with tempfile.TemporaryDirectory() as folder:
        put(f"{folder}/a.txt", "one\ntwo\nthree\n")
        await say(agent, client, session_id, f"read {folder}/a.txt 2 1")
        await say(agent, client, session_id, f"read {folder}/none")
        await say(agent, client, session_id, f"write {folder}/new.txt fresh")
        client.report("disk", text=get(f"{folder}/new.txt"))


async def elicitation(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    client.elicitation = s.AcceptElicitationResponse(action="accept", content={"name": "Ada"})
    await say(agent, client, session_id, "form")
    client.elicitation = s.DeclineElicitationResponse(action="decline")
    await say(agent, client, session_id, "form")
    client.elicitation = s.CancelElicitationResponse(action="cancel")
    await say(agent, client, session_id, "form")
    client.elicitation = s.AcceptElicitationResponse(action="accept")
    await say(agent, client, session_id, "url")
    await client.call("form", agent.new_session(cwd="/form"))


async def bare(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client, s.ClientCapabilities())
    for text in ("form", "config", "notice", "compaction", "terminal"):
        await say(agent, client, session_id, text)
    with tempfile.TemporaryDirectory() as folder:
        await say(agent, client, session_id, f"write {folder}/a.txt local")
        await say(agent, client, session_id, f"read {folder}/a.txt")


async def cancel(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    await agent.cancel(session_id=session_id)
    turn = asyncio.create_task(say(agent, client, session_id, "wait"))
    await client.texts.get()
    await agent.cancel(session_id=session_id)
    await turn
    client.permission = "hold"
    for is_prompt in (True, False):  # the answer comes with the cancellation, or after the turn has ended
        client.asked.clear()
        client.answer.clear()
        turn = asyncio.create_task(say(agent, client, session_id, "permission"))
        await client.asked.wait()
        await agent.cancel(session_id=session_id)
        if is_prompt:
            client.answer.set()
        await turn
        client.answer.set()
    await say(agent, client, session_id, "still here")
    while not client.texts.empty():
        client.texts.get_nowait()
    turn = asyncio.create_task(say(agent, client, session_id, "wait"))
    await client.texts.get()
    await client.call("close", agent.close_session(session_id=session_id))
    await turn


async def cancel_request(agent: Any, client: "ReportingClient") -> None:
    """The SDK sends no `$/cancel_request` and ignores one: both must do no harm."""
    session_id = await start(agent, client)
    slow = asyncio.create_task(agent.ext_method("interop/slow", {}))
    # The request is on the wire once a later one was answered.
    await agent.ext_method("interop/echo", {})
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    await agent.ext_notification("interop/note", {"text": "go"})
    client.permission = "hold"
    await say(agent, client, session_id, "withdraw")
    client.answer.set()
    await say(agent, client, session_id, "still here")


async def errors(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    await say(agent, client, "nobody", "hello")
    await say(agent, client, session_id, "error -32050")
    await say(agent, client, session_id, "error 1234")
    await say(agent, client, session_id, "crash")
    await client.call("none", agent.ext_method("interop/none", {}))
    turn = asyncio.create_task(say(agent, client, session_id, "wait"))
    await client.texts.get()
    await say(agent, client, session_id, "second")
    await agent.cancel(session_id=session_id)
    await turn
    await say(agent, client, session_id, "still here")


async def extensions(agent: Any, client: "ReportingClient") -> None:
    session_id = await start(agent, client)
    await client.call("echo", agent.ext_method("interop/echo", {"deep": {"list": [1, None, "x"]}}))
    await agent.ext_notification("interop/note", {"text": "first"})
    await agent.ext_notification("interop/nobody", {"text": "ignored"})
    await client.call("notes", agent.ext_method("interop/notes", {}))
    await say(agent, client, session_id, "extension")


SCENARIOS: dict[str, Scenario] = {
    "initialize": initialize,
    "sessions": sessions,
    "auth": auth,
    "stream": stream,
    "side_by_side": side_by_side,
    "leave": leave,
    "tools": prompts("tool", "diff"),
    "facts": prompts(
        "think", "plan", "usage", "commands", "title", "mode", "config", "stop max_tokens", "stop refusal"
    ),
    "settings": settings,
    "permission": permission,
    "files": files,
    "terminals": prompts("terminal", "kill"),
    "elicitation": elicitation,
    "bare": bare,
    "cancel": cancel,
    "cancel_request": cancel_request,
    "errors": errors,
    "extensions": extensions,
}
