"""A prompt that a hosted session has accepted, and how it can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError, RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.schema import v1


class HostedPrompt:
    """A prompt that was accepted and has no outcome yet."""

    def __init__(
        self, id: str, by: str, blocks: Sequence[v1.ContentBlock], meta: Mapping[str, Any] | None = None
    ) -> None:
        self.id = id
        self.by = by
        self.blocks = blocks
        self.meta = meta
        self.number = 0
        """Of its event; 0 until that is committed."""
        self.is_cancelled = False


def error_outcome(error: RequestError) -> dict[str, Any]:
    """The outcome of a prompt that failed."""
    data = {} if error.data is None else {"data": error.data}
    return {"error": {"code": error.code, "message": error.message, **data}}


def session_lost(why: str) -> RequestError:
    """The agent of a session is gone for good."""
    message = f"this session cannot go on: {why}; its history can still be loaded, to be given to a new session"
    return RequestError(-32603, message, {"reason": "agent_lost"})


def as_request_error(error: DragomanError) -> RequestError:
    """The error for a client: that of the agent, or that its request does not fit the session."""
    return error if isinstance(error, RequestError) else RequestError(-32602, str(error))
