"""Runs one job of one peer as real processes and leaves nothing behind.

A job is a client program, which starts its agent itself. Whatever carries this run's mark in its environment is
killed after the job: SDKs differ in what they leave running, and a leftover agent would spoil the next measurement.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from benchmarks.peers import ROOT, Peer, find_peer

MARK = "DRAGOMAN_BENCHMARK_RUN"
# Developer settings that would change what is measured, or write no .pyc files.
_UNWANTED = ("PYTHONDONTWRITEBYTECODE", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "PYTHONWARNINGS", "NODE_OPTIONS")
_STDERR_LINES = 12


class CpuClock:
    """How many cores other programs, and other guests of the same host, used on average since this was made."""

    def __init__(self) -> None:
        self._start = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float]:
        line = Path("/proc/stat").read_text().split("\n", 1)[0]
        user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        own = os.times()
        return time.monotonic(), busy, own.user + own.system + own.children_user + own.children_system

    def foreign_cores(self) -> float:
        seconds, busy, own = (now - then for now, then in zip(self._read(), self._start, strict=True))
        return max(0.0, (busy - own) / seconds) if seconds else 0.0


class JobError(Exception):
    """A client program failed or took too long; the text says which, with the end of its stderr."""


class Runner:
    """Starts jobs and counts the processes that outlived theirs."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._environment = self._make_environment()
        self.left_behind: dict[str, int] = {}

    def _make_environment(self) -> dict[str, str]:
        environment = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
        environment[MARK] = self._mark
        if importlib.util.find_spec("dragoman") is None:
            environment["PYTHONPATH"] = str(ROOT / "src")
        return environment

    def run(
        self, peer: Peer, case: str, params: Mapping[str, Any], timeout_seconds: float, *, is_pinned: bool = False
    ) -> dict[str, float]:
        """The numbers one client program printed.

        Raises:
            JobError: it failed, printed something else, or was killed after ``timeout_seconds``.
        """
        # Cold start is the agent's alone: the same blocking client holds the stopwatch for every peer.
        client = find_peer("raw").client_command if case == "cold" else peer.client_command
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [*client, case, json.dumps(params), *peer.agent_command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )
            clock = CpuClock()
            alarm = threading.Timer(timeout_seconds, process.kill)
            alarm.start()
            try:
                result = _read_result(process, is_pinned)
                process.wait()
                if result is not None:
                    result["foreign_cores"] = round(clock.foreign_cores(), 2)
            finally:
                is_late = not alarm.is_alive()
                alarm.cancel()
                self._clean_up(process, peer.name)
            if is_late:
                raise JobError(f"no result within {timeout_seconds:.0f} s")
            if process.returncode != 0 or result is None:
                raise JobError(f"exit code {process.returncode}, {_tail(errors)}")
        return result

    def _clean_up(self, process: subprocess.Popen[bytes], peer: str) -> None:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        killed = self._kill_marked()
        if killed:
            self.left_behind[peer] = self.left_behind.get(peer, 0) + killed

    def _kill_marked(self) -> int:
        wanted = f"{MARK}={self._mark}".encode()
        killed = 0
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    killed += 1
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return killed


def _read_result(process: subprocess.Popen[bytes], is_pinned: bool) -> dict[str, float] | None:
    """The last JSON object the client prints; on the way, the line that names the agent's process."""
    assert process.stdin is not None
    assert process.stdout is not None
    result: dict[str, float] | None = None
    for line in process.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            raise JobError(f"no JSON on stdout: {line[:200]!r}") from None
        if "agent_pid" not in message:
            result = message
        else:
            if is_pinned:
                _place(process.pid, message["agent_pid"])
            # The client waits for this line, and starts its warm-up.
            process.stdin.write(b"\n")
            process.stdin.flush()
    return result


def _place(client_pid: int, agent_pid: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        # The main threads only: a runtime's helper threads (V8 has five) stay free to run where there is room.
        os.sched_setaffinity(client_pid, {cpus[0]})
        os.sched_setaffinity(agent_pid, {cpus[1]})


def _tail(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()[-_STDERR_LINES:]
    return "its last words:\n" + "\n".join(f"    {line}" for line in lines) if lines else "without a word"
