"""Checks of traffic in version 2 of the protocol, by the rules of docs/spec/rules-v2.md.

`Version2Checks` owns the order of the checks and the rules about messages and calls, `SessionChecks` states, prompts,
permission, and what may be sent when, `ToolChecks` what tool calls show. Only what the recording proves is reported.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from os.path import isabs
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import REQUEST_CANCELLED
from dragoman.schema import CLIENT_METHODS, UNSET, Unknown, is_advertised, v2
from dragoman.text.patches import read_patch
from dragoman.trace.checks.shape import oddities

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.trace.checks.facts import Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

_GATED_BLOCKS: Final[dict[type, str]] = {
    v2.ImageContent: "session.prompt.image",
    v2.AudioContent: "session.prompt.audio",
    v2.EmbeddedResource: "session.prompt.embeddedContext",
}
_GATED_SERVERS: Final[dict[type, str]] = {
    v2.McpServerStdio: "session.mcp.stdio",
    v2.McpServerHttp: "session.mcp.http",
    v2.McpServerAcp: "session.mcp.acp",
}
_SPEECH: Final = (v2.AgentMessageChunk, v2.AgentMessage, v2.AgentThoughtChunk, v2.AgentThought)


class Version2Checks:
    """Checks the frames of one connection, from the response to `initialize` on."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._agent: v2.AgentCapabilities | None = None
        self._logins: dict[str, str] = {}
        self._sessions = SessionChecks(facts)
        self._steps: dict[type, Callable[[DecodedFrame, Any], None]] = {
            v2.InitializeResponse: self._take_capabilities,
            v2.LoginAuthRequest: self._login,
            v2.NewSessionRequest: self._check_opening,
            v2.ResumeSessionRequest: self._check_opening,
            v2.ForkSessionRequest: self._check_opening,
            v2.PromptRequest: self._check_prompt,
        }

    def check(self, frame: DecodedFrame) -> None:
        """Report what is wrong with a frame."""
        self._check_fit(frame)
        if frame.part == "params":
            self._check_call(frame)
            if frame.method == "initialize" and type(frame.plain) is dict:
                self._ask_again(frame, frame.plain.get("protocolVersion"))
        step = self._steps.get(type(frame.value))
        if step is not None:
            step(frame, frame.value)
        self._sessions.check(frame)

    def finish(self) -> None:
        """Report what is missing at the end."""
        self._sessions.finish()

    def _check_fit(self, frame: DecodedFrame) -> None:
        facts = self._facts
        if frame.fault is not None:
            facts.report(2001, frame, f"{frame.method}: {frame.fault}")
        for loss in frame.losses:
            facts.report(2001, frame, f"{loss.path}: {loss.why}")
        if frame.row is None or frame.part == "error" or frame.fault is not None:
            return
        kind = frame.row.params if frame.part == "params" else frame.row.result
        for odd in oddities(kind, frame.plain) if kind is not None else ():
            if odd.what == "extra":
                facts.report(2002, frame, f"{odd.path}: the schema does not name this member", "EXTRA")
            elif odd.what == "variant" and not odd.value.startswith("_"):
                facts.report(2003, frame, f"{odd.path}: {odd.value!r} is neither a variant of the schema nor marked")

    def _check_call(self, frame: DecodedFrame) -> None:
        facts, row = self._facts, frame.row
        is_removed = row is None and frame.method in CLIENT_METHODS and frame.method.startswith(("fs/", "terminal/"))
        if frame.dir == "a2c" and is_removed:
            facts.report(2005, frame, f"{frame.method} does not exist in version 2")
        elif frame.dir == "c2a" and row is not None and row.gate is not None:
            self._require(frame, row.gate, frame.method)

    def _require(self, frame: DecodedFrame, gate: str, what: str) -> None:
        if self._agent is not None and not is_advertised(self._agent, gate):
            self._facts.report(2013, frame, f"{what} needs {gate}, which the agent does not advertise")

    def _ask_again(self, frame: DecodedFrame, version: object) -> None:
        if isinstance(version, int) and version < 2:
            self._facts.report(2006, frame, f"version {version} was asked for after version 2")

    def _take_capabilities(self, frame: DecodedFrame, result: v2.InitializeResponse) -> None:
        self._facts.is_initialized = True
        self._agent = result.capabilities_or_default
        kinds: dict[type, str] = {v2.AuthMethodTerminal: "terminal"}
        self._logins = {
            method.method_id: kinds.get(type(method), "agent")
            for method in result.auth_methods_or_default
            if isinstance(method, v2.AuthMethodAgent | v2.AuthMethodTerminal)
        }

    def _login(self, frame: DecodedFrame, request: v2.LoginAuthRequest) -> None:
        kind = self._logins.get(request.method_id)
        if kind is None:
            self._facts.report(2015, frame, f"{request.method_id!r} is not one of the advertised login methods")
        elif kind == "terminal":
            self._facts.report(2015, frame, f"{request.method_id!r} is a terminal login")

    def _check_opening(self, frame: DecodedFrame, request: Any) -> None:
        for path in (request.cwd, *request.additional_directories_or_default):
            if not isabs(path) and not self._facts.is_redacted:
                self._facts.report(2017, frame, f"{path!r} is not an absolute path")
        if request.additional_directories:
            self._require(frame, "session.additionalDirectories", "additionalDirectories")
        for server in request.mcp_servers_or_default:
            gate = _GATED_SERVERS.get(type(server))
            if gate is not None:
                self._require(frame, gate, f"the MCP server {server.name!r}")

    def _check_prompt(self, frame: DecodedFrame, request: v2.PromptRequest) -> None:
        if not request.prompt:
            self._facts.report(2028, frame, "the prompt has no content")
        for block in request.prompt:
            gate = _GATED_BLOCKS.get(type(block))
            if gate is not None:
                self._require(frame, gate, type(block).__name__)


