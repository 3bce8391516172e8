"""Clients by what they announce: a raw line to the built-in agent that serves exactly those requests."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.transports.memory import memory_pair
from tests.agent.fixtures import EVERYTHING, ClientLine, updated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.rpc import Transport
    from tests.builtin.http_service import Service

FILES: Final[dict[str, Any]] = {"fs": {"readTextFile": True, "writeTextFile": True}}
WORKSPACE: Final[dict[str, Any]] = {**FILES, "terminal": True}
# What each client sends as `clientCapabilities`, as it was seen when they were run.
KINDS: Final[dict[str, dict[str, Any]]] = {
    "acpx": WORKSPACE,
    "toad": WORKSPACE,
    "harbor": WORKSPACE,
    "codecompanion": FILES,
    "acp.el": FILES,
    "agentic.nvim": {**FILES, "terminal": False},
    "sdk": {},
    "zed": EVERYTHING,
}


class KindClient(ClientLine):
    """A client of one kind. It permits what it is asked for, except where `refuses` is in the title."""

    def __init__(self, transport: Transport, service: Service, refuses: str) -> None:
        super().__init__(transport)
        self.project = str(service.project)
        self.refuses = refuses
        self.asked: list[str] = []
        """The methods of the agent's requests, in order."""
        self._outputs: dict[str, subprocess.CompletedProcess[str]] = {}

    async def finish(self, request_id: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The updates before the answer to a request, and the answer; requests of the agent are served."""
        updates: list[dict[str, Any]] = []
        while True:
            message = await asyncio.wait_for(self.next(), 30)
            if "method" not in message:
                assert message["id"] == request_id, message
                return updates, message
            if "id" in message:
                self.serve(message)
            else:
                updates.append(updated(message))

    async def until(self, method: str) -> dict[str, Any]:
        """The next request of this method, without an answer; requests before it are served."""
        while (message := await asyncio.wait_for(self.next(), 30)).get("method") != method:
            if "id" in message:
                self.serve(message)
        return message

    def serve(self, message: dict[str, Any]) -> None:
        """Answer a request of the agent."""
        self.asked.append(message["method"])
        try:
            answer = {"result": self._serve(message["method"], message["params"])}
        except FileNotFoundError as error:
            answer = {"error": {"code": -32002, "message": f"{error.filename} does not exist"}}
        self.send({"jsonrpc": "2.0", "id": message["id"], **answer})

    async def play(self, session_id: str, *lines: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """One turn of the scripted model."""
        return await self.finish(self.prompt(session_id, "\n".join(lines)))

    async def load(self, session_id: str) -> list[dict[str, Any]]:
        """Load a session, and return what was sent before the answer."""
        params = {"sessionId": session_id, "cwd": self.project, "mcpServers": []}
        updates, answer = await self.finish(self.ask("session/load", **params))
        assert "result" in answer, answer
        return updates

    async def start(self, **params: Any) -> str:
        """A new session, with the list of commands that follows it read."""
        _, answer = await self.finish(self.ask("session/new", cwd=self.project, **{"mcpServers": [], **params}))
        session_id: str = answer["result"]["sessionId"]
        return session_id

    def _serve(self, method: str, params: dict[str, Any]) -> object:
        match method:
            case "session/request_permission":
                kind = "reject_once" if self.refuses in params["toolCall"]["title"] else "allow_once"
                chosen = next(option["optionId"] for option in params["options"] if option["kind"] == kind)
                return {"outcome": {"outcome": "selected", "optionId": chosen}}
            case "fs/read_text_file":
                return {"content": Path(params["path"]).read_text()}
            case "fs/write_text_file":
                Path(params["path"]).write_text(params["content"])
                return {}
            case "terminal/create":
                command = [params["command"], *params.get("args", ())]
                done = subprocess.run(command, cwd=params.get("cwd"), capture_output=True, text=True, check=False)
                self._outputs[f"term_{len(self._outputs)}"] = done
                return {"terminalId": f"term_{len(self._outputs) - 1}"}
            case "terminal/output":
                done = self._outputs[params["terminalId"]]
                return {"output": done.stdout, "truncated": False, "exitStatus": {"exitCode": done.returncode}}
            case "terminal/wait_for_exit":
                return {"exitCode": self._outputs[params["terminalId"]].returncode}
            case "terminal/release" | "terminal/kill":
                return {}
            case "elicitation/create":
                (name,) = params["requestedSchema"]["properties"]
                return {"action": "accept", "content": {name: "this"}}
        raise AssertionError(f"{method}: this client did not announce it")


@asynccontextmanager
async def kind_client(
    service: Service, capabilities: dict[str, Any], *, refuses: str = "never"
) -> AsyncIterator[KindClient]:
    """A client that announces this, initialized."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(service.agent.serve(theirs))
    client = KindClient(ours, service, refuses)
    try:
        await client.result("initialize", protocolVersion=1, clientCapabilities=capabilities)
        yield client
    finally:
        ours.close()
        await serving
