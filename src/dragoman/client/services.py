"""The services a client can offer to an agent. Offering a service advertises its capability.

Owns the protocols (the types) of the services; user interfaces, scripts and `dragoman.testing` implement them. Every
method takes the request as it arrived and the session it belongs to, and may raise RequestError to answer with an
error. The optional methods of a service are the protocols `EndsSessions` and `CompletesUrls`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.schema import v1
    from dragoman.workspace import Change

    PermissionAnswer: TypeAlias = str | v1.RequestPermissionOutcome | None
    # Called with the request and its session, in this order or by name: `request`, `session`, `tool_call`, `options`.
    PermissionService: TypeAlias = Callable[..., Awaitable[PermissionAnswer]] | Callable[..., PermissionAnswer]
    # An `async def` runs in a task, a plain function in the order in which messages arrive.
    ExtensionHandlers: TypeAlias = Mapping[str, Callable[[Any], Any]]
    # Called with the method and its params.
    ExtensionFallback: TypeAlias = Callable[[str, Any], Coroutine[Any, Any, object]]


class ChecksPermission(Protocol):
    """What the file and terminal services call before they act; `ClientPermissions` is one."""

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Return if the request is permitted. `change` and `env` are shown to a user who is asked.

        Raises:
            RequestError: it is not permitted; this is the response for the agent.
        """


@runtime_checkable
class ChecksConfined(ChecksPermission, Protocol):
    """What the terminal service calls before it runs a command for which there is a sandbox."""

    async def check_confined(self, request: Request, session: Session, *, env: Mapping[str, str] | None = None) -> bool:
        """Return whether the user permitted this very command; False if it is acceptable in the sandbox only.

        Raises:
            RequestError: it is not permitted, not even in the sandbox; this is the response for the agent.
        """


@runtime_checkable
class ReadsFiles(Protocol):
    """The service that answers `fs/read_text_file` with the text, unsaved changes included."""

    async def read_text_file(
        self, request: v1.ReadTextFileRequest, session: Session
    ) -> str | v1.ReadTextFileResponse: ...


@runtime_checkable
class WritesFiles(Protocol):
    """The service that answers `fs/write_text_file`; it creates the file if it is missing."""

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None: ...


class _ReadsOnly:
    def __init__(self, files: ReadsFiles) -> None:
        self.read_text_file = files.read_text_file


class _WritesOnly:
    def __init__(self, files: WritesFiles) -> None:
        self.write_text_file = files.write_text_file


def withhold_files(files: ReadsFiles | WritesFiles | None, withheld: frozenset[str]) -> ReadsFiles | WritesFiles | None:
    """Return the file service without what an agent is known not to handle.

    Args:
        files: the service, or None if there is none.
        withheld: capabilities that are not advertised: `fs.readTextFile`, `fs.writeTextFile`; others are ignored.
    """
    if withheld.isdisjoint(("fs.readTextFile", "fs.writeTextFile")):
        return files
    if "fs.readTextFile" not in withheld and isinstance(files, ReadsFiles):
        return _ReadsOnly(files)
    if "fs.writeTextFile" not in withheld and isinstance(files, WritesFiles):
        return _WritesOnly(files)
    return None


class Terminals(Protocol):
    """The service that answers `terminal/*`. `create` returns the terminal's id at once."""

    async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str: ...

    async def output(self, request: v1.TerminalOutputRequest, session: Session) -> v1.TerminalOutputResponse: ...

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Session
    ) -> v1.WaitForTerminalExitResponse: ...

    async def kill(self, request: v1.KillTerminalRequest, session: Session) -> None: ...

    async def release(self, request: v1.ReleaseTerminalRequest, session: Session) -> None: ...


@runtime_checkable
class AnswersForms(Protocol):
    """The service for `elicitation/create` in form mode; `session` is None if the form belongs to a request instead."""

    async def form(
        self, request: v1.ElicitationFormMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation: ...


@runtime_checkable
class OpensUrls(Protocol):
    """The service that answers `elicitation/create` in url mode, after the user has agreed to open the URL."""

    async def url(
        self, request: v1.ElicitationUrlMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation: ...


@runtime_checkable
class CompletesUrls(Protocol):
    """An elicitation service that is notified when the interaction behind a URL is complete."""

    async def complete(self, elicitation_id: str) -> None: ...


@runtime_checkable
class EndsSessions(Protocol):
    """A service that releases what it holds for a session when the session or its connection has ended.

    A connection is not closed before the coroutine has finished.
    """

    def end_session(self, session: Session) -> Coroutine[Any, Any, None]: ...


class ChangedPath(Protocol):
    """A path that differs from before a turn, relative to the folder of the session."""

    @property
    def path(self) -> str: ...
    @property
    def old_path(self) -> str:
        """The path before, which differs for a file that was renamed."""

    @property
    def kind(self) -> str:
        """`created`, `modified`, `deleted`, `renamed`, `mode` or `type`."""

    @property
    def by(self) -> str:
        """`agent` or `turn`: whether it is known to be the agent's own change."""

    @property
    def problem(self) -> str:
        """Why the state before cannot be given back; empty if it can."""


class Rewound(Protocol):
    """What a rewind did: the paths it changed, and those with a conflict that it kept as they are."""

    @property
    def changed(self) -> tuple[str, ...]: ...
    @property
    def kept(self) -> tuple[str, ...]: ...


class TracksChanges(Protocol):
    """A follower of what the turns of a session change in its folders; `dragoman.follow_changes()` is one."""

    async def begin_turn(self, session: Session) -> None:
        """Prepare for a turn: called before a prompt is sent, which waits for it."""

    def updated(self, session: Session, updates: Sequence[v1.SessionUpdate]) -> None:
        """Take note of what arrives while a turn runs."""

    async def before_write(self, session: Session, paths: Sequence[str]) -> None:
        """Look at files that may change.

        Called before a file is written for the agent, and before a permission request about files is answered.
        """

    async def after_write(self, session: Session, path: str) -> None:
        """Take note of a file that was written for the agent."""

    def end_turn(self, session: Session) -> None:
        """Take note that a turn has ended, however it did."""

    def end_session(self, session: Session) -> Coroutine[Any, Any, None]:
        """Return when everything about the last turn is known; called when the session has ended."""

    async def changes(self, session: Session) -> Sequence[ChangedPath]:
        """Return what the last turn changed."""

    async def rewind(self, session: Session, turns: int, choices: Mapping[str, str]) -> Rewound:
        """Take back the last turns."""


class ClientServices:
    """The services of one connection. A service that is None is a capability that is not advertised."""

    __slots__ = (
        *("changes", "elicitation", "extension_fallback", "extensions", "files", "on_extension", "permission"),
        *("terminal_login", "terminals"),
    )

    def __init__(
        self,
        *,
        permission: PermissionService | None = None,
        files: ReadsFiles | WritesFiles | None = None,
        terminals: Terminals | None = None,
        elicitation: AnswersForms | OpensUrls | None = None,
        extensions: ExtensionHandlers | None = None,
        extension_fallback: ExtensionFallback | None = None,
        on_extension: Callable[[str, Any], None] | None = None,
        terminal_login: bool = False,
        changes: TracksChanges | None = None,
    ) -> None:
        self.permission = permission
        self.files = files
        self.terminals = terminals
        self.elicitation = elicitation
        self.extensions: ExtensionHandlers = extensions or {}
        self.extension_fallback = extension_fallback
        self.on_extension = on_extension
        self.terminal_login = terminal_login
        self.changes = changes
