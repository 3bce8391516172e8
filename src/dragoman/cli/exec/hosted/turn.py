"""One turn in a named session of the local host, by a blocking socket.

Owns the order of messages: hello, the search for the session, the prompt, then updates until its answer. A dropped
connection never cancels the turn: the host goes on. What is shown is up to a `TurnView`, and what the end means to
`ending.py`. Imports nothing that takes time, as `thin.py`.
"""

import os

# `signal` itself loads `enum`; there are no stubs for its C part.
from _signal import SIG_DFL, SIGTERM, getsignal, signal  # type: ignore[import-not-found]
from time import monotonic

from dragoman.host.local.build import PROTOCOL
from dragoman.host.local.place import find_places
from dragoman.host.local.start import reach_host
from dragoman.host.local.thin import HostLost, HostRefused, ThinClient, begin, begun

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from dragoman.rpc import Observer

    class TurnView(Protocol):
        """The view of a turn."""

        def opened(self, session: "dict[str, Any]", *, has_events: bool) -> None:
            """Take the session, as the host describes it; the prompt is sent next.

            `has_events`: its events follow. A host of another version has none.
            """

        def update(self, update: "dict[str, Any]") -> None:
            """Take an update of our turn."""

        def event(self, event: "dict[str, Any]") -> None:
            """Take an event of our run, if the request wants them."""

        def note(self, text: str) -> None:
            """Show a line to the user."""

        def violated(self, text: str) -> None:
            """Take a notice: a rule denies what was done or may do so, or a protected file was changed unpermitted."""

        @property
        def stop_cause(self) -> str:
            """What of all that was shown is why the turn is to be cancelled; empty if it goes on."""

        @property
        def tick_seconds(self) -> float:
            """How often `tick` is to be called."""

        def tick(self, seconds: float) -> None:
            """Show that the turn goes on; it has taken so long."""

        def tool_updates(self) -> "list[dict[str, Any]]":
            """Return the updates about tool calls so far, for a question."""


_TRIES = 4
_VIOLATIONS = ("protected_file", "violation", "unjudged")  # kinds of notices
# Some agents need a while to react to a cancel; the host ends them after ten seconds, and the turn with them.
_CANCEL_SECONDS = 15.0


class SentSigterm(BaseException):
    """SIGTERM; like KeyboardInterrupt, it is not an Exception."""


class OutputLost(Exception):
    """A view cannot write any more: the run has lost its reader, and the turn is cancelled."""


class HostedEnd:
    """How a turn ended, as far as it was observed."""

    def __init__(self) -> None:
        self.stop_reason: str | None = None
        self.result: dict[str, Any] = {}
        self.error: Exception | None = None
        self.signal = 0
        self.is_timed_out = False
        self.waiting_for: tuple[str, str] = ("", "")
        """What was waited for when the time was up, and its name."""
        self.is_empty = False
        self.could_ask = False
        """A user was at this terminal, so that a question without an answer is the user's decision."""
        self.report: dict[str, Any] = {}
        """What the host decided and did in the turn."""
        self.reached: dict[str, float] = {}
        """When the session was open, the prompt sent and the turn over, by the monotonic clock."""

    @property
    def is_success(self) -> bool:
        report = self.report
        return (
            self.stop_reason == "end_turn"
            and not (self.is_empty or self.error or self.signal or self.is_timed_out)
            and not (report.get("permissions") or report.get("violations") or report.get("unjudged"))
        )


class TurnRequest:
    """What the user asked for."""

    def __init__(self, name: str, cwd: str, blocks: "list[dict[str, Any]]") -> None:
        self.name = name
        self.cwd = cwd
        self.blocks = blocks
        self.queue = False
        """Whether it waits behind a turn that runs; otherwise a busy session is an error."""
        self.waits = True
        self.timeout_seconds: float | None = None
        self.wants_result = False
        """Whether the report is to have the result of the turn, as plain `exec` prints it."""
        self.wants_patch = False
        """Whether it is to have a patch of what the turn changed."""
        self.wants_events = False
        """Whether the events of the run are to be sent as they happen."""
        self.observers: Sequence[Observer] = ()
        """See every line between this program and the host."""
        self.prompt_id = os.urandom(16).hex()
        self.session: dict[str, Any] = {}
        """The session, as the host describes it; while it is being opened, its agent and its terms."""
        self.open: Callable[[ThinClient, TurnRequest, dict[str, Any] | None], dict[str, Any]] | None = None
        """Opens or prepares the session, where more than a prompt is wanted; gives it as `_dragoman/named` does."""


