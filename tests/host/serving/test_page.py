"""The web page on the wire: exactly the files of its table, under the names of the server, with its policy."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.host.serving.page_files import PageFiles
from dragoman.host.serving.pairing import NewDevice
from dragoman.host.serving.server import ServeOptions
from tests.host.serving.kit import FREELY, Served, served
from tests.host.serving.page_kit import FILES, build_page
from tests.host.test_sessions import Steps
from tests.transports.certificates import Certificates
from tests.transports.remote_kit import Http

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dragoman dompurify"
)
NAME = "agents.example"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


BARE = {"authorization": "", "content_type": "", "accept": ""}


@asynccontextmanager
async def paged(tmp_path: Path, page: Path | None = None, **options: object) -> AsyncIterator[Served]:
    settings = {"limits": FREELY, "drain_seconds": 1.0, "web": True, "hosts": (NAME,), **options}
    files = PageFiles(page or build_page(tmp_path / "page"))
    async with served(Steps(), tmp_path, options=ServeOptions(**settings), page=files) as host:  # type: ignore[arg-type]  # of tests
        yield host


async def get(at: Served, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    return await Http(at.port).ask("GET", b"", path=path, **{**BARE, **headers})


async def test_each_file_of_the_table_is_served_as_it_was_built_and_nothing_else(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        for path, (_, kind, cache, body) in FILES.items():
            status, headers, found = await get(host, path)
            assert (status, found, headers["content-type"]) == (200, body, kind)
            assert headers["cache-control"].endswith(cache)
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["permissions-policy"] == "camera=(), microphone=(), geolocation=()"
            assert headers.get("content-security-policy") == (POLICY if path == "/" else None)
            assert "access-control-allow-origin" not in headers
            assert "set-cookie" not in headers
        for path in (
            *("/index.html", "/secret.txt", "/table.json", "/assets/", "/assets/secret.txt", "/assets/../secret.txt"),
            *("/share", "/sessions/1", "/assets/main.0a1b2c.js/", "//", "/page/index.html", "/.env"),
        ):
            assert (await get(host, path))[0] == 404, path
        assert (await get(host, "/%2e%2e/secret.txt"))[0] == 400
        status, _, body = await get(host, "/?token=abc&host=evil.example")
        assert (status, body) == (200, FILES["/"][3])
        packed = await get(host, "/", accept_encoding="br, gzip")
        assert packed[1]["content-encoding"] == "gzip"
        assert gzip.decompress(packed[2]) == FILES["/"][3]
        status, headers, _ = await Http(host.port).ask("POST", b"{}", path="/", authorization="")
        assert (status, headers["allow"]) == (405, "GET")


async def test_the_page_is_for_its_own_names_and_for_no_other_site(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        own = f"http://127.0.0.1:{host.port}"
        cases: list[tuple[int, dict[str, str]]] = [
            (200, {"origin": own}),
            (200, {"origin": own.upper()}),
            (200, {"host": f"localhost:{host.port}", "origin": f"http://localhost:{host.port}"}),
            (200, {"host": NAME, "origin": f"http://{NAME}"}),
            (200, {"sec_fetch_site": "none"}),
            (200, {"sec_fetch_site": "same-origin"}),
            (403, {"sec_fetch_site": "same-site"}),
            (403, {"sec_fetch_site": "cross-site"}),
            (403, {"origin": "https://evil.example"}),
            (403, {"origin": "null"}),
            (403, {"origin": f"http://127.0.0.1:{host.port + 1}"}),
            (403, {"origin": f"https://127.0.0.1:{host.port}"}),
            (403, {"host": f"evil.example:{host.port}"}),
            (403, {"host": f"127.0.0.1:{host.port + 1}"}),
            (403, {"host": "127.0.0.1"}),
        ]
        for status, headers in cases:
            for path in ("/", "/assets/main.0a1b2c.js", "/sw.js"):
                assert (await get(host, path, **headers))[0] == status, (path, headers)


async def test_a_listed_origin_of_others_gets_no_page_and_the_own_one_no_header_of_others(tmp_path: Path) -> None:
    other = "https://chat.example"
    async with paged(tmp_path, origins=(other,)) as host:
        assert (await get(host, "/", origin=other))[0] == 403
        own = f"http://127.0.0.1:{host.port}"
        bearer = {"authorization": f"Bearer {host.secret}"}
        for origin, allowed in ((own, None), (other, other)):
            status, headers, _ = await Http(host.port).ask("POST", b"{}", path="/ticket", origin=origin, **bearer)
            assert (status, headers.get("access-control-allow-origin")) == (200, allowed)
            assert "access-control-allow-credentials" not in headers


async def test_a_file_that_is_not_the_one_that_was_built_is_not_served(tmp_path: Path) -> None:
    folder = build_page(tmp_path / "page")
    (folder / "assets/main.0a1b2c.js").write_bytes(b"alert(1)")
    (folder / "sw.js").unlink()
    async with paged(tmp_path, folder) as host:
        assert (await get(host, "/"))[0] == 200
        assert (await get(host, "/assets/main.0a1b2c.js"))[0] == 404
        assert (await get(host, "/sw.js"))[0] == 404
        assert host.server.page is not None
        assert not host.server.page.is_complete
        assert len(host.server.page.problems) == 2


async def test_an_installation_without_the_page_says_so_and_how_to_get_it(tmp_path: Path) -> None:
    async with paged(tmp_path, tmp_path / "nothing") as host:
        status, headers, body = await get(host, "/")
        assert (status, headers["content-type"]) == (503, "text/plain; charset=utf-8")
        assert b"no web page" in body
        assert b"make run" in body
    async with served(Steps(), tmp_path / "plain") as plain:
        assert (await get(plain, "/"))[0] == 404


async def test_names_of_a_proxy_that_speaks_tls_are_own_origins_with_its_scheme(tmp_path: Path) -> None:
    async with paged(tmp_path, is_behind_proxy=True) as host:
        assert (await get(host, "/", host=NAME, origin=f"https://{NAME}"))[0] == 200
        assert (await get(host, "/", host=NAME, origin=f"http://{NAME}"))[0] == 403
        _, headers, _ = await get(host, "/", host=NAME)
        assert headers["strict-transport-security"] == "max-age=31536000"
        _, headers, _ = await get(host, "/")
        assert "strict-transport-security" not in headers


async def test_an_address_that_others_reach_is_refused_without_tls_with_the_page_too(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        for address in ("0.0.0.0:0", "[::]:0"):
            with pytest.raises(ConfigError, match="--tls-cert"):
                await host.server.listen(address)


async def test_with_tls_the_page_and_its_cookie_are_bound_to_it(certificates: Certificates, tmp_path: Path) -> None:
    options = ServeOptions(limits=FREELY, web=True)
    page = PageFiles(build_page(tmp_path / "page"))
    async with served(Steps(), tmp_path, options=options, page=page, tls=certificates.server()) as host:
        pairing = host.server.pairing
        assert pairing is not None
        assert pairing.address == f"https://127.0.0.1:{host.port}/"
        trusted = ssl.create_default_context(cafile=certificates.authority)
        body = json.dumps({"code": pairing.codes.issue(NewDevice("ada")), "name": "phone"})
        for scheme, status in (("http", 403), ("https", 200)):
            reader, writer = await asyncio.open_connection("127.0.0.1", host.port, ssl=trusted)
            origin = f"{scheme}://127.0.0.1:{host.port}"
            sent = Http(host.port).request("POST", body.encode(), path="/pair", authorization="", origin=origin)
            writer.write(sent)
            async with asyncio.timeout(60):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert head.startswith(f"HTTP/1.1 {status}")
            assert ("set-cookie: __Host-device=" in head) == ("; Secure" in head) == (status == 200)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_probes_need_no_token(tmp_path: Path) -> None:
    async with paged(tmp_path) as host:
        assert (await get(host, "/healthz"))[::2] == (200, b"ok\n")
        assert (await get(host, "/readyz"))[::2] == (200, b"ready\n")
