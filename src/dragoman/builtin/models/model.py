"""What a model is to the loop: one call that streams chunks and says at its end why it ended.

Owns the request, the ending and the errors of a model call. Does not know any provider; those live in `models/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.uistream.messages import Message, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.uistream.chunks import Chunk

FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments."""


class ModelRequest(Struct, frozen=True):
    """Everything one model call needs. `messages` is the whole conversation, the running assistant message last."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    effort: str | None = None
    max_output_tokens: int | None = None


class StepEnd(Struct, frozen=True):
    """The last item of every model stream."""

    reason: FinishReason
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str = ""


class ModelError(DragomanError):
    """The model could not answer. `is_retryable` errors are tried again after `retry_after_seconds`, or a back-off."""

    def __init__(
        self, message: str, *, is_retryable: bool = False, retry_after_seconds: float | None = None, status: int = 0
    ) -> None:
        super().__init__(message)
        self.is_retryable = is_retryable
        self.retry_after_seconds = retry_after_seconds
        self.status = status


class ModelAuthError(ModelError):
    """No key, or one the provider refuses. `variables` names what would have to be set."""

    def __init__(self, message: str, *, variables: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.variables = variables


class Model(Protocol):
    """A model. `stream` yields text, reasoning, tool-input, file and source chunks of one step, then one StepEnd.

    It never yields start, start-step, finish-step or finish: those are the loop's. Raises: ModelError.
    """

    @property
    def name(self) -> str:
        """What users call it, such as `anthropic:claude-sonnet-4-5` or `scripted`."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """Size of its context window, None if nobody knows."""
        ...

    @property
    def is_scripted(self) -> bool:
        """Whether its answers come from a script, which every result has to say."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk | StepEnd]: ...
