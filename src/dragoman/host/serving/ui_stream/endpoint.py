"""The endpoint that AI SDK clients call: which chat is which session, and which turn a request is about.

`POST /ui-stream` (or `/ui-stream/AGENT`) sends a message or answers, `GET /ui-stream/CHAT/stream` attaches to the turn
that runs, `DELETE` of the same ends it. Who may do what is decided by the gate and by the host: a chat is served by a
connection with the rights of its token. The chat's id is kept with the session, so that chats survive the host.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.host.history.facts import session_key
from dragoman.host.serving.ui_stream.chat_turn import ChatTurn
from dragoman.host.serving.ui_stream.posted import ChatRefusal, answers_in, prompt_in, read_post
from dragoman.transports.remote.answers import HttpReply, StreamedReply, text_answer
from dragoman.transports.remote.server import NewConnection
from dragoman.transports.remote.sse import MIME_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client import RemoteAgent, Session
    from dragoman.host.host import Host
    from dragoman.host.serving.ui_stream.posted import ChatPost
    from dragoman.rpc import Transport
    from dragoman.store.event_log import SessionRecord
    from dragoman.transports.remote.answers import PageReply
    from dragoman.transports.remote.gate import Entered, Principal

PATH: Final = "/ui-stream"
STREAM_HEADERS: Final = (
    (b"cache-control", b"no-cache"),
    (b"connection", b"keep-alive"),
    (b"x-vercel-ai-ui-message-stream", b"v1"),
    (b"x-accel-buffering", b"no"),
)
WAITING_SECONDS = 1800.0
"""How long a turn waits for an answer of the user. Then it is cancelled: nothing is allowed because time passed."""
STOP_SECONDS = 2.0
_CHAT: Final = "chat"
_MESSAGES: Final = "chatMessages"
_BUSY: Final = "A turn of this chat is running; wait for its end, or stop it."


class ChatUser(NamedTuple):
    """Whose chats a token sees, and where its sessions work if the post does not say so."""

    name: str
    folder: str


class UiStreamEndpoint:
    """The endpoint that serves the chats of a host."""

    def __init__(
        self,
        host: Host,
        opened: Callable[[NewConnection], None],
        find_user: Callable[[Principal], ChatUser | None],
        *,
        most_turns: int,
    ) -> None:
        """Prepare the endpoint.

        Args:
            host: Where the sessions are.
            opened: Lets the host serve a connection, by the rights of its principal.
            find_user: Whose token it is; None if it is not valid any more.
            most_turns: How many turns of one token may run or wait at the same time.
        """
        self._host = host
        self._opened = opened
        self._find_user = find_user
        self._most_turns = most_turns
        self._turns: dict[tuple[str, str], ChatTurn] = {}
        self._opening: set[tuple[str, str]] = set()

    async def page(self, entered: Entered, body: bytes) -> PageReply:
        """Answer a request at `/ui-stream`."""
        words = entered.path.removeprefix(PATH).strip("/").split("/")
        try:
            if entered.method == b"POST":
                if len(words) > 1:
                    raise ChatRefusal(404, f"Chats are posted to {PATH}, or to {PATH}/AGENT.")
                return await self._post(entered, read_post(body), words[0] or None)
            if len(words) not in (2, 3) or words[-1] != "stream":
                raise ChatRefusal(404, f"The running turn of a chat is at {PATH}/CHAT/stream.")
            if entered.method == b"DELETE":
                return self._stop(entered, words[-2])
            return self._attach(entered, words[-2])
        except ChatRefusal as refused:
            return text_answer(refused.status, str(refused))

    async def close(self) -> None:
        """End what runs."""
        tasks = [task for turn in self._turns.values() if (task := turn.end()) is not None]
        if tasks:
            await asyncio.wait(tasks)

    # Requests

    async def _post(self, entered: Entered, post: ChatPost, agent: str | None) -> PageReply:
        user = self._user(entered, "prompt")
        key = (user.name, post.id)
        turn = self._running(key)
        if post.messages[-1].role == "assistant":
            if turn is None or not turn.answer(answers_in(post.messages[-1])):
                raise ChatRefusal(409, "No question of this chat waits for these answers.")
            turn.is_kept = post.resume
            return _streamed(turn, turn.pause_index)
        if post.messages[-1].role != "user":
            raise ChatRefusal(400, "The last message of the chat must be one of the user.")
        if key in self._opening:
            raise ChatRefusal(409, _BUSY)
        if sum(name == user.name for name, _ in self._turns) >= self._most_turns:
            raise ChatRefusal(429, "There are too many chats of this token in which a turn runs; end one.")
        self._opening.add(key)
        try:
            if turn is not None:
                await self._make_room(turn)
            return _streamed(await self._begin(entered, post, agent or post.agent, user), 0)
        finally:
            self._opening.discard(key)

    async def _make_room(self, turn: ChatTurn) -> None:
        """Wait for the end of the turn before this one, if it is about to end.

        A user who writes instead of answering has refused: the turn that waits is cancelled. One who stops a turn and
        writes at once may be faster than the news that the stream before was closed.
        """
        if turn.state == "waiting":
            turn.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await turn.wait_over()
        if not turn.is_cancelled and turn.state != "over":
            raise ChatRefusal(409, _BUSY)
        await turn.wait_over()

    async def _begin(self, entered: Entered, post: ChatPost, agent: str | None, user: ChatUser) -> ChatTurn:
        record = await self._find_record(user.name, post.id)
        if record is not None and agent is not None and record.agent != agent:
            raise ChatRefusal(409, f"This chat is one with {record.agent}; begin a new chat.")
        known: list[str] = [] if record is None else self._facts(record).get(_MESSAGES, [])
        prompt = prompt_in(post, known, is_new=record is None)
        folder = post.cwd or (user.folder if record is None else record.cwd)
        name = record.agent if record is not None else agent or self._host.default_agent(folder)
        if name is None or self._host.find_source(name) is None:
            raise ChatRefusal(404, "This host does not run an agent of that name.")
        session_id = None if record is None else record.id

        def serve(transport: Transport) -> None:
            self._opened(NewConnection(transport, entered.principal, f"/acp/{name}", "ui-stream"))

        async def open_session(agent: RemoteAgent) -> Session:
            nonlocal session_id
            if session_id is not None:
                return await agent.resume_session(session_id, folder)
            session = await agent.new_session(folder)
            session_id = session.id
            self._keep(session_id, {_CHAT: post.id})
            return session

        def sent() -> None:
            if session_id is not None:
                self._keep(session_id, {_MESSAGES: [*known, *prompt.ids]})

        turn = ChatTurn(
            f"msg-{secrets.token_hex(8)}", post.version, is_kept=post.resume, waiting_seconds=WAITING_SECONDS
        )
        self._turns[user.name, post.id] = turn
        await turn.start(serve, open_session, prompt, sent)
        return turn

    def _attach(self, entered: Entered, chat: str) -> PageReply:
        turn = self._running((self._user(entered, "view").name, chat))
        return HttpReply(204, b"") if turn is None else _streamed(turn, 0)

    def _stop(self, entered: Entered, chat: str) -> PageReply:
        turn = self._running((self._user(entered, "prompt").name, chat))
        if turn is not None:
            turn.cancel()
        return HttpReply(204, b"")

    # Inside

    def _user(self, entered: Entered, right: str) -> ChatUser:
        user = self._find_user(entered.principal)
        if user is None:
            raise ChatRefusal(401, "The token is not valid any more.")
        if right not in entered.principal.rights:
            raise ChatRefusal(403, f"This token may not {right}.")
        return user

    def _running(self, key: tuple[str, str]) -> ChatTurn | None:
        for chat, turn in list(self._turns.items()):
            if turn.state == "over":
                del self._turns[chat]
        return self._turns.get(key)

    async def _find_record(self, user: str, chat: str) -> SessionRecord | None:
        found = await self._host.log.find_keyed(user, session_key(_CHAT, chat))
        return found[0] if found else None

    def _facts(self, record: SessionRecord) -> dict[str, Any]:
        """Return what is kept of a session; one in memory may know more than the log."""
        live = self._host.live(record.id)
        facts: dict[str, Any] = msgspec.json.decode(record.facts) if live is None else live.facts
        return facts

    def _keep(self, session_id: str, facts: dict[str, object]) -> None:
        session = self._host.live(session_id)
        if session is not None:
            session.facts.update(facts)
            session.describe()


def _streamed(turn: ChatTurn, index: int) -> StreamedReply:
    return StreamedReply(turn.stream(index), MIME_TYPE, STREAM_HEADERS)
