"""One session as its agent sees it.

Owns the session's identity, its folder, its running and waiting turns, and what happens to its updates: they are held
until the answer that names the session was written, then sent at once, and refused after the end. Does not know how
sessions are requested.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.agent.settings import OfferedSettings
from dragoman.agent.turn import Turn, cancelled_result
from dragoman.agent.updates import UpdateSender
from dragoman.errors import INVALID_REQUEST, LocalProtocolError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from dragoman.agent.client import RemoteClient
    from dragoman.agent.connection import AgentConnection
    from dragoman.agent.elicitation import Answer
    from dragoman.rpc import Call
    from dragoman.schema import v1

# What a handler may send before the answer that names its session. The sender cannot wait for the client here, so
# exceeding the bound is an error; replaying a long history belongs to `session/load`, whose updates are not held.
HELD_BYTES = 8 * 1024 * 1024

T = TypeVar("T")


class AgentSession(UpdateSender):
    """A session: its folder, its client, and methods that send updates at any time, in and between turns.

    `extra` is for your handlers, to keep what they need in later turns; the library does not use it. `on_cancel` is
    called when the client cancels or closes the session, also if no prompt of this client runs: for an agent whose
    session has work that another connection began. It may be called more than once.
    """

    __slots__ = (
        "_connection",
        "_held",
        "_held_bytes",
        "_late",
        "_opened_by",
        "_turns",
        "_until_open",
        "additional_directories",
        "cwd",
        "extra",
        "id",
        "mcp_servers",
        "on_cancel",
    )

    def __init__(self, connection: AgentConnection, session_id: str, request: Any, opened_by: Call) -> None:
        self.id = session_id
        self.cwd: str = request.cwd
        self.additional_directories: tuple[str, ...] = tuple(request.additional_directories or ())
        self.mcp_servers: tuple[v1.McpServer, ...] = tuple(request.mcp_servers or ())
        self.extra: dict[str, Any] = {}
        self.on_cancel: Callable[[], None] | None = None
        self._connection = connection
        # The request that opens this session, until it is answered.
        self._opened_by: Call | None = opened_by
        self._until_open: list[asyncio.Future[None]] | None = []
        """Those who wait for that; None when it was answered, or will not be."""
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._late: list[v1.SessionUpdate] = []
        self._turns: list[Turn] = []
        self._settings = OfferedSettings(takes_booleans=self.client.offers("session.configOptions.boolean"))
        self._checks = connection.update_checks
        self._breathe = connection.peer.breathe
        self._post = connection.peer.post
        self._address(session_id)

    @property
    def client(self) -> RemoteClient:
        """The client that the session belongs to."""
        return self._connection.client

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders the session works in, `cwd` first (rules 90, 145)."""
        return (self.cwd, *self.additional_directories)

    @property
    def modes(self) -> v1.SessionModeState | None:
        """The modes offered last, with the current one; None when the session has none."""
        return self._settings.modes

    @property
    def options(self) -> Sequence[v1.SessionConfigOption]:
        """The config options offered last, with their current values, boolean ones included."""
        return tuple(self._settings.config_options or ())

    @property
    def turn(self) -> Turn | None:
        """The turn that is running, if one is."""
        return self._turns[0] if self._turns else None

    def path(self, path: str | os.PathLike[str]) -> str:
        """Return `path` made absolute: a relative one is relative to `cwd` (rule 89), wherever the process runs."""
        return os.path.join(self.cwd, os.fspath(path))

    async def elicit(
        self,
        message: str,
        schema: v1.ElicitationSchema | None = None,
        *,
        url: str | None = None,
        elicitation_id: str | None = None,
    ) -> Answer:
        """Ask the user for input, in a form or on a web page.

        While the session is being opened the question belongs to that request, because the client does not know the
        session yet.

        Args:
            message: What the user is asked.
            schema: The fields of a form. Give this or `url`.
            url: A page that the user is asked to visit.
            elicitation_id: The id of the page, for `RemoteClient.complete_elicitation`; made if not given.

        Raises:
            CapabilityError: The client did not advertise this mode.
            ClientError: The client answered with an error.
        """
        from dragoman.agent.elicitation import ElicitationScope, elicit

        opened_by = self._opened_by
        scope = ElicitationScope(session_id=self.id) if opened_by is None else ElicitationScope(request_id=opened_by.id)
        return await elicit(self.client, scope, message, schema, url, elicitation_id)

    def update_when_open(self, update: v1.SessionUpdate) -> None:
        """Send an update right after the answer that opens the session, or at once if the session is open.

        For what does not belong to a turn or to the history, such as the list of commands. Other updates of
        `session/load` are sent before its answer.
        """
        if self._opened_by is None:
            self._submit(update)
        else:
            self._late.append(update)

    async def wait_until_open(self) -> None:
        """Wait until the answer that opens the session was written, or will not be; return at once if it is open.

        A question before that is about a session that the client does not know.
        """
        if self._until_open is not None:
            opening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._until_open.append(opening)
            await opening

    def child(self, session_id: str) -> UpdateSender:
        """Send updates of a subagent's session to this client, after a SubagentUpdate of this session announced it."""
        sender = UpdateSender()
        sender._send_as(self)
        sender._settings = OfferedSettings(takes_booleans=self.client.offers("session.configOptions.boolean"))
        sender._address(session_id)
        return sender

    # What follows is the library's side

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` in a task that the connection owns and ends with itself."""
        return self._connection.spawn(work)

    def _hold(self) -> None:
        """Keep updates back until `_open`: the client cannot place them yet (rule 102)."""
        self._post = self._keep

    def _rename(self, session_id: str) -> None:
        """Take another id than the one made for the session: the answer gives it that."""
        old = len(self._prefix)
        self.id = session_id
        self._address(session_id)
        self._held = [self._prefix + frame[old:] for frame in self._held]

    def _open(self) -> None:
        """Send what waits for the answer that names the session, which was written."""
        self._opened_by = None
        self._wake()
        self._post = self._connection.peer.post
        for frame in self._held:
            self._post(frame)
        late, self._held, self._late = self._late, [], []
        for update in late:
            self._submit(update)

    def _end(self, why: Exception) -> None:
        """End the session: no update is sent any more; sending one raises `why`."""
        self._held = []
        self._wake()

        def refuse(frame: bytes) -> bool:
            raise why

        self._post = refuse

    def _wake(self) -> None:
        waiting, self._until_open = self._until_open, None
        for opening in waiting or ():
            if not opening.done():  # the task that waited may have been cancelled
                opening.set_result(None)

    def _begin(self, call: Call, request: v1.PromptRequest, *, may_overlap: bool) -> Turn:
        """Begin a turn. It is registered before anything can wait, so that no cancel can miss it.

        Raises: RequestError when another prompt runs and there may be only one.
        """
        if self._turns and not may_overlap:
            raise RequestError(INVALID_REQUEST, "A prompt is already running in this session", {"sessionId": self.id})
        turn = Turn(self, call, request)
        self._turns.append(turn)
        call.cancelled_result = cancelled_result
        call.after_response(turn._end)
        return turn

    def _cancel(self) -> None:
        """Cancel the running turn and those that wait behind it. If nothing runs, nothing happens (rule 200)."""
        if self.on_cancel is not None:
            self.on_cancel()
        for turn in list(self._turns):
            turn._cancel()

    def _keep(self, frame: bytes) -> bool:
        self._held_bytes += len(frame)
        if self._held_bytes > HELD_BYTES:
            raise LocalProtocolError(
                f"over {HELD_BYTES} bytes of updates were sent before the session's id was answered; send them later"
            )
        self._held.append(frame)
        return False
