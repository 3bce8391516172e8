"""The service for `terminal/*`, which runs an agent's commands on this machine.

Owns which session may use which terminal, how many there may be, and that none outlives its session. `permissions` are
checked before a command is started; a `confinement` runs it in a sandbox and compares protected files afterwards. How
it runs belongs to `dragoman.process`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
from typing import TYPE_CHECKING, Final

from msgspec import Struct, UnsetType

from dragoman.boundary import boundary_of
from dragoman.client.services import ChecksConfined
from dragoman.errors import ConfigError, DragomanError, RequestError
from dragoman.process.command import child_environment, resolve_command
from dragoman.process.sandbox.confinement import Confinement, FinishedCommand
from dragoman.process.terminal import CEILING_BYTES, COLUMNS, ROWS, Terminal
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
    from typing import Any

    from dragoman.client.services import ChecksPermission
    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.process.sandbox import Confined
    from dragoman.process.sandbox.apart import ApartCommand
    from dragoman.process.sweep import Spare

_log = logging.getLogger("dragoman.client")

MOST_TERMINALS: Final = 64  # of one session: a descriptor and a process each, and no agent seen uses more than three
_REMEMBERED: Final = 256  # released terminals that can still be looked at, each with the last
_REMEMBERED_BYTES: Final = 64 << 10
# Variables that change how output looks, never what runs. A command with others is judged with them in front of it.
_HARMLESS: Final = re.compile(
    r"(CI|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLORTERM|TERM|COLUMNS|LINES|TZ|LANG|LANGUAGE|LC_[A-Z]+"
    r"|PYTHONUNBUFFERED|GIT_TERMINAL_PROMPT)=[\w.:+/@-]*|(GIT_|MAN)?PAGER=(cat)?|SHELL=/(usr/)?bin/(ba|da|z)?sh"
)


class Look(Struct, frozen=True):
    """What a terminal shows at one moment.

    `command` is the line as a user would type it. `sandbox` is the backend that it runs in, None for outside.
    """

    terminal_id: str
    session_id: str
    command: str
    cwd: str
    text: str
    is_truncated: bool
    is_running: bool
    is_released: bool
    exit_code: int | None
    signal: str | None
    sandbox: str | None = None


class _Command(Struct, frozen=True):
    """A command that is about to be started. `is_inside`: in the sandbox."""

    argv: list[str]
    line: str
    cwd: str
    env: dict[str, str]
    added: dict[str, str]
    request: Request
    is_inside: bool = False


class _Owned:
    """A terminal and the session that owns it."""

    __slots__ = ("command", "cwd", "finishing", "sandbox", "session", "terminal")

    def __init__(
        self, terminal: Terminal, session: Session, command: str, cwd: str, *, sandbox: str | None = None
    ) -> None:
        self.terminal = terminal
        self.session = session  # the object: a session's id is unique on its connection only
        self.command = command
        self.cwd = cwd
        self.sandbox = sandbox
        self.finishing: asyncio.Task[FinishedCommand] | None = None

    async def finished(self) -> FinishedCommand | None:
        """Wait until the command has ended and was looked at; None if it runs without a confinement."""
        if self.finishing is None:
            await self.terminal.wait()
            return None
        return await asyncio.shield(self.finishing)


class LocalTerminals:
    """Terminals on this machine, for any number of sessions.

    Args:
        permissions: checked before a command runs, usually `ClientPermissions`. None permits every command.
        pty: give commands a terminal; False gives them pipes.
        columns, rows: the size of that terminal.
        on_output: called with the terminal's id, the session and raw output as it arrives.
        kept_variables: environment variables that commands may see besides the usual ones.
        environment: gives the environment that the variables are taken from; None takes them from this program's own.
        most_terminals: how many terminals one session may have at a time.
        ceiling_bytes: the most output that is kept of a terminal, whatever limit the agent sets.
        spare: daemons that are left running, by words of their command line.
        confinement: the sandbox of the commands, and the comparison of protected files after each; None has neither.
    """

    def __init__(
        self,
        *,
        permissions: ChecksPermission | None,
        pty: bool = True,
        columns: int = COLUMNS,
        rows: int = ROWS,
        on_output: Callable[[str, Session, bytes], None] | None = None,
        kept_variables: Collection[str] = (),
        environment: Callable[[], Mapping[str, str]] | None = None,
        most_terminals: int = MOST_TERMINALS,
        ceiling_bytes: int = CEILING_BYTES,
        spare: Spare = (),
        confinement: Confinement | None = None,
    ) -> None:
        self._permissions = permissions
        self._pty = pty
        self._columns = columns
        self._rows = rows
        self._on_output = on_output
        self._kept_variables = kept_variables
        self._environment = environment
        self._most_terminals = most_terminals
        self._ceiling_bytes = ceiling_bytes
        self._spare = spare
        self._confinement = confinement
        self._owned: dict[str, _Owned] = {}
        self._released: dict[str, Look] = {}

    # Requests of agents

    async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str:
        added = {variable.name: variable.value for variable in request.env_or_default}
        source = None if self._environment is None else self._environment()
        env = child_environment(added, kept=self._kept_variables, source=source)
        cwd = request.cwd if isinstance(request.cwd, str) else session.cwd
        argv, is_shell = resolve_command(request.command, request.args_or_default, env, cwd)
        line = request.command if is_shell else shlex.join(argv)
        described = _described(argv, line, is_shell, added, cwd, session)
        is_inside = await self._check(described, added, session)
        command = _Command(argv, line, cwd, env, added, described, is_inside)
        if self._confinement is None:
            return self._start(command, request, session)
        await self._confinement.begin()
        try:
            return self._start(command, request, session)
        except BaseException:
            await self._confinement.end(was_inside=False)
            raise

    async def output(self, request: v1.TerminalOutputRequest, session: Session) -> v1.TerminalOutputResponse:
        owned = self._find(request.terminal_id, session)
        terminal = owned.terminal
        if terminal.is_running:
            text, is_truncated = terminal.read()
            return v1.TerminalOutputResponse(text, is_truncated, meta=_meta(owned))
        finished = await owned.finished()
        text, is_truncated = terminal.read()
        status = v1.TerminalExitStatus(terminal.exit_code, terminal.signal)
        # A model has to know why the command failed, and nothing else of the response reaches it.
        return v1.TerminalOutputResponse(text + _refused(finished), is_truncated, status, meta=_meta(owned))

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Session
    ) -> v1.WaitForTerminalExitResponse:
        owned = self._find(request.terminal_id, session)
        await owned.finished()
        return v1.WaitForTerminalExitResponse(owned.terminal.exit_code, owned.terminal.signal, meta=_meta(owned))

    async def kill(self, request: v1.KillTerminalRequest, session: Session) -> None:
        await self._find(request.terminal_id, session).terminal.kill()

    async def release(self, request: v1.ReleaseTerminalRequest, session: Session) -> None:
        self._find(request.terminal_id, session)
        await self._release({request.terminal_id: self._owned.pop(request.terminal_id)})

    # Called by user interfaces and by the connection

    def look(self, terminal_id: str) -> Look | None:
        """Return what a terminal shows now, or showed when it was released (rule 295); None for an unknown one."""
        owned = self._owned.get(terminal_id)
        return self._released.get(terminal_id) if owned is None else _look(terminal_id, owned)

    def end_session(self, session: Session) -> Coroutine[Any, Any, None]:
        """End the session's terminals at once; the returned coroutine waits until they are gone.

        Agents forget to send `terminal/release`, for example when a turn is cancelled.
        """
        ended = self._of(session)
        for terminal_id, owned in ended.items():
            del self._owned[terminal_id]
            owned.terminal.begin_release()
        return self._release(ended)

    async def close(self) -> None:
        """End every terminal of every session."""
        ended, self._owned = self._owned, {}
        await self._release(ended)

    def _of(self, session: Session) -> dict[str, _Owned]:
        return {terminal_id: owned for terminal_id, owned in self._owned.items() if owned.session is session}

    def _find(self, terminal_id: str, session: Session) -> _Owned:
        owned = self._owned.get(terminal_id)
        if owned is None or owned.session is not session:
            raise RequestError.not_found("No such terminal in this session", {"terminalId": terminal_id})
        return owned

    async def _check(self, described: Request, added: Mapping[str, str], session: Session) -> bool:
        """Check the permission to run a command; return whether it runs in the sandbox."""
        permissions, confinement = self._permissions, self._confinement
        has_sandbox = confinement is not None and confinement.sandbox is not None
        if confinement is not None and has_sandbox and isinstance(permissions, ChecksConfined):
            is_permitted = await permissions.check_confined(described, session, env=added)
            return confinement.is_required or not is_permitted
        if permissions is not None:
            await permissions.check(described, session, env=added)
        return has_sandbox

    def _start(self, command: _Command, request: v1.CreateTerminalRequest, session: Session) -> str:
        """Start a command; its terminal's id. Does not wait, so that what it checks stays true until it is started."""
        # The session may have ended while the user was asked, or while the protected files were looked at.
        if session.is_closed:
            raise RequestError.not_found("The session has ended", {"sessionId": session.id})
        if len(self._of(session)) >= self._most_terminals:
            raise RequestError.internal_error(
                f"This session already has {self._most_terminals} terminals; release one before creating another"
            )
        terminal_id = f"term-{os.urandom(8).hex()}"
        confinement = self._confinement
        confined = None if confinement is None else _confine(confinement, command)
        terminal = self._start_terminal(terminal_id, command, confined, request, session)
        owned = self._owned[terminal_id] = _Owned(terminal, session, command.line, command.cwd)
        if confinement is not None:
            if confinement.sandbox is not None and command.is_inside:
                owned.sandbox = confinement.sandbox.backend
            inside = confined if command.is_inside else None
            finishing = _finish(confinement, terminal_id, owned, command.request, inside)
            owned.finishing = asyncio.get_running_loop().create_task(finishing)
        return terminal_id

    def _start_terminal(
        self,
        terminal_id: str,
        command: _Command,
        confined: Confined | None,
        request: v1.CreateTerminalRequest,
        session: Session,
    ) -> Terminal:
        on_output = self._on_output
        limit = request.output_byte_limit
        # The folder of the session decides, which the user chose; that of the command is the agent's choice.
        apart = _kept_apart(command, session.cwd) if confined is None else None
        started = confined or apart
        try:
            return Terminal.start(
                command.argv if started is None else started.argv,
                cwd=command.cwd if confined is None else confined.cwd,
                env=command.env if confined is None else confined.env,
                starter=None if started is None else started.starter,
                pty=self._pty,
                columns=self._columns,
                rows=self._rows,
                limit_bytes=limit if isinstance(limit, int) else None,
                ceiling_bytes=self._ceiling_bytes,
                on_output=None if on_output is None else lambda data: on_output(terminal_id, session, data),
                spare=self._spare,
            )
        except ConfigError as error:
            raise RequestError.invalid_params(str(error), path="$.command") from error
        except DragomanError as error:
            raise RequestError.internal_error(str(error)) from error

    async def _release(self, ended: dict[str, _Owned]) -> None:
        for owned in ended.values():
            owned.terminal.begin_release()
        try:
            await asyncio.gather(*(owned.terminal.release() for owned in ended.values()))
            await asyncio.gather(*(owned.finished() for owned in ended.values()))
        finally:
            for terminal_id, owned in ended.items():
                self._remember(_look(terminal_id, owned, is_released=True))

    def _remember(self, look: Look) -> None:
        self._released[look.terminal_id] = look
        while len(self._released) > _REMEMBERED:
            del self._released[next(iter(self._released))]


