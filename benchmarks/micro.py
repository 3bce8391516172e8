"""CPU time of our code in one process: ``python -m benchmarks.micro [COUNT]``.

For tuning: no second process and no pipe disturb it, so that differences of 5 % show, which the benchmark proper
cannot see. One side is measured alone: its transport throws away what the agent says, or replays what a client
receives. For requests also both roles are linked in memory.

On a busy machine even CPU time varies by a third; then count instructions, which do not:
``valgrind --tool=cachegrind --cache-sim=no python -m benchmarks.micro 1000``, and the same with 2000.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from dragoman import Agent, ConnectionClosed, Session, Turn, connect, memory_pair
from dragoman.rpc import Receiver
from dragoman.schema import v1

TEXT = "the quick brown fox jumps over the lazy "
REPEATS = 5
# What one read of a pipe returns at most.
CHUNK_BYTES = 65536


class Loopback:
    """A transport whose other end is ``on_line``, called for each line written; it takes everything at once."""

    unsent_bytes = 0

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._unfinished = b""
        self._ended = asyncio.Event()
        self._can_read = asyncio.Event()
        self.receiver: Receiver

    def start(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self._can_read.set()

    def write(self, data: bytes) -> None:
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            self._on_line(line)

    def pause_reading(self) -> None:
        self._can_read.clear()

    def resume_reading(self) -> None:
        self._can_read.set()

    async def feed_all(self, chunks: list[bytes]) -> None:
        """Feeds as a pipe would: one chunk per turn of the loop, none while reading is paused."""
        for chunk in chunks:
            await self._can_read.wait()
            self.receiver.feed(chunk)
            await asyncio.sleep(0)

    def hang_up(self) -> None:
        """The other end is gone."""
        self.receiver.end(ConnectionClosed("the measurement is over"))

    def close(self) -> None:
        self._ended.set()

    async def wait_closed(self) -> None:
        await self._ended.wait()


def line(message: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


async def agent_says(count: int) -> float:
    """CPU us of one ``turn.say()``, writing included, reading excluded."""
    spent = asyncio.get_running_loop().create_future()
    agent = Agent("micro")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        start = time.process_time()
        for _ in range(count):
            await turn.say(TEXT)
        spent.set_result(time.process_time() - start)

    # Only the two answers before the prompt are looked at: the rest must cost nothing.
    session_id = asyncio.get_running_loop().create_future()

    def on_answer(data: bytes) -> None:
        if not session_id.done() and b'"sessionId"' in data:
            session_id.set_result(json.loads(data)["result"]["sessionId"])

    transport = Loopback(on_answer)
    serving = asyncio.create_task(agent.serve(transport))
    await asyncio.sleep(0)
    await transport.feed_all([line({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})])
    await transport.feed_all([line({"id": 2, "method": "session/new", "params": {"cwd": "/tmp", "mcpServers": []}})])
    params = {"sessionId": await session_id, "prompt": [{"type": "text", "text": "go"}]}
    # Nothing but the prompt's frames follows, so the counting of lines is left out of what is measured.
    transport.write = lambda data: None  # type: ignore[method-assign]  # the measured run has no other end
    await transport.feed_all([line({"id": 3, "method": "session/prompt", "params": params})])
    seconds: float = await spent
    transport.hang_up()
    await serving
    return seconds / count * 1e6


async def client_receives(count: int) -> float:
    """CPU us of one update: framing, typed decode, fold into the state, queue, loop body."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": TEXT}}
    data = line({"method": "session/update", "params": {"sessionId": "s", "update": update}}) * count
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    prompt_id = asyncio.get_running_loop().create_future()

    def on_request(request: bytes) -> None:
        message = json.loads(request)
        answers: dict[str, dict[str, object]] = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": {}},
            "session/new": {"sessionId": "s"},
        }
        if message["method"] == "session/prompt":
            prompt_id.set_result(message["id"])
        elif message["method"] in answers:
            answer = line({"id": message["id"], "result": answers[message["method"]]})
            asyncio.get_running_loop().call_soon(transport.receiver.feed, answer)

    transport = Loopback(on_request)

    async def flood() -> None:
        answer = line({"id": await prompt_id, "result": {"stopReason": "end_turn"}})
        await transport.feed_all([*chunks, answer])

    async with connect(transport) as agent:
        session = await agent.new_session(cwd="/tmp")
        flooding = asyncio.create_task(flood())
        received = 0
        start = time.process_time()
        async for _ in session.prompt("go"):
            received += 1
        seconds = time.process_time() - start
        await flooding
    assert received == count, f"{received} of {count} updates were received"
    return seconds / count * 1e6


