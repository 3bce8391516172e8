"""TLS on our own server: the client trusts whom it is told to trust, and everything else is as without it."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import pytest

import dragoman
from dragoman.agent import Agent, Turn
from dragoman.client import Session
from dragoman.errors import ConfigError, ConnectionClosed
from dragoman.schema import v1
from dragoman.transports.remote.server import ServerLimits
from tests.transports.certificates import Certificates
from tests.transports.remote_kit import TOKEN, CutProxy, Http, Serving, remote_server
from tests.transports.test_remote_wire import make_agent

both = pytest.mark.parametrize("scheme", ["https", "wss"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


async def allow(request: v1.RequestPermissionRequest, session: Session) -> str:
    return "yes"


@both
async def test_turns_questions_and_loads_go_over_tls(certificates: Certificates, scheme: str) -> None:
    serving = Serving(make_agent())
    async with remote_server(serving, tls=certificates.server()) as (_, port):
        url = f"{scheme}://127.0.0.1:{port}/acp"
        async with dragoman.connect(url, token=TOKEN, tls=certificates.authority, permission=allow) as remote:
            session = await remote.new_session("/tmp")
            await session.prompt("ask")
            assert session.state.text == "hello"
            loaded = await remote.load_session("old", "/tmp")
            assert loaded.state.messages[-1].text.split() == [str(number) for number in range(500)]
    await serving.over()


@both
async def test_an_agent_serves_an_address_with_a_certificate(certificates: Certificates, scheme: str) -> None:
    urls: asyncio.Queue[str] = asyncio.Queue()
    serving = asyncio.create_task(
        make_agent().serve("127.0.0.1:0", token=TOKEN, tls=certificates.server(), on_listening=urls.put_nowait)
    )
    url = (await urls.get()).replace("https", scheme, 1)
    context = ssl.create_default_context(cafile=certificates.authority)
    async with dragoman.connect(url, token=TOKEN, tls=context) as remote:
        assert (await remote.new_session("/tmp")).id
    serving.cancel()
    await asyncio.wait([serving])


@both
async def test_a_certificate_of_an_unknown_authority_is_refused(certificates: Certificates, scheme: str) -> None:
    serving = Serving(make_agent())
    async with remote_server(serving, tls=certificates.server()) as (_, port):
        with pytest.raises(ConnectionClosed, match="certificate verify failed"):
            async with dragoman.connect(f"{scheme}://127.0.0.1:{port}/acp", token=TOKEN):
                raise AssertionError("it was trusted")
        assert serving.opened == []
    await serving.over()


@both
async def test_a_certificate_of_another_name_is_refused(certificates: Certificates, scheme: str) -> None:
    serving = Serving(make_agent())
    async with remote_server(serving, tls=certificates.server()) as (_, port):
        with pytest.raises(ConnectionClosed, match="certificate verify failed"):
            async with dragoman.connect(f"{scheme}://localhost:{port}/acp", token=TOKEN, tls=certificates.authority):
                raise AssertionError("it was trusted")


@both
async def test_a_file_without_a_certificate_is_reported(tmp_path: Path, scheme: str) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for file in (empty, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=r"does not hold the certificate of an authority"):
            async with dragoman.connect(f"{scheme}://127.0.0.1:9/acp", token=TOKEN, tls=str(file)):
                raise AssertionError("it was connected")


@pytest.mark.parametrize("user", ["name", "name:secret-word", ":secret-word"])
async def test_an_address_with_a_user_name_or_password_is_refused_and_not_repeated(user: str) -> None:
    with pytest.raises(ConfigError, match="must not hold a user name or a password") as refused:
        async with dragoman.connect(f"wss://{user}@127.0.0.1:1/acp"):
            pass
    assert "secret-word" not in str(refused.value)


async def test_a_client_without_tls_and_a_silent_one_are_closed(certificates: Certificates) -> None:
    limits = ServerLimits(header_seconds=2.0)  # also for the client that does everything right
    serving = Serving(make_agent())
    async with remote_server(serving, tls=certificates.server(), limits=limits) as (_, port):
        http = Http(port)
        for said in (http.request("POST", b"{"), b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            async with asyncio.timeout(60):
                while await reader.read(4096):
                    pass
            writer.close()
        url = f"wss://127.0.0.1:{port}/acp"
        async with dragoman.connect(url, token=TOKEN, tls=certificates.authority) as remote:  # the server lives
            await remote.new_session("/tmp")
    await serving.over()


async def test_a_stream_over_tls_survives_cuts(certificates: Certificates) -> None:
    agent = Agent("test")
    step = asyncio.Semaphore(0)

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for number in range(100):
            await turn.say(f"{number} ")
            if number % 5 == 0:
                await step.acquire()

    serving = Serving(agent)
    dice = random.Random(5)
    async with remote_server(serving, tls=certificates.server()) as (server, port), CutProxy(server, port) as proxy:
        url = f"https://127.0.0.1:{proxy.port}/acp"
        async with dragoman.connect(url, token=TOKEN, tls=certificates.authority) as remote:
            session = await remote.new_session("/tmp")
            turn = asyncio.ensure_future(_go(session))
            for _ in range(20):
                step.release()
                await asyncio.sleep(dice.uniform(0, 0.02))
                proxy.cut()
            await turn
            assert session.state.text.split() == [str(number) for number in range(100)]
        assert proxy.cuts > 10
    await serving.over()


async def _go(session: Session) -> None:
    await session.prompt("go")