def _look(terminal_id: str, owned: _Owned, *, is_released: bool = False) -> Look:
    terminal = owned.terminal
    text, is_truncated = terminal.read()
    if is_released and len(text) > _REMEMBERED_BYTES:
        text, is_truncated = text[-_REMEMBERED_BYTES:], True
    return Look(
        terminal_id=terminal_id,
        session_id=owned.session.id,
        command=owned.command,
        cwd=owned.cwd,
        text=text,
        is_truncated=is_truncated,
        is_running=terminal.is_running,
        is_released=is_released,
        exit_code=terminal.exit_code,
        signal=terminal.signal,
        sandbox=owned.sandbox,
    )


def _kept_apart(command: _Command, folder: str) -> ApartCommand | None:
    """Return a command of a session in a worktree within the boundary around that; None for other sessions."""
    if boundary_of(folder) is None:
        return None
    from dragoman.process.sandbox.apart import keep_apart

    return keep_apart(command.argv, folder, cwd=command.cwd, env=command.env)


def _confine(confinement: Confinement, command: _Command) -> Confined | None:
    try:
        return confinement.confine(
            command.argv, cwd=command.cwd, env=command.env, added=command.added, is_inside=command.is_inside
        )
    except ConfigError as error:
        raise RequestError.invalid_params(str(error), path="$.command") from error


