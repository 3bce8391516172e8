"""The decision by the head of a request whether it may enter, before its body is read or its upgrade is accepted.

Owns the checks that keep web pages, forged hosts and smuggled requests out. They are the same for HTTP and for
WebSocket, and work on the header list as it came, because a list in which a name occurs twice means different things to
different programs. Whom a token belongs to is looked up by the application. Pure, except for that call.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Set
from typing import Final, Literal, NamedTuple

import msgspec

from dragoman.transports.remote.sse import MIME_TYPE
from dragoman.wire import LIMIT_BYTES

MAX_HEAD_BYTES: Final = 32 * 1024
MAX_BODY_BYTES: Final = LIMIT_BYTES  # a message may be as long on every transport
Right = Literal["view", "prompt", "answer", "admin"]
ALL_RIGHTS: Final[frozenset[Right]] = frozenset(("view", "prompt", "answer", "admin"))

_SINGLE: Final = (
    b"host",
    b"origin",
    b"content-length",
    b"content-type",
    b"transfer-encoding",
    b"authorization",
    b"upgrade",
    b"expect",
    b"acp-connection-id",
    b"acp-session-id",
    b"last-event-id",
    b"x-dragoman-half",
)
_METHODS: Final = (b"POST", b"GET", b"DELETE", b"OPTIONS")
_PATH: Final = re.compile(rb"/[A-Za-z0-9._~/-]*")
_TICKET: Final = "acp.ticket."
SUBPROTOCOL: Final = "acp.v1"
JSON_MEDIA: Final = b"application/json"
HALF: Final = b"x-dragoman-half"
"""The header with the half of a device's key that its page keeps; pages of other origins cannot send it."""
DEVICE_COOKIE: Final = b"device"
SECURE_COOKIE: Final = b"__Host-device"
"""With TLS: no page of a neighbouring name can set it."""
_OWN_SITE: Final = (b"none", b"same-origin")


class Principal(msgspec.Struct, frozen=True):
    """Whom a token belongs to, and what may be done with it."""

    name: str
    rights: frozenset[Right] = ALL_RIGHTS
    folders: tuple[str, ...] | None = None
    """Where its sessions may work; None: everywhere."""
    key: str = ""
    """Which of several logins of one user it is; empty for a token, which its name says."""


class Head(NamedTuple):
    """The head of a request, as it came; names of headers in lower case."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    peer: str = ""
    """The address it came from."""


class GateRefusal(NamedTuple):
    """Why a request is not served."""

    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    again: Awaitable[None] | None = None
    """What to wait for before the request is examined once more: the answer may be another one then."""


class Entered(NamedTuple):
    """A request that may be served."""

    method: bytes
    path: str
    headers: dict[bytes, bytes]
    principal: Principal
    is_upgrade: bool = False
    subprotocol: str | None = None
    way: Literal["open", "token", "ticket", "device"] = "open"
    """What it entered with."""
    peer: str = ""
    max_body_bytes: int = MAX_BODY_BYTES
    is_secure: bool = False
    """Whether a browser has come over TLS."""
    refused: GateRefusal | None = None
    """Why an upgrade by a ticket is closed again at once: a page does not see the status of a refused upgrade."""


class PathRule(msgspec.Struct, frozen=True):
    """What a path asks of a request, in addition to what is asked of all."""

    methods: Set[bytes]
    entry: Literal["open", "page", "pair", "device", "token"] = "token"
    """Who may enter: `open` every client; `page` a browser that was sent here by no other site; `pair` a page of an own
    origin; `device` a token, or both halves of a device's key; `token` a token alone."""
    media: bytes | None = JSON_MEDIA
    """The type of a body; None for any."""
    max_body_bytes: int | None = None


_UNKNOWN: Final = "A token is needed: send it as Authorization: Bearer TOKEN."
_CHALLENGE: Final = b'Bearer realm="acp"'


