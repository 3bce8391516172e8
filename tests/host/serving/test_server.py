"""A served host as its operator sees it: how it ends, what it counts, and what it writes down."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import StoreError
from dragoman.host.serving.access import ProjectServices
from dragoman.host.serving.access_log import AccessLog
from dragoman.host.serving.server import ServeOptions
from dragoman.store.sqlite_log import SqliteLog
from tests.host.serving.kit import FREELY, SECONDS, served
from tests.host.serving.test_security import Raw, client
from tests.host.test_sessions import Steps

SECRET_WORDS = "the-words-of-a-prompt"


async def test_a_turn_that_runs_may_end_while_the_host_drains(tmp_path: Path) -> None:
    steps = Steps()
    options = ServeOptions(limits=FREELY, drain_seconds=SECONDS)
    notices: dict[str, Any] = {"session": {"notices": {}}}
    async with (
        served(steps, tmp_path, options=options) as host,
        client(host, host.secret, capabilities=notices) as line,
    ):
        session = await line.open(str(tmp_path))
        request = line.prompt(session, "wait")
        assert await line.texts(1) == ["one "]
        draining = asyncio.ensure_future(host.server.drain())
        notice = await line.update()
        assert notice["sessionUpdate"] == "notice"
        assert "shutting down" in str(notice)
        more = {"sessionId": session, "prompt": [{"type": "text", "text": "more"}]}
        for method, params in (("session/prompt", more), ("session/new", {"cwd": str(tmp_path), "mcpServers": []})):
            refused = await line.error(method, **params)
            assert "shutting down" in refused["message"]
            assert refused["data"] == {"reason": "draining"}
        # The port is open, the process is alive, and it is not the place for more work.
        raw = Raw(host)
        assert (await raw.ask("GET", path="/healthz", authorization=""))[::2] == (200, b"ok\n")
        assert (await raw.ask("GET", path="/readyz", authorization=""))[::2] == (503, b"not ready: draining\n")
        async with client(host, host.secret) as other:  # a client that comes back finds its turn
            history, _ = await other.load(session, str(tmp_path))
            assert [update["content"]["text"] for update in history] == ["wait", "one "]
        assert not draining.done()
        steps.go.set()
        _, answer = await line.answer_to(request)
        assert answer["result"] == {"stopReason": "end_turn"}
        async with asyncio.timeout(SECONDS):
            assert await draining == 0


async def test_a_turn_that_does_not_end_is_cancelled_with_an_answer(tmp_path: Path) -> None:
    options = ServeOptions(limits=FREELY, drain_seconds=0.05)
    async with served(Steps(), tmp_path, options=options) as host, client(host, host.secret) as line:
        session = await line.open(str(tmp_path))
        request = line.prompt(session, "wait")
        assert await line.texts(1) == ["one "]
        assert await host.server.drain() == 1
        closing = asyncio.ensure_future(host.server.close())
        _, answer = await line.answer_to(request)
        assert answer["result"] == {"stopReason": "cancelled"}
        async with asyncio.timeout(SECONDS):
            await closing


async def test_health_is_open_and_counters_need_an_administrator(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        raw, viewer = Raw(host), host.add("screen", rights=("view", "prompt"))
        status, _, body = await raw.ask("GET", path="/healthz", authorization="")
        assert (status, body) == (200, b"ok\n")
        assert (await raw.ask("POST", path="/healthz"))[0] == 405
        assert (await raw.ask("GET", path="/readyz", authorization=""))[::2] == (200, b"ready\n")
        assert (await raw.ask("GET", path="/metrics", authorization=f"Bearer {viewer}"))[0] == 403
        async with client(host, host.secret) as line:
            session = await line.open(str(tmp_path))
            await line.turn(session)
            status, headers, body = await raw.ask("GET", path="/metrics")
        assert status == 200
        assert headers["content-type"].startswith("text/plain; version=0.0.4")
        assert host.metrics.value("dragoman_connections_total") == 1
        assert host.metrics.value("dragoman_refusals_total", status="403") == 1
        assert host.metrics.value("dragoman_refusals_total", status="405") == 1
        assert host.metrics.value("dragoman_requests_total", status="101") == 1


async def test_a_host_is_not_ready_without_room_or_a_log_and_lives_all_the_same(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "sessions.sqlite")
    async with served(Steps(), tmp_path, log=log) as host:
        raw = Raw(host)
        host.server.room_bytes = 1 << 62
        status, _, body = await raw.ask("GET", path="/readyz", authorization="")
        assert status == 503
        assert re.fullmatch(rb"not ready: no room on disk \(\d+ bytes are free\)\n", body)
        host.server.room_bytes = 1
        assert (await raw.ask("GET", path="/readyz", authorization=""))[0] == 200
        host.host.store_error = StoreError("the disk is full")
        answer = await raw.ask("GET", path="/readyz", authorization="")
        assert answer[::2] == (503, b"not ready: the log cannot be written (the disk is full)\n")
        assert (await raw.ask("GET", path="/healthz", authorization=""))[::2] == (200, b"ok\n")
        host.host.store_error = None
    await log.close()


@pytest.mark.parametrize("format", ["json", "text"])
async def test_the_access_log_says_who_and_how_and_never_what(format: Any, tmp_path: Path) -> None:
    stream = io.StringIO()
    stream.close = lambda: None  # type: ignore[method-assign]  # its value is read after the log was closed
    log = AccessLog(stream, format, clock=lambda: 1_700_000_000.0)
    async with served(Steps(), tmp_path, access_log=log) as host:
        async with client(host, host.secret, path="/acp/test") as line:
            session = await line.open(str(tmp_path))
            await line.turn(session, SECRET_WORDS)
        raw = Raw(host)
        await raw.ask("POST", b"{}", path=f"/acp?token={host.secret}", authorization="")
        async with asyncio.timeout(SECONDS):
            while "closed" not in stream.getvalue():  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.005)
    written = stream.getvalue()
    for secret in (SECRET_WORDS, host.secret, session, str(tmp_path)):
        assert secret not in written
    lines = written.splitlines()
    if format == "text":
        assert lines[0].startswith("2023-11-14T22:13:20.000Z event=request peer=127.0.0.1 token=tests method=GET")
        return
    events = [msgspec.json.decode(line) for line in lines]
    assert [each["event"] for each in events][:2] == ["request", "opened"]
    assert {"event": "opened", "token": "tests", "agent": "test"}.items() <= events[1].items()
    refused = [each for each in events if each.get("status") == 401]
    assert [(each["path"], each["token"]) for each in refused] == [("/acp", "")]
    assert any(each["event"] == "closed" and each["seconds"] >= 0 for each in events)


async def test_rules_of_the_user_who_runs_the_host_decide_before_the_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "config").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    (tmp_path / "home" / "config" / "settings.json").write_text('{"rules": {"deny": ["execute"]}}')
    steps = Steps()
    async with served(steps, tmp_path, services=ProjectServices()) as host, client(host, host.secret) as line:
        session = await line.open(str(tmp_path / "project"))
        before, answer = await line.answer_to(line.prompt(session, "ask"))
        assert answer["result"] == {"stopReason": "end_turn"}
        assert [message for message in before if "id" in message] == [], "no client was asked"
        assert steps.answers == [False]
