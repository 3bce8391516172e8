"""What it costs to reach a program through a bridge: time, CPU and memory of the whole process tree.

Owns a client of a few lines on bare pipes, the same for every bridge, and reading `/proc`.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MIB: Final = 1024 * 1024
INITIALIZE: Final[dict[str, Any]] = {"protocolVersion": 1, "clientCapabilities": {}}


class BridgeCost(NamedTuple):
    """One measured start. Seconds and MiB."""

    initialize: float
    """Until `initialize` is answered."""
    ready: float
    """Until `session/new` is answered."""
    cpu: float
    """CPU of all processes until then."""
    own_memory: float
    """Of the bridge's own process, after one prompt."""
    tree_memory: float
    """Of all processes, after one prompt."""


class BareClient:
    """A client that asks one thing after the other, and leaves what it is asked unanswered."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            command, env=dict(env), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._count = 0

    def ask(self, method: str, params: Any) -> Any:
        self._count += 1
        self._send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self._count and "method" not in message:
                assert "error" not in message, message
                return message["result"]
        raise AssertionError(f"the bridge ended before it answered {method}")

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def measure(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> BridgeCost:
    """Start a bridge, open a session, and send one prompt."""
    began = time.monotonic()
    client = BareClient(command, env, cwd)
    try:
        client.ask("initialize", INITIALIZE)
        initialize = time.monotonic() - began
        session = client.ask("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]
        ready, cpu = time.monotonic() - began, sum(_cpu(pid) for pid in tree(client.process.pid))
        client.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Hello"}]})
        pids = tree(client.process.pid)
        own, whole = _memory(client.process.pid), sum(_memory(pid) for pid in pids)
    finally:
        client.close()
    return BridgeCost(initialize, ready, cpu, own, whole)


def best(costs: Sequence[BridgeCost]) -> BridgeCost:
    """The smallest of each number: what the machine does when nothing else is in the way."""
    return BridgeCost(*(min(values) for values in zip(*costs, strict=True)))


def table(costs: Mapping[str, BridgeCost]) -> str:
    """The numbers, a row for each bridge."""
    head = "| bridge | initialize s | session ready s | CPU s then | own process MiB | whole tree MiB |"
    rows = [
        f"| {name} | {cost.initialize:.2f} | {cost.ready:.2f} | {cost.cpu:.2f} | {cost.own_memory:.0f} | "
        f"{cost.tree_memory:.0f} |"
        for name, cost in costs.items()
    ]
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def tree(pid: int) -> list[int]:
    """A process and everything below it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*"):
            try:
                found += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                continue
    return found


def _cpu(pid: int) -> float:
    """CPU of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS


def _memory(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / _MIB
    except OSError:
        return 0.0
