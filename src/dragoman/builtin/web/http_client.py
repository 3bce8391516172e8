"""One HTTP exchange with a given address: one request, and one response of bounded size.

Owns HTTP/1.1 as far as a single request needs it: head, chunks, compression; the connection is not kept. It connects to
the address it is given and never looks up a name, so the address that was checked is the one that is reached.
Cancelling closes the connection. Does not follow redirects and does not check rules.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from dragoman._version import __version__
from dragoman.builtin.tools.tool import ToolError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from dragoman.builtin.web.url import ParsedUrl

_HEAD_BYTES: Final = 64 * 1024
_LINE_BYTES: Final = 16 * 1024
_PIECE_BYTES: Final = 64 * 1024
_FIRST_PIECE_BYTES: Final = 256
_MOST_MEMBERS: Final = 10_000
_MOST_INTERIM: Final = 10
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class HttpResponse(Struct, frozen=True):
    """The response of a server. Names of headers are in lower case. The body of a redirect is not read."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes = b""
    is_cut: bool = False
    """The body is longer than what was read."""

    @property
    def location(self) -> str | None:
        """The target of a redirect. Servers put characters and spaces into it that are not allowed in a URL."""
        if self.status not in REDIRECTS or "location" not in self.headers:
            return None
        return self.headers["location"].encode("latin-1").decode("utf-8", "replace").replace(" ", "%20")


