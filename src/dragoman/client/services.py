"""What a client can do for an agent. Offering a service *is* advertising its capability.

Owns the shape of the services, not their insides: a face, a script or `dragoman.testing` brings those. Every method
takes the request as it arrived and the session it belongs to, and may raise RequestError to answer with an error.
A service may also have `async def end_session(session)`, run when a session or its connection is over; a connection
has not ended before that has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from dragoman.client.session import Session
    from dragoman.schema import v1

    PermissionService: TypeAlias = Callable[
        [v1.RequestPermissionRequest, Session], Awaitable[str | v1.RequestPermissionOutcome | None]
    ]
    ExtensionHandlers: TypeAlias = Mapping[str, Callable[[Any], Awaitable[Any]]]


class ReadsFiles(Protocol):
    """Answers `fs/read_text_file`: the text, unsaved changes included."""

    async def read_text_file(
        self, request: v1.ReadTextFileRequest, session: Session
    ) -> str | v1.ReadTextFileResponse: ...


class WritesFiles(Protocol):
    """Answers `fs/write_text_file`; creates the file if it is missing."""

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None: ...


class Terminals(Protocol):
    """Answers `terminal/*`. `create` returns the terminal's id at once."""

    async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str: ...

    async def output(self, request: v1.TerminalOutputRequest, session: Session) -> v1.TerminalOutputResponse: ...

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Session
    ) -> v1.WaitForTerminalExitResponse: ...

    async def kill(self, request: v1.KillTerminalRequest, session: Session) -> None: ...

    async def release(self, request: v1.ReleaseTerminalRequest, session: Session) -> None: ...


class AnswersForms(Protocol):
    """Answers `elicitation/create` in form mode. `session` is None when a request, not a session, is being asked for.

    A service may also have `complete(elicitation_id)`, told when an out-of-band interaction is over.
    """

    async def form(
        self, request: v1.ElicitationFormMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation: ...


class OpensUrls(Protocol):
    """Answers `elicitation/create` in url mode, after the user agreed to the URL."""

    async def url(
        self, request: v1.ElicitationUrlMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation: ...


class Services:
    """The services of one connection; a missing one is a missing capability."""

    __slots__ = ("elicitation", "extensions", "files", "permission", "terminal_login", "terminals")

    def __init__(
        self,
        *,
        permission: PermissionService | None = None,
        files: ReadsFiles | WritesFiles | None = None,
        terminals: Terminals | None = None,
        elicitation: AnswersForms | OpensUrls | None = None,
        extensions: ExtensionHandlers | None = None,
        terminal_login: bool = False,
    ) -> None:
        self.permission = permission
        self.files = files
        self.terminals = terminals
        self.elicitation = elicitation
        self.extensions: ExtensionHandlers = extensions or {}
        self.terminal_login = terminal_login
