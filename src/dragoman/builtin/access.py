"""File, command and question access for tools: through the ACP client if it offers the service, otherwise local.

Owns that choice, the same for every tool: files below the session's folders are read and written through the client,
because it has the unsaved changes; all other files are local. Permission was checked before.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import stat
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from dragoman.agent import ClientError
from dragoman.builtin.command_guard import safe_environment
from dragoman.builtin.placement import OUTSIDE, Placement
from dragoman.builtin.tools.tool import CommandResult, NoFormError, QuestionCancelled, ToolError
from dragoman.errors import ConnectionClosed, DragomanError, StoreError
from dragoman.schema import v1
from dragoman.workspace import FileLimits, Workspace, WorkspaceError
from dragoman.workspace.atomic import replace_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from dragoman.agent import AgentSession, Turn
    from dragoman.builtin.command_guard import CommandGuard
    from dragoman.builtin.tools.tool import AnswerChoice
    from dragoman.builtin.viewer import Viewer
    from dragoman.process.sandbox import Confined, ProtectedChange
    from dragoman.process.terminal import Terminal

_log = logging.getLogger("dragoman.builtin")
T = TypeVar("T")
_Content = TypeVar("_Content", str, bytes)
_MISSING: Final = -32002
_LARGEST_BYTES: Final = 10 * 1024 * 1024  # the limit of `workspace`, applied to files outside its folders too
# Changes are not reviewed here, so no old content is kept.
_NO_JOURNAL: Final = FileLimits(journal_bytes=0)
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash")
# Of a job, the end of its output is needed here for what the sandbox kept from it; the tool keeps the output.
_JOB_TEXT_BYTES: Final = 64 * 1024
_JOB_TERM_SECONDS: Final = 2.0
# Output of a running command is shown at most this often.
_SHOW_SECONDS: Final = 0.25


class LocalAccess:
    """Local files and commands. Questions are refused: there is no user to ask."""

    def __init__(self, roots: Sequence[str], guard: CommandGuard | None = None) -> None:
        """Args:
        guard: the sandbox and the tripwire; without it every command runs outside, and nothing is compared.
        """
        self.guard = guard
        self._roots = tuple(roots)
        self._workspace: Workspace | None = None

    async def read_text(self, path: str) -> str:
        return await asyncio.to_thread(self._explained, self._read, path)

    async def read_bytes(self, path: str) -> bytes:
        return await asyncio.to_thread(self._explained, self._read_bytes, path)

    async def write_text(self, path: str, text: str) -> None:
        await asyncio.to_thread(self._write, path, text)
        await self.note_written(path)

    async def note_written(self, path: str) -> None:
        """Take note of a permitted change, which must not count as one of a command that runs meanwhile."""
        if self.guard is not None:
            await self.guard.note_written(path)

    async def delete(self, path: str) -> None:
        await asyncio.to_thread(self._delete, path)

    async def run(
        self,
        line: str,
        *,
        cwd: str,
        timeout_seconds: float,
        limit_bytes: int,
        placement: Placement = OUTSIDE,
        local_line: str | None = None,
        on_start: Callable[[str], Awaitable[None]] | None = None,
        on_output: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:
        """Run a child process on pipes, not on a terminal: a model has no use for colours."""
        async with self.watch(placement) as changes:
            has_output = asyncio.Event()
            terminal, confined = await self._start(
                local_line or line, cwd, limit_bytes, placement, lambda data: has_output.set()
            )
            result = await _finish(terminal, timeout_seconds, has_output, on_output)
        return replace(await self._judged(result, confined), changes=tuple(changes))

    async def start(
        self,
        line: str,
        *,
        cwd: str,
        timeout_seconds: float,
        placement: Placement = OUTSIDE,
        on_output: Callable[[bytes], None],
    ) -> LocalCommand:
        """Start a command that may outlive the turn."""
        stack = AsyncExitStack()
        changes = await stack.enter_async_context(self.watch(placement))
        try:
            terminal, confined = await self._start(
                line, cwd, _JOB_TEXT_BYTES, placement, on_output, term_seconds=_JOB_TERM_SECONDS
            )
        except BaseException:
            await stack.aclose()
            raise

        async def end() -> CommandResult:
            async with stack:
                result = await _finish(terminal, timeout_seconds, asyncio.Event(), None)
            return replace(await self._judged(result, confined), changes=tuple(changes))

        return LocalCommand(terminal, asyncio.create_task(end(), name=f"dragoman-job-{terminal.pid}"))

    async def _judged(self, result: CommandResult, confined: Confined | None) -> CommandResult:
        """Return the result with what the sandbox kept from the command. Call it after the files were compared."""
        if confined is None or self.guard is None or self.guard.sandbox is None:
            return result
        denials = tuple(await asyncio.to_thread(confined.denials, result.text))
        return replace(result, sandbox=self.guard.sandbox.backend, denials=denials)

    @asynccontextmanager
    async def watch(self, placement: Placement) -> AsyncIterator[list[ProtectedChange]]:
        """Compare protected files around a command; the list is filled when the block ends."""
        if self.guard is None:
            yield []
            return
        async with self.guard.watch(placement) as changes:
            yield changes

    async def _start(
        self,
        line: str,
        cwd: str,
        limit_bytes: int,
        placement: Placement,
        on_output: Callable[[bytes], None],
        *,
        term_seconds: float | None = None,
    ) -> tuple[Terminal, Confined | None]:
        from dragoman.process.child import Patience
        from dragoman.process.command import child_environment
        from dragoman.process.terminal import Terminal

        shell = find_shell()
        # The name at the start of the shell's errors, instead of its path: that is not a file the command is about.
        argv, env = [shell, "-c", line, os.path.basename(shell)], child_environment({})
        common: dict[str, Any] = {"pty": False, "limit_bytes": limit_bytes, "on_output": on_output}
        if term_seconds is not None:
            common["patience"] = Patience(0.0, term_seconds)
        try:
            if placement.where == "sandbox":
                if self.guard is None or self.guard.sandbox is None:
                    raise ToolError("there is no sandbox for this command here; it was not run")
                confined = await asyncio.to_thread(self.guard.sandbox.confine, argv, cwd=cwd, env=env)
                starting = Terminal.start(
                    confined.argv, cwd=confined.cwd, env=confined.env, starter=confined.starter, **common
                )
                return starting, confined
            if placement.where == "safe":
                env = safe_environment()
            if self.guard is not None and self.guard.outside is not None:
                closed = await asyncio.to_thread(self.guard.outside.confine, argv, cwd=cwd, env=env)
                return Terminal.start(
                    closed.argv, cwd=closed.cwd, env=closed.env, starter=closed.starter, **common
                ), None
            return Terminal.start(argv, cwd=cwd, env=env, **common), None
        except ToolError:
            raise
        except DragomanError as error:
            raise ToolError(f"the command could not be started: {error}") from error

    async def ask(
        self, question: str, choices: Sequence[AnswerChoice], *, is_multiple: bool = False
    ) -> list[str] | None:
        raise ToolError("no user can be asked here; decide by yourself and state what you assumed")

    async def edit_text(self, question: str, text: str) -> str | None:
        raise ToolError("no user can be asked here; go on with the text as it is")

    def workspace_of(self, path: str) -> Workspace | None:
        """Return the workspace of the session's folders, if the path is below one of them; None outside."""
        if self._workspace is None:
            try:
                self._workspace = Workspace(self._roots, limits=_NO_JOURNAL)
            except WorkspaceError as error:
                raise ToolError(str(error)) from error
        try:
            self._workspace.locate(path)
        except WorkspaceError:
            return None
        return self._workspace

    def _read(self, path: str) -> str:
        workspace = self.workspace_of(path)
        return _text_of(path, _read_outside(path)) if workspace is None else workspace.read_text(path)

    def _read_bytes(self, path: str) -> bytes:
        workspace = self.workspace_of(path)
        return _read_outside(path) if workspace is None else workspace.open_text(path).read_bytes()

    def _explained(self, read: Callable[[str], _Content], path: str) -> _Content:
        """Return the result of a read, with errors that the model can read."""
        try:
            return read(path)
        except WorkspaceError as error:
            if error.kind == "missing":
                raise FileNotFoundError(path) from error
            raise ToolError(str(error)) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ToolError(f"{path} cannot be read: {error.strerror or error}") from error

    def _write(self, path: str, text: str) -> None:
        workspace = self.workspace_of(path)
        try:
            if workspace is None:
                _write_outside(path, text)
            else:
                workspace.write_text(path, text)
        except WorkspaceError as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(f"{path} cannot be written: {error.strerror or error}") from error

    def _delete(self, path: str) -> None:
        workspace = self.workspace_of(path)
        try:
            if workspace is None:
                os.unlink(path)
            else:
                workspace.put(path, None, expected=workspace.content(path), label="")
        except WorkspaceError as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(f"{path} cannot be deleted: {error.strerror or error}") from error


