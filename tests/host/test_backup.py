"""Backups of a host: made while it runs and is killed, restored, and compared event by event."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.cli.exits import CliError
from dragoman.cli.serve.places import ServePlaces
from dragoman.errors import ConfigError
from dragoman.host.host import Visitor
from dragoman.host.serving import backup
from dragoman.host.working.uploads import Uploads
from dragoman.store.blob_files import BLOB_BYTES
from dragoman.store.event_log import LogEvent, NewEvent, SessionRecord
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.remote.connect import connect_url
from tests.host.kit import OURS, OnTheWire, hosted
from tests.host.test_host_faults import host_process
from tests.host.watcher import Watcher
from tests.transports.remote_kit import TOKEN

SECONDS = 60.0
STREAMS = 20


async def program(*words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "dragoman", *words, stdout=pipe, stderr=pipe)


async def done(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def until(is_true: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_true():  # noqa: ASYNC110 - another program makes it true
            await asyncio.sleep(0.002)


async def answer(line: Watcher, method: str, **params: object) -> Any:
    id = line.ask(method, **params)
    await until(lambda: id in line.answers or not line.is_open)
    return line.answers[id]["result"]


async def all_events(folder: Path) -> dict[str, list[LogEvent]]:
    log = SqliteLog(folder / "sessions.sqlite")
    found = {}
    for record in (await log.page(None, limit=100)).records:
        events: list[LogEvent] = []
        while page := await log.read(record.id, events[-1].number if events else 0, 1000):
            events += page
        found[record.id] = events
    await log.close()
    return found


async def test_a_backup_of_20_sessions_that_stream_has_all_that_clients_had_seen(tmp_path: Path) -> None:
    data, first, second = tmp_path / "data", tmp_path / "first", tmp_path / "second"
    async with host_process(data / "sessions.sqlite") as (host, port):
        line = Watcher(await connect_url(f"ws://127.0.0.1:{port}/acp", token=TOKEN))
        await answer(line, "initialize", protocolVersion=1, clientCapabilities=OURS)
        seen: dict[str, list[int]] = {}
        feed = line._on_message

        def note(message: dict[str, Any]) -> None:
            feed(message)
            if message.get("method") == "session/update":
                seen[message["params"]["sessionId"]].append(message["params"]["_meta"]["dragoman"]["seq"])

        line._on_message = note  # type: ignore[method-assign]  # one line has all sessions
        for number in range(STREAMS):
            session = (await answer(line, "session/new", cwd="/tmp", mcpServers=[]))["sessionId"]
            seen[session] = []
            if number == 0:
                large = session
                prompt = [{"type": "text", "text": "large 3"}]
                await answer(line, "session/prompt", sessionId=session, prompt=prompt)
            line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "drip 1000000"}])
        await until(lambda: all(len(numbers) > 20 for numbers in seen.values()))

        before = {session: numbers[-1] for session, numbers in seen.items()}
        code, out, err = await done(await program("serve", "backup", "--data", str(data), str(first), "--json"))
        assert code == 0, err
        made = json.loads(out)
        assert (made["sessions"], made["blobs"], made["lost"]) == (STREAMS, 3, [])
        await until(lambda: all(numbers[-1] > before[session] for session, numbers in seen.items()))  # they go on

        before_kill = {session: numbers[-1] for session, numbers in seen.items()}
        making = await program("serve", "backup", "--data", str(data), str(second), "-q")
        await until(lambda: (tmp_path / "second.unfinished").exists() or second.exists())
        host.kill()
        assert (await done(making))[0] == 0
        await until(lambda: not line.is_open)
        line.close()
        await line.wait_closed()

    source = await all_events(data)
    for place, least in ((first, before), (second, before_kill)):
        restored = tmp_path / f"{place.name}-restored"
        code, _, err = await done(await program("serve", "restore", str(place), "--data", str(restored)))
        assert code == 0, err
        assert f"{STREAMS} sessions" in err
        found = await all_events(restored)
        assert found.keys() == source.keys()
        for session, events in found.items():
            assert events == source[session][: len(events)]
            assert events[-1].number >= least[session]
            assert [event.number for event in events] == list(range(1, len(events) + 1))

    # The next host reads it, with its large bodies.
    restored = tmp_path / "first-restored"
    serving = await program("serve", "--data", str(restored), "-a", "scripted", "--listen", "127.0.0.1:0")
    try:
        assert serving.stdout is not None
        url = (await asyncio.wait_for(serving.stdout.readline(), SECONDS)).decode().strip()
        code, _, err = await done(await program("serve", "restore", str(first), "--data", str(restored), "--replace"))
        assert (code, "another host uses" in err) == (2, True)
        line = Watcher(await connect_url(url, token=(restored / "first.token").read_text().strip()))
        await answer(line, "initialize", protocolVersion=1, clientCapabilities=OURS)
        await answer(line, "session/load", sessionId=large, cwd="/tmp", mcpServers=[])
        texts = [json.loads(what)["content"].get("text", "") for _, what in line.events if '"content"' in what]
        assert sum(text.count("large ") * 6 for text in texts) > 3 * BLOB_BYTES
        assert not any("are lost" in text for text in texts)
        line.close()
        await line.wait_closed()
    finally:
        serving.send_signal(signal.SIGTERM)
        await done(serving)


def fill(data: Path, *sessions: str) -> None:
    """Sessions with a small event and a large body of its own each."""

    async def fill() -> None:
        log = SqliteLog(data / "sessions.sqlite")
        for id in sessions:
            owned = await log.create(SessionRecord(id, "ada", "test", None, "/tmp", b"{}", 1.0, 1.0, 0, 1))
            body = b'"%b"' % (id.encode() * BLOB_BYTES)
            owned.append([NewEvent("update", b"1"), NewEvent("update", body)], lambda events: None)
            await owned.settle()
        await log.close()

    asyncio.run(fill())


def silent(what: str, done: int, total: int) -> None:
    pass


def test_a_backup_that_was_killed_is_none_and_the_next_one_replaces_it(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "place"
    fill(data, "a")
    (data / "tokens.json").write_text("{}")
    words = [sys.executable, "-m", "dragoman", "serve"]
    held = sqlite3.connect(data / "sessions.sqlite", isolation_level=None)
    held.execute("PRAGMA journal_mode=DELETE")
    held.execute("BEGIN EXCLUSIVE")  # the backup waits here, in its middle
    with subprocess.Popen([*words, "backup", "--data", str(data), str(place)]) as making:
        asyncio.run(until((tmp_path / "place.unfinished" / "data" / "tokens.json").exists))
        again = subprocess.run(
            [*words, "backup", "--data", str(data), str(place)], capture_output=True, text=True, check=False
        )
        assert (again.returncode, "another backup is being made" in again.stderr) == (2, True)
        making.kill()
    held.close()
    assert not place.exists()
    restored = subprocess.run(
        [*words, "restore", f"{place}.unfinished", "--data", str(tmp_path / "new")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (restored.returncode, "it was not finished" in restored.stderr) == (2, True)
    assert not (tmp_path / "new").exists()
    manifest = backup.make_backup(data, place, silent)
    assert (manifest.sessions, manifest.blobs) == (1, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "place"]


def test_a_backup_has_what_a_host_needs_and_no_secret_of_one_start(tmp_path: Path) -> None:
    data, place, restored = tmp_path / "data", tmp_path / "place", tmp_path / "restored"
    fill(data, "kept", "deleted")
    for name in ("tokens.json", "quotas.json", "first.token", "codes.json", "tokens.json.lock", ".dragoman-0123"):
        (data / name).write_text(f"{name} of the host")
        (data / name).chmod(0o600)
    (data / "later").mkdir(0o700)
    (data / "later" / "part.json").write_text("of a part that is made later")
    (data / "later" / "part.json").chmod(0o640)
    os.mkfifo(data / "fifo")

    async def upload() -> list[str]:
        uploads = Uploads(data)
        found = []
        for session in ("kept", "deleted"):
            upload = await uploads.put(b"content", "text/plain", user="ada", device="d")
            path = data / "attachments" / f"{upload.id}.json"
            path.write_bytes(msgspec.json.encode(msgspec.structs.replace(upload, sessions=(session,))))
            found.append(upload.id)
        uploads.close()
        return found

    kept, dropped = asyncio.run(upload())

    def delete_one(what: str, done: int, total: int) -> None:
        """A user deletes a session after the database was copied, and before its large body is."""
        if what == "database" and done == total:
            with sqlite3.connect(data / "sessions.sqlite") as db:
                db.execute("DELETE FROM blobs WHERE session='deleted'")
                gone = db.execute("DELETE FROM segments WHERE session='deleted'").rowcount
                db.execute("DELETE FROM hosted WHERE id='deleted'")
            db.close()
            if gone:
                blobs = data / "sessions.sqlite-blobs"
                next(path for path in blobs.iterdir() if b"deleted" in path.read_bytes()).unlink()

    manifest = backup.make_backup(data, place, delete_one)
    assert (manifest.sessions, manifest.blobs, manifest.lost) == (1, 1, ())
    files = {file.path: file for file in manifest.files}
    assert {"tokens.json", "quotas.json", "later/part.json", "sessions.sqlite"} <= files.keys()
    assert {f"attachments/{kept}.bin", f"attachments/{kept}.json"} <= files.keys()
    assert not any(dropped in path for path in files)
    assert {"first.token", "codes.json", "tokens.json.lock", "fifo"}.isdisjoint(path.name for path in place.rglob("*"))
    on_disk = [path.relative_to(place / "data") for path in (place / "data").rglob("*") if path.is_file()]
    assert sorted(map(str, on_disk)) == sorted(files)

    restored.mkdir(0o700)
    assert backup.restore_backup(place, backup.check_backup(place, silent), restored, silent) is None
    assert (restored / "quotas.json").read_text() == "quotas.json of the host"
    modes = {path: stat.S_IMODE((restored / path).stat().st_mode) for path in files}
    assert (modes["tokens.json"], modes["later/part.json"], modes["sessions.sqlite"]) == (0o600, 0o640, 0o600)
    assert list(asyncio.run(all_events(restored))) == ["kept"]

    # A body that was lost before is said to be, and the rest is saved.
    next((data / "sessions.sqlite-blobs").iterdir()).write_bytes(b"damaged")
    manifest = backup.make_backup(data, tmp_path / "holes", silent)
    assert (manifest.sessions, manifest.blobs, len(manifest.lost)) == (1, 0, 1)


def test_a_restore_checks_everything_first_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, place = tmp_path / "data", tmp_path / "place"
    fill(data, "a", "b")
    (data / "tokens.json").write_text("old")
    backup.make_backup(data, place, silent)
    blob = next((place / "data" / "sessions.sqlite-blobs").iterdir())
    content = blob.read_bytes()
    for damage in (lambda: blob.write_bytes(content[:-1] + b"x"), lambda: blob.write_bytes(b""), blob.unlink):
        damage()
        with pytest.raises(ConfigError, match="is damaged"):
            backup.check_backup(place, silent)
    blob.write_bytes(content)
    manifest = backup.check_backup(place, silent)
    text = (place / "manifest.json").read_text()
    for wrong, why in (('"format": 1', "newer dragoman"), ('"path": "tokens.json"', "damaged")):
        changed = {'"format": 1': '"format": 2', '"path": "tokens.json"': '"path": "../tokens.json"'}[wrong]
        assert wrong in text
        (place / "manifest.json").write_text(text.replace(wrong, changed))
        with pytest.raises(ConfigError, match=why):
            backup.read_manifest(place)
    (place / "manifest.json").write_text(text)
    with pytest.raises(ConfigError, match="is not empty"):
        backup.require_room(data, replaces=False)

    (data / "tokens.json").write_text("new")
    (data / "more").write_text("only here")
    rename, left = os.rename, [3]

    def killed(*names: Any, **folders: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        rename(*names, **folders)

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        backup.restore_backup(place, manifest, data, silent)
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(CliError, match="was not finished"):
        ServePlaces(str(data)).lock()
    with pytest.raises(ConfigError, match="half of a backup"):
        backup.make_backup(data, tmp_path / "another", silent)
    before = backup.restore_backup(place, manifest, data, silent)
    assert before is not None
    os.close(ServePlaces(str(data)).lock())
    assert (data / "tokens.json").read_text() == "old"
    assert ((before / "tokens.json").read_text(), (before / "more").read_text()) == ("new", "only here")
    assert sorted(asyncio.run(all_events(data))) == ["a", "b"]


async def test_a_restored_session_goes_on_behind_its_last_event(tmp_path: Path) -> None:
    data, source = tmp_path / "data", OnTheWire(capabilities={"loadSession": True})
    log = SqliteLog(data / "sessions.sqlite")
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        source.agent.say("half")
        await line.until_update("agent_message_chunk")
        await asyncio.to_thread(backup.make_backup, data, tmp_path / "place", silent)
        source.agent.reply(prompt, {"stopReason": "end_turn"})
        await line.answer_to(id)
    await log.close()
    (tmp_path / "new").mkdir()
    backup.restore_backup(tmp_path / "place", backup.read_manifest(tmp_path / "place"), tmp_path / "new", silent)
    log = SqliteLog(tmp_path / "new" / "sessions.sqlite")
    async with hosted(source, log=log) as host:
        line = await host.client(OURS, visitor=Visitor())
        updates, _ = await line.load(session)
        assert [update["content"]["text"] for update in updates if "content" in update][-1] == "half"
        # The turn that ran when the backup was made has ended with it, and is not run again.
        _, listed = await line.answer_to(line.ask("session/list"))
        (row,) = listed["result"]["sessions"]
        assert row["_meta"]["dragoman"]["state"] == "idle"
        ends = await host.events(session, "end")
        assert [end["error"]["data"]["reason"] for end in ends] == ["interrupted"]
    await log.close()


def test_the_head_of_an_audit_log_is_copied_before_its_records(tmp_path: Path) -> None:
    """A head that names a record which is not in the copy is what a log that was cut off looks like."""
    audit = tmp_path / "audit"
    audit.mkdir()
    for name in ("audit-2026-11-17-001.jsonl", "head.json"):
        (audit / name).write_text("{}")
    assert next(path for path, _ in backup._walk(tmp_path)) == "audit/head.json"
