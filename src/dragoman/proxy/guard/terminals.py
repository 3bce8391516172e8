"""Answers `terminal/create`: by the editor if it offers terminals, so that the user sees them, else on this machine.

With a sandbox the command runs here, because the editor would run it outside. Owns that choice, and what the editor is
shown of a command that runs here: it does not know the terminal, so its output becomes text in the tool call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.client.terminals import LocalTerminals
from dragoman.errors import RequestError
from dragoman.schema import decode, encode, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dragoman.client.services import ChecksConfined
    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.process.sandbox.confinement import Confinement
    from dragoman.proxy.guard.permissions import AsksEditor
    from dragoman.proxy.guard.session import GuardedSession
    from dragoman.workspace import Change

_SHOWN_CHARACTERS: Final = 20_000  # of a command's output; the agent gets all of it


class _Permitted(Exception):  # not an error: the check ended well, and the editor runs the command
    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class _ForEditor:
    """Checks a command like any other, and stops before it is started here."""

    def __init__(self, permissions: ChecksConfined) -> None:
        self._permissions = permissions

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        await self._permissions.check(request, session, change=change, env=env)
        raise _Permitted(request)


class StartedCommand(msgspec.Struct, frozen=True):
    """A command that was started for the agent. `sandbox` is its backend, None for outside."""

    terminal_id: str
    command: str
    cwd: str
    is_by_editor: bool = False
    sandbox: str | None = None


class GuardedTerminals:
    """Commands that are run for the agent.

    Args:
        permissions: checked before a command is started.
        editor: reaches the editor.
        confinement: the sandbox, and the comparison of protected files.
        on_started: called with each command.
    """

    def __init__(
        self,
        *,
        permissions: ChecksConfined,
        editor: AsksEditor,
        confinement: Confinement,
        on_started: Callable[[StartedCommand, GuardedSession], None],
    ) -> None:
        self.is_offered_by_editor = False
        self._editor = editor
        self._on_started = on_started
        self._has_sandbox = confinement.sandbox is not None
        self.local = LocalTerminals(permissions=permissions, confinement=confinement)
        self._judged = LocalTerminals(permissions=_ForEditor(permissions))
        self._shown: dict[str, _ShownOutput] = {}

    @property
    def run_here(self) -> bool:
        """Whether commands run on this machine, and not in the editor's terminals."""
        return self._has_sandbox or not self.is_offered_by_editor

    async def create(self, request: v1.CreateTerminalRequest, session: GuardedSession) -> bytes:
        """Start a command, and return the encoded result of `terminal/create`."""
        if isinstance(request.cwd, str) and not request.cwd.startswith("/"):
            raise RequestError.invalid_params("The path must be absolute", path="$.cwd")
        if not self.run_here:
            return await self._create_in_editor(request, session)
        terminal_id = await self.local.create(request, session)
        look = self.local.look(terminal_id)
        if look is not None:
            self._on_started(StartedCommand(terminal_id, look.command, look.cwd, sandbox=look.sandbox), session)
        return encode(v1.CreateTerminalResponse(terminal_id))

    async def _create_in_editor(self, request: v1.CreateTerminalRequest, session: GuardedSession) -> bytes:
        try:
            await self._judged.create(request, session)
        except _Permitted as permitted:
            judged = permitted.request
        # Written again, so that the editor cannot read another command in it than the one that was judged.
        result = bytes(await self._editor.ask_editor("terminal/create", encode(request), for_agent=True))
        terminal_id = decode(v1.CreateTerminalResponse, result).terminal_id
        session.note_editor_terminal(terminal_id)
        cwd = request.cwd if isinstance(request.cwd, str) else session.cwd
        self._on_started(StartedCommand(terminal_id, judged.title, cwd, is_by_editor=True), session)
        return result

    def replaced(self, line: bytes) -> bytes:
        """Return an update of a tool call, with text in the place of each terminal that only the guard knows."""
        frame: Any = msgspec.json.decode(line)
        params = frame["params"]
        update, content = params["update"], params["update"].get("content")
        shown, terminals = self._as_shown(content)
        if not terminals:
            return line
        for terminal_id in terminals:
            self._shown[terminal_id] = _ShownOutput(params["sessionId"], update.get("toolCallId"), content)
        update["content"] = shown
        return msgspec.json.encode(frame)

    def finished(self, terminal_id: str, session: GuardedSession) -> None:
        """Show the whole output of a command that has ended."""
        shown = self._shown.pop(terminal_id, None)
        if shown is None or not isinstance(shown.call, str) or shown.session != session.id:
            return
        content, _ = self._as_shown(shown.content)
        update = {"sessionUpdate": "tool_call_update", "toolCallId": shown.call, "content": content}
        self._editor.send_update(session, update)

    def _as_shown(self, content: object) -> tuple[list[Any], list[str]]:
        """Return the content of a tool call for the editor, and the terminals that were replaced."""
        shown: list[Any] = []
        terminals: list[str] = []
        for item in content if isinstance(content, list) else ():
            terminal_id = item.get("terminalId") if isinstance(item, dict) and item.get("type") == "terminal" else None
            look = self.local.look(terminal_id) if isinstance(terminal_id, str) else None
            shown.append(item if look is None else _as_text(look.command, look.text))
            if look is not None:
                terminals.append(look.terminal_id)
        return shown, terminals

    def end_session(self, session: GuardedSession) -> Any:
        """End the session's terminals; the returned coroutine waits until they are gone."""
        return self.local.end_session(session)

    async def close(self) -> None:
        """End all terminals."""
        await self.local.close()


class _ShownOutput(msgspec.Struct, frozen=True):
    session: Any
    call: Any
    content: Any


def _as_text(command: str, output: str) -> dict[str, Any]:
    if len(output) > _SHOWN_CHARACTERS:
        output = "[...]\n" + output[-_SHOWN_CHARACTERS:]
    fence = "```"
    while fence in output:
        fence += "`"
    text = f"{fence}console\n$ {command}\n{output.rstrip()}\n{fence}"
    return {"type": "content", "content": {"type": "text", "text": text}}
