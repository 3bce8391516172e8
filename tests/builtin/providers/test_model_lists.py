"""The lists of models of all kinds of servers, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models import list_rows
from dragoman.builtin.models.catalogue import ModelFacts, Prices, facts_of
from dragoman.builtin.models.model import ModelAuthError, ModelError
from dragoman.builtin.models.model_lists import list_models
from dragoman.builtin.models.providers import PROVIDERS

Answers = Mapping[str, Any]


class ListServer(ThreadingHTTPServer):
    """Answers each address with its value: JSON, a pair of a status and JSON, or bytes."""

    daemon_threads = True

    def __init__(self, answers: Answers) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ListServer

    def log_message(self, format: str, *args: Any) -> None:
        """The record is in `asked`."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.path, headers, body))
        answer = self.server.answers.get(self.path, (404, {"error": {"message": "nothing is here"}}))
        if callable(answer):
            answer = answer(json.loads(body))
        status, value = answer if isinstance(answer, tuple) else (200, answer)
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        self.do_GET()


@contextmanager
def serving(answers: Answers) -> Iterator[ListServer]:
    server = ListServer(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def listed(
    provider: str, answers: Answers, path: str = "/v1", **env: str
) -> tuple[dict[str, ModelFacts], ListServer]:
    known = PROVIDERS[provider]
    variable = known.url_variables[0] if known.url_variables else f"{provider.upper().replace('-', '_')}_BASE_URL"
    with serving(answers) as server:
        keys = dict.fromkeys(known.keys[:1], "a-key")
        found = await list_models(known, {**keys, variable: server.url + path, **env})
    assert len({facts.id for facts in found}) == len(found)
    return {facts.id: facts for facts in found}, server


async def test_anthropic_states_windows_and_abilities_page_by_page() -> None:
    abilities = {
        "image_input": {"supported": True},
        "pdf_input": {"supported": False},
        "thinking": {"supported": True, "types": {}},
        "effort": {"supported": True, "low": {"supported": True}, "high": {"supported": True}, "max": None},
    }
    one = {
        "id": "claude-new",
        "display_name": "Claude New",
        "lifecycle": "active",
        "max_input_tokens": 300_000,
        "max_tokens": 64_000,
        "capabilities": abilities,
    }
    old, gone = {"id": "claude-old", "lifecycle": "deprecated"}, {"id": "claude-gone", "lifecycle": "retired"}
    answers = {
        "/v1/models?limit=1000": {"data": [one], "has_more": True, "last_id": "claude new"},
        "/v1/models?limit=1000&after_id=claude%20new": {"data": [old, gone], "has_more": False},
    }
    found, server = await listed("anthropic", answers, path="")
    assert found["claude-new"] == ModelFacts(
        "claude-new",
        "Claude New",
        300_000,
        64_000,
        sees_images=True,
        reads_documents=False,
        thinks=True,
        efforts=("low", "high"),
    )
    assert found["claude-old"].is_deprecated
    assert "claude-gone" not in found
    assert server.asked[0][1]["x-api-key"] == "a-key"
    assert server.asked[0][1]["anthropic-version"]


async def test_openai_lists_names_and_the_catalogue_knows_the_rest() -> None:
    names = ["gpt-5", "gpt-99-new", "text-embedding-3-large", "whisper-1", "gpt-image-1", "gpt-realtime", "tts-1"]
    answers = {"/v1/models": {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}}
    found, server = await listed("openai", answers)
    assert list(found) == ["gpt-5", "gpt-99-new"]
    assert found["gpt-5"].window == 400_000
    assert found["gpt-5"].prices is not None
    assert found["gpt-99-new"] == ModelFacts("gpt-99-new")
    assert server.asked[0][1]["authorization"] == "Bearer a-key"


async def test_google_lists_what_generates_content() -> None:
    flash = {
        "name": "models/gemini-3.8-flash",
        "displayName": "Gemini 3.8 Flash",
        "inputTokenLimit": 2_000_000,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": True,
    }
    other = {"name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]}
    later = {"name": "models/gemini-later", "supportedGenerationMethods": ["generateContent"]}
    answers = {
        "/v1beta/models?pageSize=1000": {"models": [flash, other], "nextPageToken": "p/2"},
        "/v1beta/models?pageSize=1000&pageToken=p/2": {"models": [later]},
    }
    found, server = await listed("google", answers, path="")
    assert list(found) == ["gemini-3.8-flash", "gemini-later"]
    assert (found["gemini-3.8-flash"].window, found["gemini-3.8-flash"].output_limit) == (2_000_000, 65_536)
    assert found["gemini-3.8-flash"].efforts == ("low", "medium", "high"), "the catalogue knows them"
    assert server.asked[0][1]["x-goog-api-key"] == "a-key"
    assert all("a-key" not in path for path, _, _ in server.asked)


async def test_openrouter_states_prices_as_text_per_token() -> None:
    row = {
        "id": "someone/something-new",
        "name": "Someone: Something New",
        "context_length": 131_072,
        "pricing": {"prompt": "0.0000003", "completion": "0.0000012", "input_cache_read": "0.00000003"},
        "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
        "supported_parameters": ["tools", "reasoning"],
        "top_provider": {"max_completion_tokens": 16_384},
    }
    drawing = {"id": "someone/draws", "architecture": {"output_modalities": ["image"]}}
    automatic = {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}}
    found, _ = await listed("openrouter", {"/api/v1/models": {"data": [row, drawing, automatic]}}, path="/api/v1")
    assert found["someone/something-new"] == ModelFacts(
        "someone/something-new",
        "Someone: Something New",
        131_072,
        16_384,
        Prices(0.3, 1.2, 0.03),
        sees_images=True,
        reads_documents=True,
        thinks=True,
    )
    assert "someone/draws" not in found
    assert found["openrouter/auto"].prices == (
        known.prices if (known := facts_of("openrouter:openrouter/auto")) else None
    )


async def test_ollama_states_the_window_that_a_model_is_loaded_with() -> None:
    described = {
        "loaded:8b": {"capabilities": ["completion", "tools"], "model_info": {"llama.context_length": 131_072}},
        "set:8b": {"capabilities": ["completion", "vision", "thinking"], "parameters": "stop x\nnum_ctx    16384"},
        "idle:8b": {"capabilities": ["completion"], "model_info": {"llama.context_length": 131_072}},
        "embed": {"capabilities": ["embedding"]},
    }
    answers = {
        "/api/tags": {"models": [{"name": name, "model": name} for name in [*described, "odd"]]},
        "/api/ps": {"models": [{"name": "loaded:8b", "model": "loaded:8b", "context_length": 4096}]},
        "/api/show": lambda body: described.get(body["model"], (500, {"error": "oh"})),
    }
    found, server = await listed("ollama", answers)
    assert {name: facts.window for name, facts in found.items()} == {
        "loaded:8b": 4096,
        "set:8b": 16_384,
        "idle:8b": None,
        "odd": None,
    }
    assert (found["set:8b"].sees_images, found["set:8b"].thinks) == (True, True)
    assert found["idle:8b"].sees_images is False
    assert "authorization" in server.asked[0][1], "the key is sent where the user set one"


async def test_a_server_like_ollama_without_its_own_list_is_asked_for_the_common_one() -> None:
    found, _ = await listed("ollama", {"/v1/models": {"data": [{"id": "qwen3"}]}})
    assert list(found) == ["qwen3"]


async def test_vllm_states_its_longest_conversation() -> None:
    found, _ = await listed("vllm", {"/v1/models": {"data": [{"id": "qwen/qwen3", "max_model_len": 40_960}]}})
    assert found["qwen/qwen3"].window == 40_960


async def test_llama_cpp_states_the_window_it_was_started_with() -> None:
    answers = {
        "/v1/models": {"models": [], "data": [{"id": "m.gguf", "meta": {"n_ctx_train": 131_072}}]},
        "/props": {"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": False, "audio": False}},
    }
    found, _ = await listed("llamacpp", answers)
    assert (found["m.gguf"].window, found["m.gguf"].sees_images) == (8192, False)
    hidden, _ = await listed("llamacpp", {name: value for name, value in answers.items() if name != "/props"})
    assert hidden["m.gguf"].window == 131_072


