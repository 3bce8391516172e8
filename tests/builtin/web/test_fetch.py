"""Every host, address and redirect is judged, and what was judged is what is reached."""

import asyncio
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.web.fetch import MOST_REDIRECTS, Web, fetch_request, resolve
from dragoman.builtin.web.url import read_url
from tests import machine
from tests.builtin.web.site import PUBLIC, Names, WebContext, pretended, redirect, reply, serving

LIMIT = 10_000


async def get(web: Web, context: WebContext, url: str, **options: Any) -> str:
    """Where the answer came from and its body."""
    target, answer = await web.send(read_url(url), context, seconds=20, limit_bytes=LIMIT, **options)
    return f"{target.url} {answer.body.decode()}"


async def refusal(web: Web, context: WebContext, url: str, **options: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await get(web, context, url, **options)
    return str(caught.value)


# Addresses


async def test_loopback_is_denied_and_nothing_is_sent(tmp_path: Path) -> None:
    async with serving() as site:
        for rules in ((), ("fetch",), ("fetch:*.0.0.1",), ("fetch:localhost",)):
            why = await refusal(Web(), WebContext(tmp_path, *rules), site.url())
            assert "127.0.0.1 is this machine" in why
            assert "fetch:127.0.0.1" in why
        assert site.asked == []


async def test_loopback_is_reached_when_a_rule_names_it(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/x"] = reply("inside")
        context = WebContext(tmp_path, "fetch:127.0.0.1")
        assert await get(Web(), context, site.url("/x")) == f"{site.url('/x')} inside"
        assert await get(Web(), context, f"http://0x7f.1:{site.port}/x") == f"{site.url('/x')} inside"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "fd00::1", "fe80::1%eth0", "::ffff:10.0.0.5", "64:ff9b::a00:5"],
)
async def test_a_name_that_leads_inside_is_denied(tmp_path: Path, address: str) -> None:
    async with serving() as site:
        web, names, wires = pretended(site, Names(evil_example=[[address]]))
        why = await refusal(web, WebContext(tmp_path, "fetch"), "http://evil.example/")
        assert f"evil.example leads to {address}" in why
        assert names.looked_up == ["evil.example"]
        assert wires.reached == []


async def test_one_address_inside_among_public_ones_is_enough(tmp_path: Path) -> None:
    async with serving() as site:
        web, _, wires = pretended(site, Names(evil_example=[[PUBLIC, "10.0.0.5"]]))
        assert "leads to 10.0.0.5" in await refusal(web, WebContext(tmp_path, "fetch"), "http://evil.example/")
        assert wires.reached == []


