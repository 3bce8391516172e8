"""Fetches a URL and checks each step against the permission rules: the host, its addresses, each redirect.

Owns the order of the steps. A name is looked up once per step, and only after its host was allowed, because a lookup
already reveals the name to others; the connection then goes to an address that was checked. A redirect to a host that
no rule allows ends the fetch: the model can fetch the new URL by itself, and then the user is asked about it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from dragoman.builtin.tools.paths import request
from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.web import dns
from dragoman.builtin.web import http_client as http
from dragoman.builtin.web.public_ip import inside, inside_by_name, literal_address
from dragoman.builtin.web.url import join, read_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.builtin.web.url import ParsedUrl
    from dragoman.policy import Request

MOST_REDIRECTS: Final = 5
# One address of several that does not answer must not use up all of the time.
_CONNECT_SECONDS: Final = 5.0
_PROXIES: Final = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def fetch_request(target: ParsedUrl, title: str, context: ToolContext, *, guarded: str | None = None) -> Request:
    """Return the permission request for a host.

    `guarded` states why the host is not public, if a lookup showed that; otherwise its spelling decides.
    """
    guarded = guarded or _guarded(target.host, None, inside_by_name(target.host))
    return request("fetch", title, context, host=target.host, guarded=guarded)


def _guarded(host: str, address: str | None, what: str | None) -> str:
    if what is None:
        return ""
    leads = "" if address is None or address == host.strip("[]") else f" leads to {address}, which"
    return f"{host}{leads} is {what}"


class Web:
    """Fetches URLs. The arguments replace its parts in tests."""

    def __init__(
        self,
        *,
        resolve: Callable[[str], Awaitable[Sequence[str]]] = dns.resolve,
        connect: http.Connect = http.connect,
        timeout: Callable[[float], AbstractAsyncContextManager[object]] = asyncio.timeout,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._connect = connect
        self._timeout = timeout
        self._tls = tls

    async def send(
        self,
        target: ParsedUrl,
        context: ToolContext,
        *,
        seconds: float,
        limit_bytes: int,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        redirects: int = MOST_REDIRECTS,
    ) -> tuple[ParsedUrl, http.HttpResponse]:
        """Send a request to a host that was allowed; return the last URL and the response. Raises: ToolError."""
        asked_host, steps = target.host, [target.url]
        try:
            async with self._timeout(seconds):
                while True:
                    streams = await self._reach(target, context)
                    answer = await http.exchange(
                        streams, target, method=method, headers=headers, body=body, limit_bytes=limit_bytes
                    )
                    if answer.location is None:
                        return target, answer
                    following = read_url(join(target.url, answer.location))
                    if len(steps) > redirects:
                        raise ToolError(
                            f"{steps[0]} redirects more than {redirects} times, the last to {following.url}"
                        )
                    steps.append(following.url)
                    _check_redirect(target, following, asked_host, context)
                    target = following
        except TimeoutError:
            raise ToolError(f"{target.url} did not answer in full within {seconds:g} s; try another source") from None
        except OSError as error:
            raise ToolError(f"{target.url} cannot be fetched: {error.strerror or error}{_proxy_hint()}") from None

    async def _reach(
        self, target: ParsedUrl, context: ToolContext
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the host's addresses, after all of them were checked."""
        literal = literal_address(target.host)
        try:
            addresses = [literal] if literal is not None else await self._resolve(target.host)
        except OSError as error:
            raise ToolError(
                f"{target.host} cannot be looked up: {error.strerror or error}; is the name right?{_proxy_hint()}"
            ) from None
        if not addresses:
            raise ToolError(f"{target.host} has no address; is the name right?")
        for address in addresses:
            _check_address(target, address, context)
        tls = None
        if target.scheme == "https":
            tls = self._tls = self._tls or await asyncio.to_thread(_default_tls)
        name = target.host.strip("[]")
        *others, last = addresses
        for address in others:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._connect(address, target.port, tls=tls, name=name)
            except OSError:
                continue
        return await self._connect(last, target.port, tls=tls, name=name)


def _check_address(target: ParsedUrl, address: str, context: ToolContext) -> None:
    """Raises: ToolError when the host must not be reached at this address."""
    title = f"Fetch {target.url}"
    guarded = _guarded(target.host, address, inside(address))
    verdict = context.verdict(fetch_request(target, title, context, guarded=guarded))
    if verdict.action == "deny":
        raise ToolError(verdict.why)
    # A rule that denies an address also denies every name of it.
    host = f"[{address}]" if ":" in address else address
    by_address = context.verdict(request("fetch", title, context, host=host))
    if by_address.action == "deny":
        raise ToolError(f"{target.host} leads to {address}: {by_address.why}")


def _check_redirect(target: ParsedUrl, following: ParsedUrl, asked_host: str, context: ToolContext) -> None:
    """Raises: ToolError when a redirect is denied, or has to be fetched by itself."""
    leads = f"{target.url} redirects to {following.url}"
    verdict = context.verdict(fetch_request(following, f"Fetch {following.url}", context))
    if verdict.action == "deny":
        raise ToolError(f"{leads}: {verdict.why}")
    if verdict.action == "ask" and following.host != asked_host:
        raise ToolError(
            f"{leads}, another host, for which there is no permission yet; fetch that URL by itself if you need it"
        )
    if target.scheme == "https" and following.scheme == "http":
        raise ToolError(f"{leads}, which is not protected against changes; fetch that URL by itself if you need it")


def _default_tls() -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context()


def _proxy_hint() -> str:
    used = next((name for name in _PROXIES if os.environ.get(name)), None)
    return f" ({used} is set, but proxies are not used: the address they connect to cannot be checked)" if used else ""
