"""A key that a user types: the verdict of a provider on this machine, and the order of the providers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.models.providers import PROVIDERS, login_providers
from dragoman.builtin.typed_key import FREQUENT, check_key, key_in_text, providers_named, ranked_providers, store_key
from dragoman.settings.credentials import Credentials

KEY = "a-typed-key-0123456789"


class Answers(ThreadingHTTPServer):
    """A provider: the statuses of its addresses with the right key, with another one, and without any."""

    def __init__(self, with_key: int, wrong_key: int = 401, without: int = 401, *, key_path: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = {KEY: with_key, "": without}
        self.wrong_key, self.key_path = wrong_key, key_path
        self.asked: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        key = self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
        server.asked.append((self.path, key))
        status = server.statuses.get(key, server.wrong_key)
        if self.path.endswith("/key"):
            status = server.key_path
        body: Any = {"data": [{"id": "a-model"}]} if status == 200 else {"error": {"message": f"{status} for {key}"}}
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *words: object) -> None:
        pass


@contextmanager
def serving(server: Answers) -> Iterator[Answers]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("id", "server", "outcome", "words"),
    [
        ("anthropic", {"with_key": 200}, "accepted", "Anthropic lists 1 model with it"),
        (
            "anthropic",
            {"with_key": 401},
            "refused",
            "Anthropic refused the key: 401 for [ANTHROPIC_API_KEY]; the key comes",
        ),
        ("anthropic", {"with_key": 403}, "refused", "comes from your input"),
        ("anthropic", {"with_key": 500}, "unreachable", "Anthropic (500)"),
        ("anthropic", {"with_key": 429}, "unreachable", "Anthropic (429)"),
        ("deepseek", {"with_key": 200}, "accepted", "DeepSeek lists 1 model with it"),
        ("deepseek", {"with_key": 200, "without": 200}, "unchecked", "DeepSeek lists 1 model without a key, too"),
        (
            "openrouter",
            {"with_key": 200, "without": 200, "key_path": 200},
            "accepted",
            "OpenRouter lists 1 model with it",
        ),
        ("openrouter", {"with_key": 200, "without": 200, "key_path": 401}, "refused", "OpenRouter refused the key"),
    ],
)
async def test_the_verdict_is_that_of_the_provider(id: str, server: dict[str, int], outcome: str, words: str) -> None:
    provider = PROVIDERS[id]
    with serving(Answers(**server)) as answers:
        verdict = await check_key(provider, KEY, {provider.url_variable: answers.url})
    assert (verdict.outcome, words in verdict.sentence) == (outcome, True), verdict
    assert KEY not in verdict.sentence
    assert {key for _, key in answers.asked} <= {KEY, ""}


async def test_a_provider_out_of_reach_is_not_a_refusal() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound and not listening: refused for sure
        env = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{reserved.getsockname()[1]}"}
        verdict = await check_key(PROVIDERS["anthropic"], KEY, env)
    assert verdict.outcome == "unreachable"
    assert not verdict.may_be_stored


@pytest.mark.parametrize("text", ["", "two words", "schlüssel-0123456789", "tab\tbed-0123456789"])
async def test_what_cannot_be_a_key_is_not_sent(text: str) -> None:
    with serving(Answers(200)) as server:
        verdict = await check_key(PROVIDERS["anthropic"], text, {"ANTHROPIC_BASE_URL": server.url})
    assert (verdict.outcome, server.asked) == ("malformed", [])


async def test_a_key_of_another_provider_is_not_sent_to_this_one() -> None:
    """Without an address of its own the request would leave the machine: the verdict comes before that."""
    verdict = await check_key(PROVIDERS["openai"], "sk-ant-api03-0123456789abcdef", {})
    assert verdict.outcome == "malformed"
    assert "looks like a key of Anthropic, and was not sent to OpenAI" in verdict.sentence
    with serving(Answers(200)) as gateway:  # a gateway may have keys of any form
        env = {"OPENAI_BASE_URL": gateway.url, "OPENAI_API_KEY": "another"}
        verdict = await check_key(PROVIDERS["openai-compatible"], "sk-ant-api03-0123456789abcdef", env)
        assert {key for _, key in gateway.asked} <= {"sk-ant-api03-0123456789abcdef", ""}
    assert verdict.outcome == "refused"  # with the status of a wrong key: it was asked


def test_frequent_providers_come_first_and_each_has_its_place() -> None:
    ranked = ranked_providers()
    assert [provider.id for provider in ranked[:FREQUENT]][:3] == ["anthropic", "openai", "google"]
    assert {provider.id for provider in ranked} <= {provider.id for provider in login_providers()}
    assert [provider.id for provider in ranked[-4:]] == ["ollama", "vllm", "llamacpp", "lmstudio"]
    assert [provider.id for provider in providers_named("mis")] == ["mistral"]
    assert [provider.id for provider in providers_named("Google Gemini")] == ["google"]
    assert providers_named("no such provider") == []
    assert [key_in_text(text) for text in ("sk-ant-x", "sk-x")] == [PROVIDERS["anthropic"], None]


def test_a_provider_whose_package_is_missing_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None if name == "cohere" else object())
    ids = {provider.id for provider in ranked_providers()}
    assert "anthropic" in ids
    assert "cohere" not in ids
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    assert ranked_providers() == []


def test_a_stored_key_is_that_of_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "another-0123456789")
    sentence = store_key(PROVIDERS["openai-chat"], KEY)
    assert sentence.endswith("; OPENAI_API_KEY is set, and is used in place of it")
    assert KEY not in sentence
    assert Credentials(tmp_path / "config").keys()["openai"].key == KEY
