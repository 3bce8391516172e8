"""The method table: one row per method drives dispatch, gates and decoding on both sides.

Types are resolved when first asked for, so the table costs no Struct. Does not know capability objects or handlers.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final, Literal, NamedTuple

from dragoman.schema import v1
from dragoman.schema.v1.methods import ROWS, Row


class Method:
    """One method of the protocol, as the side that serves it sees it."""

    __slots__ = (
        "_params",
        "_result",
        "_types",
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
        types: ModuleType = v1,
    ) -> None:
        self._types = types
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
        return getattr(self._types, self._params)

    @property
    def result(self) -> Any:
        """The type of its result; None for a notification."""
        return None if self._result is None else getattr(self._types, self._result)

    def __repr__(self) -> str:
        return f"Method({self.name!r}, {self.side!r}, {self.kind!r})"


class MethodTables(NamedTuple):
    """The methods of one version of the protocol, by the side that serves them."""

    agent: dict[str, Method]
    client: dict[str, Method]
    protocol: dict[str, Method]


def _tables(rows: tuple[Row, ...], types: ModuleType) -> MethodTables:
    def table(side: str) -> dict[str, Method]:
        return {row[0]: Method(*row, types) for row in rows if row[1] == side}

    return MethodTables(table("agent"), table("client"), table("protocol"))


_made: Final = {1: _tables(ROWS, v1)}
AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS = _made[1]


def method_tables(version: int) -> MethodTables:
    """Return the method tables of version 1 or 2; those of version 2 are loaded when first asked for.

    Raises:
        ValueError: The version is neither.
    """
    if version == 2 and version not in _made:
        from dragoman.schema import v2
        from dragoman.schema.v2.methods import ROWS as V2_ROWS

        _made[2] = _tables(V2_ROWS, v2)
    if version not in _made:
        raise ValueError(f"there are types for the versions 1 and 2 of the protocol, not for {version}")
    return _made[version]
