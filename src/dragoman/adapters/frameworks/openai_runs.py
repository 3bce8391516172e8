"""An agent of openai-agents: runs, interruptions, and its history as input items.

Owns running it. A run that ends with interruptions is continued from its state with the answers. The history is what
the framework gives (`to_input_list`), kept with the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.frameworks.missing import load
from dragoman.adapters.frameworks.openai_events import OpenAIEvents, call_id_of
from dragoman.adapters.members import plain_json
from dragoman.adapters.normal import text_of
from dragoman.adapters.values import AskOption
from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import TextPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

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

    async def _stream(self, ctx: PromptContext, turn: _Run, given: Any) -> AsyncIterator[Yielded]:
        result = turn.result = self._agents.Runner.run_streamed(self._agent, given, **self._options)
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
        {"type": "input_image", "image_url": f"data:{each.mime_type};base64,{each.data}", "detail": "auto"}
        for each in images
    )
    return content
