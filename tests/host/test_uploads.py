"""Attachments of prompts: kept once, filled in for the agent and for clients that take no references."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.host import Visitor
from dragoman.host.working.uploads import DAY_BYTES, MOST_BYTES, UNUSED_SECONDS, UploadRefused, Uploads, found_type
from dragoman.store.sqlite_log import SqliteLog
from tests.host.kit import OURS, OnTheWire, hosted

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 32
DATA = base64.b64encode(PNG).decode()
TAKES: dict[str, Any] = {"loadSession": True, "promptCapabilities": {"image": True, "embeddedContext": True}}
NAMED: dict[str, Any] = {"_meta": {"dragoman": {"attachments": True}}}


def image(id: str, data: str = "", mime: str = "image/jpeg") -> dict[str, Any]:
    return {"type": "image", "mimeType": mime, "data": data, "_meta": {"dragoman": {"attachment": id}}}


def resource(id: str, **members: str) -> dict[str, Any]:
    meta = {"dragoman": {"attachment": id}, "own": 1}
    return {"type": "resource", "resource": {"uri": "file:///notes", **members}, "_meta": meta}


async def test_the_agent_and_plain_clients_get_the_bytes_and_the_log_and_our_clients_the_name(tmp_path: Path) -> None:
    log, source = SqliteLog(tmp_path / "events.db"), OnTheWire(capabilities=TAKES)
    async with hosted(source, log=log) as host:
        uploads = host.host.uploads
        picture = await uploads.put(PNG, "image/jpeg; q=1", user="local", device="phone")
        notes = await uploads.put("grüße".encode(), "text/plain", user="local", device="phone")
        assert (picture.mime_type, picture.bytes, notes.mime_type) == ("image/png", len(PNG), "text/plain")
        sender, id = await host.opened(OURS)
        plain, ours = await host.client(), await host.client(NAMED)
        await plain.load(id)
        await ours.load(id)
        blocks = [image(picture.id), resource(notes.id, text=""), resource(notes.id, blob="")]
        asked = sender.ask("session/prompt", sessionId=id, prompt=blocks)
        sent = await source.agent.prompted()
        shown, text, blob = sent["params"]["prompt"]
        assert shown == {"type": "image", "mimeType": "image/png", "data": DATA}
        assert (text["resource"]["text"], text["_meta"]) == ("grüße", {"own": 1})
        assert base64.b64decode(blob["resource"]["blob"]) == "grüße".encode()
        source.agent.reply(sent, {"stopReason": "end_turn"})
        await sender.answer_to(asked)

        live = [(await plain.until_update("user_message_chunk"))["content"] for _ in range(3)]
        assert live == [shown, text, blob]
        named = [(await ours.until_update("user_message_chunk"))["content"] for _ in range(3)]
        assert named == [{**blocks[0], "mimeType": "image/png"}, *blocks[1:]]
        (kept,) = await host.events(id, "prompt")
        assert kept["prompt"] == named, "the log has the name alone"

        late, late_ours = await host.client(), await host.client(NAMED)
        assert [update["content"] for update in (await late.load(id))[0]] == live
        assert [update["content"] for update in (await late_ours.load(id))[0]] == named

        await sender.answer_to(sender.ask("session/delete", sessionId=id))
        assert uploads.find(picture.id, "local") is None
        assert sorted(path.name for path in (tmp_path / "attachments").iterdir()) == ["spent.json"]
    await log.close()


async def test_a_block_that_does_not_fit_its_attachment_is_refused_and_claims_nothing(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    async with hosted(OnTheWire(capabilities=TAKES), log=log) as host:
        uploads = host.host.uploads
        picture = await uploads.put(PNG, "image/png", user="local", device="phone")
        page = await uploads.put(b"<script>1</script>", "image/png", user="local", device="phone")
        foreign = await uploads.put(PNG, "image/png", user="other", device="laptop")
        client, id = await host.opened(OURS)
        wrong = {
            "there is no such attachment": [image("0" * 32), image(foreign.id), image("../spent"), image("")],
            "empty data": [image(picture.id, DATA)],
            "not image: application/octet-stream": [image(page.id)],
            "empty text or blob": [resource(picture.id, text="other words")],
            "only image, audio and resource": [{**image(picture.id), "type": "text", "text": ""}],
        }
        for why, blocks in wrong.items():
            for block in blocks:
                error = await client.error("session/prompt", sessionId=id, prompt=[image(picture.id), block])
                assert error["code"] == -32602
                assert why in error["message"], error
        found = uploads.find(picture.id, "local")
        assert found is not None
        assert not found.sessions
        other = await host.client(OURS, visitor=Visitor(principal="other"))
        theirs = await other.open("/tmp")
        error = await other.error("session/prompt", sessionId=theirs, prompt=[image(picture.id)])
        missing = await other.error("session/prompt", sessionId=theirs, prompt=[image("0" * 32)])
        assert error == missing, "one of another user does not exist"
    await log.close()


async def test_sizes_are_bounded_for_each_device_and_day_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (MOST_BYTES, DAY_BYTES) == (16 * 1024 * 1024, 256 * 1024 * 1024)
    most, day = 1000, 4000
    monkeypatch.setattr("dragoman.host.working.uploads.MOST_BYTES", most)
    monkeypatch.setattr("dragoman.host.working.uploads.DAY_BYTES", day)
    now = [1_700_000_000.0]
    uploads = Uploads(tmp_path, lambda: now[0])
    with pytest.raises(UploadRefused):
        await uploads.put(b"", "text/plain", user="ada", device="phone")
    with pytest.raises(UploadRefused):
        await uploads.put(b"x" * (most + 1), "text/plain", user="ada", device="phone")
    for _ in range(day // most):
        await uploads.put(b"x" * most, "text/plain", user="ada", device="phone")
        now[0] += 2
    again = Uploads(tmp_path, lambda: now[0])
    with pytest.raises(UploadRefused) as refused:
        await again.put(b"x", "text/plain", user="ada", device="phone")
    assert 0 < refused.value.retry_seconds <= 24 * 3600
    await again.put(b"x", "text/plain", user="ada", device="tablet")
    now[0] += refused.value.retry_seconds
    await again.put(b"x", "text/plain", user="ada", device="phone")
    uploads.close()
    again.close()


async def test_what_no_prompt_has_named_is_gone_after_an_hour(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    uploads = Uploads(tmp_path, lambda: now[0])
    unused = await uploads.put(PNG, "image/png", user="ada", device="phone")
    now[0] += UNUSED_SECONDS - 1
    assert uploads.find(unused.id, "ada") == unused
    assert uploads.find(unused.id, "bob") is None
    now[0] += 2
    assert uploads.find(unused.id, "ada") is None
    await uploads.put(PNG, "image/png", user="ada", device="phone")
    assert not list((tmp_path / "attachments").glob(f"{unused.id}.*"))
    uploads.close()


@pytest.mark.parametrize(
    ("content", "named", "found"),
    [
        (PNG, "image/webp", "image/png"),
        (b"\xff\xd8\xff\xe0", "IMAGE/JPEG", "image/jpeg"),
        (b"GIF89a....", "image/gif", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", "image/webp"),
        (b"<svg onload=alert(1)>", "image/svg+xml", "image/svg+xml"),
        (b"<html>", "image/gif", "application/octet-stream"),
        (PNG, "application/pdf", "application/pdf"),
        (b"x", "text/html; charset=utf-8", "text/html"),
        (b"x", "nonsense\r\nset-cookie: a=b", "application/octet-stream"),
        (b"x", "", "application/octet-stream"),
    ],
)
def test_the_first_bytes_decide_what_an_image_is(content: bytes, named: str, found: str) -> None:
    assert found_type(content, named) == found
