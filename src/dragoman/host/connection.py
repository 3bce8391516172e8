"""One client of a host: what it may call, and what each call means for the sessions of the host.

Owns methods, rights and identities. To the client the host is an agent; the session ids it sees are the host's own.
Everything here but the handlers is the in-order step of `rpc/peer.py`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw

from dragoman._version import __version__
from dragoman.errors import RequestError
from dragoman.host.attachment import Attachment
from dragoman.host.client_kind import ClientKind, options_for, read_client, variant_of
from dragoman.host.frames import update_frame
from dragoman.host.local.build import hello
from dragoman.host.replay import HistoryReplay
from dragoman.rpc import Peer
from dragoman.schema import decode, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from msgspec.json import Decoder

    from dragoman.errors import ConnectionClosed
    from dragoman.host.host import Host, Visitor
    from dragoman.host.questions import Method
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call, Pending, Transport
    from dragoman.store.event_log import SessionRecord

T = TypeVar("T")
PAGE: Final = 50
_REPLAY_PAGE: Final = 512


class HostConnection:
    """The host's end of a connection to one client."""

    hot_mark = b""
    hot_decoder: Decoder[Any] | None = None

    def __init__(self, host: Host, transport: Transport, visitor: Visitor) -> None:
        self.key = secrets.token_hex(8)
        self.visitor = visitor
        self.kind = ClientKind()
        self.peer = Peer(transport, self)
        self._host = host
        self._is_initialized = False
        self._attachments: dict[str, Attachment] = {}
        self._over = asyncio.Event()
        self._methods: dict[str, Callable[[Call], Coroutine[Any, Any, object]]] = {
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/close": self._close_session,
            "_dragoman/detach": self._detach,
        }

    async def serve(self) -> None:
        """Run until the client is gone. What it started in its sessions goes on."""
        self.peer.start()
        try:
            await self._over.wait()
        finally:
            await self.peer.close("the host ended the connection")

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._host.run(work)

    # Role

    def on_hot(self, frames: list[Any], size_bytes: int) -> None:
        raise NotImplementedError("a client sends no updates")

    def on_request(self, call: Call) -> Coroutine[Any, Any, object]:
        if call.method == "initialize":
            return self._initialize(call)
        if not self._is_initialized:
            raise RequestError.invalid_request("initialize must come first")
        handler = self._methods.get(call.method)
        extension = self._host.extension(call.method) if handler is None and self.visitor.is_local else None
        if extension is not None:
            return extension(self, call)
        if handler is None or (call.method == "session/close" and not self.kind.knows_us):
            raise RequestError.method_not_found(call.method)
        return handler(call)

    def on_notification(self, method: str, params: Raw | None) -> None:
        if not self._is_initialized or method != "session/cancel" or params is None:
            return
        session = self._host.find(decode(v1.CancelNotification, params).session_id, self.visitor)
        if session is not None and self._may("prompt"):
            session.cancel(self)

    def on_close(self, reason: ConnectionClosed) -> None:
        for attachment in list(self._attachments.values()):
            attachment.session.detach(attachment)
        self._attachments.clear()
        self._over.set()

    # Questions

    def can_answer(self, method: Method, params: dict[str, Any]) -> bool:
        """Whether this client can show a question and may answer it."""
        if self.kind.is_observer or not self._may("answer"):
            return False
        if method == "session/request_permission":
            return True
        return self.kind.urls if params.get("mode") == "url" else self.kind.forms

    def ask_in(
        self, session: str, method: Method, params: dict[str, Any], settle: Callable[[Any, Exception | None], None]
    ) -> Pending | None:
        """Send a question of one session to the client."""
        if not self.peer.is_open:
            return None
        return self.peer.ask(method, {"sessionId": session, **params}, Any, settle)

    def withdraw(self, pending: Pending) -> None:
        """It was answered elsewhere, or is no longer asked."""
        self.peer.abandon(pending)

    # Requests

    async def _initialize(self, call: Call) -> object:
        request = decode(v1.InitializeRequest, call.params or Raw(b"{}"))
        self.kind = read_client(request)
        self._is_initialized = True
        sessions: dict[str, Any] = {"list": {}, "resume": {}, "delete": {}}
        if self.kind.knows_us:
            sessions["close"] = {}
        own = {**hello(), "agents": self._host.agent_names()}
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": self._host.prompt_capabilities(self.visitor.agent),
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": sessions,
                "_meta": {"dragoman": own},
            },
            "agentInfo": {"name": "dragoman", "title": "Dragoman host", "version": __version__},
            "authMethods": [],
        }

    async def _new(self, call: Call) -> object:
        self._require("prompt")
        request = _read(call, v1.NewSessionRequest)
        meta = _own(request.meta)
        session = await self._host.open_session(
            self.visitor,
            agent=self.visitor.agent or meta.get("agent"),
            cwd=self._folder(request.cwd, "$.cwd"),
            servers=self._servers(request.mcp_servers or ()),
            directories=[
                self._folder(each, "$.additionalDirectories") for each in request.additional_directories or ()
            ],
            env=meta.get("env") if self.visitor.is_local else None,
            meta=_foreign(request.meta),
            own=meta if self.visitor.is_local else None,
        )
        call.after_response(lambda: self._attach_from(session, 0))
        return {"sessionId": session.id, **self._members(session), "_meta": {"dragoman": {"head": session.head}}}

    async def _load(self, call: Call) -> object:
        request = _read(call, v1.LoadSessionRequest)
        session = self._session(request.session_id)
        self._same_folder(session, request.cwd)
        self._fresh_start(session, request.mcp_servers or (), request.meta)
        self._leave(session)
        cursor = await self._replay(session)
        # The answer is the join: what is committed from here on is sent behind it.
        call.after_response(lambda: self._attach_from(session, cursor))
        return {**self._members(session), "_meta": {"dragoman": self._place(session)}}

    async def _resume(self, call: Call) -> object:
        request = _read(call, v1.ResumeSessionRequest)
        session = self._session(request.session_id)
        self._same_folder(session, request.cwd)
        self._fresh_start(session, request.mcp_servers or (), request.meta)
        after = _own(request.meta).get("after")
        cursor = session.head
        if isinstance(after, int) and self.kind.knows_us:
            oldest = session.record.oldest
            if not oldest - 1 <= after <= session.head:
                data = {"reason": "cursor_expired", "oldest": oldest, "head": session.head}
                raise RequestError(-32602, "these events are no longer kept; load the session", data)
            cursor = after
        self._leave(session)
        call.after_response(lambda: self._attach_from(session, cursor))
        return {**self._members(session), "_meta": {"dragoman": self._place(session)}}

    async def _replay(self, session: HostedSession) -> int:
        """Send the history in pages; gives the number of its last event."""
        replay, cursor = HistoryReplay(), 0
        id = msgspec.json.encode(session.id)
        while True:
            events = session.log.read(session.id, cursor, _REPLAY_PAGE)
            for item in replay.feed(events) if events else replay.finish():
                converted = self.kind.convert(item.update, variant_of(item.update))
                if converted is not None:
                    self.peer.post(update_frame(id, converted, {}, item.number if self.kind.knows_us else None))
            if not events:
                if cursor == session.head:
                    return cursor
                continue
            cursor = events[-1].number
            await self.peer.breathe()

    async def _list(self, call: Call) -> object:
        request = _read(call, v1.ListSessionsRequest)
        cwd = request.cwd or None
        if cwd is not None and not os.path.isabs(cwd):
            raise RequestError.invalid_params("cwd must be absolute", path="$.cwd")
        records = [each for each in self._host.records(self.visitor) if cwd is None or each.cwd == cwd]
        start = _read_cursor(request.cursor) if isinstance(request.cursor, str) else 0
        page = records[start : start + PAGE]
        answer: dict[str, Any] = {"sessions": [self._described(each) for each in page]}
        if start + PAGE < len(records):
            answer["nextCursor"] = f"p{start + PAGE}"
        return answer

    def _described(self, record: SessionRecord) -> dict[str, Any]:
        facts: dict[str, Any] = msgspec.json.decode(record.facts)
        live = self._host.live(record.id)
        own: dict[str, Any] = {"agent": record.agent, "state": "idle", "attached": 0, "head": record.head}
        if live is not None:
            facts = live.facts
            own.update(state=live.state, attached=len(live.attachments), head=live.head)
        own["name"] = facts.get("name")
        title = {"title": facts["title"]} if facts.get("title") else {}
        return {
            "sessionId": record.id,
            "cwd": record.cwd,
            **title,
            "updatedAt": _iso(record.updated_at),
            "_meta": {"dragoman": own},
        }

    async def _delete(self, call: Call) -> object:
        """Missing or of another principal is the same as deleted, so that ids cannot be probed."""
        self._require("prompt")
        request = _read(call, v1.DeleteSessionRequest)
        session = self._host.find(request.session_id, self.visitor)
        if session is not None:
            if session.is_busy:
                raise RequestError.invalid_request("the session works; cancel its turn first")
            await self._host.delete(session)
        return {}

    def _prompt(self, call: Call) -> Coroutine[Any, Any, object]:
        """Accepted here and now, so that a cancel behind it finds it."""
        self._require("prompt")
        request = _read(call, v1.PromptRequest)
        session = self._session(request.session_id)
        attachment = self._attachments.get(session.id)
        if attachment is None:
            attachment = self._attach(session, session.head)
        if _own(request.meta).get("queue") is False and session.is_busy:
            raise RequestError(-32603, "a turn of this session runs", {"reason": "busy"})
        wanted = _own(request.meta).get("promptId")
        id = session.submit(self, request, wanted if isinstance(wanted, str) else None)
        call.after_response(attachment.answered)
        return self._outcome(call, session, id, session.outcomes.get(id), attachment.await_outcome(id))

    async def _outcome(
        self,
        call: Call,
        session: HostedSession,
        id: str,
        outcome: dict[str, Any] | None,
        waiting: asyncio.Future[dict[str, Any]],
    ) -> object:
        while outcome is None:
            try:
                outcome = await asyncio.shield(waiting)
            except asyncio.CancelledError:
                if not call.is_cancelled or not self.peer.is_open:
                    raise
                session.cancel_prompt(id)  # its turn still ends in order, with one answer
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
        if "error" in outcome:
            error = outcome["error"]
            raise RequestError(error["code"], error["message"], error.get("data"))
        return outcome["result"]

    async def _set_mode(self, call: Call) -> object:
        self._require("prompt")
        request = _read(call, v1.SetSessionModeRequest)
        await self._session(request.session_id).set_mode(self, request.mode_id)
        return {}

    async def _set_option(self, call: Call) -> object:
        self._require("prompt")
        request: Any = msgspec.json.decode(call.params or b"{}")
        if not isinstance(request, dict) or not isinstance(request.get("configId"), str):
            raise RequestError.invalid_params("configId is missing", path="$.configId")
        session = self._session(str(request.get("sessionId")))
        value = request.get("value")
        option = _option(session.facts.get("configOptions"), request["configId"])
        if option.get("type") == "boolean" and value in ("true", "false"):
            value = value == "true"
        if not isinstance(value, str | bool):
            raise RequestError.invalid_params("the value must be text, true or false", path="$.value")
        options = await session.set_option(self, request["configId"], value)
        return {"configOptions": options_for(self.kind, options)}

    async def _close_session(self, call: Call) -> object:
        self._require("prompt")
        session = self._session(_read(call, v1.CloseSessionRequest).session_id)
        await self._host.close_session(session, "The session was closed.")
        return {}

    async def _detach(self, call: Call) -> object:
        request: Any = msgspec.json.decode(call.params or b"{}")
        self._leave(self._session(str(request.get("sessionId") if isinstance(request, dict) else "")))
        return {}

    # Inside

    def _attach(self, session: HostedSession, cursor: int) -> Attachment:
        attachment = Attachment(session, self, cursor)
        self._attachments[session.id] = attachment
        if self.peer.is_open:
            session.attach(attachment)
        return attachment

    def _attach_from(self, session: HostedSession, cursor: int) -> None:
        self._attach(session, cursor)

    def _leave(self, session: HostedSession) -> None:
        attachment = self._attachments.pop(session.id, None)
        if attachment is not None:
            session.detach(attachment)

    def _members(self, session: HostedSession) -> dict[str, Any]:
        members = session.answer_members()
        if isinstance(members.get("configOptions"), list):
            members["configOptions"] = options_for(self.kind, members["configOptions"])
        return members

    def _place(self, session: HostedSession) -> dict[str, Any]:
        place: dict[str, Any] = {"head": session.head, "readOnly": session.is_read_only}
        if self.kind.knows_us:
            questions = [id for id, question in session.questions.items() if question.is_open]
            place |= {"turn": session.turn, "questions": questions, "outcomes": session.outcomes}
        return place

    def _session(self, id: str) -> HostedSession:
        session = self._host.find(id, self.visitor)
        if session is None:
            raise RequestError.not_found("there is no such session")
        return session

    def _fresh_start(self, session: HostedSession, servers: Any, meta: Any) -> None:
        """What a client sends with a load is used if the agent has to be started; a live session is not changed."""
        if session.has_agent:
            if servers:
                session.append("notice", {"text": "MCP servers are not added to a session that runs."}, turn=0)
            return
        session.servers = self._servers(servers)
        env = _own(meta).get("env")
        if self.visitor.is_local and isinstance(env, dict):
            session.env = env

    def _same_folder(self, session: HostedSession, cwd: str) -> None:
        if os.path.normpath(cwd) != os.path.normpath(session.record.cwd):
            raise RequestError.invalid_params(f"this session works in {session.record.cwd}", path="$.cwd")

    def _folder(self, path: str, where: str) -> str:
        if not os.path.isabs(path):
            raise RequestError.invalid_params(f"the path must be absolute: {path}", path=where)
        if not os.path.isdir(path):
            raise RequestError.invalid_params(f"this folder is not on the host's machine: {path}", path=where)
        allowed = self.visitor.folders
        real = os.path.realpath(path)
        if allowed is not None and not any(_is_below(real, os.path.realpath(each)) for each in allowed):
            raise RequestError.invalid_params(f"sessions may not work in {path}", path=where)
        return path

    def _folders(self, paths: Sequence[str]) -> list[str]:
        return [self._folder(path, "$.additionalDirectories") for path in paths]

    def _servers(self, servers: Any) -> list[Any]:
        """MCP servers run with the rights of the host, so that a program named by a remote client is refused."""
        for server in servers:
            if isinstance(server, v1.McpServerStdio) and not self.visitor.may_start_programs:
                raise RequestError.invalid_params(
                    f"the MCP server {server.name!r} is a program; this host starts none for remote clients",
                    path="$.mcpServers",
                )
        return list(servers)

    def _may(self, right: str) -> bool:
        return right in self.visitor.rights

    def _require(self, right: str) -> None:
        if not self._may(right) or self.kind.is_observer:
            raise RequestError(-32603, f"this token may not {right}", {"reason": "forbidden"})


def _read(call: Call, type: type[T]) -> T:
    return decode(type, call.params or Raw(b"{}"))


def _own(meta: Any) -> dict[str, Any]:
    """What a request carries for the host itself."""
    found = meta.get("dragoman") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def _foreign(meta: Any) -> dict[str, Any] | None:
    if meta is UNSET or not isinstance(meta, dict):
        return None
    return {name: value for name, value in meta.items() if name != "dragoman"} or None


def _option(options: Any, id: str) -> dict[str, Any]:
    for option in options or ():
        if isinstance(option, dict) and option.get("id") == id:
            return option
    return {}


def _read_cursor(cursor: str) -> int:
    if not cursor.startswith("p") or not cursor[1:].isdigit() or len(cursor) > 10:
        raise RequestError.invalid_params("this cursor is not one of this host", path="$.cursor")
    return int(cursor[1:])


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
