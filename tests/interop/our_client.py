"""Our client for the SDKs' agents: services with real files and processes, and the recorder that judges our frames."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Unpack

import dragoman
from dragoman.client import ClientOptions, RemoteAgent, Session
from dragoman.schema import UNSET, v1
from tests.interop.support import agent_command
from tests.interop.wire_check import WireCheck

TEST_SECONDS = 60.0


@asynccontextmanager
async def agent_of(sdk: str, **options: Unpack[ClientOptions]) -> AsyncIterator[tuple[RemoteAgent, WireCheck]]:
    """Our client connected to this SDK's agent; afterwards everything we sent must have been valid."""
    check = WireCheck()
    options["name"], options["observers"] = "our-client", [check]
    async with asyncio.timeout(TEST_SECONDS):
        async with dragoman.spawn(*agent_command(sdk), **options) as agent:
            yield agent, check
    assert check.problems() == []


class DiskFiles:
    """The client's file system is the disk."""

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        return _window(request.path, request.line or 1, request.limit or None)

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        _write(request.path, request.content)


def _window(path: str, line: int, limit: int | None) -> str:
    if not Path(path).exists():
        raise dragoman.RequestError.not_found("No such file", {"path": path})
    lines = Path(path).read_text().splitlines(keepends=True)[line - 1 :]
    return "".join(lines[:limit])


def _write(path: str, text: str) -> None:
    Path(path).write_text(text)


class ProcessTerminals:
    """Terminals are child processes whose output nobody limits."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.subprocess.Process] = {}
        self.outputs: dict[str, str] = {}

    def _find(self, terminal_id: str) -> asyncio.subprocess.Process:
        if terminal_id not in self.running:
            raise dragoman.RequestError.not_found("No such terminal", {"terminalId": terminal_id})
        return self.running[terminal_id]

    async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str:
        variables = {variable.name: variable.value for variable in request.env or []}
        process = await asyncio.create_subprocess_exec(
            request.command,
            *(request.args or []),
            cwd=request.cwd or None,
            env={**os.environ, **variables},
            stdout=asyncio.subprocess.PIPE,
        )
        terminal_id = f"t-{process.pid}"
        self.running[terminal_id], self.outputs[terminal_id] = process, ""
        return terminal_id

    async def output(self, request: v1.TerminalOutputRequest, session: Session) -> v1.TerminalOutputResponse:
        code = self._find(request.terminal_id).returncode
        status = UNSET if code is None else _status(code)
        return v1.TerminalOutputResponse(self.outputs[request.terminal_id], False, exit_status=status)

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Session
    ) -> v1.WaitForTerminalExitResponse:
        process = self._find(request.terminal_id)
        output, _ = await process.communicate()
        self.outputs[request.terminal_id] += output.decode()
        status = _status(process.returncode or 0)
        return v1.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill(self, request: v1.KillTerminalRequest, session: Session) -> None:
        self._find(request.terminal_id).kill()

    async def release(self, request: v1.ReleaseTerminalRequest, session: Session) -> None:
        process = self._find(request.terminal_id)
        del self.running[request.terminal_id]
        if process.returncode is None:
            process.kill()
            await process.wait()


def _status(code: int) -> v1.TerminalExitStatus:
    return v1.TerminalExitStatus(exit_code=code) if code >= 0 else v1.TerminalExitStatus(signal=str(-code))


class Urls:
    """Opens URLs only, and remembers which were completed."""

    def __init__(self) -> None:
        self.urls: list[v1.ElicitationUrlMode] = []
        self.completed: list[str] = []

    async def url(self, request: v1.ElicitationUrlMode, session: Session | None) -> v1.AcceptElicitation:
        self.urls.append(request)
        return v1.AcceptElicitation()

    async def complete(self, elicitation_id: str) -> None:
        self.completed.append(elicitation_id)


FormAnswer = v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation


class FormsAndUrls(Urls):
    """Gives the prepared answers to forms, one after the other."""

    def __init__(self, *answers: FormAnswer) -> None:
        super().__init__()
        self.answers = list(answers)
        self.forms: list[v1.ElicitationFormMode] = []

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> FormAnswer:
        self.forms.append(request)
        return self.answers.pop(0)