class GateRules(msgspec.Struct, frozen=True):
    """Whom the server is for.

    Every name is compared as a whole: a host with its port, an origin with its scheme and port.
    """

    hosts: Set[bytes]
    find_principal: Callable[[str], Principal | GateRefusal | None]
    """By the bearer token. Must take the same time for every wrong token. A refusal of its own may say more than that
    the token is wrong; its challenge is added here."""
    login_path: bytes = b""
    """Where it is described how users log in, which the challenge then names (RFC 9728)."""
    origins: Set[bytes] = frozenset()
    """Pages of others that may use the server, and read its answers."""
    own_origins: Set[bytes] = frozenset()
    """Those of the server itself, by each of its names."""
    paths: Callable[[str], bool] = lambda path: path == "/acp" or path.startswith("/acp/")
    """Where ACP is spoken."""
    find_rule: Callable[[str], PathRule | None] = lambda path: None
    """Of every other path that is served."""
    find_device: Callable[[str, str], Principal | None] = lambda cookie, half: None
    """By both halves of a device's key. Must take the same time for every wrong one."""
    use_ticket: Callable[[str, bytes | None], Principal | None] = lambda ticket, origin: None
    """By a ticket, which is good for one upgrade from this origin."""
    max_body_bytes: int = MAX_BODY_BYTES
    admit: Callable[[Entered], GateRefusal | None] = lambda entered: None
    """Called last, for a request of a known principal: limits of the application, and what a path needs."""
    admit_stream: Callable[[Entered, str], Awaitable[GateRefusal | None]] | None = None
    """Called before the stream of a session is opened, with the session's id: it may have to be looked up."""


def examine(head: Head, rules: GateRules) -> Entered | GateRefusal:
    """Decide whether the request may enter. A refusal says why in one sentence, which never repeats what was sent."""
    headers = _read_headers(head)
    if isinstance(headers, GateRefusal):
        return headers
    refused = _check_source(head, headers, rules)
    if refused is not None:
        return refused
    path = head.target.partition(b"?")[0].decode("ascii")
    if head.method == b"OPTIONS":
        return _preflight(headers, rules)
    if head.method not in _METHODS:
        return GateRefusal(405, "Method Not Allowed", ((b"allow", b"POST, GET, DELETE"),))
    rule = rules.find_rule(path)
    if rule is not None:
        return _enter_path(head, path, headers, rule, rules)
    if not rules.paths(path):
        return GateRefusal(404, "There is nothing at this path; ACP is served at /acp.")
    return _enter(head, path, headers, rules)


def _read_headers(head: Head) -> dict[bytes, bytes] | GateRefusal:
    if sum(len(name) + len(value) for name, value in head.headers) > MAX_HEAD_BYTES:
        return GateRefusal(431, f"The headers are longer than {MAX_HEAD_BYTES} bytes.")
    headers: dict[bytes, bytes] = {}
    for name, value in head.headers:
        if name in headers and name in _SINGLE:
            return GateRefusal(400, f"The header {name.decode()} occurs more than once.")
        if name == b"cookie" and name in headers:  # a proxy in front may have split it, as HTTP/2 does
            headers[name] += b"; " + value
        headers.setdefault(name, value)
    return headers


def _check_source(head: Head, headers: dict[bytes, bytes], rules: GateRules) -> GateRefusal | None:
    """Check host, form of the target, smuggling and origin."""
    host = headers.get(b"host")
    if host is None:
        return GateRefusal(400, "The header Host is missing.")
    if host.lower() not in rules.hosts:
        return GateRefusal(403, "This server is not known by the name in the header Host; allow it with --host.")
    if not _PATH.fullmatch(head.target.partition(b"?")[0]):
        return GateRefusal(400, "The target of the request must be a plain path.")
    if b"transfer-encoding" in headers and b"content-length" in headers:
        return GateRefusal(400, "Content-Length and Transfer-Encoding together are not allowed.")
    if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        return GateRefusal(501, "Only the transfer encoding chunked is known.")
    if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
        return GateRefusal(415, "Compressed bodies are not accepted.")
    origin = headers.get(b"origin")
    if origin is not None and origin.lower() not in rules.origins and origin.lower() not in rules.own_origins:
        return GateRefusal(403, "Pages of this origin may not use this server; allow it with --origin.")
    return None


