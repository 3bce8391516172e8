"""The method table: one row per method drives dispatch, gates and decoding on both sides.

Types are resolved when first asked for, so the table costs no Struct. Does not know capability objects or handlers.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from dragoman.schema import v1
from dragoman.schema.v1.methods import ROWS


class Method:
    """One method of the protocol, as the side that serves it sees it."""

    __slots__ = (
        "_params",
        "_result",
        "gate",
        "is_session_scoped",
        "is_stable",
        "kind",
        "name",
        "null_result_ok",
        "side",
    )

    name: Final[str]
    side: Final[Literal["agent", "client", "protocol"]]
    kind: Final[Literal["request", "notification"]]
    is_stable: Final[bool]
    gate: Final[str | None]
    """Path of the capability inside the serving side's capabilities object, or None when it is always there."""
    is_session_scoped: Final[bool]
    """Whether its params must carry `sessionId`."""
    null_result_ok: Final[bool]
    """Whether a `null` result reads as the empty object (rules 109 and 279); `decode` does so by itself."""

    def __init__(
        self,
        name: str,
        side: Any,
        kind: Any,
        params: str,
        result: str | None,
        is_stable: bool,
        gate: str | None,
        is_session_scoped: bool,
        null_result_ok: bool,
    ) -> None:
        self.name = name
        self.side = side
        self.kind = kind
        self._params = params
        self._result = result
        self.is_stable = is_stable
        self.gate = gate
        self.is_session_scoped = is_session_scoped
        self.null_result_ok = null_result_ok

    @property
    def params(self) -> Any:
        """The type of its params: a Struct, or a union where the schema has one."""
        return getattr(v1, self._params)

    @property
    def result(self) -> Any:
        """The type of its result; None for a notification."""
        return None if self._result is None else getattr(v1, self._result)

    def __repr__(self) -> str:
        return f"Method({self.name!r}, {self.side!r}, {self.kind!r})"


def _table(side: str) -> dict[str, Method]:
    return {row[0]: Method(*row) for row in ROWS if row[1] == side}


AGENT_METHODS: Final = _table("agent")
"""What an agent serves."""
CLIENT_METHODS: Final = _table("client")
"""What a client serves."""
PROTOCOL_METHODS: Final = _table("protocol")
"""What both serve, below every role."""
