"""The last lines between a local host and an agent, for its user."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.host import Visitor
from dragoman.host.working.agent_traffic import MOST_BYTES, MOST_FRAMES, AgentTraffic, session_secrets
from dragoman.schema import v1
from dragoman.store.sqlite_log import SqliteLog
from dragoman.text.secrets import Secrets
from dragoman.trace.entry import Frame
from dragoman.trace.reader import open_trace
from dragoman.trace.violations import PassiveChecker
from tests.host.kit import OURS, Client, OnTheWire, hosted
from tests.host.local.test_local_host import local, new
from tests.host.test_sessions import Steps


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))


async def prompted(client: Client, session: str, text: str) -> None:
    await client.answer_to(client.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}]))


def methods(answer: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(frame["dir"], json.loads(frame["text"])) for frame in answer["frames"]]
    return [(dir, message["method"]) for dir, message in found if "method" in message]


async def test_the_lines_of_a_connection_are_there_and_new_ones_come(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        client = await host.client(OURS)
        opened = await client.result("session/new", **new(tmp_path))
        id = opened["sessionId"]
        first = await client.result("_dragoman/traffic", sessionId=id)
        assert methods(first)[:2] == [("c2a", "initialize"), ("c2a", "session/new")]
        assert [frame["n"] for frame in first["frames"]] == list(range(1, first["count"] + 1))
        place = {"sessionId": id, "connection": first["connection"], "after": first["count"]}
        waiting = client.ask("_dragoman/traffic", **place, wait=True)
        other = await host.client(OURS)
        await other.load(id, str(tmp_path))
        await prompted(other, id, "hello")
        _, answer = await client.answer_to(waiting)
        frames = answer["result"]["frames"]
        assert frames[0]["n"] == first["count"] + 1
        assert ("c2a", "session/prompt") in methods(answer["result"])
        _, again = await client.answer_to(client.ask("_dragoman/traffic", sessionId=id))
        whole = again["result"]
        checker = PassiveChecker(is_whole=True)
        findings = [
            finding
            for frame in whole["frames"]
            for finding in checker.feed(Frame(frame["t"], frame["dir"], frame["text"].encode()))
        ]
        assert not [finding for finding in findings if finding.is_failure]


async def test_only_the_user_of_the_session_with_the_right_gets_them(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        client = await host.client(OURS)
        opened = await client.result("session/new", **new(tmp_path))
        far = await host.client(OURS, visitor=Visitor(rights=frozenset(("view", "prompt")), is_local=False))
        assert (await far.result("_dragoman/traffic", sessionId=opened["sessionId"]))["count"]
        other = await host.client(OURS, visitor=Visitor(principal="another"))
        refused = await far.error("_dragoman/traffic", sessionId=opened["sessionId"])
        assert refused["data"] == {"reason": "forbidden"}, "a host of several users"
        assert (await other.error("_dragoman/traffic", sessionId=opened["sessionId"]))["code"] == -32002
        assert (await client.error("_dragoman/traffic", sessionId=opened["sessionId"], after="x"))["code"] == -32602


async def test_keys_of_the_session_are_masked(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        client = await host.client(OURS)
        key, token = "sk-secret-of-this-user", "a-token-of-a-server"
        params = new(tmp_path, env={"OPENAI_API_KEY": key})
        params["mcpServers"] = [
            {"name": "m", "command": "/bin/true", "args": [], "env": [{"name": "TOKEN", "value": token}]}
        ]
        opened = await client.result("session/new", **params)
        await prompted(client, opened["sessionId"], f"use {key}")
        answer = json.dumps(await client.result("_dragoman/traffic", sessionId=opened["sessionId"]))
        assert key not in answer
        assert token not in answer
        assert "use [OPENAI_API_KEY]" in answer
        assert "[TOKEN]" in answer


class NoTransport:
    stderr_tail = "the last words with sk-a-key-of-ours"


def test_the_ring_is_bounded_and_says_how_much_there_was() -> None:
    traffic = AgentTraffic()
    traffic.begin(NoTransport())  # type: ignore[arg-type]  # only its stderr is read
    for number in range(MOST_FRAMES + 50):
        traffic.add(b"%d" % number, is_sent=False)
    answer = traffic.answer(1, 0, Secrets())
    assert (answer["count"], len(answer["frames"]), answer["frames"][0]["n"]) == (MOST_FRAMES + 50, MOST_FRAMES, 51)
    for _ in range(5):
        traffic.add(b"x" * (MOST_BYTES // 2), is_sent=True)
    assert len(traffic.answer(1, MOST_FRAMES + 50, Secrets())["frames"]) == 1, "an answer is bounded, too"
    traffic.add(b"y" * (MOST_BYTES + 1), is_sent=True)
    last = traffic.answer(1, traffic.answer(1, 0, Secrets())["count"] - 1, Secrets())["frames"][-1]
    assert (last["bytes"], last["text"]) == (MOST_BYTES + 1, "")
    traffic.add(b"\xff\xfe", is_sent=True)
    frames = traffic.answer(1, MOST_FRAMES + 56, Secrets())["frames"]
    assert base64.b64decode(frames[-1]["b64"]) == b"\xff\xfe"
    secrets = Secrets({"OPENAI_API_KEY": "sk-a-key-of-ours"})
    assert traffic.answer(1, 0, secrets)["stderr"] == "the last words with [OPENAI_API_KEY]"


async def test_a_reader_of_an_earlier_connection_gets_the_new_one_from_its_start() -> None:
    traffic = AgentTraffic()
    traffic.begin(NoTransport())  # type: ignore[arg-type]  # only its stderr is read
    for _ in range(3):
        traffic.add(b"{}", is_sent=True)
    waiting = asyncio.ensure_future(traffic.wait(1, 3))
    await asyncio.sleep(0)
    traffic.begin(NoTransport())  # type: ignore[arg-type]  # only its stderr is read
    traffic.add(b"[]", is_sent=True)
    async with asyncio.timeout(60):
        await waiting
    assert [frame["text"] for frame in traffic.answer(1, 3, Secrets())["frames"]] == ["[]"]


def test_headers_of_servers_are_secrets() -> None:
    server = v1.McpServerHttp("m", "https://x.example", [v1.HttpHeader("Authorization", "Bearer abcdefghijk")])
    assert session_secrets({}, [server]).mask("it is abcdefghijk") == "it is [Authorization]"


async def test_a_host_that_does_not_show_its_traffic_keeps_none() -> None:
    async with hosted(Steps()) as host:
        client, id = await host.opened()
        await prompted(client, id, "hello")
        assert host.session(id).agent.traffic.answer(0, 0, Secrets())["count"] == 0


async def test_each_line_is_named_judged_and_comes_by_page(tmp_path: Path) -> None:
    """A wire-level look: names as in `inspect --json`, pages from the end, broken rules, and a recording."""
    source = OnTheWire()
    log = SqliteLog(tmp_path / "log" / "events.db")
    async with hosted(source, log=log) as host:
        host.host.keeps_traffic = True
        client, id = await host.opened(OURS)
        asked = client.prompt(id, "hello")
        message = await source.agent.prompted()
        source.agent.update("no_such_update", content=1)
        source.agent.send({"jsonrpc": "2.0", "method": 5})
        source.agent.transport.write(b"not JSON\n")
        source.agent.reply(message, {"stopReason": "end_turn"})
        await client.answer_to(asked)
        whole = await client.result("_dragoman/traffic", sessionId=id)
        frames = {frame["n"]: frame for frame in whole["frames"]}
        assert (whole["oldest"], whole["hasMore"], whole["count"]) == (1, False, len(frames))
        prompt = next(frame for frame in frames.values() if frame["method"] == "session/prompt")
        answer = frames[prompt["answer"]]
        assert (prompt["kind"], answer["kind"], answer["request"]) == ("request", "response", prompt["n"])
        assert (answer["method"], answer["latency"] >= 0, prompt["summary"]) == ("session/prompt", True, "hello")
        bad = [frame for frame in frames.values() if frame["kind"] == "malformed"]
        assert bad[-1]["text"] == "not JSON"
        failures = [finding for finding in whole["broken"] if finding["level"] in ("MUST", "MUST NOT", "SCHEMA")]
        assert failures == whole["broken"] != []
        assert {finding["n"] for finding in failures} <= frames.keys()
        only = await client.result("_dragoman/traffic", sessionId=id, only="broken")
        assert {finding["n"] for finding in failures} <= {frame["n"] for frame in only["frames"]} < frames.keys()

        last = await client.result("_dragoman/traffic", sessionId=id, connection=1, before=answer["n"] + 1, limit=2)
        assert [frame["n"] for frame in last["frames"]] == [answer["n"] - 1, answer["n"]]
        assert last["hasMore"]
        first = await client.result("_dragoman/traffic", sessionId=id, connection=1, before=3, limit=1000)
        assert ([frame["n"] for frame in first["frames"]], first["hasMore"]) == ([1, 2], False)
        next_page = await client.result("_dragoman/traffic", sessionId=id, connection=1, after=1, limit=1)
        assert ([frame["n"] for frame in next_page["frames"]], next_page["hasMore"]) == ([2], True)
        for wrong in ({"limit": 0}, {"limit": MOST_FRAMES + 1}, {"before": "1"}, {"after": True}, {"only": "nice"}):
            assert (await client.error("_dragoman/traffic", sessionId=id, **wrong))["code"] == -32602

        saved = await client.result("_dragoman/traffic/save", sessionId=id)
        upload = host.host.uploads.find(saved["id"], "local")
        assert upload is not None
        content = await host.host.uploads.read(upload)
        assert content is not None
        (tmp_path / "saved.jsonl").write_bytes(content)
        entries = [entry for entry in open_trace(tmp_path / "saved.jsonl").entries if isinstance(entry, Frame)]
        assert len(entries) == len(frames)

        viewer = await host.client(OURS, visitor=Visitor(rights=frozenset({"view"}), is_local=False))
        assert (await viewer.result("_dragoman/traffic", sessionId=id))["count"] == len(frames), "of its own user"
        await host.client(OURS, visitor=Visitor(principal="bob", is_local=False))
        error = await viewer.error("_dragoman/traffic", sessionId=id)
        assert error["data"] == {"reason": "forbidden"}, "with several users only administrators look"
        assert (await client.result("_dragoman/traffic", sessionId=id))["count"] == len(frames)
    await log.close()


def test_a_long_connection_is_checked_line_by_line_and_begins_again_behind_a_gap() -> None:
    traffic = AgentTraffic()
    traffic.begin(NoTransport())  # type: ignore[arg-type]  # only its stderr is read
    update = {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": []}}
    say = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": update}).encode()
    for _ in range(3):
        for _ in range(MOST_FRAMES - 10):
            traffic.add(say, is_sent=False)
        page = traffic.answer(1, 0, Secrets(), before=traffic.answer(1, 0, Secrets(), limit=1)["count"] + 1, limit=5)
        assert [frame["update"] for frame in page["frames"]] == ["plan"] * 5
    for _ in range(2 * MOST_FRAMES):
        traffic.add(say, is_sent=False)
    traffic.add(b"y" * (MOST_BYTES + 1), is_sent=True)
    last = traffic.answer(1, 0, Secrets(), before=1_000_000, limit=1)
    assert (last["frames"][0]["kind"], last["frames"][0]["findings"]) == ("omitted", [])
    assert last["oldest"] == last["count"] - MOST_FRAMES + 1
