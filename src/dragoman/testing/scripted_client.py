"""A client without a user: it answers all requests of an agent by script, and keeps a log.

Owns services for the client role that need no screen: files in memory, real terminals, scripted answers. What an agent
writes can be read again, and the commands it runs really run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.agent.client import ClientError
from dragoman.agent.local_terminals import LocalTerminal
from dragoman.errors import RequestError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dragoman.client import ClientOptions, Session


class FilesInMemory:
    """Text files by absolute path, in memory only."""

    def __init__(self, files: dict[str, str] | None = None) -> None:
        self.files = files if files is not None else {}

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        if request.path not in self.files:
            raise RequestError.not_found("No such file", {"path": request.path})
        lines = self.files[request.path].splitlines(keepends=True)
        start = max(request.line or 1, 1) - 1
        end = None if request.limit is None or not isinstance(request.limit, int) else start + request.limit
        return "".join(lines[start:end])

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        self.files[request.path] = request.content


class RealTerminals:
    """Commands that really run, in the session's folder. `close` ends those that the agent did not release."""

    def __init__(self) -> None:
        self._running: dict[str, LocalTerminal] = {}

    async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str:
        env = {variable.name: variable.value for variable in request.env or ()}
        limit = request.output_byte_limit if isinstance(request.output_byte_limit, int) else None
        try:
            terminal = LocalTerminal.start(
                [request.command, *(request.args or ())], request.cwd or session.cwd, env, limit
            )
        except ClientError as error:
            raise RequestError(error.code, error.message, error.data) from error
        self._running[terminal.id] = terminal
        return terminal.id

    async def output(self, request: v1.TerminalOutputRequest, session: Session) -> v1.TerminalOutputResponse:
        return await self._find(request.terminal_id).output()

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Session
    ) -> v1.WaitForTerminalExitResponse:
        return await self._find(request.terminal_id).wait()

    async def kill(self, request: v1.KillTerminalRequest, session: Session) -> None:
        await self._find(request.terminal_id).kill()

    async def release(self, request: v1.ReleaseTerminalRequest, session: Session) -> None:
        terminal = self._find(request.terminal_id)
        del self._running[request.terminal_id]
        await terminal.release()

    async def close(self) -> None:
        """End and release all terminals."""
        while self._running:
            _, terminal = self._running.popitem()
            await terminal.release()

    def _find(self, terminal_id: str) -> LocalTerminal:
        if terminal_id not in self._running:
            raise RequestError.not_found("No such terminal", {"terminalId": terminal_id})
        return self._running[terminal_id]


class ScriptedAnswers:
    """Answers elicitations: forms with `content` (None declines), pages with accept."""

    def __init__(self, content: dict[str, Any] | None = None) -> None:
        self.content = content
        self.asked: list[v1.ElicitationFormMode | v1.ElicitationUrlMode] = []
        self.completed: list[str] = []

    async def form(
        self, request: v1.ElicitationFormMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        self.asked.append(request)
        return v1.DeclineElicitation() if self.content is None else v1.AcceptElicitation(self.content)

    async def url(
        self, request: v1.ElicitationUrlMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        self.asked.append(request)
        return v1.AcceptElicitation()

    async def complete(self, elicitation_id: str) -> None:
        self.completed.append(elicitation_id)


class ScriptedClient:
    """All services at once, for `connect`, `spawn` or `linked`: `linked(agent, **client.options())`.

    Args:
        permissions: The kinds of option to choose, one for each request; the last one is used for all further
            requests. A kind that is not offered, or "cancel", answers `cancelled`.
        files: The files of the client, by absolute path.
        form: The content that forms are answered with; None declines.
    """

    def __init__(
        self,
        *,
        permissions: Iterable[str] = ("allow_once",),
        files: dict[str, str] | None = None,
        form: dict[str, Any] | None = None,
    ) -> None:
        self.permissions = list(permissions)
        self.files = FilesInMemory(files)
        self.terminals = RealTerminals()
        self.answers = ScriptedAnswers(form)
        self.asked: list[v1.RequestPermissionRequest] = []

    def options(self) -> ClientOptions:
        """Return the arguments for `connect`."""
        return {
            "name": "dragoman-scripted-client",
            "permission": self.permit,
            "files": self.files,
            "terminals": self.terminals,
            "elicitation": self.answers,
            "extensions": {"_scripted/ping": self.ping},
        }

    async def permit(self, request: v1.RequestPermissionRequest, session: Session) -> str | None:
        """Choose the first option of the kind that is next in the script."""
        self.asked.append(request)
        kind = self.permissions.pop(0) if len(self.permissions) > 1 else self.permissions[0]
        return next((option.option_id for option in request.options if option.kind == kind), None)

    async def ping(self, params: Any) -> Any:
        """Answer an extension method with its parameters."""
        return params

    async def close(self) -> None:
        """End the commands that are still running in a terminal."""
        await self.terminals.close()
