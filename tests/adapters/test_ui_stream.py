"""AI SDK endpoints: requests as the SDK's own client sends them, its recorded streams, and what can break."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import ui_stream, wrap
from dragoman.errors import ConfigError, RequestError
from dragoman.schema import v1
from tests.adapters.fixtures import RECORDINGS, SHARED, Answers, ask, client_of, on_wire, session_of, statuses, text_of
from tests.adapters.http_server import Prepared, PreparedServer, Received, sse
from tests.adapters.scripted_pydantic import make_agent, served
from tests.adapters.stories import story_of

TEXT = Prepared(
    sse(
        {"type": "start", "messageId": "msg_1"},
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "Hello there."},
        {"type": "text-end", "id": "t"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    )
)
HALF = {"type": "text-delta", "id": "t", "delta": "half "}


def recorded(version: str, name: str) -> list[Prepared]:
    files = sorted((RECORDINGS / "aisdk" / version).glob(f"{name}.[0-9].sse"))
    return [Prepared(path.read_bytes()) for path in files]


def requests_of(version: str, name: str) -> list[dict[str, Any]]:
    lines = (RECORDINGS / "aisdk" / version / f"{name}.http.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def without_ids(messages: list[dict[str, Any]]) -> list[Any]:
    """Messages without what differs between two clients: ids of the user's messages and the order of file and text."""
    return [
        (
            each["role"],
            each["id"] if each["role"] == "assistant" else "",
            sorted(each["parts"], key=lambda part: part["type"]),
        )
        for each in messages
    ]


needs_recordings = pytest.mark.skipif(not (RECORDINGS / "aisdk").is_dir(), reason=f"no recordings in {RECORDINGS}")


@needs_recordings
@pytest.mark.parametrize("version", ["v6", "v7"])
@pytest.mark.parametrize(
    ("name", "answers", "outcomes"),
    [
        ("approval-granted", ["allow"], ["completed"]),
        ("approval-denied", ["reject"], ["failed"]),
        ("approval-two", ["allow", "reject"], ["completed", "failed"]),
    ],
)
async def test_permission_is_given_by_posting_again_as_the_sdks_client_does(
    version: str, name: str, answers: list[str], outcomes: list[str], tmp_path: Path
) -> None:
    theirs = requests_of(version, name)
    prompt = theirs[0]["body"]["messages"][0]["parts"][0]["text"]
    permission = Answers(*answers)
    with PreparedServer(*recorded(version, name)) as server:
        source = ui_stream(f"{server.url}/api/chat", headers={"x-custom": "1"}, body={"extra": True})
        async with session_of(source, tmp_path, permission=permission) as session:
            turn = session.prompt(prompt)
            updates = on_wire([update async for update in turn])
            assert turn.result.stop_reason == "end_turn"
            session_id = session.id
    last = {update["toolCallId"]: update["status"] for update in updates if "status" in update}
    assert list(last.values()) == outcomes
    assert text_of(updates)
    assert len(permission.asked) == len(answers)
    assert len(server.requests) == len(theirs) == 2
    for ours, their in zip(server.requests, theirs, strict=True):
        assert ours.path == their["url"]
        assert ours.headers["x-custom"] == "1"
        assert ours.body["id"] == session_id
        assert {key: ours.body.get(key) for key in ("trigger", "messageId", "extra")} == {
            key: their["body"].get(key) for key in ("trigger", "messageId", "extra")
        }
        assert without_ids(ours.body["messages"]) == [
            (role, id, [_without_reason(part) for part in parts])
            for role, id, parts in without_ids(their["body"]["messages"])
        ]


def _without_reason(part: dict[str, Any]) -> dict[str, Any]:
    if "approval" not in part:
        return part
    return {**part, "approval": {name: value for name, value in part["approval"].items() if name != "reason"}}


@needs_recordings
@pytest.mark.parametrize("version", ["v6", "v7"])
async def test_the_whole_conversation_is_sent_each_time(version: str, tmp_path: Path) -> None:
    theirs = requests_of(version, "text")
    with PreparedServer(*recorded(version, "text")) as server:
        async with session_of(ui_stream(f"{server.url}/api/chat"), tmp_path) as session:
            await session.prompt("Hello")
            await session.prompt([v1.ImageContent("iVBORw0KGgo=", "image/png"), v1.TextContent("Again")])
    for ours, their in zip(server.requests, theirs, strict=True):
        assert without_ids(ours.body["messages"]) == without_ids(their["body"]["messages"])
    first, second = (request.body["messages"] for request in server.requests)
    assert second[0]["id"] == first[0]["id"]


