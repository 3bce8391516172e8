"""The chunks of one answer, which all wire forms make in the same way.

Owns the ids of parts and calls, and the end of every part. A part is ended only when the whole answer has arrived: some
providers send its signature, or more of its arguments, after the next part has begun.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Struct

from dragoman.builtin.models.model import ModelError, StepEnd
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import StepStartPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dragoman.builtin.models.model import FinishReason, ModelRequest
    from dragoman.builtin.models.wire_forms.form import Target
    from dragoman.uistream.messages import Usage

_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])


class _Open(Struct):
    """A part that has begun."""

    kind: Literal["text", "thought", "call"]
    id: str
    kept: dict[str, Any]
    name: str = ""
    arguments: list[str] = []


class AnswerChunks:
    """The chunks of one answer. `key` names a part in the server's stream: an index or an id."""

    def __init__(self, request: ModelRequest, target: Target) -> None:
        self._request = request
        self._target = target
        reply = request.messages[-1] if request.messages else None
        steps = 0 if reply is None else sum(isinstance(part, StepStartPart) for part in reply.parts)
        self._prefix = f"{'answer' if reply is None else reply.id}.{steps}"
        self._open: dict[Hashable, _Open] = {}
        self._used: set[str] | None = None

    @property
    def has_calls(self) -> bool:
        return any(part.kind == "call" for part in self._open.values())

    def restart(self) -> tuple[c.Chunk, ...]:
        """Forget what has begun, because the server begins the answer again."""
        if not self._open:
            return ()
        self._open.clear()
        self._used = None
        return (c.ResetStep(),)

    def has(self, key: Hashable) -> bool:
        """Whether a part with this key has begun."""
        return key in self._open

    def text(self, key: Hashable, delta: str) -> tuple[c.Chunk, ...]:
        """Add to a text, which begins with its first delta."""
        part = self._open.get(key)
        if part is not None:
            return (c.TextDelta(part.id, delta),) if delta and part.kind == "text" else ()
        if not delta:
            return ()
        id = self._begin(key, "text")
        return c.TextStart(id), c.TextDelta(id, delta)

    def thought(self, key: Hashable, delta: str) -> tuple[c.Chunk, ...]:
        """Add to a thought. It also begins with an empty delta: what must be kept may be all there is of it."""
        part = self._open.get(key)
        if part is not None:
            return (c.ReasoningDelta(part.id, delta),) if delta and part.kind == "thought" else ()
        id = self._begin(key, "thought")
        return (c.ReasoningStart(id), c.ReasoningDelta(id, delta)) if delta else (c.ReasoningStart(id),)

    def call(self, key: Hashable, name: str, call_id: str = "") -> tuple[c.Chunk, ...]:
        """Begin a call. Servers that give no id get one from us."""
        given = call_id or f"call_{secrets.token_hex(12)}"
        # Some servers number their calls from one in every answer; within a session an id must mean one call.
        used = self._used_ids()
        id = given if given not in used else f"{given}.{self._prefix}.{len(self._open)}"
        used.add(id)
        kept = {"call_id": given} if id != given else {}
        self._open[key] = _Open("call", id, kept, name, [])
        return (c.ToolInputStart(id, name),)

    def arguments(self, key: Hashable, delta: str) -> tuple[c.Chunk, ...]:
        """Add to the JSON text of a call's arguments."""
        part = self._open.get(key)
        if part is None or part.kind != "call" or not delta:
            return ()
        part.arguments.append(delta)
        return (c.ToolInputDelta(part.id, delta),)

    def has_whole_arguments(self, key: Hashable) -> bool:
        """Whether the arguments of a call are complete, as far as that can be known from them."""
        part = self._open.get(key)
        return part is not None and isinstance(self._ended(part), c.ToolInputAvailable) and bool(part.arguments)

    def keep(self, key: Hashable, **members: Any) -> None:
        """Keep what the provider needs back with the part: signatures, ids. `kept_of` returns it."""
        part = self._open.get(key)
        if part is not None:
            part.kept.update({name: value for name, value in members.items() if value is not None})

    def kept(self, key: Hashable) -> dict[str, Any]:
        part = self._open.get(key)
        return {} if part is None else part.kept

    def finish(
        self, reason: FinishReason, usage: Usage | None = None, model: str = "", cost_usd: float | None = None
    ) -> list[c.Chunk | StepEnd]:
        """End every part that has begun, and the step. `model` and `cost_usd` are what the server reports."""
        ends: list[c.Chunk | StepEnd] = [self._ended(part) for part in self._open.values()]
        ends.append(StepEnd(reason, usage, cost_usd, f"{self._target.provider.id}:{model or self._target.model}"))
        return ends

    def _begin(self, key: Hashable, kind: Literal["text", "thought"]) -> str:
        id = f"{self._prefix}.{len(self._open)}"
        self._open[key] = _Open(kind, id, {})
        return id

    def _used_ids(self) -> set[str]:
        if self._used is None:
            self._used = {
                part.tool_call_id
                for message in self._request.messages
                for part in message.parts
                if isinstance(part, ToolPart)
            }
        return self._used

    def _ended(self, part: _Open) -> c.Chunk:
        metadata: Any = {self._target.provider.id: part.kept} if part.kept else UNSET
        if part.kind == "text":
            return c.TextEnd(part.id, metadata)
        if part.kind == "thought":
            return c.ReasoningEnd(part.id, metadata)
        text = "".join(part.arguments)
        try:
            arguments = _ARGUMENTS.decode(text if text.strip() else "{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            why = f"the arguments of {part.name} are not a JSON object: {error}"
            return c.ToolInputError(part.id, part.name, text, why, provider_metadata=metadata)
        return c.ToolInputAvailable(part.id, part.name, arguments, provider_metadata=metadata)


def broken_off() -> ModelError:
    """Return the error of a response that ended before the answer did."""
    return ModelError("the model's answer broke off", is_retryable=True)


def unreadable(target: Target, error: Exception) -> ModelError:
    """Return the error of an event that is not what the wire form says."""
    return ModelError(
        f"{target.provider.title or target.provider.id} sent an unreadable answer: {error}", is_retryable=True
    )
