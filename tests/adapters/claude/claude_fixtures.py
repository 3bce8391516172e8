"""The fake program as an installed one, and a client of the adapter around it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.adapters import Adapter, claude_code, wrap
from dragoman.client import RemoteAgent, Session
from tests.adapters.fixtures import client_of

FAKE = Path(__file__).with_name("fake_claude.py")
SECONDS = 60


def install(folder: Path) -> Path:
    """Write an executable `claude` into the folder."""
    program = folder / "bin" / "claude"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S -B '{FAKE}' \"$@\"\n")
    program.chmod(0o755)
    return program


def adapter_in(folder: Path, **env: str | None) -> Adapter:
    """The adapter of the fake program, whose files are in the folder."""
    config: dict[str, str | None] = {"CLAUDE_CONFIG_DIR": str(folder / "config"), "FAKE_CLAUDE_VERSION": None}
    return claude_code(install(folder), env={**config, **env})


@asynccontextmanager
async def remote_of(folder: Path, *, env: dict[str, str] | None = None, **options: Any) -> AsyncIterator[RemoteAgent]:
    async with client_of(wrap(adapter_in(folder, **(env or {}))), **options) as remote, asyncio.timeout(SECONDS):
        yield remote


@asynccontextmanager
async def claude_session(folder: Path, **options: Any) -> AsyncIterator[Session]:
    """A new session in the folder `work`."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    async with remote_of(folder, **options) as remote:
        yield await remote.new_session(work)


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until something that arrives by itself has arrived."""
    async with asyncio.timeout(SECONDS):
        while not is_true():  # noqa: ASYNC110 - the client's state has no event
            await asyncio.sleep(0.01)


def calls_of(updates: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The calls by their titles, each with all of its members."""
    calls: dict[str, dict[str, Any]] = {}
    for update in updates:
        if "toolCallId" in update:
            calls.setdefault(update["toolCallId"], {}).update(update)
    return {call["title"]: call for call in calls.values()}


def answer_in(text: str) -> dict[str, Any]:
    """The answer that the fake program says it was given."""
    answer: dict[str, Any] = json.loads(text.partition("Answer: ")[2])
    return answer
