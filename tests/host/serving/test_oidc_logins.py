"""Users of an OpenID Connect provider at a served host: keys, claims, rights, and the end of a login."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError, ConnectionClosed
from dragoman.host.serving.limits import ServeLimits
from dragoman.host.serving.oidc.logins import LoginRefused, LoginRule, Logins, LoginSettings
from dragoman.host.serving.oidc.provider import LoginProvider, ProviderAway, check_issuer
from dragoman.host.serving.server import ServeOptions
from dragoman.host.serving.tokens import HostToken
from tests.host.bridge.kit import editor
from tests.host.serving.kit import SECONDS, Served, served
from tests.host.serving.oidc_kit import AUDIENCE, PlayedProvider, jwk
from tests.host.serving.page_kit import build_page
from tests.host.serving.test_security import UPGRADE, client
from tests.host.test_sessions import Steps
from tests.transports.remote_kit import INITIALIZE, Http

METADATA = "/.well-known/oauth-protected-resource/acp"


class Clock:
    """A time that stands still until a test moves it."""

    def __init__(self, start: float) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def login_host(
    folder: Path, *, limits: ServeLimits | None = None, web: bool = False, **members: Any
) -> AsyncIterator[tuple[Served, PlayedProvider, Logins, Clock, Clock]]:
    """Run a host with a provider that tests play; with the clocks of the provider's keys and of the logins."""
    from dragoman.host.serving.page_files import PageFiles

    ticks, clock = Clock(1000.0), Clock(time.time())
    async with PlayedProvider.run() as played:
        provider = LoginProvider(played.issuer, clock=ticks)
        await provider.prepare()
        settings = LoginSettings(issuer=played.issuer, audience=(AUDIENCE,), **members)
        logins = Logins(settings, provider, clock=clock)
        page = PageFiles(build_page(folder)) if web else None
        options = ServeOptions(web=web, limits=limits or ServeLimits(), drain_seconds=1.0)
        async with served(Steps(), folder, options=options, page=page, logins=logins) as host:
            try:
                yield host, played, logins, ticks, clock
            finally:
                await provider.close()


async def ask(
    host: Served, token: str, path: str = "/ticket", method: str = "POST"
) -> tuple[int, dict[str, str], bytes]:
    return await Http(host.port).ask(method, b"", path=path, authorization=f"Bearer {token}")


# Claims to users and rights


def settings(**members: Any) -> LoginSettings:
    return LoginSettings(issuer="https://login.example", audience=(AUDIENCE,), **members)


OPS = LoginRule(is_="ops", rights=("admin",))
ROLE = LoginRule(is_="boss", claim="realm_access.roles", rights=("view", "admin"))


@pytest.mark.parametrize(
    ("members", "more", "user", "rights"),
    [
        ({}, {}, "oidc:ada", "view prompt answer"),
        ({}, {"sub": "auth0|5f7c8ec7"}, "oidc:auth0|5f7c8ec7", "view prompt answer"),
        ({}, {"sub": "größe"}, "oidc:größe", "view prompt answer"),
        ({"same_users": True}, {}, "ada", "view prompt answer"),
        ({"user_claim": "email"}, {"email": "ada@example.com", "email_verified": True}, "oidc:ada@example.com", None),
        ({"user_claim": "https://example.com/name"}, {"https://example.com/name": "al"}, "oidc:al", None),
        ({"rules": (OPS,)}, {"groups": ["dev", "ops"]}, "oidc:ada", "view prompt answer admin"),
        ({"rules": (OPS,)}, {"groups": "ops"}, "oidc:ada", "view prompt answer admin"),
        ({"rules": (OPS,)}, {"groups": ["OPS", "ops ", "dev,ops"]}, "oidc:ada", "view prompt answer"),
        ({"rules": (OPS,)}, {"groups": {"ops": True}}, "oidc:ada", "view prompt answer"),
        ({"rules": (OPS,)}, {"groups": [["ops"], 1, None]}, "oidc:ada", "view prompt answer"),
        ({"rules": (ROLE,), "otherwise": ()}, {"realm_access": {"roles": ["boss"]}}, "oidc:ada", "view admin"),
        ({"rules": (OPS,), "group_claim": "roles"}, {"roles": ["ops"], "groups": []}, "oidc:ada", None),
    ],
)
def test_claims_become_a_user_and_rights(
    members: dict[str, Any], more: dict[str, Any], user: str, rights: str | None
) -> None:
    logins = Logins(settings(**members), LoginProvider("https://login.example"))
    login = logins._login({"sub": "ada", "exp": 2000.0, **more}, "login:x")
    assert (login.user, login.expires_at) == (user, 2030.0)
    assert rights is None or " ".join(login.rights) == rights
    assert not login.may_start_programs


