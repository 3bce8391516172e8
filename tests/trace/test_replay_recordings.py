"""Every recording of a real agent can be played to our own client, which folds what it gets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.client import RemoteAgent, Session, connect
from dragoman.errors import DragomanError
from dragoman.schema import decode, v1
from dragoman.trace import Replay, Trace, open_trace
from dragoman.transports.memory import memory_pair
from tests.trace.kit import RECORDINGS

pytestmark = pytest.mark.skipif(not RECORDINGS, reason="no recordings next to the project")


# What our client must warn about, because the agent is at fault. Nothing else these agents do causes a warning.
OWN_FAULTS = {
    "kimi152": ["kimi-cli is no longer maintained"],  # a sentence on stdout
    "openhands-noauth": ["Logging in to OpenHands Cloud"],
}


class Services:
    """Answers everything an agent may ask, without doing anything."""

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        return "text"

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        pass

    async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str:
        return "terminal"

    async def output(self, request: v1.TerminalOutputRequest, session: Session) -> v1.TerminalOutputResponse:
        return v1.TerminalOutputResponse("", False)

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Session
    ) -> v1.WaitForTerminalExitResponse:
        return v1.WaitForTerminalExitResponse(exit_code=0)

    async def kill(self, request: v1.KillTerminalRequest, session: Session) -> None:
        pass

    async def release(self, request: v1.ReleaseTerminalRequest, session: Session) -> None:
        pass


async def permit(request: v1.RequestPermissionRequest, session: Session) -> str:
    return request.options[0].option_id


class Driver:
    """Does with our client what the recorded client did."""

    def __init__(self, agent: RemoteAgent) -> None:
        self.agent = agent
        self.sessions: dict[str, Session] = {}
        self.turn: asyncio.Task[Any] | None = None

    async def follow(self, trace: Trace) -> None:
        asked = [msgspec.json.decode(frame.data) for frame in trace.frames if frame.dir == "c2a"]
        for number, message in enumerate(asked):
            is_cancelled = any(
                later.get("method") == "session/cancel" for later in asked[number + 1 : number + 3] if "id" not in later
            )
            try:
                async with asyncio.timeout(30):
                    await self._do(message.get("method"), message.get("params") or {}, is_cancelled)
            except DragomanError:
                continue  # what was recorded as an error, or what our client refuses to do

    async def _do(self, method: str | None, params: dict[str, Any], is_cancelled: bool) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        match method:
            case "session/new":
                self._opened(await self.agent.new_session(params["cwd"]))
            case "session/load" if session is None:
                self._opened(await self.agent.load_session(params["sessionId"], params["cwd"]))
            case "session/resume" if session is None:
                self._opened(await self.agent.resume_session(params["sessionId"], params["cwd"]))
            case "session/list":
                await self.agent.list_sessions()
            case "session/set_mode" if session is not None:
                await session.set_mode(params["modeId"])
            case "session/prompt" if session is not None and params.get("prompt"):
                turn = session.prompt(decode(list[v1.ContentBlock], msgspec.json.encode(params["prompt"])))
                async with turn:
                    if is_cancelled:
                        await turn.cancel()
                    await turn
            case str() if method not in ("initialize", "session/cancel"):
                # The recorded client did on purpose what ours does not.
                await self.agent._connection.peer.request(method, params, Any)

    def _opened(self, session: Session) -> None:
        self.sessions[session.id] = session


def spoken(trace: Trace, session_id: str) -> int:
    """How many characters of text the recorded agent sent in a session."""
    total = 0
    for frame in trace.frames:
        if b'"session/update"' in frame.data and frame.dir == "a2c":
            params = decode(v1.SessionNotification, msgspec.json.encode(msgspec.json.decode(frame.data)["params"]))
            chunk = params.update
            if params.session_id == session_id and isinstance(chunk, v1.AgentMessageChunk | v1.AgentThoughtChunk):
                total += len(chunk.content.text) if isinstance(chunk.content, v1.TextContent) else 0
    return total


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_recording_plays_to_our_client_and_folds(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING")
    trace = open_trace(path)
    ours, theirs = memory_pair()
    serving = asyncio.create_task(Replay(trace, patience_seconds=0.2).serve(theirs))
    driver = None
    try:
        async with connect(
            ours, permission=permit, files=Services(), terminals=Services(), unstable=True, initialize_seconds=5
        ) as agent:
            driver = Driver(agent)
            await driver.follow(trace)
    except DragomanError:
        assert path.stem == "kimi152"  # it printed a sentence instead of answering `initialize`
    await serving
    for session in driver.sessions.values() if driver else ():
        received = sum(len(message.text) for message in session.state.messages if message.role != "user")
        assert received == spoken(trace, session.id)
        assert not session.state.unknown
        assert not session.state.is_running
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == len(OWN_FAULTS.get(path.stem, ()))
    for warning, fault in zip(warnings, OWN_FAULTS.get(path.stem, ()), strict=True):
        assert fault in warning
