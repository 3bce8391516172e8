"""Chat-completions endpoints."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import openai_chat, wrap
from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.adapters.fixtures import ask, client_of, on_wire, session_of, statuses, text_of
from tests.adapters.http_server import Prepared, PreparedServer, Received, sse
from tests.interop.model_server.server import MODEL, ModelServer


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def completes(*pieces: Any) -> Any:
    """A server with two models whose every completion is this."""

    def answer(request: Received) -> Prepared:
        if request.method == "GET":
            models = {"data": [{"id": "small"}, {"id": "large"}]}
            return Prepared(json.dumps(models).encode(), media_type="application/json")
        return Prepared(sse(*pieces))

    return answer


async def test_a_server_answers_remembers_and_can_be_cancelled(tmp_path: Path) -> None:
    with ModelServer() as server:
        # The server plays its script for requests with tools only.
        tools = [{"type": "function", "function": {"name": "unused", "parameters": {"type": "object"}}}]
        url = f"{server.url}/v1/chat/completions"
        source = openai_chat(url, model=MODEL, system="Be brief.", body={"tools": tools})
        async with session_of(source, tmp_path) as session:
            assert text_of(await ask(session, "hello"))
            updates = await ask(session, "THINK")
            assert text_of(updates)
            turn = session.prompt("SLOW")
            async with turn:
                async for update in turn:
                    if isinstance(update, v1.AgentMessageChunk):
                        break
                await session.cancel()
                async for _ in turn:
                    pass
            assert turn.result.stop_reason == "cancelled"
            with pytest.raises(RequestError, match="status 400"):
                await ask(session, "ERROR 400")
            assert text_of(await ask(session, "COUNT 3")).split() == ["1", "2", "3"]
        bodies = [json.loads(each.body) for each in server.exchanges if each.method == "POST"]
    assert bodies[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert [message["role"] for message in bodies[1]["messages"]] == ["system", "user", "assistant", "user"]


async def test_the_models_of_the_server_can_be_chosen_and_the_choice_is_kept(tmp_path: Path) -> None:
    with PreparedServer(completes(piece(content="hi"), piece("stop"))) as server:
        agent = wrap(openai_chat(f"{server.url}/v1"), store=tmp_path / "s.db")
        async with client_of(agent) as remote:
            session = await remote.new_session(tmp_path)
            assert text_of(await ask(session, "hello")) == "hi"
            await session.set_config_option("model", "large")
            await ask(session, "hello")
            await session.close()
            resumed = await remote.resume_session(session.id, tmp_path)
            await ask(resumed, "hello")
        assert [body["model"] for body in server.bodies()] == ["small", "large", "large"]
        assert [request.path for request in server.requests[:2]] == ["/v1/models", "/v1/chat/completions"]


@pytest.mark.parametrize(
    ("pieces", "text", "thoughts", "reason"),
    [
        (
            [piece(reasoning_content="hm"), piece(content="a"), piece(content="b"), piece("stop")],
            "ab",
            "hm",
            "end_turn",
        ),
        ([piece(reasoning="hm"), piece(content="a"), piece("length")], "a", "hm", "max_tokens"),
        ([piece(content="a"), piece("content_filter")], "a", "", "refusal"),
        ([{"choices": []}, piece(content="a"), piece("stop"), {"choices": [], "usage": {}}], "a", "", "end_turn"),
    ],
)
async def test_pieces_of_every_kind(pieces: Any, text: str, thoughts: str, reason: str, tmp_path: Path) -> None:
    with PreparedServer(completes(*pieces)) as server:
        async with session_of(openai_chat(server.url), tmp_path) as session:
            turn = session.prompt("go")
            updates = on_wire([update async for update in turn])
            assert (text_of(updates), text_of(updates, "agent_thought_chunk")) == (text, thoughts)
            assert turn.result.stop_reason == reason


async def test_a_call_of_a_tool_is_shown_and_refused(tmp_path: Path) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "search", "arguments": '{"q"'}}
    rest = {"index": 0, "function": {"arguments": ": 1}"}}
    with PreparedServer(completes(piece(tool_calls=[call]), piece(tool_calls=[rest]), piece("tool_calls"))) as server:
        async with session_of(openai_chat(server.url), tmp_path) as session:
            updates = await ask(session, "go")
    assert statuses(updates, "c")[-1] == "failed"
    assert any(update.get("rawInput") == {"q": 1} for update in updates)


async def test_a_server_that_does_not_stream_is_read_too(tmp_path: Path) -> None:
    whole = {"choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]}
    body = Prepared(json.dumps(whole).encode(), media_type="application/json")
    with PreparedServer(body) as server:
        async with session_of(openai_chat(server.url, model="m"), tmp_path) as session:
            assert text_of(await ask(session, "go")) == "whole"


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (completes(piece(content="half")), "broke off; what arrived is kept"),
        (completes("{nope"), "not a chat completion"),
        (completes({"error": {"message": "out of memory"}}), "out of memory"),
        (Prepared(b"", 404, "text/plain"), "lists no models; name one"),
    ],
)
async def test_what_breaks_is_reported(response: Any, message: str, tmp_path: Path) -> None:
    with PreparedServer(response) as server:
        async with session_of(openai_chat(server.url), tmp_path) as session:
            with pytest.raises(RequestError, match=message):
                await ask(session, "go")


async def test_the_key_is_sent_to_https_only_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-environment")
    for key, sent in ((None, None), ("given", "Bearer given")):
        with PreparedServer(completes(piece(content="hi"), piece("stop"))) as server:
            async with session_of(openai_chat(server.url, key=key), tmp_path) as session:
                await ask(session, "go")
            assert server.requests[-1].headers.get("authorization") == sent


async def test_an_image_is_sent_as_a_data_url(tmp_path: Path) -> None:
    with PreparedServer(completes(piece(content="hi"), piece("stop"))) as server:
        async with session_of(openai_chat(server.url), tmp_path) as session:
            await session.prompt([v1.TextContent("look"), v1.ImageContent("AAAA", "image/png")])
    content = server.bodies()[0]["messages"][0]["content"]
    assert content[1]["image_url"]["url"] == "data:image/png;base64,AAAA"
