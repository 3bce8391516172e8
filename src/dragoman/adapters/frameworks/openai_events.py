"""Events of a run of openai-agents as chunks.

Owns the mapping; does not import openai-agents. Text, thoughts and arguments come from raw events of the Responses
API, complete calls and their outputs from run items. Ids of items are used again in the next response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.adapters.members import as_input, member, plain_json
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Iterator


class OpenAIEvents:
    """The events of one turn, over all its runs."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        """Calls that the user did not permit."""
        self.was_refused_by_model = False
        self._responses = 0
        self._open: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._announced: set[str] = set()
        self._over: set[str] = set()

    def feed(self, event: Any) -> Iterator[c.Chunk]:
        """The chunks of one event; none for events that show nothing."""
        kind = member(event, "type", "")
        if kind == "raw_response_event":
            yield from self._raw(member(event, "data"))
        elif kind == "run_item_stream_event":
            yield from self._item(member(event, "name", ""), event)

    def questions(self, interruptions: Any) -> Iterator[c.Chunk]:
        """The permission questions that a run ended with."""
        for each in interruptions:
            raw = member(each, "raw_item", each)
            call = call_id_of(each)
            yield from self._available(raw)
            yield c.ToolApprovalRequest(call, call)

    def close(self) -> Iterator[c.Chunk]:
        """End the passages that are open."""
        for id, kind in self._open.items():
            yield c.TextEnd(id) if kind == "text" else c.ReasoningEnd(id)
        self._open.clear()

    def _raw(self, data: Any) -> Iterator[c.Chunk]:
        kind, item = str(member(data, "type", "")), member(data, "item")
        if kind == "response.created":
            self._responses += 1
            yield from self.close()
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            self.was_refused_by_model = self.was_refused_by_model or "refusal" in kind
            yield from self._delta("text", data)
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            yield from self._delta("reasoning", data)
        elif kind == "response.function_call_arguments.delta":
            call = self._calls.get(str(member(data, "item_id", "")))
            if call is not None and member(data, "delta"):
                yield c.ToolInputDelta(call, member(data, "delta"))
        elif kind == "response.output_item.added" and member(item, "type") == "function_call":
            call = member(item, "call_id", "")
            self._calls[str(member(item, "id", ""))] = call
            yield from self.close()
            yield c.ToolInputStart(call, member(item, "name", "tool"))
        elif kind == "response.output_item.done":
            yield from self.close()
            if member(item, "type") == "function_call":
                yield from self._available(item)

    def _delta(self, kind: str, data: Any) -> Iterator[c.Chunk]:
        if not member(data, "delta"):
            return
        id = f"{kind}_{self._responses}_{member(data, 'item_id', '')}"
        if id not in self._open:
            self._open[id] = kind
            yield c.TextStart(id) if kind == "text" else c.ReasoningStart(id)
        delta = member(data, "delta")
        yield c.TextDelta(id, delta) if kind == "text" else c.ReasoningDelta(id, delta)

    def _item(self, name: str, event: Any) -> Iterator[c.Chunk]:
        item = member(event, "item", event)
        raw = member(item, "raw_item")
        if name == "tool_called":
            yield from self._available(raw)
        elif name == "tool_output":
            call = member(raw, "call_id", "")
            if call in self._over:
                return
            self._over.add(call)
            if call in self.refused:
                yield c.ToolOutputDenied(call)
            else:
                yield c.ToolOutputAvailable(call, plain_json(member(item, "output", member(raw, "output"))))

    def _available(self, raw: Any) -> Iterator[c.Chunk]:
        call = member(raw, "call_id", member(raw, "id", ""))
        if call not in self._announced:
            self._announced.add(call)
            name = member(raw, "name", str(member(raw, "type", "tool")).removesuffix("_call"))
            yield c.ToolInputAvailable(call, name, as_input(member(raw, "arguments")))


def call_id_of(interruption: Any) -> str:
    """The tool call that an interruption is about."""
    raw = member(interruption, "raw_item", interruption)
    return str(member(raw, "call_id", member(raw, "id", "")))
