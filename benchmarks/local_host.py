"""What a prompt in a warm session of the local host costs over the agent's own time: `dragoman exec --session`.

A host of its own is started in a temporary home, with the scripted agent. The agent's own time is that of the same
prompt on an open connection. The goal of 30 ms is for a machine with nothing else to do.
"""

from __future__ import annotations

import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dragoman.host.local.place import find_places
from dragoman.host.local.thin import ThinClient, begin, begun, connect_any

RUNS = 30
GOAL_MS = 30.0


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dgb-", dir="/tmp") as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN", "XDG"))},
            "DRAGOMAN_HOME": f"{folder}/home",
            "XDG_RUNTIME_DIR": folder,
            "DRAGOMAN_HOST": "on",
        }
        program = Path(sys.executable).parent / "dragoman"
        start = [str(program)] if program.exists() else [sys.executable, "-m", "dragoman"]
        exec_words = [*start, "exec", "-q", "--session", "bench"]

        def run(*words: str) -> None:
            subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)

        first = _milliseconds(lambda: run(*exec_words, "-a", "scripted", "hello"), 1)[0]
        client = connect_any(find_places(environment))
        assert client is not None
        begun(client, begin(client))
        pid = client.call("_dragoman/host")["pid"]
        try:
            own = _milliseconds(lambda: _prompt(client, folder), RUNS)
            python = _milliseconds(lambda: run(sys.executable, "-c", "pass"), RUNS)
            warm = _milliseconds(lambda: run(*exec_words, "hello"), RUNS)
            memory = _resident_mib(pid)
        finally:
            client.close()
            ended = os.pidfd_open(pid)
            os.kill(pid, signal.SIGTERM)
            if not select.select([ended], [], [], 30)[0]:
                raise SystemExit(f"the host {pid} does not end")
            os.close(ended)
    print(f"first prompt, with the start of the host and the agent   {first:7.1f} ms")
    for title, found in (
        ("the agent's own time for a prompt, on an open connection", own),
        ("python -c pass", python),
        ("dragoman exec --session, warm", warm),
    ):
        print(f"{title:<56} {statistics.median(found):7.1f} ms (best {min(found):.1f})")
    over = statistics.median(warm) - statistics.median(own)
    print(f"{'over the time of the agent':<56} {over:7.1f} ms (best {min(warm) - min(own):.1f}; goal {GOAL_MS:g})")
    print(f"{'resident memory of the host':<56} {memory:7.1f} MiB")


def _milliseconds(work: Callable[[], object], count: int) -> list[float]:
    found = []
    for _ in range(count):
        started = time.perf_counter()
        work()
        found.append((time.perf_counter() - started) * 1000)
    return found


def _prompt(client: ThinClient, folder: str) -> None:
    (session,) = client.call("session/list", cwd=os.path.realpath(folder))["sessions"]
    client.call("session/prompt", sessionId=session["sessionId"], prompt=[{"type": "text", "text": "hello"}])


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


if __name__ == "__main__":
    main()
