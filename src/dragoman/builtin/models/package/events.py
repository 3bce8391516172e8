"""One call of a provider's model: sends the request and converts its events to chunks.

Owns that direction and the settings of a call. A part is ended only when the whole answer has arrived: some providers
send its signature, or more of its arguments, after the next part has begun. Imports `pydantic-ai`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.builtin.models.model import ModelError, StepEnd
from dragoman.builtin.models.package.convert import METADATA, messages_of, parameters_of
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import StepStartPart, ToolPart, Usage

with suppress(ImportError):  # not part of a base install; nothing here is called without it
    from pydantic_ai import messages as pm
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.exceptions import ContentFilterError
    from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage

    from dragoman.builtin.models.model import FinishReason, ModelRequest

_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
}
# OpenAI's own service is asked not to store the conversation, and what a later request needs is sent with that request,
# so a session can be continued at any time.
_UNSTORED: Final = frozenset({"openai", "openai-responses"})


async def stream_step(model: Model, name: str, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
    """Run one step. Raises: ModelError, and the package's own errors."""
    step = _Step(request)
    try:
        async with model_request_stream(
            model,
            messages_of(request.messages),
            model_settings=_settings(name, request),
            model_request_parameters=parameters_of(request),
        ) as stream:
            async for event in stream:
                for chunk in step.take(event):
                    yield chunk
            response = stream.get()
    except ContentFilterError:
        yield StepEnd("content-filter", model=name)
        return
    reason = _reason(response)
    for chunk in step.end(response):
        yield chunk
    yield StepEnd(reason, _usage(response.usage), _cost(response), f"{name.partition(':')[0]}:{response.model_name}")


def _settings(name: str, request: ModelRequest) -> Any:
    settings: dict[str, Any] = {
        "cache": True,
        "max_retries": 0,  # the loop retries: it shows that it waits, and respects what the provider asks for
    }
    if request.effort is not None:
        settings["thinking"] = request.effort
    if request.max_output_tokens is not None:
        settings["max_tokens"] = request.max_output_tokens
    if name.partition(":")[0] in _UNSTORED:
        settings["openai_store"] = False
    return settings


class _Step:
    """The chunks of one answer, part by part."""

    def __init__(self, request: ModelRequest) -> None:
        reply = request.messages[-1]
        number = sum(isinstance(part, StepStartPart) for part in reply.parts)
        self._prefix = f"{reply.id}.{number}"
        self._used = {
            part.tool_call_id for message in request.messages for part in message.parts if isinstance(part, ToolPart)
        }
        self._open: dict[int, tuple[str, str]] = {}
        """Index of a part -> its kind and the id it has in the chunks."""
        self._restarts = 0

    def take(self, event: Any) -> Iterator[c.Chunk]:
        if isinstance(event, pm.PartStartEvent):
            yield from self._start(event.index, event.part)
        elif isinstance(event, pm.PartDeltaEvent) and event.index in self._open:
            kind, id = self._open[event.index]
            delta = event.delta
            if kind == "text" and isinstance(delta, pm.TextPartDelta) and delta.content_delta:
                yield c.TextDelta(id, delta.content_delta)
            elif kind == "thinking" and isinstance(delta, pm.ThinkingPartDelta) and delta.content_delta:
                yield c.ReasoningDelta(id, delta.content_delta)
            elif kind == "tool-call" and isinstance(delta, pm.ToolCallPartDelta) and delta.args_delta:
                yield c.ToolInputDelta(id, _as_text(delta.args_delta))

    def _start(self, index: int, part: pm.ModelResponsePart) -> Iterator[c.Chunk]:
        if index in self._open:  # the package has found out that the part is of another kind: end the first
            kind, id = self._open.pop(index)
            self._restarts += 1
            if kind == "tool-call":
                yield c.ToolInputError(id, "unknown", {}, "the model did not continue this call")
            else:
                yield c.TextEnd(id) if kind == "text" else c.ReasoningEnd(id)
        id = f"{self._prefix}.{index}" + (f".{self._restarts}" if self._restarts else "")
        if isinstance(part, pm.TextPart):
            self._open[index] = "text", id
            yield c.TextStart(id)
            if part.content:
                yield c.TextDelta(id, part.content)
        elif isinstance(part, pm.ThinkingPart):
            self._open[index] = "thinking", id
            yield c.ReasoningStart(id)
            if part.content:
                yield c.ReasoningDelta(id, part.content)
        elif isinstance(part, pm.ToolCallPart):
            # Some servers number their calls from one in every answer; within a session an id must mean one call.
            id = part.tool_call_id if part.tool_call_id not in self._used else f"{part.tool_call_id}.{self._prefix}"
            self._used.add(id)
            self._open[index] = "tool-call", id
            yield c.ToolInputStart(id, part.tool_name)
            if part.args:
                yield c.ToolInputDelta(id, _as_text(part.args))

    def end(self, response: pm.ModelResponse) -> Iterator[c.Chunk]:
        """End every part that was begun, with the metadata that the provider needs in later requests."""
        for index, part in enumerate(response.parts):
            if isinstance(part, pm.FilePart):
                yield c.File(part.content.data_uri, part.content.media_type)
            elif index in self._open:
                _, id = self._open[index]
                metadata = _metadata(response, part, id)
                if isinstance(part, pm.TextPart):
                    yield c.TextEnd(id, metadata)
                elif isinstance(part, pm.ThinkingPart):
                    yield c.ReasoningEnd(id, metadata)
                elif isinstance(part, pm.ToolCallPart):
                    yield _called(part, id, metadata)


def _called(part: pm.ToolCallPart, id: str, metadata: Any) -> c.Chunk:
    arguments = part.args
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError) as error:
            why = f"the arguments of {part.tool_name} are not a JSON object: {error}"
            return c.ToolInputError(id, part.tool_name, part.args, why, provider_metadata=metadata)
    return c.ToolInputAvailable(id, part.tool_name, arguments or {}, provider_metadata=metadata)


def _metadata(response: pm.ModelResponse, part: Any, id: str) -> Any:
    kept = {
        "provider": part.provider_name or response.provider_name,
        "system": response.canonical_system,
        "url": response.provider_url,
        "id": part.id,
        "signature": getattr(part, "signature", None),
        "details": part.provider_details,
        "call_id": part.tool_call_id if isinstance(part, pm.ToolCallPart) and part.tool_call_id != id else None,
    }
    given = {name: value for name, value in kept.items() if value is not None}
    return {METADATA: to_jsonable_python(given)} if given else UNSET


def _reason(response: pm.ModelResponse) -> FinishReason:
    """Raises: ModelError when the answer is incomplete: it was cut off, or the model stopped with an error."""
    raw = (response.provider_details or {}).get("finish_reason")
    if response.finish_reason == "error":
        raise ModelError(f"the model gave up on its answer: {raw or 'no reason was sent'}", is_retryable=True)
    if response.finish_reason is not None:
        return _REASONS[response.finish_reason]
    if raw is None or response.state == "incomplete":
        raise ModelError("the model's answer broke off", is_retryable=True)
    return "other"


def _usage(usage: RequestUsage) -> Usage | None:
    """Return the usage in our counts, which do not overlap.

    The package includes cached tokens in the input and reasoning in the output.
    """
    if usage.unmeasured_requests or not usage.total_tokens:
        return None
    return Usage(
        input=max(usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens, 0),
        output=max(usage.output_tokens - usage.output_reasoning_tokens, 0),
        reasoning=usage.output_reasoning_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
    )


def _cost(response: pm.ModelResponse) -> float | None:
    """Return the price, or None if it is not known: a model on the user's own machine, or a new one."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
