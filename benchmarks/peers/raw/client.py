"""The floor, client side; and the neutral stopwatch for the cold start of every peer's agent.

Blocking reads, one typed decode per line, one function call per update. The decoder is chosen by the case,
because the floor knows what will arrive; a library cannot.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any, BinaryIO

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Decoder

from benchmarks.peers import probe
from benchmarks.peers.raw.agent import (
    LINE,
    AgentAnswer,
    AgentMessageChunk,
    AgentResult,
    ClientCapabilities,
    ClientMessage,
    ClientParams,
    Diff,
    FileSystemCapabilities,
    Implementation,
    ReadAnswer,
    ReadTextFileRequest,
    ReadTextFileResponse,
    SessionNotification,
    SessionUpdate,
    TextContent,
    ToolCallUpdate,
    WriteAnswer,
    WriteTextFileRequest,
    WriteTextFileResponse,
    encode,
)


class UpdateOrAnswer(Struct):
    """What arrives in a streaming turn."""

    params: SessionNotification | UnsetType = UNSET
    result: AgentResult | UnsetType = UNSET


class ReadOrAnswer(Struct):
    """What arrives in a turn that reads files."""

    id: int
    params: ReadTextFileRequest | UnsetType = UNSET
    result: AgentResult | UnsetType = UNSET


class WriteOrAnswer(Struct):
    """What arrives in a turn that writes a file."""

    id: int
    params: WriteTextFileRequest | UnsetType = UNSET
    result: AgentResult | UnsetType = UNSET


decode_answer = Decoder(AgentAnswer).decode
decode_update = Decoder(UpdateOrAnswer).decode
decode_read = Decoder(ReadOrAnswer).decode
decode_write = Decoder(WriteOrAnswer).decode


class RawAgent:
    """The agent process and its two pipes."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.pid = self.process.pid
        self._stdin = self.process.stdin.fileno()
        # A pipe holds 64 KiB; a smaller buffer would only add system calls.
        self._stdout: BinaryIO = os.fdopen(os.dup(self.process.stdout.fileno()), "rb", buffering=65536)
        self.readline = self._stdout.readline
        self.session_id = ""
        self._last_id = 0

    def send(self, message: Struct) -> None:
        os.write(self._stdin, encode(message) + b"\n")

    def ask(self, method: str, params: ClientParams) -> None:
        self._last_id += 1
        self.send(ClientMessage(method, params, id=self._last_id))

    def initialize(self) -> None:
        files = FileSystemCapabilities(read_text_file=True, write_text_file=True)
        params = ClientParams(
            protocol_version=1,
            client_info=Implementation("raw", "1"),
            client_capabilities=ClientCapabilities(files),
        )
        self.ask("initialize", params)
        answer = self.readline()
        if not answer:
            raise SystemExit("the agent ended without an answer to initialize; its own error is above")
        decode_answer(answer)

    def open_session(self) -> None:
        self.initialize()
        self.ask("session/new", ClientParams(cwd="/tmp", mcp_servers=[]))
        session_id = decode_answer(self.readline()).result.session_id
        assert not isinstance(session_id, UnsetType)
        self.session_id = session_id

    def prompt(self, text: str) -> None:
        self.ask("session/prompt", ClientParams(session_id=self.session_id, prompt=[TextContent(text)]))

    def cancel(self) -> None:
        self.send(ClientMessage("session/cancel", ClientParams(session_id=self.session_id)))

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self._stdout.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Counter:
    """The handler: looks at every update and counts what it carried."""

    def __init__(self) -> None:
        self.updates = 0
        self.characters = 0

    def on_update(self, update: SessionUpdate) -> None:
        if isinstance(update, AgentMessageChunk):
            self.updates += 1
            if isinstance(update.content, TextContent):
                self.characters += len(update.content.text)
        elif isinstance(update, ToolCallUpdate) and update.content:
            self.updates += 1
            diff = update.content[0]
            if isinstance(diff, Diff):
                self.characters += len(diff.new_text)


def turn(agent: RawAgent, text: str) -> Counter:
    counter = Counter()
    readline = agent.readline
    agent.prompt(text)
    while True:
        message = decode_update(readline())
        if isinstance(message.params, SessionNotification):
            counter.on_update(message.params.update)
        else:
            return counter


