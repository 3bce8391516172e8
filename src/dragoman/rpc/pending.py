"""A request that this side sent and the peer has not answered yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Pending:
    """What is needed to resolve an answer: the type to read it as, and the function to call with it."""

    __slots__ = ("id", "is_abandoned", "lane", "method", "result_type", "settle")

    def __init__(
        self,
        request_id: int,
        method: str,
        result_type: Any,
        settle: Callable[[Any, Exception | None], None],
        lane: object,
    ) -> None:
        self.id = request_id
        self.method = method
        self.result_type = result_type
        self.settle = settle
        # The session whose backlog may delay this answer, None when nothing may (see dragoman.rpc.flow).
        self.lane = lane
        self.is_abandoned = False