class Connect(Protocol):
    """A function that opens a connection to an address. With `tls` the certificate must be valid for `name`."""

    async def __call__(
        self, address: str, port: int, *, tls: ssl.SSLContext | None, name: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...


async def connect(
    address: str, port: int, *, tls: ssl.SSLContext | None, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises: OSError."""
    return await asyncio.open_connection(
        address, port, limit=_LINE_BYTES, ssl=tls, server_hostname=name if tls is not None else None
    )


async def exchange(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    target: ParsedUrl,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    limit_bytes: int,
) -> HttpResponse:
    """Send a request, read at most `limit_bytes` of the body, and close. Raises: OSError; ToolError for other data."""
    reader, writer = streams
    try:
        writer.write(_request(target, method, headers or {}, body))
        await writer.drain()
        return await _read_answer(reader, limit_bytes)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        why = "ended too early" if isinstance(error, asyncio.IncompleteReadError) else "is not HTTP"
        raise ToolError(f"the answer of {target.authority} {why}; try it again later") from None
    finally:
        # Not `close`: that would wait for a peer that does not complete the shutdown of TLS.
        writer.transport.abort()


def _request(target: ParsedUrl, method: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = {
        "Host": target.authority,
        "User-Agent": f"dragoman/{__version__}",
        "Accept-Encoding": "gzip, deflate",
        "Connection": "close",
        **headers,
    }
    if body:
        lines["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    if any(set(f"{name}{value}") & {"\r", "\n", "\0"} for name, value in lines.items()):
        raise ToolError("a header of the request must not contain a line end or a NUL")
    return f"{method} {target.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body


async def _read_answer(reader: asyncio.StreamReader, limit_bytes: int) -> HttpResponse:
    for _ in range(_MOST_INTERIM):
        status, reason, headers = await _read_head(reader)
        if status >= 200:
            break
    else:
        raise ValueError("only interim answers")
    answer = HttpResponse(status, reason, headers)
    if answer.location is not None or status in (204, 304):
        return answer
    raw, is_cut = await _read_body(reader, headers, limit_bytes)
    encoding = headers.get("content-encoding", "")
    # In a thread, where it does not delay anything else.
    body, is_longer = await asyncio.to_thread(unpack, raw, encoding, limit_bytes) if encoding else (raw, False)
    return HttpResponse(status, reason, headers, body, is_cut or is_longer)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, str, dict[str, str]]:
    version, _, rest = (await _line(reader)).partition(" ")
    code, _, reason = rest.strip().partition(" ")
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
        raise ValueError("no status line")
    headers: dict[str, str] = {}
    left = _HEAD_BYTES
    while line := await _line(reader):
        left -= len(line)
        if left < 0:
            raise ValueError("the head is too long")
        name, colon, value = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            # The first of several headers with one name counts, as in most clients.
            headers.setdefault(name.strip().lower(), value.strip())
    return int(code), reason.strip()[:100], headers


async def _line(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str], limit_bytes: int) -> tuple[bytes, bool]:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _read_chunks(reader, limit_bytes)
    length = headers.get("content-length", "")
    if not length:
        return await _read_up_to(reader, limit_bytes, is_exact=False)
    if not (length.isascii() and length.isdecimal()):
        raise ValueError("no length")
    body, is_cut = await _read_up_to(reader, min(int(length), limit_bytes), is_exact=True)
    return body, is_cut or int(length) > limit_bytes


async def _read_chunks(reader: asyncio.StreamReader, limit_bytes: int) -> tuple[bytes, bool]:
    body = bytearray()
    while size := int((await _line(reader)).partition(";")[0].strip(), 16):
        if size < 0:
            raise ValueError("no size")
        piece, _ = await _read_up_to(reader, min(size, limit_bytes - len(body)), is_exact=True)
        body += piece
        if len(piece) < size:
            return bytes(body), True
        if await _line(reader):
            raise ValueError("a chunk is longer than its size")
    return bytes(body), False


async def _read_up_to(reader: asyncio.StreamReader, count: int, *, is_exact: bool) -> tuple[bytes, bool]:
    """Read up to `count` bytes, and find out whether there are more.

    With `is_exact` there must be `count` bytes, and no more are expected.
    """
    body = bytearray()
    while len(body) < count:
        piece = await reader.read(min(_PIECE_BYTES, count - len(body)))
        if not piece:
            if is_exact:
                raise asyncio.IncompleteReadError(bytes(body[-100:]), count)
            return bytes(body), False
        body += piece
    return bytes(body), not is_exact and bool(await reader.read(1))


def unpack(raw: bytes, encoding: str, limit_bytes: int) -> tuple[bytes, bool]:
    """Return the decompressed body and whether it is longer than the limit. A small body may unpack to any size.

    Takes time in proportion to the two sizes, whatever the body is made of. Raises: ToolError.
    """
    names = [name for name in encoding.lower().replace(" ", "").split(",") if name not in ("", "identity")]
    if not names or not raw:
        return raw, False
    if names not in (["gzip"], ["x-gzip"], ["deflate"]):
        raise ToolError(f"the answer is compressed as {', '.join(names)[:100]}, which is not supported")
    # The lower four bits of the first byte distinguish a zlib header from raw deflate data.
    window = 47 if names != ["deflate"] or raw[0] & 0x0F == 8 else -15
    body = bytearray()
    at = 0
    try:
        for _ in range(_MOST_MEMBERS):
            at = _unpack_member(memoryview(raw), at, window, body, limit_bytes)
            if at >= len(raw) or len(body) >= limit_bytes:
                return bytes(body), at < len(raw)
    except zlib.error:
        if body:
            return bytes(body), True
        raise ToolError("the answer is declared as compressed, but cannot be read; try it again later") from None
    raise ToolError(f"the answer is compressed in more than {_MOST_MEMBERS:,} pieces, which no real page is")


def _unpack_member(raw: memoryview, at: int, window: int, body: bytearray, limit_bytes: int) -> int:
    """Append one compressed member to the body, up to the limit, and return where the next one begins.

    The input is given in pieces that grow, because what is left after a member is copied for each of them.
    """
    unpacker = zlib.decompressobj(window)
    size = _FIRST_PIECE_BYTES
    while at < len(raw) and len(body) < limit_bytes and not unpacker.eof:
        piece = raw[at : at + size]
        body += unpacker.decompress(piece, limit_bytes - len(body))
        at += len(piece) - len(unpacker.unused_data) - len(unpacker.unconsumed_tail)
        size = min(size * 2, _PIECE_BYTES)
    return at
