"""A client on the official Python SDK: walks named scenarios against an agent, reports what it saw (see ../README.md).

It knows nothing of dragoman. The handlers report and answer; `py_scenarios.py` and `py_coding.py` hold the walks.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema as s
from acp.http import create_http_stream
from acp.ws import create_websocket_stream
from pydantic import BaseModel

from tests.interop.peers.py_coding import CODING
from tests.interop.peers.py_scenarios import SCENARIOS

SCENARIO_SECONDS = 12.0
WALKS = SCENARIOS | CODING


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def read(path: str, line: int = 1, limit: int | None = None) -> str:
    if not Path(path).exists():
        raise acp.RequestError.resource_not_found(path)
    return "".join(Path(path).read_text().splitlines(keepends=True)[line - 1 :][:limit])


def write(path: str, text: str) -> None:
    Path(path).write_text(text)


class Terminals:
    """Real child processes behind terminal ids."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.subprocess.Process] = {}
        self.output: dict[str, bytes] = {}

    def find(self, terminal_id: str) -> asyncio.subprocess.Process:
        if terminal_id not in self.running:
            raise acp.RequestError.resource_not_found(terminal_id)
        return self.running[terminal_id]

    async def create(self, command: str, args: list[str], env: dict[str, str], cwd: str | None) -> str:
        process = await asyncio.create_subprocess_exec(
            command, *args, env={**os.environ, **env}, cwd=cwd, stdout=asyncio.subprocess.PIPE
        )
        terminal_id = f"t-{len(self.output)}"
        self.running[terminal_id], self.output[terminal_id] = process, b""
        return terminal_id

    async def wait(self, terminal_id: str) -> tuple[int | None, str | None]:
        process = self.find(terminal_id)
        output, _ = await process.communicate()
        self.output[terminal_id] += output or b""
        code = cast(int, process.returncode)
        return (code, None) if code >= 0 else (None, str(-code))

    async def release(self, terminal_id: str) -> None:
        process = self.find(terminal_id)
        del self.running[terminal_id]
        if process.returncode is None:
            process.kill()
            await process.wait()

    async def release_all(self) -> None:
        for terminal_id in list(self.running):
            await self.release(terminal_id)


