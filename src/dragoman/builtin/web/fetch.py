"""The fetch of a URL, with each step checked against the permission rules: the host, its addresses, each redirect.

Owns the order of the steps. A name is looked up once per step, and only after its host was allowed, because a lookup
already reveals the name to others; the connection then goes to an address that was checked. A redirect to a host that
no rule allows ends the fetch: the model can fetch the new URL by itself, and then the user is asked about it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import threading
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from dragoman.builtin.tools.paths import request
from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.web import http_client as http
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


async def resolve(host: str) -> Sequence[str]:
    """Return all addresses of a host, in the order of the system's preference. Raises: OSError.

    A lookup may block for a long time: neither a cancelled turn nor the end of the program waits for it.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        found: list[str] | OSError
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except OSError as error:
            found = error
        except UnicodeError:  # a label too long for DNS
            found = OSError("it is not a valid host name")
        with suppress(RuntimeError):  # the event loop is closed, and nothing waits for the result
            loop.call_soon_threadsafe(settle, found)

    # Not an executor: the program waits for its threads at the end.
    threading.Thread(target=look, name=f"resolve {host}", daemon=True).start()
    return await answer


class Web:
    """The fetching of URLs. The arguments replace its parts in tests."""

    def __init__(
        self,
        *,
        resolve: Callable[[str], Awaitable[Sequence[str]]] = resolve,
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


Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# A page that the agent reads may name any address, and services on private addresses often trust every client that can
# reach them. An address that embeds another one is not public either, except in the one form (NAT64) that networks
# without IPv4 use for every public host.
_INSIDE: Final = (
    ("127.0.0.0/8", "this machine (loopback)"),
    ("0.0.0.0/8", "this machine"),
    ("10.0.0.0/8", "a private network"),
    ("172.16.0.0/12", "a private network"),
    ("192.168.0.0/16", "a private network"),
    ("100.64.0.0/10", "a provider's own network"),
    ("169.254.0.0/16", "link-local"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved for examples"),
    ("198.51.100.0/24", "reserved for examples"),
    ("203.0.113.0/24", "reserved for examples"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("198.18.0.0/15", "reserved for measurements"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::1/128", "this machine (loopback)"),
    ("::/128", "this machine"),
    ("::ffff:0:0/96", "an embedded IPv4 address"),
    ("::ffff:0:0:0/96", "an embedded IPv4 address"),
    ("::/96", "an embedded IPv4 address"),
    ("64:ff9b:1::/48", "an embedded IPv4 address (NAT64)"),
    ("2002::/16", "an embedded IPv4 address (6to4)"),
    ("2001::/32", "an embedded IPv4 address (Teredo)"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "reserved for examples"),
    ("3fff::/20", "reserved for examples"),
    ("fc00::/7", "a private network (unique local)"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "a private network (site-local)"),
    ("ff00::/8", "multicast"),
)
_NAT64: Final = "64:ff9b::/96"
_PUBLIC_IPV6: Final = "2000::/3"
_OWN_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def inside(text: str) -> str | None:
    """Return a description of an address that is not public, None for a public one."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "not an address"
    if isinstance(address, ipaddress.IPv6Address) and address in _network(_NAT64):
        # In a network without IPv4, DNS64 gives every public host such an address.
        within = inside(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        return None if within is None else f"{within}, by NAT64"
    for network, description in _INSIDE:
        if address in _network(network):
            return description
    if address.version == 6 and address not in _network(_PUBLIC_IPV6):
        return "reserved"
    return None if address.is_global else "not public"


def inside_by_name(host: str) -> str | None:
    """Do the same for a host by its name alone; None also means that it would have to be looked up."""
    if host in _OWN_NAMES or host.endswith(".localhost"):
        return "this machine"
    literal = literal_address(host)
    return None if literal is None else inside(literal)


def literal_address(host: str) -> str | None:
    """Return the address if the host is one, None if it is a name."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return None


@cache
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text)