async def exchange(count: int) -> float:
    """CPU us of one no-op prompt and its answer: both roles in this process, linked in memory."""
    agent = Agent("micro")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        pass

    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(theirs))
    async with connect(ours) as remote:
        session = await remote.new_session(cwd="/tmp")
        start = time.process_time()
        for _ in range(count):
            await session.prompt("go")
        seconds = time.process_time() - start
    await serving
    return seconds / count * 1e6


async def agent_answers(count: int) -> float:
    """CPU us of one no-op prompt for the agent alone, reading and writing excluded."""
    agent = Agent("micro")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        pass

    loop = asyncio.get_running_loop()
    opened, done = loop.create_future(), loop.create_future()

    def on_answer(data: bytes) -> None:
        if not opened.done() and b'"sessionId"' in data:
            opened.set_result(json.loads(data)["result"]["sessionId"])

    transport = Loopback(on_answer)
    serving = asyncio.create_task(agent.serve(transport))
    await asyncio.sleep(0)
    await transport.feed_all([line({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})])
    await transport.feed_all([line({"id": 2, "method": "session/new", "params": {"cwd": "/tmp", "mcpServers": []}})])
    params = {"sessionId": await opened, "prompt": [{"type": "text", "text": "go"}]}
    prompts = iter([line({"id": number + 3, "method": "session/prompt", "params": params}) for number in range(count)])
    transport.write = lambda data: None  # type: ignore[method-assign]  # the measured run has no other end

    def read() -> None:
        data = next(prompts, None)
        if data is None:
            done.set_result(None)
        else:
            transport.receiver.feed(data)
            loop.call_soon(read)

    start = time.process_time()
    loop.call_soon(read)
    await done
    seconds = time.process_time() - start
    transport.hang_up()
    await serving
    return seconds / count * 1e6


async def client_asks(count: int) -> float:
    """CPU us of one no-op prompt for the client alone, reading and writing excluded."""
    loop = asyncio.get_running_loop()
    results = {
        b'"initialize"': b'{"protocolVersion":1,"agentCapabilities":{}}',
        b'"session/new"': b'{"sessionId":"s"}',
        b'"session/prompt"': b'{"stopReason":"end_turn"}',
    }

    def on_request(request: bytes) -> None:
        number = request[request.index(b'"id":') + 5 : request.index(b',"method"')]
        result = next(found for method, found in results.items() if method in request)
        answer = b'{"jsonrpc":"2.0","id":' + number + b',"result":' + result + b"}\n"
        loop.call_soon(transport.receiver.feed, answer)

    transport = Loopback(on_request)
    async with connect(transport) as agent:
        session = await agent.new_session(cwd="/tmp")
        start = time.process_time()
        for _ in range(count):
            await session.prompt("go")
        seconds = time.process_time() - start
        transport.hang_up()
    return seconds / count * 1e6


async def read_files(count: int) -> float:
    """CPU us of one ``turn.read_file()`` and its answer, linked the same way."""
    spent = asyncio.get_running_loop().create_future()
    agent = Agent("micro")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        start = time.process_time()
        for _ in range(count):
            await turn.read_file("/tmp/file.py")
        spent.set_result(time.process_time() - start)

    class Files:
        async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
            return TEXT

    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(theirs))
    async with connect(ours, files=Files()) as remote:
        session = await remote.new_session(cwd="/tmp")
        await session.prompt("go")
    await serving
    seconds: float = await spent
    return seconds / count * 1e6


def best(measure: Callable[[int], Awaitable[float]], count: int) -> float:
    async def once() -> float:
        async with asyncio.timeout(60):
            return await measure(count)

    return min(asyncio.run(once()) for _ in range(REPEATS))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    print(f"agent, turn.say():       {best(agent_says, count):.2f} us CPU per update")
    print(f"client, receive to loop: {best(client_receives, count):.2f} us CPU per update")
    print(f"agent, prompt answered:  {best(agent_answers, count // 10):.1f} us CPU per exchange")
    print(f"client, prompt awaited:  {best(client_asks, count // 10):.1f} us CPU per exchange")
    print(f"both, prompt and answer: {best(exchange, count // 10):.1f} us CPU per exchange")
    print(f"both, read and answer:   {best(read_files, count // 10):.1f} us CPU per exchange")


if __name__ == "__main__":
    main()
