"""Logins to MCP servers with OAuth: against an authorisation server of the official package, as a process."""

import asyncio
import json
import os
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from msgspec.structs import replace

from dragoman.builtin.mcp.config import OAuthSpec, ServerSpec
from dragoman.builtin.mcp.connection import PackageConnection
from dragoman.builtin.mcp.login import BrowserLogin, listening, read_redirect, redirect_ports
from dragoman.builtin.mcp.oauth import auth_for, refused_address
from dragoman.builtin.mcp.server import McpConnectionLost, McpLoginNeeded, Waits
from dragoman.builtin.mcp.token_store import TokenStore
from tests.builtin.mcp.fixtures import HERE, connected
from tests.warm_programs import mcp_package

SECONDS = 30.0


class Locked:
    """A server that wants a login, and the file of logins of one user."""

    def __init__(self, port: int, folder: Path) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.spec = ServerSpec("locked", url=f"{self.base}/mcp", is_configured=True)
        self.tokens = TokenStore(folder / "config")
        self.pages: list[str] = []
        self.complaints: list[str] = []
        self.pasted: asyncio.Queue[str] = asyncio.Queue()

    async def control(self, **wanted: bool) -> dict[str, int]:
        async with httpx2.AsyncClient() as client:
            answer: dict[str, int] = (await client.post(f"{self.base}/control", json=wanted)).json()
        return answer

    async def follow(self, url: str) -> str:
        """Do what a browser and its user do: open the page, agree, and return where it leads."""
        self.pages.append(url)
        async with httpx2.AsyncClient() as client:
            answer = await client.get(url)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    async def browse(self, url: str) -> None:
        """Open the page, and follow its redirect to this machine."""
        where = await self.follow(url)
        async with httpx2.AsyncClient() as client:
            answer = await client.get(where)
        assert "You are logged in" in answer.text

    @asynccontextmanager
    async def user(
        self, show: Callable[[str], Awaitable[None]], *, can_paste: bool = False
    ) -> AsyncIterator[BrowserLogin]:
        ports = redirect_ports(0, self.tokens.get(self.spec.url).redirect_uri)
        reader = self.pasted.get if can_paste else None
        async with listening(ports, show, self.complaints.append, reader, seconds=SECONDS) as login:
            yield login

    async def use(self, spec: ServerSpec | None = None, user: BrowserLogin | None = None) -> str:
        """Connect in a new process's place, call the tool, and return its answer."""
        spec = spec or self.spec
        async with (
            asyncio.timeout(SECONDS),
            PackageConnection(spec, "/", lambda: None, auth=auth_for(spec, self.tokens, user)) as connection,
        ):
            return (await connection.call("open", {}, {})).text
        raise AssertionError(connection.lost)

    async def log_in(self) -> None:
        async with self.user(self.browse) as login:
            assert await self.use(user=login) == "opened"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """One server for all tests, because it takes a second to start."""
    process = subprocess.Popen(mcp_package().command(str(HERE / "login_server.py")), stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def server(port: int, tmp_path: Path) -> Locked:
    locked = Locked(port, tmp_path)
    httpx2.post(f"{locked.base}/control", json={"reset": True})
    return locked


async def test_a_login_by_redirect_is_kept_and_a_restart_refreshes_it_without_a_browser(server: Locked) -> None:
    with pytest.raises(McpLoginNeeded, match="log in with: dragoman mcp login locked"):
        await server.use()
    assert await server.control() == {"register": 0, "authorize": 0, "code": 0, "refresh": 0}
    await server.log_in()
    assert await server.control() == {"register": 1, "authorize": 1, "code": 1, "refresh": 0}
    path = server.tokens.path
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    stored = server.tokens.get(server.spec.url)
    assert stored.issuer.rstrip("/") == server.base
    assert stored.server["token_endpoint"] == f"{server.base}/token"  # a new process finds it only here
    assert stored.expires_at is not None
    assert 3500 < stored.expires_at - time.time() <= 3600
    # Valid tokens are used as they are.
    assert await server.use() == "opened"
    assert (await server.control())["refresh"] == 0
    # Expired ones are refreshed by a new process, and no page is shown.
    await server.control(expire=True)
    server.tokens.change(server.spec.url, expires_at=time.time() - 10)
    assert await server.use() == "opened"
    assert await server.control() == {"register": 1, "authorize": 1, "code": 1, "refresh": 1}
    assert server.tokens.get(server.spec.url).tokens != stored.tokens


async def test_a_refusal_in_mid_session_is_answered_by_a_refresh(server: Locked) -> None:
    await server.log_in()
    auth = auth_for(server.spec, server.tokens)
    async with PackageConnection(server.spec, "/", lambda: None, auth=auth) as connection:
        await connection.call("open", {}, {})
        await server.control(expire=True)  # the server forgets the token before its time
        assert (await connection.call("open", {}, {})).text == "opened"
    assert (await server.control())["refresh"] == 1


async def test_a_login_that_ends_in_mid_session_fails_the_call_in_words(server: Locked) -> None:
    await server.log_in()
    auth = auth_for(server.spec, server.tokens)
    async with asyncio.timeout(SECONDS):
        async with PackageConnection(server.spec, "/", lambda: None, auth=auth) as connection:
            await connection.call("open", {}, {})
            await server.control(expire=True, revoke=True)
            with pytest.raises(McpConnectionLost, match="log in again with: dragoman mcp login locked"):
                await connection.call("open", {}, {})


async def test_two_processes_that_refresh_at_once_use_one_new_token(server: Locked) -> None:
    await server.log_in()
    await server.control(expire=True)
    server.tokens.change(server.spec.url, expires_at=time.time() - 10)
    assert await asyncio.gather(*(server.use() for _ in range(4))) == ["opened"] * 4
    assert (await server.control())["refresh"] == 1


async def test_a_revoked_login_says_to_log_in_again_and_a_failing_issuer_does_not_lose_it(server: Locked) -> None:
    await server.log_in()
    await server.control(expire=True, fail=True)
    with pytest.raises(McpConnectionLost, match=r"cannot be refreshed: 127\.0\.0\.1 answered with HTTP 503"):
        await server.use()
    assert server.tokens.get(server.spec.url).tokens["refresh_token"]
    await server.control(expire=True, revoke=True)
    with pytest.raises(McpLoginNeeded, match="revoked or has expired; log in again with: dragoman mcp login locked"):
        await server.use()
    assert server.tokens.get(server.spec.url).tokens == {}
    await server.log_in()
    assert (await server.control())["register"] == 1  # the same port, so the same client


async def test_a_pasted_address_logs_in_and_a_wrong_one_is_explained(server: Locked) -> None:

    async def show(url: str) -> None:
        where = await server.follow(url)
        wrong = where.replace("state=", "state=not-")
        for line in ("hello\n", "\n", f"{wrong}\n", f"  '{where}'\n"):
            server.pasted.put_nowait(line)

    async with server.user(show, can_paste=True) as login:
        assert await server.use(user=login) == "opened"
    assert [text.partition(";")[0] for text in server.complaints] == [
        "this is not the address after the login",
        "this address belongs to another login",
    ]


async def test_another_port_registers_another_client(server: Locked) -> None:
    await server.log_in()
    used = urlsplit(server.tokens.get(server.spec.url).redirect_uri).port
    assert used is not None
    blocker = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", used)
    server.tokens.change(server.spec.url, tokens={})
    async with blocker:
        await server.log_in()
    assert (await server.control())["register"] == 2
    assert urlsplit(server.tokens.get(server.spec.url).redirect_uri).port != used


async def test_a_login_that_is_refused_or_takes_too_long_is_an_error(server: Locked) -> None:
    answers: list[int] = []

    async def refuse(url: str) -> None:
        where = (await server.follow(url)).partition("?")
        state = where[2].partition("state=")[2].partition("&")[0]
        async with httpx2.AsyncClient() as client:
            for query in ("code=x&state=other", f"error=access_denied%1b%5b31m&state={state}"):
                answers.append((await client.get(f"{where[0]}?{query}")).status_code)
            answers.append((await client.get(where[0].replace("callback", "else"))).status_code)

    async with server.user(refuse) as login:
        with pytest.raises(McpConnectionLost, match=r"the login was refused: access_denied[^\x1b]*; try again"):
            await server.use(user=login)
    assert answers == [400, 200, 404]

    async def nothing(url: str) -> None:
        return

    async with listening((0,), nothing, print, seconds=0.1) as login:
        with pytest.raises(McpConnectionLost, match=r"not finished within 0\.1 s"):
            await server.use(user=login)
    assert server.tokens.get(server.spec.url).tokens == {}


async def test_a_session_without_a_user_names_the_command_and_uses_a_login_made_later(
    server: Locked, tmp_path: Path
) -> None:
    entry = {"type": "http", "url": server.spec.url}
    waits = Waits(again_seconds=(0.0,))
    folder = server.tokens.path.parent
    async with connected(tmp_path, configured={"locked": entry}, waits=waits, config_dir=folder) as session:
        [(title, why)] = session.notices
        assert title == "MCP server locked is not available"
        assert "dragoman mcp login locked" in why
        assert session.tools == {}
        await server.log_in()
        await session.servers.ready()
        assert (await session.call("locked_open")).text == "opened"


async def test_the_clients_own_id_and_scopes_are_used_and_its_secret_is_not_shown(
    server: Locked, caplog: pytest.LogCaptureFixture
) -> None:
    own = OAuthSpec("preset", "preset-secret", scopes=("use", "more"))
    spec = replace(server.spec, oauth=own)
    with caplog.at_level("DEBUG"):
        async with server.user(server.browse) as login:
            # The client was registered with one port, and this server checks it.
            with pytest.raises((McpConnectionLost, AssertionError)):
                await server.use(spec, login)
    assert (await server.control())["register"] == 0
    [page] = server.pages
    assert "client_id=preset" in page
    assert "scope=use+more" in page
    assert "preset-secret" not in caplog.text + page


async def test_client_credentials_need_no_user_and_nothing_is_stored(server: Locked) -> None:
    own = OAuthSpec("preset", "preset-secret", issuer=server.base, uses_client_credentials=True)
    assert await server.use(replace(server.spec, oauth=own)) == "opened"
    wrong = replace(own, client_secret="another-secret")
    with pytest.raises(McpConnectionLost, match="the login failed: Token exchange failed"):
        await server.use(replace(server.spec, oauth=wrong))
    elsewhere = replace(own, issuer="https://issuer.example")
    with pytest.raises(McpConnectionLost, match="the login failed"):
        await server.use(replace(server.spec, oauth=elsewhere))
    assert not server.tokens.path.exists()


def test_stored_logins_are_strict_about_their_file(tmp_path: Path) -> None:
    from dragoman.errors import ConfigError

    store = TokenStore(tmp_path)
    store.change("https://a/mcp", tokens={"access_token": "secret-1", "refresh_token": "r"}, expires_at=0.0)
    assert store.get("https://a/mcp").state == "logged in, to be refreshed"
    assert store.get("https://b/mcp").state == "logged out"
    assert not store.forget_tokens("https://a/mcp", "another")
    assert store.forget_tokens("https://a/mcp", "r")
    assert store.remove("https://a/mcp")
    assert not store.remove("https://a/mcp")
    for value in ({"version": 9}, {"version": 1, "logins": {"u": {"tokens": "secret-2"}}}):
        store.path.write_text(json.dumps(value))
        with pytest.raises(ConfigError) as failure:
            store.get("u")
        assert "secret" not in str(failure.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://127.0.0.1:1/callback?code=c&state=s&iss=http%3A%2F%2Fi", ("c", "s", "http://i", "")),
        (" <http://h/callback?state=s&error=access_denied> ", ("", "s", "", "access_denied")),
        ("code=c&state=s", ("c", "s", "", "")),
        ("c", None),
        ("http://h/callback", None),
        ("http://[broken?code=c", None),
    ],
)
def test_redirects_are_read_from_what_people_paste(text: str, found: Any) -> None:
    read = read_redirect(text)
    assert (None if read is None else (read.code, read.state, read.issuer, read.error)) == found


