"""Who may enter a served host, what each token may do and how much: each test fails on a server that does not check."""

from __future__ import annotations

import asyncio
import base64
import gzip
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from dragoman.errors import ConfigError, ConnectionClosed
from dragoman.host.serving.limits import ServeLimits
from dragoman.host.serving.server import ServeOptions
from dragoman.rpc import Transport
from dragoman.transports.remote.connect import connect_url
from tests.host.kit import OURS, Client
from tests.host.serving.kit import FREELY, SECONDS, Served, served
from tests.host.test_sessions import Steps
from tests.transports.remote_kit import INITIALIZE, Http

PAGE = "https://agents.example"
KEY = base64.b64encode(b"0123456789abcdef").decode()


class Raw(Http):
    """Requests with the token of a served host."""

    def __init__(self, host: Served) -> None:
        super().__init__(host.port)
        self._secret = host.secret

    def request(self, method: str, body: bytes = b"", *, path: str = "/acp", **headers: str) -> bytes:
        return super().request(method, body, path=path, **{"authorization": f"Bearer {self._secret}", **headers})

    async def upgrade(self, *, path: str = "/acp", **headers: str) -> tuple[int, dict[str, str], bytes]:
        return await self.ask("GET", b"", path=path, **{**UPGRADE, **headers})


UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": KEY,
    "content_type": "",
    "content_length": "",
}


@asynccontextmanager
async def client(
    host: Served, token: str, scheme: str = "ws", path: str = "/acp", capabilities: dict[str, Any] | None = None
) -> AsyncIterator[Client]:
    """A client with a token, after its `initialize`."""
    transport = await connect_url(f"{scheme}://127.0.0.1:{host.port}{path}", token=token)
    line = Client(transport)
    await line.hello(capabilities)
    try:
        yield line
    finally:
        transport.close()
        await transport.wait_closed()


async def gone(transport: Transport, line: Client) -> ConnectionClosed:
    async with asyncio.timeout(SECONDS):
        return await line.ended


