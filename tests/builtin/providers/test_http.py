"""The connection to a server: proxies, certificates, keys, addresses, and what is loaded for it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dragoman.builtin.models import http
from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.model import ModelAuthError, ModelError, StepEnd
from dragoman.uistream import chunks as c
from tests.builtin.providers.forms import HELLO
from tests.builtin.providers.server import WIRES, Answer, ProviderServer, Wire, text_answer
from tests.builtin.providers.test_keys import command
from tests.interop.model_server.question import Speech

EACH_WIRE = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
ANTHROPIC = WIRES["anthropic"]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def lead(wire: Wire, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in wire.variables(url).items():
        monkeypatch.setenv(name, value)


async def text_of(wire: Wire) -> str:
    model = find_model(wire.model)
    try:
        return "".join([item.delta async for item in model.stream(HELLO) if isinstance(item, c.TextDelta)])
    finally:
        await model.close()


async def failure(wire: Wire) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await text_of(wire)
    return raised.value


@EACH_WIRE
async def test_a_proxy_of_the_environment_is_used(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(text_answer("through the proxy")) as proxy:
        lead(wire, "http://model.invalid", monkeypatch)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert await text_of(wire) == "through the proxy"
    assert proxy.asked[0].headers["Host"] == "model.invalid"


async def test_a_host_that_needs_no_proxy_is_called_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(text_answer("directly")) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refused for sure
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed.getsockname()[1]}")
        lead(ANTHROPIC, server.url, monkeypatch)
        assert (await failure(ANTHROPIC)).is_retryable
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert await text_of(ANTHROPIC) == "directly"


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS for 127.0.0.1, and the file that makes clients trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "server.pem", folder / "key.pem"
    public.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context, public


async def test_an_own_certificate_is_trusted_if_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, file = certificate(tmp_path)
    with ProviderServer(text_answer("encrypted"), certificate=context) as server:
        lead(ANTHROPIC, server.url, monkeypatch)
        error = await failure(ANTHROPIC)
        assert "SSL_CERT_FILE" in str(error)
        assert not error.is_retryable, "waiting does not make a certificate trusted"
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert await text_of(ANTHROPIC) == "encrypted"


async def test_a_certificate_file_that_is_missing_is_named_and_read_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, file = certificate(tmp_path)
    with ProviderServer(text_answer("hi"), certificate=context) as server:
        lead(ANTHROPIC, server.url, monkeypatch)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
        model = find_model(ANTHROPIC.model)
        with pytest.raises(ModelError, match=r"SSL_CERT_FILE=.*missing\.pem"):
            [item async for item in model.stream(HELLO)]
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert isinstance([item async for item in model.stream(HELLO)][-1], StepEnd)
        await model.close()


async def test_certificates_are_checked_also_if_the_address_had_none_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without TLS is reached without reading certificates; one with TLS never is."""
    context, _ = certificate(tmp_path)
    with ProviderServer(text_answer("plain")) as plain, ProviderServer(text_answer("x"), certificate=context) as secure:
        lead(ANTHROPIC, plain.url, monkeypatch)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
        model = find_model(ANTHROPIC.model)
        assert isinstance([item async for item in model.stream(HELLO)][-1], StepEnd)
        monkeypatch.delenv("SSL_CERT_FILE")
        lead(ANTHROPIC, secure.url, monkeypatch)
        with pytest.raises(ModelError, match="certificate"):
            [item async for item in model.stream(HELLO)]
        await model.close()
        assert not secure.asked