async def test_a_name_that_leads_inside_is_reached_when_a_rule_names_it(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/"] = reply("intranet")
        web, _, wires = pretended(site, Names(wiki_corp=[["10.0.0.5"]]))
        assert (
            await get(web, WebContext(tmp_path, "fetch:wiki.corp"), "http://wiki.corp/") == "http://wiki.corp/ intranet"
        )
        assert wires.reached == [("10.0.0.5", 80)]
        assert "leads to" in await refusal(web, WebContext(tmp_path, "fetch:*.corp"), "http://wiki.corp/")


async def test_a_deny_of_an_address_is_one_of_every_name_for_it(tmp_path: Path) -> None:
    async with serving() as site:
        web, _, wires = pretended(site, Names(wiki_corp=[["10.0.0.5"]]))
        context = WebContext(tmp_path, "fetch:wiki.corp", deny=["fetch:10.0.0.5"])
        assert "wiki.corp leads to 10.0.0.5: denied by" in await refusal(web, context, "http://wiki.corp/")
        context = WebContext(tmp_path, "fetch", deny=[f"fetch:{PUBLIC}"])
        assert f"leads to {PUBLIC}: denied by" in await refusal(web, context, "http://a.example/")
        assert wires.reached == []


async def test_the_address_that_was_judged_is_the_one_that_is_reached(tmp_path: Path) -> None:
    """A name that answers with a public address first and with loopback afterwards is asked once."""
    async with serving() as site:
        site.answers["/"] = reply("public")
        web, names, wires = pretended(site, Names(rebind_example=[[PUBLIC], ["127.0.0.1"]]))
        assert "public" in await get(web, WebContext(tmp_path, "fetch"), "http://rebind.example/")
        assert wires.reached == [(PUBLIC, 80)]
        assert names.looked_up == ["rebind.example"]
        assert site.asked == ["rebind.example/"]
        assert "leads to 127.0.0.1" in await refusal(web, WebContext(tmp_path, "fetch"), "http://rebind.example/")


async def test_a_redirect_to_the_same_name_is_looked_up_and_judged_again(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/"] = redirect("/again")
        web, _, wires = pretended(site, Names(rebind_example=[[PUBLIC], ["169.254.169.254"]]))
        why = await refusal(web, WebContext(tmp_path, "fetch"), "http://rebind.example/")
        assert "rebind.example leads to 169.254.169.254" in why
        assert wires.reached == [(PUBLIC, 80)]


async def test_the_next_address_is_tried_when_one_does_not_answer(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/"] = reply("second")
        tried: list[str] = []

        async def connect(address: str, port: int, **options: Any) -> Any:
            tried.append(address)
            if len(tried) == 1:
                raise ConnectionRefusedError(111, "Connection refused")
            return await asyncio.open_connection("127.0.0.1", site.port)

        web = Web(resolve=Names(two_example=[["2606:2800::1", PUBLIC]]), connect=connect)
        assert "second" in await get(web, WebContext(tmp_path, "fetch"), "http://two.example/")
        assert tried == ["2606:2800::1", PUBLIC]


async def test_an_unreachable_host_is_an_error_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(host: str) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    async def nothing(host: str) -> Sequence[str]:
        return ()

    context = WebContext(tmp_path, "fetch", "fetch:127.0.0.1")
    for name in ("https_proxy", "http_proxy", "all_proxy", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    why = await refusal(Web(resolve=unknown), context, "http://a.example/")
    assert why == "a.example cannot be looked up: Name or service not known; is the name right?"
    assert "has no address" in await refusal(Web(resolve=nothing), context, "http://a.example/")
    async with serving() as site:
        closed = site.url()
    assert "cannot be fetched" in await refusal(Web(), context, closed)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert "HTTPS_PROXY is set, but proxies are not used" in await refusal(Web(), context, closed)


async def test_names_of_this_machine_are_found_by_the_system() -> None:
    assert set(await resolve("localhost")) & {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match="not a valid host name"):
        await resolve("x" * 64 + ".invalid")


# Redirects


async def test_redirects_within_a_host_are_followed(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers |= {"/a": redirect("b?x=1"), "/b": redirect("//a.example/c d"), "/c%20d": reply("there")}
        web, _, _ = pretended(site)
        assert await get(web, WebContext(tmp_path), "http://a.example/a") == "http://a.example/c%20d there"
        assert site.asked == ["a.example/a", "a.example/b?x=1", "a.example/c%20d"]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_every_kind_of_redirect_is_followed(tmp_path: Path, status: str) -> None:
    async with serving() as site:
        site.answers |= {"/a": redirect("/b", status), "/b": reply("there")}
        assert "there" in await get(pretended(site)[0], WebContext(tmp_path), "http://a.example/a")


async def test_the_number_of_redirects_is_limited(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers |= {f"/{number}": redirect(f"/{number + 1}") for number in range(20)}
        site.answers["/20"] = reply("there")
        web, _, _ = pretended(site)
        assert "there" in await get(web, WebContext(tmp_path), f"http://a.example/{20 - MOST_REDIRECTS}")
        site.asked.clear()
        why = await refusal(web, WebContext(tmp_path), "http://a.example/1")
        assert f"redirects more than {MOST_REDIRECTS} times" in why
        assert len(site.asked) == MOST_REDIRECTS + 1
        assert "redirects more than 0 times" in await refusal(
            web, WebContext(tmp_path), "http://a.example/1", redirects=0
        )


async def test_a_redirect_to_another_host_needs_its_own_permission(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers |= {"a.example/": redirect("http://b.example/x"), "b.example/x": reply("other")}
        web, names, _ = pretended(site)
        why = await refusal(web, WebContext(tmp_path), "http://a.example/")
        assert why.startswith("http://a.example/ redirects to http://b.example/x, another host")
        assert "fetch that URL by itself" in why
        assert names.looked_up == ["a.example"]
        assert site.asked == ["a.example/"]
        assert (
            await get(web, WebContext(tmp_path, "fetch:b.example"), "http://a.example/") == "http://b.example/x other"
        )


async def test_a_redirect_to_a_denied_host_names_the_rule(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/"] = redirect("http://b.example/")
        why = await refusal(
            pretended(site)[0], WebContext(tmp_path, "fetch", deny=["fetch:b.example"]), "http://a.example/"
        )
        assert "redirects to http://b.example/: denied by rule fetch:b.example" in why


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1/", "http://2130706433/", "http://[::1]/", "http://localhost:8080/", "http://169.254.169.254/x"],
)
async def test_a_redirect_inside_is_denied(tmp_path: Path, location: str) -> None:
    async with serving() as site:
        site.answers["/"] = redirect(location)
        web, names, wires = pretended(site)
        assert "only a rule of the user's that names it" in await refusal(
            web, WebContext(tmp_path, "fetch"), "http://a.example/"
        )
        assert names.looked_up == ["a.example"]
        assert wires.reached == [(PUBLIC, 80)]


async def test_a_redirect_to_a_name_that_leads_inside_is_denied(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/"] = redirect("http://b.example/")
        web, _, wires = pretended(site, Names(b_example=[["192.168.0.1"]]))
        assert "b.example leads to 192.168.0.1" in await refusal(
            web, WebContext(tmp_path, "fetch"), "http://a.example/"
        )
        assert wires.reached == [(PUBLIC, 80)]


async def test_a_redirect_back_to_the_first_host_is_followed(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers |= {"a.example/": redirect("http://b.example/"), "b.example/": redirect("http://a.example/end")}
        site.answers["a.example/end"] = reply("home")
        assert "home" in await get(pretended(site)[0], WebContext(tmp_path, "fetch:b.example"), "http://a.example/")


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://a.example/", "http://u:p@a.example/", "http://[/"])
async def test_a_redirect_to_what_is_never_fetched_is_refused(tmp_path: Path, location: str) -> None:
    async with serving() as site:
        site.answers["/"] = redirect(location)
        await refusal(pretended(site)[0], WebContext(tmp_path, "fetch"), "http://a.example/")
        assert site.asked == ["a.example/"]


async def test_a_redirect_without_a_location_is_an_answer(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/"] = reply("where to?", "302 Found")
        assert "where to?" in await get(pretended(site)[0], WebContext(tmp_path), "http://a.example/")


# Time


async def test_an_answer_that_never_ends_is_cut_off_by_time(tmp_path: Path) -> None:
    async with serving() as site:
        clock: list[asyncio.Timeout] = []
        asked: list[float] = []

        def timeout(seconds: float) -> asyncio.Timeout:
            asked.append(seconds)
            clock.append(asyncio.timeout(None))
            return clock[-1]

        async def drip(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            clock[-1].reschedule(0)  # the time is over
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0)

        site.answers["/"] = drip
        web, _, _ = pretended(site, timeout=timeout)
        assert "did not answer in full within 20 s" in await refusal(web, WebContext(tmp_path), "http://a.example/")
        assert asked == [20]
        async with asyncio.timeout(60):
            await site.hung_up.wait()


async def test_a_lookup_that_never_ends_is_cut_off_by_time(tmp_path: Path) -> None:
    clock = asyncio.timeout(None)

    async def look(host: str) -> Sequence[str]:
        clock.reschedule(0)
        await asyncio.Event().wait()
        return ()

    web = Web(resolve=look, timeout=lambda seconds: clock)
    assert "within 20 s" in await refusal(web, WebContext(tmp_path), "http://a.example/")


# TLS


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's side with a certificate of that name, and a client's side that trusts it alone."""
    program = machine.program("openssl")
    if program is None:
        pytest.skip("needs openssl to make a certificate")
    key, crt = folder / "key.pem", folder / "crt.pem"
    of_name = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    subprocess.run(
        [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *of_name, "-keyout", key, "-out", crt],
        check=True,
        capture_output=True,
        timeout=60,
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(crt, key)
    return server, ssl.create_default_context(cafile=str(crt))


async def test_https_goes_to_the_judged_address_with_the_certificate_of_the_name(tmp_path: Path) -> None:
    server, client = certificate(tmp_path, "secure.example")
    named: list[str | None] = []
    server.sni_callback = lambda connection, name, tls: named.append(name)
    async with serving(server) as site:
        site.answers["/"] = reply("secret")
        web, _, wires = pretended(site, tls=client)
        assert "secret" in await get(web, WebContext(tmp_path), "https://secure.example/")
        assert wires.reached == [(PUBLIC, 443)]
        assert named == ["secure.example"]
        assert "certificate" in await refusal(web, WebContext(tmp_path), "https://other.example/")
        assert site.asked == ["secure.example/"]


async def test_a_redirect_out_of_https_is_not_followed(tmp_path: Path) -> None:
    server, client = certificate(tmp_path, "secure.example")
    async with serving(server) as site:
        site.answers["/"] = redirect("http://secure.example/plain")
        web, _, wires = pretended(site, tls=client)
        why = await refusal(web, WebContext(tmp_path, "fetch"), "https://secure.example/")
        assert "redirects to http://secure.example/plain, which is not protected against changes" in why
        assert len(wires.reached) == 1


def test_a_request_names_the_host_and_whether_it_is_guarded(tmp_path: Path) -> None:
    context = WebContext(tmp_path)
    request = fetch_request(read_url("https://Example.org/x"), "Fetch", context)
    assert (request.kind, request.host, request.guarded, request.agent) == ("fetch", "example.org", "", "dragoman")
    assert fetch_request(read_url("http://localhost/"), "Fetch", context).guarded == "localhost is this machine"
    assert "loopback" in fetch_request(read_url("http://[::1]/"), "Fetch", context).guarded