def _enter(head: Head, path: str, headers: dict[bytes, bytes], rules: GateRules) -> Entered | GateRefusal:
    """Let a request of ACP in."""
    method, is_upgrade = head.method, b"upgrade" in headers
    if is_upgrade and method != b"GET":
        return GateRefusal(405, "An upgrade is made by GET.", ((b"allow", b"GET"),))
    if is_upgrade and (headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers):
        return GateRefusal(400, "An upgrade has no body.")
    if is_upgrade and headers[b"upgrade"].lower() != b"websocket":
        return GateRefusal(426, "Only an upgrade to WebSocket is known.", ((b"upgrade", b"websocket"),))
    subprotocol, principal = _subprotocol(headers, rules) if is_upgrade else (None, None)
    way: Literal["token", "ticket"] = "token" if principal is None else "ticket"
    found = principal or _bearer(headers, rules)
    if isinstance(found, GateRefusal):
        return found
    principal, limit = found, rules.max_body_bytes
    entered = Entered(method, path, headers, principal, is_upgrade, subprotocol, way, head.peer, limit)
    refused = rules.admit(entered) or (_check_body(headers, JSON_MEDIA, limit) if method == b"POST" else None)
    if refused is not None:
        return entered._replace(refused=refused) if way == "ticket" else refused
    if method == b"GET" and not is_upgrade and path.startswith("/acp") and not _accepts_events(headers):
        return GateRefusal(406, "Not Acceptable: a stream of events is sent; accept text/event-stream.")
    return entered


def _enter_path(
    head: Head, path: str, headers: dict[bytes, bytes], rule: PathRule, rules: GateRules
) -> Entered | GateRefusal:
    """Let a request in to a path that has a rule of its own."""
    is_known = rule.entry in ("token", "device")
    is_wrong_way = head.method not in rule.methods or b"upgrade" in headers
    if is_wrong_way and not is_known:  # others are asked for their token first
        return _wrong_method(rule)
    limit = rules.max_body_bytes if rule.max_body_bytes is None else rule.max_body_bytes
    entered = Entered(head.method, path, headers, Principal("", frozenset()), peer=head.peer, max_body_bytes=limit)
    entered = entered._replace(is_secure=_is_secure(headers, rules))
    if is_known:
        token = _bearer(headers, rules)
        is_refused = isinstance(token, GateRefusal)
        device = _device(entered, rules) if is_refused and rule.entry == "device" else None
        if device is not None:
            entered = entered._replace(principal=device, way="device")
        elif isinstance(token, GateRefusal):
            return token
        else:
            entered = entered._replace(principal=token, way="token")
    is_page = rule.entry in ("page", "pair") or entered.way == "device"
    refused = _check_page(head, headers, rules) if is_page else None
    refused = refused or (_wrong_method(rule) if is_wrong_way else None) or rules.admit(entered)
    if refused is None and head.method == b"POST":
        refused = _check_body(headers, rule.media, limit)
    return refused or entered


def _wrong_method(rule: PathRule) -> GateRefusal:
    return GateRefusal(405, "Method Not Allowed", ((b"allow", b", ".join(sorted(rule.methods))),))


def _check_page(head: Head, headers: dict[bytes, bytes], rules: GateRules) -> GateRefusal | None:
    """Refuse what a page of the server itself does not send: browsers name the origin of every post."""
    origin = headers.get(b"origin")
    is_own = origin is not None and origin.lower() in rules.own_origins
    if not is_own and (origin is not None or head.method == b"POST"):
        return GateRefusal(403, "This is for the page of this server alone.")
    if headers.get(b"sec-fetch-site", b"none").lower() not in _OWN_SITE:
        return GateRefusal(403, "Another site has sent the browser here; open the address itself.")
    return None


