"""Methods about the browsers that were paired with the host: list them, make a code for another, remove one.

Devices and tokens of one user are for clients of that user: one of another user is answered like one that does not
exist. Administrators see and remove all of their user's; every device sees and removes itself. Loaded when one of them
is called first: a host starts without it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError, RequestError
from dragoman.host.methods.params import read_params, text_member
from dragoman.host.serving.pairing import CODE_SECONDS, NewDevice
from dragoman.host.serving.tokens import RIGHTS
from dragoman.policy.paths import is_below

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.serving.pairing import Pairing
    from dragoman.host.serving.tokens import HostToken
    from dragoman.rpc import Call


async def list_devices(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the devices and tokens of the client's user; without the right admin, with the client's own."""
    pairing = _pairing(host, call)
    return {"devices": [_document(host, pairing, token, client) for token in _visible(pairing, client)]}


async def make_code(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with a code that pairs one more browser, with no more rights than the client has itself."""
    pairing, params = _pairing(host, call), read_params(call.params)
    visitor, own = client.visitor, _own(pairing, client)
    if visitor.token is not None and own is None:  # a login of a provider, or a token that was revoked just now
        why = "a login cannot pair a browser, which would outlast it; an operator can: dragoman serve token pair"
        raise RequestError(-32603, why, {"reason": "forbidden"})
    device = NewDevice(
        visitor.principal,
        _rights(params.get("rights"), visitor.rights),
        _folders(params.get("folders"), visitor.folders),
        _expiry(params.get("expires"), own),
    )
    try:
        code = pairing.codes.issue(device)
    except OSError as error:
        raise RequestError(-32603, f"the code cannot be kept: {error.strerror}", {"reason": "store"}) from None
    return {"code": code, "seconds": CODE_SECONDS, "address": pairing.address}


async def remove_device(host: Host, client: HostConnection, call: Call) -> object:
    """Remove a device or a token, which ends its connections at once."""
    pairing, params = _pairing(host, call), read_params(call.params)
    id = text_member(params, "id")
    if id not in [token.name for token in _visible(pairing, client)]:
        raise RequestError.not_found("there is no such device")
    try:
        # Behind the answer: the connection that is ended may be the one that asks.
        pairing.remove(id, call.after_response)
    except ConfigError as error:
        raise RequestError(-32603, str(error), {"reason": "store"}) from None
    return {}


def _pairing(host: Host, call: Call) -> Pairing:
    if host.pairing is None:  # the page was closed just now
        raise RequestError.method_not_found(call.method)
    return host.pairing


def _visible(pairing: Pairing, client: HostConnection) -> list[HostToken]:
    visitor = client.visitor
    try:
        known = pairing.tokens.all()
    except ConfigError as error:
        raise RequestError(-32603, str(error), {"reason": "store"}) from None
    return [
        token
        for token in known
        if token.user == visitor.principal
        and not pairing.tokens.is_expired(token)
        and ("admin" in visitor.rights or token.name == visitor.token)
    ]


def _own(pairing: Pairing, client: HostConnection) -> HostToken | None:
    return None if client.visitor.token is None else pairing.tokens.get(client.visitor.token)


def _document(host: Host, pairing: Pairing, token: HostToken, client: HostConnection) -> dict[str, Any]:
    return {
        "id": token.name,
        "name": token.title or token.name,
        "kind": token.kind,
        "agent": token.agent,
        "rights": list(token.rights),
        "folders": None if token.folders is None else list(token.folders),
        "createdAt": _milliseconds(token.created_at),
        "seenAt": _milliseconds(pairing.tokens.seen_at(token)),
        "expiresAt": _milliseconds(token.expires_at),
        "isThis": token.name == client.visitor.token,
        "push": host.push.find(token.name) is not None,
    }


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _rights(wanted: object, own: frozenset[str]) -> tuple[str, ...]:
    if wanted is None:
        return tuple(right for right in RIGHTS if right in own)
    if not isinstance(wanted, list) or not all(right in RIGHTS for right in wanted) or "view" not in wanted:
        words = ", ".join(RIGHTS)
        raise RequestError.invalid_params(f"rights must be a list of {words}, with view", path="$.rights")
    if not own.issuperset(wanted):
        raise RequestError(-32603, "a code cannot give more rights than its maker has", {"reason": "forbidden"})
    return tuple(right for right in RIGHTS if right in wanted)


def _folders(wanted: object, own: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if wanted is None:
        return own
    if not isinstance(wanted, list) or not wanted or not all(_is_absolute(folder) for folder in wanted):
        raise RequestError.invalid_params("folders must be absolute paths", path="$.folders")
    found = tuple(dict.fromkeys(os.path.realpath(folder) for folder in wanted))
    if own is not None and not all(any(is_below(folder, os.path.realpath(top)) for top in own) for folder in found):
        raise RequestError(-32603, "a code cannot give more folders than its maker has", {"reason": "forbidden"})
    return found


def _is_absolute(folder: object) -> bool:
    return isinstance(folder, str) and os.path.isabs(folder) and "\0" not in folder


def _expiry(wanted: object, own: HostToken | None) -> float | None:
    """Return when the device is over: never later than the one that made the code."""
    most = None if own is None else own.expires_at
    if wanted is None:
        return most
    if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not 60 <= wanted <= 10 * 365 * 86400:
        raise RequestError.invalid_params("expires must be a number of seconds, at least 60", path="$.expires")
    ends = time.time() + wanted
    return ends if most is None else min(ends, most)
