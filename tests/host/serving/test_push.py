"""Subscriptions to notifications: for devices alone, to push services alone, and gone with the device."""

from __future__ import annotations

import asyncio
import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.host import Visitor
from dragoman.host.working.push_subscriptions import (
    PushRefused,
    PushSubscription,
    PushSubscriptions,
    check_endpoint,
)
from dragoman.store.sqlite_log import SqliteLog
from tests.host.kit import OURS, Client, hosted
from tests.host.serving.kit import SECONDS, served
from tests.host.test_sessions import Steps

pytest.importorskip("cryptography")
SERVICE = "https://fcm.googleapis.com/fcm/send/abc:def"
AUTH = urlsafe_b64encode(b"0123456789abcdef").decode().rstrip("=")
PHONE = Visitor(device="phone", is_local=False, rights=frozenset({"view"}))


def wanted(key: str, **members: Any) -> dict[str, Any]:
    return {"endpoint": SERVICE, "p256dh": key, "auth": AUTH, "kinds": ["question", "ended"], **members}


async def refused(client: Client, **members: Any) -> tuple[int, str | None]:
    error = await client.error("_dragoman/push/subscribe", **members)
    return error["code"], (error.get("data") or {}).get("reason")


async def test_a_device_subscribes_and_the_key_stays(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    async with hosted(Steps(), log=log) as host:
        phone = await host.client(OURS, visitor=PHONE)
        key = (await phone.result("_dragoman/push/key"))["key"]
        assert len(urlsafe_b64decode(key + "=")) == 65
        assert (await phone.result("_dragoman/push/key"))["key"] == key
        assert stat.S_IMODE((tmp_path / "push.key").stat().st_mode) == 0o600
        await phone.result("_dragoman/push/subscribe", **wanted(key))
        await phone.result("_dragoman/push/subscribe", **wanted(key, kinds=["failed"]))
        found = host.host.push.find("phone")
        assert found is not None
        assert (found.user, found.endpoint, found.kinds) == ("local", SERVICE, ("failed",))
        assert stat.S_IMODE((tmp_path / "push.json").stat().st_mode) == 0o600
        again = PushSubscriptions(tmp_path)
        assert (again.public_key(), again.find("phone")) == (key, found), "after a restart"

        terminal = await host.client(OURS)
        assert await refused(terminal, **wanted(key)) == (-32603, "no_device")
        off_curve = urlsafe_b64encode(b"\x04" + b"\x01" * 64).decode().rstrip("=")
        for wrong in ({"p256dh": AUTH}, {"p256dh": off_curve}, {"auth": key}, {"auth": "é"}, {"kinds": ["all"]}):
            assert await refused(phone, **wanted(key, **wrong)) == (-32602, "refused"), wrong
        assert await refused(phone, **wanted(key, kinds=[])) == (-32602, "refused")
        assert (await refused(phone, **wanted(key, kinds="ended")))[0] == -32602
        assert await refused(phone, **wanted(key, endpoint="http://127.0.0.1/")) == (-32602, "refused")
        assert host.host.push.find("phone") == found, "what was refused has changed nothing"

        assert not host.host.is_looked_at_by("local")
        await phone.result("_dragoman/presence", visible=True)
        assert host.host.is_looked_at_by("local")
        assert not host.host.is_looked_at_by("other")
        await phone.result("_dragoman/presence", visible=False)
        assert not host.host.is_looked_at_by("local")
        await phone.result("_dragoman/presence", visible=True)
        await host.leave(phone)
        assert not host.host.is_looked_at_by("local"), "a page that is gone is not in sight"
        assert (await terminal.error("_dragoman/presence", visible=1))["code"] == -32602

        tablet = await host.client(OURS, visitor=PHONE)
        await tablet.result("_dragoman/push/unsubscribe")
        assert host.host.push.find("phone") is None
    await log.close()


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://fcm.googleapis.com/x",
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://2130706433/x",
        "https://10.0.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/x",
        "https://fcm.googleapis.com.attacker.example/x",
        "https://attackerfcm.googleapis.com.example/x",
        "https://evilpush.apple.com/x",
        "https://fcm.googleapis.com@127.0.0.1/x",
        "https://user:word@fcm.googleapis.com/x",
        "https://fcm.googleapis.com:8080/x",
        "https://fcm.googleapis.com\\@127.0.0.1/x",
        "https://127.0.0.1#fcm.googleapis.com/x",
        "https://127.0.0.1?.push.services.mozilla.com/x",
        "https:/fcm.googleapis.com/x",
        "https://fcm.googleapis.com /x",
        "https://fcm.googleapis.com\n/x",
        "https://fcm.googleapis.com:x/",
        "file:///etc/passwd",
        "//fcm.googleapis.com/x",
        "https://" + "a" * 3000 + ".push.apple.com/",
        "",
    ],
)
def test_an_endpoint_that_is_not_one_of_a_push_service_is_refused(endpoint: str) -> None:
    with pytest.raises(PushRefused):
        check_endpoint(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        SERVICE,
        "https://updates.push.services.mozilla.com/wpush/v2/x",
        "https://web.push.apple.com/x",
        "https://wns2-db5p.notify.windows.com/w/?token=x",
        "https://FCM.googleapis.com:443/x",
    ],
)
def test_push_services_of_browsers_are_known(endpoint: str) -> None:
    check_endpoint(endpoint)


async def test_a_subscription_is_gone_with_its_device(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "data" / "events.db")
    async with served(Steps(), tmp_path, log=log) as host:
        host.add("phone", kind="device")
        host.add("tablet", kind="device")
        push = host.host.push
        key = push.public_key()
        for device in ("phone", "tablet"):
            push.add(PushSubscription(device, device, SERVICE, key, AUTH, ("question",), 0.0))
        host.tokens.revoke("phone")
        async with asyncio.timeout(SECONDS):
            while push.find("phone") is not None:  # noqa: ASYNC110 - looked at once a second
                await asyncio.sleep(0.05)
        assert push.find("tablet") is not None
    await log.close()
