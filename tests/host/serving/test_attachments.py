"""Attachments over HTTP: who may upload, what is given back to whom, and that a browser makes no page of it."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.serving.access_log import AccessLog
from dragoman.host.working.uploads import MOST_BYTES
from dragoman.store.sqlite_log import SqliteLog
from tests.host.serving.kit import Served, served
from tests.host.serving.test_security import Raw, client
from tests.host.test_sessions import Steps

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 32


@asynccontextmanager
async def keeping(folder: Path, steps: Steps | None = None, **options: Any) -> AsyncIterator[Served]:
    log = SqliteLog(folder / "data" / "events.db")
    async with served(steps or Steps(), folder, log=log, **options) as host:
        yield host
    await log.close()


async def uploaded(raw: Raw, content: bytes, media: str) -> dict[str, Any]:
    status, headers, body = await raw.ask("POST", content, path="/attachment", content_type=media)
    assert (status, headers["cache-control"]) == (200, "no-store"), body
    found: dict[str, Any] = json.loads(body)
    return found


async def test_bytes_come_back_to_their_user_alone_and_never_as_a_page(tmp_path: Path) -> None:
    lines = io.StringIO()
    async with keeping(tmp_path, access_log=AccessLog(lines)) as host:
        raw = Raw(host)
        shown = await uploaded(raw, PNG, "image/png")
        status, headers, body = await raw.ask("GET", path=f"/attachment/{shown['id']}")
        assert (status, body, headers["content-type"]) == (200, PNG, "image/png")
        assert headers["content-disposition"] == "inline"
        for content, media in (
            (b"<script>alert(1)</script>", "text/html"),
            (b"<script>alert(1)</script>", "image/png"),
            (b"<svg onload='alert(1)'/>", "image/svg+xml"),
            (b"%PDF-1.7", "application/pdf"),
            (b"alert(1)", "text/javascript"),
        ):
            found = await uploaded(raw, content, media)
            status, headers, body = await raw.ask("GET", path=f"/attachment/{found['id']}")
            assert (status, body) == (200, content)
            assert headers["content-type"] == "application/octet-stream"
            assert headers["content-disposition"] == "attachment"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-security-policy"] == "sandbox; default-src 'none'"
            assert headers["cache-control"] == "no-store"

        other = Raw(host)
        other._secret = host.add("other")
        foreign = await other.ask("GET", path=f"/attachment/{shown['id']}")
        missing = await other.ask("GET", path="/attachment/" + "0" * 32)
        assert foreign == missing
        assert foreign[0] == 404
        for path in (
            "/attachment/../spent.json",
            "/attachment/spent.json",
            "/attachment/",
            f"/attachment/{shown['id']}.bin",
        ):
            assert (await raw.ask("GET", path=path))[0] == 404
        same_user = Raw(host)
        same_user._secret = host.add("tablet", user="tests", rights=("view",))
        assert (await same_user.ask("GET", path=f"/attachment/{shown['id']}"))[2] == PNG
        logged = lines.getvalue()
    assert "/attachment/..." in logged
    assert shown["id"] not in logged


async def test_who_may_upload_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.host.working.uploads.DAY_BYTES", 100)
    async with keeping(tmp_path) as host:
        raw = Raw(host)
        upload: dict[str, Any] = {"path": "/attachment", "content_type": "text/plain"}
        assert (await raw.ask("POST", b"x", **upload, authorization=""))[0] == 401
        assert (await raw.ask("POST", b"x", **upload, origin="https://elsewhere.example"))[0] == 403
        assert (await raw.ask("GET", path="/attachment"))[0] == 405
        assert (await raw.ask("POST", b"", **upload, content_length=str(MOST_BYTES + 1)))[0] == 413
        assert (await raw.ask("POST", b"", **upload))[0] == 400
        viewer = Raw(host)
        viewer._secret = host.add("viewer", rights=("view",))
        assert (await viewer.ask("POST", b"x", **upload))[0] == 403
        assert (await raw.ask("POST", b"x" * 99, **upload))[0] == 200
        status, headers, _ = await raw.ask("POST", b"xx", **upload)
        assert status == 429
        assert int(headers["retry-after"]) > 0
        phone = Raw(host)
        phone._secret = host.add("phone", user="tests")
        assert (await phone.ask("POST", b"xx", **upload))[0] == 200, "the account is that of a device"


async def test_a_prompt_over_the_network_names_what_was_uploaded(tmp_path: Path) -> None:
    steps = Steps()
    async with keeping(tmp_path, steps) as host:
        found = await uploaded(Raw(host), b"the words of a file", "text/plain")
        async with client(host, host.secret) as line:
            session = await line.open("/tmp")
            meta = {"dragoman": {"attachment": found["id"]}}
            block = {"type": "resource", "resource": {"uri": "file:///a", "text": ""}, "_meta": meta}
            answer = await line.answer_to(line.ask("session/prompt", sessionId=session, prompt=[block]))
            assert answer[1]["result"]["stopReason"] == "end_turn"
    assert "the words of a file" in steps.prompts[0]