@pytest.mark.parametrize(
    ("members", "more", "why"),
    [
        ({"otherwise": ()}, {}, "no rule of this host"),
        ({"otherwise": (), "rules": (OPS,)}, {"groups": ["ops"]}, "no rule of this host"),  # admin without view
        ({"rules": (LoginRule(is_="out", refuse=True), OPS)}, {"groups": ["ops", "out"]}, "no rule of this host"),
        ({"rules": (LoginRule(is_="mallory", claim="sub", refuse=True),)}, {"sub": "mallory"}, "no rule of this host"),
        ({"user_claim": "email"}, {"email": "ada@example.com"}, "not verified"),
        ({"user_claim": "email"}, {"email": "ada@example.com", "email_verified": "true"}, "not verified"),
        ({"user_claim": "name"}, {}, "claim name"),
        ({"user_claim": "name"}, {"name": ["ada"]}, "claim name"),
        ({"user_claim": "name"}, {"name": ""}, "claim name"),
        ({}, {"sub": "ada lovelace"}, "cannot be used"),
        ({}, {"sub": "ada\u202eadmin"}, "cannot be used"),  # turns the direction of what follows
        ({}, {"sub": "ad\u200ba"}, "cannot be used"),  # has no width
        ({}, {"sub": "a\u0308da"}, "cannot be used"),  # the same letter, spelled otherwise
        ({}, {"sub": "\uff41da"}, "cannot be used"),  # a wide a
        ({}, {"sub": "ada\nroot"}, "cannot be used"),
        ({}, {"sub": "ada\x1b[2J"}, "cannot be used"),
        ({}, {"sub": "a" * 129}, "cannot be used"),
        ({}, {"sub": "../../etc"}, "cannot be used"),
        ({"same_users": True}, {"sub": "oidc:ada"}, "cannot be one of a token"),
        ({"same_users": True}, {"sub": "größe"}, "cannot be one of a token"),
    ],
)
def test_login_without_a_rule_or_a_clear_user_is_refused(
    members: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    logins = Logins(settings(**members), LoginProvider("https://login.example"))
    with pytest.raises(LoginRefused, match=why):
        logins._login({"sub": "ada", "exp": 2000.0, **more}, "login:x")


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"issuer": ""}, "--oidc-issuer"),
        ({"audience": ()}, "--oidc-audience"),
        ({"otherwise": ("prompt",)}, "right view"),
        ({"otherwise": ("root",)}, "not a right"),
        ({"rules": (LoginRule(is_="x", rights=("root",)),)}, "not a right"),
        ({"rules": (LoginRule(is_="x"),)}, "gives nothing"),
        ({"rules": (LoginRule(is_="", rights=("view",)),)}, "value of its claim"),
        ({"rules": (LoginRule(is_="x", folders=("src",)),)}, "must be absolute"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(members: dict[str, Any], why: str) -> None:
    made = {"issuer": "https://login.example", "audience": (AUDIENCE,), **members}
    with pytest.raises(ConfigError, match=why):
        LoginSettings(**made).check()


@pytest.mark.parametrize(
    "issuer",
    [
        *("http://login.example", "http://127.evil.example", "ftp://127.0.0.1", "login.example", "https://", ""),
        *("https://a@login.example", "https://login.example?x", "https://login.example/#x", "https://lo gin.example"),
        *("https://login.example\\@evil.example", "https://login.example:x", "https://[::1", "https://lögin.example"),
    ],
)
def test_issuer_is_an_address_with_tls(issuer: str) -> None:
    with pytest.raises(ConfigError):
        check_issuer(issuer)


# Keys


async def test_unknown_key_is_fetched_once_for_all_and_then_not_again_for_a_while() -> None:
    clock = Clock(0.0)
    async with PlayedProvider.run() as played:
        provider = LoginProvider(played.issuer, clock=clock)
        await provider.prepare()
        assert [key.kid for key in provider.keys] == ["k1"]
        assert provider.ask_again() is None  # just fetched
        clock.now += 11
        played.keys.append(jwk("rsa/2", kid="k2"))
        played.hold = asyncio.Event()
        waiting = [provider.ask_again() for _ in range(50)]
        played.hold.set()
        waiting[0].cancel() if waiting[0] is not None else None  # one that leaves takes nothing from the others
        await asyncio.gather(*(future for future in waiting[1:] if future is not None))
        assert [key.kid for key in provider.keys] == ["k1", "k2"]
        assert len(played.asked) == 4
        assert provider.ask_again() is None
        await provider.close()


async def test_keys_are_kept_for_a_day_while_the_provider_is_away() -> None:
    clock = Clock(0.0)
    async with PlayedProvider.run() as played:
        provider = LoginProvider(played.issuer, clock=clock)
        await provider.prepare()
        played.status = 503
        for _ in range(3):
            clock.now += 8 * 3600 - 1
            waiting = provider.ask_again()
            assert waiting is not None
            await waiting
            assert provider.keys
        clock.now += 4
        assert not provider.keys
        played.status = 200
        clock.now += 11
        waiting = provider.ask_again()
        assert waiting is not None
        await waiting
        assert provider.keys
        await provider.close()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"issuer": "https://evil.example"}, "another issuer"),
        ({"issuer": 1}, "not the document"),
        ({"jwks_uri": None}, "names no keys"),
        ({"jwks_uri": "http://login.example/keys"}, "not used for logins"),
        ({"jwks_uri": "file:///etc/passwd"}, "cannot be used"),
    ],
)
async def test_document_that_leads_elsewhere_is_refused(document: dict[str, Any], why: str) -> None:
    async with PlayedProvider.run() as played:
        played.document = document
        provider = LoginProvider(played.issuer)
        with pytest.raises(ConfigError, match=why):
            await provider.prepare()
        await provider.close()