async def test_lm_studio_states_what_is_loaded() -> None:
    rows = [
        {"id": "a", "type": "llm", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 8192},
        {"id": "b", "type": "vlm", "state": "not-loaded", "max_context_length": 32_768},
        {"id": "c", "type": "embeddings", "max_context_length": 2048},
    ]
    found, _ = await listed("lmstudio", {"/api/v0/models": {"data": rows}})
    assert {name: (facts.window, facts.sees_images) for name, facts in found.items()} == {
        "a": (8192, None),
        "b": (32_768, True),
    }
    plain, _ = await listed("lmstudio", {"/v1/models": {"data": [{"id": "a"}]}})
    assert list(plain) == ["a"]


async def test_other_servers_use_other_words_for_the_same() -> None:
    groq = {"id": "new/one", "active": True, "context_window": 131_072, "max_completion_tokens": 32_768}
    found, _ = await listed(
        "groq", {"/openai/v1/models": {"data": [groq, {"id": "off", "active": False}]}}, "/openai/v1"
    )
    assert (found["new/one"].window, found["new/one"].output_limit) == (131_072, 32_768)
    assert "off" not in found
    mistral = {
        "id": "new-mistral",
        "max_context_length": 262_144,
        "capabilities": {"completion_chat": True, "vision": True},
        "aliases": ["new-mistral", "new-mistral-latest"],
        "deprecation": None,
    }
    ocr = {"id": "new-ocr", "capabilities": {"completion_chat": False}}
    found, _ = await listed("mistral", {"/v1/models": {"data": [mistral, ocr]}})
    assert found == {
        "new-mistral": ModelFacts("new-mistral", window=262_144, sees_images=True, aliases=("new-mistral-latest",))
    }
    together = [{"id": "a/b", "type": "chat", "context_length": 8192, "pricing": {"input": 0.18, "output": 0.59}}]
    found, _ = await listed("together", {"/v1/models": together})
    assert (found["a/b"].window, found["a/b"].prices) == (8192, Prices(0.18, 0.59))
    xai = {
        "id": "grok-new",
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "prompt_text_token_price": 30_000,
        "cached_prompt_text_token_price": 7500,
        "completion_text_token_price": 150_000,
    }
    found, _ = await listed("xai", {"/v1/language-models": {"models": [xai]}})
    assert found["grok-new"] == ModelFacts(
        "grok-new", prices=Prices(3.0, 15.0, 0.75), sees_images=False, reads_documents=False
    )


