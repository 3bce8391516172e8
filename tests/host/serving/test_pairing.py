"""The way in of a browser: codes, both halves of its key, tickets, close codes, and the end of a device."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.serving import server
from dragoman.host.serving.access_log import AccessLog
from dragoman.host.serving.limits import ServeLimits
from dragoman.host.serving.page_files import PageFiles
from dragoman.host.serving.pairing import CODE_SECONDS, IDLE_SECONDS, LETTERS, NewDevice, Pairing, PairingCodes
from dragoman.host.serving.server import ServeOptions
from dragoman.host.serving.tokens import HostToken, HostTokens
from tests.host.serving.kit import FREELY, SECONDS, Served, served
from tests.host.serving.page_kit import FILES, Browser, build_page, closing
from tests.host.serving.test_security import UPGRADE
from tests.host.test_sessions import Steps
from tests.transports.remote_kit import Http

NAME = "agents.example"


@asynccontextmanager
async def paged(tmp_path: Path, *, access_log: AccessLog | None = None, **options: Any) -> AsyncIterator[Served]:
    settings = {"limits": FREELY, "drain_seconds": 1.0, "web": True, "hosts": (NAME,), **options}
    page = PageFiles(build_page(tmp_path / "page"))
    async with served(Steps(), tmp_path, options=ServeOptions(**settings), page=page, access_log=access_log) as host:
        host.server.wrong_seconds = 0.0
        yield host


def code_for(host: Served, **device: Any) -> str:
    pairing = host.server.pairing
    assert pairing is not None
    return pairing.codes.issue(NewDevice(**{"user": "ada", **device}))


async def paired(host: Served, **device: Any) -> Browser:
    browser = Browser(host)
    status, body = await browser.pair(code_for(host, **device))
    assert status == 200, body
    return browser


# Codes


async def test_a_code_pairs_one_browser_with_the_rights_that_it_carries(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        browser, code = Browser(host), code_for(host, rights=("view",))
        assert len(code) == 9
        assert set(code) <= {*LETTERS, "-"}
        body = {"code": code.lower().replace("-", " "), "name": " Ada's  phone ", "rights": "admin"}
        status, headers, answer = await browser.post("/pair", body, user_agent="Mozilla/5.0 (X11) Firefox/150")
        assert (status, headers["cache-control"]) == (200, "no-store")
        found = json.loads(answer)
        assert found.keys() == {"half", "device", "rights", "expiresAt"}
        assert (found["rights"], found["expiresAt"]) == (["view"], None)
        value, *flags = browser.set_cookie.split("; ")
        assert value.startswith("device=")
        assert set(flags) == {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=34560000"}
        (device,) = [token for token in host.tokens.all() if token.kind == "device"]
        assert (device.name, device.user, device.rights) == (found["device"], "ada", ("view",))
        assert (device.title, device.agent) == ("Ada's phone", "Mozilla/5.0 (X11) Firefox/150")
        kept = "".join((tmp_path / name).read_text() for name in ("tokens.json", "codes.json"))
        for secret in (browser.cookie, found["half"], code, code.replace("-", "")):
            assert secret not in kept
        assert (await Browser(host).pair(code))[0] == 403
        browser.half = found["half"]
        line = await browser.line()
        params = {"cwd": str(tmp_path), "mcpServers": []}
        await line.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}))
        assert json.loads(await line.recv())["error"]["data"]["reason"] == "forbidden"
        await line.close()


async def test_wrong_used_and_old_codes_are_answered_with_the_same_bytes(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        used, old = code_for(host), code_for(host)
        assert (await Browser(host).pair(used))[0] == 200
        pairing = host.server.pairing
        assert pairing is not None
        pairing.codes._clock = lambda: time.time() + CODE_SECONDS + 1
        browser = Browser(host)
        answers = [await browser.pair(code) for code in (used, old, "ABCD-EFGH", "short", "\u0130" * 8, "")]
        answers.append(((await browser.post("/pair", {"name": "x"}))[0], answers[0][1]))
        assert set(answers) == {(403, answers[0][1])}
        assert b"wrong, used, or too old" in answers[0][1]


async def test_five_wrong_codes_end_all_open_ones_and_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with paged(tmp_path) as host:
        first, second = code_for(host), code_for(host)
        with caplog.at_level(logging.WARNING, "dragoman.host"):
            for _ in range(5):
                assert (await Browser(host).pair("WRNG-CDES"))[0] == 403
        texts = [record.getMessage() for record in caplog.records]
        assert len(texts) == 5
        assert "from 127.0.0.1" in texts[0]
        assert texts[-1].endswith("2 open codes were ended")
        assert "WRNG" not in "".join(texts)
        for code in (first, second):
            assert (await Browser(host).pair(code))[0] == 403
        assert (await Browser(host).pair(code_for(host)))[0] == 200


async def test_an_address_may_try_ten_codes_a_minute_and_then_has_to_wait(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        host.server.wrong_seconds = 0.0
        for _ in range(10):
            assert (await Browser(host).pair("WRNG-CDES"))[0] == 403
        status, headers, _ = await Browser(host).post("/pair", {"code": code_for(host), "name": "x"})
        assert status == 429
        assert 1 <= int(headers["retry-after"]) <= 7


async def test_what_is_not_a_request_to_pair_uses_no_code_up(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        code, browser = code_for(host), Browser(host)
        for name in ("", "   ", "x" * 65, "bell\a", "\u202e"):
            assert (await browser.pair(code, name))[0] == 400, name
        assert (await browser.post("/pair", [code]))[0] == 400
        assert (await browser.post("/pair", {"code": code, "name": "x" * 5000}))[0] == 413
        assert (await browser.post("/pair", {"code": code, "name": "x"}, content_type="text/plain"))[0] == 415
        for headers in (
            {"origin": ""},
            {"origin": "null"},
            {"origin": "https://evil.example"},
            {"origin": f"http://127.0.0.1:{host.port + 1}"},
            {"host": "evil.example"},
            {"sec_fetch_site": "same-site"},
            {"sec_fetch_site": "cross-site"},
        ):
            assert (await browser.pair(code, **headers))[0] == 403, headers
        status, _, _ = await Http(host.port).ask("GET", path=f"/pair?code={code}", authorization="")
        assert status == 405
        assert (await browser.pair(code))[0] == 200


def test_a_code_file_that_is_broken_holds_no_code(tmp_path: Path) -> None:
    codes = PairingCodes(tmp_path / "codes.json")
    code = codes.issue(NewDevice("ada"))
    assert (tmp_path / "codes.json").stat().st_mode & 0o077 == 0
    (tmp_path / "codes.json").write_text("{")
    assert codes.use(code).device is None
    assert codes.use(codes.issue(NewDevice("ada"))).device == NewDevice("ada")


# Both halves


async def test_the_cookie_alone_and_the_half_alone_open_nothing(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        one, two = await paired(host), await paired(host)
        assert (await one.ticket())[0] == 200
        assert (await one.ticket(x_dragoman_half=""))[0] == 401
        assert (await one.ticket(cookie=""))[0] == 401
        assert (await one.ticket(x_dragoman_half=two.half))[0] == 401
        assert (await one.ticket(x_dragoman_half=one.cookie, cookie=f"device={one.half}"))[0] == 401
        assert (await one.ticket(cookie=f"__Host-device={one.cookie}"))[0] == 401
        for bearer in (one.cookie, one.half, f"{one.cookie}{one.half}"):
            assert (await one.ticket(authorization=f"Bearer {bearer}", x_dragoman_half=""))[0] == 401
        query = f"/ticket?half={one.half}&device={one.cookie}&token={host.secret}"
        assert (await one.post(query, x_dragoman_half="", cookie=""))[0] == 401
        raw = Http(host.port)
        for headers in ({}, {"x_dragoman_half": one.half}):
            status, _, _ = await raw.ask("GET", b"", **{**UPGRADE, **one.headers, **headers})
            assert status == 401
        status, _, _ = await raw.ask("POST", b"{}", **{**one.headers, "x_dragoman_half": one.half})
        assert status == 401  # ACP over HTTP takes tokens alone


async def test_a_device_needs_its_own_origin_and_a_ticket_is_bound_to_it_and_used_once(tmp_path: Path) -> None:
    other = "https://chat.example"
    async with paged(tmp_path, origins=(other,)) as host:
        browser = await paired(host)
        for headers in ({"origin": ""}, {"origin": other}, {"origin": "null"}, {"sec_fetch_site": "same-site"}):
            assert (await browser.ticket(**headers))[0] == 403, headers
        _, ticket = await browser.ticket()
        offer = {**UPGRADE, **browser.headers, "sec_websocket_protocol": f"acp.v1, acp.ticket.{ticket}"}
        status, headers, _ = await Http(host.port).ask("GET", b"", **offer)
        assert (status, headers["sec-websocket-protocol"]) == (101, "acp.v1")
        assert ticket not in str(headers)
        assert (await Http(host.port).ask("GET", b"", **offer))[0] == 401
        _, ticket = await browser.ticket()
        offer["sec_websocket_protocol"] = f"acp.v1, acp.ticket.{ticket}"
        assert (await Http(host.port).ask("GET", b"", **{**offer, "origin": other}))[0] == 401
        _, ticket = await browser.ticket()
        host.server.tickets._clock = lambda: time.monotonic() + 31
        offer["sec_websocket_protocol"] = f"acp.v1, acp.ticket.{ticket}"
        assert (await Http(host.port).ask("GET", b"", **offer))[0] == 401


async def test_hosts_at_two_ports_of_a_machine_share_the_cookie_of_a_browser(tmp_path: Path) -> None:
    async with paged(tmp_path / "a") as one, paged(tmp_path / "b") as two:
        first = await paired(one)
        second = Browser(two)
        second.cookie = first.cookie  # the browser sends it to every port
        assert (await second.pair(code_for(two)))[0] == 200
        first.cookie = second.cookie
        assert (await first.ticket())[0] == 200
        assert (await second.ticket())[0] == 200
        assert (await second.post("/unpair"))[0] == 200
        first.cookie = second.cookie
        assert (await first.ticket())[0] == 200
        assert (await first.post("/unpair"))[0] == 200
        assert first.cookie == ""
        assert "Max-Age=0" in first.set_cookie


async def test_over_tls_of_a_proxy_the_cookie_is_bound_to_the_name(tmp_path: Path) -> None:
    async with paged(tmp_path, is_behind_proxy=True) as host:
        browser = Browser(host, f"https://{NAME}", cookie_name="__Host-device")
        assert (await browser.pair(code_for(host)))[0] == 200
        assert browser.set_cookie.endswith("; Secure")
        assert (await browser.ticket())[0] == 200
        assert (await browser.ticket(cookie=f"device={browser.cookie}"))[0] == 401


# The end of a device


@pytest.mark.parametrize("how", ["revoke", "remove", "unpair", "expire"])
async def test_a_device_that_is_removed_loses_its_sockets_within_a_second(how: str, tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        browser, other = await paired(host), await paired(host)
        line, stays = await browser.line(), await other.line()
        pairing = host.server.pairing
        assert pairing is not None
        if how == "revoke":
            HostTokens(host.tokens.path).revoke(browser.device)  # as another program does
        elif how == "remove":
            pairing.remove(browser.device)
        elif how == "expire":
            with host.tokens._changing() as tokens:
                tokens[browser.device] = _over(tokens[browser.device])
        else:
            assert (await browser.post("/unpair"))[0] == 200
        assert server._LOOK_SECONDS <= 0.5  # how late it is noticed that another program has revoked it
        assert await closing(line) == (4401, "The pairing, the token or the login of this client has ended.")
        assert (await browser.ticket())[0] == 401
        assert (await other.ticket())[0] == 200
        await stays.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}}))
        assert json.loads(await stays.recv())["result"] == {"sessions": []}
        await stays.close()


def _over(token: HostToken) -> HostToken:
    from msgspec.structs import replace

    return replace(token, expires_at=time.time() - 1)


def test_a_device_that_is_not_used_for_a_month_is_over(tmp_path: Path) -> None:
    now = [1_000_000_000.0]
    tokens = HostTokens(tmp_path / "tokens.json", clock=lambda: now[0])
    pairing = Pairing(tokens, PairingCodes(tmp_path / "codes.json", clock=lambda: now[0]))
    token, key = pairing.pair(NewDevice("ada"), "phone", "")
    now[0] += IDLE_SECONDS - 60
    tokens.note_use(token.name)
    again = HostTokens(tokens.path, clock=lambda: now[0])
    now[0] += IDLE_SECONDS - 60
    assert again.find_device(key.cookie, key.half) is not None
    now[0] += 120
    assert again.find_device(key.cookie, key.half) is None


async def test_a_bearer_token_is_not_unpaired(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        bearer = {"authorization": f"Bearer {host.secret}"}
        assert (await Http(host.port).ask("POST", b"{}", path="/unpair", **bearer))[0] == 403
        assert host.tokens.get("tests") is not None


# Close codes


async def test_a_page_sees_why_its_socket_is_closed(tmp_path: Path) -> None:
    async with paged(tmp_path, limits=ServeLimits(connections=1)) as host:
        browser = await paired(host)
        line = await browser.line()
        code, reason = await closing(await browser.socket())
        assert (code, reason) == (4429, "There are too many connections of this token; end one.")
        assert host.server._servers[0]._principals == {browser.device: 1}
        assert (await closing(await browser.socket("/acp/nothing")))[0] == 4403
        slow = Browser(host)
        assert (await slow.pair(code_for(host)))[0] == 200
        behind = await slow.line()
        (connection,) = [found for found in host.host._connections if found.visitor.device == slow.device]
        connection.cut_off("the client does not keep up")
        assert await closing(behind) == (4408, "the client does not keep up")
        draining = asyncio.ensure_future(host.server.close())
        assert (await closing(line))[0] == 4503
        await draining


async def test_a_page_that_asks_for_tickets_too_often_gets_the_time_to_wait(tmp_path: Path) -> None:
    async with paged(tmp_path, limits=ServeLimits()) as host:
        browser = await paired(host)
        count = 0
        while (found := await browser.post("/ticket"))[0] == 200:
            count += 1
            assert count < 600  # a slow machine gets a further one every second
        status, headers, _ = found
        assert status == 429
        assert count >= 60
        assert 1 <= int(headers["retry-after"]) <= 2


# Every path


async def test_every_route_without_credentials_is_refused_or_has_nothing_of_sessions(tmp_path: Path) -> None:
    async with paged(tmp_path, ui_stream=True) as host:
        routes = [(route.method.decode(), route.path, route.entry) for route in host.server.routes.routes]
        routes += [(method, path, "token") for method in ("POST", "GET", "DELETE") for path in ("/acp", "/acp/test")]
        assert {path for _, path, _ in routes} >= {*FILES, "/pair", "/unpair", "/ticket", "/acp", "/metrics"}
        is_open = {"/healthz", "/readyz", "/pair", *FILES}
        own = f"http://127.0.0.1:{host.port}"
        for method, path, entry in routes:
            assert (entry in ("open", "page", "pair")) == (path in is_open), path
            for origin in ("", own):
                body = b'{"code": "ABCD-EFGH", "name": "x"}' if method == "POST" else b""
                target = f"{path}x" if path.endswith("/") and path != "/" else path
                status, headers, _ = await Http(host.port).ask(
                    method, body, path=target, authorization="", origin=origin
                )
                if path in is_open and path != "/pair":
                    assert status == 200, (method, path)
                else:
                    assert status in (401, 403, 404), (method, path, status)
                assert "access-control-allow-origin" not in headers
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["referrer-policy"] == "no-referrer"
            for origin in ("https://evil.example", "null", f"http://127.0.0.1:{host.port + 1}"):
                status, _, _ = await Http(host.port).ask(method, b"", path=target, authorization="", origin=origin)
                assert status == 403, (method, path, origin)
            status, _, _ = await Http(host.port).ask(method, b"", path=target, host="evil.example")
            assert status == 403, (method, path)
        for path in ("/nothing", "/share", "/acpx", "/tickets", "/pair/", "/attachments"):
            for method in ("GET", "POST", "DELETE"):
                request = Http(host.port).request(method, b"", path=path, content_length="99999999999")
                status, _, _ = await Http(host.port).send(request)
                assert status == 404, (method, path)


async def test_no_secret_is_in_the_access_log(tmp_path: Path) -> None:
    written = io.StringIO()
    async with paged(tmp_path, access_log=AccessLog(written)) as host:
        code = code_for(host)
        browser = Browser(host)
        await browser.pair(code)
        await browser.pair(code)
        _, ticket = await browser.ticket()
        await browser.post(f"/ticket?half={browser.half}&code={code}")
        line = await browser.line()
        await line.close()
        await browser.post("/unpair")
        log = written.getvalue()
    assert browser.device in log
    for secret in (code, code.replace("-", ""), browser.half, browser.cookie, ticket, host.secret):
        assert not secret or secret not in log


# Methods about devices


async def ask(line: Any, method: str, **params: Any) -> Any:
    await line.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
    while (found := json.loads(await asyncio.wait_for(line.recv(), SECONDS))).get("id") != method:
        pass
    return found.get("result", found.get("error"))


async def test_devices_are_listed_made_and_removed_by_those_who_may(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        ends = time.time() + 3600
        owner = await paired(host, rights=("view", "answer", "admin"), folders=(str(tmp_path),), expires_at=ends)
        viewer, stranger = await paired(host, rights=("view",)), await paired(host, user="eve")
        host.add("build", user="ada", rights=("view", "prompt"))
        line, look, other = await owner.line(), await viewer.line(), await stranger.line()
        found = (await ask(line, "_dragoman/devices"))["devices"]
        assert {device["id"] for device in found} == {owner.device, viewer.device, "build"}
        (mine,) = [device for device in found if device["isThis"]]
        assert mine.keys() == {
            *("id", "name", "kind", "agent", "rights", "folders", "createdAt", "seenAt", "expiresAt", "isThis", "push")
        }
        assert (mine["id"], mine["kind"], mine["expiresAt"]) == (owner.device, "device", round(ends * 1000))
        assert abs(mine["seenAt"] - time.time() * 1000) < 60_000
        assert [device["id"] for device in (await ask(look, "_dragoman/devices"))["devices"]] == [viewer.device]
        # Codes: never more than the maker has.
        assert (await ask(look, "_dragoman/devices/code", rights=["view"]))["data"]["reason"] == "forbidden"
        more = {"rights": ["view", "prompt"]}, {"rights": ["view"], "folders": ["/"]}
        for wanted in more:
            assert (await ask(line, "_dragoman/devices/code", **wanted))["data"]["reason"] == "forbidden"
        bad: tuple[dict[str, Any], ...] = (
            *({"rights": ["answer"]}, {"rights": "view"}, {"rights": ["view", "root"]}, {"rights": ["view", {}]}),
            *({"rights": ["view"], "folders": []}, {"rights": ["view"], "folders": ["a"]}, {"expires": True}),
            {"expires": 1},
        )
        for wanted in bad:
            assert (await ask(line, "_dragoman/devices/code", **wanted))["code"] == -32602, wanted
        made = await ask(line, "_dragoman/devices/code", rights=["view", "answer"], expires=10**8)
        assert made["seconds"] == 120
        phone = Browser(host)
        assert (await phone.pair(made["code"]))[0] == 200
        token = host.tokens.get(phone.device)
        assert token is not None
        assert (token.user, token.rights, token.folders) == ("ada", ("view", "answer"), (str(tmp_path),))
        assert token.expires_at == ends
        # One of another user, and without the right any other, is answered like one that does not exist.
        answers = [
            await ask(from_, "_dragoman/devices/remove", id=id)
            for from_, id in ((line, "nothing"), (line, stranger.device), (line, "tests"), (look, owner.device))
        ]
        assert all(answer == answers[0] for answer in answers)
        assert host.tokens.get(stranger.device) is not None
        assert await ask(line, "_dragoman/devices/remove", id=viewer.device) == {}
        assert (await closing(look))[0] == 4401
        assert await ask(other, "_dragoman/devices/remove", id=stranger.device) == {}
        assert (await closing(other))[0] == 4401
        assert (await stranger.ticket())[0] == 401
        await line.close()


async def test_a_host_without_the_page_has_no_devices(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        assert host.host.pairing is None
        for path in ("/pair", "/unpair", "/"):
            assert (await Http(host.port).ask("POST", b"{}", path=path))[0] == 404
