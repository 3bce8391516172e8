"""Spans of real conversations, collected by the exporter of OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import dragoman
from dragoman.extras import install_command
from dragoman.telemetry import Telemetry
from dragoman.testing import scripted_agent


class Collected:
    """A provider and what it collected."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans if span.name == name]
        return found

    def is_below(self, span: ReadableSpan, parent: ReadableSpan) -> bool:
        return span.parent is not None and span.parent.span_id == parent.context.span_id


def everything(span: ReadableSpan) -> str:
    return str(span.to_json())


@asynccontextmanager
async def traced(
    agent: dragoman.Agent, client: Telemetry | None, served: Telemetry | None = None
) -> AsyncIterator[dragoman.RemoteAgent]:
    ours, theirs = dragoman.memory_pair()
    serving = asyncio.create_task(agent.serve(theirs, observers=() if served is None else (served,)))
    options: dict[str, Any] = {} if client is None else client.options()
    async with dragoman.connect(ours, permission=dragoman.allow_once, **options) as remote:
        yield remote
    await serving


async def test_a_client_reports_connection_session_turn_and_tool_calls() -> None:
    found = Collected()
    async with traced(scripted_agent(), Telemetry(tracer_provider=found.provider)) as remote:
        session = await remote.new_session(cwd="/tmp")
        await session.prompt("tool")
        await session.prompt("fail")
    connection, opened = found.named("acp connection"), found.named("acp session")
    turns = [span for span in found.spans if span.name.startswith("invoke_agent ")]
    tools = [span for span in found.spans if span.name.startswith("execute_tool ")]
    assert found.is_below(opened, connection)
    assert [found.is_below(turn, opened) for turn in turns] == [True, True]
    assert all(any(found.is_below(tool, turn) for turn in turns) for tool in tools)
    assert {tool.attributes["acp.tool.status"] for tool in tools if tool.attributes} == {"completed", "failed"}
    assert {tool.status.status_code for tool in tools} == {StatusCode.UNSET, StatusCode.ERROR}
    for turn in turns:
        assert turn.kind is SpanKind.CLIENT
        assert turn.attributes is not None
        assert turn.attributes["gen_ai.conversation.id"] == session.id
        assert turn.attributes["acp.stop_reason"] == "end_turn"
        assert turn.end_time is not None
        assert turn.start_time is not None
        assert turn.end_time >= turn.start_time


async def test_both_sides_are_one_trace_below_the_span_of_the_caller() -> None:
    found = Collected()
    client, served = Telemetry(tracer_provider=found.provider), Telemetry(tracer_provider=found.provider)
    agent = dragoman.Agent("thinker")

    @agent.prompt
    async def reply(turn: dragoman.Turn) -> None:
        with served.model_call(turn.session.id, "a-model", provider="me") as call:
            call.used(input_tokens=3, output_tokens=5, model="a-model-2")

    tracer = found.provider.get_tracer("test")
    async with traced(agent, client, served) as remote:
        session = await remote.new_session(cwd="/tmp")
        with tracer.start_as_current_span("mine"):
            await session.prompt("go")
    mine, chat = found.named("mine"), found.named("chat a-model")
    asked, answered = sorted(
        (span for span in found.spans if span.name == "invoke_agent thinker"), key=lambda span: span.kind.name
    )
    assert (asked.kind, answered.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
    assert found.is_below(asked, mine)
    assert found.is_below(answered, asked)
    assert found.is_below(chat, answered)
    assert len({span.context.trace_id for span in (mine, asked, answered, chat)}) == 1
    assert chat.attributes is not None
    assert chat.attributes["gen_ai.usage.output_tokens"] == 5
    assert chat.attributes["gen_ai.response.model"] == "a-model-2"


@pytest.mark.parametrize("content", [False, True])
async def test_text_is_recorded_only_if_that_is_asked_for(content: bool) -> None:
    found = Collected()
    both = [Telemetry(tracer_provider=found.provider, content=content) for _ in range(2)]
    agent = dragoman.Agent("test")

    @agent.prompt
    async def reply(turn: dragoman.Turn) -> None:
        async with turn.tool("title-word", raw_input={"a": "input-word"}) as call:
            await call.text("output-word")
        await turn.say("answer-word")
        raise dragoman.RequestError(-32000, "error-word")

    async with traced(agent, both[0], both[1]) as remote:
        session = await remote.new_session(cwd="/tmp")
        with pytest.raises(dragoman.RequestError):
            await session.prompt("prompt-word")
    written = "".join(map(everything, found.spans))
    for word in ("title-word", "prompt-word", "error-word"):
        assert (word in written) is content, word
    for word in ("input-word", "output-word", "answer-word"):
        assert word not in written
    failed = [span for span in found.spans if span.status.status_code is StatusCode.ERROR]
    assert {(span.attributes or {}).get("error.type") for span in failed} == {"-32000"}


async def test_a_model_call_that_fails_says_how() -> None:
    found = Collected()
    telemetry = Telemetry(tracer_provider=found.provider)
    with pytest.raises(OverflowError), telemetry.model_call("none", "m"):
        raise OverflowError("secret")
    [span] = found.spans
    assert (span.attributes or {})["error.type"] == "OverflowError"
    assert "secret" not in everything(span)


async def test_a_connection_that_breaks_ends_its_spans() -> None:
    found = Collected()
    agent = dragoman.Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: dragoman.Turn) -> None:
        async with turn.tool("t"):
            running.set()
            await asyncio.Event().wait()

    async with traced(agent, Telemetry(tracer_provider=found.provider)) as remote:
        session = await remote.new_session(cwd="/tmp")
        turn = asyncio.ensure_future(session.prompt("go"))
        await running.wait()
        await remote.close()
        with pytest.raises(dragoman.ConnectionClosed):
            await turn
    assert {span.name.split()[0] for span in found.spans} == {"acp", "invoke_agent", "execute_tool"}
    assert len(found.spans) == 4