def _device(entered: Entered, rules: GateRules) -> Principal | None:
    half = entered.headers.get(HALF)
    return None if half is None else rules.find_device(cookie_of(entered), half.decode("latin-1").strip())


def cookie_of(entered: Entered) -> str:
    """Return the cookie of a browser that was paired; empty without one."""
    name = SECURE_COOKIE if entered.is_secure else DEVICE_COOKIE
    for pair in entered.headers.get(b"cookie", b"").split(b";"):
        found, _, value = pair.strip().partition(b"=")
        if found == name:
            return value.decode("latin-1")
    return ""


def _check_body(headers: dict[bytes, bytes], wanted: bytes | None, limit: int) -> GateRefusal | None:
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if wanted is not None and media != wanted:
        return GateRefusal(415, f"Unsupported Media Type: only {wanted.decode()} is read.")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        return GateRefusal(400, "Content-Length is not a number.")
    if len(length) > 15 or int(length) > limit:
        return GateRefusal(413, f"The body is longer than {limit} bytes.")
    return None


def _accepts_events(headers: dict[bytes, bytes]) -> bool:
    return MIME_TYPE in headers.get(b"accept", b"").lower()


def _is_secure(headers: dict[bytes, bytes], rules: GateRules) -> bool:
    """Whether it came over TLS, by the name that the client calls: the server's own, or that of a proxy in front."""
    return b"https://" + headers[b"host"].lower().removesuffix(b":443") in rules.own_origins


def _bearer(headers: dict[bytes, bytes], rules: GateRules) -> Principal | GateRefusal:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    is_given = scheme.lower() == "bearer" and bool(token.strip())
    found = rules.find_principal(token.strip()) if is_given else None
    if isinstance(found, Principal):
        return found
    refusal = found or GateRefusal(401, _UNKNOWN)
    if refusal.status != 401:
        return refusal
    challenge = _CHALLENGE
    if rules.login_path:
        origin = (b"https://" if _is_secure(headers, rules) else b"http://") + headers[b"host"].lower()
        challenge += b', resource_metadata="' + origin + rules.login_path + b'"'
    if is_given and rules.login_path:
        challenge += b', error="invalid_token"'
    return refusal._replace(headers=(*refusal.headers, (b"www-authenticate", challenge)))


def _subprotocol(headers: dict[bytes, bytes], rules: GateRules) -> tuple[str | None, Principal | None]:
    """Return the subprotocol to choose, and the principal of a ticket among those that are offered.

    Never an offered ticket itself: the chosen one is repeated in the answer.
    """
    offered = [name.strip() for name in headers.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")]
    tickets = [name.removeprefix(_TICKET) for name in offered if name.startswith(_TICKET)]
    principal = rules.use_ticket(tickets[0], headers.get(b"origin")) if len(tickets) == 1 else None
    return SUBPROTOCOL if SUBPROTOCOL in offered else None, principal


def _preflight(headers: dict[bytes, bytes], rules: GateRules) -> GateRefusal:
    """Return the answer to a browser that asks whether a page may send a request; it carries no token."""
    origin = headers.get(b"origin")
    if origin is None or b"access-control-request-method" not in headers:
        return GateRefusal(405, "Method Not Allowed", ((b"allow", b"POST, GET, DELETE"),))
    allowed = b"authorization, content-type, accept, acp-connection-id, acp-session-id, last-event-id"
    return GateRefusal(
        204,
        "",
        (
            *cross_origin_headers(origin, rules),
            (b"access-control-allow-methods", b"POST, GET, DELETE"),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", b"600"),
        ),
    )


def cross_origin_headers(origin: bytes | None, rules: GateRules) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers that let a page of a listed origin read the answer."""
    if origin is None or origin.lower() not in rules.origins:
        return ()
    return (
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"acp-connection-id"),
        (b"vary", b"origin"),
    )
