"""Spans of the turns of a host, made of the events of its log; needs the extra `otel`.

    invoke_agent NAME            from the prompt to the end of its turn; below the span that the client names (rule 330)
    +- acp queue                 while it waits for the turn before it
    +- acp turn                  from its start to its end; the first update, rules and cancels are events in it
       +- acp question           from a question of the agent to the answer

The agent gets the ids of the turn in the `_meta` of its prompt, so that its own spans are in the same trace. Like all
of `dragoman.telemetry`, spans have names, ids, kinds and numbers, and no text of users or agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from dragoman.host.serving.counting_log import EventFacts
    from dragoman.store.event_log import LogEvent, SessionRecord

_TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")


class _OpenTurn(Struct, eq=False):
    """The spans of a prompt that has no outcome yet."""

    root: Any
    context: Any
    """That of the root, with the baggage of the client."""
    queued: Any
    prompted_at: float
    turn: Any = None
    questions: dict[str, Any] = {}


class TurnSpans:
    """The spans of all turns of a host."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        """Prepare it; by default with the provider that the program has set up globally."""
        from opentelemetry import propagate, trace

        from dragoman._version import __version__

        self._trace, self._propagate = trace, propagate
        self._tracer = trace.get_tracer("dragoman", __version__, tracer_provider)
        self._prompts: dict[tuple[str, str], _OpenTurn] = {}
        self._running: dict[str, _OpenTurn] = {}

    def meta_for_agent(self, session: str, prompt_id: str, meta: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the `_meta` of a prompt with the ids of its turn in the place of those of the client."""
        found = self._prompts.get((session, prompt_id))
        if found is None:
            return meta
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, found.context)
        kept = {name: value for name, value in (meta or {}).items() if name not in _TRACE_KEYS}
        return {**kept, **carrier}

    # From the log

    def happened(self, record: SessionRecord, event: LogEvent, facts: EventFacts) -> None:
        """Begin, end or mark the spans that an event is about."""
        at = _nanoseconds(event.at)
        key = (record.id, facts.prompt_id)
        if event.kind == "prompt":
            if key not in self._prompts:  # it was changed while it waits
                self._prompts[key] = self._begin(record, event, facts)
            return
        running = self._running.get(record.id)
        if event.kind == "start" and key in self._prompts:
            found = self._running[record.id] = self._prompts[key]
            found.queued.end(at)
            found.turn = self._tracer.start_span("acp turn", found.context, start_time=at)
        elif event.kind in ("end", "queue") and key in self._prompts:
            self._end(self._prompts.pop(key), facts, at)
            if event.kind == "end":
                self._running.pop(record.id, None)
        elif running is None:
            return
        elif event.kind == "question" and facts.question_id:
            self._ask(running, facts, at)
        elif event.kind == "answer":
            self._answer(running, facts, at)
        elif event.kind == "cancel":
            running.turn.add_event("acp.cancel", timestamp=at)

    def updated(self, record: SessionRecord, event: LogEvent) -> None:
        """Mark the first update of a turn."""
        running = self._running.get(record.id)
        if running is not None:
            running.turn.add_event("acp.first_update", timestamp=_nanoseconds(event.at))
            running.root.set_attribute("acp.first_update_seconds", max(0.0, event.at - running.prompted_at))

    def removed(self, session: str) -> None:
        """Take no note of sessions that are gone: their turns have ended."""

    def close(self) -> None:
        """End what is open, because the host ends."""
        for found in self._prompts.values():
            for span in (*found.questions.values(), found.turn, found.queued, found.root):
                if span is not None and span.is_recording():
                    span.end()
        self._prompts.clear()
        self._running.clear()

    # Spans

    def _begin(self, record: SessionRecord, event: LogEvent, facts: EventFacts) -> _OpenTurn:
        meta = facts.meta if isinstance(facts.meta, dict) else {}
        named = self._propagate.extract({name: text for name, text in meta.items() if isinstance(text, str)})
        at = _nanoseconds(event.at)
        root = self._tracer.start_span(
            f"invoke_agent {record.agent}",
            named,
            kind=self._trace.SpanKind.SERVER,
            start_time=at,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": record.agent,
                "gen_ai.conversation.id": record.id,
                "enduser.id": record.principal,
                "acp.prompt.id": facts.prompt_id,
            },
        )
        context: Context = self._trace.set_span_in_context(root, named)
        return _OpenTurn(root, context, self._tracer.start_span("acp queue", context, start_time=at), event.at)

    def _ask(self, running: _OpenTurn, facts: EventFacts, at: int) -> None:
        call = None if facts.params is None else facts.params.tool_call
        about = (None if call is None else call.kind) or facts.method.partition("/")[0] or "other"
        running.questions[str(facts.question_id)] = self._tracer.start_span(
            "acp question",
            self._trace.set_span_in_context(running.turn, running.context),
            start_time=at,
            attributes={"acp.question.id": str(facts.question_id), "acp.tool.kind": about},
        )

    @staticmethod
    def _answer(running: _OpenTurn, facts: EventFacts, at: int) -> None:
        decision = facts.decision if isinstance(facts.decision, dict) else {}
        attributes = {"acp.answer.by": facts.decided_by}
        attributes.update(
            {f"acp.answer.{name}": str(decision[name]) for name in ("action", "rule") if name in decision}
        )
        if facts.option is not None:
            attributes["acp.answer.option"] = facts.option
        span: Span | None = running.questions.pop(str(facts.question_id), None)
        if span is None:
            running.turn.add_event("acp.answer", attributes, timestamp=at)
            return
        span.set_attributes(attributes)
        span.end(at)

    def _end(self, found: _OpenTurn, facts: EventFacts, at: int) -> None:
        for question in found.questions.values():
            question.end(at)
        result = facts.result if isinstance(facts.result, dict) else {}
        usage = result.get("usage")
        for span in (found.turn, found.root):
            if span is None:
                continue
            if isinstance(result.get("stopReason"), str):
                span.set_attribute("acp.stop_reason", result["stopReason"])
            if facts.error is not None:
                span.set_attribute("error.type", facts.outcome)
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        for name, member in (("input_tokens", "inputTokens"), ("output_tokens", "outputTokens")):
            if isinstance(usage, dict) and isinstance(usage.get(member), int):
                found.root.set_attribute(f"gen_ai.usage.{name}", usage[member])
        if found.turn is None:
            found.queued.end(at)
        else:
            found.turn.end(at)
        found.root.end(at)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
