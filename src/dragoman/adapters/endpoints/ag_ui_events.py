"""Events of the AG-UI protocol as chunks.

Owns the mapping and the state that a run changes. Events are JSON objects with the protocol's names; unknown ones show
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.adapters.members import as_input
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class AGUIEvents:
    """The events of one turn, over all its runs."""

    def __init__(self, state: Any = None) -> None:
        self.state = state
        """The agent's state, which is sent again with the next run."""
        self.messages: list[Any] | None = None
        """The conversation as the agent sees it, if it sends it."""
        self.interrupts: list[dict[str, Any]] = []
        """What the last run waits for."""
        self.refused: set[str] = set()
        self.has_ended = False
        self._count = 0
        self._texts: dict[str, str] = {}
        self._thoughts: dict[str, str] = {}
        self._arguments: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._last_call = ""
        self._last_text = ""
        self._table: dict[str, Callable[[dict[str, Any]], Iterator[c.Chunk]]] = {
            "TEXT_MESSAGE_START": lambda event: self._start("text", event),
            "TEXT_MESSAGE_CONTENT": lambda event: self._delta("text", event),
            "TEXT_MESSAGE_CHUNK": lambda event: self._delta("text", event),
            "TEXT_MESSAGE_END": lambda event: self._end("text", event),
            "REASONING_MESSAGE_START": lambda event: self._start("reasoning", event),
            "REASONING_MESSAGE_CONTENT": lambda event: self._delta("reasoning", event),
            "REASONING_MESSAGE_CHUNK": lambda event: self._delta("reasoning", event),
            "REASONING_MESSAGE_END": lambda event: self._end("reasoning", event),
            "THINKING_TEXT_MESSAGE_START": lambda event: self._start("reasoning", event),
            "THINKING_TEXT_MESSAGE_CONTENT": lambda event: self._delta("reasoning", event),
            "THINKING_TEXT_MESSAGE_END": lambda event: self._end("reasoning", event),
            "TOOL_CALL_START": self._call,
            "TOOL_CALL_ARGS": self._call_arguments,
            "TOOL_CALL_CHUNK": self._call_chunk,
            "TOOL_CALL_END": self._call_end,
            "TOOL_CALL_RESULT": self._call_result,
            "STATE_SNAPSHOT": self._snapshot,
            "STATE_DELTA": self._state_delta,
            "MESSAGES_SNAPSHOT": self._messages,
            "RUN_FINISHED": self._finished,
            "RUN_ERROR": self._error,
        }

    def begin_run(self) -> None:
        """Begin another run of the same turn, with the answers."""
        self.interrupts, self.has_ended = [], False

    def feed(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        """Return the chunks of one event."""
        mapped = self._table.get(str(event.get("type", "")))
        return iter(()) if mapped is None else mapped(event)

    # Text and thoughts

    def _start(self, kind: str, event: dict[str, Any]) -> Iterator[c.Chunk]:
        self._count += 1
        id = self._open(kind)[str(event.get("messageId", ""))] = f"{kind}_{self._count}"
        self._last_text = str(event.get("messageId", ""))
        yield c.TextStart(id) if kind == "text" else c.ReasoningStart(id)

    def _delta(self, kind: str, event: dict[str, Any]) -> Iterator[c.Chunk]:
        key, delta = str(event.get("messageId") or self._last_text), event.get("delta")
        if key not in self._open(kind):
            yield from self._start(kind, {"messageId": key})
        if isinstance(delta, str) and delta:
            id = self._open(kind)[key]
            yield c.TextDelta(id, delta) if kind == "text" else c.ReasoningDelta(id, delta)

    def _end(self, kind: str, event: dict[str, Any]) -> Iterator[c.Chunk]:
        id = self._open(kind).pop(str(event.get("messageId", "")), None)
        if id is not None:
            yield c.TextEnd(id) if kind == "text" else c.ReasoningEnd(id)

    def _open(self, kind: str) -> dict[str, str]:
        return self._texts if kind == "text" else self._thoughts

    def _close_texts(self) -> Iterator[c.Chunk]:
        for id in self._texts.values():
            yield c.TextEnd(id)
        for id in self._thoughts.values():
            yield c.ReasoningEnd(id)
        self._texts.clear()
        self._thoughts.clear()

    # Tool calls

    def _call(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        call, name = str(event.get("toolCallId", "")), str(event.get("toolCallName", "tool"))
        self._arguments[call], self._names[call], self._last_call = [], name, call
        yield from self._close_texts()
        yield c.ToolInputStart(call, name)

    def _call_arguments(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        call, delta = str(event.get("toolCallId") or self._last_call), event.get("delta")
        if isinstance(delta, str) and delta and call in self._arguments:
            self._arguments[call].append(delta)
            yield c.ToolInputDelta(call, delta)

    def _call_chunk(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        call = event.get("toolCallId")
        if call and call not in self._names:
            yield from self._call(event)
        yield from self._call_arguments(event)

    def _call_end(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        yield from self._available(str(event.get("toolCallId") or self._last_call))

    def _available(self, call: str) -> Iterator[c.Chunk]:
        arguments = self._arguments.pop(call, None)
        if arguments is not None:
            yield c.ToolInputAvailable(call, self._names.get(call, "tool"), as_input("".join(arguments)))

    def _call_result(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        call = str(event.get("toolCallId", ""))
        yield from self._available(call)
        if call in self.refused:
            yield c.ToolOutputDenied(call)
        elif isinstance(event.get("error"), str):
            yield c.ToolOutputError(call, event["error"])
        else:
            yield c.ToolOutputAvailable(call, event.get("content"))

    # State and ends

    def _snapshot(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        self.state = event.get("snapshot")
        return iter(())

    def _state_delta(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        self.state = patched(self.state, event.get("delta"))
        return iter(())

    def _messages(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        found = event.get("messages")
        self.messages = found if isinstance(found, list) else None
        return iter(())

    def _finished(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        self.has_ended = True
        outcome = event.get("outcome")
        kind = outcome.get("type") if isinstance(outcome, dict) else "success"
        for call in tuple(self._arguments):
            yield from self._available(call)
        yield from self._close_texts()
        if kind == "cancelled":
            yield c.Abort("the agent cancelled the run")
            return
        if kind != "interrupt":
            yield c.Finish("stop")
            return
        assert isinstance(outcome, dict)
        self.interrupts = [interrupt for interrupt in outcome.get("interrupts", ()) if isinstance(interrupt, dict)]
        for interrupt in self.interrupts:
            asked = interrupt.get("toolCallId")
            if isinstance(asked, str) and asked:
                yield c.ToolApprovalRequest(str(interrupt.get("id", "")), asked)
        yield c.Finish("tool-calls")

    def _error(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        self.has_ended = True
        yield from self._close_texts()
        yield c.ErrorChunk(str(event.get("message") or "the agent failed without a reason"))


def patched(value: Any, operations: Any) -> Any:
    """Return the value after a JSON patch (RFC 6902: add, replace, remove); what does not fit is skipped."""
    for operation in operations if isinstance(operations, list) else ():
        try:
            path = [part.replace("~1", "/").replace("~0", "~") for part in str(operation["path"]).split("/")[1:]]
            value = _changed(value, path, operation["op"], operation.get("value"))
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    return value


def _changed(value: Any, path: list[str], kind: str, new: Any) -> Any:
    if not path:
        return None if kind == "remove" else new
    name, rest = path[0], path[1:]
    if isinstance(value, list):
        copy: Any = list(value)
        index = len(copy) if name == "-" else int(name)
        if rest:
            copy[index] = _changed(copy[index], rest, kind, new)
        elif kind == "remove":
            del copy[index]
        elif kind == "add":
            copy.insert(index, new)
        else:
            copy[index] = new
        return copy
    copy = dict(value or {})
    if rest:
        copy[name] = _changed(copy[name], rest, kind, new)
    elif kind == "remove":
        del copy[name]
    else:
        copy[name] = new
    return copy
