"""An agent of openai-agents: runs, interruptions, and its history as input items.

Owns running it, and the mapping from its events to chunks. A run that ends with interruptions is continued from its
state with the answers. The history is what the framework gives (`to_input_list`), kept with the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.frameworks.missing import load
from dragoman.adapters.members import as_input, member, plain_json
from dragoman.adapters.normal import text_of
from dragoman.adapters.values import AskOption
from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import TextPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.values import AskAnswer

_EXTRA: Final = "openai-agents"
_HISTORY: Final = "openai_agents"
_OPTIONS: Final = (
    AskOption("allow", "Allow"),
    AskOption("session", "Allow this tool for the turn", scope="session"),
    AskOption("reject", "Reject", allows=False),
)


class _Run:
    """What one turn keeps between its runs."""

    def __init__(self, history: list[Any]) -> None:
        self.events = OpenAIEvents()
        self.history = history
        """The input of the turn: what is kept if it does not come to its end."""
        self.result: Any = None


class OpenAIAgentsAdapter(Adapter):
    """An agent of openai-agents.

    Args:
        agent: an `agents.Agent`.
        options: further arguments of every run, such as `context`, `max_turns` or `run_config`.
    """

    accepts = ("image", "embedded_context")

    def __init__(self, agent: Any, **options: Any) -> None:
        if not hasattr(agent, "handoffs") or not hasattr(agent, "tools"):
            raise ConfigError(f"{type(agent).__name__} is not an agent of openai-agents; pass an agents.Agent")
        self._agents = load("agents", _EXTRA)
        self._agent = agent
        self._options = options
        self.name = getattr(agent, "name", None) or "openai-agents"

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        history = [*ctx.session.metadata.get(_HISTORY, ()), {"role": "user", "content": _content(ctx.blocks)}]
        ctx.session.state = turn = _Run(history)
        async for chunk in self._stream(ctx, turn, history):
            yield chunk

    async def resume(self, ctx: PromptContext, answers: Mapping[str, AskAnswer]) -> AsyncIterator[Yielded]:
        turn: _Run = ctx.session.state
        state = turn.result.to_state()
        for item in turn.result.interruptions:
            answer = answers[call_id_of(item)]
            if answer.allowed:
                state.approve(item, always_approve=answer.scope != "once")
            else:
                turn.events.refused.add(call_id_of(item))
                state.reject(item, rejection_message=answer.reason or "The user did not permit this tool call.")
        async for chunk in self._stream(ctx, turn, state):
            yield chunk

    async def _stream(self, ctx: PromptContext, turn: _Run, run_input: Any) -> AsyncIterator[Yielded]:
        result = turn.result = self._agents.Runner.run_streamed(self._agent, run_input, **self._options)
        events = turn.events
        is_complete = False
        try:
            async for event in result.stream_events():
                for chunk in events.feed(event):
                    yield chunk
            for chunk in events.close():
                yield chunk
            is_complete = True
        finally:
            if not is_complete:
                result.cancel()
            self._keep(ctx, turn, is_complete=is_complete)
        if result.interruptions:
            for chunk in events.questions(result.interruptions):
                yield chunk
            for item in result.interruptions:
                ctx.offer(call_id_of(item), _OPTIONS)
            yield c.Finish("tool-calls")
        else:
            yield c.Finish("content-filter" if events.was_refused_by_model else "stop")

    def _keep(self, ctx: PromptContext, turn: _Run, *, is_complete: bool) -> None:
        """Remember the conversation. Of a turn without an end, the prompt and the text that was shown."""
        if is_complete and not turn.result.interruptions:
            kept = plain_json(turn.result.to_input_list())
        else:
            text = "".join(part.text for part in ctx.message.parts if isinstance(part, TextPart))
            kept = [*turn.history, {"role": "assistant", "content": text}] if text else turn.history
        ctx.session.metadata = {**ctx.session.metadata, _HISTORY: kept}


def _content(blocks: Sequence[v1.ContentBlock]) -> Any:
    images = [block for block in blocks if isinstance(block, v1.ImageContent)]
    if not images:
        return text_of(blocks)
    content: list[dict[str, Any]] = [{"type": "input_text", "text": text_of(blocks)}]
    content += (
        {"type": "input_image", "image_url": f"data:{image.mime_type};base64,{image.data}", "detail": "auto"}
        for image in images
    )
    return content


class OpenAIEvents:
    """The events of one turn, over all its runs, as chunks.

    Text, thoughts and arguments come from raw events of the Responses API, complete calls and their outputs from run
    items. Ids of items are used again in the next response.
    """

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
        """Yield the chunks of one event; none for events that show nothing."""
        kind = member(event, "type", "")
        if kind == "raw_response_event":
            yield from self._raw(member(event, "data"))
        elif kind == "run_item_stream_event":
            yield from self._item(member(event, "name", ""), event)

    def questions(self, interruptions: Any) -> Iterator[c.Chunk]:
        """Yield the permission questions that a run ended with."""
        for interruption in interruptions:
            raw = member(interruption, "raw_item", interruption)
            call = call_id_of(interruption)
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
    """Return the tool call that an interruption is about."""
    raw = member(interruption, "raw_item", interruption)
    return str(member(raw, "call_id", member(raw, "id", "")))