class _Session:
    """What is known of one session."""

    def __init__(self) -> None:
        self.is_open = False
        self.is_closed = False
        self.early: DecodedFrame | None = None  # an update that came before any response named the session
        self.state = "idle"
        self.was_busy = False  # since the last idle
        self.has_background = False
        self.inserted = 0  # prompts since the last idle
        self.shown: set[str] = set()  # user messages by id
        self.answered: dict[str, DecodedFrame] = {}  # responses to prompts by message id
        self.idle_after: set[str] = set()  # message ids of responses that an idle followed
        self.resuming: DecodedFrame | None = None
        self.has_snapshot = False
        self.cancelled: set[DecodedFrame] = set()  # prompts and permission requests that a cancel found open
        self.asked: dict[DecodedFrame, bool] = {}  # open permission requests -> whether nothing shows that work waits
        self.tools = ToolChecks()


class SessionChecks:
    """Checks the frames about sessions of one connection."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._sessions: dict[str, _Session] = {}

    def check(self, frame: DecodedFrame) -> None:
        """Report what is wrong with a frame."""
        if frame.session_id is None:
            return
        session = self._sessions.setdefault(frame.session_id, _Session())
        value = frame.value
        if isinstance(value, v2.UpdateSessionNotification):
            self._update(frame, session, value.update)
        elif frame.method == "session/prompt" and frame.part in ("result", "error"):
            self._answer_prompt(frame, session)
        elif frame.method == "session/request_permission":
            self._permission(frame, session)
        elif isinstance(value, v2.CancelSessionNotification):
            session.cancelled |= {
                request
                for direction in ("c2a", "a2c")
                for request in self._facts.open_requests(direction, frame.session_id)
                if request.method in ("session/prompt", "session/request_permission")
            }
        elif isinstance(value, v2.CancelToolCallRequest | v2.CancelTerminalRequest):
            session.tools.check_cancel(frame, value, self._facts)
        else:
            self._life(frame, session)

    def finish(self) -> None:
        """Report messages that were never shown, and updates of sessions that were never opened."""
        for session in self._sessions.values():
            for message_id, frame in session.answered.items():
                if message_id not in session.shown and message_id in session.idle_after:
                    self._facts.report(2029, frame, f"no update shows the message {message_id!r} of this prompt")
            if session.early is not None and not session.is_open and self._facts.sees_start:
                self._facts.report(2026, session.early, "this session was never opened on this connection")

    def _life(self, frame: DecodedFrame, session: _Session) -> None:
        value = frame.value
        if isinstance(value, v2.NewSessionResponse | v2.ForkSessionResponse | v2.ResumeSessionResponse):
            if frame.request is not None and frame.request is session.resuming and not session.has_snapshot:
                self._facts.report(2019, frame, "no state_update came between the request and this response")
            session.resuming = None
            session.is_open, session.is_closed = True, False
        elif isinstance(value, v2.ResumeSessionRequest):
            session.resuming, session.has_snapshot = frame, False
        elif frame.method in ("session/close", "session/delete") and frame.part == "result":
            session.is_closed = True

    def _update(self, frame: DecodedFrame, session: _Session, update: Any) -> None:
        if session.is_closed and session.resuming is None:
            self._facts.report(2024, frame, "this came after the response to session/close")
        elif not session.is_open and session.resuming is None and session.early is None:
            session.early = frame
        if isinstance(update, v2.SessionStateUpdate):
            self._state(frame, session, update)
            return
        for asked in session.asked:
            session.asked[asked] = False  # something goes on
        if isinstance(update, v2.UserMessage | v2.UserMessageChunk):
            if update.message_id not in session.shown and session.resuming is None:
                session.inserted += 1
            session.shown.add(update.message_id)
        elif isinstance(update, _SPEECH) and session.state == "requires_action":
            if not any(self._facts.open_requests("a2c", frame.session_id)):
                self._facts.report(2036, frame, "the work goes on, and the last state is still requires_action")
        else:
            session.tools.check(frame, update, self._facts)

    def _state(self, frame: DecodedFrame, session: _Session, update: v2.SessionStateUpdate) -> None:
        session.has_snapshot = True
        reports = update.background is not UNSET and update.background is not None
        if session.has_background and not reports:
            self._facts.report(2037, frame, "earlier states of this session list background work, this one does not")
        session.has_background = session.has_background or reports
        if update.state == "idle":
            if session.inserted and not session.was_busy and session.resuming is None:
                self._facts.report(2030, frame, "a prompt was inserted, and idle came without running before it")
            if session.was_busy and not update.stop_reason:
                self._facts.report(2031, frame, "this idle ends work and has no stopReason")
            session.idle_after |= session.answered.keys()
            session.tools.check_end(frame, self._facts)
            session.was_busy, session.inserted = False, 0
        else:
            session.was_busy = True
            if update.state == "requires_action":
                for asked in session.asked:
                    session.asked[asked] = False
        session.state = update.state

    def _answer_prompt(self, frame: DecodedFrame, session: _Session) -> None:
        request = frame.request
        if request is None:
            return
        if frame.part == "error":
            # A cancelled prompt whose message was shown is in the conversation: that answer would be another mistake.
            if request in session.cancelled and frame.error_code != REQUEST_CANCELLED:
                self._facts.report(2034, frame, "the prompt was cancelled, yet the error is not -32800")
        elif isinstance(frame.value, v2.PromptResponse):
            message_id = frame.value.message_id
            if message_id in session.answered:
                self._facts.report(2032, frame, f"{message_id!r} is the message of an earlier prompt")
            session.answered[message_id] = frame
        session.cancelled.discard(request)

    def _permission(self, frame: DecodedFrame, session: _Session) -> None:
        if frame.part == "params" and isinstance(frame.value, v2.RequestPermissionRequest):
            if not frame.value.options:
                self._facts.report(2044, frame, "there is no option to choose")
            session.asked[frame] = session.state == "running"
            if isinstance(frame.value.subject, v2.ToolCallPermissionSubject):
                session.tools.check(frame, frame.value.subject.tool_call, self._facts)
        elif frame.request is not None and frame.part in ("result", "error"):
            if session.asked.pop(frame.request, False) and frame.part == "result":
                self._facts.report(
                    2035, frame.request, "the work waits for the user, and no state says requires_action", dir="a2c"
                )
            self._outcome(frame, session, frame.request)

    def _outcome(self, frame: DecodedFrame, session: _Session, request: DecodedFrame) -> None:
        asked, answer = request.value, frame.value
        if not isinstance(answer, v2.RequestPermissionResponse):
            return
        outcome = answer.outcome
        if isinstance(outcome, v2.SelectedPermissionOutcome):
            if isinstance(asked, v2.RequestPermissionRequest) and outcome.option_id not in {
                option.option_id for option in asked.options
            }:
                self._facts.report(2045, frame, f"{outcome.option_id!r} is not one of the options")
            if request in session.cancelled:
                self._facts.report(2046, frame, "the session was cancelled while this was open")
        session.cancelled.discard(request)


_FINAL: Final = frozenset({"completed", "failed", "cancelled"})


class ToolChecks:
    """The tool calls and terminals of one session."""

    def __init__(self) -> None:
        self._terminals: set[str] = set()
        self._referred: set[str] = set()
        self._can_cancel: dict[tuple[str, str], bool] = {}
        self._ever: set[tuple[str, str]] = set()

    def check(self, frame: DecodedFrame, update: Any, facts: Facts) -> None:
        """Report what is wrong with an update about a tool call or a terminal; others say nothing here."""
        if isinstance(update, v2.ToolCallPatch):
            for place in update.locations or ():
                _check_path(frame, place.path, facts)
            for content in update.content or ():
                self._content(frame, content, facts)
            self._note_cancel(frame, ("tool call", update.tool_call_id), update, update.status in _FINAL, facts)
        elif isinstance(update, v2.ToolCallContentChunk):
            self._content(frame, update.content, facts)
        elif isinstance(update, v2.TerminalUpdate):
            self._terminals.add(update.terminal_id)
            if update.output:
                _check_bytes(frame, update.output.data, facts)
            self._note_cancel(frame, ("terminal", update.terminal_id), update, bool(update.exit_status), facts)
        elif isinstance(update, v2.TerminalOutputChunk):
            _check_bytes(frame, update.data, facts)

    def check_end(self, frame: DecodedFrame, facts: Facts) -> None:
        """Report, at the end of work, the terminals that are shown and that no update described."""
        for terminal_id in sorted(self._referred - self._terminals):
            facts.report(2040, frame, f"terminal {terminal_id!r} is content of a tool call, and no update describes it")
        self._referred.clear()

    def check_cancel(
        self, frame: DecodedFrame, request: v2.CancelToolCallRequest | v2.CancelTerminalRequest, facts: Facts
    ) -> None:
        """Report a cancel of something that never offered it."""
        if isinstance(request, v2.CancelToolCallRequest):
            key = ("tool call", request.tool_call_id)
        else:
            key = ("terminal", request.terminal_id)
        if key not in self._ever:
            facts.report(2041, frame, f"{key[0]} {key[1]!r} does not advertise capabilities.cancel")

    def _note_cancel(self, frame: DecodedFrame, key: tuple[str, str], update: Any, is_over: bool, facts: Facts) -> None:
        if update.capabilities is not UNSET:
            self._can_cancel[key] = bool(update.capabilities and update.capabilities.cancel)
            if self._can_cancel[key]:
                self._ever.add(key)
        if is_over and self._can_cancel.pop(key, False):
            facts.report(2043, frame, f"{key[0]} {key[1]!r} is over and still advertises cancel")

    def _content(self, frame: DecodedFrame, content: Any, facts: Facts) -> None:
        if isinstance(content, v2.Terminal):
            self._referred.add(content.terminal_id)
        if not isinstance(content, v2.Diff):
            return
        named = set()
        for change in content.changes:
            if not isinstance(change, Unknown):
                paths = [change.path, *([change.old_path] if isinstance(change, v2.DiffMove | v2.DiffCopy) else [])]
                named.update(paths)
                for path in paths:
                    _check_path(frame, path, facts)
        if content.patch and content.patch.format == "git_patch" and not facts.is_redacted:
            for hunk in read_patch(content.patch.text):
                if hunk.path not in named:
                    facts.report(2039, frame, f"the patch changes {hunk.path!r}, which changes does not list")
                    return


def _check_path(frame: DecodedFrame, path: str, facts: Facts) -> None:
    if not isabs(path) and not facts.is_redacted:
        facts.report(2017, frame, f"{path!r} is not an absolute path")


def _check_bytes(frame: DecodedFrame, data: str, facts: Facts) -> None:
    try:
        b64decode(data, validate=True)
    except (NotBase64, ValueError):
        if not facts.is_redacted:
            facts.report(2038, frame, "these bytes are not base64")
