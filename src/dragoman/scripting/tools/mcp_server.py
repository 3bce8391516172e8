"""An MCP server whose tools run turns of an ACP agent. Needs the package `mcp` (the extra `agent`), imported when used.

Owns the tools and how a client is asked: by `elicitation/create` up to protocol 2025-11-25, by an input-required result
from 2026-07-28 on, where a server cannot send requests. A client that announces neither is not asked; then rules
decide, and what they leave open is refused. `mcp_task.py` has the turns.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dragoman._version import __version__
from dragoman.client.permission import ClientPermissions
from dragoman.scripting.tools.mcp_task import McpTask
from dragoman.scripting.tools.task_agent import TaskAgent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from dragoman.client import Question, Session
    from dragoman.policy import Rule
    from dragoman.scripting.tools.task_agent import AgentName, TaskResult

_FIRST_WITHOUT_REQUESTS: Final = "2026-07-28"
_KEPT_TASKS: Final = 200
_RUNNING: Final = (
    "The agent is still working. Call `result` with this session_id to wait for it, or `cancel` to end it."
)
_SESSION: Final = {"type": "string", "description": "The session_id that an earlier call returned."}
_OUTPUT: Final = {
    "type": "object",
    "properties": {
        "session_id": {"type": "string", "description": "Give it to the next call to continue the conversation."},
        "status": {"type": "string", "enum": ["done", "running", "failed"]},
        "text": {"type": "string", "description": "The agent's report."},
        "stop_reason": {"type": "string"},
        "files": {"type": "array", "items": {"type": "string"}, "description": "Files that it changed."},
        "refused": {"type": "array", "items": {"type": "string"}, "description": "What it was not permitted to do."},
        "used_tokens": {"type": "integer", "description": "How full its context window is."},
    },
    "required": ["status", "text"],
}


class AgentMcpServer:
    """An ACP agent as a server for MCP clients.

    Args:
        agent: its name or its command, as `TaskAgent` takes it.
        name: what to call it.
        cwd: the folder it works in.
        rules: permission rules that decide before a user is asked.
    """

    def __init__(self, agent: AgentName, *, name: str, cwd: str, rules: Sequence[Rule] = ()) -> None:
        from mcp.server.lowlevel import Server

        self._name = name
        permissions = ClientPermissions(list(rules), agent=name, asker=self)
        self._task_agent = TaskAgent(agent, cwd=cwd, permission=permissions)
        self._tasks: dict[str, McpTask] = {}
        self._by_session: dict[str, McpTask] = {}
        self.server: Server[Any] = Server(
            f"dragoman-{name}",
            version=__version__,
            title=f"{name} (through Dragoman)",
            instructions=f"Runs tasks with {name}, an agent that works by itself in {cwd}.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def __aenter__(self) -> AgentMcpServer:
        await self._task_agent.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        running = [task for task in self._tasks.values() if not task.is_over]
        for task in running:
            task.cancel()
        for task in running:
            await task.wait_over()
        await self._task_agent.__aexit__(None, None, None)

    has_user = False  # a program calls the tools

    async def ask(self, question: Question, session: Session) -> str | None:
        """Ask what the rules left open, through the call that attends to the session's task."""
        task = next(
            (
                candidate
                for candidate in self._tasks.values()
                if candidate.session_id == session.id and not candidate.is_over
            ),
            None,
        )
        return None if task is None else await task.ask(question)

    # Tools

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        import mcp_types as types

        return types.ListToolsResult(tools=self._tools())

    def _tools(self) -> list[types.Tool]:
        prompt = {
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "What the agent is to do, with everything it has to know."},
                "session_id": {**_SESSION, "description": "Continue this conversation; without it a new one begins."},
                "wait": {
                    "type": "boolean",
                    "description": "False: return at once; the report is fetched by `result`. Default: true.",
                },
            },
            "required": ["task"],
        }
        named = {"type": "object", "properties": {"session_id": _SESSION}, "required": ["session_id"]}
        about = (
            f"Give a task to {self._name}, an agent that works by itself: it reads and changes files and runs "
            "commands, as far as the user permits, and answers with a report."
        )
        return [
            _tool("prompt", f"Ask {self._name}", about, prompt),
            _tool("result", "Wait for a report", "Wait for a task that was started with `wait: false`.", named),
            _tool("cancel", "Cancel a task", "End the task that runs in a session.", named),
        ]

    async def _call(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        given = params.arguments or {}
        if params.name not in ("prompt", "result", "cancel"):
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}")
        if params.request_state is not None:
            task = self._tasks.get(params.request_state)
            if task is None:
                return _failed("This task is over or was never started; start it again.", None)
            self._take_answers(task, params.input_responses or {})
            return await self._attend(ctx, task)
        if params.name == "prompt":
            return await self._prompt(ctx, given)
        task = self._by_session.get(str(given.get("session_id")))
        if task is None:
            return _failed("No task was started in this session by this server.", None)
        if params.name == "result":
            return await self._attend(ctx, task, is_owner=False)
        task.cancel()
        await task.wait_over()
        return _report(task)

    async def _prompt(
        self, ctx: ServerRequestContext[Any], arguments: dict[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult:
        text, session_id = arguments.get("task"), arguments.get("session_id")
        if not isinstance(text, str) or not text.strip():
            return _failed("task must be a text that is not empty.", None)
        if session_id is not None and not isinstance(session_id, str):
            return _failed("session_id must be a text.", None)
        before = self._by_session.get(session_id or "")
        if before is not None and not before.is_over:
            return _failed("A task runs in this session; wait for it with `result`, or end it with `cancel`.", before)
        task = McpTask(self._task_agent, self._name, text, session_id)
        self._keep(task)
        if arguments.get("wait") is not False:
            return await self._attend(ctx, task)
        while task.session_id is None and not task.is_over:
            await task.changed.wait()
        self._by_session[task.session_id or ""] = task
        return _report(task)

    def _keep(self, task: McpTask) -> None:
        self._tasks[task.state_token] = task
        over = [token for token, task in self._tasks.items() if task.is_over]
        for token in over[: max(0, len(self._tasks) - _KEPT_TASKS)]:
            gone = self._tasks.pop(token)
            if self._by_session.get(gone.session_id or "") is gone:
                del self._by_session[gone.session_id or ""]

    # Attending

    async def _attend(
        self, ctx: ServerRequestContext[Any], task: McpTask, *, is_owner: bool = True
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Follow a task to its end, or to a question that ends this call.

        Args:
            ctx: the call.
            task: what it follows.
            is_owner: the task ends if the client cancels this call. A call that only waits may be given up.
        """
        way = _way_to_ask(ctx)
        reported = 0
        asking: set[asyncio.Task[None]] = set()
        try:
            with task:
                while not task.is_over:
                    changed, progress = task.changed, task.progress
                    if task.session_id is not None:
                        self._by_session[task.session_id] = task
                    if progress is not None and progress.steps > reported:
                        reported = progress.steps
                        await ctx.session.report_progress(progress.steps, None, progress.message)
                    new = [question for question in task.questions.values() if not question.is_asked]
                    if new and way == "result":
                        return _input_required(task)
                    for question in new:
                        question.is_asked = True
                        if way is None:
                            question.settle("decline", None)
                        else:
                            asking.add(asyncio.get_running_loop().create_task(_elicit(ctx, question)))
                    await changed.wait()
        except asyncio.CancelledError:  # the client cancelled its call
            if is_owner:
                task.cancel()
            raise
        finally:
            for question_task in asking:
                question_task.cancel()
        return _report(task)

    def _take_answers(self, task: McpTask, responses: dict[str, Any]) -> None:
        """Take the answers of a client. Questions without an answer stay open and are asked again."""
        import mcp_types as types

        for id, response in responses.items():
            question = task.questions.get(id)
            if question is not None and isinstance(response, types.ElicitResult):
                question.settle(response.action, response.content)
                del task.questions[id]


def _tool(name: str, title: str, description: str, schema: dict[str, Any]) -> types.Tool:
    import mcp_types as types

    return types.Tool(name=name, title=title, description=description, input_schema=schema, output_schema=_OUTPUT)


def _way_to_ask(ctx: ServerRequestContext[Any]) -> str | None:
    """Return how this client can be asked: by a `request`, by a `result`, or not at all."""
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    # An announcement without a mode is one of the form, as before modes were named.
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return None
    return "result" if ctx.protocol_version >= _FIRST_WITHOUT_REQUESTS else "request"


def _input_required(task: McpTask) -> types.InputRequiredResult:
    import mcp_types as types

    requests: dict[str, Any] = {
        question.id: types.ElicitRequest(
            params=types.ElicitRequestFormParams(message=question.message, requested_schema=question.schema)
        )
        for question in task.questions.values()
    }
    return types.InputRequiredResult(request_state=task.state_token, input_requests=requests)


async def _elicit(ctx: ServerRequestContext[Any], question: Any) -> None:
    try:
        answer = await ctx.session.elicit_form(question.message, question.schema, ctx.request_id)
        question.settle(answer.action, answer.content)
    except Exception:  # whatever goes wrong between the servers: it is not a yes
        question.settle("cancel", None)


def _report(task: McpTask) -> types.CallToolResult:
    if task.result is not None:
        return _done(task.result)
    if task.is_over:
        return _failed(task.error or "The task was cancelled.", task)
    import mcp_types as types

    facts = {"session_id": task.session_id, "status": "running", "text": _RUNNING}
    return types.CallToolResult(content=[types.TextContent(type="text", text=_RUNNING)], structured_content=facts)


def _done(result: TaskResult) -> types.CallToolResult:
    import mcp_types as types

    facts: dict[str, Any] = {
        "session_id": result.session_id,
        "status": "done",
        "text": result.text,
        "stop_reason": result.stop_reason,
        "files": list(result.files),
        "refused": list(result.refused),
    }
    if result.used_tokens is not None:
        facts["used_tokens"] = result.used_tokens
    text = f"{result}\n\n[session_id: {result.session_id}]"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=facts)


def _failed(text: str, task: McpTask | None) -> types.CallToolResult:
    import mcp_types as types

    facts = {"status": "failed", "text": text}
    if task is not None and task.session_id is not None:
        facts["session_id"] = task.session_id
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], structured_content=facts, is_error=True)


async def serve_stdio(server: AgentMcpServer) -> None:
    """Serve one client on stdin and stdout until it is gone."""
    from mcp.server.stdio import stdio_server

    async with server, stdio_server() as (received, sent):
        await server.server.run(received, sent, server.server.create_initialization_options())
