"""Requests to an endpoint whose answer is a stream of server-sent events.

Owns the connection, the framing of events, and the errors, which name the address, what happened and what to do. The
HTTP client is imported when the first request is sent.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from dragoman._version import __version__
from dragoman.adapters.values import AdapterError
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx2

CONNECT_SECONDS: Final = 20.0
# Between two pieces of an answer. Models think for minutes without a word.
READ_SECONDS: Final = 600.0
_LARGEST_ERROR_BYTES: Final = 64 * 1024
_SHOWN_LETTERS: Final = 300


class StreamEndpoint:
    """An address that answers with a stream of events.

    Args:
        url: where requests are sent.
        headers: headers of every request, such as `Authorization`.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        if not _is_address(url):
            raise ConfigError(f"{url!r} is not the address of an endpoint; it begins with http:// or https://")
        self.url = url
        self.headers = dict(headers or {})
        self._client: httpx2.AsyncClient | None = None

    @property
    def name(self) -> str:
        """A name for the agent behind it, which differs for every address."""
        parts = urlsplit(self.url)
        return "-".join(part for part in re.split(r"[^A-Za-z0-9.]+", f"{self.title}{parts.path}") if part)

    @property
    def title(self) -> str:
        """The name of the server, for users."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    async def events(
        self, method: str, url: str, body: Any = None, *, kind: str = "a stream of events"
    ) -> AsyncIterator[bytes]:
        """Send a request and give the data of each event. A body that is JSON is one event.

        Args:
            kind: what is expected, for errors.

        Raises:
            AdapterError: the server cannot be reached, refuses, answers with something else, or breaks off.
        """
        async with self.answer(method, url, body) as response:
            if response.status_code == 204:
                return
            if response.status_code != 200:
                raise refused(url, response.status_code, await start_of(response))
            media_type = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
            if media_type == "application/json":
                yield await _whole(response)
                return
            if media_type == "text/html":
                raise AdapterError(f"{url} answered with a web page, not with {kind}; check the address")
            reader = EventData()
            async for piece in response.aiter_bytes():
                for data in reader.feed(piece):
                    yield data
            for data in reader.end():
                yield data

    async def json(self, url: str, seconds: float) -> Any:
        """Return the JSON that a GET gives, None if it gives none in this time. For what is nice to have."""
        import asyncio

        try:
            async with asyncio.timeout(seconds), self.answer("GET", url, None) as response:
                return msgspec.json.decode(await _whole(response)) if response.status_code == 200 else None
        except (AdapterError, TimeoutError, msgspec.DecodeError):
            return None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def answer(self, method: str, url: str, body: Any) -> AsyncIterator[httpx2.Response]:
        """Send a request; the response has not been read. Raises: AdapterError."""
        client = self._opened()
        import httpx2

        headers = {"accept": "text/event-stream, application/json", "user-agent": f"dragoman/{__version__}"}
        content: bytes | None = None
        if body is not None:
            headers["content-type"] = "application/json"
            content = msgspec.json.encode(body)
        try:
            async with client.stream(method, url, content=content, headers={**headers, **self.headers}) as response:
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise AdapterError(
                f"{url} cannot be reached ({_why(error)}); start the server, or check the address"
            ) from error
        except httpx2.TransportError as error:
            raise StreamBroken(f"the connection to {url} broke off ({_why(error)}); what arrived is kept") from error

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            try:
                import httpx2
            except ImportError:
                from dragoman.extras import install_command

                raise AdapterError(f"endpoints need the package httpx2: {install_command('agent')}") from None
            timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=None)
            verify: Any = True
            if self.url.startswith("http://"):
                import ssl

                verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read the certificates takes long
            self._client = httpx2.AsyncClient(verify=verify, timeout=timeout, follow_redirects=False)
        return self._client


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an IPv6 address, or a port that is not a number
        return False


class StreamBroken(AdapterError):
    """An answer ended in the middle."""


def refused(url: str, status: int, body: bytes) -> AdapterError:
    """Return the error for a status other than 200."""
    text = " ".join(_message_of(body).split())[:_SHOWN_LETTERS]
    hint = {
        401: "; pass its key, for example --header 'Authorization: Bearer ...'",
        403: "; pass its key, for example --header 'Authorization: Bearer ...'",
        404: "; check the path of the address",
        405: "; check the path of the address",
    }.get(status, "")
    return AdapterError(f"{url} answered with status {status}{f': {text}' if text else ''}{hint}")


def _message_of(body: bytes) -> str:
    """Return the text of an error: the message in a JSON body, or the body itself."""
    text = body.decode(errors="replace")
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "" if text.lstrip().startswith("<") else text
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def not_understood(url: str, what: str, data: bytes, error: Exception) -> AdapterError:
    """Return the error for an event that is not what this kind of endpoint sends."""
    start = data[:80].decode(errors="replace")
    return AdapterError(
        f"{url} sent something that is not {what} ({error}): {start!r}; what arrived before is kept; "
        "check the address, or name the kind of endpoint with --as"
    )


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


async def start_of(response: httpx2.Response) -> bytes:
    """Return the beginning of a body, such as that of an error."""
    found = b""
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) > _LARGEST_ERROR_BYTES:
            break
    return found[:_LARGEST_ERROR_BYTES]


async def _whole(response: httpx2.Response) -> bytes:
    found: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        found.append(piece)
        size += len(piece)
        if size > LARGEST_EVENT_BYTES:
            raise AdapterError(f"an answer is longer than {LARGEST_EVENT_BYTES} bytes")
    return b"".join(found)


# The largest event that is known is a whole image in base64.
LARGEST_EVENT_BYTES: Final = 64 * 1024 * 1024


class EventData:
    """Bytes as they arrive, cut anywhere, and the data of the events that are complete.

    Lines end with LF, CRLF or CR, an empty line ends an event, `data:` lines of one event are joined; comments,
    `event:`, `id:` and `retry:` are skipped. What is kept between two pieces is bounded.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of each event that ends in this piece. Raises: AdapterError for one that is too large."""
        text = self._rest + piece
        if not self._is_begun and text:
            self._is_begun = True
            text = text.removeprefix(b"\xef\xbb\xbf")
        # A CR at the end may be the first half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        whole = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = whole.split(b"\n")
        self._rest = rest + held
        found = [data for line in lines if (data := self._line(line)) is not None]
        if len(self._rest) + self._data_bytes > LARGEST_EVENT_BYTES:
            raise AdapterError(f"the server sent an event of more than {LARGEST_EVENT_BYTES} bytes")
        return found

    def end(self) -> list[bytes]:
        """Return the event that no empty line follows, when the response has ended."""
        return self.feed(b"\n\n")

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            data, self._data, self._data_bytes = b"\n".join(self._data), [], 0
            return data
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._data_bytes += len(value)
        return None