class ReportingClient:
    """Answers the agent as the scenario set it up, and reports every question."""

    def __init__(self, scenario: str) -> None:
        self.scenario = scenario
        self.permission = "yes"
        self.elicitation: Any = s.DeclineElicitationResponse(action="decline")
        self.terminals = Terminals()
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.texts: asyncio.Queue[str] = asyncio.Queue()

    def report(self, event: str, **facts: Any) -> None:
        facts = {key: plain(value) for key, value in facts.items()}
        sys.stdout.write(json.dumps({"scenario": self.scenario, "event": event, **facts}) + "\n")
        sys.stdout.flush()

    async def call(self, name: str, call: Awaitable[Any]) -> Any:
        """Reports how one call of the client ended."""
        try:
            result = await call
        except acp.RequestError as error:
            self.report("error", call=name, code=error.code, message=str(error), data=error.data)
            return None
        self.report("result", call=name, result=result)
        return result

    def on_connect(self, conn: acp.Agent) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.report("update", session=session_id, update=update)
        if update.session_update == "agent_message_chunk" and update.content.type == "text":
            self.texts.put_nowait(update.content.text)

    async def request_permission(self, **params: Any) -> s.RequestPermissionResponse:
        options = [plain(option) for option in params["options"]]
        self.report("request", method="session/request_permission", toolCall=params["tool_call"], options=options)
        self.asked.set()
        if self.permission == "hold":
            await self.answer.wait()
            return s.RequestPermissionResponse(outcome=s.DeniedOutcome(outcome="cancelled"))
        if self.permission == "cancelled":
            return s.RequestPermissionResponse(outcome=s.DeniedOutcome(outcome="cancelled"))
        return s.RequestPermissionResponse(outcome=s.AllowedOutcome(outcome="selected", option_id=self.permission))

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> s.ReadTextFileResponse:
        self.report("request", method="fs/read_text_file", path=path, line=line, limit=limit)
        return s.ReadTextFileResponse(content=read(path, line or 1, limit))

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> s.WriteTextFileResponse:
        self.report("request", method="fs/write_text_file", path=path, content=content)
        write(path, content)
        return s.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[s.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: Any,
    ) -> s.CreateTerminalResponse:
        self.report("request", method="terminal/create", command=command, args=args, limit=output_byte_limit)
        variables = {variable.name: variable.value for variable in env or []}
        return s.CreateTerminalResponse(terminal_id=await self.terminals.create(command, args or [], variables, cwd))

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> s.TerminalOutputResponse:
        self.report("request", method="terminal/output", terminal=terminal_id)
        process = self.terminals.find(terminal_id)
        code = process.returncode
        status = None
        if code is not None:
            status = s.TerminalExitStatus(exit_code=code) if code >= 0 else s.TerminalExitStatus(signal=str(-code))
        text = self.terminals.output[terminal_id].decode()
        return s.TerminalOutputResponse(output=text, truncated=False, exit_status=status)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> s.WaitForTerminalExitResponse:
        self.report("request", method="terminal/wait_for_exit", terminal=terminal_id)
        code, signal = await self.terminals.wait(terminal_id)
        return s.WaitForTerminalExitResponse(exit_code=code, signal=signal)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> s.KillTerminalResponse:
        self.report("request", method="terminal/kill", terminal=terminal_id)
        self.terminals.find(terminal_id).kill()
        return s.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> s.ReleaseTerminalResponse:
        self.report("request", method="terminal/release", terminal=terminal_id)
        await self.terminals.release(terminal_id)
        return s.ReleaseTerminalResponse()

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.report("request", method="elicitation/create", message=message, mode=mode)
        return self.elicitation

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        self.report("notification", method="elicitation/complete", elicitationId=elicitation_id)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.report("request", method=f"_{method}", params=params)
        if method == "interop/add":
            return {"sum": params["a"] + params["b"]}
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        self.report("notification", method=f"_{method}", params=params)


async def walk(name: str, command: list[str]) -> None:
    client = ReportingClient(name)
    argv = [part.replace("{scenario}", name) for part in command]
    # stderr is inherited: the SDK would open a pipe that nobody reads.
    spawned = acp.spawn_agent_process(
        cast(Any, client),
        *argv,
        env=dict(os.environ),
        transport_kwargs={"stderr": None, "shutdown_timeout": 5.0},
        use_unstable_protocol=True,
    )
    process = None
    try:
        async with asyncio.timeout(SCENARIO_SECONDS), spawned as (agent, process):
            await WALKS[name](agent, client)
    except (Exception, asyncio.CancelledError) as error:  # any failure is an observation
        client.report("failed", error=repr(error))
    finally:
        with contextlib.suppress(ProcessLookupError):
            await client.terminals.release_all()
        client.report("exit", code=process.returncode if process else None)


async def walk_to(name: str, url: str) -> None:
    """Over a network: the agent is there already, and stays."""
    client = ReportingClient(name)
    headers = {"Authorization": f"Bearer {os.environ['ACP_TOKEN']}"}
    try:
        async with asyncio.timeout(SCENARIO_SECONDS):
            if url.startswith("http"):
                stream = create_http_stream(url, headers=headers)
            else:
                stream = await create_websocket_stream(url, headers=headers)
            agent = acp.connect_to_agent(cast(Any, client), stream, use_unstable_protocol=True)
            try:
                await WALKS[name](agent, client)
            finally:
                await agent.close()
                await stream.close()
    except (Exception, asyncio.CancelledError) as error:  # any failure is an observation
        client.report("failed", error=repr(error))
    finally:
        with contextlib.suppress(ProcessLookupError):
            await client.terminals.release_all()
        client.report("exit", code=0)


async def main(argv: list[str]) -> None:
    cut = argv.index("--")
    where = argv[cut + 1 :]
    for name in argv[:cut]:
        if where[0].startswith(("http:", "ws:")):
            await walk_to(name, where[0])
        else:
            await walk(name, where)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
