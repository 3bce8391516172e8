"""A graph of LangGraph, an agent of LangChain, a deep agent: `thread_id` is the session.

Owns running it. An interrupt that asks about calls becomes permission questions, all of which are answered before the
graph is resumed. Any other interrupt is a question in words: a form where the client has forms; otherwise it is shown
as text, the turn ends, and the next prompt is the answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.forms import form_for, words_of
from dragoman.adapters.frameworks.graph_events import INTERRUPT, GraphEvents, decisions_for
from dragoman.adapters.frameworks.missing import load
from dragoman.adapters.members import member, plain_json
from dragoman.adapters.normal import text_of
from dragoman.adapters.values import AskAnswer, AskOption
from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import TextPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.frameworks.graph_events import GraphQuestion
    from dragoman.adapters.session import AdapterSession
    from dragoman.uistream.messages import UIMessage

_EXTRA: Final = "langgraph"
_MODES: Final = ["messages", "updates", "custom"]
_REFUSED: Final = AskAnswer(False, reason="The user did not answer, and asks something else now.")


class _Run:
    """What one turn keeps between its runs."""

    def __init__(self) -> None:
        self.events = GraphEvents()


class LangGraphAdapter(Adapter):
    """A compiled graph.

    Args:
        graph: a compiled graph of LangGraph, an agent of `langchain.agents.create_agent`, or a deep agent.
        config: further members of the run's config; `configurable.thread_id` is the session's id.
        context: the runtime context of the graph.
        make_input: the graph's input for a prompt, for graphs without a channel `messages`.
    """

    accepts = ("image", "embedded_context")
    uses_history = True

    def __init__(
        self,
        graph: Any,
        *,
        config: Mapping[str, Any] | None = None,
        context: Any = None,
        make_input: Callable[[PromptContext], Any] | None = None,
    ) -> None:
        if not hasattr(graph, "astream") or not hasattr(graph, "aget_state"):
            hint = "call compile() first" if hasattr(graph, "compile") else "pass a compiled graph"
            raise ConfigError(f"{type(graph).__name__} is not a compiled graph of LangGraph; {hint}")
        load("langgraph.types", _EXTRA)
        if make_input is None and "messages" not in getattr(graph, "channels", {"messages": None}):
            raise ConfigError("the graph has no channel `messages`; pass make_input=, a function of the context")
        self._graph = graph
        self._config = dict(config or {})
        self._context = context
        self._make_input = make_input
        self._has_checkpoints = bool(getattr(graph, "checkpointer", None))
        name = getattr(graph, "name", None)
        self.name = name if name and name != "LangGraph" else "langgraph"

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        ctx.session.state = turn = _Run()
        waiting = await self._waiting(ctx.session)
        if waiting and all(question.call_id is None for question in waiting):
            async for chunk in self._stream(ctx, turn, self._resumed(waiting, dict.fromkeys(_ids(waiting), ctx.text))):
                yield chunk
            return
        if waiting:
            # The history must not keep calls without an outcome: providers refuse it.
            async for chunk in self._stream(ctx, turn, self._resumed(waiting, dict.fromkeys(_ids(waiting), _REFUSED))):
                yield chunk
            turn.events.begin_run()
        async for chunk in self._stream(ctx, turn, await self._input(ctx)):
            yield chunk

    async def resume(self, ctx: PromptContext, answers: Mapping[str, AskAnswer]) -> AsyncIterator[Yielded]:
        turn: _Run = ctx.session.state
        questions = turn.events.questions
        turn.events.refused |= {
            question.call_id for question in questions if question.call_id and not answers[question.id].allowed
        }
        given: dict[str, Any] = dict(answers)
        for question in (question for question in questions if question.call_id is None):
            given[question.id] = await _ask_in_form(ctx, question)
        turn.events.begin_run()
        async for chunk in self._stream(ctx, turn, self._resumed(questions, given)):
            yield chunk

    async def _stream(self, ctx: PromptContext, turn: _Run, graph_input: Any) -> AsyncIterator[Yielded]:
        """Run the graph, and answer questions in words until there are none, or none that can be asked."""
        events = turn.events
        while True:
            async for chunk in self._one_run(ctx, turn, graph_input):
                yield chunk
            questions = events.questions
            about_calls = [question for question in questions if question.call_id is not None]
            if about_calls:
                for question in about_calls:
                    ctx.offer(question.id, _options(question))
                yield c.Finish("tool-calls")
                return
            answers = {question.id: await _ask_in_form(ctx, question) for question in questions}
            if not questions or None in answers.values():
                for question in questions:  # the next prompt is the answer
                    yield words_of(question.action)
                yield c.Finish("stop")
                return
            events.begin_run()
            graph_input = self._resumed(questions, answers)

    async def _one_run(self, ctx: PromptContext, turn: _Run, graph_input: Any) -> AsyncIterator[Yielded]:
        """Run the graph until it ends or is interrupted. A graph that shows nothing shows its last update."""
        options: dict[str, Any] = {"stream_mode": _MODES, "subgraphs": True}
        if self._context is not None:
            options["context"] = self._context
        last: Any = None
        async for namespace, mode, data in self._graph.astream(graph_input, self._config_of(ctx.session), **options):
            for chunk in turn.events.feed(namespace, mode, data):
                yield chunk
            if mode == "updates" and not namespace:
                last = data
        for chunk in turn.events.close():
            yield chunk
        if not turn.events.has_shown and not turn.events.questions and last is not None:
            yield json.dumps(plain_json(last), indent=2, ensure_ascii=False)

    def _config_of(self, session: AdapterSession) -> dict[str, Any]:
        configurable = {**self._config.get("configurable", {}), "thread_id": session.id}
        return {**self._config, "configurable": configurable}

    def _resumed(self, questions: Sequence[GraphQuestion], answers: Mapping[str, Any]) -> Any:
        values = decisions_for(questions, answers)
        resume = next(iter(values.values())) if len(values) == 1 else values
        return load("langgraph.types", _EXTRA).Command(resume=resume)

    async def _waiting(self, session: AdapterSession) -> list[GraphQuestion]:
        """Return what the thread is interrupted for since an earlier turn."""
        if not self._has_checkpoints:
            return []
        state = await self._graph.aget_state(self._config_of(session))
        events = GraphEvents()
        for task in state.tasks:
            list(events.feed((), "updates", {INTERRUPT: member(task, "interrupts", ())}))
        return events.questions

    async def _input(self, ctx: PromptContext) -> Any:
        if self._make_input is not None:
            return self._make_input(ctx)
        message = {"role": "user", "content": _content(ctx.blocks)}
        has_past = self._has_checkpoints and bool((await self._graph.aget_state(self._config_of(ctx.session))).values)
        return {"messages": [message] if has_past else [*_past(ctx.history), message]}


def _ids(questions: Sequence[GraphQuestion]) -> list[str]:
    return [question.id for question in questions]


def _options(question: GraphQuestion) -> list[AskOption]:
    options = [AskOption("allow", "Allow")] if "approve" in question.allowed else []
    if "edit" in question.allowed:
        options.append(AskOption("edit", "Allow with changes", edits=True))
    return [*options, AskOption("reject", "Reject", allows=False)]


async def _ask_in_form(ctx: PromptContext, question: GraphQuestion) -> Any:
    """Return the answer to a question that is not about a call; None if it cannot be asked or was declined."""
    schema, read = form_for(question.schema)
    answer = await ctx.form(words_of(question.action), schema)
    return None if answer is None else read(answer)


def _past(history: Sequence[UIMessage]) -> list[dict[str, str]]:
    """Earlier messages, for a graph that does not have them: texts only."""
    found = [
        (message.role, "".join(part.text for part in message.parts if isinstance(part, TextPart)))
        for message in history
    ]
    return [{"role": role, "content": text} for role, text in found if text]


def _content(blocks: Sequence[v1.ContentBlock]) -> Any:
    images = [block for block in blocks if isinstance(block, v1.ImageContent)]
    if not images:
        return text_of(blocks)
    content: list[dict[str, Any]] = [{"type": "text", "text": text_of(blocks)}]
    content += ({"type": "image", "base64": image.data, "mime_type": image.mime_type} for image in images)
    return content
