"""Long answers through whole programs: `dragoman exec` on the floor's agent, and on the built-in one.

An answer has 50,000 pieces. CPU time of all processes counts, and the memory of the largest of them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.peers import find_peer, probe


def chunks(params: dict[str, Any]) -> dict[str, float]:
    """CPU and wall seconds of an `exec` with each agent, less those of an `exec` with an answer of one piece."""
    count = params["count"]
    scripted = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted"]
    with tempfile.TemporaryDirectory() as home:
        os.environ["DRAGOMAN_HOME"] = os.path.join(home, "home")  # nothing of the user's is read or written
        floor = list(find_peer("raw").agent_command)
        numbers = sum(len(str(number)) + 1 for number in range(1, count + 1))
        result = _over("exec", [f"stream {count} 40", "stream 1 40"], floor, count * 40, home)
        result |= _over("builtin", [f"flood {count}", "flood 1"], scripted, numbers, home)
        return result


def _over(name: str, prompts: list[str], agent: list[str], characters: int, folder: str) -> dict[str, float]:
    (long, long_cpu), (short, short_cpu) = (_run(prompt, agent, folder) for prompt in prompts)
    probe.expect(min(long[1], characters), characters, "characters")  # a newline or a space more
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {
        f"{name}_seconds": long[0] - short[0],
        f"{name}_cpu_seconds": long_cpu - short_cpu,
        f"{name}_peak_mib": peak,
    }


def _run(prompt: str, agent: list[str], folder: str) -> tuple[tuple[float, int], float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "dragoman", "exec", prompt, "--", *agent]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=folder, check=True, timeout=120
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (seconds, len(done.stdout)), cpu