@EACH_WIRE
async def test_one_connection_serves_several_calls(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(*[text_answer("hi")] * 3) as server:
        lead(wire, server.url, monkeypatch)
        model = find_model(wire.model)
        for _ in range(3):
            assert isinstance([item async for item in model.stream(HELLO)][-1], StepEnd)
        await model.close()
    assert len({asked.port for asked in server.asked}) == 1


@pytest.mark.parametrize("key", ["sk-…", "sk one", "sk\x07"])
async def test_a_key_that_cannot_be_one_is_refused_without_showing_it(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer() as server:
        lead(ANTHROPIC, server.url, monkeypatch)
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
        error = await failure(ANTHROPIC)
        assert server.asked == []
    assert isinstance(error, ModelAuthError)
    assert error.variables == ("ANTHROPIC_API_KEY",)
    assert key not in str(error)


@pytest.mark.parametrize("url", ["not an address", "ftp://127.0.0.1/v1", "http://[::1"])
async def test_an_address_that_is_none_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    error = await failure(WIRES["openai-chat"])
    assert not error.is_retryable
    assert url in str(error)


@EACH_WIRE
async def test_a_web_page_is_not_an_answer(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<!doctype html><html>Welcome to the hotel</html>"
    with _Plain("text/html", page) as server:
        lead(wire, server.url, monkeypatch)
        error = await failure(wire)
    assert "web page" in str(error)
    assert server.url in str(error)
    assert not error.is_retryable


async def test_an_answer_that_is_not_streamed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = '{"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}'
    with _Plain("application/json", answer) as server:
        lead(WIRES["openai-chat"], server.url, monkeypatch)
        assert await text_of(WIRES["openai-chat"]) == "whole"


@EACH_WIRE
async def test_an_error_with_the_status_of_a_success_is_an_error(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with _Plain("application/json", '{"type": "error", "error": {"message": "out of credits", "code": 402}}') as server:
        lead(wire, server.url, monkeypatch)
        error = await failure(wire)
    assert "out of credits" in str(error)
    assert not error.is_retryable


class _Plain(ProviderServer):
    """Answers every request with one body."""

    def __init__(self, media_type: str, body: str) -> None:
        super().__init__()
        self._http.plain = (media_type, body.encode())


async def test_a_cancelled_first_call_does_not_spoil_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    may_load, original = threading.Event(), http._load

    def slow(with_certificates: bool) -> Any:
        assert may_load.wait(60)
        return original(with_certificates)

    monkeypatch.setattr(http, "_load", slow)
    with ProviderServer(text_answer("hi")) as server:
        lead(ANTHROPIC, server.url, monkeypatch)
        model = find_model(ANTHROPIC.model)

        async def call() -> list[Any]:
            return [item async for item in model.stream(HELLO)]

        first = asyncio.create_task(call())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        may_load.set()
        assert isinstance((await call())[-1], StepEnd)
        await model.close()


TURN = """
import asyncio, sys
from pathlib import Path
from dragoman.client import connect
from dragoman.builtin.agent import build_agent
from dragoman.builtin.settings import AgentSettings
from dragoman.transports.memory import memory_pair

async def main():
    home = Path(sys.argv[1])
    ours, theirs = memory_pair()
    agent = build_agent(AgentSettings(sys.argv[2], store=home / "s.db", rules_file=home / "r.json"))
    serving = asyncio.create_task(agent.serve(theirs))
    async with connect(ours) as remote:
        session = await remote.new_session(home)
        await session.prompt("hello")
        print(session.state.text)
        heavy = ("pydantic", "pydantic_ai", "anthropic", "openai", "google.genai", "genai_prices", "mcp", "requests")
        print(*[name for name in heavy if name in sys.modules])
    await serving

asyncio.run(main())
"""


@EACH_WIRE
async def test_a_turn_loads_no_package_of_a_provider(wire: Wire, tmp_path: Path) -> None:
    with ProviderServer(Answer((Speech(("hello ", "you")),))) as server:
        ended = await asyncio.to_thread(
            command, "-c", TURN, str(tmp_path), wire.model, home=tmp_path, **wire.variables(server.url)
        )
    assert ended.returncode == 0, ended.stderr
    text, loaded = ended.stdout.split("\n")[:2]
    assert text == "hello you"
    assert loaded == ""
    assert "pydantic_ai" in sys.modules, "the packages are installed: it is no accident of this environment"
