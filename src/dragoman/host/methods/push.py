"""Methods by which the page of a device subscribes to notifications, and says whether it is looked at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError, RequestError
from dragoman.host.methods.params import read_params, text_member
from dragoman.host.working.push_subscriptions import PushRefused, PushSubscription

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call


async def answer_key(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the public key of this host, which a browser subscribes with."""
    try:
        return {"key": await asyncio.to_thread(host.push.public_key)}
    except ConfigError as error:
        raise _unavailable(error) from None


async def subscribe(host: Host, client: HostConnection, call: Call) -> object:
    """Keep where the browser of this device is notified, in place of what was kept before."""
    params = read_params(call.params)
    device, kinds = _device(client), params.get("kinds")
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise RequestError.invalid_params("kinds must be a list of words", path="$.kinds")
    endpoint, p256dh, auth = (text_member(params, name) for name in ("endpoint", "p256dh", "auth"))
    wanted = PushSubscription(
        device=device,
        user=client.visitor.principal,
        endpoint=endpoint,
        p256dh=p256dh,
        auth=auth,
        kinds=tuple(dict.fromkeys(kinds)),
        at=0.0,
    )
    try:
        await asyncio.to_thread(host.push.add, wanted)
    except PushRefused as refused:
        raise RequestError(-32602, str(refused), {"reason": "refused"}) from None
    except ConfigError as error:
        raise _unavailable(error) from None
    return {}


async def unsubscribe(host: Host, client: HostConnection, call: Call) -> object:
    """Forget where the browser of this device is notified."""
    device = _device(client)
    try:
        await asyncio.to_thread(host.push.remove, device)
    except ConfigError as error:
        raise _unavailable(error) from None
    return {}


async def note_presence(host: Host, client: HostConnection, call: Call) -> object:
    """Note whether the page of this connection is in sight; one that is closed is not."""
    visible = read_params(call.params).get("visible")
    if not isinstance(visible, bool):
        raise RequestError.invalid_params("visible must be true or false", path="$.visible")
    client.is_visible = visible
    return {}


def _device(client: HostConnection) -> str:
    device = client.visitor.device
    if device is None:
        raise RequestError(-32603, "notifications are for paired devices", {"reason": "no_device"})
    return device


def _unavailable(error: ConfigError) -> RequestError:
    return RequestError(-32603, str(error), {"reason": "unavailable"})