def cold(command: list[str], params: dict[str, Any]) -> dict[str, float]:
    times = []
    memory = []
    for _ in range(params["spawns"]):
        start = time.perf_counter()
        agent = RawAgent(command)
        agent.initialize()
        times.append((time.perf_counter() - start) * 1e3)
        memory.append(probe.memory_mib(agent.pid))
        agent.close()
    return {"ms": statistics.median(times), "min_ms": min(times), "rss_mib": statistics.median(memory)}


def rtt(agent: RawAgent, params: dict[str, Any]) -> dict[str, float]:
    def exchange() -> None:
        agent.prompt("noop")
        decode_answer(agent.readline())

    for _ in range(params["warm_up"]):
        exchange()
    times = []
    usage = probe.Usage(agent.pid)
    for _ in range(params["count"]):
        start = time.perf_counter()
        exchange()
        times.append((time.perf_counter() - start) * 1e6)
    return {"p50_us": statistics.median(times), "p99_us": probe.percentile(times, 0.99)} | usage.per_item_us(len(times))


def stream(agent: RawAgent, params: dict[str, Any]) -> dict[str, float]:
    count, prompt = params["count"], params["prompt"]
    turn(agent, params["warm_up"])
    usage = probe.Usage(agent.pid)
    times: list[float] = []
    while not probe.is_enough(times):
        start = time.perf_counter()
        counter = turn(agent, prompt)
        times.append(time.perf_counter() - start)
        probe.expect(counter.updates, count, "updates")
        probe.expect(counter.characters, count * params["characters"], "characters")
    return {"per_second": count / statistics.median(times)} | usage.per_item_us(count * len(times))


def read(agent: RawAgent, params: dict[str, Any]) -> dict[str, float]:
    content = LINE * 16

    def reading_turn(text: str) -> int:
        agent.prompt(text)
        served = 0
        while True:
            message = decode_read(agent.readline())
            if not isinstance(message.params, ReadTextFileRequest):
                return served
            served += 1
            agent.send(ReadAnswer(message.id, ReadTextFileResponse(content)))

    reading_turn(params["warm_up"])
    usage = probe.Usage(agent.pid)
    start = time.perf_counter()
    served = reading_turn(params["prompt"])
    seconds = time.perf_counter() - start
    probe.expect(served, params["count"], "reads")
    return {"per_second": served / seconds} | usage.per_item_us(served)


def cancel(agent: RawAgent, params: dict[str, Any]) -> dict[str, float]:
    times, late = [], []
    for number in range(params["count"] + params["warm_up"]):
        counter = Counter()
        agent.prompt(params["prompt"])
        while counter.updates < params["after"]:
            message = decode_update(agent.readline())
            assert isinstance(message.params, SessionNotification)
            counter.on_update(message.params.update)
        start = time.perf_counter()
        agent.cancel()
        while isinstance((message := decode_update(agent.readline())).params, SessionNotification):
            counter.on_update(message.params.update)
        if number >= params["warm_up"]:
            times.append((time.perf_counter() - start) * 1e3)
            late.append(float(counter.updates - params["after"]))
    return probe.cancel_result(times, late)


def big(agent: RawAgent, params: dict[str, Any]) -> dict[str, float]:
    def writing_turn(text: str) -> int:
        agent.prompt(text)
        message = decode_write(agent.readline())
        assert isinstance(message.params, WriteTextFileRequest)
        size = len(message.params.content)
        agent.send(WriteAnswer(message.id, WriteTextFileResponse()))
        decode_answer(agent.readline())
        return size

    writing_turn(params["warm_up"])
    times = []
    for _ in range(params["count"]):
        start = time.perf_counter()
        size = writing_turn(params["prompt"])
        times.append(time.perf_counter() - start)
        probe.expect(size, params["size"], "characters")
    return {
        "mib_per_second": params["size"] / probe.MIB / statistics.median(times),
        "client_peak_mib": probe.memory_mib(os.getpid(), "VmHWM"),
        "agent_peak_mib": probe.memory_mib(agent.pid, "VmHWM"),
    }


CASES = {"rtt": rtt, "unpinned": rtt, "stream": stream, "diffs": stream, "read": read, "cancel": cancel, "big": big}


def main() -> None:
    job = probe.read_job(sys.argv)
    if job.case == "cold":
        probe.report(cold(job.agent_command, job.params))
        return
    agent = RawAgent(job.agent_command)
    agent.open_session()
    probe.announce(agent.pid)
    result = CASES[job.case](agent, job.params)
    agent.close()
    probe.report(result)


if __name__ == "__main__":
    main()