@pytest.mark.parametrize(("status", "kind"), [(302, ConfigError), (404, ConfigError), (500, ProviderAway)])
async def test_provider_that_does_not_answer_is_refused(status: int, kind: type[Exception]) -> None:
    async with PlayedProvider.run() as played:
        played.status = status
        provider = LoginProvider(played.issuer)
        with pytest.raises(kind, match=f"HTTP {status}"):
            await provider.prepare()
        await provider.close()
        played.status, played.keys = 200, [{"kty": "oct", "k": "AA"}]
        provider = LoginProvider(played.issuer)
        with pytest.raises(ConfigError, match="no key"):
            await provider.prepare()
        await provider.close()


# At the host


async def test_user_of_a_login_is_another_than_the_user_of_a_token(tmp_path: Path) -> None:
    async with login_host(tmp_path) as (host, played, *_):
        async with client(host, host.add("ada")) as line:
            made = await line.result("session/new", cwd=str(tmp_path), mcpServers=[])
        async with client(host, played.token()) as line:
            assert (await line.result("session/list"))["sessions"] == []
            refused = await line.error("session/load", sessionId=made["sessionId"], cwd=str(tmp_path), mcpServers=[])
            assert refused["code"] == -32002
            mine = await line.result("session/new", cwd=str(tmp_path), mcpServers=[])
        async with client(host, played.token(jti="another")) as line:  # a later login of the same user
            assert [row["sessionId"] for row in (await line.result("session/list"))["sessions"]] == [mine["sessionId"]]


async def test_operator_may_say_that_both_have_the_same_users(tmp_path: Path) -> None:
    async with login_host(tmp_path, same_users=True) as (host, played, *_):
        async with client(host, host.add("laptop", user="ada")) as line:
            made = await line.result("session/new", cwd=str(tmp_path), mcpServers=[])
        async with client(host, played.token()) as line:
            rows = (await line.result("session/list"))["sessions"]
            assert [row["sessionId"] for row in rows] == [made["sessionId"]]


async def test_refusal_says_why_only_to_those_whom_the_provider_knows(tmp_path: Path) -> None:
    async with login_host(tmp_path, rules=(LoginRule(is_="out", refuse=True),)) as (host, played, *_):
        expected = {
            played.token(aud="elsewhere"): (401, b"The login is not accepted: it is for another audience (aud)."),
            played.token(exp=1000.0): (401, b"The login is not accepted: it has expired."),
            played.token(key="rsa/9"): (401, b"The login is not accepted."),
            played.token(groups=["out"]): (403, b"The login is right, but no rule of this host lets its user in."),
            "eyJub25lIjoxfQ.e30.": (401, b"The login is not accepted."),
        }
        for token, (status, words) in expected.items():
            found, headers, body = await ask(host, token)
            assert (found, body) == (status, words)
            address = f"http://127.0.0.1:{host.port}{METADATA}"
            challenge = f'Bearer realm="acp", resource_metadata="{address}", error="invalid_token"'
            assert headers.get("www-authenticate") == (challenge if status == 401 else None)
        status, headers, _ = await Http(host.port).ask("POST", b"", path="/ticket", authorization="")
        assert headers["www-authenticate"] == f'Bearer realm="acp", resource_metadata="{address}"'
        assert (await ask(host, host.secret))[0] == 200  # tokens of the host are not touched by any of this