async def _finish(
    confinement: Confinement, terminal_id: str, owned: _Owned, request: Request, confined: Confined | None
) -> FinishedCommand:
    """Wait for the end of a command, compare the protected files, and report what the sandbox kept from it.

    The report reads what the command printed, so it comes last, and its failure is only logged.
    """
    terminal = owned.terminal
    try:
        await terminal.wait()
    finally:
        changes = await confinement.end(was_inside=confined is not None)
    denials = () if confined is None else await asyncio.to_thread(confined.denials, terminal.text)
    finished = FinishedCommand(
        terminal_id=terminal_id,
        session_id=owned.session.id,
        command=owned.command,
        request=request,
        sandbox=owned.sandbox,
        exit_code=terminal.exit_code,
        signal=terminal.signal,
        denials=tuple(denials),
        changes=changes,
    )
    if confinement.on_finished is not None:
        try:
            confinement.on_finished(finished)
        except Exception:
            _log.exception("an observer of commands failed")
    return finished


def _meta(owned: _Owned) -> dict[str, Any] | UnsetType:
    """State in which sandbox a command runs, for agents that show it."""
    return UNSET if owned.finishing is None else {"dragoman": {"sandbox": owned.sandbox}}


def _refused(finished: FinishedCommand | None) -> str:
    if finished is None or not finished.denials:
        return ""
    wanted = ", ".join(denial.describe() for denial in finished.denials)
    return f"\n[dragoman: this command ran in a sandbox ({finished.sandbox}) and did not get: {wanted}]\n"