@pytest.mark.parametrize(
    ("server", "url", "is_sent"),
    [
        ("https://mcp.example/mcp", "https://login.example/token", True),
        ("https://mcp.example/mcp", "https://mcp.example/.well-known/x", True),
        ("https://mcp.example/mcp", "http://login.example/token", False),
        ("https://mcp.example/mcp", "http://169.254.169.254/latest", False),
        ("https://mcp.example/mcp", "https://127.0.0.1:6379/", False),
        ("https://mcp.example/mcp", "https://[::1]/", False),
        ("https://mcp.example/mcp", "https://[::ffff:10.0.0.1]/", False),
        ("https://mcp.example/mcp", "https://192.168.1.1/", False),
        ("https://mcp.example/mcp", "https://localhost/register", False),
        ("http://mcp.example/mcp", "http://mcp.example/token", True),
        ("http://127.0.0.1:80/mcp", "http://127.0.0.1:81/token", True),
        ("http://localhost/mcp", "https://login.example/token", True),
        ("http://10.0.0.5/mcp", "http://10.0.0.6/token", True),
    ],
)
def test_a_server_of_the_network_does_not_choose_what_is_reached_here(server: str, url: str, is_sent: bool) -> None:
    assert (refused_address(server, url) == "") is is_sent


async def test_a_login_that_leads_to_this_machine_sends_nothing_there(tmp_path: Path) -> None:
    sent: list[str] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(str(request.url))
        if request.url.path == "/mcp":
            named = 'Bearer resource_metadata="http://169.254.169.254/latest/meta-data"'
            return httpx2.Response(401, headers={"WWW-Authenticate": named})
        return httpx2.Response(404)

    locked = Locked(1, tmp_path)
    spec = replace(locked.spec, url="https://mcp.example/mcp")
    async with locked.user(locked.browse) as login:
        auth = auth_for(spec, locked.tokens, login)
        async with httpx2.AsyncClient(auth=auth, transport=httpx2.MockTransport(answer)) as client:
            with pytest.raises(McpConnectionLost, match="not https; nothing was sent there"):
                await client.post(spec.url)
    assert all(url.startswith("https://mcp.example/") for url in sent)


def test_the_ports_of_a_redirect() -> None:
    assert redirect_ports(0, "") == (0,)
    assert redirect_ports(0, "http://127.0.0.1:5000/callback") == (5000, 0)
    assert redirect_ports(7000, "http://127.0.0.1:5000/callback") == (7000,)
