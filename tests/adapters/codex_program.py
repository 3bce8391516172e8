"""The fake `codex` as an installed program, and a client of the adapter around it."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.adapters import AdapterAgent
from dragoman.adapters.codex.adapter import CodexAdapter
from dragoman.client import RemoteAgent, Session
from tests.adapters.fixtures import client_of

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
