"""The metrics of a served host, read as Prometheus reads them."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the parser of Prometheus is not installed")

from prometheus_client.parser import text_string_to_metric_families

from dragoman.host.host import HostSettings
from dragoman.host.serving import metrics as registry
from dragoman.host.serving.counting_log import CountingLog
from dragoman.host.serving.metrics import METRICS, MOST_SERIES, HostMetrics, LoopLag
from dragoman.store.event_log import LogEvent, NewEvent, SessionRecord
from dragoman.store.memory_log import MemoryLog
from dragoman.store.sqlite_log import SqliteLog
from tests.host.serving.kit import served
from tests.host.serving.test_security import Raw, client
from tests.host.test_sessions import Steps

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
SECONDS = 60.0


def read(text: bytes) -> tuple[dict[str, str], Samples]:
    """The kind of each metric, and all samples."""
    kinds: dict[str, str] = {}
    samples: Samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            name = family.name if family.type != "counter" else f"{family.name}_total"
            kinds[name] = family.type
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} is there twice"
            samples[key] = sample.value
    return kinds, samples


def total(samples: Samples, name: str, **labels: str) -> float:
    return sum(
        value
        for (found, pairs), value in samples.items()
        if found == name and all((label, text) in pairs for label, text in labels.items())
    )


async def test_each_metric_moves_with_what_it_counts(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "data" / "sessions.sqlite")
    settings = HostSettings(sessions_per_principal=1)
    async with served(Steps(), tmp_path, log=log, settings=settings) as host:
        raw = Raw(host)
        async with client(host, host.secret) as line:
            session = await line.open(str(tmp_path))
            await line.turn(session, "x" * 300_000)
            asking = line.prompt(session, "ask")
            question = await line.until("session/request_permission")
            waiting = line.prompt(session, "after it")
            _, _ = await line.answer_to(line.ask("session/list"))
            kinds, during = read((await raw.ask("GET", path="/metrics"))[2])
            line.answer_with(question, next(o["optionId"] for o in question["params"]["options"]))
            for request in (asking, waiting):
                await line.answer_to(request)
            await line.error("session/load", sessionId="nothing", cwd=str(tmp_path), mcpServers=[])
            await line.error("session/new", cwd=str(tmp_path), mcpServers=[])
            assert (await raw.ask("GET", path="/not/there"))[0] == 404
            cancelled = line.prompt(session, "wait")
            assert (await line.texts(1)) == ["one "]
            line.notify("session/cancel", sessionId=session)
            await line.answer_to(cancelled)
            async with asyncio.timeout(SECONDS):
                while not host.metrics.value("dragoman_loop_lag_seconds"):  # noqa: ASYNC110 - a counter has no event
                    await asyncio.sleep(0.01)
            host.source.die()
            async with asyncio.timeout(SECONDS):
                while not host.metrics.value("dragoman_agent_deaths_total"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await host.log.delete("none")
            (tmp_path / "data" / "attachments").mkdir()
            (tmp_path / "data" / "attachments" / "a.bin").write_bytes(b"x" * 1000)
            host.server._data_size = registry.DataSize(host.metrics, host.log.folder)  # its look of before is kept
            _, after = read((await raw.ask("GET", path="/metrics"))[2])
    await log.close()
    # A host of this test has no audit log and no quotas; that of tests/cli/test_serve_audit.py does.
    audited = {"dragoman_audit_ok", "dragoman_agents_most"}
    assert all(kinds[name] == row.kind for name, row in METRICS.items() if name in kinds)
    assert set(METRICS) - audited == {name for name in METRICS if any(sample[0].startswith(name) for sample in after)}
    assert all(("host", host.metrics.host) in labels for _, labels in after)
    # While a question was open and a prompt waited
    expected: dict[str, Any] = {
        "dragoman_connections": 1,
        "dragoman_questions_open": 1,
        "dragoman_prompts_waiting": 1,
        "dragoman_sessions_running": 1,
        "dragoman_store_ok": 1,
        "dragoman_draining": 0,
        "dragoman_info": 1,
    }
    assert {name: total(during, name) for name in expected} == expected
    assert total(during, "dragoman_sessions", state="waiting") == 1
    assert total(during, "dragoman_agents_running", agent="test") == 1
    # At the end
    expected = {
        "dragoman_connections_total": 1,
        "dragoman_sessions_total": 1,
        "dragoman_sessions_removed_total": 1,
        "dragoman_prompts_total": 4,
        "dragoman_turns_total": 4,
        "dragoman_turns_ended_total": 4,
        "dragoman_questions_total": 1,
        "dragoman_cancels_total": 1,
        "dragoman_limit_refusals_total": 1,
        "dragoman_agent_deaths_total": 1,
        "dragoman_list_seconds_count": 1,
        "dragoman_queue_seconds_count": 4,
        "dragoman_first_update_seconds_count": 4,
        "dragoman_turn_seconds_count": 4,
        "dragoman_answer_seconds_count": 1,
        "dragoman_agents_running": 0,
        "dragoman_questions_open": 0,
        "dragoman_blobs": 1,
        "dragoman_attachment_bytes": 1000,
    }
    assert {name: total(after, name) for name in expected} == expected
    assert total(after, "dragoman_turns_ended_total", agent="test", outcome="end_turn") == 3
    assert total(after, "dragoman_turns_ended_total", outcome="cancelled") == 1
    assert total(after, "dragoman_answers_total", by="user") == 1
    assert total(after, "dragoman_updates_total", agent="test") >= 8
    assert total(after, "dragoman_commit_seconds_count") >= 8
    assert total(after, "dragoman_method_seconds_count", method="session/new") == 2
    assert total(after, "dragoman_method_errors_total", method="session/load") == 1
    assert total(after, "dragoman_requests_total", status="101") == 1
    assert total(after, "dragoman_http_seconds_count", path="/metrics") == 1
    assert total(after, "dragoman_http_seconds_count", path="other") == 1
    assert total(after, "dragoman_refusals_total", status="404") == 1
    assert total(after, "dragoman_sent_bytes_total") > total(after, "dragoman_connections_total")
    assert total(after, "dragoman_received_bytes_total") > 300_000
    assert total(after, "dragoman_blob_bytes") > 300_000
    assert total(after, "dragoman_log_bytes") > 0
    assert total(after, "dragoman_disk_bytes") > total(after, "dragoman_disk_free_bytes") > 0
    assert total(after, "process_max_fds") > total(after, "process_open_fds") > 0
    assert total(after, "process_resident_memory_bytes") > 1e7
    assert abs(total(after, "process_start_time_seconds") - time.time()) < 3600
    assert total(after, "process_cpu_seconds_total") > 0
    for (name, _), value in after.items():
        if name.endswith(("_total", "_count", "_bucket")):
            assert value >= during.get((name, _), 0), name


async def test_tools_of_prometheus_find_nothing_wrong(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    async with served(Steps(), tmp_path) as host, client(host, host.secret) as line:
        await line.turn(await line.open(str(tmp_path)))
        text = (await Raw(host).ask("GET", path="/metrics"))[2]
    words, options = [promtool, "check", "metrics"], {"capture_output": True, "timeout": SECONDS, "check": False}
    done = await asyncio.to_thread(partial(subprocess.run, words, input=text, **options))
    assert done.returncode == 0, done.stderr
    assert not done.stdout + done.stderr


def test_a_histogram_is_cumulative_and_agrees_with_its_count() -> None:
    metrics = HostMetrics("h")
    found = metrics.histogram("dragoman_commit_seconds")
    for seconds in (-1.0, 0.0, 0.0005, 0.0006, 0.003, 7.0, 99.0):
        found.observe(seconds)
    _, samples = read(metrics.text())
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in samples.items()
        if name == "dragoman_commit_seconds_bucket"
    }
    assert (buckets["0.0005"], buckets["0.001"], buckets["0.005"], buckets["10"], buckets["+Inf"]) == (3, 4, 5, 6, 7)
    assert list(buckets.values()) == sorted(buckets.values())
    assert total(samples, "dragoman_commit_seconds_count") == 7
    assert total(samples, "dragoman_commit_seconds_sum") == pytest.approx(106.0041)


NAMES = ['quote " and \\ and\nline', "", "Zürich 🚋", 'a",b="c', "\\", "\r\t"]


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_escaped(name: str) -> None:
    metrics = HostMetrics(name, agents=(name,))
    metrics.count("dragoman_sessions_total", 3, name)
    _, samples = read(metrics.text())
    assert total(samples, "dragoman_sessions_total", agent=name, host=metrics.host) == 3


def test_names_that_come_later_make_no_further_series() -> None:
    metrics = HostMetrics("h", agents=("known",))
    for number in range(5 * MOST_SERIES):
        metrics.count("dragoman_sessions_total", 1, f"agent-{number}")
        metrics.histogram("dragoman_turn_seconds", f"agent-{number}").observe(1.0)
    _, samples = read(metrics.text())
    series = [key for key in samples if key[0] == "dragoman_sessions_total"]
    assert len(series) == MOST_SERIES + 1
    assert total(samples, "dragoman_sessions_total", agent="other") == 4 * MOST_SERIES
    assert total(samples, "dragoman_turn_seconds_count") == 5 * MOST_SERIES


def test_series_of_the_hosts_agents_begin_at_zero() -> None:
    metrics = HostMetrics("h", agents=("claude", "codex"))
    CountingLog(MemoryLog(time.time), metrics, (), time.time)
    _, samples = read(metrics.text())
    for agent in ("claude", "codex"):
        for name in ("dragoman_turns_total", "dragoman_agent_deaths_total", "dragoman_first_update_seconds_count"):
            assert (name, (("agent", agent), ("host", "h"))) in samples
        assert total(samples, "dragoman_turns_ended_total", agent=agent, outcome="agent_exited") == 0
    assert ("dragoman_connections_total", (("host", "h"),)) in samples


async def test_an_update_costs_an_addition() -> None:
    """A commit of a thousand updates makes as many calls as a commit of one: nothing is called for an update."""
    metrics = HostMetrics("h", agents=("a",))
    inner = MemoryLog(time.time)
    log = CountingLog(inner, metrics, (), time.time)
    owned: Any = await log.create(SessionRecord("s", "u", "a", None, "/", b"{}", 0.0, 0.0, 0, 1))

    def calls(count: int) -> int:
        events = [LogEvent(number, "update", b"{}", 1, time.time()) for number in range(count)]
        made = 0

        def profile(frame: object, event: str, arg: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            owned._count(events)
        finally:
            sys.setprofile(None)
        return made

    assert calls(1000) == calls(1) < 12
    assert metrics.value("dragoman_updates_total") == 1001
    # And what waits together is still reported together.
    reported: list[int] = []

    def report(events: list[LogEvent]) -> None:
        reported.append(len(events))

    for _ in range(5):
        owned.append([NewEvent("update", b"{}")], report)
    await owned.settle()
    assert reported == [5]
    await inner.close()


async def test_a_loop_that_was_blocked_is_seen() -> None:
    metrics = HostMetrics("h")
    lag = LoopLag(metrics)
    lag.start()
    time.sleep(0.4)  # noqa: ASYNC251 - this is the fault
    async with asyncio.timeout(SECONDS):
        while not metrics.value("dragoman_loop_lag_seconds"):  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0)
    lag.stop()
    assert metrics.histogram("dragoman_loop_lag_seconds").sum >= 0.1
