"""The interface between the model loop and a model: one call streams the chunks of a step and states why it ended.

Owns the request, the end of a step and the errors of a model call. Does not depend on any provider.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.uistream.messages import UIMessage, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from dragoman.uistream.chunks import Chunk

FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "context-window", "error", "other"]
"""`context-window`: the answer was cut because the context window was full."""


class ToolSpec(Struct, frozen=True):
    """The description of a tool that is sent to the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments."""


class ModelRequest(Struct, frozen=True):
    """Everything one model call needs. `messages` is the whole conversation, the running assistant message last."""

    messages: tuple[UIMessage, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    effort: str | None = None
    max_output_tokens: int | None = None
    session_id: str = ""
    """Groups the requests of one conversation, for providers that route or cache by a key."""
    stable_until: int = 0
    """How many messages at the beginning rarely change, such as a summary: a good place for a cache breakpoint."""


class StepEnd(Struct, frozen=True):
    """The last item of every model stream."""

    reason: FinishReason
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str = ""


class ModelError(DragomanError):
    """The model could not answer. A call with an `is_retryable` error is repeated after `retry_after_seconds`, or after
    a back-off if that is None."""

    def __init__(
        self, message: str, *, is_retryable: bool = False, retry_after_seconds: float | None = None, status: int = 0
    ) -> None:
        super().__init__(message)
        self.is_retryable = is_retryable
        self.retry_after_seconds = retry_after_seconds
        self.status = status


class ModelAuthError(ModelError):
    """The key is missing or the provider refused it. `variables` names the environment variables to set."""

    def __init__(self, message: str, *, variables: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.variables = variables


class ContextOverflowError(ModelError):
    """The conversation does not fit in the model's context window. The counts are those that the provider stated."""

    def __init__(self, message: str, *, window: int | None = None, used: int | None = None, status: int = 0) -> None:
        super().__init__(message, status=status)
        self.window = window
        self.used = used


class Model(Protocol):
    """A model. Implementations inherit from this class, so that they have its defaults."""

    environment: Mapping[str, str] = os.environ
    """Where it finds its key and address; a session sets one that has the stored keys as well."""

    @property
    def name(self) -> str:
        """The name that users write, such as `anthropic:claude-sonnet-4-5` or `scripted`."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """Size of the context window, None if it is not known."""
        ...

    @property
    def introduction(self) -> str:
        """What the agent says when a session begins, before any prompt. By default it says nothing."""
        return ""

    @property
    def is_loading(self) -> bool:
        """Whether more will be known about the model once its first call was made. By default all is known."""
        return False

    @property
    def is_scripted(self) -> bool:
        """Whether the answers come from a script, which every result must state."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk | StepEnd, None]:
        """Yield the text, reasoning, tool-input, file and source chunks of one step, then one StepEnd. A ResetStep
        between them takes back those before it: the provider began the answer again.

        The chunks start, start-step, finish-step and finish are added by the loop. A caller that stops early closes the
        generator, which ends the call to the provider.

        Raises: ModelError.
        """
        ...

    def warm_up(self) -> None:
        """Start to load in the background what the first call needs. By default there is nothing to load."""
        return  # without this line the method would count as abstract

    def for_subagent(self) -> Model:
        """Return the model of a subagent that names none of its own. By default it is this one."""
        return self

    async def close(self) -> None:
        """Release the connections of the model. By default there are none."""
        return
