"""What `dragoman guard` adds to a message: ``python -m benchmarks.guard [ROUNDS]``.

An agent of a few lines answers pings and streams updates, once alone and once behind the guard with its audit log on.
The guard's CPU for each message does not depend on what else the machine does; what it adds to a round trip is the
median of round trips in turns, and on a busy machine mostly waiting for a core. The goal is 200 us a message.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter
from typing import Any

ROUNDS = 3
PINGS = 500
UPDATES = 5_000
GOAL_US = 200.0
TICKS = os.sysconf("SC_CLK_TCK")
AGENT = """
import json, sys
TEXT = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a few words of an answer " * 4}}
CALL = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress", "rawInput": {"path": "a"}}
def update(each):
    params = {"sessionId": "s", "update": each}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}) + "\\n"
TEXT, CALL = update(TEXT), update(CALL)
for line in sys.stdin:
    asked = json.loads(line)
    method = asked["method"]
    if method == "session/prompt":
        for number in range(int(asked["params"]["prompt"][0]["text"])):
            sys.stdout.write(CALL if number % 10 == 0 else TEXT)
            sys.stdout.flush()
    results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    result = results.get(method, {"stopReason": "end_turn"})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


class Line:
    """An editor of a few lines."""

    def __init__(self, command: list[str], folder: str) -> None:
        environment = {**os.environ, "DRAGOMAN_HOME": os.path.join(folder, "home")}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=folder, env=environment
        )
        self.ask("initialize", {"protocolVersion": 1})
        self.ask("session/new", {"cwd": folder, "mcpServers": []})

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """Send a request and wait for its answer; how many lines came."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()
        count = 1
        while b'"result"' not in self.process.stdout.readline():
            count += 1
        return count

    def pings(self, count: int) -> list[float]:
        """The seconds of each round trip."""
        taken = []
        for _ in range(count):
            start = perf_counter()
            self.ask("_bench/ping", {})
            taken.append(perf_counter() - start)
        return taken

    def stream(self, count: int) -> int:
        """Have so many updates sent; how many lines came."""
        return self.ask("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": str(count)}]})

    def cpu_seconds(self) -> float:
        """What the process has used so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(rounds: int) -> dict[str, float]:
    """Microseconds by what was measured."""
    agent = [sys.executable, "-c", AGENT]
    with tempfile.TemporaryDirectory() as folder:
        plain = Line(agent, folder)
        guarded = Line([sys.executable, "-m", "dragoman", "guard", "--", *agent], folder)
        added, pinged, streamed = [], [], []
        for _ in range(rounds):
            without = median(plain.pings(PINGS))
            before = guarded.cpu_seconds()
            added.append((median(guarded.pings(PINGS)) - without) / 2)
            pinged.append((guarded.cpu_seconds() - before) / (2 * PINGS))
            before = guarded.cpu_seconds()
            count = guarded.stream(UPDATES)
            streamed.append((guarded.cpu_seconds() - before) / count)
        plain.close()
        guarded.close()
    return {
        "CPU of one message, one at a time": median(pinged) * 1e6,
        "CPU of one message of a stream": median(streamed) * 1e6,
        "time added to one message, median": median(added) * 1e6,
    }


def main(rounds: int = ROUNDS) -> None:
    for name, taken in measure(rounds).items():
        print(f"guard, {name:<34} {taken:6.1f} us (goal {GOAL_US:.0f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