@needs_recordings
@pytest.mark.parametrize("version", ["v6", "v7"])
async def test_a_tool_that_only_a_web_page_has_is_refused_and_the_answer_goes_on(version: str, tmp_path: Path) -> None:
    with PreparedServer(*recorded(version, "client-tool")) as server:
        async with session_of(ui_stream(f"{server.url}/api/chat"), tmp_path) as session:
            updates = await ask(session, "ask me")
    assert statuses(updates)[-1] == "failed"
    part = server.bodies()[1]["messages"][-1]["parts"][-1]
    assert (part["state"], part["errorText"]) == ("output-error", "This client does not have the tool askUser.")
    assert text_of(updates)


def all_streams() -> Iterator[Any]:
    files = sorted((SHARED / "aisdk-streams").glob("*.sse")) + sorted((RECORDINGS / "aisdk").glob("*/*.sse"))
    for path in files:
        yield pytest.param(path, id=f"{path.parent.name}-{path.stem}")
    if not files:
        yield pytest.param(None, marks=pytest.mark.skip(reason=f"no recordings in {SHARED}"))


@pytest.mark.parametrize("path", list(all_streams()))
async def test_every_recorded_stream_arrives_over_http_as_it_was_recorded(path: Path, tmp_path: Path) -> None:
    from dragoman.uistream.chunks import decode_chunk
    from tests.builtin.streams import lines

    told = story_of(map(decode_chunk, lines(path)))
    is_over = Prepared(sse({"type": "finish", "finishReason": "stop"}))
    with PreparedServer(Prepared(path.read_bytes()), is_over) as server:  # noqa: ASYNC240
        async with session_of(ui_stream(server.url), tmp_path, permission=Answers("reject")) as session:
            turn = session.prompt("go")
            updates: list[v1.SessionUpdate] = []
            error: RequestError | None = None
            try:
                async for update in turn:
                    updates.append(update)
                reason = turn.result.stop_reason
            except RequestError as failure:
                error, reason = failure, ""
    wire = on_wire(updates)
    assert text_of(wire) == told.text
    assert text_of(wire, "agent_thought_chunk") == told.thoughts
    if told.error is not None:
        assert error is not None
        assert told.error in str(error)
    elif told.questions:
        assert reason == "end_turn"
    else:
        assert reason == told.stop_reason
    for call, (_, given, seen) in told.calls.items():
        if seen[-1] in ("completed", "failed"):
            assert statuses(wire, call)[-1] == seen[-1]
        assert given is None or any(u.get("rawInput") == given for u in wire if u.get("toolCallId") == call)


# What can break


async def test_a_server_that_is_not_there_and_addresses_that_are_none(tmp_path: Path) -> None:
    with PreparedServer(TEXT) as server:
        url = server.url
    async with session_of(ui_stream(url), tmp_path) as session:
        with pytest.raises(RequestError, match=r"127.0.0.1:\d+ cannot be reached .*; start the server"):
            await ask(session, "go")
    for wrong in ("example.com/api", "ftp://example.com", "http://", "", "http://[1", "http://127.0.0.1:port"):
        with pytest.raises(ConfigError, match="it begins with http:// or https://"):
            ui_stream(wrong)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (
            Prepared(b'{"error": {"message": "no such chat"}}', 404, "application/json"),
            "404: no such chat; check the path",
        ),
        (Prepared(b"nope", 401, "text/plain"), "401: nope; pass its key"),
        (Prepared(b"boom", 500, "text/plain"), "status 500: boom"),
        (Prepared(b"<html>", 200, "text/html"), "a web page, not with a UI-message stream; check the address"),
        (Prepared(b'{"reply": "hi"}', 200, "application/json"), "not a chunk of a UI-message stream"),
        (Prepared(sse("{nope")), "not a chunk of a UI-message stream"),
        (Prepared(b""), "broke off after 0 chunks"),
    ],
)
async def test_an_answer_that_is_not_a_stream_is_an_error_that_says_what_to_do(
    response: Prepared, message: str, tmp_path: Path
) -> None:
    with PreparedServer(response) as server:
        async with session_of(ui_stream(server.url), tmp_path) as session:
            with pytest.raises(RequestError, match=message):
                await ask(session, "go")


@pytest.mark.parametrize("is_cut", [True, False])
async def test_what_arrived_before_a_stream_broke_off_is_kept_and_shown(is_cut: bool, tmp_path: Path) -> None:
    body = sse({"type": "start"}, {"type": "text-start", "id": "t"}, HALF, done=False)
    with PreparedServer(Prepared(body, breaks=is_cut)) as server:
        agent = wrap(ui_stream(server.url), store=tmp_path / "s.db")
        async with client_of(agent) as remote:
            session = await remote.new_session(tmp_path)
            turn = session.prompt("go")
            seen: list[v1.SessionUpdate] = []

            async def read() -> None:
                async for update in turn:
                    seen.append(update)

            with pytest.raises(RequestError, match=r"broke off.*what arrived is kept"):
                await read()
            assert text_of(on_wire(seen)) == "half "
            await session.close()
            loaded = on_wire([update async for update in remote.load_session(session.id, tmp_path)])
            assert "half " in text_of(loaded)