async def test_how_to_log_in_is_read_without_a_token(tmp_path: Path) -> None:
    async with login_host(tmp_path, client_id="cli") as (host, played, *_):
        status, _, body = await Http(host.port).ask("GET", b"", path=METADATA)
        found = json.loads(body)
        assert (status, found["authorization_servers"]) == (200, [played.issuer])
        assert found["resource"] == f"http://127.0.0.1:{host.port}/acp"
        assert found["dragoman"] == {"client_id": "cli", "audience": AUDIENCE, "token": "access", "parameters": {}}
        assert (await Http(host.port).ask("POST", b"", path=METADATA))[0] == 405
        assert (await Http(host.port).ask("GET", b"", path=METADATA, host="evil.example"))[0] == 403


async def test_host_without_a_provider_refuses_signed_tokens(tmp_path: Path) -> None:
    async with PlayedProvider.run() as played, served(Steps(), tmp_path) as host:
        status, headers, _ = await ask(host, played.token())
        assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="acp"')
        assert (await Http(host.port).ask("GET", b"", path=METADATA))[0] == 404


async def test_request_waits_for_the_key_that_the_provider_has_made(tmp_path: Path) -> None:
    async with login_host(tmp_path) as (host, played, _, ticks, _):
        ticks.now += 11
        played.keys = [jwk("rsa/2", kid="k2")]
        played.hold = asyncio.Event()
        token, old = played.token("k2", "rsa/2"), played.token()
        assert (await ask(host, old))[0] == 200
        asking = asyncio.ensure_future(ask(host, token))
        upgrading = asyncio.ensure_future(Http(host.port).ask("GET", b"", **UPGRADE, authorization=f"Bearer {token}"))
        _, leaving = await asyncio.open_connection("127.0.0.1", host.port)
        leaving.write(Http(host.port).request("POST", b"", path="/ticket", authorization=f"Bearer {token}"))
        leaving.transport.abort()
        async with asyncio.timeout(SECONDS):
            await played.held.wait()  # the host asks
        assert not asking.done()
        played.hold.set()
        assert (await asking)[0] == 200
        assert (await upgrading)[0] == 101
        assert (await ask(host, old))[0] == 401  # with a key that was withdrawn, though it was accepted before
        assert (await ask(host, played.token("k3", "rsa/9")))[0] == 401
        assert len(played.asked) == 4


async def test_provider_that_was_never_reached_is_tried_again(tmp_path: Path) -> None:
    async with PlayedProvider.run() as played:
        played.status = 500
        ticks = Clock(0.0)
        provider = LoginProvider(played.issuer, clock=ticks)
        with pytest.raises(ProviderAway):
            await provider.prepare()
        logins = Logins(LoginSettings(issuer=played.issuer, audience=(AUDIENCE,)), provider)
        async with served(Steps(), tmp_path, logins=logins) as host:
            status, headers, _ = await ask(host, played.token())
            assert (status, headers["retry-after"]) == (503, "10")
            ticks.now += 11
            played.status = 200
            assert (await ask(host, played.token()))[0] == 200
        await provider.close()


async def test_end_of_a_login_ends_its_connections_and_no_others(tmp_path: Path) -> None:
    async with login_host(tmp_path) as (host, played, _, _, clock):
        until = time.time() + 600
        async with client(host, played.token(exp=until)) as line, client(host, played.token(exp=until + 600)) as later:
            _, _, body = await ask(host, played.token(exp=until))
            ticket = json.loads(body)["ticket"]
            clock.now = until + 29.0  # the leeway
            assert (await ask(host, played.token(exp=until)))[0] == 200
            clock.now = until + 31.0
            async with asyncio.timeout(SECONDS):
                reason = await line.ended
            assert isinstance(reason, ConnectionClosed)
            assert "4401" in str(reason) or "login" in str(reason)
            assert (await ask(host, played.token(exp=until)))[0] == 401
            offer = {**UPGRADE, "authorization": "", "sec_websocket_protocol": f"acp.v1, acp.ticket.{ticket}"}
            assert (await Http(host.port).ask("GET", b"", **offer))[0] == 401
            assert (await later.result("session/list"))["sessions"] == []


