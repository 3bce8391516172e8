"""What the bridge does with each message, and what it remembers while there is no line. Without I/O.

Theory of operation
-------------------
Ids are never copied: a request of the editor gets an id of ours towards the host, one of the host gets an id of ours
towards the editor. A request is open until its answer went to the editor, whichever line brings it.

*A line was lost.* Open requests count as not sent; sessions are away; questions that carry a `questionId` stay open in
the editor, other requests of the host are withdrawn there. What the editor sends now waits.

*A line is back.* Each session is resumed behind the last event that was seen. Its requests are sent again when that is
answered: a prompt with the `promptId` it had, so that it runs once and its outcome is found; `session/new` with its
`key`, so that one session is opened; the others may run twice without harm, except those of extensions, which fail. The
host then shows its open questions again: one that is open in the editor is only given its new id, one that the editor
has answered is answered at once.

*An answer to a prompt* may come as the answer of the request, or as `_dragoman/turn_ended` in the order of the log;
the first one counts.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED
from dragoman.host.bridge.state import BridgedSession, LoadedHistory, OpenQuestion, OpenRequest
from dragoman.wire.open_requests import OpenRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.host.bridge.paths import PathMap
    from dragoman.wire.ids import Id

Json = dict[str, Any]
_OPENING: Final = frozenset(("session/load", "session/resume"))
_CANCEL: Final = "$/cancel_request"
_MOST_OPEN: Final = 10_000  # of each kind; an editor has tens


class Traffic:
    """Messages between one editor and the lines to one host."""

    def __init__(
        self,
        to_editor: Callable[[Json], None],
        *,
        paths: PathMap,
        agent: str | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Start without a line.

        Args:
            to_editor: Sends a message to the editor.
            paths: Of the two machines.
            agent: The agent of the host that new sessions use.
            note: Called with sentences for the user.
        """
        self._to_editor = to_editor
        self._to_host: Callable[[Json], None] | None = None
        self._paths = paths
        self._agent = agent
        self._note = note
        self.is_host = False
        """Whether the other end keeps sessions while the line is cut."""
        self._requests: OpenRequests[OpenRequest] = OpenRequests(_MOST_OPEN)
        self._resumes: OpenRequests[BridgedSession] = OpenRequests(_MOST_OPEN, prefix="resume-")
        self._sessions: dict[str, BridgedSession] = {}
        self._asked: OpenRequests[OpenQuestion] = OpenRequests(_MOST_OPEN)
        self._questions: dict[str, OpenQuestion] = {}
        self._held: list[tuple[str | None, Json]] = []
        self._own_prompts: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        """Whether the editor waits for something."""
        return bool(self._requests or self._held)

    @property
    def is_asking(self) -> bool:
        """Whether the editor waits for an answer that comes soon: not for the end of a turn."""
        return any(request.prompt_id is None for _, request in self._requests)

    # The editor

    def request_from_editor(self, message: Json) -> None:
        """Take a request other than `initialize`."""
        method = str(message["method"])
        if method.startswith("_dragoman/") and not self.is_host:  # other agents do not know it, and need not answer
            error = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}
            self._to_editor({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
        if self._requests.is_full:  # while the line is cut everything waits here
            error = {"code": INTERNAL_ERROR, "message": "too many requests are open"}
            self._to_editor({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
        params = self._paths.request_to_remote(method, message.get("params"))
        session = params.get("sessionId") if isinstance(params, dict) else None
        request = OpenRequest(message["id"], method, params, session if isinstance(session, str) else None)
        if isinstance(params, dict):
            self._prepare(request, params)
        self._send_if_possible(self._requests.open_own(request), request)

    def _prepare(self, request: OpenRequest, params: Json) -> None:
        if request.method == "session/prompt" and request.session is not None:
            own = _own(params)
            given = own.get("promptId")
            request.prompt_id = given if isinstance(given, str) else f"prompt-{secrets.token_hex(16)}"
            request.params = _with_own(params, {"promptId": request.prompt_id})
            self._own_prompts.add(request.prompt_id)
        elif request.method == "session/new":
            named = {} if self._agent is None else {"agent": self._agent}
            key = {"key": f"new-{secrets.token_hex(16)}"} if self.is_host else {}
            if named or key:
                request.params = _with_own(params, {**key, **named, **_own(params)})
        elif request.method in _OPENING and request.session is not None and self.is_host:
            session = BridgedSession(request.session, str(params.get("cwd", "")), params.get("mcpServers") or [])
            session.replay = LoadedHistory() if request.method == "session/load" else None
            self._sessions[request.session] = session

    def notification_from_editor(self, message: Json) -> None:
        method, params = str(message["method"]), message.get("params")
        if method == _CANCEL:
            self._cancel_request(params.get("requestId") if isinstance(params, dict) else None)
            return
        params = self._paths.request_to_remote(method, params)
        session = params.get("sessionId") if isinstance(params, dict) else None
        if method == "session/cancel" and isinstance(session, str) and self._cancel_prompts(session):
            return
        self._send_or_hold(session if isinstance(session, str) else None, {**message, "params": params})

    def answer_from_editor(self, message: Json) -> None:
        """Keep the answer to a question until the host confirms that the question is decided."""
        question = self._asked.close(message["id"]) if isinstance(message.get("id"), int) else None
        if question is None:
            return  # withdrawn, or never asked
        question.answer = {name: message[name] for name in ("result", "error") if name in message}
        self._answer(question)

    def _answer(self, question: OpenQuestion) -> None:
        if self._to_host is not None and question.host_id is not None and question.answer is not None:
            self._to_host({"jsonrpc": "2.0", "id": question.host_id, **question.answer})

    def _cancel_request(self, editor_id: Any) -> None:
        for id, request in self._requests:
            if request.editor_id == editor_id:
                request.is_cancelled = True
                if request.is_sent and self._to_host is not None:
                    self._to_host(_notification(_CANCEL, {"requestId": id}))
                elif not request.was_sent:
                    self._never_sent(id)
                return

    def _cancel_prompts(self, session: str) -> bool:
        """Cancel the editor's own prompts one by one, if the host knows them from an earlier line.

        `session/cancel` on a new line could reach the turn of another client.
        """
        prompts = [(id, asked) for id, asked in self._requests if asked.session == session and asked.prompt_id]
        if not prompts or all(request.is_sent and not request.was_sent for _, request in prompts):
            return False
        for id, request in prompts:
            request.is_cancelled = True
            if request.is_sent and self._to_host is not None:
                self._to_host(_notification(_CANCEL, {"requestId": id}))
            elif not request.was_sent:
                self._never_sent(id)
        return True

    def _never_sent(self, id: Id) -> None:
        request = self._requests.close(id)
        if request is None:
            return
        if request.prompt_id is not None:
            self._reply(request, {"result": {"stopReason": "cancelled"}})
        else:
            self._reply(request, {"error": {"code": REQUEST_CANCELLED, "message": "Request cancelled"}})

    # The line

    def line_opened(self, send: Callable[[Json], None]) -> None:
        """Resume what was open, because a line is ready."""
        self._to_host = send
        for session in self._sessions.values():
            if session.state == "away":
                self._resume(session, session.after())
        self._send_waiting(None)

    def line_lost(self) -> None:
        """Hold everything back: nothing can be sent for now."""
        self._to_host = None
        self._resumes.close_all()
        for _, request in self._requests:
            request.was_sent = request.was_sent or request.is_sent
            request.is_sent = False
        for session in self._sessions.values():
            if session.state != "opening":
                session.state = "away"
        for question in [asked for _, asked in self._asked] + list(self._questions.values()):
            question.host_id = None
            if question.question_id is None and self._asked.close(question.editor_id) is not None:
                self._to_editor(_notification(_CANCEL, {"requestId": question.editor_id}))

    def fail_all(self, sentence: str, reason: str) -> None:
        """Answer everything that is open with an error."""
        self._held.clear()
        for _, request in self._requests.close_all():
            data: Json = {"reason": reason}
            if request.prompt_id is not None:
                data |= {"promptId": request.prompt_id, "maybeExecuted": request.was_sent or request.is_sent}
            if request.method in _OPENING and request.session is not None:
                self._sessions.pop(request.session, None)
            self._reply(request, {"error": {"code": INTERNAL_ERROR, "message": sentence, "data": data}})

    def _resume(self, session: BridgedSession, after: int) -> None:
        assert self._to_host is not None
        session.state = "resuming"
        id = self._resumes.open_own(session)
        params: Json = {"sessionId": session.id, "cwd": session.cwd, "mcpServers": session.servers}
        params = _with_own(params, {"after": after})
        self._to_host({"jsonrpc": "2.0", "id": id, "method": "session/resume", "params": params})

    def _resumed(self, session: BridgedSession, message: Json) -> None:
        error = message.get("error")
        if isinstance(error, dict):
            data = error.get("data")
            if isinstance(data, dict) and data.get("reason") == "cursor_expired":
                self._note("the host no longer keeps all that was missed; load the session again to see it")
                session.join(int(data.get("head", 0)))
                self._resume(session, session.after())
                return
            self._sessions.pop(session.id, None)
            self._fail_session(session.id, error)
            return
        place = _own(message.get("result"))
        session.state = "attached"
        found = place.get("questions")
        if isinstance(found, list):
            for question in list(self._questions.values()):
                if question.session == session.id and question.question_id not in found:
                    self._decided(question.question_id)
        self._send_waiting(session.id)

    def _fail_session(self, session: str, error: Json) -> None:
        for id, request in self._requests:
            if request.session == session:
                self._requests.close(id)
                self._reply(request, {"error": error})
        for question in list(self._questions.values()):
            if question.session == session:
                self._decided(question.question_id)

    def _send_waiting(self, session: str | None) -> None:
        """Send what waits: for one session that is back, or for none in particular."""
        for id, request in self._requests:
            if not request.is_sent:
                self._send_if_possible(id, request)
        held, self._held = self._held, []
        for target, message in held:
            self._send_or_hold(target, message)

    def _is_ready(self, session: str | None) -> bool:
        known = None if session is None else self._sessions.get(session)
        return self._to_host is not None and (known is None or known.state in ("opening", "attached"))

    def _send_or_hold(self, session: str | None, message: Json) -> None:
        if self._to_host is not None and self._is_ready(session):
            self._to_host(message)
        else:
            self._held.append((session, message))

    def _send_if_possible(self, id: Id, request: OpenRequest) -> None:
        if self._to_host is None or not self._is_ready(request.session):
            return
        if request.was_sent and not _may_repeat(request.method):
            self._requests.close(id)
            sentence = "the line broke before the answer came; it is not known whether this was done"
            self._reply(request, {"error": {"code": INTERNAL_ERROR, "message": sentence, "data": {"reason": "line"}}})
            return
        if request.method in _OPENING and request.session in self._sessions:
            session = self._sessions[request.session]
            if session.replay is not None:
                session.replay.start_again()
        request.is_sent = True
        params = {} if request.params is None else {"params": request.params}
        self._to_host({"jsonrpc": "2.0", "id": id, "method": request.method, **params})
        if request.is_cancelled:
            self._to_host(_notification(_CANCEL, {"requestId": id}))

    # The host

    def from_host(self, message: Json) -> None:
        """Take any message of the host, apart from its answer to `initialize`."""
        method, id = message.get("method"), message.get("id")
        if method is None:
            self._answer_from_host(message)
        elif id is not None:
            self._question(message)
        else:
            self._notification_from_host(str(method), message)

    def _answer_from_host(self, message: Json) -> None:
        id = message.get("id")
        if not isinstance(id, int | str):
            return
        resumed = self._resumes.close(id)
        if resumed is not None:
            self._resumed(resumed, message)
            return
        request = self._requests.close(id)
        if request is None:
            return
        if "error" in message:
            if request.method in _OPENING and request.session is not None:
                self._sessions.pop(request.session, None)
            self._reply(request, {"error": self._with_both_paths(request, message["error"])})
            return
        result = message.get("result")
        self._note_result(request, result)
        self._reply(request, {"result": _without_own(self._paths.result_to_local(request.method, result))})

    def _note_result(self, request: OpenRequest, result: Any) -> None:
        if not self.is_host:
            return
        made = result.get("sessionId") if isinstance(result, dict) else None
        if request.method == "session/new" and isinstance(made, str) and isinstance(request.params, dict):
            session = BridgedSession(made, str(request.params.get("cwd", "")), request.params.get("mcpServers") or [])
            session.join(0)  # its first events follow this answer
            self._sessions[made] = session
        elif request.method in _OPENING and request.session in self._sessions:
            place = _own(result)
            self._sessions[request.session].join(int(place["after"] if "after" in place else place.get("head", 0)))
        elif request.method in ("session/close", "session/delete") and request.session is not None:
            self._sessions.pop(request.session, None)

    def _with_both_paths(self, request: OpenRequest, error: Any) -> Any:
        """Name a folder that the host does not have as both machines know it."""
        if request.method not in ("session/new", "session/load", "session/resume") or not isinstance(error, dict):
            return error
        remote = request.params.get("cwd") if isinstance(request.params, dict) else None
        if (
            error.get("code") != INVALID_PARAMS
            or not isinstance(remote, str)
            or remote not in str(error.get("message"))
        ):
            return error
        local = self._paths.to_local(remote)
        hint = f"here it is {local}, there {remote}; say which folder is which with --map LOCAL=REMOTE"
        return {**error, "message": f"{error['message']} ({hint})"}

    def _question(self, message: Json) -> None:
        method, params = str(message["method"]), message.get("params")
        session = params.get("sessionId") if isinstance(params, dict) else None
        question_id = _own(params).get("questionId")
        known = self._questions.get(question_id) if isinstance(question_id, str) else None
        if known is not None:
            known.host_id = message["id"]
            self._answer(known)
            return
        question = OpenQuestion(
            message["id"],
            session if isinstance(session, str) else None,
            question_id if isinstance(question_id, str) else None,
        )
        question.editor_id = self._asked.open_own(question)
        if question.question_id is not None:
            self._questions[question.question_id] = question
        params = _without_own(self._paths.request_to_local(method, params))
        self._to_editor({"jsonrpc": "2.0", "id": question.editor_id, "method": method, "params": params})

    def _decided(self, question_id: str | None) -> None:
        """Close a question that needs no answer any more."""
        question = self._questions.pop(question_id, None) if question_id is not None else None
        if question is not None and self._asked.close(question.editor_id) is not None:
            self._to_editor(_notification(_CANCEL, {"requestId": question.editor_id}))

    def _notification_from_host(self, method: str, message: Json) -> None:
        params = message.get("params")
        if method == _CANCEL:
            self._withdrawn(params.get("requestId") if isinstance(params, dict) else None)
        elif method == "session/update" and isinstance(params, dict):
            self._update(params)
        elif method.startswith("_dragoman/") and self.is_host and isinstance(params, dict):
            self._own_notification(method, params)
        else:
            params = self._paths.request_to_local(method, params)
            self._to_editor({**message, "params": params} if params is not None else message)

    def _withdrawn(self, host_id: Any) -> None:
        for _, question in self._asked:
            if question.host_id == host_id:
                if question.question_id is None:
                    self._to_editor(_notification(_CANCEL, {"requestId": question.editor_id}))
                else:
                    self._decided(question.question_id)
                    if self._to_host is not None:  # a request that is withdrawn still has one answer (rule 204)
                        error = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
                        self._to_host({"jsonrpc": "2.0", "id": host_id, "error": error})

    def _update(self, params: Json) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        number = _own(params).get("seq")
        update = params.get("update")
        if session is not None and session.replay is not None:
            update = session.replay.take(update)
            if update is None:
                return
        elif session is not None and isinstance(number, int) and not session.is_new(number):
            return
        if self._repeats_own_prompt(update):
            return
        shown = self._paths.request_to_local("session/update", _without_own({**params, "update": update}))
        self._to_editor(_notification("session/update", shown))

    def _repeats_own_prompt(self, update: Any) -> bool:
        """Whether this is our prompt, which on a new line the host takes for one of another client and shows."""
        if not isinstance(update, dict) or update.get("sessionUpdate") != "user_message_chunk":
            return False
        return str(update.get("messageId")).removeprefix("msg-") in self._own_prompts and self.is_host

    def _own_notification(self, method: str, params: Json) -> None:
        session, number = self._sessions.get(str(params.get("sessionId"))), params.get("seq")
        if session is not None and isinstance(number, int) and not session.is_new(number):
            return
        if method == "_dragoman/turn_ended":
            self._turn_ended(params)
        elif method == "_dragoman/answered":
            self._decided(str(params.get("questionId")))
        elif method == "_dragoman/notice":
            self._note(str(params.get("text")))

    def _turn_ended(self, params: Json) -> None:
        for id, request in self._requests:
            if request.prompt_id is not None and request.prompt_id == params.get("promptId"):
                self._requests.close(id)
                name = "error" if "error" in params else "result"
                self._reply(request, {name: params.get(name)})

    # Inside

    def _reply(self, request: OpenRequest, answer: Json) -> None:
        self._to_editor({"jsonrpc": "2.0", "id": request.editor_id, **answer})


def _may_repeat(method: str) -> bool:
    """Whether a request may be sent again that a host has perhaps seen already."""
    return method.startswith("session/") or method in ("authenticate", "logout")


def _notification(method: str, params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _own(params: Any) -> Json:
    meta = params.get("_meta") if isinstance(params, dict) else None
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    return own if isinstance(own, dict) else {}


def _with_own(params: Json, own: Json) -> Json:
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    return {**params, "_meta": {**meta, "dragoman": {**_own(params), **own}}}


def _without_own(params: Any) -> Any:
    """Return what is for the editor: without what only hosts and their clients understand."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or "dragoman" not in meta:
        return params
    rest = {name: value for name, value in meta.items() if name != "dragoman"}
    without = {name: value for name, value in params.items() if name != "_meta"}
    return {**without, "_meta": rest} if rest else without