async def test_a_broken_stream_is_continued_by_get_where_the_server_offers_it(tmp_path: Path) -> None:
    beginning = [{"type": "start", "messageId": "m"}, {"type": "text-start", "id": "t"}, HALF]
    rest = [{"type": "text-delta", "id": "t", "delta": "whole"}, {"type": "text-end", "id": "t"}, {"type": "finish"}]
    broken, again = Prepared(sse(*beginning, done=False), breaks=True), Prepared(sse(*beginning, *rest))
    with PreparedServer(broken, again) as server:
        async with session_of(ui_stream(f"{server.url}/chat", resume=True), tmp_path) as session:
            assert text_of(await ask(session, "go")) == "half whole"
            assert [(each.method, each.path) for each in server.requests] == [
                ("POST", "/chat"),
                ("GET", f"/chat/{session.id}/stream"),
            ]


async def test_a_running_answer_is_shown_when_a_session_is_opened_again(tmp_path: Path) -> None:
    def answers(request: Received) -> Prepared:
        return TEXT if request.method == "POST" else Prepared(TEXT.body.replace(b"Hello there.", b"still running"))

    with PreparedServer(answers) as server:
        agent = wrap(ui_stream(f"{server.url}/chat", resume=True), store=tmp_path / "s.db")
        async with client_of(agent) as remote:
            session = await remote.new_session(tmp_path)
            await ask(session, "go")
            await session.close()
            resumed = await remote.resume_session(session.id, tmp_path)
            updates = resumed.updates()
            async for received in updates:
                if isinstance(received.update, v1.AgentMessageChunk):
                    assert text_of(on_wire([received.update])) == "still running"
                    break
            updates.close()


async def test_cancel_closes_the_connection(tmp_path: Path) -> None:
    body = sse({"type": "start"}, {"type": "text-start", "id": "t"}, HALF, done=False)
    with PreparedServer(Prepared(body, hangs=True)) as server:
        async with session_of(ui_stream(server.url), tmp_path) as session:
            turn = session.prompt("go")
            async with turn:
                async for update in turn:
                    if isinstance(update, v1.AgentMessageChunk):
                        break
                await session.cancel()
                async for _ in turn:
                    pass
            assert turn.result.stop_reason == "cancelled"
            assert await asyncio.to_thread(server.hung_up.wait, 20)


def test_each_address_has_a_name_of_its_own() -> None:
    one, two = ui_stream("http://user:key@127.0.0.1:3000/api/chat"), ui_stream("https://127.0.0.1:3000/api/other")
    assert (two.name, two.title) == ("127.0.0.1-3000-api-other", "127.0.0.1:3000")
    assert "key" not in f"{one.title}{one.name}"
    assert one.name != two.name


async def test_unknown_chunks_of_a_server_are_reported_and_not_sent_back(tmp_path: Path) -> None:
    odd = Prepared(sse({"type": "hologram", "x": 1}, {"type": "text-start", "id": "t"}, HALF, {"type": "finish"}))
    with PreparedServer(odd) as server:
        async with session_of(ui_stream(server.url), tmp_path) as session:
            updates = await ask(session, "go")
            await ask(session, "again")
    (notice,) = (update for update in updates if update["sessionUpdate"] == "notice")
    assert "hologram" in notice["description"]
    assert [part["type"] for part in server.bodies()[1]["messages"][1]["parts"]] == ["text"]


async def test_a_missing_http_client_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx2", None)
    async with session_of(ui_stream("http://127.0.0.1:1"), tmp_path) as session:
        with pytest.raises(RequestError, match=r"pip install .*\[agent\]'"):
            await ask(session, "go")


@pytest.mark.parametrize("sdk_version", [5, 6, 7])
async def test_an_agent_that_pydantic_ai_serves_answers_and_remembers(sdk_version: Any, tmp_path: Path) -> None:
    deleted: list[str] = []
    agent = make_agent(deleted, ends_with_questions=sdk_version > 5)
    async with (
        served(agent, "ui_stream", sdk_version) as url,
        session_of(ui_stream(url), tmp_path, permission=Answers("allow", "reject")) as session,
    ):
        assert text_of(await ask(session, "hello")) == "1: hello"
        assert text_of(await ask(session, "again")) == "2: again"
        updates = await ask(session, "THINK")
        assert (text_of(updates, "agent_thought_chunk"), text_of(updates)) == ("hm, well", "thought")
        if sdk_version > 5:  # version 5 has no questions
            updates = await ask(session, "DELETE a.txt")
            assert text_of(updates) == "Tool finished: deleted a.txt"
            assert statuses(updates) == ["pending", "in_progress", "completed"]
            updates = await ask(session, "DELETE b.txt")
            assert statuses(updates) == ["pending", "failed"]
        assert text_of(await ask(session, "after")).endswith(": after")
    assert deleted == (["a.txt"] if sdk_version > 5 else [])
