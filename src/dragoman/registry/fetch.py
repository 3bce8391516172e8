"""One file from the network, fetched within limits of size and time.

Only https addresses are fetched, and http addresses of this machine; each redirect is checked as well. The caller
checks whether the content is the right one.
"""

from __future__ import annotations

import hashlib
import http.client
import time
from typing import IO, TYPE_CHECKING, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from dragoman._version import __version__
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK_BYTES: Final = 1 << 16
_SILENCE_SECONDS: Final = 30.0  # without a byte; the caller limits the time for the whole file
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class FetchError(ConfigError):
    """A file could not be fetched; the message names the address and the reason."""


def fetch(
    url: str,
    into: IO[bytes],
    *,
    limit_bytes: int,
    seconds: float,
    progress: Callable[[int, int | None], None] | None = None,
) -> str:
    """Write the file at `url` to `into` and return its sha256.

    Args:
        url: an https address, or an http address of this machine.
        into: receives the content.
        limit_bytes: the largest size.
        seconds: the longest time for the whole file.
        progress: called with the number of bytes so far, and of all of them if the server states it.

    Raises:
        FetchError: the address is not allowed, no server answers, or the file is too long or too slow.
    """
    check_address(url)
    deadline = time.monotonic() + seconds
    request = Request(url, headers={"User-Agent": f"dragoman/{__version__}"})
    digest, size_bytes = hashlib.sha256(), 0
    try:
        with _opener(url).open(request, timeout=min(_SILENCE_SECONDS, seconds)) as answer:
            whole_bytes = int(answer.headers.get("Content-Length") or 0)
            if whole_bytes > limit_bytes:
                raise FetchError(f"{url}: longer than {limit_bytes} bytes; not fetched")
            while chunk := answer.read1(_CHUNK_BYTES):
                size_bytes += len(chunk)
                if size_bytes > limit_bytes:
                    raise FetchError(f"{url}: longer than {limit_bytes} bytes; not fetched")
                if time.monotonic() > deadline:
                    raise FetchError(f"{url}: not complete after {seconds:g} seconds; try again later")
                digest.update(chunk)
                into.write(chunk)
                if progress is not None:
                    progress(size_bytes, whole_bytes or None)
            if answer.length:  # fewer bytes than were announced
                raise FetchError(f"{url}: the connection ended {answer.length} bytes too early; try again")
    except HTTPError as error:
        error.close()
        raise FetchError(f"{url}: the server answered {error.code} {error.reason}") from None
    except URLError as error:
        raise FetchError(f"{url}: {error.reason}; check the address and the network") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(f"{url}: {str(error) or type(error).__name__}; check the address and the network") from None
    return digest.hexdigest()


def check_address(url: str, *, came_from: str = "") -> None:
    """Check that an address is https, or http on this machine. Raises: FetchError."""
    try:
        parts = urlsplit(url)
        host, has_password = parts.hostname or "", parts.username is not None
    except ValueError:
        raise FetchError(f"{url!r} is not an address; write https://...") from None
    if not url.isprintable() or " " in url or not host:
        raise FetchError(f"{url!r} is not an address; write https://...")
    if has_password:
        raise FetchError(f"the address of {host} contains a user name; remove it, since addresses are shown")
    if parts.scheme == "https":
        return
    # A remote server must not redirect to services of this machine.
    if parts.scheme == "http" and host in _LOOPBACK and (not came_from or urlsplit(came_from).hostname in _LOOPBACK):
        return
    raise FetchError(f"{url}: only https addresses are fetched (http only from this machine)")


class _Redirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        check_address(urljoin(req.full_url, newurl), came_from=req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(url: str) -> OpenerDirector:
    """Open addresses of this machine directly, and all others through the proxy of the user, if there is one."""
    is_local = urlsplit(url).hostname in _LOOPBACK
    return build_opener(_Redirects, *([ProxyHandler({})] if is_local else []))
