"""An agent on the official Python SDK that shows each protocol feature by keyword (see ../README.md).

It knows nothing of dragoman. The class does not inherit `acp.Agent`, because with that base every
method it lacks would answer success instead of -32601.
"""

import asyncio
import json
import os
import socket
import sys
from typing import Any, cast

import acp
from acp import schema as s

STORED = {"old-1": "/work-a", "old-2": "/work-a", "old-3": "/work-b"}
PAGE = 2
OPTIONS = [
    s.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    s.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]
KINDS = {option.option_id: option.kind for option in OPTIONS}
COMMANDS = [s.AvailableCommand(name="review", description="Review the changes")]


class OpenSession:
    """What the agent remembers about one session while it is active."""

    def __init__(self, has_booleans: bool) -> None:
        self.cancelled = asyncio.Event()
        self.is_cancelled = False
        self.mode = "ask"
        self.model = "small"
        self.fast = False
        self.has_booleans = has_booleans

    def modes(self) -> s.SessionModeState:
        available = [s.SessionMode(id="ask", name="Ask"), s.SessionMode(id="code", name="Code")]
        return s.SessionModeState(current_mode_id=self.mode, available_modes=available)

    def config_options(self) -> list[Any]:
        values = [s.SessionConfigSelectOption(value=value, name=value.title()) for value in ("small", "large")]
        options: list[Any] = [
            s.SessionConfigOptionSelect(
                type="select", id="model", name="Model", category="model", current_value=self.model, options=values
            )
        ]
        if self.has_booleans:
            options.append(
                s.SessionConfigOptionBoolean(type="boolean", id="fast", name="Fast", current_value=self.fast)
            )
        return options


