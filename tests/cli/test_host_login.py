"""Login to a host by a device code: with a provider that is real, and with one that tests play."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl

import httpx
import pytest

from dragoman.cli.exits import AUTH_REQUIRED, CliError
from dragoman.cli.host_login import HostLogin, find_login, log_in, log_out, origin_of, read_offer, store
from dragoman.errors import ConfigError, ConnectionClosed
from dragoman.host.bridge.reasons import LoginNeeded
from tests import machine
from tests.cli.test_serve import DRAGOMAN, SECONDS, Home
from tests.host.serving.oidc_kit import base64url

ROOT = Path(__file__).resolve().parents[2]


# With the provider of panva, as processes


@contextmanager
def real_provider(seconds: int) -> Iterator[str]:
    """Run `oidc-provider`; gives its issuer."""
    if machine.program("node") is None:
        pytest.skip("the provider needs Node.js 20 or newer on the PATH")
    if not (ROOT / "node_modules" / "oidc-provider" / "package.json").exists():
        pytest.skip(f"oidc-provider is not installed: run npm ci in {ROOT}")
    with subprocess.Popen(
        ["node", str(ROOT / "tests" / "interop" / "peers" / "oidc_provider.mjs"), str(seconds)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()  # its end
            process.stdout.read()


class LoginProgram:
    """A `dragoman login` that waits for its user."""

    def __init__(self, home: Home, *words: str) -> None:
        self._process = subprocess.Popen(
            [*DRAGOMAN, *words],
            cwd=home.project,
            env=home.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    def type_code(self, user: str) -> None:
        """Open the address with the code in a browser, as a user."""
        errors: IO[str] | None = self._process.stderr
        assert errors is not None
        found = None
        while found is None:
            line = errors.readline()
            assert line, self.lines
            self.lines.append(line)
            found = re.search(r"http\S+user_code=\S+", line)
        with httpx.Client(follow_redirects=True, cookies={"user": user}, timeout=SECONDS) as browser:
            page = browser.get(found[0]).text
            fields = dict(re.findall(r'name="(xsrf|user_code)" value="([^"]+)"', page))
            done = browser.post(found[0].partition("?")[0], data={**fields, "confirm": "yes"})
            assert "the device is logged in" in done.text

    def result(self) -> tuple[int, str]:
        _, more = self._process.communicate(timeout=SECONDS)
        return self._process.returncode, "".join((*self.lines, more))


def test_users_of_a_real_provider_log_in_work_and_log_out(tmp_path: Path) -> None:
    host, ada, copy, mallory = (Home(tmp_path / name) for name in ("host", "ada", "copy", "mallory"))
    # So short that each command refreshes its login.
    with real_provider(20) as issuer:
        rules = {
            "client_id": "dragoman-cli",
            "rules": [{"is": "ops", "rights": ["view", "prompt", "admin"]}, {"is": "out", "refuse": True}],
            "otherwise": [],
        }
        (tmp_path / "rules.json").write_text(json.dumps(rules))
        words: tuple[str, ...] = (
            "--listen",
            "127.0.0.1:0",
            "-a",
            "scripted",
            "--folder",
            str(tmp_path),
            "--oidc-issuer",
            issuer,
        )
        words += ("--oidc-audience", "urn:dragoman:agents", "--oidc-rules", str(tmp_path / "rules.json"))
        with host.serving(*words) as (_, url):
            assert "dragoman login --url" in ada.run("exec", "--url", url, "hello").err
            logins = {home: LoginProgram(home, "login", "--url", url) for home in (ada, mallory)}
            logins[ada].type_code("ada")
            logins[mallory].type_code("mallory")
            code, shown = logins[mallory].result()
            assert (code, "no rule of this host" in shown) == (AUTH_REQUIRED, True)
            code, shown = logins[ada].result()
            assert code == 0, shown
            file = ada.folder / "dragoman" / "config" / "host-logins.json"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert not (mallory.folder / "dragoman" / "config" / "host-logins.json").exists()
            stored = json.loads(file.read_text())["logins"]
            (tokens,) = (login["tokens"] for login in stored.values())
            done = ada.run("exec", "--url", url, "say hello")
            assert (done.code, "hello" in done.out) == (0, True), done.err
            first = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
            connected = ada.run("connect", url, "--login", stdin=first)  # it has a login, and asks for none
            assert '"protocolVersion":1' in connected.out, connected.err
            users = ada.run("fleet", "users", "--url", url, "--json")
            assert (users.code, "oidc:ada" in users.out) == (0, True), users.err
            refreshed = json.loads(file.read_text())["logins"]
            assert refreshed.keys() == stored.keys()
            assert next(iter(refreshed.values()))["tokens"]["access_token"] != tokens["access_token"]
            assert all(token not in shown + done.err for token in tokens.values() if len(token) > 10)
            kept = copy.folder / "dragoman" / "config" / "host-logins.json"
            kept.parent.mkdir(parents=True)
            kept.write_text(file.read_text())
            assert ada.run("logout", "--url", url).err.strip() == "dragoman: logged out"
            assert json.loads(file.read_text())["logins"] == {}
            assert ada.run("logout", "--url", url).code == 2
            done = copy.run("exec", "--url", url, "hello")  # the provider has revoked what was copied before
            assert (done.code, "log in with: dragoman login --url" in done.err) == (1, True), done.err


# With a provider that tests play


class Played:
    """A host and its provider in one: answers are given by tests, and what was asked is kept."""

    def __init__(self) -> None:
        self.origin = ""
        self.asked: list[tuple[str, dict[str, str], str]] = []
        self.tokens: list[tuple[int, dict[str, Any]]] = []
        self.changed: dict[str, dict[str, Any]] = {}
        self.ticket = (200, b"{}")
        self.is_without_logins = False
        self._server: asyncio.Server

    def documents(self, path: str) -> dict[str, Any] | None:
        named: dict[str, dict[str, Any]] = {
            "/.well-known/oauth-protected-resource/acp": {
                "resource": f"{self.origin}/acp",
                "authorization_servers": [self.origin],
                "dragoman": {
                    "client_id": "cli",
                    "audience": "agents",
                    "parameters": {"audience": "agents", "scope": "x"},
                },
            },
            "/.well-known/openid-configuration": {
                "issuer": self.origin,
                "device_authorization_endpoint": f"{self.origin}/device",
                "token_endpoint": f"{self.origin}/token",
                "revocation_endpoint": f"{self.origin}/revoke",
            },
            "/device": {
                "device_code": "D",
                "user_code": "AB-CD",
                "verification_uri": f"{self.origin}/type",
                "expires_in": 600,
            },
        }
        found = None if self.is_without_logins else named.get(path)
        return None if found is None else {**found, **self.changed.get(path, {})}

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        length = re.search(r"content-length: (\d+)", head)
        form = (await reader.readexactly(int(length[1])) if length else b"").decode()
        sent = re.search(r"authorization: Bearer (\S+)", head)
        self.asked.append((path, dict(parse_qsl(form)), sent[1] if sent else ""))
        if path == "/ticket":
            status, body = self.ticket
        elif path == "/token":
            status, found = self.tokens.pop(0)
            body = json.dumps(found).encode()
        else:
            document = self.documents(path)
            status, body = (404, b"{}") if document is None else (200, json.dumps(document).encode())
            status = 200 if path == "/revoke" else status
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    @classmethod
    @asynccontextmanager
    async def run(cls) -> AsyncIterator[Played]:
        played = cls()
        played._server = await asyncio.start_server(played._answer, "127.0.0.1", 0)
        played.origin = f"http://127.0.0.1:{played._server.sockets[0].getsockname()[1]}"
        try:
            yield played
        finally:
            played._server.close()
            await played._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{self.origin.replace('http', 'ws')}/acp/claude"

    async def log_in(self, **options: Any) -> list[float]:
        """Log in; gives the pauses between the questions."""
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        await log_in(await read_offer(self.url), lambda code: None, sleep=sleep, **options)
        return pauses


def issued(number: int = 1, seconds: float = 3600, aud: str = "agents", **more: Any) -> tuple[int, dict[str, Any]]:
    token = f"e30.{base64url(json.dumps({'aud': aud, 'n': number}).encode())}.sig{number}"
    return 200, {
        "access_token": token,
        "token_type": "bearer",
        "expires_in": seconds,
        "refresh_token": f"r{number}",
        **more,
    }


def wrong(code: str) -> tuple[int, dict[str, Any]]:
    return 400, {"error": code}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "dragoman"))


async def test_provider_is_asked_as_often_as_it_wants() -> None:
    async with Played.run() as played:
        pending = wrong("authorization_pending")
        played.tokens = [pending, wrong("slow_down"), pending, (503, {}), (200, issued()[1])]
        assert await played.log_in() == [5.0, 5.0, 10.0, 10.0, 20.0]
        played.changed["/device"] = {"interval": 2}
        played.tokens = [pending, issued()]
        assert await played.log_in() == [2.0, 2.0]
        asked = {path: form for path, form, _ in played.asked}
        assert asked["/device"] == {
            "audience": "agents",
            "client_id": "cli",
            "scope": "openid offline_access",  # a host cannot change what is asked for by its further parameters
        }
        assert asked["/token"]["device_code"] == "D"


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([wrong("access_denied")], "declined"),
        ([wrong("expired_token")], "in time"),
        ([wrong("authorization_pending")] * 200, "in time"),
        ([wrong("invalid_client")], "invalid_client"),
        ([issued(token_type="DPoP")], "another type"),
        ([(200, {"token_type": "bearer"})], "access_token"),
        ([(200, {})], "access_token"),
    ],
)
async def test_login_that_fails_stores_nothing_and_says_why(answers: list[Any], why: str) -> None:
    async with Played.run() as played:
        played.tokens = answers
        with pytest.raises(CliError, match=why) as failed:
            await played.log_in()
        assert failed.value.exit_code == AUTH_REQUIRED
        assert store().all() == {}


@pytest.mark.parametrize(
    ("path", "changed", "why"),
    [
        ("/.well-known/oauth-protected-resource/acp", {"resource": "https://agents.example/acp"}, "another host"),
        ("/.well-known/oauth-protected-resource/acp", {"authorization_servers": []}, "how to log in"),
        ("/.well-known/oauth-protected-resource/acp", {"authorization_servers": ["http://evil.example"]}, "https"),
        ("/.well-known/oauth-protected-resource/acp", {"dragoman": None}, "how to log in"),
        ("/.well-known/openid-configuration", {"issuer": "https://evil.example"}, "another issuer"),
        ("/.well-known/openid-configuration", {"token_endpoint": "http://evil.example/t"}, "not used for logins"),
        ("/.well-known/openid-configuration", {"device_authorization_endpoint": None}, "no login by a device code"),
        ("/device", {"verification_uri": "javascript:alert(1)"}, "cannot be used"),
        ("/device", {"verification_uri_complete": "http://127.0.0.1/\x1b[2J"}, "cannot be used"),
        ("/device", {"user_code": "A\x1b]0;x"}, "cannot be shown"),
    ],
)
async def test_host_or_provider_that_leads_elsewhere_gets_nothing(path: str, changed: dict[str, Any], why: str) -> None:
    async with Played.run() as played:
        played.tokens = [issued()]
        played.changed[path] = changed
        with pytest.raises(CliError, match=why):
            await played.log_in()
        assert len(played.tokens) == 1
        assert "/ticket" not in [asked[0] for asked in played.asked]


async def test_host_that_refuses_the_login_is_quoted_and_nothing_is_stored() -> None:
    async with Played.run() as played:
        played.tokens = [issued()]
        played.ticket = (403, b"no rule \x1b[2Jlets you in")
        with pytest.raises(CliError, match=r"403: no rule \[2Jlets you in"):
            await played.log_in()
        assert store().all() == {}


async def test_host_without_logins_says_that_it_takes_tokens() -> None:
    async with Played.run() as played:
        played.is_without_logins = True
        with pytest.raises(CliError, match="takes tokens"):
            await played.log_in()


async def test_login_is_refreshed_before_its_end_once_for_all_programs() -> None:
    async with Played.run() as played:
        played.tokens = [issued(1, seconds=10), issued(2), issued(3)]
        await played.log_in()
        found = await asyncio.gather(*(HostLogin(played.url).token() for _ in range(5)))
        assert set(found) == {issued(2)[1]["access_token"]}
        assert played.asked[-1][1] == {"grant_type": "refresh_token", "refresh_token": "r1", "client_id": "cli"}
        assert await HostLogin(played.url).token(refused="another") == found[0]
        assert await HostLogin(played.url).token(refused=found[0]) == issued(3)[1]["access_token"]


async def test_refresh_keeps_what_the_provider_does_not_send_again() -> None:
    async with Played.run() as played:
        played.tokens = [issued(1, seconds=10), (200, {"access_token": "e30.e30.x", "expires_in": "10"}), issued(3)]
        await played.log_in()
        assert await HostLogin(played.url).token() == "e30.e30.x"
        await HostLogin(played.url).token()
        assert played.asked[-1][1]["refresh_token"] == "r1"


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (wrong("invalid_grant"), LoginNeeded, "was ended by its provider"),
        ((503, {}), ConnectionClosed, "cannot be refreshed"),
        ((200, {}), LoginNeeded, "cannot be refreshed"),
    ],
)
async def test_refresh_that_fails_says_what_to_do(answer: Any, kind: type[Exception], why: str) -> None:
    async with Played.run() as played:
        played.tokens = [issued(1, seconds=10), answer]
        await played.log_in()
        with pytest.raises(kind, match=why) as failed:
            await HostLogin(played.url).token()
        assert (type(failed.value) is LoginNeeded) == (kind is LoginNeeded)
        # Only what the provider has ended is forgotten.
        assert (find_login(played.url) is None) == ("ended" in why)


async def test_host_that_takes_id_tokens_gets_them_until_their_own_end() -> None:
    async with Played.run() as played:
        ours = {"client_id": "cli", "audience": "cli", "token": "id"}
        played.changed["/.well-known/oauth-protected-resource/acp"] = {"dragoman": ours}
        end = round(time.time()) + 1000
        body = base64url(json.dumps({"aud": "cli", "exp": end}).encode())
        played.tokens = [issued(1, id_token=f"e30.{body}.x"), issued(2)]
        await played.log_in()
        assert await HostLogin(played.url).token() == f"e30.{body}.x"
        assert store().get(played.origin).expires_at == end
        with pytest.raises(CliError, match="no id token"):
            await played.log_in()


async def test_login_is_for_its_origin_alone() -> None:
    async with Played.run() as played, Played.run() as other:
        played.tokens = [issued()]
        await played.log_in()
        assert find_login(played.url) is not None
        assert find_login(f"{played.origin}/acp") is not None  # by HTTP as by WebSocket
        assert find_login(other.url) is None
        port = played.origin.rpartition(":")[2]
        for url in (
            f"wss://127.0.0.1:{port}/acp",
            f"ws://localhost:{port}/acp",
            f"ws://127.0.0.1.evil.example:{port}/acp",
        ):
            assert find_login(url) is None


@pytest.mark.parametrize("url", ["ws://agents.example/acp", "http://127.evil.example/acp", "http://10.0.0.7/acp"])
async def test_login_is_never_sent_without_tls_to_another_machine(url: str) -> None:
    with pytest.raises(ConfigError, match="not encrypted"):
        origin_of(url)
    with pytest.raises(ConfigError, match="not encrypted"):
        await read_offer(url)
    assert find_login(url) is None


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("wss://Agents.Example/acp/claude", "https://agents.example"),
        ("https://agents.example:443/acp", "https://agents.example"),
        ("wss://agents.example:8443/acp", "https://agents.example:8443"),
        ("ws://[::1]:8787/acp", "http://[::1]:8787"),
    ],
)
def test_origin_of_a_host_has_one_form(url: str, origin: str) -> None:
    assert origin_of(url) == origin


async def test_token_that_another_host_would_take_is_not_shown_to_this_one() -> None:
    """A host names the provider and the client itself, and so could ask for a token of another host."""
    async with Played.run() as good, Played.run() as evil:
        good.tokens = [issued(1), issued(2), issued(3), issued(4, aud="elsewhere")]
        await good.log_in()
        named = {"authorization_servers": [good.origin]}
        evil.changed["/.well-known/oauth-protected-resource/acp"] = named
        with pytest.raises(CliError, match=f"would be good at {good.origin}"):
            await evil.log_in()
        assert "/ticket" not in [asked[0] for asked in evil.asked]
        assert find_login(evil.url) is None
        await evil.log_in(is_sure=True)
        assert await log_out(evil.url)
        await evil.log_in()  # a token for this host alone
        assert find_login(evil.url) is not None


async def test_host_that_names_another_provider_than_before_is_refused() -> None:
    async with Played.run() as played, Played.run() as other:
        played.tokens, other.tokens = [issued()], [issued(aud="other")]
        await played.log_in()
        played.changed["/.well-known/oauth-protected-resource/acp"] = {"authorization_servers": [other.origin]}
        with pytest.raises(CliError, match="before, and names"):
            await played.log_in()
        await log_out(played.url)
        await played.log_in()


async def test_logout_revokes_and_removes_the_login() -> None:
    async with Played.run() as played:
        played.tokens = [issued()]
        await played.log_in()
        assert await log_out(played.url)
        assert played.asked[-1][:2] == (
            "/revoke",
            {"token": "r1", "token_type_hint": "refresh_token", "client_id": "cli"},
        )
        with pytest.raises(CliError, match="no login"):
            await log_out(played.url)


def test_stored_login_goes_before_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from types import SimpleNamespace

    from dragoman.builtin.mcp.token_store import StoredLogin
    from dragoman.cli.connect import read_remote

    store().put("https://agents.example", StoredLogin(tokens={"access_token": "e30.e30.x"}))
    monkeypatch.setenv("DRAGOMAN_TOKEN", "of-another-host")
    monkeypatch.setenv("NAMED", "named-by-the-user")
    none: dict[str, Any] = {"agent": None, "token_env": None, "token_file": None, "header": [], "ca": None}

    def found(url: str, **options: Any) -> tuple[bool, str | None]:
        remote = read_remote(SimpleNamespace(url=url, **{**none, **options}))
        return remote.login is not None, remote.token

    assert found("wss://agents.example/acp") == (True, None)
    assert found("wss://agents.example/acp", token_env="NAMED") == (False, "named-by-the-user")
    assert found("wss://elsewhere.example/acp") == (False, "of-another-host")
    assert found("unix:/tmp/x.sock") == (False, None)


def test_options_change_a_file_and_a_file_changes_the_settings(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from dragoman.cli.serve.login import read_login_settings

    (tmp_path / "rules.json").write_text(
        '{"user_claim": "email", "rules": [{"is": "a", "rights": ["view"]}], "token": "id"}'
    )
    given = SimpleNamespace(
        oidc_issuer=None,
        oidc_audience=["new"],
        oidc_client_id=None,
        oidc_user_claim=None,
        oidc_right=["ops=admin,view", "CN=a,OU=b=prompt", "out=refuse", "*=refuse"],
        oidc_rules=str(tmp_path / "rules.json"),
    )
    stored = {"issuer": "https://login.example", "audience": ["old"], "user_claim": "sub", "same_users": True}
    found = read_login_settings(given, stored)
    assert (found.issuer, found.audience, found.user_claim) == ("https://login.example", ("new",), "email")
    assert [(rule.is_, rule.rights, rule.refuse) for rule in found.rules] == [
        ("a", ("view",), False),
        ("ops", ("admin", "view"), False),
        ("CN=a,OU=b", ("prompt",), False),
        ("out", (), True),
    ]
    assert (found.otherwise, found.same_users, found.token) == ((), True, "id")
    with pytest.raises(ConfigError, match=r"serve\.oidc.*unknown field `isuer`"):
        read_login_settings(given, {"isuer": "https://login.example"})


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("login", "--url", "ws://agents.example/acp"), "not encrypted"),
        (("login", "--url", "wss://agents.example/acp", "-a", "gemini"), "one way"),
        (("login", "--url", "wss://agents.example/acp", "--list"), "one way"),
        (("login", "--yes"), "go with --url"),
        (("logout", "--url", "wss://agents.example/acp"), "no login"),
        (("logout", "--url", "wss://agents.example/acp", "-a", "gemini"), "leave out the agent"),
        (("connect", "wss://agents.example/acp", "--login", "--token-env", "X"), "two ways in"),
        (("connect", "unix:/tmp/x.sock", "--login"), "needs no login"),
        (("serve", "--oidc-audience", "x", "-a", "scripted"), "--oidc-issuer"),
        (("serve", "--oidc-issuer", "http://login.example", "--oidc-audience", "x", "-a", "scripted"), "https"),
        (("serve", "--oidc-issuer", "https://login.example", "-a", "scripted"), "--oidc-audience"),
        (("serve", "--oidc-issuer", "https://l.example", "--oidc-audience", "x", "--oidc-right", "ops"), "not a rule"),
        (
            ("serve", "--oidc-issuer", "https://l.example", "--oidc-audience", "x", "--oidc-right", "a=root"),
            "not a right",
        ),
        (
            ("serve", "--oidc-issuer", "https://l.example", "--oidc-audience", "x", "--listen", "unix:/tmp/x"),
            "needs a port",
        ),
        (("serve", "--oidc-rules", "/no/such/file"), "No such file"),
        (("serve", "token", "list", "--oidc-issuer", "https://l.example"), "without a word behind it"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    words: tuple[str, ...],
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from dragoman.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(list(words)) == 2
    assert why in capsys.readouterr().err
