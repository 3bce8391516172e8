"""The table of paths that a served host has, besides ACP itself: by which method, for whom, and what answers.

What is not in the table, and is not ACP, is answered with 404 before anything of it is read. Owns the names of the
server too: its own origins, and the headers of every answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from dragoman.agent.serving import as_header, is_loopback, known_names
from dragoman.errors import ConfigError
from dragoman.transports.remote.answers import PageReply, text_answer
from dragoman.transports.remote.gate import JSON_MEDIA, Entered, PathRule

if TYPE_CHECKING:
    import ssl

    from dragoman.host.serving.server import ServeOptions

Handler: TypeAlias = Callable[[Entered, bytes], Awaitable[PageReply]]
EVERYWHERE: Final = ("0.0.0.0", "::")

_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
_TLS_ONLY: Final = (b"strict-transport-security", b"max-age=31536000")


class Route(NamedTuple):
    """A path that is answered, by one method."""

    method: bytes
    path: str
    """One that ends with a slash, and is not the slash alone, is for all paths below it."""
    handler: Handler
    entry: Literal["open", "page", "pair", "device", "token"] = "token"
    """As `PathRule.entry`; the same for all methods of a path."""
    media: bytes | None = JSON_MEDIA
    max_body_bytes: int | None = None


class RouteTable:
    """The routes of a host by their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._handlers: dict[str, dict[bytes, Handler]] = {}
        self._rules: dict[str, PathRule] = {}
        for route in self.routes:
            self._handlers.setdefault(route.path, {})[route.method] = route.handler
            known = self._rules.get(route.path)
            methods = frozenset((route.method, *(known.methods if known is not None else ())))
            self._rules[route.path] = PathRule(methods, route.entry, route.media, route.max_body_bytes)

    @property
    def pages(self) -> Mapping[str, Handler]:
        """What a `RemoteServer` calls for each path."""
        return {path: _by_method(handlers) for path, handlers in self._handlers.items()}

    def find_rule(self, path: str) -> PathRule | None:
        """Return what the gate asks of requests to a path; None if nothing is there."""
        found = self.find_path(path)
        return None if found is None else self._rules[found]

    def find_path(self, path: str) -> str | None:
        """Return the path of the table that answers a path; None if nothing is there."""
        below = path[: path.find("/", 1) + 1]
        return path if path in self._rules else below if below in self._rules and below else None


def _by_method(handlers: Mapping[bytes, Handler]) -> Handler:
    async def answer(entered: Entered, body: bytes) -> PageReply:
        handler = handlers.get(entered.method)
        return text_answer(405, "Method Not Allowed") if handler is None else await handler(entered, body)

    return answer


def check_open_address(address: str, host: str, tls: ssl.SSLContext | None, options: ServeOptions) -> None:
    """Refuse an address that others can reach without TLS, or under no name.

    Raises:
        ConfigError: with what to do.
    """
    if is_loopback(host):
        return
    if tls is None and not options.is_behind_proxy:
        raise ConfigError(
            f"{address} can be reached by other machines: give --tls-cert and --tls-key, or --behind-proxy if a proxy "
            "in front of it speaks TLS"
        )
    if host in EVERYWHERE and not options.hosts:
        raise ConfigError(
            f"{address} has no name: give the name that clients call it by, such as --host agents.example"
        )


def names_with_ports(names: Sequence[str], port: int) -> list[str]:
    """Return names without a port with the port too, and without it for a proxy in front that has the usual one."""
    return [host for name in names for host in ((name,) if ":" in name else (name, f"{name}:{port}"))]


def own_origins(
    host: str, port: int, names: Sequence[str], *, has_tls: bool, is_behind_proxy: bool
) -> frozenset[bytes]:
    """Return the origins of pages that the server itself serves.

    Args:
        host, port: Where it listens.
        names: By which clients call it.
        has_tls: Whether it speaks TLS.
        is_behind_proxy: Whether a proxy speaks TLS under these names.
    """
    direct = frozenset() if host in EVERYWHERE else known_names(host, port, ())
    given = frozenset(map(as_header, names_with_ports(names, port)))
    is_given_secure = has_tls or is_behind_proxy
    return _origins(direct, is_secure=has_tls) | _origins(given, is_secure=is_given_secure)


def _origins(names: Iterable[bytes], *, is_secure: bool) -> frozenset[bytes]:
    """Return names as browsers write origins: without the port that belongs to the scheme."""
    scheme, usual = (b"https://", b":443") if is_secure else (b"http://", b":80")
    return frozenset(scheme + name.removesuffix(usual) for name in names)


def safe_headers(*, is_secure: bool) -> Callable[[bytes], tuple[tuple[bytes, bytes], ...]]:
    """Return what gives the headers of every answer, by the name that the client called.

    Args:
        is_secure: Whether browsers reach the server over TLS.
    """

    def headers(name: bytes) -> tuple[tuple[bytes, bytes], ...]:
        # Not for loopback: `localhost` would be TLS only for every other program of the machine.
        is_local = is_loopback(name.decode("latin-1").lower().rpartition(":")[0].strip("[]"))
        return (*_HEADERS, _TLS_ONLY) if is_secure and not is_local else _HEADERS

    return headers
