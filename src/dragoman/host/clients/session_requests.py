"""What a client may call about sessions, and what each call means for the sessions of the host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw

from dragoman.errors import RemoteProtocolError, RequestError
from dragoman.host.clients.admission import admit_folder, admit_folders, admit_servers, is_same_folder
from dragoman.host.clients.attachment import Attachment
from dragoman.host.clients.client_kind import options_for
from dragoman.host.clients.older_history import OlderHistory, tail_start
from dragoman.host.clients.opening_keys import FACT, read_key
from dragoman.host.clients.request_scope import RequestScope
from dragoman.host.clients.session_list import SessionList
from dragoman.host.environment import read_members
from dragoman.host.history.facts import note_comments, read_comments
from dragoman.host.history.frames import notice_frame, update_frame, variant_of
from dragoman.host.history.replay import HistoryReplay
from dragoman.host.methods.params import find_session, read_params, read_typed
from dragoman.host.working.delegation import Delegate
from dragoman.host.working.passed_prompts import steering_method
from dragoman.host.working.prompts import TAKEN
from dragoman.host.working.uploads import REFERENCE
from dragoman.registry.mode_reach import reaches_in
from dragoman.schema import decode, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call

T = TypeVar("T")
_REPLAY_PAGE: Final = 512
_REPEATED_EVENTS: Final = 200  # sent behind the answer to a `session/new` that was repeated on another connection
_BLOCKS: Final = ("image", "audio", "embeddedContext")
# What a client may ask for after its turn, by the name in the `_meta` of its prompt.
_WANTED: Final = ("report", "result", "patch", "events")


class SessionRequests:
    """The sessions of a host as one client uses them."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client
        self._attachments: dict[str, Attachment] = {}
        self._observed: set[str] = set()
        # Sessions that a client which is not ours has closed: it has to open them again to use them (rule 120).
        self._closed: set[str] = set()
        self._noted: set[tuple[str, ...]] = set()
        self._held: dict[str, list[asyncio.Future[None]]] = {}  # by their session; those that open one by ""
        self._older = OlderHistory(host, client)
        self.methods: dict[str, Callable[[Call], Coroutine[Any, Any, object]]] = {
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": SessionList(host, client).answer,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/close": self._close,
            "_dragoman/detach": self._detach,
            "_dragoman/take": self._take,
            "_dragoman/ledger": self._ledger,
            "_dragoman/history": self._older.answer,
            "_dragoman/turns": self._older.answer_turns,
            **PromptRequests(host, client).methods,
        }

    def only_observes(self, session: str) -> bool:
        """Whether the client attached with fewer rights than it has."""
        return self._client.kind.is_observer or session in self._observed

    def leave_all(self) -> None:
        """Leave every session, because the connection is over."""
        for attachment in list(self._attachments.values()):
            attachment.session.detach(attachment)
        self._attachments.clear()

    # Opening

    async def _new(self, call: Call) -> object:
        client, request = self._client, read(call, v1.NewSessionRequest)
        client.require("prompt")
        self._host.require_work("no session is opened")
        if self._host.is_retiring:
            await self._hold(call, "")
        meta = own_meta(request.meta)
        key = read_key(meta.get("key"))
        async with self._host.opening_keys.opening(client.visitor, key) as earlier:
            session = earlier or await self._open_new(call, request, meta, key)
        self._observe(session, meta)
        start = 0
        if earlier is not None and not self._is_attached(session):
            # The request came again on another connection: of a long session the end is enough, the rest is history.
            start = await self._older.begin(session, {"tail": _REPEATED_EVENTS, **meta})
            start = start or await tail_start(self._host, session.id, session.head, _REPEATED_EVENTS)

        def attach() -> None:
            if not self._is_attached(session):  # the same request, twice on this connection
                self._attach_from(session, start)

        call.after_response(attach)
        place = {**self._place(session), **({"start": start + 1} if start else {})}
        if session.facts.get("worktree"):
            place |= {"worktree": session.facts["worktree"], "cwd": session.record.cwd}
        return {"sessionId": session.id, **self._members(session), "_meta": {"dragoman": place}}

    async def _open_new(
        self, call: Call, request: v1.NewSessionRequest, meta: dict[str, Any], key: str | None
    ) -> HostedSession:
        client = self._client
        cwd = admit_folder(request.cwd, client.visitor)
        made = None
        if meta.get("worktree") is not None:
            from dragoman.host.methods.worktrees import make_for

            made = await make_for(meta["worktree"], cwd, client.visitor)
        try:
            session = await self._open_in(call, request, meta, key, cwd if made is None else made.cwd)
        except BaseException:
            if made is not None:
                await made.give_up()
            raise
        for note in () if made is None else made.notes:
            session.notice(note)
        if made is not None:
            session.facts["worktree"] = made.members
            session.describe()
        return session

    async def _open_in(
        self, call: Call, request: v1.NewSessionRequest, meta: dict[str, Any], key: str | None, cwd: str
    ) -> HostedSession:
        client = self._client
        agent = client.agent or meta.get("agent")
        async with self._host.opening(client.visitor, agent=agent, cwd=cwd) as session:
            session.servers = admit_servers(request.mcp_servers or (), client.visitor)
            session.directories = admit_folders(request.additional_directories or (), client.visitor)
            session.env = self._environment(meta)
            delegates = meta.get("delegate", client.settings.delegates)
            if delegates is True:
                session.delegate = Delegate(session.id, client, away_seconds=client.settings.away_seconds)
            session.opened_for = RequestScope(client, call.id)
            try:
                own = meta if client.visitor.is_local else {}
                session.facts.update(await self._host.kept_facts(own, session.record.cwd))
                if key is not None:
                    session.facts[FACT] = key
                await self._host.open_session(session, self._host.agent_meta(own, foreign_meta(request.meta)))
            except RequestError as error:
                raise client.explain(error, session.record.agent) from None
            finally:
                session.opened_for.is_over = True
        return session

    async def _load(self, call: Call) -> object:
        request = read(call, v1.LoadSessionRequest)
        session = await self._opened(call, request)
        attachment = self._reopen(session)
        try:
            start = await self._older.begin(session, own_meta(request.meta))
            cursor = await self._replay(session, start)
        except BaseException:
            self._drop(attachment)
            raise
        # The answer is the join: what is committed from here on is sent behind it.
        call.after_response(lambda: self._begin(attachment, cursor))
        older = {"start": start + 1} if start else {}
        return {**self._members(session), "_meta": {"dragoman": {**self._place(session), **older}}}

    async def _resume(self, call: Call) -> object:
        """Attach without a history: behind `after`, else at the beginning of the turn that runs, else at the end."""
        request = read(call, v1.ResumeSessionRequest)
        session = await self._opened(call, request)
        after, begun = own_meta(request.meta).get("after"), session.prompts.begun
        cursor = session.head if begun is None else begun.number - 1
        if isinstance(after, int) and self._client.kind.knows_us:
            if not session.log.oldest - 1 <= after <= session.head:
                data = {"reason": "cursor_expired", "oldest": session.log.oldest - 1, "head": session.head}
                raise RequestError(-32602, "these events are no longer kept; load the session", data)
            cursor = after
        attachment = self._reopen(session)
        call.after_response(lambda: self._begin(attachment, cursor))
        place = {**self._place(session), "after": cursor}
        return {**self._members(session), "_meta": {"dragoman": place}}

    async def _fork(self, call: Call) -> object:
        client, request = self._client, read(call, v1.ForkSessionRequest)
        parent = await self.find(request.session_id)
        client.require("prompt", parent.id)
        self._host.require_work("no session is opened")
        if self._host.is_retiring:
            await self._hold(call, "")
        may_fork = client.kind.forks and (client.settings.unstable or client.settings.forks)
        if not may_fork or not parent.agent_can("sessionCapabilities.fork"):
            raise RequestError.method_not_found(call.method)
        cwd = admit_folder(request.cwd, client.visitor)
        async with self._host.opening(client.visitor, agent=parent.record.agent, cwd=cwd) as session:
            session.servers = admit_servers(request.mcp_servers or (), client.visitor)
            session.directories = admit_folders(request.additional_directories or (), client.visitor)
            if own_meta(request.meta).get("keepsServers") is True:  # of its principal's own session
                session.servers, session.directories = parent.servers, parent.directories
            session.env = self._environment({}) or parent.env
            await self._host.fork_session(session, parent)
        call.after_response(lambda: self._attach_from(session, 0))
        return {"sessionId": session.id, **self._members(session), "_meta": {"dragoman": self._place(session)}}

    async def _opened(self, call: Call, request: v1.LoadSessionRequest | v1.ResumeSessionRequest) -> HostedSession:
        """Return the session that a client wants to attach to.

        What it sends along is used if the agent has to be started.
        """
        session = await self.find(request.session_id)
        if not is_same_folder(request.cwd, session.record.cwd):
            raise RequestError.invalid_params(f"this session works in {session.record.cwd}", path="$.cwd")
        servers = admit_servers(request.mcp_servers or (), self._client.visitor)
        directories = admit_folders(request.additional_directories or (), self._client.visitor)
        meta = own_meta(request.meta)
        if session.agent.is_running:
            if (servers and servers != session.servers) or (directories and directories != session.directories):
                session.notice("MCP servers and directories are not added to a session that runs.")
        else:
            session.servers = servers or session.servers
            session.directories = directories or session.directories
        self._closed.discard(session.id)
        self._observe(session, meta)
        self._use_environment(call, session, meta)
        if session.facts.get("isForeign"):
            await session.agent.ensure()
            await session.settle()
        return session

    def _environment(self, meta: dict[str, Any]) -> Mapping[str, str] | None:
        """Return the environment of the client, which a remote one does not have; None if it sent none."""
        if not self._client.visitor.is_local:
            return None
        own = read_members(meta["env"]) if "env" in meta else None
        return self._client.env if own is None else own

    def _use_environment(self, call: Call | None, session: HostedSession, meta: dict[str, Any]) -> None:
        """Let the next start of the agent have the environment of this client.

        An agent that runs keeps what it was started with. If that is another key or address, the client gets a notice,
        once, behind the answer to `call`.
        """
        env, client = self._environment(meta), self._client
        if env is None or self.only_observes(session.id):
            return
        session.env = env
        names = session.agent.differs_from(env) if client.kind.knows_us else ()
        if not names or (session.id, *names) in self._noted:
            return
        self._noted.add((session.id, *names))
        text = (
            f"The agent of this session was started with other values of {', '.join(names)} than this client has, and "
            "keeps them until it is started again. A new session has those of this client."
        )
        frame = notice_frame(session.id, text, "environment")

        def send() -> None:
            client.peer.post(frame)

        if call is None:
            send()
        else:
            call.after_response(send)

    async def _replay(self, session: HostedSession, start: int) -> int:
        """Send the history behind a number in pages; gives the number of its last event."""
        peer, kind = self._client.peer, self._client.kind
        replay = HistoryReplay(with_facts=kind.knows_us)
        own_id = msgspec.json.encode(session.id)
        cursor = 0
        for id, end in await self._host.ancestry(session):
            if start and end is not None:
                continue
            cursor = 0
            while True:
                head = session.head if end is None else end
                events = [] if cursor >= head else await self._host.read(id, cursor, _REPLAY_PAGE, head=head)
                events = events if end is None else [event for event in events if event.number <= end]
                replay.skim(event for event in events if event.number <= start)
                sent = [event for event in events if event.number > start] if start else events
                for item in replay.feed(sent) if events else replay.finish():
                    converted = kind.convert(item.update, variant_of(item.update))
                    if converted is None or (item.child is not None and not kind.unstable):
                        continue
                    if REFERENCE in converted and not kind.attachments:
                        converted = await session.uploads.fill_update(converted, session.record.principal)
                    name = own_id if item.child is None else msgspec.json.encode(item.child)
                    number = item.number if kind.knows_us and end is None else None
                    peer.post(update_frame(name, converted, {}, number, item.at, first=item.first))
                if not events:
                    if end is not None or cursor == session.head:
                        break
                    continue
                cursor = events[-1].number
                await peer.breathe()
        self._older.note_turns(session, replay)
        return cursor

    # Using

    def _prompt(self, call: Call) -> Coroutine[Any, Any, object]:
        """Accept a prompt here and now, so that a cancel behind it finds it."""
        request = read(call, v1.PromptRequest)
        if self._closed:
            self._require_open(request.session_id)
        call.cancelled_result = lambda: v1.PromptResponse("cancelled")
        session = self._host.find_live(request.session_id, self._client.visitor)
        if session is not None:
            return self._submit(call, request, session)
        # Begun here, so that a cancel that comes in one piece with the prompt waits for the session behind it.
        _ = self._host.restore(request.session_id, self._client.visitor)
        return self._submit_later(call, request)

    async def _submit_later(self, call: Call, request: v1.PromptRequest) -> object:
        return await self._submit(call, request, await self.find(request.session_id))

    def _submit(self, call: Call, request: v1.PromptRequest, session: HostedSession) -> Coroutine[Any, Any, object]:
        self._client.require("prompt", session.id)
        own = own_meta(request.meta)
        wanted = own.get("promptId")
        if own.get("queue") is False and session.is_busy:
            raise RequestError(-32603, "a turn of this session runs", {"reason": "busy"})
        is_known = isinstance(wanted, str) and session.prompts.knows(wanted)
        if self._host.is_retiring and not is_known:
            if self._host.on_kept is None:
                return self._hold(call, session.id)
            session.notice("This prompt waits: the host is being replaced, and the next one runs it.")
        self._use_environment(None, session, {})
        attachment = self._attachments.get(session.id) or self._attach(session, session.log.head)
        attachment.takes_events = attachment.takes_events or own.get("events") is True
        comments = read_comments(own["review"]) if "review" in own else []
        if comments is None:
            raise RequestError.invalid_params("review must be a list of places in changes", path="$._meta.dragoman")
        id = session.prompts.submit(
            self._client,
            request,
            wanted if isinstance(wanted, str) else None,
            foreign_meta(request.meta),
            steers=own.get("steer") is True,
            wants=[name for name in _WANTED if own.get(name) is True],
        )
        if comments:
            note_comments(session.facts, id, comments)
            session.describe()

        def answered() -> None:
            if call.is_cancelled and self._client.peer.is_open:
                # A cancel that came in one piece with the prompt: the call was answered without its first step.
                attachment.forget(id)
                session.prompts.cancel_prompt(id, self._client)
            self._answered(session)

        call.after_response(answered)
        known = session.prompts.outcomes.get(id)
        if known is not None and known["seq"] > attachment.cursor:
            known = None  # its answer must not overtake the updates that were not sent yet
        return self._outcome(call, session, id, known, attachment.await_outcome(id))

    def _hold(self, call: Call, session: str) -> Coroutine[Any, Any, object]:
        """Keep a request that the host after this one shall get: the client sends it there, once this one has ended.

        Noted here and now, so that a cancel behind a prompt finds it, and not the turn of another client.
        """
        client, held = self._client, asyncio.get_running_loop().create_future()
        if not client.kind.knows_us:  # it would not send it again, and could not see why it waits
            raise RequestError(-32603, self._host.why_held(), {"reason": "retiring"})
        self._held.setdefault(session, []).append(held)
        call.after_response(lambda: self._held[session].remove(held))
        if client.peer.is_open:
            client.peer.post(notice_frame(session, self._host.why_held()))

        async def wait() -> object:
            await held
            return v1.PromptResponse("cancelled")

        return wait()

    def cancel_held(self, session: str) -> bool:
        """End the prompts for a session that are held for this client; False if none is."""
        found = [held for held in self._held.get(session, ()) if not held.done()]
        for held in found:
            held.set_result(None)
        return bool(found)

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
                if not call.is_cancelled or not self._client.peer.is_open:
                    raise
                session.prompts.cancel_prompt(id, self._client)  # its turn still ends in order, with one answer
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
        if "error" in outcome:
            error = outcome["error"]
            raise self._client.explain(
                RequestError(error["code"], error["message"], error.get("data")), session.record.agent
            )
        if outcome.get(TAKEN):
            return {**outcome["result"], "_meta": {"dragoman": {TAKEN: True}}}
        return outcome["result"]

    async def _set_mode(self, call: Call) -> object:
        request = read(call, v1.SetSessionModeRequest)
        self._require_open(request.session_id)
        session = await self.find(request.session_id)
        self._client.require("prompt", session.id)
        await session.settings.set_mode(self._client, request.mode_id)
        return {}

    async def _set_option(self, call: Call) -> object:
        request: Any = msgspec.json.decode(call.params or b"{}")
        if not isinstance(request, dict) or not isinstance(request.get("configId"), str):
            raise RequestError.invalid_params("configId is missing", path="$.configId")
        self._require_open(str(request.get("sessionId")))
        session = await self.find(str(request.get("sessionId")))
        self._client.require("prompt", session.id)
        options = await session.settings.set_option(self._client, request["configId"], request.get("value"))
        answer: dict[str, Any] = {"configOptions": options_for(self._client.kind, options)}
        if self._client.kind.knows_us:
            answer["_meta"] = {"dragoman": {"reach": _reach(session)}}
        return answer

    # Ending

    async def _delete(self, call: Call) -> object:
        """Delete a session; one that is missing or of another principal counts as deleted: ids cannot be probed."""
        request = read(call, v1.DeleteSessionRequest)
        session = await self._host.find(request.session_id, self._client.visitor)
        self._client.require("prompt", request.session_id)
        if session is not None:
            if session.is_busy:
                raise RequestError.invalid_request("the session works; cancel its turn first")
            # To its end also if the client goes away: half of it would leave an agent that no request finds any more.
            await asyncio.shield(self._host.run(self._host.delete(session)))
        return {}

    async def _close(self, call: Call) -> object:
        """End the turn and the agent of a session.

        Editors send it when a tab is closed. So it is for this client only if it is not one of ours and others use the
        session: its own prompts are cancelled, and it leaves.
        """
        id = read(call, v1.CloseSessionRequest).session_id
        self._require_open(id)
        session, client = await self.find(id), self._client
        client.require("prompt", session.id)
        if not client.kind.knows_us:
            self._closed.add(session.id)
            if session.is_used_besides(client):
                session.prompts.cancel_all_of(client)
                self._leave(session)
                return {}
        await asyncio.shield(self._host.run(self._host.close_session(session, "The session was closed.")))
        return {}

    async def _detach(self, call: Call) -> object:
        self._leave(await self._named(call))
        return {}

    async def _take(self, call: Call) -> object:
        """Let this client serve the files and terminals of a session from here on."""
        session = await self._named(call)
        self._client.require("prompt", session.id)
        if session.delegate is None:
            raise RequestError.invalid_request("the host itself serves the files and terminals of this session")
        session.delegate.take(self._client)
        return {}

    async def _ledger(self, call: Call) -> object:
        """Answer whether the host writes the turns of a session into the ledger that the client would write into."""
        session = await self._named(call)
        ledger = self._host.ledger_for(session)
        file = msgspec.json.decode(call.params or b"{}").get("file")
        return {"isWritten": ledger is not None and ledger.identity is not None and file == ledger.identity}

    # Inside

    async def find(self, id: str) -> HostedSession:
        """Raises: RequestError if the client does not have such a session."""
        session = await self._host.find(id, self._client.visitor)
        if session is None:
            raise RequestError.not_found("there is no such session")
        return session

    def _require_open(self, id: str) -> None:
        """Raises: RequestError if the client has closed the session."""
        if id in self._closed:
            raise RequestError.not_found("this session was closed; load or resume it", {"sessionId": id})

    async def _named(self, call: Call) -> HostedSession:
        request: Any = msgspec.json.decode(call.params or b"{}")
        return await self.find(str(request.get("sessionId") if isinstance(request, dict) else ""))

    def _attach(self, session: HostedSession, cursor: int) -> Attachment:
        attachment = self._reopen(session)
        self._begin(attachment, cursor)
        return attachment

    def _reopen(self, session: HostedSession) -> Attachment:
        """Return a new attachment in the place of one that the client may have; it is sent nothing before `_begin`."""
        attachment = Attachment(session, self._client, session.head)
        earlier = self._attachments.get(session.id)
        if earlier is not None:
            attachment.take_over(earlier)
            session.detach(earlier)
        self._attachments[session.id] = attachment
        if self._client.peer.is_open:
            session.attachments.add(attachment)
        return attachment

    def _begin(self, attachment: Attachment, cursor: int) -> None:
        """Send a client what is behind a number, unless it has left, or has attached once more."""
        session = attachment.session
        is_current = self._attachments.get(session.id) is attachment
        if is_current and not session.is_closed and self._client.peer.is_open:
            attachment.cursor = cursor
            session.attach(attachment)

    def _drop(self, attachment: Attachment) -> None:
        if self._attachments.get(attachment.session.id) is attachment:
            self._leave(attachment.session)

    def _answered(self, session: HostedSession) -> None:
        attachment = self._attachments.get(session.id)
        if attachment is not None:
            attachment.answered()

    def _attach_from(self, session: HostedSession, cursor: int) -> None:
        if not session.is_closed:
            self._attach(session, cursor)

    def _is_attached(self, session: HostedSession) -> bool:
        attachment = self._attachments.get(session.id)
        return attachment is not None and attachment in session.attachments

    def _leave(self, session: HostedSession) -> None:
        attachment = self._attachments.pop(session.id, None)
        if attachment is not None:
            session.detach(attachment)

    def _observe(self, session: HostedSession, meta: dict[str, Any]) -> None:
        if meta.get("role") == "observer":
            self._observed.add(session.id)
        else:
            self._observed.discard(session.id)

    def _members(self, session: HostedSession) -> dict[str, Any]:
        members = session.answer_members()
        if isinstance(members.get("configOptions"), list):
            members["configOptions"] = options_for(self._client.kind, members["configOptions"])
        return members

    def _place(self, session: HostedSession) -> dict[str, Any]:
        place: dict[str, Any] = {"head": session.head, "readOnly": session.is_read_only}
        if self._client.kind.knows_us:
            place |= {
                "agent": session.record.agent,
                "agentSessionId": session.agent_session,
                "turn": session.prompts.place,
                "waiting": [item.shown() for item in session.prompts.waiting],
                "questions": [question.id for question in session.questions],
                "outcomes": dict(session.prompts.outcomes),
                "reach": _reach(session),
            }
            if session.facts.get("usage") is not None:
                place["usage"] = session.facts["usage"]
        return place


