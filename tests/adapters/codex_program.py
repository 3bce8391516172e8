"""The fake `codex` as an installed program, a client of the adapter around it, and what tests look at."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.adapters import AdapterAgent
from dragoman.adapters.codex.adapter import CodexAdapter
from dragoman.client import RemoteAgent, Session
from tests.adapters.fixtures import client_of, on_wire

SECONDS = 60.0
ROOT = Path(__file__).resolve().parents[2]


def install(folder: Path) -> Path:
    """A program `codex` in a folder `bin`, with its home next to it, so that several tests never share one."""
    program = folder / "bin" / "codex"
    program.parent.mkdir(exist_ok=True)
    lines = [
        "#!/bin/sh",
        f"export PYTHONPATH='{ROOT}' CODEX_HOME='{folder / 'codex-home'}'",
        f"exec '{sys.executable}' -S -m tests.adapters.fake_codex \"$@\"",
    ]
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)
    return program


def work_folder(folder: Path) -> Path:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return work


@asynccontextmanager
async def codex_client(folder: Path, **options: Any) -> AsyncIterator[tuple[RemoteAgent, CodexAdapter]]:
    """A client of the adapter. Nothing that the program started may be left when the client has gone."""
    config = options.pop("config", None)
    adapter = CodexAdapter(str(install(folder)), config=config)
    async with client_of(AdapterAgent(adapter), **options) as remote:
        yield remote, adapter
    assert processes_of(folder) == []


@asynccontextmanager
async def codex_session(folder: Path, **options: Any) -> AsyncIterator[Session]:
    async with codex_client(folder, **options) as (remote, _):
        yield await remote.new_session(work_folder(folder))


def processes_of(folder: Path) -> list[str]:
    """The command lines of living processes with this program's home in their environment."""
    wanted = f"CODEX_HOME={folder / 'codex-home'}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (place / "environ").read_bytes().split(b"\0") and int(place.name) != os.getpid():
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # gone, or of another user
            continue
    return [each for each in found if each]


def calls_of(updates: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The calls by their titles, each with all of its members."""
    calls: dict[str, dict[str, Any]] = {}
    for update in updates:
        if "toolCallId" in update:
            calls.setdefault(update["toolCallId"], {}).update(update)
    return {call["title"]: call for call in calls.values()}


def notices_of(updates: list[dict[str, Any]]) -> list[str]:
    return [update["title"] for update in updates if update["sessionUpdate"] == "notice"]


async def until(is_so: Callable[[], Any]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(SECONDS):
        while not is_so():  # noqa: ASYNC110  there is no event for it
            await asyncio.sleep(0.02)


async def collected(turn: Any, into: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    updates: list[dict[str, Any]] = [] if into is None else into
    async for update in turn:
        updates += on_wire([update])
    return updates


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