# Tokens


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic dXNlcjpwYXNz", "Bearer", "Bearer  "])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "upgrade", "/metrics", "/ticket"])
async def test_without_a_valid_token_nothing_is_served(method: str, authorization: str, tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        raw = Raw(host)
        if method == "upgrade":
            status, headers, _ = await raw.upgrade(authorization=authorization)
        elif method.startswith("/"):
            verb = "GET" if method == "/metrics" else "POST"
            status, headers, _ = await raw.ask(verb, path=method, authorization=authorization)
        else:
            status, headers, _ = await raw.ask(method, INITIALIZE, authorization=authorization)
        assert status == 401
        assert headers["www-authenticate"].startswith("Bearer")
        assert host.metrics.value("dragoman_connections_total") == 0
        assert host.metrics.value("dragoman_refusals_total", status="401") == 1


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_token_that_is_revoked_ends_its_open_connections_and_enters_no_more(
    scheme: str, tmp_path: Path
) -> None:
    async with served(Steps(), tmp_path) as host:
        other = host.add("phone", user="tests")
        async with client(host, other, scheme) as line, client(host, host.secret, scheme) as stays:
            host.tokens.revoke("phone")
            await gone(line.transport, line)
            assert await stays.result("session/list") == {"sessions": []}
        status, _, _ = await Raw(host).ask("POST", INITIALIZE, authorization=f"Bearer {other}")
        assert status == 401


async def test_a_token_of_the_same_name_made_again_does_not_keep_old_connections(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        old = host.add("phone")
        async with client(host, old) as line:
            host.tokens.revoke("phone")
            host.add("phone")
            await gone(line.transport, line)


async def test_a_token_file_that_is_broken_lets_no_client_in_and_the_server_lives(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        kept = host.tokens.path.read_bytes()
        host.tokens.path.write_text("{")
        assert (await Raw(host).ask("POST", INITIALIZE))[0] == 401
        host.tokens.path.write_bytes(kept)
        os.utime(host.tokens.path, ns=(1, 1))
        assert (await Raw(host).ask("POST", INITIALIZE))[0] == 200


async def test_rights_say_what_a_token_may_do(tmp_path: Path) -> None:
    steps = Steps()
    async with served(steps, tmp_path) as host:
        viewer = host.add("screen", user="tests", rights=("view",))
        async with client(host, host.secret) as owner, client(host, viewer, capabilities=OURS) as line:
            session = await owner.open(str(tmp_path))
            await line.result("session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            for method, params in (
                ("session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}),
                ("session/set_mode", {"modeId": "x"}),
                ("session/delete", {}),
            ):
                error = await line.error(method, sessionId=session, **params)
                assert error["data"] == {"reason": "forbidden"}, method
            assert (await line.error("session/new", cwd=str(tmp_path), mcpServers=[]))["data"]["reason"] == "forbidden"
            request = owner.prompt(session, "ask")
            while "id" not in (asked := await owner.next()):
                pass
            option = asked["params"]["options"][0]["optionId"]
            owner.send(owner.result_of(asked, {"outcome": {"outcome": "selected", "optionId": option}}))
            await owner.answer_to(request)
            seen = []
            while (message := await line.next()).get("method") != "_dragoman/turn_ended":
                seen.append(message)
            assert all("id" not in message for message in seen), "a viewer is not asked"
        assert steps.prompts == ["ask"]


async def test_a_token_works_in_its_folders_only(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine-too").mkdir()
    os.symlink("/", tmp_path / "mine" / "root")
    async with served(Steps(), tmp_path) as host:
        token = host.add("ci", folders=(str(tmp_path / "mine"),))
        async with client(host, token) as line:
            await line.open(str(tmp_path / "mine"))
            for folder in ("/", str(tmp_path), str(tmp_path / "mine-too"), str(tmp_path / "mine" / "root" / "etc")):
                error = await line.error("session/new", cwd=folder, mcpServers=[])
                assert error["code"] == -32602, folder
            error = await line.error(
                "session/new", cwd=str(tmp_path / "mine"), mcpServers=[], additionalDirectories=["/etc"]
            )
            assert error["code"] == -32602


async def test_programs_as_mcp_servers_are_refused_unless_the_token_allows_them(tmp_path: Path) -> None:
    server = {"name": "shell", "command": "/bin/sh", "args": [], "env": []}
    async with served(Steps(), tmp_path) as host:
        trusted = host.add("trusted", may_start_programs=True)
        async with client(host, host.secret) as line:
            error = await line.error("session/new", cwd=str(tmp_path), mcpServers=[server])
            assert error["code"] == -32602
            assert "is a program" in error["message"]
        async with client(host, trusted) as line:
            await line.result("session/new", cwd=str(tmp_path), mcpServers=[server])


# Ids of others


async def test_connections_of_another_token_are_unknown(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        raw, id = Raw(host), await Raw(host).initialize()
        same_user = host.add("phone", user="tests")
        body = b'{"jsonrpc":"2.0","id":2,"method":"session/list"}'
        for token in (host.add("eve"), same_user):
            foreign = {"authorization": f"Bearer {token}", "acp_connection_id": id}
            for method in ("POST", "GET", "DELETE"):
                assert (await raw.ask(method, body if method == "POST" else b"", **foreign))[0] == 404
        assert (await raw.ask("POST", body, acp_connection_id=id))[0] == 202


async def test_sessions_of_another_user_do_not_exist(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        eve = host.add("eve")
        async with client(host, host.secret) as owner, client(host, eve) as line:
            session = await owner.open(str(tmp_path))
            for id in (session, "a" * 26):
                for method in ("session/load", "session/resume"):
                    error = await line.error(method, sessionId=id, cwd=str(tmp_path), mcpServers=[])
                    assert error["code"] == -32002
                error = await line.error("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "x"}])
                assert error["code"] == -32002
                assert await line.result("session/delete", sessionId=id) == {}
            assert await line.result("session/list") == {"sessions": []}
            assert len((await owner.result("session/list"))["sessions"]) == 1
            raw = Raw(host)
            own = await raw.initialize(authorization=f"Bearer {eve}")
            answers = [
                await raw.ask("GET", authorization=f"Bearer {eve}", acp_connection_id=own, acp_session_id=id)
                for id in (session, "a" * 26)
            ]
            assert [status for status, _, _ in answers] == [404, 404]
            assert answers[0][2] == answers[1][2], "foreign and missing are the same"


async def test_an_unknown_session_over_http_is_an_error_and_the_connection_lives(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host, client(host, host.secret, "http") as line:
        error = await line.error("session/load", sessionId="nothing", cwd=str(tmp_path), mcpServers=[])
        assert error["code"] == -32002
        session = await line.open(str(tmp_path))
        _, answer = await line.turn(session)
        assert answer["result"] == {"stopReason": "end_turn"}


async def test_tokens_of_one_user_see_the_same_sessions(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        phone = host.add("phone", user="tests")
        async with client(host, host.secret) as one, client(host, phone) as other:
            session = await one.open(str(tmp_path))
            assert [each["sessionId"] for each in (await other.result("session/list"))["sessions"]] == [session]


# Pages in a browser


async def buy(raw: Raw, **headers: str) -> tuple[int, str]:
    status, _, body = await raw.ask("POST", b"", path="/ticket", **headers)
    return status, body.decode().partition('"ticket":"')[2].partition('"')[0]


async def test_a_page_enters_once_with_a_ticket_and_the_answer_does_not_repeat_it(tmp_path: Path) -> None:
    options = ServeOptions(origins=(PAGE,), limits=FREELY)
    async with served(Steps(), tmp_path, options=options) as host:
        raw = Raw(host)
        status, ticket = await buy(raw, origin=PAGE)
        assert status == 200
        offer = {"sec_websocket_protocol": f"acp.v1, acp.ticket.{ticket}", "authorization": "", "origin": PAGE}
        status, headers, _ = await raw.upgrade(**offer)
        assert status == 101
        assert headers["sec-websocket-protocol"] == "acp.v1"
        assert ticket not in str(headers)
        assert (await raw.upgrade(**offer))[0] == 401, "it was used"
        _, ticket = await buy(raw, origin=PAGE)
        path = f"/acp?ticket={ticket}"
        assert (await raw.upgrade(path=path, authorization="", origin=PAGE))[0] == 401, "never by the URL"
        assert (await raw.upgrade(**{**offer, "origin": "https://evil.example"}))[0] == 403


async def test_a_ticket_of_a_revoked_token_or_another_origin_is_worthless(tmp_path: Path) -> None:
    options = ServeOptions(origins=(PAGE, "https://other.example"), limits=FREELY)
    async with served(Steps(), tmp_path, options=options) as host:
        raw = Raw(host)
        _, ticket = await buy(raw, origin=PAGE)
        offer = {"sec_websocket_protocol": f"acp.ticket.{ticket}, acp.v1", "authorization": ""}
        assert (await raw.upgrade(**offer, origin="https://other.example"))[0] == 401
        _, ticket = await buy(raw, origin=PAGE)
        host.tokens.revoke("tests")
        offer["sec_websocket_protocol"] = f"acp.v1, acp.ticket.{ticket}"
        assert (await raw.upgrade(**offer, origin=PAGE))[0] == 401


@pytest.mark.parametrize("path", ["/acp", "/ticket", "/metrics", "/healthz"])
async def test_other_hosts_and_pages_are_refused_on_every_path_before_the_token(path: str, tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        raw = Raw(host)
        for headers in ({"host": "evil.example"}, {"host": "127.0.0.1:1"}, {"origin": "https://evil.example"}):
            for method in ("POST", "GET"):
                status, _, _ = await raw.ask(method, b"", path=path, authorization="", **headers)
                assert status == 403, (path, headers, method)
            assert (await raw.upgrade(path=path, authorization="", **headers))[0] == 403


# Tricks


async def test_two_lengths_two_hosts_and_odd_upgrades_are_refused(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        raw = Raw(host)
        smuggled = raw.request("POST", b"0\r\n\r\nGET /acp HTTP/1.1\r\n\r\n", transfer_encoding="chunked")
        status, _, rest = await raw.send(smuggled, until_end=True)
        assert (status, rest.count(b"HTTP/1.1")) == (400, 0), "the rest is not read as a second request"
        twice = raw.request("POST", INITIALIZE).replace(b"\r\n\r\n", b"\r\nhost: evil.example\r\n\r\n", 1)
        assert (await raw.send(twice))[0] == 400
        assert (await raw.ask("GET", path="http://evil.example/acp"))[0] == 400
        head = await raw.send(raw.request("HEAD"), until_end=True)
        assert (head[0], head[2]) == (405, b"")
        posted = raw.request("POST", INITIALIZE, **{**UPGRADE, "content_type": "application/json"})
        assert (await raw.send(posted))[0] == 405
        assert (await raw.upgrade(content_length="5"))[0] == 400
        assert (await raw.upgrade(upgrade="h2c"))[0] == 426
        assert (await raw.ask("POST", INITIALIZE, path="/acp/../metrics"))[0] in (400, 404)
        assert await raw.initialize(), "the server lives"


async def test_nothing_is_decompressed(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        raw = Raw(host)
        bomb = gzip.compress(b" " * 10_000_000)
        assert (await raw.ask("POST", bomb, content_encoding="gzip"))[0] == 415
        status, headers, _ = await raw.upgrade(sec_websocket_extensions="permessage-deflate")
        assert status == 101
        assert "sec-websocket-extensions" not in headers
        reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
        writer.write(raw.request("GET", b"", **UPGRADE))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\xc1\x85\0\0\0\0hello")  # RSV1: compressed
        async with asyncio.timeout(SECONDS):
            frame = await reader.read()
        assert frame[:1] == b"\x88"
        assert int.from_bytes(frame[2:4], "big") == 1002
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("bomb", [b"[" * 1_000_000, b"[[]" + b",[]" * 4_000_000 + b"]", b'{"a":' * 200_000])
async def test_json_that_is_meant_to_hurt_is_refused_within_a_second(bomb: bytes, tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host, client(host, host.secret) as line:
        began = process_time()
        status, _, _ = await Raw(host).ask("POST", bomb)
        assert status == 400
        assert process_time() - began < 1.0
        began = process_time()
        line.send(b'{"jsonrpc":"2.0","id":99,"method":"session/list","params":' + bomb + b"}\n")
        message = await line.next()
        assert message["error"]["code"] in (-32700, -32600)
        assert process_time() - began < 1.0


# Deadlines and limits


async def test_a_socket_that_never_initializes_is_closed(tmp_path: Path) -> None:
    limits = ServeLimits(requests_per_second=1e6, connections_per_minute=1e6, initialize_seconds=0.2)
    async with served(Steps(), tmp_path, limits=limits) as host:
        transport = await connect_url(f"ws://127.0.0.1:{host.port}/acp", token=host.secret)
        line = Client(transport)
        assert "1008" in str(await gone(transport, line))
        transport.close()
        await transport.wait_closed()


async def test_a_connection_over_http_that_is_not_used_ends(tmp_path: Path) -> None:
    limits = ServeLimits(requests_per_second=1e6, connections_per_minute=1e6, idle_seconds=0.2)
    async with served(Steps(), tmp_path, limits=limits) as host:
        raw = Raw(host)
        id = await raw.initialize()
        async with asyncio.timeout(SECONDS):
            while (await raw.ask("DELETE", acp_connection_id=id))[0] != 404:
                id = await raw.initialize()
                await asyncio.sleep(0.4)


# Addresses


@pytest.mark.parametrize(
    ("address", "options", "why"),
    [
        ("0.0.0.0:0", ServeOptions(), "--tls-cert"),
        ("[::]:0", ServeOptions(hosts=("agents.example",)), "--tls-cert"),
        ("0.0.0.0:0", ServeOptions(is_behind_proxy=True), "--host"),
        ("127.0.0.1:70000", ServeOptions(), "not an address"),
        ("nowhere", ServeOptions(), "not an address"),
    ],
)
async def test_an_address_that_others_reach_needs_tls_and_a_name(
    address: str, options: ServeOptions, why: str, tmp_path: Path
) -> None:
    async with served(Steps(), tmp_path, options=options) as host:
        with pytest.raises(ConfigError, match=why):
            await host.server.listen(address)


async def test_behind_a_proxy_the_name_of_the_proxy_counts(tmp_path: Path) -> None:
    options = ServeOptions(is_behind_proxy=True, hosts=("agents.example",), limits=FREELY)
    async with served(Steps(), tmp_path, options=options) as host:
        raw = Raw(host)
        assert await raw.initialize(host="agents.example")
        assert await raw.initialize(host=f"agents.example:{host.port}")
        assert (await raw.ask("POST", INITIALIZE, host="agents.example.evil"))[0] == 403


async def test_a_unix_socket_takes_no_token_and_is_for_its_user(tmp_path: Path) -> None:
    from dragoman.transports.unix import connect_unix

    async with served(Steps(), tmp_path) as host:
        endpoint = await host.server.listen(f"unix:{tmp_path}/s")
        assert os.stat(tmp_path / "s").st_mode & 0o777 == 0o600
        line = Client(await connect_unix(endpoint.address))
        await line.hello()
        session = await line.open(str(tmp_path))
        _, answer = await line.turn(session)
        assert answer["result"] == {"stopReason": "end_turn"}
        line.transport.close()
        await line.transport.wait_closed()


async def test_an_address_binds_a_connection_to_an_agent(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        async with client(host, host.secret, path="/acp/test") as line:
            session = await line.open(str(tmp_path), _meta={"dragoman": {"agent": "other"}})
            assert session
        with pytest.raises(ConnectionClosed, match="404"):
            await connect_url(f"ws://127.0.0.1:{host.port}/acp/other", token=host.secret)
        assert (await Raw(host).ask("POST", INITIALIZE, path="/acp/other", authorization=""))[0] == 401


def test_the_kinds_of_a_raw_request_are_right() -> None:
    """The tests above would pass on any server if their right requests were wrong."""
    raw: Any = Http(1)
    assert raw.request("GET", b"", **UPGRADE).count(b"\r\n\r\n") == 1