def _reach(session: HostedSession) -> dict[str, Any]:
    return reaches_in(session.record.agent, session.facts.get("modes"), session.facts.get("configOptions"))


class PromptRequests:
    """The requests of one client about prompts, besides `session/prompt` itself: methods of the host's own.

    Which method takes text for the turn that runs is what the agent announced in `_meta.dragoman.steer` of its
    capabilities; an agent without one cannot be steered, and the client gets an error instead of waiting.
    """

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client
        self.methods: dict[str, Callable[[Call], Coroutine[Any, Any, object]]] = {
            "_dragoman/input": self._input,
            "_dragoman/steer": self._steer,
            "_dragoman/reorder": self._reorder,
        }

    async def _input(self, call: Call) -> object:
        """Answer what the agent of a session takes in prompts, and whether text reaches a running turn."""
        session, _ = await self._read(call)
        found: dict[str, bool] = {name: session.agent_can(f"promptCapabilities.{name}") for name in _BLOCKS}
        return {**found, "steer": steering_method(session, self._host) is not None}

    async def _steer(self, call: Call) -> object:
        """Pass text to the turn that runs: `{"accepted": bool}`.

        Nothing of it is kept here. A client that sends it as a prompt with `steer` gets it run when it was not taken.
        """
        session, params = await self._read(call)
        self._client.require("prompt", session.id)
        text = params.get("text")
        if not isinstance(text, str) or not text:
            raise RequestError.invalid_params("text must be a non-empty string", path="$.text")
        method, run = steering_method(session, self._host), session.agent.run
        if method is None:
            raise RequestError.method_not_found(call.method)
        if run is None or not run.is_open or session.prompts.running is None:
            return {"accepted": False}
        if self._host.quotas is not None:
            self._host.quotas.count_prompt(session.record.principal)
        answer = await run.agent.request(method, {"sessionId": session.agent_session, "text": text})
        return {"accepted": isinstance(answer, dict) and answer.get("accepted") is True}

    async def _reorder(self, call: Call) -> object:
        """Put prompts that wait into another order: `{"promptIds": [...]}`, all that wait, in their order."""
        session, params = await self._read(call)
        self._client.require("prompt", session.id)
        ids = params.get("promptIds")
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids) or len(set(ids)) != len(ids):
            raise RequestError.invalid_params("promptIds must be a list of different ids", path="$.promptIds")
        order = session.prompts.reorder(ids)
        self._host.list_changes.note(session)
        return {"promptIds": order}

    async def _read(self, call: Call) -> tuple[HostedSession, dict[str, Any]]:
        params = read_params(call.params)
        return await find_session(self._host, self._client, params), params


def read(call: Call, type: type[T]) -> T:
    """Decode the params of a call. Raises: RequestError."""
    try:
        return decode(type, call.params or Raw(b"{}"))
    except RemoteProtocolError:
        return read_typed(type, call.params)  # which says what is wrong, also in a handler that runs already


def own_meta(meta: Any) -> dict[str, Any]:
    """Return what a request carries for the host itself."""
    found = meta.get("dragoman") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def foreign_meta(meta: Any) -> dict[str, Any] | None:
    """Return what a request carries for the agent."""
    if meta is UNSET or not isinstance(meta, dict):
        return None
    return {name: value for name, value in meta.items() if name != "dragoman"} or None
