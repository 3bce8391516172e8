"""Our agent for the SDKs' clients: shows each protocol feature by keyword (see README.md).

`--record PATH` writes every frame of the connection to PATH, `>` before a line sent and `<` before one received.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO

from dragoman import Agent, CapabilityError, Observer, RequestError, Turn
from dragoman.agent import AgentSession, ClientError, Context
from dragoman.schema import encode, v1
from dragoman.transports.stdio import StdioTransport

STORED = {"old-1": "/work-a", "old-2": "/work-a", "old-3": "/work-b"}
PAGE = 2
COMMANDS = [("review", "Review the changes")]
OPTIONS = [v1.PermissionOption("yes", "Allow", "allow_once"), v1.PermissionOption("no", "Reject", "reject_once")]
MODES = v1.SessionModeState("ask", [v1.SessionMode("ask", "Ask"), v1.SessionMode("code", "Code")])

FORM = v1.ElicitationSchema(
    "object", properties={"name": v1.StringPropertySchema("Name", min_length=1)}, required=["name"]
)

agent = Agent("our-agent", version="1.0", title="Ours", auth_methods=[v1.AuthMethodAgent("key", "Key")])
doors = {"is_authenticated": False}
notes: list[Any] = []
go = asyncio.Event()


class Recorder(Observer):
    """Writes frames to a file, and knows when a question for the user left."""

    def __init__(self, file: BinaryIO | None) -> None:
        self.file = file
        self.asked = asyncio.Event()

    def received(self, line: bytes) -> None:
        if self.file:
            self.file.write(b"<" + line + b"\n")

    def sent(self, line: bytes) -> None:
        if self.file:
            self.file.write(b">" + line + b"\n")
        if b"session/request_permission" in line:
            self.asked.set()


recorder = Recorder(None)


def config_options(model: str) -> list[v1.SessionConfigOption]:
    values = [v1.SessionConfigSelectOption(value, value) for value in ("small", "large")]
    return [
        v1.SessionConfigSelect("model", "Model", model, values, category="model"),
        v1.SessionConfigBoolean("fast", "Fast", False),
    ]


def find(session_id: str) -> None:
    if session_id not in STORED:
        raise RequestError.not_found("Session not found", {"sessionId": session_id})


@agent.authenticate
async def authenticate(params: v1.AuthenticateRequest, context: Context) -> None:
    doors["is_authenticated"] = True


@agent.logout
async def logout(params: v1.LogoutRequest, context: Context) -> None:
    doors["is_authenticated"] = False


@agent.new_session(mcp=("http",), additional_directories=True)
async def new_session(params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
    if params.cwd == "/locked" and not doors["is_authenticated"]:
        raise RequestError.auth_required("Authentication required", {"methods": ["key"]})
    if params.cwd == "/form" and not isinstance(await session.elicit("Who are you?", FORM), v1.AcceptElicitation):
        raise RequestError.invalid_params("A name is needed")
    # Sent before the answer; the library keeps it back until the client knows the session.
    await session.commands(COMMANDS)
    return v1.NewSessionResponse(session.id, modes=MODES, config_options=config_options("small"))


@agent.load_session
async def load_session(params: v1.LoadSessionRequest, session: AgentSession) -> v1.LoadSessionResponse:
    find(params.session_id)
    await session.update(v1.UserMessageChunk(v1.TextContent("earlier question"), "m-1"))
    await session.update(v1.AgentMessageChunk(v1.TextContent("earlier answer"), "m-2"))
    await session.update(v1.ToolCall("old-tool", "Earlier tool", kind="read", status="completed"))
    return v1.LoadSessionResponse(modes=MODES, config_options=config_options("small"))


@agent.resume_session
async def resume_session(params: v1.ResumeSessionRequest, session: AgentSession) -> v1.ResumeSessionResponse:
    find(params.session_id)
    return v1.ResumeSessionResponse(modes=MODES, config_options=config_options("small"))


@agent.list_sessions
async def list_sessions(params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
    if params.cursor and params.cursor != str(PAGE):
        raise RequestError.invalid_params("Unknown cursor", path="$.cursor")
    start = int(params.cursor or 0)
    found = [v1.SessionInfo(key, cwd, title=key) for key, cwd in STORED.items() if not params.cwd or params.cwd == cwd]
    page = found[start : start + PAGE]
    if start + PAGE < len(found):
        return v1.ListSessionsResponse(page, next_cursor=str(start + PAGE))
    return v1.ListSessionsResponse(page)


@agent.close_session
async def close_session(params: v1.CloseSessionRequest, session: AgentSession) -> None:
    pass


@agent.delete_session
async def delete_session(params: v1.DeleteSessionRequest, context: Context) -> None:
    STORED.pop(params.session_id, None)


@agent.set_mode
async def set_mode(params: v1.SetSessionModeRequest, session: AgentSession) -> None:
    pass


@agent.set_config_option
async def set_config_option(params: v1.SetSessionConfigOptionRequest, session: AgentSession) -> None:
    pass


@agent.request("_interop/echo")
async def echo(params: Any, context: Context) -> Any:
    return params


@agent.request("_interop/slow")
async def slow(params: Any, context: Context) -> Any:
    await go.wait()
    return {"done": True}


@agent.request("_interop/notes")
async def send_notes(params: Any, context: Context) -> Any:
    return {"notes": notes}


@agent.notification("_interop/note")
async def note(params: Any, context: Context) -> None:
    notes.append(params)
    if params.get("text") == "go":
        go.set()


async def show_stream(turn: Turn, count: str) -> None:
    for number in range(int(count)):
        await turn.say(f"{number} ")


async def show_big(turn: Turn, count: str) -> None:
    await turn.say("x" * int(count))


async def show_think(turn: Turn) -> None:
    await turn.think("hm")


async def show_plan(turn: Turn) -> None:
    await turn.plan(["read", "write"])
    await turn.plan([("read", "completed"), ("write", "in_progress")])


async def show_tool(turn: Turn) -> None:
    where = [v1.ToolCallLocation("/w/a.txt", line=3)]
    given = {"path": "/w/a.txt"}
    async with turn.tool("Read a.txt", kind="read", id="tool-1", locations=where, raw_input=given) as tool:
        await tool.update(content=["3 lines"], raw_output={"lines": 3})


async def show_diff(turn: Turn) -> None:
    async with turn.tool("Edit a.txt", kind="edit", id="diff-1") as tool:
        await tool.diff("/w/a.txt", "a", "b")


async def show_permission(turn: Turn) -> None:
    permission = await turn.ask(v1.ToolCall("asked-1", "Delete it", kind="delete", status="pending"), OPTIONS)
    await turn.say(f"permission: {permission.kind or 'cancelled'}")


async def show_withdraw(turn: Turn) -> None:
    recorder.asked.clear()
    question = asyncio.create_task(turn.ask("Delete it", OPTIONS))
    await recorder.asked.wait()
    question.cancel()
    await asyncio.gather(question, return_exceptions=True)
    await turn.say("withdrawn")


async def show_read(turn: Turn, path: str, line: str = "", limit: str = "") -> None:
    try:
        text = await turn.read_file(path, int(line) if line else None, int(limit) if limit else None)
    except ClientError as error:
        await turn.say(f"error: {error.code}")
    else:
        await turn.say(f"read: {text}")


async def show_write(turn: Turn, path: str, text: str) -> None:
    await turn.write_file(path, text)
    await turn.say("written")


async def show_terminal(turn: Turn) -> None:
    program = ["-c", 'printf "$WORD"; exit 3']
    async with (
        turn.tool("Run sh", kind="execute", id="run-1") as tool,
        turn.terminal("/bin/sh", program, cwd="/tmp", env={"WORD": "out"}, output_byte_limit=1000) as terminal,
    ):
        await tool.show(terminal)
        ended = await terminal.wait()
        output = await terminal.output()
    seen = {"output": output.output, "exitCode": ended.exit_code, "truncated": output.truncated}
    await turn.say(json.dumps(seen, sort_keys=True))


async def show_kill(turn: Turn) -> None:
    async with turn.terminal("/bin/sleep", ["600"]) as terminal:
        running = await terminal.output()
        await terminal.kill()
        ended = await terminal.wait()
        await terminal.output()
    seen = {"running": not running.exit_status, "killed": bool(ended.signal) or ended.exit_code != 0}
    await turn.say(json.dumps(seen, sort_keys=True))


async def show_form(turn: Turn) -> None:
    try:
        answer = await turn.elicit("Who are you?", FORM)
    except CapabilityError:
        return await turn.say("no forms")
    if isinstance(answer, v1.AcceptElicitation):
        return await turn.say(f"form: accept {json.dumps(answer.content or {})}")
    return await turn.say(f"form: {'decline' if isinstance(answer, v1.DeclineElicitation) else 'cancel'} {{}}")


async def show_url(turn: Turn) -> None:
    answer = await turn.elicit("Please log in", url="https://example.com/login", elicitation_id="url-1")
    await turn.session.client.notify("elicitation/complete", v1.CompleteElicitationNotification("url-1"))
    await turn.say(f"url: {'accept' if isinstance(answer, v1.AcceptElicitation) else 'no'}")


async def show_usage(turn: Turn) -> None:
    await turn.usage(1200, 200000, (0.25, "EUR"))


async def show_commands(turn: Turn) -> None:
    plan = v1.AvailableCommand("plan", "Make a plan", v1.UnstructuredCommandInput("what for"))
    await turn.commands([*COMMANDS, plan])


async def show_title(turn: Turn) -> None:
    await turn.title("A good title")


async def show_untitle(turn: Turn) -> None:
    await turn.title(None)


async def show_mode(turn: Turn) -> None:
    await turn.mode("code")


async def show_config(turn: Turn) -> None:
    await turn.config_options(config_options("large"))


async def show_notice(turn: Turn) -> None:
    if not await turn.notice("warning", "Nearly full", "90 %"):
        await turn.say("no notices")


async def show_compaction(turn: Turn) -> None:
    try:
        await turn.update(v1.CompactionUpdate("c-1", "in_progress"))
        await turn.update(v1.CompactionSummaryChunk("c-1", v1.TextContent("short")))
        await turn.update(v1.CompactionUpdate("c-1", "completed"))
    except CapabilityError:
        await turn.say("no compaction")


async def show_wait(turn: Turn) -> None:
    await turn.say("waiting")
    await asyncio.Event().wait()


async def show_extension(turn: Turn) -> None:
    await turn.session.client.notify("_interop/told", {"x": 1})
    answer = await turn.request("_interop/add", {"a": 1, "b": 2})
    try:
        await turn.request("_interop/none")
        code = 0
    except RequestError as error:
        code = error.code
    await turn.say(f"add: {answer['sum']}, none: {code}")


async def show_error(turn: Turn, code: str) -> None:
    raise RequestError(int(code), "asked for", {"asked": int(code)})


async def show_crash(turn: Turn) -> None:
    raise ValueError("secret text")


async def show_stop(turn: Turn, reason: str) -> str:
    return reason


SHOWS: dict[str, Callable[..., Awaitable[str | None]]] = {
    name.removeprefix("show_"): show for name, show in list(globals().items()) if name.startswith("show_")
}


@agent.prompt(accepts=("image", "audio", "embedded_context"))
async def prompt(turn: Turn) -> str | None:
    if len(turn.prompt) > 1:
        types = [json.loads(encode(block))["type"] for block in turn.prompt]
        await turn.say("blocks: " + ",".join(types))
        return None
    word, *rest = turn.text.split()
    if word in SHOWS:
        return await SHOWS[word](turn, *rest)
    await turn.say(f"You said: {turn.text}")
    return None


def listening(url: str) -> None:
    os.write(1, f"{url}\n".encode())


async def serve_asgi() -> None:
    """The same agent inside an ASGI server."""
    import socket

    import uvicorn

    sock = socket.create_server(("127.0.0.1", 0))
    where = f"127.0.0.1:{sock.getsockname()[1]}"
    application = agent.asgi(hosts=[where], token=os.environ["ACP_TOKEN"])
    listening(f"http://{where}/acp")
    await uvicorn.Server(
        uvicorn.Config(application, log_level="critical", ws="websockets-sansio", timeout_graceful_shutdown=1)
    ).serve(sockets=[sock])


def main(argv: list[str]) -> None:
    if not argv:
        agent.run()
        return
    if argv[0] == "--listen":
        asyncio.run(agent.serve("127.0.0.1:0", token=os.environ["ACP_TOKEN"], on_listening=listening))
        return
    if argv[0] == "--asgi":
        asyncio.run(serve_asgi())
        return
    with open(argv[1], "wb", buffering=0) as recorder.file:
        asyncio.run(agent.serve(StdioTransport(), observers=[recorder]))


if __name__ == "__main__":
    main(sys.argv[1:])
