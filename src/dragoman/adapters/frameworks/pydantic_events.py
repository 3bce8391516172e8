"""Events of a pydantic-ai run as chunks.

Owns the mapping; does not import pydantic-ai. Parts are numbered again in every model response, so passages get ids of
their own. `final_result` does not end a run: only `agent_run_result` does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.members import as_input, member, plain_json
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FINISH: Final = {"length": "length", "content_filter": "content-filter", "error": "error"}
_TOOL_CALLS: Final = ("tool-call", "builtin-tool-call", "native-tool-call")
_TOOL_RETURNS: Final = ("builtin-tool-return", "native-tool-return")


class PydanticEvents:
    """The events of one turn, in order.

    Args:
        asks_inside: permission is asked by a handler inside the run, which shows the questions itself.
    """

    def __init__(self, *, asks_inside: bool = False) -> None:
        self._asks_inside = asks_inside
        self._count = 0
        self._passages: dict[int, str] = {}
        self._calls: dict[int, str] = {}
        self._announced: set[str] = set()
        self._open: set[str] = set()
        self._table: dict[str, Callable[[Any], Iterator[c.Chunk]]] = {
            "part_start": self._part_start,
            "part_delta": self._part_delta,
            "part_end": self._part_end,
            "function_tool_call": self._tool_call,
            "output_tool_call": self._tool_call,
            "function_tool_result": self._tool_result,
            "output_tool_result": self._tool_result,
            "deferred_tool_requests": self._questions,
            "deferred_tool_results": self._answers,
            "agent_run_result": self._result,
        }

    def feed(self, event: Any) -> Iterator[c.Chunk]:
        """Return the chunks of one event; none for events that show nothing."""
        mapped = self._table.get(member(event, "event_kind", ""))
        return iter(()) if mapped is None else mapped(event)

    def _part_start(self, event: Any) -> Iterator[c.Chunk]:
        part, index = member(event, "part"), member(event, "index", 0)
        kind = member(part, "part_kind", "")
        if kind in ("text", "thinking"):
            self._count += 1
            id = self._passages[index] = f"p{self._count}"
            yield c.TextStart(id) if kind == "text" else c.ReasoningStart(id)
            if member(part, "content"):
                yield self._delta(kind, id, member(part, "content"))
        elif kind in _TOOL_CALLS:
            call = member(part, "tool_call_id", "")
            self._calls[index] = call
            yield c.ToolInputStart(call, member(part, "tool_name", "tool"))
            yield from self._arguments(call, member(part, "args"))
        elif kind in _TOOL_RETURNS:
            yield from self._returned(part)
        elif kind == "file":
            yield from _file(member(part, "content"))

    def _part_delta(self, event: Any) -> Iterator[c.Chunk]:
        delta, index = member(event, "delta"), member(event, "index", 0)
        kind = member(delta, "part_delta_kind", "")
        if kind in ("text", "thinking") and index in self._passages:
            if member(delta, "content_delta"):
                yield self._delta(kind, self._passages[index], member(delta, "content_delta"))
        elif kind == "tool_call" and index in self._calls:
            yield from self._arguments(self._calls[index], member(delta, "args_delta"))

    def _part_end(self, event: Any) -> Iterator[c.Chunk]:
        part, index = member(event, "part"), member(event, "index", 0)
        kind = member(part, "part_kind", "")
        id = self._passages.pop(index, None)
        if id is not None:
            yield c.TextEnd(id) if kind == "text" else c.ReasoningEnd(id)
        elif self._calls.pop(index, None) is not None:
            yield from self._available(part, is_provider=kind != "tool-call")

    def _tool_call(self, event: Any) -> Iterator[c.Chunk]:
        yield from self._available(member(event, "part"))

    def _available(self, part: Any, *, is_provider: bool = False) -> Iterator[c.Chunk]:
        call = member(part, "tool_call_id", "")
        if call in self._announced:
            return
        self._announced.add(call)
        self._open.add(call)
        available = c.ToolInputAvailable(call, member(part, "tool_name", "tool"), as_input(member(part, "args")))
        if is_provider:
            yield c.ToolInputAvailable(call, available.tool_name, available.input, provider_executed=True)
        else:
            yield available

    def _tool_result(self, event: Any) -> Iterator[c.Chunk]:
        yield from self._returned(member(event, "part", member(event, "result")))

    def _returned(self, part: Any) -> Iterator[c.Chunk]:
        call, content = member(part, "tool_call_id", ""), plain_json(member(part, "content"))
        self._open.discard(call)
        if member(part, "part_kind") == "retry-prompt":
            yield c.ToolOutputError(call, content if isinstance(content, str) else json.dumps(content))
        elif member(part, "outcome") == "denied":
            yield c.ToolOutputDenied(call)
        elif member(part, "outcome") == "failed":
            yield c.ToolOutputError(call, str(content))
        else:
            yield c.ToolOutputAvailable(call, content)

    def _questions(self, event: Any) -> Iterator[c.Chunk]:
        if self._asks_inside:
            return
        for part in member(member(event, "requests"), "approvals", ()):
            call = member(part, "tool_call_id", "")
            yield c.ToolApprovalRequest(call, call)

    def _answers(self, event: Any) -> Iterator[c.Chunk]:
        if self._asks_inside:
            return
        for call, answer in member(member(event, "results"), "approvals", {}).items():
            is_yes = answer is True or member(answer, "kind") == "tool-approved"
            yield c.ToolApprovalResponse(call, is_yes)

    def _result(self, event: Any) -> Iterator[c.Chunk]:
        result = member(event, "result")
        output = member(result, "output")
        if member(output, "approvals"):
            yield c.Finish("tool-calls")
            return
        if not isinstance(output, str) and output is not None:
            text = json.dumps(plain_json(output), indent=2, ensure_ascii=False)
            self._count += 1
            yield c.TextStart(f"p{self._count}")
            yield c.TextDelta(f"p{self._count}", text)
            yield c.TextEnd(f"p{self._count}")
        for call in sorted(self._open):  # the call that carries a structured output has no result of its own
            yield c.ToolOutputAvailable(call, None)
        self._open.clear()
        yield c.Finish(_FINISH.get(finish_reason(result), "stop"))

    @staticmethod
    def _delta(kind: str, id: str, text: str) -> c.Chunk:
        return c.TextDelta(id, text) if kind == "text" else c.ReasoningDelta(id, text)

    @staticmethod
    def _arguments(call: str, arguments: Any) -> Iterator[c.Chunk]:
        if arguments:
            yield c.ToolInputDelta(call, arguments if isinstance(arguments, str) else json.dumps(arguments))


def finish_reason(result: Any) -> str:
    """Return why the last model response of a run ended, in pydantic-ai's words."""
    history = member(member(result, "_state"), "message_history", ())
    for message in reversed(history):
        if member(message, "kind") == "response":
            return str(member(message, "finish_reason", ""))
    return ""


def _file(content: Any) -> Iterator[c.Chunk]:
    from base64 import b64encode

    data, media_type = member(content, "data"), member(content, "media_type", "application/octet-stream")
    if isinstance(data, bytes):
        yield c.File(f"data:{media_type};base64,{b64encode(data).decode()}", media_type)
