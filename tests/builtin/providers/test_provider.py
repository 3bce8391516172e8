"""Models of providers over real HTTP, each thing in every wire form."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from dragoman.builtin.models.model import (
    ContextOverflowError,
    Model,
    ModelAuthError,
    ModelError,
    ModelRequest,
    StepEnd,
    ToolSpec,
)
from dragoman.builtin.models.package.provider import ProviderModel
from dragoman.builtin.models.providers import PROVIDERS
from dragoman.builtin.models.wire_forms.failures import broken_connection
from dragoman.builtin.models.wire_forms.form import Target
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import StepStartPart, TextPart, UIMessage, Usage
from tests.builtin.fixtures import FakeTool, SessionFixture, open_fixture
from tests.builtin.providers.server import (
    ALL_WIRES,
    Answer,
    ProviderServer,
    Wire,
    refused,
    text_answer,
    thought,
    use,
)
from tests.interop.model_server.question import Speech

EACH_WIRE = pytest.mark.parametrize("wire", ALL_WIRES.values(), ids=ALL_WIRES)
LOOK = ToolSpec("look", "looks", {"type": "object", "properties": {"value": {"type": "string"}}})


@asynccontextmanager
async def model_at(server: ProviderServer, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Model]:
    for name, value in wire.variables(server.url).items():
        monkeypatch.setenv(name, value)
    model = wire.make()
    try:
        yield model
    finally:
        await model.close()


async def items_of(model: Model, prompt: str = "hello") -> list[c.Chunk | StepEnd]:
    asked = UIMessage("m1", "user", [TextPart(prompt)])
    reply = UIMessage("m2", "assistant", [StepStartPart()])
    request = ModelRequest((asked, reply), "You are a test.", (LOOK,), "low")
    return [item async for item in model.stream(request)]


def joined(items: list[c.Chunk | StepEnd], kind: type[c.TextDelta | c.ReasoningDelta]) -> str:
    return "".join(item.delta for item in items if isinstance(item, kind))


@EACH_WIRE
async def test_text_thoughts_and_calls_stream_in(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = thought("it may be there", Speech(("I will ", "look.")), use("look", value="here"))
    with ProviderServer(answer) as server:
        async with model_at(server, wire, monkeypatch) as model:
            items = await items_of(model)
    assert joined(items, c.ReasoningDelta).endswith("it may be there")
    assert sum(isinstance(item, c.TextDelta) for item in items) >= 2
    assert joined(items, c.TextDelta) == "I will look."
    (call,) = (item for item in items if isinstance(item, c.ToolInputAvailable))
    assert (call.tool_name, call.input) == ("look", {"value": "here"})
    begun = [item for item in items if isinstance(item, c.ToolInputStart)]
    streamed = [item.input_text_delta for item in items if isinstance(item, c.ToolInputDelta)]
    assert [item.tool_call_id for item in begun] == [call.tool_call_id]
    assert json.loads("".join(streamed)) == {"value": "here"}
    end = items[-1]
    assert isinstance(end, StepEnd)
    assert end.reason in ("tool-calls", "stop")
    assert end.model.endswith(wire.model.partition(":")[2])


@EACH_WIRE
async def test_system_prompt_tools_and_key_reach_the_provider(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(text_answer("hi")) as server:
        async with model_at(server, wire, monkeypatch) as model:
            await items_of(model, "what is there?")
    (asked,) = server.asked
    assert b"You are a test." in asked.data
    assert [tool.name for tool in asked.question.tools] == ["look"]
    assert asked.question.prompt == "what is there?"
    sent = {name.lower(): value for name, value in asked.headers.items()}
    assert "a-key" in (sent.get("authorization", "") + sent.get("x-api-key", "") + sent.get("x-goog-api-key", ""))


USAGES: dict[str, tuple[dict[str, Any], Usage]] = {
    "anthropic": (
        {
            "input_tokens": 100,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 10,
            "output_tokens": 30,
        },
        Usage(input=100, output=30, cache_read=40, cache_write=10),
    ),
    "openai-responses": (
        {
            "input_tokens": 140,
            "input_tokens_details": {"cached_tokens": 40},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 170,
        },
        Usage(input=100, output=18, reasoning=12, cache_read=40),
    ),
    "openai-chat": (
        {
            "prompt_tokens": 140,
            "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens": 30,
            "completion_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 170,
        },
        Usage(input=100, output=18, reasoning=12, cache_read=40),
    ),
    "google": (
        {
            "promptTokenCount": 140,
            "cachedContentTokenCount": 40,
            "candidatesTokenCount": 18,
            "thoughtsTokenCount": 12,
            "totalTokenCount": 170,
        },
        Usage(input=100, output=18, reasoning=12, cache_read=40),
    ),
}


def with_usage(usage: dict[str, Any]) -> Any:
    """Puts a usage in the place of each that an answer has."""

    def rewrite(event: Any) -> Any:
        if not isinstance(event, dict):
            return event
        return {name: usage if name in ("usage", "usageMetadata") else rewrite(value) for name, value in event.items()}

    return rewrite


@pytest.mark.parametrize("form", ALL_WIRES)
async def test_tokens_come_in_five_parts_that_do_not_overlap(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, expected = USAGES[form.removeprefix("package-")]
    with ProviderServer(text_answer("hi")._replace(rewrite=with_usage(sent))) as server:
        async with model_at(server, ALL_WIRES[form], monkeypatch) as model:
            end = (await items_of(model))[-1]
    assert isinstance(end, StepEnd)
    assert end.usage == expected
    if form.endswith("openai-chat"):
        assert end.cost_usd is None  # the price of a model on one's own server is not known
        assert model.context_tokens is None
    else:
        assert end.cost_usd is not None
        assert 0 < end.cost_usd < 0.01
        assert model.context_tokens is not None
        assert model.context_tokens >= 200_000


# What goes wrong


async def failure(answer: Answer, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> ModelError:
    with ProviderServer(answer) as server:
        async with model_at(server, wire, monkeypatch) as model:
            with pytest.raises(ModelError) as raised:
                await items_of(model)
        assert len(server.asked) == 1, "trying again is not the model's business"
    return raised.value


@EACH_WIRE
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_the_variable_to_check(
    wire: Wire, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await failure(refused(status, "bad key"), wire, monkeypatch)
    assert isinstance(error, ModelAuthError)
    assert "bad key" in str(error)
    assert not error.is_retryable
    if wire.model.startswith("openai-compatible") and wire.is_packaged:
        assert error.variables == ()
    else:
        assert wire.key in error.variables
        assert wire.key in str(error)


@EACH_WIRE
async def test_a_busy_provider_is_tried_again_after_the_time_it_names(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await failure(refused(429, "slow down", retry_after="7"), wire, monkeypatch)
    assert error.is_retryable
    assert error.retry_after_seconds == 7.0
    assert error.status == 429
    assert "slow down" in str(error)


@EACH_WIRE
@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_broken_provider_is_tried_again(wire: Wire, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    error = await failure(refused(status, "oh no"), wire, monkeypatch)
    assert (error.is_retryable, error.status, error.retry_after_seconds) == (True, status, None)


@EACH_WIRE
@pytest.mark.parametrize("status", [400, 404])
async def test_a_request_that_the_provider_refuses_is_reported_with_its_message(
    wire: Wire, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await failure(refused(status, "prompt is too long: 300000 tokens"), wire, monkeypatch)
    assert not error.is_retryable
    assert not isinstance(error, ModelAuthError)
    assert "prompt is too long: 300000 tokens" in str(error)


@EACH_WIRE
async def test_a_conversation_that_is_too_long_is_reported_with_its_counts(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await failure(refused(400, "prompt is too long: 300000 tokens > 200000 maximum"), wire, monkeypatch)
    assert isinstance(error, ContextOverflowError)
    assert (error.used, error.window, error.status) == (300_000, 200_000, 400)


@EACH_WIRE
@pytest.mark.parametrize("events", [0, 3])
async def test_a_line_that_breaks_is_tried_again(wire: Wire, events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = text_answer("one ", "two ", "three ", "four")._replace(cut_after=events)
    assert (await failure(answer, wire, monkeypatch)).is_retryable


@pytest.mark.parametrize("form", sorted(ALL_WIRES.keys() - {"package-openai-chat"}))
async def test_an_answer_without_an_end_is_an_error(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends without an error, but the provider has not sent the end of the answer.

    The package takes an answer without an end in OpenAI's chat format for a whole one.
    """
    answer = text_answer("one ", "two ", "three ", "four")._replace(is_short=True)
    assert (await failure(answer, ALL_WIRES[form], monkeypatch)).is_retryable