async def test_lines_that_are_not_messages_are_ignored() -> None:
    telemetry = Telemetry(tracer_provider=Collected().provider)
    for line in (b"banner", b"[]", b'{"method":"session/prompt","id":1,"params":7}', b'{"result":{}}', b"{"):
        telemetry.received(line)
        telemetry.sent(line)
    telemetry.ended("over")


def test_without_the_extra_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from dragoman.telemetry import Telemetry\n"
        "try: Telemetry()\nexcept Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("ConfigError telemetry needs OpenTelemetry; install it with: ")
    assert install_command("otel") in done.stdout


def test_nothing_of_it_is_imported_where_it_is_not_used() -> None:
    code = "import sys, dragoman, dragoman.builtin.loop; dragoman.Agent, dragoman.spawn; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert "dragoman.telemetry.active" in loaded
    assert "dragoman.telemetry.spans" not in loaded
    assert not any(name.startswith("opentelemetry") for name in loaded)


async def test_the_built_in_agent_reports_spans_with_its_model_calls(tmp_path: Path) -> None:
    written: list[bytes] = []
    env = {"OTEL_TRACES_EXPORTER": "console", "DRAGOMAN_HOME": str(tmp_path), "DRAGOMAN_MODEL": "scripted"}
    command = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted"]
    async with dragoman.spawn(*command, env=env, on_stderr=written.append) as agent:
        session = await agent.new_session(cwd=tmp_path)
        await session.prompt("Hello secret-word")
    text = b"".join(written).decode()
    assert "secret-word" not in text
    decoder, spans = json.JSONDecoder(), []
    while (start := text.find("{\n")) >= 0:
        span, end = decoder.raw_decode(text[start:])
        spans.append(span)
        text = text[start + end :]
    by_name = {span["name"].split()[0]: span for span in spans}
    assert by_name["chat"]["parent_id"] == by_name["invoke_agent"]["context"]["span_id"]
    assert {"chat", "invoke_agent", "acp"} <= by_name.keys()
    assert by_name["chat"]["resource"]["attributes"]["service.name"] == "dragoman"


def test_an_exporter_that_is_not_known_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "agent"],
        env={"PATH": "/usr/bin:/bin", "OTEL_TRACES_EXPORTER": "carrier-pigeon", "DRAGOMAN_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "OTEL_TRACES_EXPORTER=carrier-pigeon is not known; write console, otlp or none" in done.stderr