class HostedTurn:
    """One turn, from its prompt to its end."""

    def __init__(self, request: TurnRequest, view: "TurnView") -> None:
        self.request = request
        self.end = HostedEnd()
        self.session: dict[str, Any] = {}
        self._view = view
        self._client: ThinClient | None = None
        self._prompt = 0
        self._deadline: float | None = None
        self._is_ours = False
        self._is_plain = False  # the host is of another version: nothing but ACP
        self._is_cancelling = False
        self._asking: tuple[str, str] | None = None  # what the user is asked at this terminal

    def run(self) -> HostedEnd:
        """Run it; whatever happens is in the end that is returned.

        Raises:
            NoHost: there is no host.
            CliError: the session cannot be used in this way.
        """
        self.end.reached["opening"] = monotonic()
        before = getsignal(SIGTERM)
        if before is SIG_DFL:
            signal(SIGTERM, _terminate)
        try:
            self._run()
        except (KeyboardInterrupt, SentSigterm) as ending:
            self.end.signal = SIGTERM if isinstance(ending, SentSigterm) else 2
        except (HostRefused, HostLost) as error:
            self.end.error = error
        except TimeoutError:  # before the prompt was sent: the agent is being started, or its session opened
            self.end.is_timed_out, self.end.waiting_for = True, ("start", "")
            self._view.note("time is up; cancelling")
        except OutputLost:
            if self._client is not None:
                self._client.notify("session/cancel", sessionId=self.session["sessionId"])
            raise
        finally:
            if before is SIG_DFL:
                signal(SIGTERM, SIG_DFL)
            if self._client is not None:
                self._client.close()
            for observer in self.request.observers:
                observer.ended("the turn is over")
        return self.end

    def _run(self) -> None:
        if self.request.timeout_seconds is not None:
            self._deadline = monotonic() + self.request.timeout_seconds
        client = self._find_session()
        self._view.opened(self.session, has_events=not self._is_plain)
        wanted: dict[str, Any] = {"promptId": self.request.prompt_id, "queue": self.request.queue, "report": True}
        if self.request.wants_result:
            wanted["result"] = True
        if self.request.wants_patch:
            wanted["patch"] = True
        if self.request.wants_events:
            wanted["events"] = True
        self.end.reached["working"] = monotonic()
        for is_last in (False, True):
            self._prompt = client.request(
                "session/prompt",
                sessionId=self.session["sessionId"],
                prompt=self.request.blocks,
                _meta={"dragoman": wanted},
            )
            try:
                if not self.request.waits:
                    self._wait_until_queued(client)
                    return
                self._follow(client)
                break
            except HostLost:
                if is_last or self._is_ours:
                    raise
                # The host ended before the turn, because of an update: the next one gets it under the same id, and runs
                # it if this one did not accept it.
                client.close()
                client = self._find_session()
        if self._is_plain:
            return
        answer = client.request(
            "_dragoman/report", sessionId=self.session["sessionId"], promptId=self.request.prompt_id
        )
        client.set_timeout(_CANCEL_SECONDS)
        self.end.report = client.result(answer, self._other).get("report") or {}
        for warning in self.end.report.get("warnings") or ():
            self._view.note(str(warning))
        self.end.is_empty = self.end.stop_reason == "end_turn" and self.end.report.get("isEmpty") is True

    # The session

    def _find_session(self) -> ThinClient:
        """Connect and find the session, or open it. Nothing was sent that could run twice, so it may be tried again."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._try_to_find()
            except HostLost as error:
                if self._client is not None:
                    self._client.close()
                if tries_left == 0 or not error.is_fresh:
                    raise
        raise AssertionError

    def _try_to_find(self) -> ThinClient:
        request = self.request
        client = self._client = reach_host(find_places(), note=self._view.note)
        client.observers = request.observers
        if self._deadline is not None:
            client.set_timeout(max(0.001, self._deadline - monotonic()))
        hello = begun(client, begin(client, forms=os.isatty(2)))
        if hello.get("protocol") != PROTOCOL or hello.get("isOutdated"):
            client, found = self._settle_versions(client)
        else:
            found = client.call("_dragoman/named", name=request.name, cwd=request.cwd)["session"]
        if found is None or not found["hasAgent"] or request.open is not None:
            found = (request.open or _open_plainly)(client, request, found)
        self.session = request.session = found
        return client

    def _settle_versions(self, client: ThinClient) -> "tuple[ThinClient, dict[str, Any] | None]":
        from dragoman.cli.exec.hosted.skew import listed_session, settle_versions

        client, self._is_plain = settle_versions(client, self.request, self._view.note, self._deadline)
        client.set_timeout(None if self._deadline is None else max(0.001, self._deadline - monotonic()))
        client.observers = self.request.observers
        self._client, request = client, self.request
        if self._is_plain:
            self._is_ours = True
            return client, listed_session(client, request.name, request.cwd)
        return client, client.call("_dragoman/named", name=request.name, cwd=request.cwd)["session"]

    def _wait_until_queued(self, client: ThinClient) -> None:
        """Return when the prompt is in the log; an answer before that is a refusal, or the turn was quick."""
        queued = client.request("_dragoman/queued", sessionId=self.session["sessionId"])
        while True:
            message = client.read()
            if message.get("id") == self._prompt and "error" in message:
                raise HostRefused(message["error"])
            if message.get("method") == "_dragoman/notice":  # for example, that the session cannot come back
                self._other(message)
            if message.get("id") == queued and "method" not in message:
                self.session["keptSeconds"] = (message.get("result") or {}).get("keptSeconds")
                return

    # The turn

    def _follow(self, client: ThinClient) -> None:
        started = now = monotonic()
        tick_at = started + self._view.tick_seconds
        while True:
            if now >= tick_at:  # also while messages come: the time that is shown goes on
                self._view.tick(now - started)
                tick_at = now + self._view.tick_seconds
            until = tick_at if self._deadline is None else min(tick_at, self._deadline)
            client.set_timeout(max(0.001, until - now))
            try:
                message = client.read()
            except TimeoutError:
                now = monotonic()
                if self._deadline is not None and now >= self._deadline:
                    self._time_is_up(client)
                continue
            except (KeyboardInterrupt, SentSigterm) as ending:
                self._interrupt(client, ending)
                continue
            if message.get("id") == self._prompt and "method" not in message:
                self._answered(message)
                return
            now = monotonic()
            try:
                self._other(message)
                if self._view.stop_cause and not self._is_cancelling:
                    self._view.note(f"cancelling the turn because of {self._view.stop_cause}")
                    self._cancel(client)
            except (KeyboardInterrupt, SentSigterm) as ending:
                self._interrupt(client, ending)

    def _answered(self, message: "dict[str, Any]") -> None:
        self.end.reached["done"] = monotonic()
        self._is_ours = False  # what comes while the report is awaited belongs to the next turn
        if "error" in message:
            self.end.error = HostRefused(message["error"])  # the report of the turn may say why
            return
        found = message.get("result")
        self.end.result = found if isinstance(found, dict) else {}
        reason = self.end.result.get("stopReason")
        # An agent that was asked to stop may still report that it is done; the run was interrupted all the same.
        self.end.stop_reason = reason if reason == "cancelled" or not self._is_cancelling else None

    def _other(self, message: "dict[str, Any]") -> None:
        params = message.get("params")
        if not isinstance(params, dict):
            return
        match message.get("method"):
            case "session/update":
                if self._is_ours:
                    self._view.update(params.get("update") or {})
            case "_dragoman/turn_started":
                self._is_ours = self._is_ours or params.get("promptId") == self.request.prompt_id
            case "_dragoman/run_event":
                if self._is_ours:
                    self._view.event(params.get("event") or {})
            case "_dragoman/notice":
                show = self._view.violated if params.get("kind") in _VIOLATIONS else self._view.note
                show(str(params.get("text", "")))
            case "session/request_permission" | "elicitation/create":
                self._ask(message)
            case _ if "id" in message and "method" in message:
                assert self._client is not None
                self._client.refuse(message["id"], -32601, "this client has no such method")

    def _ask(self, message: "dict[str, Any]") -> None:
        """Ask the user at this terminal. Without one, no choice is made: another client may still make it."""
        assert self._client is not None
        if os.isatty(2) and not self._is_cancelling:
            from dragoman.cli.exec.hosted.question import ask_user, subject_of

            self._asking = subject_of(message)
            asked = ask_user(self._client, message, self.session, self._view, deadline=self._deadline)
            if not asked.is_late:
                self._asking = None
            self.end.could_ask = self.end.could_ask or asked.was_shown
            for other in asked.others:
                if other.get("id") == self._prompt and "method" not in other:
                    self._client.put_back(other)
                else:
                    self._other(other)
            return
        none: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
        if message["method"] == "elicitation/create":
            none = {"action": "cancel"}
        self._client.answer(message["id"], none)

    # Stopping

    def _interrupt(self, client: ThinClient, ending: BaseException) -> None:
        """Cancel the turn at the first signal, end at the second."""
        number = SIGTERM if isinstance(ending, SentSigterm) else 2
        self.end.signal = self.end.signal or number
        if self._is_cancelling:
            raise ending
        self._view.note("cancelling the turn; Ctrl-C again ends at once")
        self._cancel(client)

    def _time_is_up(self, client: ThinClient) -> None:
        if self._is_cancelling:
            raise HostLost("the agent did not end its turn", is_fresh=False)
        from dragoman.cli.exec.hosted.ending import doing_in

        self.end.is_timed_out = True
        self.end.waiting_for = self._asking or doing_in(self._view.tool_updates())
        self._view.note("time is up; cancelling")
        self._cancel(client)

    def _cancel(self, client: ThinClient) -> None:
        self._is_cancelling = True
        self._deadline = monotonic() + _CANCEL_SECONDS
        client.notify("session/cancel", sessionId=self.session["sessionId"])


def _terminate(number: int, frame: object) -> None:
    raise SentSigterm


def _open_plainly(client: ThinClient, request: TurnRequest, found: "dict[str, Any] | None") -> "dict[str, Any]":
    from dragoman.cli.exec.hosted.opening import open_plainly

    return open_plainly(client, request, found)
