"""A URL becomes an answer, and every step on the way is judged: the host, its addresses, each redirect.

Owns the order of it. A name is looked up once per step and only after leave was given for its host, since a lookup
alone already tells others; the connection then goes to an address that was looked at. A redirect to a host that no
rule allows ends it: whoever asked can ask for the new URL, and then somebody else is asked too.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from dragoman.builtin.tools.paths import AGENT
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
    from dragoman.builtin.web.url import Target
    from dragoman.policy import Request

MOST_REDIRECTS: Final = 5
# One address of several that does not answer must not take all the time there is.
_CONNECT_SECONDS: Final = 5.0
_PROXIES: Final = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def fetch_request(target: Target, title: str, context: ToolContext, *, guarded: str | None = None) -> Request:
    """What leave is needed for. `guarded` is why the host is inside, if a lookup told; its spelling may tell too."""
    return _request(target.host, title, context, guarded or _guarded(target.host, None, inside_by_name(target.host)))


def _request(host: str, title: str, context: ToolContext, guarded: str = "") -> Request:
    from dragoman.policy import Request

    return Request(
        AGENT,
        "fetch",
        title,
        host=host,
        root=context.roots[0] if context.roots else context.cwd,
        home=os.path.expanduser("~"),
        guarded=guarded,
    )


def _guarded(host: str, address: str | None, what: str | None) -> str:
    if what is None:
        return ""
    leads = "" if address is None or address == host.strip("[]") else f" leads to {address}, which"
    return f"{host}{leads} is {what}"


class Web:
    """Fetches. What it is made of can be replaced, for tests."""

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
        target: Target,
        context: ToolContext,
        *,
        seconds: float,
        limit_bytes: int,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        redirects: int = MOST_REDIRECTS,
    ) -> tuple[Target, http.Answer]:
        """The answer and where it came from, for a target whose host has leave. Raises: ToolError."""
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
                    _judge_redirect(target, following, asked_host, context)
                    target = following
        except TimeoutError:
            raise ToolError(f"{target.url} did not answer in full within {seconds:g} s; try another source") from None
        except OSError as error:
            raise ToolError(f"{target.url} cannot be fetched: {error.strerror or error}{_proxy_hint()}") from None

    async def _reach(self, target: Target, context: ToolContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to one of the host's addresses, all of which may be reached."""
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
            _judge_address(target, address, context)
        return await self._connect_to(addresses, target)

    async def _connect_to(
        self, addresses: Sequence[str], target: Target
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
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


def _judge_address(target: Target, address: str, context: ToolContext) -> None:
    """Raises: ToolError when the host must not be reached at this address."""
    title = f"Fetch {target.url}"
    guarded = _guarded(target.host, address, inside(address))
    verdict = context.verdict(fetch_request(target, title, context, guarded=guarded))
    if verdict.action == "deny":
        raise ToolError(verdict.why)
    # A rule against an address is also one against every name for it.
    by_address = context.verdict(_request(f"[{address}]" if ":" in address else address, title, context))
    if by_address.action == "deny":
        raise ToolError(f"{target.host} leads to {address}: {by_address.why}")


def _judge_redirect(target: Target, following: Target, asked_host: str, context: ToolContext) -> None:
    """Raises: ToolError when whoever asked has to ask again, or need not."""
    leads = f"{target.url} redirects to {following.url}"
    verdict = context.verdict(fetch_request(following, f"Fetch {following.url}", context))
    if verdict.action == "deny":
        raise ToolError(f"{leads}: {verdict.why}")
    if verdict.action == "ask" and following.host != asked_host:
        raise ToolError(
            f"{leads}, another host, for which there is no leave yet; fetch that URL by itself if you need it"
        )
    if target.scheme == "https" and following.scheme == "http":
        raise ToolError(f"{leads}, which anybody on the way can change; fetch that URL by itself if you need it")


def _default_tls() -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context()


def _proxy_hint() -> str:
    used = next((name for name in _PROXIES if os.environ.get(name)), None)
    return f" ({used} is set, but proxies are not used: what they reach cannot be judged)" if used else ""