async def test_editor_goes_on_with_a_refreshed_login_when_the_old_one_ends(tmp_path: Path) -> None:
    async with login_host(tmp_path) as (host, played, _, _, clock):
        until = time.time() + 600
        tokens = iter((played.token(exp=until), played.token(exp=until + 600)))
        again = asyncio.Event()

        def token() -> str:
            found = next(tokens)
            if clock.now > until:
                again.set()
            return found

        async with editor(f"ws://127.0.0.1:{host.port}/acp", token) as line:
            await line.hello()
            made = await line.result("session/new", cwd=str(tmp_path), mcpServers=[])
            clock.now = until + 31.0
            async with asyncio.timeout(SECONDS):
                await again.wait()
            rows = (await line.result("session/list"))["sessions"]
            assert [row["sessionId"] for row in rows] == [made["sessionId"]]
            assert not line.running.done()


async def test_ticket_of_a_login_opens_a_socket_of_its_user(tmp_path: Path) -> None:
    async with login_host(tmp_path) as (host, played, *_):
        _, _, body = await ask(host, played.token())
        offer = {
            **UPGRADE,
            "authorization": "",
            "sec_websocket_protocol": f"acp.v1, acp.ticket.{json.loads(body)['ticket']}",
        }
        assert (await Http(host.port).ask("GET", b"", **offer))[0] == 101


async def test_rights_of_a_login_hold_at_every_path(tmp_path: Path) -> None:
    viewer = LoginRule(is_="viewers", rights=("view",))
    async with login_host(tmp_path, otherwise=(), rules=(viewer, LoginRule(is_="ops", rights=("admin",)))) as (
        host,
        played,
        *_,
    ):
        token = played.token(groups=["viewers"])
        assert (await ask(host, token, "/metrics", "GET"))[0] == 403
        assert (await ask(host, played.token(groups=["viewers", "ops"]), "/metrics", "GET"))[0] == 200
        async with client(host, token) as line:
            refused = await line.error("session/new", cwd=str(tmp_path), mcpServers=[])
            assert refused["data"] == {"reason": "forbidden"}


async def test_folders_of_a_rule_bound_the_sessions_of_a_login(tmp_path: Path) -> None:
    (tmp_path / "atlas").mkdir()
    rule = LoginRule(is_="atlas", folders=(str(tmp_path / "atlas"),))
    async with (
        login_host(tmp_path, rules=(rule,)) as (host, played, *_),
        client(host, played.token(groups=["atlas"])) as line,
    ):
        await line.result("session/new", cwd=str(tmp_path / "atlas"), mcpServers=[])
        assert "folder" in str(await line.error("session/new", cwd=str(tmp_path), mcpServers=[]))


async def test_all_logins_of_a_user_share_its_limits(tmp_path: Path) -> None:
    limits = ServeLimits(requests_per_second=1.0, connections_per_minute=1e6)
    async with login_host(tmp_path, limits=limits) as (host, played, *_):
        found = [(await ask(host, played.token(jti=str(number))))[0] for number in range(8)]
        assert 429 in found
        assert (await ask(host, played.token(sub="bob")))[0] == 200


async def test_connection_over_http_is_for_logins_of_its_user_alone(tmp_path: Path) -> None:
    async with login_host(tmp_path) as (host, played, *_):
        ours = f"Bearer {played.token()}"
        _, headers, _ = await Http(host.port).ask("POST", INITIALIZE, authorization=ours)
        connection = {"acp_connection_id": headers["acp-connection-id"]}
        listing = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}}).encode()
        status, _, _ = await Http(host.port).ask(
            "POST", listing, authorization=f"Bearer {played.token(sub='bob')}", **connection
        )
        assert status == 404
        status, _, _ = await Http(host.port).ask(
            "POST", listing, authorization=f"Bearer {played.token(jti='refreshed')}", **connection
        )
        assert status in (200, 202)


async def test_login_cannot_pair_a_browser_that_would_outlast_it(tmp_path: Path) -> None:
    admin = LoginRule(is_="ops", rights=("admin",))
    async with (
        login_host(tmp_path, web=True, rules=(admin,)) as (host, played, *_),
        client(host, played.token(groups=["ops"]), capabilities={"_meta": {"dragoman": {}}}) as line,
    ):
        assert "outlast" in str(await line.error("_dragoman/devices/code"))


def test_names_of_logins_cannot_be_those_of_tokens(tmp_path: Path) -> None:
    from dragoman.host.serving.tokens import HostTokens

    for name, user in (("oidc:ada", "ada"), ("ada", "oidc:ada")):
        with pytest.raises(ConfigError):
            HostTokens(tmp_path / "tokens.json").add(HostToken(name=name, digest="", user=user))
