"""A client on this library that does everything a client may do, once, and leaves.

`our_client.py [--bare] [--cwd FOLDER] AGENT...` is judged by `dragoman check client`; the tests run `converse` in their
own process too. It plays the user: it continues the last session, tries a setting, allows everything but deletions,
fills in forms. With --bare it offers nothing and asks for nothing but an answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman import DragomanError, RequestError, spawn
from dragoman.conformance.agent.services import filled
from dragoman.schema import Unknown, encode, v1
from dragoman.testing import RealTerminals, ScriptedAnswers

if TYPE_CHECKING:
    from dragoman.client import ClientOptions, RemoteAgent, Session

AUTH_REQUIRED = -32000
NOT_FOUND = -32002


class FilesBelow:
    """The files of a session: below its folder, lines counted from one."""

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        try:
            lines = self._find(request.path, session).read_text().splitlines(keepends=True)
        except OSError:
            raise RequestError.not_found("No such file", {"path": request.path}) from None
        start = max(request.line or 1, 1) - 1
        return "".join(lines[start : start + request.limit if isinstance(request.limit, int) else None])

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        path = self._find(request.path, session)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(request.content)

    def _find(self, path: str, session: Session) -> Path:
        found = Path(os.path.realpath(path))
        if not found.is_relative_to(os.path.realpath(session.cwd)):
            raise RequestError.invalid_params("The path is outside of the session", path="$.path")
        return found


class Answers(ScriptedAnswers):
    """Accepts what was suggested in a form; declines what it could not show."""

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> Any:
        fields = request.requested_schema.properties or {}
        if any(isinstance(field, Unknown) for field in fields.values()):
            return v1.DeclineElicitation()
        return v1.AcceptElicitation(filled(msgspec.json.decode(encode(request.requested_schema))))


async def permit(request: v1.RequestPermissionRequest, session: Session) -> str | None:
    """Allows once; for a deletion it waits for a user who never answers."""
    if request.tool_call.kind == "delete":
        await asyncio.get_running_loop().create_future()
    return next((option.option_id for option in request.options if option.kind == "allow_once"), None)


def options(terminals: RealTerminals) -> ClientOptions:
    """Every service there is."""
    return {"permission": permit, "files": FilesBelow(), "terminals": terminals, "elicitation": Answers()}


async def converse(agent: RemoteAgent, cwd: Path, interrupted: asyncio.Event) -> None:
    """One conversation from the first session to the last goodbye."""
    session = await _logged_in(agent, cwd)
    await _try_a_setting(session)
    await _prompt(session, _everything(agent), interrupted)
    offered = agent.capabilities.session_capabilities
    if offered and offered.close:
        await session.close()
    if offered and offered.delete:
        with suppress(RequestError):
            await agent.delete_session(session.id)
    auth = agent.capabilities.auth
    if auth and auth.logout:
        await agent.logout()


async def converse_plainly(agent: RemoteAgent, cwd: Path, interrupted: asyncio.Event) -> None:
    """The least a client does."""
    await _prompt(await agent.new_session(cwd), v1.TextContent("Hello"), interrupted)


async def _prompt(session: Session, prompt: Any, interrupted: asyncio.Event) -> None:
    async with session.prompt(prompt) as turn:
        waiting = asyncio.ensure_future(interrupted.wait())
        answered = asyncio.ensure_future(_result(turn))
        try:
            await asyncio.wait({waiting, answered}, return_when=asyncio.FIRST_COMPLETED)
            if interrupted.is_set():
                await turn.cancel()
            await answered
        finally:
            waiting.cancel()


async def _result(turn: Any) -> None:
    async for _ in turn:
        pass
    await turn


async def _logged_in(agent: RemoteAgent, cwd: Path) -> Session:
    try:
        return await _open(agent, cwd)
    except RequestError as error:
        if error.code != AUTH_REQUIRED:
            raise
    methods = [method for method in agent.auth_methods if isinstance(method, v1.AuthMethodAgent)]
    if not methods:
        raise DragomanError("the agent wants a login this client cannot do")
    await agent.authenticate(methods[0].id)
    return await _open(agent, cwd)


async def _open(agent: RemoteAgent, cwd: Path) -> Session:
    offered = agent.capabilities.session_capabilities
    more: dict[str, Any] = {"mcp_servers": _servers(agent)}
    if offered and offered.additional_directories:
        more["additional_directories"] = [cwd]
    last = None
    if offered and offered.list:
        async for each in agent.sessions(cwd=cwd):
            last = last or each
    if last is not None and agent.capabilities.load_session is True:
        return await agent.load_session(last.session_id, cwd, **more)
    if last is not None and offered and offered.resume:
        return await agent.resume_session(last.session_id, cwd, **more)
    return await agent.new_session(cwd, **more)


def _servers(agent: RemoteAgent) -> list[v1.McpServer]:
    taken = agent.capabilities.mcp_capabilities
    servers: list[v1.McpServer] = [v1.McpServerStdio("notes", "/bin/cat", [], [v1.EnvVariable("NOTES", "1")])]
    if taken and taken.http is True:
        servers.append(v1.McpServerHttp("web", "http://127.0.0.1:9/mcp", [v1.HttpHeader("X-Key", "1")]))
    if taken and taken.sse is True:
        servers.append(v1.McpServerSse("events", "http://127.0.0.1:9/sse", []))
    return servers


async def _try_a_setting(session: Session) -> None:
    known = [option for option in session.state.config_options if isinstance(option, v1.SessionConfigBoolean)]
    if known:
        await session.set_config_option(known[0].id, not known[0].current_value)
    elif not session.state.config_options and session.state.modes:
        await session.set_mode(session.state.modes.available_modes[-1].id)


def _everything(agent: RemoteAgent) -> list[v1.ContentBlock]:
    taken = agent.capabilities.prompt_capabilities
    blocks: list[v1.ContentBlock] = [v1.TextContent("Hello"), v1.ResourceLink("notes.txt", "file:///notes.txt")]
    if taken and taken.image is True:
        blocks.append(v1.ImageContent("aGVsbG8=", "image/png"))
    if taken and taken.audio is True:
        blocks.append(v1.AudioContent("aGVsbG8=", "audio/wav"))
    if taken and taken.embedded_context is True:
        blocks.append(v1.EmbeddedResource(v1.TextResourceContents("hello", "file:///notes.txt")))
    return blocks


async def main(words: list[str]) -> int:
    logging.basicConfig(level=logging.ERROR)
    is_bare = words[:1] == ["--bare"]
    words = words[is_bare:]
    cwd = Path.cwd()
    if words[:1] == ["--cwd"]:
        cwd, words = Path(words[1]), words[2:]
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    terminals = RealTerminals()
    try:
        async with spawn(*words, **({} if is_bare else options(terminals))) as agent:
            await (converse_plainly if is_bare else converse)(agent, cwd, interrupted)
    except DragomanError as error:
        sys.stderr.write(f"our_client: {type(error).__name__}: {error}\n")
        return 1
    finally:
        await terminals.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