@EACH_WIRE
async def test_an_address_of_this_machine_that_refuses_is_asked_about_and_not_tried_again(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound and not listening: refused for sure
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        for name, value in wire.variables(url).items():
            monkeypatch.setenv(name, value)
        model = wire.make()
        with pytest.raises(ModelError) as raised:
            await items_of(model)
        await model.close()
    assert not raised.value.is_retryable
    assert f"no server answers at {url} (connection refused): is the server running?" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "address", "asked"),
    [
        (
            "ollama:qwen3",
            "",
            "Ollama does not answer at http://127.0.0.1:11434 (connection refused): is Ollama running?",
        ),
        ("lmstudio:a", "http://localhost:9", "LM Studio does not answer at http://localhost:9 "),
        ("openai-compatible:a", "http://127.0.0.1:8080", "is llama.cpp running?"),
        ("openai-compatible:a", "http://[::1]:8000/v1", "is vLLM running?"),
        (
            "openai-compatible:a",
            "http://127.0.0.1:9",
            "is the server running? (OPENAI_COMPATIBLE_BASE_URL sets another address)",
        ),
        ("openai-compatible:a", "http://192.0.2.1:11434", None),
        ("openai:a", "https://model.invalid", None),
    ],
)
def test_a_refused_connection_is_about_the_server_of_its_provider_or_port(
    name: str, address: str, asked: str | None
) -> None:
    provider = PROVIDERS[name.partition(":")[0]]
    request = httpx2.Request("POST", address or provider.base_url({}))
    error = httpx2.ConnectError("All connection attempts failed", request=request)
    error.__cause__ = ConnectionRefusedError(111, "Connect call failed")
    found = broken_connection(Target(provider, "a"), error)
    assert found.is_retryable == (asked is None)
    assert (asked or f"{urlsplit(address).scheme}://{urlsplit(address).netloc} broke") in str(found)


