"""The programs that are compared: for each peer one agent and one client that do every case.

A client program is called as ``client CASE PARAMS_JSON AGENT_COMMAND...``. It prints its agent's process id once a
session is open, waits for a line on stdin, does the case, and prints the numbers; both as one line of JSON.
An agent program does what the text of the prompt says; see ``benchmarks/README.md`` for both contracts.
This package knows how to start the programs, not what is done with their numbers.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TYPESCRIPT_PACKAGE = "@agentclientprotocol/sdk"


class Peer(msgspec.Struct, frozen=True):
    """How to start the two programs of one peer, and why they cannot run, if they cannot."""

    name: str
    title: str
    agent_command: tuple[str, ...]
    client_command: tuple[str, ...]
    version: str
    missing: str = ""


def _python_peer(name: str, title: str, version: str, missing: str = "") -> Peer:
    # Agents run as plain files: cold start must not pay for importing this package.
    return Peer(
        name=name,
        title=title,
        agent_command=(sys.executable, str(HERE / name / "agent.py")),
        client_command=(sys.executable, "-m", f"benchmarks.peers.{name}.client"),
        version=version,
        missing=missing,
    )


def _distribution_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _raw() -> Peer:
    return _python_peer("raw", "floor", f"msgspec {_distribution_version('msgspec')}")


def _asyncio() -> Peer:
    raw = _raw()
    client = (sys.executable, "-m", "benchmarks.peers.raw.aio_client")
    return msgspec.structs.replace(
        raw,
        name="asyncio",
        title="asyncio floor",
        agent_command=(*raw.agent_command, "--asyncio"),
        client_command=client,
    )


def _batching() -> Peer:
    raw = _raw()
    agent = (*raw.agent_command, "--batch")
    return msgspec.structs.replace(raw, name="batching", title="batching floor", agent_command=agent)


def _dragoman() -> Peer:
    source = ROOT / "src" / "dragoman" / "__init__.py"
    is_present = source.exists() or importlib.util.find_spec("dragoman") is not None
    missing = "" if is_present else "the package dragoman is not installed; run `make bench`"
    return _python_peer("dragoman", "dragoman", _distribution_version("dragoman") or "source tree", missing)


def _pysdk() -> Peer:
    version = _distribution_version("agent-client-protocol")
    missing = "" if version else "the package agent-client-protocol is not installed; run `make bench`"
    return _python_peer("pysdk", "Python SDK", version, missing)


def _typescript_version() -> str:
    """The version node would load from the programs' place; empty if there is none."""
    for folder in (HERE / "ts", *(HERE / "ts").parents):
        manifest = folder / "node_modules" / TYPESCRIPT_PACKAGE / "package.json"
        if manifest.exists():
            return str(json.loads(manifest.read_text())["version"])
    return ""


def _ts() -> Peer:
    node = shutil.which("node")
    version = _typescript_version()
    missing = ""
    if node is None:
        missing = "node is not on the PATH; install Node.js 20 or newer"
    elif not version:
        missing = f"{TYPESCRIPT_PACKAGE} is not in node_modules; run `make bench`"
    return Peer(
        name="ts",
        title="TypeScript SDK",
        agent_command=(node or "node", str(HERE / "ts" / "agent.mjs")),
        client_command=(node or "node", str(HERE / "ts" / "client.mjs")),
        version=version,
        missing=missing,
    )


_FINDERS: dict[str, Callable[[], Peer]] = {
    "raw": _raw,
    "batching": _batching,
    "asyncio": _asyncio,
    "ts": _ts,
    "pysdk": _pysdk,
    "dragoman": _dragoman,
}
NAMES = tuple(_FINDERS)


def find_peer(name: str) -> Peer:
    """The peer of that name, with ``missing`` set when it cannot run here."""
    return _FINDERS[name]()