# What goes wrong


async def test_a_key_that_is_missing_is_named_before_anything_is_sent() -> None:
    with serving({}) as server, pytest.raises(ModelAuthError, match="ANTHROPIC_API_KEY") as raised:
        await list_models(PROVIDERS["anthropic"], {"ANTHROPIC_BASE_URL": server.url})
    assert raised.value.variables == ("ANTHROPIC_API_KEY",)
    assert server.asked == []


async def test_a_key_that_is_refused_is_named() -> None:
    with pytest.raises(ModelAuthError, match="OPENAI_API_KEY"):
        await listed("openai", {"/v1/models": (401, {"error": {"message": "wrong key"}})})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, {"error": {"message": "oh no"}}), "oh no"),
        (b"<html>a page</html>", "no JSON"),
        ({"hello": "world"}, "not a list of models"),
        ("hello", "not a list of models"),
        ((404, b""), "404"),
    ],
)
async def test_an_answer_without_a_list_is_an_error_that_names_the_provider(answer: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words) as raised:
        await listed("openai", {"/v1/models": answer})
    assert "OpenAI" in str(raised.value)


async def test_a_server_that_does_not_answer_is_waited_for_no_longer_than_allowed() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        env = {"VLLM_BASE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/v1"}
        async with asyncio.timeout(60):
            with pytest.raises(ModelError, match=r"vLLM cannot be listed: it did not answer within 0\.2 s") as raised:
                await list_models(PROVIDERS["vllm"], env, seconds=0.2)
    assert raised.value.is_retryable


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound and not listening: refused for sure
        env = {"OLLAMA_BASE_URL": f"http://127.0.0.1:{reserved.getsockname()[1]}"}
        with pytest.raises(ModelError, match=r"Ollama does not answer at .* is Ollama running\?") as raised:
            await list_models(PROVIDERS["ollama"], env)
    assert not raised.value.is_retryable


async def test_an_address_that_is_not_a_url_is_named() -> None:
    with pytest.raises(ModelError, match=r"localhost:8000.* is not the address of a server"):
        await list_models(PROVIDERS["vllm"], {"VLLM_BASE_URL": "localhost:8000/v1"})


async def test_a_provider_of_a_package_states_how_to_name_a_model() -> None:
    with pytest.raises(ModelError, match="bedrock:MODEL"):
        await list_models(PROVIDERS["bedrock"], {})


async def test_a_server_without_an_address_names_the_variable() -> None:
    compatible = PROVIDERS["openai-compatible"]
    with pytest.raises(ModelError, match="OPENAI_BASE_URL"):
        await list_models(compatible, {"OPENAI_BASE_URL": " "})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = (
    *("id", "name", "capabilities", "pricing", "architecture", "meta", "aliases", "top_provider", "effort"),
    *("context_length", "parameters", "lifecycle", "supportedGenerationMethods", "thinking", "input_modalities"),
)
ROW = st.dictionaries(st.sampled_from(MEMBERS), JSON | st.dictionaries(st.sampled_from(MEMBERS), JSON))


@given(ROW)
def test_a_row_of_any_shape_gives_facts_or_nothing(row: dict[str, Any]) -> None:
    for read in (list_rows.anthropic_facts, list_rows.google_facts, list_rows.compatible_facts):
        found = read(row)
        assert found is None or isinstance(found.id, str)
    described = list_rows.ollama_facts({**row, "id": "x"})
    assert described is None or described.id == "x"
    assert isinstance(list_rows.llama_cpp_started(row), dict)
