"""A client of version 2 at a host of ours: the host keeps the queue of prompts and reports every turn.

Theory of operation
-------------------
The host is an agent of version 1 with several clients. To it this translator is a client that knows the host: it gets
`_dragoman/turn_started` and `_dragoman/turn_ended` of every turn, also of those that other clients began. So the state
that a client of version 2 sees is that of the session, not of its own prompts.

A prompt goes to the host at once, under a `promptId`. It is accepted, with the id of its message, when its turn starts;
a prompt that the host refuses or that leaves its queue was never accepted. A prompt of another client is shown as the
host shows it. The turn that runs when a client attaches comes with the answer to `session/resume`.

`session/close` detaches this client only, because editors send it when a tab is closed; it is passed on for clients
that know the host themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import REQUEST_CANCELLED
from dragoman.versions.frames import Frame, Side, error, members, objects, text, without
from dragoman.versions.version2 import to_v1
from dragoman.versions.version2.v2_client import V2ClientV1Agent, failure, stop

if TYPE_CHECKING:
    from dragoman.versions.version2.v2_session import HeldPrompt, V2Session

_SHOWN_PLACE: Final = ("head", "readOnly")
_WITHDRAWN: Final = error(REQUEST_CANCELLED, "the prompt was withdrawn before its turn began")


class _Sent:
    """A prompt of this client that the host has, and that has not ended."""

    __slots__ = ("host_id", "is_started", "prompt", "session_id")

    def __init__(self, session_id: str, prompt: HeldPrompt) -> None:
        self.session_id = session_id
        self.prompt = prompt
        self.host_id = ""
        self.is_started = False


class V2ClientAtHost(V2ClientV1Agent):
    """The translator between a client of version 2 and a host."""

    def __init__(self, mark: str = "dragoman") -> None:
        super().__init__(mark)
        self._knows_host = False
        self._sent: dict[str, _Sent] = {}
        self._turns: dict[str, str] = {}
        """By session, the prompt whose turn runs."""

    def client_capabilities(self, capabilities: Any) -> Frame:
        """Return what any client of version 2 announces, and that every turn is reported to it."""
        made = to_v1.client_capabilities(capabilities)
        own = members(made.get("_meta")).get("dragoman")
        self._knows_host = isinstance(own, dict)
        made["_meta"] = {**members(made.get("_meta")), "dragoman": {**members(own), "activity": True}}
        return made

    def shown_meta(self, meta: Any) -> Frame | None:
        """Leave out what is for clients that know the host."""
        given = super().shown_meta(meta)
        if given is None or self._knows_host or "dragoman" not in given:
            return given
        place = {name: value for name, value in members(given["dragoman"]).items() if name in _SHOWN_PLACE}
        rest = without(given, "dragoman")
        return {**rest, "dragoman": place} if place else rest or None

    def on_notification(self, side: Side, method: str, params: Any) -> None:
        given = members(params)
        if side == "agent" and method.startswith("_dragoman/"):
            if method == "_dragoman/turn_started":
                self._on_started(given)
            elif method == "_dragoman/turn_ended":
                self._on_ended(given)
            if self._knows_host:
                self.notify("client", method, params)
        elif side == "client" and method == "session/cancel":
            self._cancel(params)
        elif side == "client" and method == "$/cancel_request" and self._take_back(given.get("requestId")):
            pass
        else:
            super().on_notification(side, method, params)

    # Turns

    def _prompt(self, request_id: Any, params: Frame) -> None:
        found = self._read_prompt(request_id, params)
        if found is None:
            return
        session_id, _, prompt = found
        meta = members(params.get("_meta"))
        own = members(meta.get("dragoman"))
        prompt_id = text(own.get("promptId")) or self.make_id("prompt")
        sent = self._sent[prompt_id] = _Sent(session_id, prompt)
        asked = {**prompt.translated, "_meta": {**meta, "dragoman": {**own, "promptId": prompt_id}}}
        sent.host_id = self.ask(
            "agent",
            "session/prompt",
            asked,
            lambda result: self._on_result(prompt_id, stop(result)),
            lambda reason: self._on_result(prompt_id, failure(reason)),
        )

    def _on_started(self, params: Frame) -> None:
        session_id, prompt_id = text(params.get("sessionId")), text(params.get("promptId"))
        session = self._session(session_id)
        is_known = self._turns.get(session_id) == prompt_id
        self._turns[session_id] = prompt_id
        sent = self._sent.get(prompt_id)
        if sent is not None and not sent.is_started:
            sent.is_started = True
            message_id = text(params.get("messageId")) or self.make_id("prompt")
            self.answer("client", sent.prompt.id, {"messageId": message_id})
            session.insert_prompt(message_id, sent.prompt.params.get("prompt"))
        elif not is_known:
            session.begin_turn()

    def _on_result(self, prompt_id: str, idle: Frame) -> None:
        """Take the host's answer to a prompt of this client."""
        sent = self._sent.pop(prompt_id, None)
        if sent is None:
            return
        if sent.is_started:
            self._end_turn(sent.session_id, prompt_id, idle)
        elif idle["stopReason"] == "error":
            self.fail("client", sent.prompt.id, idle["error"])
        elif idle["stopReason"] == "cancelled":
            self.fail("client", sent.prompt.id, _WITHDRAWN)
        else:  # a prompt with an id that the host has seen before: it does not run again
            self.answer("client", sent.prompt.id, {"messageId": self.make_id("prompt")})
            self._session(sent.session_id).send_state()

    def _on_ended(self, params: Frame) -> None:
        reason = params.get("error")
        idle = failure(reason) if isinstance(reason, dict) else stop(params.get("result"))
        self._end_turn(text(params.get("sessionId")), text(params.get("promptId")), idle)

    def _end_turn(self, session_id: str, prompt_id: str, idle: Frame) -> None:
        if self._turns.get(session_id) == prompt_id:
            del self._turns[session_id]
            self._session(session_id).end_turn(idle)

    def on_opened(self, session_id: str, session: V2Session, result: Frame) -> None:
        """Attach the client to a session that may be at work."""
        place = members(members(result.get("_meta")).get("dragoman"))
        turn = members(place.get("turn"))
        session.is_running = bool(turn)
        session.questions = set()  # the host shows open questions again
        if turn:
            self._turns[session_id] = text(turn.get("promptId"))
        else:
            self._turns.pop(session_id, None)

    # Cancelling and leaving

    def _cancel(self, params: Any) -> None:
        """Withdraw the waiting prompts of this client; cancel the turn unless it is another's and one was waiting."""
        session_id = text(members(params).get("sessionId"))
        waiting = [sent for sent in self._sent.values() if sent.session_id == session_id and not sent.is_started]
        is_own = any(sent.session_id == session_id and sent.is_started for sent in self._sent.values())
        for sent in waiting:
            self.notify("agent", "$/cancel_request", {"requestId": sent.host_id})
        if is_own or not waiting:
            self.notify("agent", "session/cancel", params)

    def _take_back(self, request_id: Any) -> bool:
        for sent in self._sent.values():
            if sent.prompt.id == request_id and not sent.is_started:
                self.notify("agent", "$/cancel_request", {"requestId": sent.host_id})
                return True
        return False

    def _close(self, request_id: Any, params: Frame) -> None:
        if self._knows_host:
            super()._close(request_id, params)
            return
        session_id = text(params.get("sessionId"))
        asked = {"sessionId": session_id}
        self.pass_request("client", request_id, "_dragoman/detach", asked, lambda result: self._left(session_id))

    def _list(self, request_id: Any, params: Frame) -> None:
        self.pass_request("client", request_id, "session/list", params, self._listed)

    def _listed(self, result: Any) -> Any:
        if self._knows_host or not isinstance(result, dict):
            return result
        sessions = []
        for session in objects(result.get("sessions")):
            meta = self.shown_meta(session.get("_meta"))
            sessions.append(without(session, "_meta") if not meta else {**session, "_meta": meta})
        return {**result, "sessions": sessions}

    def _left(self, session_id: str) -> Frame:
        self._turns.pop(session_id, None)
        return self._closed(session_id)

    def on_closed(self, side: Side) -> None:
        super().on_closed(side)
        if side == "agent":
            lost = error(-32603, "the connection to the host was lost")
            for sent in self._sent.values():
                if not sent.is_started:
                    self.fail("client", sent.prompt.id, lost)
            self._sent.clear()
