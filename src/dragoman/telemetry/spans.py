"""Spans of what passes on one connection.

A `Telemetry` is an observer: it reads the lines that are sent and received, on either side. So it costs nothing where
it is not used, and needs no hook in the roles, except that a client has to put the ids of a turn into its prompt
(`prompt_meta`). Spans of one connection:

    acp connection                       from `initialize` to the end
    +- acp session                       from the request that opens it to its end
       +- invoke_agent NAME              one prompt, to its response; below the caller's span if there is one
          +- execute_tool KIND           from the first report of a tool call to its end
          +- chat MODEL                  what an agent reports with `model_call`

Names and attributes of turns, tools and model calls are those of OpenTelemetry's conventions for generative AI.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import ConfigError
from dragoman.rpc import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

_OPENING: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
_OVER: Final = frozenset({"completed", "failed"})
_LONGEST_TEXT: Final = 4096
_NULL: Final = Raw(b"null")


class _Line(Struct):
    id: int | str | None = None
    method: str = ""
    params: Raw = _NULL  # most lines are updates with text, of which nothing more is read
    result: Raw = _NULL
    error: Any = None


class _Update(Struct, rename="camel"):
    session_update: str = ""
    tool_call_id: str = ""
    kind: str | None = None
    name: str | None = None
    title: str | None = None
    status: str | None = None


class _Updated(Struct, rename="camel"):
    session_id: str
    update: _Update


class ModelCall:
    """A model call that is running, inside `with telemetry.model_call(...)`."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def used(self, *, input_tokens: int, output_tokens: int, model: str = "") -> None:
        """State what it used, and the model that answered if that is another one."""
        self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
        self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)
        if model:
            self._span.set_attribute("gen_ai.response.model", model)


