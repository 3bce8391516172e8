"""Who did what at a served host, as its log, its audit log and its traces have it."""

from __future__ import annotations

import asyncio
import io
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from dragoman.agent import Agent, Turn
from dragoman.host.serving.access_log import AccessLog
from dragoman.host.serving.acts import Act, HostActs
from dragoman.host.serving.host_log import AuditTaker, HostLog
from dragoman.host.serving.turn_spans import TurnSpans
from dragoman.proxy.audit.log import AuditLog
from dragoman.proxy.audit.verify import read_records, verify
from dragoman.testing.agent import scripted_agent
from tests.host.serving.kit import SECONDS, Served, served
from tests.host.serving.test_security import client
from tests.host.test_sessions import Steps

SECRET_WORDS = "the-words-of-a-prompt"


class Kept:
    """Acts in a list."""

    def __init__(self) -> None:
        self.acts: list[Act] = []

    def take(self, act: Act) -> None:
        self.acts.append(act)

    def of(self, kind: str) -> list[Act]:
        return [act for act in self.acts if act.kind == kind]


async def until(host: Served, counter: str, count: int = 1) -> None:
    async with asyncio.timeout(SECONDS):
        while host.metrics.value(counter) < count:  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0.005)


async def test_every_act_names_who_did_it_and_with_which_token_and_never_what_was_written(tmp_path: Path) -> None:
    kept, stream = Kept(), io.StringIO()
    audit = AuditLog(tmp_path / "audit", shared={"host": "h"})
    acts = HostActs([kept, AuditTaker(audit), HostLog(stream)])
    async with served(scripted_agent, tmp_path, acts=acts) as host:
        phone = host.add("phone", user="tests", rights=("view", "prompt", "answer"))
        screen = host.add("screen", user="tests", rights=("view",))
        async with client(host, host.secret) as line, client(host, phone) as other:
            session = await line.open(str(tmp_path))
            await line.turn(session, f"say {SECRET_WORDS}")
            await other.resume(session, str(tmp_path))
            asking = line.prompt(session, "permission")
            question = await other.until("session/request_permission")
            other.answer_with(question, "reject")
            await line.answer_to(asking)
            _, answer = await other.answer_to(other.ask("session/set_mode", sessionId=session, modeId="code"))
            assert "result" in answer
            running = line.prompt(session, "slow 600")
            await until(host, "dragoman_turns_total", 3)
            other.notify("session/cancel", sessionId=session)
            await line.answer_to(running)
            for method in ("session/load", "session/fork"):
                params = {"sessionId": "nothing", "cwd": str(tmp_path), "mcpServers": []}
                _, answer = await other.answer_to(other.ask(method, **params))
                assert "error" in answer
            async with client(host, screen) as viewer:
                refused = await viewer.error("session/prompt", sessionId=session, prompt=[])
                assert refused["data"]["reason"] == "forbidden"
            await line.answer_to(line.ask("session/delete", sessionId=session))
        async with asyncio.timeout(SECONDS):
            while len(kept.of("disconnected")) < 3:  # noqa: ASYNC110 - the host has no event for it
                await asyncio.sleep(0.005)
    audit.close()
    shown = [(act.kind, act.token, act.facts.get("method") or act.facts.get("by") or "") for act in kept.acts]
    assert [row for row in shown if row[0] in ("prompt", "answer", "cancel", "setting", "request")] == [
        ("request", "tests", "session/new"),
        ("prompt", "tests", ""),
        ("prompt", "tests", ""),
        ("answer", "phone", "user"),
        ("setting", "phone", ""),
        ("prompt", "tests", ""),
        ("cancel", "phone", ""),
        ("request", "phone", "session/fork"),
        ("request", "screen", "session/prompt"),
        ("request", "tests", "session/delete"),
    ]
    assert [act.session for act in kept.of("session_removed")] == [session]
    assert all(act.user == "tests" for act in kept.acts if act.kind != "session_removed")
    assert {act.session for act in kept.acts if act.kind not in ("connected", "disconnected")} == {session, "nothing"}
    assert [act.facts["option"] for act in kept.of("answer")] == ["reject"]
    assert kept.of("setting")[0].facts["mode"] == "code"
    assert kept.of("question")[0].title == "Delete everything"
    assert {act.facts["outcome"] for act in kept.of("turn_ended")} == {"end_turn", "cancelled"}
    assert [act.token for act in kept.of("connected")] == ["tests", "phone", "screen"]
    prompts = kept.of("prompt")
    assert [act.request for act in kept.of("turn_ended")] == [act.request for act in prompts]
    assert len({act.request for act in prompts}) == 3
    # Its own log
    lines = [msgspec.json.decode(text) for text in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [act.kind for act in kept.acts]
    assert all(line["time"].endswith("Z") and line["level"] in ("info", "warning") for line in lines)
    assert "Delete everything" not in stream.getvalue()
    # The audit log
    records = list(read_records(tmp_path / "audit"))
    assert [record.fields["kind"] for record in records] == [act.kind for act in kept.acts if act.is_audited]
    assert verify(tmp_path / "audit").is_intact
    written = stream.getvalue() + "".join(str(record.fields) for record in records)
    for secret in (SECRET_WORDS, host.secret, phone):
        assert secret not in written


def test_what_the_library_logs_is_a_line_with_its_session_and_without_the_text_of_an_error() -> None:
    stream = io.StringIO()
    log = HostLog(stream, clock=lambda: 1_700_000_000.25)
    logger = logging.getLogger("dragoman.host.test")
    session = "mzxw6ytboi2dgnbvgy3tqojqmi"
    with log.shown():
        logger.warning("session %s: \x1b[31mred\u202e", session)
        try:
            raise ValueError(SECRET_WORDS)
        except ValueError:
            logger.exception("work failed")
        logger.debug("not shown")
    logger.warning("after it")
    log.note("a note")
    first, second, third = stream.getvalue().splitlines()
    assert "\x1b" not in first
    assert "\u202e" not in first
    assert msgspec.json.decode(first)["session"] == session
    found = msgspec.json.decode(second)
    assert (found["level"], found["error"], found["time"]) == ("error", "ValueError", "2023-11-14T22:13:20.250Z")
    assert SECRET_WORDS not in second
    assert msgspec.json.decode(third)["event"] == "note"


async def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    class Broken:
        def take(self, act: Act) -> None:
            raise RuntimeError

    (tmp_path / "file").write_text("")
    audit = AuditLog(tmp_path / "file" / "audit")
    kept = Kept()
    acts = HostActs([HostLog(Gone()), Broken(), AuditTaker(audit), kept])
    async with (
        served(Steps(), tmp_path, acts=acts, access_log=AccessLog(Gone())) as host,
        client(host, host.secret) as line,
    ):
        _, answer = await line.turn(await line.open(str(tmp_path)))
        assert answer["result"] == {"stopReason": "end_turn"}
    assert len(kept.of("prompt")) == len(kept.of("turn_ended")) == 1
    assert not audit.flush()
    AuditTaker(audit).take(Act("note"))
    audit.close()
    assert "the audit log cannot be written" in caplog.text


class Collected:
    """A provider and what it collected."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


async def test_a_turn_of_a_host_is_a_trace_from_the_client_to_the_agent(tmp_path: Path) -> None:
    found = Collected()
    metas: list[Any] = []

    def make() -> Agent:
        agent = Agent("test")

        @agent.prompt
        async def reply(turn: Turn) -> None:
            metas.append(msgspec.json.decode(turn._call.params or b"{}").get("_meta"))
            async with turn.tool("work", kind="execute") as tool:
                await tool.ask()
            await turn.say("done")
            if "fail" in turn.text:
                raise RuntimeError(SECRET_WORDS)

        return agent

    spans = TurnSpans(found.provider)
    async with served(make, tmp_path, spans=spans) as host, client(host, host.secret) as line:
        session = await line.open(str(tmp_path))
        meta = {"traceparent": PARENT, "baggage": "team=blue", "mine": 1}
        text = [{"type": "text", "text": SECRET_WORDS}]
        first = line.ask("session/prompt", sessionId=session, prompt=text, _meta=meta)
        question = await line.until("session/request_permission")
        second = line.prompt(session, f"fail {SECRET_WORDS}")
        line.answer_with(question, question["params"]["options"][0]["optionId"])
        await line.answer_to(first)
        question = await line.until("session/request_permission")
        line.answer_with(question, question["params"]["options"][0]["optionId"])
        await line.answer_to(second)
    spans.close()
    turn, failed = found.named("invoke_agent test")
    assert turn.kind is SpanKind.SERVER
    assert turn.parent is not None
    assert format(turn.context.trace_id, "032x") == TRACE
    assert format(turn.parent.span_id, "016x") == "b7ad6b7169203331"
    attributes = dict(turn.attributes or {})
    assert attributes["gen_ai.conversation.id"] == session
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "test"
    assert attributes["enduser.id"] == "tests"
    assert attributes["acp.stop_reason"] == "end_turn"
    assert "acp.first_update_seconds" in attributes
    # The agent continues the trace below the turn of the host, and gets the rest as the client sent it.
    assert metas[0]["traceparent"] == f"00-{TRACE}-{turn.context.span_id:016x}-01"
    assert (metas[0]["baggage"], metas[0]["mine"]) == ("team=blue", 1)
    queued, waited = found.named("acp queue")
    inner = found.named("acp turn")[0]
    asked = found.named("acp question")[0]
    for span, parent in ((queued, turn), (inner, turn), (asked, inner), (waited, failed)):
        assert span.parent is not None
        assert span.parent.span_id == parent.context.span_id
    assert [event.name for event in inner.events] == ["acp.first_update"]
    assert dict(asked.attributes or {})["acp.answer.by"] == "user"
    assert dict(asked.attributes or {})["acp.tool.kind"] == "execute"
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.context.trace_id != turn.context.trace_id
    everything = "".join(str(span.to_json()) for span in found._exporter.get_finished_spans())
    assert SECRET_WORDS not in everything


async def test_spans_end_with_the_host(tmp_path: Path) -> None:
    found, steps = Collected(), Steps()
    spans = TurnSpans(found.provider)
    async with served(steps, tmp_path, spans=spans) as host, client(host, host.secret) as line:
        session = await line.open(str(tmp_path))
        line.prompt(session, "wait")
        assert await line.texts(1) == ["one "]
        assert not found.named("invoke_agent test")
        spans.close()
    assert len(found.named("invoke_agent test")) == len(found.named("acp turn")) == 1