class LocalCommand:
    """A local command in the background."""

    def __init__(self, terminal: Terminal, ending: asyncio.Task[CommandResult]) -> None:
        self._terminal = terminal
        self._ending = ending

    async def wait(self) -> CommandResult:
        return await asyncio.shield(self._ending)

    async def stop(self) -> None:
        await self._terminal.kill()
        await asyncio.wait({self._ending})


class ClientAccess:
    """Files, terminals and questions of the client during one turn; `local` serves what the client does not offer."""

    def __init__(
        self,
        turn: Turn,
        local: LocalAccess,
        viewer: Viewer | None = None,
    ) -> None:
        """Args:
        viewer: the client of an open session; another one may take the session over during the turn.
        """
        client = turn.session.client
        self._turn = turn
        self._local = local
        self._viewer = viewer
        settings = None if viewer is None else viewer.open_session.settings
        uses_files = settings is None or settings.uses_client_files
        self._reads = uses_files and client.offers("fs.readTextFile")
        self._writes = uses_files and client.offers("fs.writeTextFile")
        self._runs = (settings is None or settings.uses_client_terminals) and client.offers("terminal")

    @property
    def _is_gone(self) -> bool:
        """Whether the client has left or lost its session; the turn goes on with local files and commands."""
        return not self._turn.session.client.is_connected or (self._viewer is not None and self._viewer.is_replaced)

    async def read_text(self, path: str) -> str:
        if not self._reads or self._is_gone or self._local.workspace_of(path) is None:
            return await self._local.read_text(path)
        await self._settled()
        try:
            return await self._turn.read_file(path)
        except ClientError as error:
            # Some clients have no error code of their own for a missing file.
            if error.code == _MISSING or not os.path.lexists(path):  # noqa: ASYNC240 - one look, after an error
                raise FileNotFoundError(path) from error
            raise ToolError(f"the editor cannot read {path}: {error.message}") from error

    async def read_bytes(self, path: str) -> bytes:
        """Read it from the disk: a client gives texts only."""
        return await self._local.read_bytes(path)

    async def write_text(self, path: str, text: str) -> None:
        if not self._writes or self._is_gone or self._local.workspace_of(path) is None:
            await self._local.write_text(path, text)
            return
        await self._settled()
        try:
            await self._turn.write_file(path, text)
        except ClientError as error:
            raise ToolError(f"the editor cannot write {path}: {error.message}") from error
        await self._local.note_written(path)

    async def delete(self, path: str) -> None:
        """Delete it locally: the protocol has no such request, and editors notice that a file is gone."""
        await self._local.delete(path)

    async def run(
        self,
        line: str,
        *,
        cwd: str,
        timeout_seconds: float,
        limit_bytes: int,
        placement: Placement = OUTSIDE,
        local_line: str | None = None,
        on_start: Callable[[str], Awaitable[None]] | None = None,
        on_output: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:
        if placement.where != "outside" or not self._runs or self._is_gone:
            # The client's terminal has an environment that can only be added to, and cannot be confined.
            return await self._local.run(
                line,
                cwd=cwd,
                timeout_seconds=timeout_seconds,
                limit_bytes=limit_bytes,
                placement=placement,
                local_line=local_line,
                on_output=on_output,
            )
        async with self._local.watch(placement) as changes:
            result = await self._run_there(line, cwd, timeout_seconds, limit_bytes, on_start)
        return replace(result, changes=tuple(changes))

    async def start(
        self,
        line: str,
        *,
        cwd: str,
        timeout_seconds: float,
        placement: Placement = OUTSIDE,
        on_output: Callable[[bytes], None],
    ) -> LocalCommand:
        """Start it locally: a terminal of the client ends with the turn."""
        return await self._local.start(
            line, cwd=cwd, timeout_seconds=timeout_seconds, placement=placement, on_output=on_output
        )

    async def _run_there(
        self,
        line: str,
        cwd: str,
        timeout_seconds: float,
        limit_bytes: int,
        on_start: Callable[[str], Awaitable[None]] | None,
    ) -> CommandResult:
        """Run a command in the client's terminal."""
        timed_out = False
        await self._settled()
        try:
            shell = find_shell()
            async with self._turn.terminal(shell, ["-c", line], cwd=cwd, output_byte_limit=limit_bytes) as terminal:
                try:
                    if on_start is not None:
                        await on_start(terminal.id)
                        await self._settled()
                    try:
                        async with asyncio.timeout(timeout_seconds):
                            ended = await terminal.wait()
                    except TimeoutError:
                        timed_out = True
                        await terminal.kill()
                        ended = await terminal.wait()
                    output = await terminal.output()
                finally:  # also if it is cancelled: a terminal that is released before it is shown shows nothing
                    with suppress(StoreError):
                        await self._settled()
                code = ended.exit_code if isinstance(ended.exit_code, int) else None
                signal = ended.signal if isinstance(ended.signal, str) else None
                return CommandResult(output.output, code, signal, output.truncated, timed_out, terminal.id)
        except ClientError as error:
            raise ToolError(f"the editor's terminal cannot run this: {error.message}") from error

    async def ask(
        self, question: str, choices: Sequence[AnswerChoice], *, is_multiple: bool = False
    ) -> list[str] | None:
        # A permission request would be the only other way, and rules of the user answer those: `--allow '*'` would
        # choose the first answer in the user's name.

        return await self._fill_in(
            lambda session: ask_by_form(session, question, choices, is_multiple=is_multiple),
            "this client cannot show a form; the question has to be asked in words",
        )

    async def edit_text(self, question: str, text: str) -> str | None:

        return await self._fill_in(
            lambda session: edit_by_form(session, question, text),
            "this client cannot show a form; the text has to be edited elsewhere",
        )

    async def _fill_in(self, show: Callable[[AgentSession], Awaitable[T]], otherwise: str) -> T:
        """Show a form to the session's client, also if that is no longer the one that sent the prompt.

        Raises: NoFormError with `otherwise` if it has left or shows no forms.
        """

        async def ask(asked: Viewer | Turn) -> T:
            if not asked.session.client.offers("elicitation.form"):
                raise NoFormError(otherwise)
            await asked.session.wait_until_open()
            return await show(asked.session)

        await self._settled()
        try:
            return await (ask(self._turn) if self._viewer is None else self._viewer.open_session.ask_client(ask))
        except ConnectionClosed as error:
            raise NoFormError(otherwise) from error

    async def _settled(self) -> None:
        """Return when the client was shown everything so far: it must know the call that a request belongs to."""
        if self._viewer is not None:
            await self._viewer.open_session.settle()


@cache
def find_shell() -> str:
    """Return the shell of commands: bash, for which models write them, or sh where there is none.

    It is looked for in the folders of the system only: a project on the PATH could bring one along.
    """
    for path in _SHELLS:
        if os.access(path, os.X_OK):
            return path
    return "sh"


async def _finish(
    terminal: Terminal,
    timeout_seconds: float,
    has_output: asyncio.Event,
    on_output: Callable[[str], Awaitable[None]] | None,
) -> CommandResult:
    """Wait for the end of a command, at most so long, and show its output meanwhile."""
    timed_out = False
    showing = asyncio.create_task(_show(terminal.read, has_output, on_output)) if on_output is not None else None
    try:
        try:
            async with asyncio.timeout(timeout_seconds):
                await terminal.wait()
        except TimeoutError:
            timed_out = True
            await terminal.kill()
        text, is_truncated = terminal.read()
        return CommandResult(text, terminal.exit_code, terminal.signal, is_truncated, timed_out)
    finally:
        if showing is not None:
            showing.cancel()
        await terminal.release()


async def _show(
    read: Callable[[], tuple[str, bool]], has_output: asyncio.Event, show: Callable[[str], Awaitable[None]]
) -> None:
    """Pass on the output of a command, a few times a second."""
    while True:
        await has_output.wait()
        has_output.clear()
        await show(read()[0])
        await asyncio.sleep(_SHOW_SECONDS)


def _read_outside(path: str) -> bytes:
    """Read a file outside the session's folders, which the user or a rule permitted."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"{path} is not a regular file")
        if status.st_size > _LARGEST_BYTES:
            raise ToolError(f"{path} has {status.st_size} bytes, more than the {_LARGEST_BYTES} that are read at once")
        return file.read()


def _text_of(path: str, data: bytes) -> str:
    if b"\0" in data:
        raise ToolError(f"{path} is binary, not text")
    try:
        return codecs.decode(data, "utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text") from None


def _write_outside(path: str, text: str) -> None:
    """Write a file that a user or a rule has let the agent write; a link is followed, and its target changes."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace_file(path, text.encode())


async def ask_by_form(
    session: AgentSession, question: str, choices: Sequence[AnswerChoice], *, is_multiple: bool
) -> list[str] | None:
    """Return the user's answer; None if they declined. Raises: ToolError, QuestionCancelled."""
    options = [v1.EnumOption(choice.label, choice.label, choice.description or UNSET) for choice in choices]
    answer: v1.ElicitationPropertySchema
    if not options:
        answer = v1.StringPropertySchema(title="Answer", min_length=1)
    elif is_multiple:
        answer = v1.MultiSelectPropertySchema(v1.TitledMultiSelectItems(options), title="Answer")
    else:
        answer = v1.StringPropertySchema(title="Answer", one_of=options)
    filled_in = await _filled_in(session, question, answer)
    if filled_in is None:
        return None
    return [str(choice) for choice in filled_in] if isinstance(filled_in, (list, tuple)) else [str(filled_in)]


async def edit_by_form(session: AgentSession, question: str, text: str) -> str | None:
    """Return a text as the user changed it; None if they declined or cancelled. Raises: ToolError."""
    try:
        edited = await _filled_in(session, question, v1.StringPropertySchema(title="Text", default=text, min_length=1))
    except QuestionCancelled:
        return None
    return edited if isinstance(edited, str) else None


async def _filled_in(session: AgentSession, question: str, answer: v1.ElicitationPropertySchema) -> object:
    schema = v1.ElicitationSchema(properties={"answer": answer}, required=["answer"])
    try:
        reply = await session.elicit(question, schema)
    except ClientError as error:
        raise ToolError(f"the question could not be asked: {error.message}") from error
    if isinstance(reply, v1.CancelElicitation):
        from dragoman.policy.decide import NO_USER

        own = reply.meta.get("dragoman") if isinstance(reply.meta, dict) else None
        if isinstance(own, dict) and own.get("decidedBy") == NO_USER:  # a host of which no client can show it
            raise NoFormError(f"the question could not be asked: {own.get('reason')}")
        raise QuestionCancelled("the user cancelled the question")
    if not isinstance(reply, v1.AcceptElicitation) or not reply.content:
        return None
    return reply.content.get("answer")
