"""What a Python client program of the benchmark needs besides its SDK: arguments, clocks, memory, the result line.

It reads ``/proc`` and therefore runs on Linux only. It does not depend on ACP.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

MIB = 1024 * 1024
# The fast peers are done with a turn in a tenth of a second, too short for one sample.
ENOUGH_SECONDS = 1.0
MAX_TURNS = 5


class Job(NamedTuple):
    case: str
    params: dict[str, Any]
    agent_command: list[str]


def read_job(argv: list[str]) -> Job:
    """The job a client program was started with: ``CASE PARAMS_JSON AGENT_COMMAND...``."""
    if len(argv) < 4:
        raise SystemExit(f"usage: {argv[0]} CASE PARAMS_JSON AGENT_COMMAND...")
    return Job(argv[1], json.loads(argv[2]), argv[3:])


def announce(agent_pid: int) -> None:
    """Report that the session is open, and wait until the benchmark has placed the two processes."""
    print(json.dumps({"agent_pid": agent_pid}), flush=True)
    sys.stdin.readline()


def report(result: dict[str, float]) -> None:
    print(json.dumps(result), flush=True)


def cpu_seconds(pid: int) -> float:
    """CPU time all threads of a process have used; in nanosecond steps, where ``/proc/PID/stat`` has 10 ms steps."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_bytes().split()[0])
        except FileNotFoundError:
            # The thread ended between the listing and the read; its time is lost, as it would be a moment later.
            continue
    return total / 1e9


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """Resident memory of a process, or with ``field="VmHWM"`` the highest it ever was."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"{field} of process {pid}")


def child_pid(command: list[str]) -> int:
    """The child of this process that runs ``command``: the agent, whatever else an SDK started with it."""
    own = str(os.getpid())
    wanted = "\0".join(command) + "\0"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[1] == own and (entry / "cmdline").read_text() == wanted:
                found.append(int(entry.name))
    if len(found) != 1:
        raise LookupError(f"expected one child that runs {command}, found {found}")
    return found[0]


class Usage:
    """CPU time of the client (this process) and the agent since it was made."""

    def __init__(self, agent_pid: int) -> None:
        self._agent_pid = agent_pid
        self._agent = cpu_seconds(agent_pid)
        self._client = cpu_seconds(os.getpid())

    def per_item_us(self, items: int) -> dict[str, float]:
        client = cpu_seconds(os.getpid()) - self._client
        agent = cpu_seconds(self._agent_pid) - self._agent
        return {"client_us": client / items * 1e6, "agent_us": agent / items * 1e6}


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def is_enough(times: list[float]) -> bool:
    """Whether the turns measured so far, at least one, say enough about a turn."""
    return len(times) >= MAX_TURNS or sum(times) >= ENOUGH_SECONDS


def cancel_result(times: list[float], late: list[float]) -> dict[str, float]:
    return {
        "ms": statistics.median(times),
        "max_ms": max(times),
        "late": statistics.median(late),
        "max_late": max(late),
    }


def expect(got: int, wanted: int, what: str) -> None:
    """Stop with a sentence when a peer did not do the whole work; a number for half of it would be worthless."""
    if got != wanted:
        print(f"{sys.argv[0]}: expected {wanted} {what}, got {got}", file=sys.stderr)
        raise SystemExit(1)
