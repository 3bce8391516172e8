"""What a LangGraph graph streams (`messages`, `updates`, `custom`, with subgraphs) as chunks.

Owns the mapping; does not import LangGraph. Text and arguments come from `messages`, complete calls from `updates`.
Output of sub-agents runs below a namespace: their calls are shown like others, their text as the output of the call
that started them. A plan of the agent (`todos`) is shown as the plan, not as a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.adapters.members import member, plain_json
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INTERRUPT: Final = "__interrupt__"
_PLAN_TOOLS: Final = frozenset({"write_todos"})
_SUBAGENT_TOOLS: Final = frozenset({"task"})


class GraphQuestion(Struct, frozen=True):
    """One thing that an interrupt asks for: permission for a call, or, without one, an answer in words or a form."""

    interrupt_id: str
    id: str
    call_id: str | None
    action: Any
    allowed: tuple[str, ...] = ()
    schema: Any = None


class GraphEvents:
    """The stream of one turn, over all its runs."""

    def __init__(self) -> None:
        self.questions: list[GraphQuestion] = []
        """What the last run was interrupted for."""
        self.refused: set[str] = set()
        """Calls that the user did not permit."""
        self.has_shown = False
        self._streamed: set[str] = set()
        self._text: str | None = None
        self._thought: str | None = None
        self._names: dict[str, str] = {}
        self._inputs: dict[str, Any] = {}
        self._indexes: dict[tuple[str, Any], str] = {}
        self._over: set[str] = set()
        self._hidden: set[str] = set()
        self._subagent_text: dict[str, str] = {}

    def begin_run(self) -> None:
        """Begin another run of the same turn, with the answers."""
        self.questions = []

    def feed(self, namespace: Sequence[str], mode: str, data: Any) -> Iterator[c.Chunk]:
        """Yield the chunks of one streamed item."""
        for chunk in self._map("|".join(namespace), mode, data):
            self.has_shown = True
            yield chunk

    def close(self) -> Iterator[c.Chunk]:
        """End the passages that are open."""
        if self._text is not None:
            yield c.TextEnd(self._text)
        if self._thought is not None:
            yield c.ReasoningEnd(self._thought)
        self._text = self._thought = None

    def _map(self, namespace: str, mode: str, data: Any) -> Iterator[c.Chunk]:
        if mode == "messages":
            yield from self._message(namespace, data[0])
        elif mode == "updates" and isinstance(data, dict):
            for node, update in data.items():
                if node == INTERRUPT:
                    yield from self._interrupted(update)
                else:
                    yield from self._update(namespace, update)
        elif mode == "custom":
            yield from _custom(data)

    # Messages as they are streamed

    def _message(self, namespace: str, message: Any) -> Iterator[c.Chunk]:
        kind = member(message, "type", "")
        if kind == "tool":
            yield from self._tool_message(message)
        elif kind == "AIMessageChunk":
            yield from self._streamed_piece(namespace, message)
        elif kind == "ai":
            yield from self._whole(namespace, message)

    def _streamed_piece(self, namespace: str, message: Any) -> Iterator[c.Chunk]:
        id = str(member(message, "id", ""))
        self._streamed.add(id)
        for kind, text in _texts(member(message, "content", "")):
            yield from self._passage(namespace, id, kind, text)
        for piece in member(message, "tool_call_chunks", ()):
            yield from self._call_piece(id, piece)
        if member(message, "chunk_position") == "last":
            yield from self.close()

    def _passage(self, namespace: str, id: str, kind: str, text: str) -> Iterator[c.Chunk]:
        if namespace:
            yield from self._subagent(namespace, text) if kind == "text" else ()
        elif kind == "text":
            if self._text != id:
                yield from self.close()
                self._text = id
                yield c.TextStart(id)
            yield c.TextDelta(id, text)
        else:
            if self._thought != id:
                self._thought = id
                yield c.ReasoningStart(id)
            yield c.ReasoningDelta(id, text)

    def _subagent(self, namespace: str, text: str) -> Iterator[c.Chunk]:
        """Show text of a sub-agent as the output so far of the call that started it, if only one can have."""
        running = [call for call, name in self._names.items() if name in _SUBAGENT_TOOLS and call not in self._over]
        if len(running) == 1:
            whole = self._subagent_text[namespace] = self._subagent_text.get(namespace, "") + text
            yield c.ToolOutputAvailable(running[0], whole, preliminary=True)

    def _call_piece(self, id: str, piece: Any) -> Iterator[c.Chunk]:
        """Yield a piece of a call: id and name come with the first one only."""
        call, name, key = member(piece, "id"), member(piece, "name"), (id, member(piece, "index", 0))
        if call and name:
            self._indexes[key] = call
            self._names[call] = name
            if name in _PLAN_TOOLS:
                self._hidden.add(call)
            else:
                yield from self.close()
                yield c.ToolInputStart(call, name)
        known = self._indexes.get(key)
        if known and known not in self._hidden and member(piece, "args"):
            yield c.ToolInputDelta(known, member(piece, "args"))

    # Complete messages

    def _update(self, namespace: str, update: Any) -> Iterator[c.Chunk]:
        for part in update if isinstance(update, (list, tuple)) else (update,):
            if not isinstance(part, dict):
                continue
            if isinstance(part.get("todos"), (list, tuple)) and not namespace:
                yield _plan(part["todos"])
            messages = part.get("messages")
            messages = member(messages, "value", messages)  # Overwrite(value) replaces the whole list
            for message in messages if isinstance(messages, (list, tuple)) else ():
                kind = member(message, "type", "")
                if kind in ("ai", "AIMessageChunk"):
                    yield from self._whole(namespace, message)
                elif kind == "tool":
                    yield from self._tool_message(message)

    def _whole(self, namespace: str, message: Any) -> Iterator[c.Chunk]:
        id = str(member(message, "id", ""))
        if id not in self._streamed:
            self._streamed.add(id)
            for kind, text in _texts(member(message, "content", "")):
                yield from self._passage(namespace, id, kind, text)
        yield from self.close()
        for call in member(message, "tool_calls", ()):
            yield from self._call(member(call, "id", ""), member(call, "name", "tool"), member(call, "args", {}))

    def _call(self, call: str, name: str, arguments: Any) -> Iterator[c.Chunk]:
        arguments = plain_json(arguments)
        if call in self._over or self._inputs.get(call) == arguments:
            return
        self._names[call], self._inputs[call] = name, arguments
        if name in _PLAN_TOOLS:
            self._hidden.add(call)
        else:
            yield c.ToolInputAvailable(call, name, arguments)

    def _tool_message(self, message: Any) -> Iterator[c.Chunk]:
        call = member(message, "tool_call_id", "")
        if call in self._over:
            return  # repeated by another node
        self._over.add(call)
        if call in self._hidden:
            if member(message, "status") != "error":
                return  # the plan shows what it did
            yield c.ToolInputAvailable(call, self._names.get(call, "tool"), self._inputs.get(call, {}))
        content = _output(member(message, "content", ""))
        if call in self.refused:
            yield c.ToolOutputDenied(call)
        elif member(message, "status") == "error":
            yield c.ToolOutputError(call, content if isinstance(content, str) else str(content))
        else:
            yield c.ToolOutputAvailable(call, content)

    # Interrupts

    def _interrupted(self, interrupts: Any) -> Iterator[c.Chunk]:
        yield from self.close()
        for interrupt in interrupts if isinstance(interrupts, (list, tuple)) else (interrupts,):
            yield from self._question(str(member(interrupt, "id", "interrupt")), interrupt)

    def _question(self, interrupt_id: str, interrupt: Any) -> Iterator[c.Chunk]:
        value = member(interrupt, "value")
        actions = member(value, "action_requests") if isinstance(value, dict) else None
        if not isinstance(actions, (list, tuple)):
            schema = member(interrupt, "response_schema")
            self.questions.append(GraphQuestion(interrupt_id, interrupt_id, None, plain_json(value), schema=schema))
            return
        configs = {member(config, "action_name"): config for config in member(value, "review_configs", ())}
        for index, action in enumerate(actions):
            id = f"{interrupt_id}:{index}"
            name, given = member(action, "name", "tool"), plain_json(member(action, "args", {}))
            call = self._matching(name, given)
            if call is None:
                call = id
                yield from self._call(call, name, given)
            allowed = tuple(member(configs.get(name, {}), "allowed_decisions", ("approve", "reject")))
            self.questions.append(GraphQuestion(interrupt_id, id, call, action, allowed))
            yield c.ToolApprovalRequest(id, call)

    def _matching(self, name: str, arguments: Any) -> str | None:
        """Return the call that an action is about: the first of this name and input that is not asked about yet."""
        asked = {question.call_id for question in self.questions}
        return next(
            (
                call
                for call, known in self._inputs.items()
                if known == arguments and self._names.get(call) == name and call not in asked and call not in self._over
            ),
            None,
        )


def _texts(content: Any) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a message's content: text and thoughts."""
    if isinstance(content, str):
        if content:
            yield "text", content
        return
    for block in content if isinstance(content, (list, tuple)) else ():
        if isinstance(block, str):
            yield "text", block
        elif isinstance(block, dict):
            if isinstance(block.get("text"), str) and block.get("type") == "text":
                yield "text", block["text"]
            thought = block.get("thinking") or block.get("reasoning")
            if isinstance(thought, str):
                yield "reasoning", thought


