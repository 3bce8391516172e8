"""What `dragoman exec` costs: the wall time of a whole run over that of a bare pipe client, on the same agent.

The agent is the floor's: it starts fastest, and so leaves the least time for dragoman to load itself in the meantime.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers import find_peer, probe

BARE = Path(__file__).resolve().parents[1] / "raw" / "once.py"


def once(params: dict[str, Any]) -> dict[str, float]:
    """The two programs take turns, so that noise of the machine hits both; medians count."""
    agent = find_peer("raw").agent_command
    installed = Path(sys.executable).with_name("dragoman")
    exec_command = [str(installed)] if installed.exists() else [sys.executable, "-m", "dragoman"]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "DRAGOMAN_HOME": home}
        bare, ours = [], []
        for number in range(params["warm_up"] + params["count"]):
            times = (
                _run([sys.executable, str(BARE), params["prompt"], *agent], params["characters"], environment),
                _run([*exec_command, "exec", params["prompt"], "--", *agent], params["characters"], environment),
            )
            if number >= params["warm_up"]:
                bare.append(times[0])
                ours.append(times[1])
    over = [one - other for one, other in zip(ours, bare, strict=True)]
    return {
        "over_ms": statistics.median(over),
        "min_over_ms": min(over),
        "ms": statistics.median(ours),
        "bare_ms": statistics.median(bare),
    }


def _run(command: list[str], characters: int, environment: dict[str, str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, check=True, timeout=60
    )
    milliseconds = (time.perf_counter() - start) * 1e3
    probe.expect(min(len(done.stdout), characters), characters, "characters")  # one newline more or less
    return milliseconds