class Telemetry(Observer):
    """Spans of one connection. Make one for each, and pass it as an observer.

    Args:
        tracer_provider: Makes the spans; by default the one that the program has set up globally.
        content: Also record text: prompts, titles of tool calls, messages of errors.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """

    def __init__(self, *, tracer_provider: TracerProvider | None = None, content: bool = False) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            from dragoman.extras import install_command

            raise ConfigError(f"telemetry needs OpenTelemetry; install it with: {install_command('otel')}") from None
        from dragoman._version import __version__

        self._trace, self._propagate = trace, propagate
        self._tracer = trace.get_tracer("dragoman", __version__, tracer_provider)
        self._has_content = content
        self._is_client = False
        self._agent_name = ""
        self._connection: Span | None = None
        self._sessions: dict[str, Span] = {}
        self._turns: dict[str, Span] = {}
        self._prepared: dict[str, Span] = {}  # turns whose ids were put into a prompt that was not seen yet
        self._tools: dict[tuple[str, str], Span] = {}
        self._waiting: dict[int | str | None, tuple[str, str, Span]] = {}  # requests of the client: method, session

    def options(self) -> dict[str, Any]:
        """Return the options of `spawn` and `connect` for a client: the observer, and the ids for its prompts."""
        return {"observers": (self,), "prompt_meta": self.prompt_meta}

    def prompt_meta(self, session_id: str) -> Mapping[str, str]:
        """Return the W3C ids of the turn that begins now, for the `_meta` of its prompt (rule 330)."""
        span = self._prepared[session_id] = self._start_turn(session_id, None)
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, self._trace.set_span_in_context(span))
        return carrier

    @contextmanager
    def model_call(self, session_id: str, model: str, *, provider: str = "") -> Iterator[ModelCall]:
        """Make a span for one call of a model, below the running turn of the session.

        Args:
            session_id: `turn.session.id`.
            model: The model that is asked.
            provider: Who serves it, such as `anthropic`.
        """
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        if provider:
            attributes["gen_ai.provider.name"] = provider
        parent = self._turns.get(session_id)
        span = self._tracer.start_span(
            f"chat {model}", self._below(parent), kind=self._trace.SpanKind.CLIENT, attributes=attributes
        )
        try:
            yield ModelCall(span)
        except BaseException as error:
            self._fail(span, type(error).__name__, str(error))
            raise
        finally:
            span.end()

    # Observer

    def sent(self, line: bytes) -> None:
        self._read(line, is_sent=True)

    def received(self, line: bytes) -> None:
        self._read(line, is_sent=False)

    def ended(self, reason: str) -> None:
        for spans in (self._tools, self._prepared, self._turns, self._sessions):
            for span in spans.values():
                span.end()
            spans.clear()
        if self._connection is not None:
            self._connection.end()
            self._connection = None

    # Lines

    def _read(self, line: bytes, *, is_sent: bool) -> None:
        try:
            message = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:
            return
        if message.method == "initialize":
            self._is_client = is_sent
        is_from_client = is_sent == self._is_client
        if message.method == "session/update":
            self._updated(message.params)
        elif is_from_client and message.method and message.id is not None:
            self._requested(message)
        elif not is_from_client and not message.method:
            self._answered(message)

    def _requested(self, message: _Line) -> None:
        params = _members(message.params)
        session_id = str(params.get("sessionId", ""))
        method = message.method
        if method == "initialize":
            span = self._connection = self._start_connection(params)
        elif method in _OPENING:
            attributes = {"gen_ai.conversation.id": session_id} if session_id else {}
            span = self._tracer.start_span("acp session", self._below(self._connection), attributes=attributes)
        elif method == "session/prompt":
            is_prepared = session_id in self._prepared
            span = self._prepared.pop(session_id) if is_prepared else self._start_turn(session_id, params.get("_meta"))
            self._turns[session_id] = span
            if self._has_content:
                texts = [str(block.get("text", "")) for block in params.get("prompt", ()) if isinstance(block, dict)]
                span.set_attribute("acp.prompt", "".join(texts)[:_LONGEST_TEXT])
        elif method == "session/close" and session_id in self._sessions:
            span = self._sessions[session_id]
        else:
            return
        self._waiting[message.id] = (method, session_id, span)

    def _answered(self, message: _Line) -> None:
        method, session_id, span = self._waiting.pop(message.id, ("", "", None))
        if span is None:
            return
        result = _members(message.result)
        if isinstance(message.error, dict):
            self._fail(span, str(message.error.get("code")), str(message.error.get("message")))
        if method == "initialize":
            self._name_agent(span, result.get("agentInfo"))
        elif method in _OPENING:
            self._opened(span, str(result.get("sessionId", session_id)), is_open=message.error is None)
        elif method == "session/prompt":
            self._end_turn(span, session_id, result)
        elif method == "session/close" and message.error is None:
            self._sessions.pop(session_id, span).end()

    def _updated(self, params: Raw) -> None:
        try:
            updated = msgspec.json.decode(params, type=_Updated)
        except msgspec.DecodeError:
            return
        update, session_id, call_id = updated.update, updated.session_id, updated.update.tool_call_id
        span = self._tools.get((session_id, call_id))
        if span is None and update.session_update == "tool_call" and session_id in self._turns:
            kind = update.kind or "other"
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.name": update.name or kind,
                "acp.tool.kind": kind,
            }
            if self._has_content:
                attributes["acp.tool.title"] = (update.title or "")[:_LONGEST_TEXT]
            span = self._tracer.start_span(
                f"execute_tool {kind}", self._below(self._turns[session_id]), attributes=attributes
            )
            self._tools[session_id, call_id] = span
        if span is not None and update.status in _OVER:
            self._end_tool(self._tools.pop((session_id, call_id)), str(update.status))

    # Spans

    def _below(self, parent: Span | None) -> Context | None:
        """Return the context of a parent; None, the caller's own, without one."""
        return None if parent is None else self._trace.set_span_in_context(parent)

    def _start_connection(self, params: dict[str, Any]) -> Span:
        info = params.get("clientInfo")
        kind = self._trace.SpanKind.CLIENT if self._is_client else self._trace.SpanKind.SERVER
        span = self._tracer.start_span(
            "acp connection", kind=kind, attributes={"acp.role": "client" if self._is_client else "agent"}
        )
        if isinstance(info, dict):
            span.set_attribute("acp.client.name", str(info.get("name", "")))
        return span

    def _name_agent(self, span: Span, info: Any) -> None:
        if isinstance(info, dict):
            self._agent_name = str(info.get("name", ""))
            span.set_attribute("gen_ai.agent.name", self._agent_name)
            span.set_attribute("gen_ai.agent.version", str(info.get("version", "")))

    def _opened(self, span: Span, session_id: str, *, is_open: bool) -> None:
        span.set_attribute("gen_ai.conversation.id", session_id)
        if not is_open:
            span.end()
            return
        previous = self._sessions.get(session_id)
        if previous is not None:
            previous.end()
        self._sessions[session_id] = span

    def _start_turn(self, session_id: str, meta: Any) -> Span:
        """Begin the span of a turn: below the span that the prompt or the calling program names, otherwise the
        session's.
        """
        trace = self._trace
        parent: Context | None = None
        if self._is_client:
            parent = None if trace.get_current_span().get_span_context().is_valid else self._of_session(session_id)
        else:
            carrier = {key: text for key, text in (meta or {}).items() if isinstance(text, str)}
            named = self._propagate.extract(carrier)
            is_named = trace.get_current_span(named).get_span_context().is_valid
            parent = named if is_named else self._of_session(session_id)
        return self._tracer.start_span(
            f"invoke_agent {self._agent_name}".rstrip(),
            parent,
            kind=trace.SpanKind.CLIENT if self._is_client else trace.SpanKind.SERVER,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": self._agent_name,
                "gen_ai.conversation.id": session_id,
            },
        )

    def _of_session(self, session_id: str) -> Context | None:
        return self._below(self._sessions.get(session_id))

    def _end_turn(self, span: Span, session_id: str, result: dict[str, Any]) -> None:
        for key in [key for key in self._tools if key[0] == session_id]:
            self._end_tool(self._tools.pop(key), "open")
        if isinstance(result.get("stopReason"), str):
            span.set_attribute("acp.stop_reason", result["stopReason"])
        usage = result.get("usage")
        if isinstance(usage, dict):
            for name, member in (("input_tokens", "inputTokens"), ("output_tokens", "outputTokens")):
                if isinstance(usage.get(member), int):
                    span.set_attribute(f"gen_ai.usage.{name}", usage[member])
        span.end()
        if self._turns.get(session_id) is span:
            del self._turns[session_id]

    def _end_tool(self, span: Span, status: str) -> None:
        span.set_attribute("acp.tool.status", status)
        if status == "failed":
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        span.end()

    def _fail(self, span: Span, kind: str, text: str) -> None:
        span.set_attribute("error.type", kind)
        described = text[:_LONGEST_TEXT] if self._has_content else None
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, described))


def _members(json: Raw) -> dict[str, Any]:
    found = msgspec.json.decode(json)
    return found if isinstance(found, dict) else {}
