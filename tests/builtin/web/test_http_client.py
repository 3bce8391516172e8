"""One HTTP exchange: every form of response, within limits of size and time."""

import asyncio
import gzip
import threading
import time
import zlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.web import http_client
from dragoman.builtin.web.http_client import HttpResponse, connect, exchange, unpack
from dragoman.builtin.web.url import read_url
from tests.builtin.web.site import reply, serving

LIMIT = 1000


class NoTransport:
    """The writing half of a connection without a peer."""

    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False
        self.transport = self

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True


async def answered(raw: bytes, *, limit: int = LIMIT, **options: Any) -> HttpResponse:
    reader = asyncio.StreamReader(limit=16 * 1024)
    reader.feed_data(raw)
    reader.feed_eof()
    writer: Any = NoTransport()
    try:
        return await exchange((reader, writer), read_url("http://example.org/a?b"), limit_bytes=limit, **options)
    finally:
        assert writer.is_aborted


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x;note=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + end


async def test_an_answer_is_read_in_each_of_its_forms() -> None:
    assert (await answered(reply("hello"))).body == b"hello"
    assert (await answered(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")).body == b"until the end"
    assert (await answered(b"HTTP/1.1 200\nX: y\n\nbare line ends")).body == b"bare line ends"
    assert (await answered(chunked(b"one ", b"two"))).body == b"one two"
    assert (await answered(b"HTTP/1.1 103 Early\r\n\r\n" + reply("then"))).body == b"then"
    answer = await answered(reply("x", "404 Not There", A="1"))
    assert (answer.status, answer.reason, answer.headers["a"]) == (404, "Not There", "1")
    assert (await answered(b"HTTP/1.1 204 No\r\n\r\nnot a body")).body == b""


@pytest.mark.parametrize("method", ["gzip", "deflate", "deflate without head", "two gzips"])
async def test_a_compressed_answer_is_decompressed(method: str) -> None:
    text = b"hello " * 20
    raw = zlib.compressobj(wbits=-15)
    compressed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "deflate without head": raw.compress(text) + raw.flush(),
        "two gzips": gzip.compress(text[:60]) + gzip.compress(text[60:]),
    }[method]
    encoding = "gzip" if "gzip" in method else "deflate"
    answer = await answered(reply(compressed, Content_Encoding=encoding))
    assert (answer.body, answer.is_cut) == (text, False)


@pytest.mark.parametrize(
    "raw",
    [
        reply(b"x" * (LIMIT + 1)),
        chunked(b"x" * 600, b"x" * 600),
        chunked(b"x" * 600, end=b"7ffffffff0\r\n" + b"x" * 2000),
        b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * (LIMIT + 1),
        reply(gzip.compress(b"x" * 200_000), Content_Encoding="gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 2000,
    ],
    ids=["length", "chunks", "huge chunk", "to the end", "bomb", "declared as huge"],
)
async def test_of_a_long_answer_only_the_beginning_is_read(raw: bytes) -> None:
    answer = await answered(raw)
    assert answer.is_cut
    assert answer.body == b"x" * LIMIT


async def test_an_answer_of_exactly_the_largest_size_is_whole() -> None:
    for raw in (reply(b"x" * LIMIT), chunked(b"x" * LIMIT), b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * LIMIT):
        answer = await answered(raw)
        assert (len(answer.body), answer.is_cut) == (LIMIT, False)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "ended too early"),
        (b"HTTP/1.1 200 OK\r\n", "ended too early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "ended too early"),
        (chunked(b"one", end=b"ff\r\nshort"), "ended too early"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "is not HTTP"),
        (b"HTTP/2 200\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "is not HTTP"),
        (chunked(b"one", end=b"nonsense\r\n"), "is not HTTP"),
        (chunked(b"one", end=b"-5\r\n"), "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: yyyyyyyyyyyyyyyyyyyyyyy\r\n" * 4000 + b"\r\n", "is not HTTP"),
        (b"HTTP/1.1 100 Go\r\n\r\n" * 50, "is not HTTP"),
        (reply(b"x", Content_Encoding="br"), "compressed as br"),
        (reply(b"x", Content_Encoding="gzip, gzip"), "compressed as gzip, gzip"),
        (reply(b"not compressed", Content_Encoding="gzip"), "declared as compressed"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_an_error_with_the_reason(raw: bytes, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        await answered(raw)


@given(st.binary(max_size=200), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", chunked(b"a", end=b"")]))
def test_any_bytes_are_an_answer_or_an_error_for_the_model(noise: bytes, start: bytes) -> None:
    async def attempt() -> None:
        with suppress(ToolError):
            await answered(start + noise)

    asyncio.run(attempt())


async def test_a_request_is_one_that_servers_know() -> None:
    async with serving() as site:
        site.answers["/a"] = reply("yes")
        streams = await connect("127.0.0.1", site.port, tls=None, name="ignored")
        target = read_url(site.url("/a?b=c"))
        answer = await exchange(streams, target, method="POST", headers={"X-A": "1"}, body=b"{}", limit_bytes=LIMIT)
        assert answer.body == b"yes"
        assert site.asked == [f"127.0.0.1:{site.port}/a?b=c"]
        assert site.bodies == [b"{}"]
        assert site.heads[0]["x-a"] == "1"
        assert site.heads[0]["connection"] == "close"


async def test_a_header_with_a_line_end_is_refused() -> None:
    with pytest.raises(ToolError, match="must not contain a line end"):
        await answered(reply("x"), headers={"X-Key": "a\r\nEvil: 1"})


async def test_cancelling_closes_the_connection() -> None:
    async with serving() as site:
        begun = asyncio.Event()

        async def drip(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x")
                await writer.drain()
                begun.set()
                await asyncio.sleep(0)

        site.answers["/"] = drip
        streams = await connect("127.0.0.1", site.port, tls=None, name="")
        task = asyncio.ensure_future(exchange(streams, read_url(site.url()), limit_bytes=1 << 40))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await site.hung_up.wait()


@pytest.mark.parametrize("content", [b"", b"x"])
def test_a_body_of_very_many_compressed_members_is_refused_soon(content: bytes) -> None:
    """Three megabytes of these once kept the agent busy for more than a minute."""
    member = gzip.compress(content)
    few, many = member * 2_000, member * (3_000_000 // len(member))
    start = time.process_time()
    assert unpack(few, "gzip", 1 << 20)[1] is False
    for_few = time.process_time() - start
    start = time.process_time()
    with pytest.raises(ToolError, match="more than 10,000 pieces"):
        unpack(many, "gzip", 1 << 20)
    assert time.process_time() - start < 30 * for_few + 0.05


async def test_the_event_loop_is_free_while_a_body_is_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def unpack_here(raw: bytes, encoding: str, limit_bytes: int) -> tuple[bytes, bool]:
        threads.append(threading.get_ident())
        return unpack(raw, encoding, limit_bytes)

    monkeypatch.setattr(http_client, "unpack", unpack_here)
    answer = await answered(reply(gzip.compress(b"x"), Content_Encoding="gzip"))
    assert answer.body == b"x"
    assert threads
    assert threading.get_ident() not in threads