class ShowAgent:
    def __init__(self) -> None:
        self.client: Any = None
        self.capabilities = s.ClientCapabilities()
        self.sessions: dict[str, OpenSession] = {}
        self.created = 0
        self.is_authenticated = False
        self.notes: list[Any] = []
        self.go = asyncio.Event()

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: s.ClientCapabilities | None = None, **_: Any
    ) -> s.InitializeResponse:
        self.capabilities = client_capabilities or s.ClientCapabilities()
        return s.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=s.Implementation(name="py-agent", title="Python SDK agent", version="1.0"),
            agent_capabilities=s.AgentCapabilities(
                load_session=True,
                prompt_capabilities=s.PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=s.McpCapabilities(http=True),
                session_capabilities=s.SessionCapabilities(
                    list=s.SessionListCapabilities(),
                    resume=s.SessionResumeCapabilities(),
                    close=s.SessionCloseCapabilities(),
                    additional_directories=s.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=[s.AuthMethodAgent(id="key", name="Key")],
        )

    async def authenticate(self, method_id: str, **_: Any) -> s.AuthenticateResponse:
        if method_id != "key":
            raise acp.RequestError.invalid_params({"methodId": method_id})
        self.is_authenticated = True
        return s.AuthenticateResponse()

    def _open(self, session_id: str) -> OpenSession:
        options = self.capabilities.session and self.capabilities.session.config_options
        session = self.sessions[session_id] = OpenSession(bool(options and options.boolean is not None))
        return session

    def _session(self, session_id: str) -> OpenSession:
        if session_id not in self.sessions:
            raise acp.RequestError(-32002, "Session not found", {"sessionId": session_id})
        return self.sessions[session_id]

    async def _update(self, session_id: str, update: Any) -> None:
        await self.client.session_update(session_id=session_id, update=update)

    async def new_session(self, cwd: str, **_: Any) -> s.NewSessionResponse:
        if cwd == "/locked" and not self.is_authenticated:
            raise acp.RequestError.auth_required({"methods": ["key"]})
        self.created += 1
        session_id = f"s-{self.created}"
        session = self._open(session_id)
        # Sent before the answer that names the session: clients have to keep it.
        await self._update(
            session_id,
            s.AvailableCommandsUpdate(session_update="available_commands_update", available_commands=COMMANDS),
        )
        return s.NewSessionResponse(
            session_id=session_id, modes=session.modes(), config_options=session.config_options()
        )

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> s.LoadSessionResponse:
        if session_id not in STORED:
            raise acp.RequestError(-32002, "Session not found", {"sessionId": session_id})
        session = self._open(session_id)
        await self._update(session_id, acp.update_user_message_text("earlier question"))
        await self._update(session_id, acp.update_agent_message_text("earlier answer"))
        await self._update(session_id, acp.start_tool_call("old-tool", "Earlier tool", kind="read", status="completed"))
        return s.LoadSessionResponse(modes=session.modes(), config_options=session.config_options())

    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> s.ResumeSessionResponse:
        if session_id not in STORED:
            raise acp.RequestError(-32002, "Session not found", {"sessionId": session_id})
        session = self._open(session_id)
        return s.ResumeSessionResponse(modes=session.modes(), config_options=session.config_options())

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> s.ListSessionsResponse:
        if cursor is not None and cursor != str(PAGE):
            raise acp.RequestError.invalid_params({"cursor": cursor})
        start = int(cursor or 0)
        found = [s.SessionInfo(session_id=key, cwd=at, title=key.title()) for key, at in STORED.items()]
        found = [info for info in found if cwd in (None, info.cwd)]
        more = str(start + PAGE) if start + PAGE < len(found) else None
        return s.ListSessionsResponse(sessions=found[start : start + PAGE], next_cursor=more)

    async def close_session(self, session_id: str, **_: Any) -> s.CloseSessionResponse:
        await self.cancel(session_id)
        self._session(session_id)
        del self.sessions[session_id]
        return s.CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> s.SetSessionModeResponse:
        if mode_id not in ("ask", "code"):
            raise acp.RequestError.invalid_params({"modeId": mode_id})
        self._session(session_id).mode = mode_id
        return s.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> s.SetSessionConfigOptionResponse:
        session = self._session(session_id)
        if config_id == "model" and value in ("small", "large"):
            session.model = str(value)
        elif config_id == "fast" and isinstance(value, bool):
            session.fast = value
        else:
            raise acp.RequestError.invalid_params({"configId": config_id})
        return s.SetSessionConfigOptionResponse(config_options=session.config_options())

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session.is_cancelled = True
            session.cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "interop/echo":
                return params
            case "interop/slow":
                await self.go.wait()
                return {"done": True}
            case "interop/notes":
                return {"notes": self.notes}
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "interop/note":
            self.notes.append(params)
            if params.get("text") == "go":
                self.go.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> s.PromptResponse:
        session = self._session(session_id)
        session.cancelled.clear()
        session.is_cancelled = False
        turn = Show(self, session_id, session)
        if len(prompt) > 1:
            await turn.say("blocks: " + ",".join(block.type for block in prompt))
            return s.PromptResponse(stop_reason="end_turn")
        word, *rest = prompt[0].text.split()
        show = getattr(turn, f"show_{word}", None)
        reason = None
        if show is not None:
            reason = await show(*rest)
        else:
            await turn.say(f"You said: {prompt[0].text}")
        return s.PromptResponse(stop_reason="cancelled" if session.is_cancelled else reason or "end_turn")


class Show:
    """One turn; each `show_*` method is a keyword."""

    def __init__(self, agent: ShowAgent, session_id: str, session: OpenSession) -> None:
        self.client = agent.client
        self.capabilities = agent.capabilities
        self.id = session_id
        self.session = session

    async def update(self, update: Any) -> None:
        await self.client.session_update(session_id=self.id, update=update)

    async def say(self, text: str) -> None:
        await self.update(acp.update_agent_message_text(text))

    async def show_stream(self, count: str) -> None:
        for number in range(int(count)):
            await self.say(f"{number} ")

    async def show_big(self, count: str) -> None:
        await self.say("x" * int(count))

    async def show_think(self) -> None:
        await self.update(acp.update_agent_thought_text("hm"))

    async def show_plan(self) -> None:
        await self.update(acp.update_plan([acp.plan_entry("read", priority="high"), acp.plan_entry("write")]))
        done = acp.plan_entry("read", priority="high", status="completed")
        await self.update(acp.update_plan([done, acp.plan_entry("write", status="in_progress")]))

    async def show_tool(self) -> None:
        where = [s.ToolCallLocation(path="/w/a.txt", line=3)]
        await self.update(
            acp.start_tool_call(
                "tool-1", "Read a.txt", kind="read", status="pending", locations=where, raw_input={"path": "/w/a.txt"}
            )
        )
        await self.update(acp.update_tool_call("tool-1", status="in_progress"))
        content = [acp.tool_content(acp.text_block("3 lines"))]
        await self.update(acp.update_tool_call("tool-1", status="completed", content=content, raw_output={"lines": 3}))

    async def show_diff(self) -> None:
        content = [acp.tool_diff_content("/w/a.txt", "b", "a")]
        await self.update(acp.start_tool_call("diff-1", "Edit a.txt", kind="edit", status="completed", content=content))

    async def show_permission(self) -> None:
        await self.update(acp.start_tool_call("asked-1", "Delete it", kind="delete", status="pending"))
        answer = await self.client.request_permission(
            session_id=self.id, tool_call=s.ToolCallUpdate(tool_call_id="asked-1"), options=OPTIONS
        )
        chosen = answer.outcome
        await self.say("permission: " + (KINDS[chosen.option_id] if chosen.outcome == "selected" else "cancelled"))

    async def show_read(self, path: str, line: str | None = None, limit: str | None = None) -> None:
        try:
            answer = await self.client.read_text_file(
                session_id=self.id, path=path, line=int(line) if line else None, limit=int(limit) if limit else None
            )
        except acp.RequestError as error:
            return await self.say(f"error: {error.code}")
        return await self.say(f"read: {answer.content}")

    async def show_write(self, path: str, text: str) -> None:
        try:
            await self.client.write_text_file(session_id=self.id, path=path, content=text)
        except acp.RequestError as error:
            return await self.say(f"error: {error.code}")
        return await self.say("written")

    async def show_terminal(self) -> None:
        created = await self.client.create_terminal(
            session_id=self.id,
            command="/bin/sh",
            args=["-c", 'printf "$WORD"; exit 3'],
            env=[s.EnvVariable(name="WORD", value="out")],
            cwd="/tmp",
            output_byte_limit=1000,
        )
        at: dict[str, Any] = {"session_id": self.id, "terminal_id": created.terminal_id}
        content = [acp.tool_terminal_ref(created.terminal_id)]
        await self.update(acp.start_tool_call("run-1", "Run sh", kind="execute", status="in_progress", content=content))
        ended = await self.client.wait_for_terminal_exit(**at)
        output = await self.client.terminal_output(**at)
        await self.client.release_terminal(**at)
        try:
            await self.client.terminal_output(**at)
            after = 0
        except acp.RequestError as error:
            after = error.code
        seen = {"output": output.output, "exitCode": ended.exit_code, "truncated": output.truncated, "after": after}
        await self.say(json.dumps(seen, sort_keys=True))

    async def show_kill(self) -> None:
        created = await self.client.create_terminal(session_id=self.id, command="/bin/sleep", args=["600"])
        at: dict[str, Any] = {"session_id": self.id, "terminal_id": created.terminal_id}
        running = await self.client.terminal_output(**at)
        await self.client.kill_terminal(**at)
        ended = await self.client.wait_for_terminal_exit(**at)
        await self.client.terminal_output(**at)
        await self.client.release_terminal(**at)
        seen = {"running": running.exit_status is None, "killed": bool(ended.signal) or ended.exit_code != 0}
        await self.say(json.dumps(seen, sort_keys=True))

    async def show_form(self) -> None:
        name = s.ElicitationStringPropertySchema(type="string", title="Name", min_length=1)
        wanted = s.ElicitationSchema(type="object", properties={"name": name}, required=["name"])
        mode = s.ElicitationFormSessionMode(session_id=self.id, requested_schema=wanted)
        try:
            answer = await self.client.create_elicitation(message="Who are you?", mode=mode)
        except acp.RequestError as error:
            return await self.say(f"error: {error.code}")
        content = getattr(answer, "content", None) or {}
        return await self.say(f"form: {answer.action} {json.dumps(content)}")

    async def show_url(self) -> None:
        url = cast(Any, "https://example.com/login")
        mode = s.ElicitationUrlSessionMode(session_id=self.id, elicitation_id="url-1", url=url)
        answer = await self.client.create_elicitation(message="Please log in", mode=mode)
        await self.client.complete_elicitation(elicitation_id="url-1")
        await self.say(f"url: {answer.action}")

    async def show_usage(self) -> None:
        cost = s.Cost(amount=0.25, currency="EUR")
        await self.update(s.UsageUpdate(session_update="usage_update", used=1200, size=200000, cost=cost))

    async def show_commands(self) -> None:
        more = [*COMMANDS, s.AvailableCommand(name="plan", description="Make a plan")]
        await self.update(
            s.AvailableCommandsUpdate(session_update="available_commands_update", available_commands=more)
        )

    async def show_title(self) -> None:
        await self.update(s.SessionInfoUpdate(session_update="session_info_update", title="A good title"))

    async def show_mode(self) -> None:
        self.session.mode = "code"
        await self.update(s.CurrentModeUpdate(session_update="current_mode_update", current_mode_id="code"))

    async def show_config(self) -> None:
        self.session.model = "large"
        options = self.session.config_options()
        await self.update(s.ConfigOptionUpdate(session_update="config_option_update", config_options=options))

    async def show_wait(self) -> None:
        await self.say("waiting")
        await self.session.cancelled.wait()

    async def show_extension(self) -> None:
        await self.client.ext_notification("interop/told", {"x": 1})
        answer = await self.client.ext_method("interop/add", {"a": 1, "b": 2})
        try:
            await self.client.ext_method("interop/none", {})
            code = 0
        except acp.RequestError as error:
            code = error.code
        await self.say(f"add: {answer['sum']}, none: {code}")

    async def show_error(self, code: str) -> None:
        raise acp.RequestError(int(code), "asked for", {"asked": int(code)})

    async def show_crash(self) -> None:
        raise ValueError("secret text")

    async def show_stop(self, reason: str) -> str:
        return reason

    async def show_die(self) -> None:
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os._exit(3)


async def listen() -> None:
    """Serve HTTP and WebSocket; writes the URL to stdout."""
    import uvicorn
    from acp.http.asgi import create_asgi_app

    def make(connection: Any) -> Any:
        agent = ShowAgent()
        agent.on_connect(connection)
        return agent

    sock = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_asgi_app(make), log_level="critical", ws="websockets-sansio")
    sys.stdout.write(f"http://127.0.0.1:{sock.getsockname()[1]}/acp\n")
    sys.stdout.flush()
    await uvicorn.Server(config).serve(sockets=[sock])


if __name__ == "__main__":
    if "--listen" in sys.argv:
        asyncio.run(listen())
    else:
        asyncio.run(acp.run_agent(cast(Any, ShowAgent()), use_unstable_protocol=True))