def _described(
    argv: Sequence[str], line: str, is_shell: bool, added: Mapping[str, str], cwd: str, session: Session
) -> Request:
    """Return the command as a request for the rules.

    `npm test` is another program in another folder or with another PATH. A command that is started outside the
    session's folders, or with variables that may change what runs, is described by the equivalent shell line: a rule
    for its first words does not cover that line, and the user reads what is really run.
    """
    from dragoman.policy import Command, Request
    from dragoman.workspace.folders import SessionFolders

    words = list(argv)
    if os.sep in words[0] and not os.path.isabs(words[0]) and cwd != session.cwd:
        words[0] = os.path.normpath(os.path.join(cwd, words[0]))  # `./run` of another folder is another program
    assignments = [f"{name}={value}" for name, value in added.items() if not _HARMLESS.fullmatch(f"{name}={value}")]
    if assignments:
        line = " ".join([*map(_quoted_assignment, assignments), shlex.join(words)])
    folders = SessionFolders(session.cwd, session.additional_directories)
    is_elsewhere = "\0" in cwd or not folders.hold(folders.resolve(cwd))
    if is_elsewhere:
        line = f"cd {shlex.quote(cwd)} && {line}"
    place = "" if cwd == session.cwd else cwd
    is_line = is_shell or is_elsewhere or bool(assignments)
    return Request(
        agent="",  # filled in by the permission check
        kind="execute",
        title=line,
        command=Command(line=line, cwd=place) if is_line else Command(tuple(words), cwd=place),
        root=session.cwd,
        home=os.path.expanduser("~"),
    )


def _quoted_assignment(assignment: str) -> str:
    name, _, value = assignment.partition("=")
    return f"{name}={shlex.quote(value)}"