def _output(content: Any) -> Any:
    pieces = [text for kind, text in _texts(content) if kind == "text"]
    return "".join(pieces) if pieces or not content else plain_json(content)


def _plan(todos: Sequence[Any]) -> c.Chunk:
    entries = [
        {"content": str(member(todo, "content", "")), "status": str(member(todo, "status", "pending"))}
        for todo in todos
    ]
    return c.Data("plan", {"entries": entries}, "plan")


def _custom(data: Any) -> Iterator[c.Chunk]:
    """Yield what a node writes with `get_stream_writer`: a chunk as JSON is shown, the rest is data next to it."""
    if isinstance(data, dict) and (data.get("type") in c.KNOWN_TYPES or str(data.get("type")).startswith("data-")):
        yield c.decode_chunk(msgspec.json.encode(plain_json(data)))
    else:
        yield c.Data("custom", plain_json(data), transient=True)


def decisions_for(questions: Sequence[GraphQuestion], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value each interrupt is resumed with, by its id: as many decisions as it has actions, in order."""
    values: dict[str, Any] = {}
    for question in questions:
        answer = answers[question.id]
        if question.call_id is None:
            values[question.interrupt_id] = answer
        else:
            values.setdefault(question.interrupt_id, {"decisions": []})["decisions"].append(_decision(question, answer))
    return values


def _decision(question: GraphQuestion, answer: Any) -> dict[str, Any]:
    name = member(question.action, "name", "tool")
    if not answer.allowed:
        message = answer.reason or "The user did not permit this tool call."
        kind = "reject" if "reject" in question.allowed or "respond" not in question.allowed else "respond"
        return {"type": kind, "message": message}
    if isinstance(answer.input, dict) and "edit" in question.allowed:
        return {"type": "edit", "edited_action": {"name": name, "args": answer.input}}
    return {"type": "approve"}