async def test_a_key_that_is_missing_is_named_before_anything_is_sent() -> None:
    with pytest.raises(ModelAuthError, match="DEEPSEEK_API_KEY") as raised:
        await items_of(ProviderModel("deepseek:deepseek-chat"))
    assert raised.value.variables == ("DEEPSEEK_API_KEY",)


async def test_a_provider_without_its_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CO_API_KEY", "x")
    with pytest.raises(ModelError, match=r"pip install .*pydantic-ai-slim\[cohere\]"):
        await items_of(ProviderModel("cohere:command-r"))


# In a turn


@asynccontextmanager
async def turn_at(
    server: ProviderServer, wire: Wire, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SessionFixture]:
    async with model_at(server, wire, monkeypatch) as model, open_fixture(folder) as fixture:
        fixture.model = model
        fixture.add(FakeTool("look"))
        yield fixture


@EACH_WIRE
async def test_the_turn_waits_as_long_as_the_provider_asks_and_then_goes_on(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer(refused(429, "slow", retry_after="3"), refused(500, "oh"), text_answer("done")) as server:
        async with turn_at(server, wire, tmp_path, monkeypatch) as fixture:
            end = await fixture.prompt("go")
            assert end.error is None
            assert fixture.slept == [3.0, 2.0]
            assert fixture.texts() == ["done"]


@EACH_WIRE
async def test_a_half_answer_is_void_and_asked_for_again(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = text_answer("one ", "two ", "three ", "four")._replace(cut_after=5)
    with ProviderServer(half, text_answer("one two three four")) as server:
        async with turn_at(server, wire, tmp_path, monkeypatch) as fixture:
            await fixture.prompt("count")
            assert any(isinstance(chunk, c.ResetStep) for chunk in fixture.seen)
            assert fixture.texts() == ["one two three four"]


@EACH_WIRE
async def test_cancelling_a_turn_hangs_up(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = text_answer("one ", "two ", "three")._replace(cut_after=5, is_held=True)
    with ProviderServer(slow) as server:
        async with turn_at(server, wire, tmp_path, monkeypatch) as fixture:
            running = fixture.start("count")
            await fixture.until(c.TextDelta)
            running.cancel()
            assert (await running).was_cancelled
            assert await asyncio.to_thread(server.hung_up.wait, 60)


@EACH_WIRE
async def test_an_id_the_provider_uses_twice_stands_for_two_calls(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same_ids(event: Any) -> Any:
        return json.loads(json.dumps(event).replace("call_2", "call_1").replace("toolu_2", "toolu_1"))

    first = Answer((use("look", value="a"),))
    again = Answer((use("look", value="b"),), rewrite=same_ids)
    with ProviderServer(first, again, text_answer("done")) as server:
        async with turn_at(server, wire, tmp_path, monkeypatch) as fixture:
            await fixture.prompt("go")
            assert fixture.tools["look"].called == ["a", "b"]
            assert len(fixture.session.history[-1].parts) == 3 + 2 + 1
        assert list(server.asked[-1].question.results)[-1].count("did b") == 1


LISTS = {"anthropic": "messages", "openai-responses": "input", "openai-chat": "messages", "google": "contents"}


def taken_apart(data: bytes, member: str) -> tuple[str, str, str]:
    """What stands before the list of messages, the list without its end, and what stands behind."""
    text = data.decode()
    start = text.index("[", text.index(f'"{member}":'))
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[:start], text[start : end - 1], text[end:]


@pytest.mark.parametrize("form", ALL_WIRES)
async def test_each_request_begins_with_the_bytes_of_the_one_before(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Providers bill a prefix they have seen at a tenth; one byte that differs makes it new. Also across a restart."""
    answers = (
        thought("where?", Speech(("I look.",)), use("look", value="a"), use("look", value="b")),
        thought("and there?", use("look", value="c")),
        text_answer("first turn done"),
        thought("again", use("look", value="d")),
        text_answer("second turn done"),
    )
    with ProviderServer(*answers) as server:
        async with turn_at(server, ALL_WIRES[form], tmp_path, monkeypatch) as fixture:
            await fixture.prompt("go")
            await fixture.reopen()
            await fixture.prompt("and on")
    assert len(server.asked) == 5
    for before, after in zip(server.asked, server.asked[1:], strict=False):
        was, now = (
            taken_apart(before.data, LISTS[form.removeprefix("package-")]),
            taken_apart(after.data, LISTS[form.removeprefix("package-")]),
        )
        assert now[1].startswith(was[1])
        assert len(now[1]) > len(was[1])
        assert (was[0], was[2]) == (now[0], now[2])


@pytest.mark.parametrize("form", ["anthropic", "package-anthropic"])
async def test_anthropic_requests_mark_where_the_cache_may_end(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(text_answer("hi")) as server:
        async with model_at(server, ALL_WIRES[form], monkeypatch) as model:
            await items_of(model)
    body = server.asked[0].body
    assert body["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["cache_control"]["type"] == "ephemeral", "at the top: behind the last message, however many there are"


@pytest.mark.parametrize("form", ["anthropic", "package-anthropic"])
async def test_a_thought_goes_back_to_anthropic_with_its_signature(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer(thought("where?", use("look", value="a")), text_answer("done")) as server:
        async with turn_at(server, ALL_WIRES[form], tmp_path, monkeypatch) as fixture:
            await fixture.prompt("go")
    thinking = server.asked[1].body["messages"][1]["content"][0]
    assert thinking == {"type": "thinking", "thinking": "where?", "signature": "c2NyaXB0ZWQ="}
