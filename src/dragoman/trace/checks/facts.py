"""What the traffic so far has established: capabilities, sessions, turns, tool calls, terminals.

Owns the memory of the checks and the function by which they report. Does not know any rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dragoman.schema import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from dragoman.schema import v1
    from dragoman.trace.entry import Direction
    from dragoman.trace.inspect.exchange import DecodedFrame, Exchange
    from dragoman.wire import Id

    Check: TypeAlias = Callable[["DecodedFrame", "Facts"], None]
    Checks: TypeAlias = dict[tuple[str, str], Check]


class TurnFacts:
    """One prompt, from its request until the next prompt."""

    __slots__ = ("cancelled_at", "closed_at", "message_ids", "overlapping", "request", "saw_cancel", "tool_ids")

    def __init__(self, request: DecodedFrame) -> None:
        self.request = request
        self.cancelled_at: float | None = None
        self.saw_cancel = False
        self.closed_at: float | None = None
        self.overlapping: list[DecodedFrame] = []  # prompts that came before this one was answered
        self.message_ids: set[str] = set()
        self.tool_ids: set[str] = set()


class ToolFacts:
    """One tool call id."""

    __slots__ = ("is_finished", "turn")

    def __init__(self, turn: TurnFacts | None) -> None:
        self.turn = turn
        self.is_finished = False


class SessionFacts:
    """One session as far as this connection has seen it."""

    __slots__ = (
        "closed_by",
        "compactions",
        "is_after_load",
        "last",
        "loading",
        "modes",
        "options",
        "resuming",
        "saw_history",
        "tools",
        "turns",
    )

    def __init__(self) -> None:
        self.closed_by: int | None = None  # number of the close that was answered
        self.loading: DecodedFrame | None = None
        self.resuming: DecodedFrame | None = None
        self.is_after_load = False  # a load was answered and no prompt came since
        self.saw_history = False
        self.turns: list[TurnFacts] = []  # the open ones
        self.last: TurnFacts | None = None  # the one that ended last, until the next prompt
        self.tools: dict[str, ToolFacts] = {}
        self.compactions: dict[str, str] = {}
        self.modes: set[str] | None = None
        self.options: dict[str, set[Any]] | None = None

    @property
    def turn(self) -> TurnFacts | None:
        """The open turn; of several the newest."""
        return self.turns[-1] if self.turns else None


class TerminalFacts:
    """One terminal of the client."""

    __slots__ = ("created", "limit_bytes", "released_by")

    def __init__(self, created: DecodedFrame, limit_bytes: int | None) -> None:
        self.created = created
        self.limit_bytes = limit_bytes
        self.released_by: int | None = None


class ReportViolation(Protocol):
    """Reports that a frame breaks a rule; the level is the rule's own unless one is given."""

    def __call__(
        self, rule: int, at: DecodedFrame, message: str, level: str = "", *, dir: Direction | None = None
    ) -> None: ...


class Facts:
    """Everything that the checks know of one connection."""

    def __init__(self, exchange: Exchange, report: ReportViolation) -> None:
        self.exchange = exchange
        self.report = report
        self.is_redacted = False
        self.sees_start = False
        """The recording begins with the connection, so what has not been seen was not sent."""
        self.saw_unasked = False
        self.saw_broken = False
        """The agent has sent a line that is not a message, in which a client may have read an answer all the same."""
        self.is_judged = True
        """False once the two sides agreed on a version that these checks do not know."""
        self.initialize: DecodedFrame | None = None
        self.is_initialized = False
        self.client: v1.ClientCapabilities | None = None
        self.agent: v1.AgentCapabilities | None = None
        self.auth_methods: dict[str, str] | None = None
        self.sessions: dict[str, SessionFacts] = {}
        self.early: dict[str, list[DecodedFrame]] = {}  # updates of sessions that no response has named yet
        self.named: set[str] = set()
        """Sessions that the client has named, opened or not, and those that the agent has listed."""
        self.last_answered: dict[tuple[Direction, str, str | None], int] = {}
        """(Direction of a request, method, session) -> the number of the last request that was answered."""
        self.cursors: set[str] = set()
        self.deleted: set[str] = set()
        self.terminals: dict[str, TerminalFacts] = {}
        self.embedded: set[str] = set()  # terminals that a tool call has shown
        self.cancelled_permissions: dict[
            DecodedFrame, tuple[int, float]
        ] = {}  # -> the rule, when the turn was cancelled
        self.cancelled_requests: dict[tuple[Direction, Id], float] = {}  # -> when
        self.before_initialize: list[DecodedFrame] = []
        # Requests that should not have been made; their responses are checked, too.
        self.too_early: set[DecodedFrame] = set()
        self.ungated: set[DecodedFrame] = set()
        self.unopened: set[DecodedFrame] = set()
        self.unnamed: set[DecodedFrame] = set()  # the same, while the answer that would name the session is missing
        self.unoffered: set[DecodedFrame] = set()
        self.released: set[DecodedFrame] = set()

    def session(self, frame: DecodedFrame) -> SessionFacts | None:
        """Return the session a frame is about, if it is known."""
        return self.sessions.get(frame.session_id) if frame.session_id is not None else None

    def open_requests(self, direction: Direction, session_id: str | None) -> Iterator[DecodedFrame]:
        """Yield unanswered requests of one direction about one session."""
        for request in self.exchange.open[direction].values():
            if request.session_id == session_id:
                yield request


def if_present(value: Any) -> Any:
    """Return the value of a member that is present, else None."""
    return None if value is UNSET else value
