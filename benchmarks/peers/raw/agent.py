"""The floor, agent side: typed msgspec messages over blocking pipes, one write per message, no dispatch.

Nothing here is a library: no connection object, no concurrency, no limits, no error answers.
It exists to say what the machine and msgspec alone can do.
"""

import os
import select
import sys
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Decoder, Encoder

# A line every 64 characters: real file contents have newlines, and JSON has to escape them.
LINE = "the quick brown fox jumps over the lazy dog and runs on; again" + " \n"


class Implementation(Struct):
    name: str
    version: str


class FileSystemCapabilities(Struct, rename="camel"):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(Struct):
    fs: FileSystemCapabilities | UnsetType = UNSET


class TextContent(Struct, tag_field="type", tag="text"):
    text: str


class ImageContent(Struct, tag_field="type", tag="image", rename="camel"):
    data: str
    mime_type: str


ContentBlock = TextContent | ImageContent


class AgentMessageChunk(Struct, tag_field="sessionUpdate", tag="agent_message_chunk", rename="camel"):
    content: ContentBlock


class AgentThoughtChunk(Struct, tag_field="sessionUpdate", tag="agent_thought_chunk", rename="camel"):
    content: ContentBlock


class Diff(Struct, tag_field="type", tag="diff", rename="camel"):
    path: str
    new_text: str
    old_text: str | UnsetType | None = UNSET


class Content(Struct, tag_field="type", tag="content"):
    content: ContentBlock


class ToolCall(Struct, tag_field="sessionUpdate", tag="tool_call", rename="camel"):
    tool_call_id: str
    title: str
    kind: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    content: list[Diff | Content] | UnsetType = UNSET


class ToolCallUpdate(Struct, tag_field="sessionUpdate", tag="tool_call_update", rename="camel"):
    tool_call_id: str
    title: str | UnsetType | None = UNSET
    status: str | UnsetType | None = UNSET
    content: list[Diff | Content] | UnsetType | None = UNSET


SessionUpdate = AgentMessageChunk | AgentThoughtChunk | ToolCall | ToolCallUpdate


class SessionNotification(Struct, rename="camel"):
    session_id: str
    update: SessionUpdate


class UpdateMessage(Struct):
    params: SessionNotification
    method: Literal["session/update"] = "session/update"
    jsonrpc: Literal["2.0"] = "2.0"


class ReadTextFileRequest(Struct, rename="camel"):
    session_id: str
    path: str


class ReadMessage(Struct):
    id: int
    params: ReadTextFileRequest
    method: Literal["fs/read_text_file"] = "fs/read_text_file"
    jsonrpc: Literal["2.0"] = "2.0"


class WriteTextFileRequest(Struct, rename="camel"):
    session_id: str
    path: str
    content: str


class WriteMessage(Struct):
    id: int
    params: WriteTextFileRequest
    method: Literal["fs/write_text_file"] = "fs/write_text_file"
    jsonrpc: Literal["2.0"] = "2.0"


class ReadTextFileResponse(Struct):
    content: str


class ReadAnswer(Struct):
    id: int
    result: ReadTextFileResponse
    jsonrpc: Literal["2.0"] = "2.0"


class WriteTextFileResponse(Struct):
    pass


class WriteAnswer(Struct):
    id: int
    result: WriteTextFileResponse
    jsonrpc: Literal["2.0"] = "2.0"


class AgentResult(Struct, rename="camel", omit_defaults=True):
    """Any result of an agent; with one known peer there is no need to tell them apart."""

    protocol_version: int | UnsetType = UNSET
    agent_info: Implementation | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    stop_reason: str | UnsetType = UNSET


class AgentAnswer(Struct):
    id: int
    result: AgentResult
    jsonrpc: Literal["2.0"] = "2.0"


class ClientParams(Struct, rename="camel", omit_defaults=True):
    """Any parameters of a client's request, for the same reason."""

    protocol_version: int | UnsetType = UNSET
    client_info: Implementation | UnsetType = UNSET
    client_capabilities: ClientCapabilities | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    mcp_servers: list[str] | UnsetType = UNSET
    session_id: str = ""
    prompt: list[ContentBlock] | UnsetType = UNSET


class ClientMessage(Struct):
    method: str
    params: ClientParams
    id: int | UnsetType = UNSET
    jsonrpc: Literal["2.0"] = "2.0"


encode = Encoder().encode
decode_client_message = Decoder(ClientMessage).decode
decode_read_answer = Decoder(ReadAnswer).decode
decode_write_answer = Decoder(WriteAnswer).decode
write = os.write


def send_update(session_id: str, update: SessionUpdate) -> None:
    write(1, encode(UpdateMessage(SessionNotification(session_id, update))) + b"\n")


def stream(session_id: str, count: int, size: int) -> str:
    text = (LINE * (size // len(LINE) + 1))[:size]
    if len(sys.argv) > 2 and sys.argv[1] == "--write":
        return repeat(foreign_line(session_id, text, sys.argv[2]), count)
    for _ in range(count):
        send_update(session_id, AgentMessageChunk(TextContent(text)))
    return "end_turn"


def foreign_line(session_id: str, text: str, way: str) -> bytes:
    """One update as another program would write it; for the client that is measured, not for the floor."""
    import json

    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    if way == "flawed":
        update["messageId"] = 5  # type: ignore[assignment]  # that is the flaw
    elif way == "unknown":
        update["sessionUpdate"] = "_unknown"
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session_id, "update": update}}
    if way == "params_first":
        message = dict(reversed(message.items()))
    separators = (", ", ": ") if way == "spaced" else (",", ":")
    return json.dumps(message, separators=separators).encode() + b"\n"


def repeat(line: bytes, count: int) -> str:
    batch = 16 * 1024 // len(line)
    for _ in range(count // batch):
        write(1, line * batch)
    if count % batch:
        write(1, line * (count % batch))
    return "end_turn"


def stream_batched(session_id: str, count: int, size: int) -> str:
    """Like `stream`, but a write for each 16 KiB: the batching floor."""
    text = (LINE * (size // len(LINE) + 1))[:size]
    held = bytearray()
    for _ in range(count):
        update = AgentMessageChunk(TextContent(text))
        held += encode(UpdateMessage(SessionNotification(session_id, update)))
        held += b"\n"
        if len(held) > 16 * 1024:
            write(1, held)
            held.clear()
    write(1, held)
    return "end_turn"


def tools(session_id: str, count: int, per_call: int) -> str:
    old = LINE * 32
    new = LINE * 32
    for number in range(count // per_call):
        tool_call_id = f"call-{number}"
        send_update(session_id, ToolCall(tool_call_id, "Edit file", kind="edit", status="pending"))
        send_update(session_id, ToolCallUpdate(tool_call_id, status="in_progress"))
        for _ in range(per_call):
            content: list[Diff | Content] = [Diff("/tmp/file.py", new, old)]
            send_update(session_id, ToolCallUpdate(tool_call_id, content=content))
        send_update(session_id, ToolCallUpdate(tool_call_id, status="completed"))
    return "end_turn"


def read(session_id: str, count: int) -> str:
    total = 0
    for number in range(count):
        write(1, encode(ReadMessage(number, ReadTextFileRequest(session_id, "/tmp/file.py"))) + b"\n")
        total += len(decode_read_answer(sys.stdin.buffer.readline()).result.content)
    return "end_turn"


def write_file(session_id: str, size: int) -> str:
    body = encode(WriteMessage(0, WriteTextFileRequest(session_id, "/tmp/file.py", LINE * (size // len(LINE)))))
    # Two buffers, one write: joining them would copy 50 MB.
    os.writev(1, (body, b"\n"))
    del body
    decode_write_answer(sys.stdin.buffer.readline())
    return "end_turn"


def forever(session_id: str, size: int) -> str:
    text = (LINE * (size // len(LINE) + 1))[:size]
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while True:
        # A look at stdin is a system call; every 16th update is often enough to see a cancel within 30 us.
        for _ in range(16):
            send_update(session_id, AgentMessageChunk(TextContent(text)))
        if poll.poll(0):
            message = decode_client_message(sys.stdin.buffer.readline())
            if message.method == "session/cancel":
                return "cancelled"


def answer_prompt(params: ClientParams) -> str:
    block = params.prompt[0] if params.prompt else TextContent("")
    words = block.text.split() if isinstance(block, TextContent) else []
    numbers = [int(word) for word in words[1:]]
    match words[0]:
        case "stream" if "--batch" in sys.argv:
            return stream_batched(params.session_id, *numbers)
        case "stream":
            return stream(params.session_id, *numbers)
        case "tools":
            return tools(params.session_id, *numbers)
        case "read":
            return read(params.session_id, *numbers)
        case "write":
            return write_file(params.session_id, *numbers)
        case "forever":
            return forever(params.session_id, *numbers)
    return "end_turn"


def main() -> None:
    sessions = 0
    readline = sys.stdin.buffer.readline
    while line := readline():
        message = decode_client_message(line)
        if message.method == "session/prompt":
            result = AgentResult(stop_reason=answer_prompt(message.params))
        elif message.method == "initialize":
            result = AgentResult(protocol_version=1, agent_info=Implementation("raw", "1"))
        elif message.method == "session/new":
            sessions += 1
            result = AgentResult(session_id=f"session-{sessions}")
        else:
            continue
        if not isinstance(message.id, UnsetType):
            write(1, encode(AgentAnswer(message.id, result)) + b"\n")


class AsyncioFloor:
    """The asyncio floor: an event loop that reads stdin, a task for each prompt, a future for each answer."""

    def __init__(self, asyncio: Any) -> None:
        self._asyncio = asyncio  # imported for this one only: the floor starts without it
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, Any] = {}
        self._tasks: set[Any] = set()
        self._rest = b""
        self.over = self._loop.create_future()
        self._loop.add_reader(0, self._on_readable)

    def _on_readable(self) -> None:
        data = os.read(0, 65536)
        if not data:
            self._loop.remove_reader(0)
            self.over.set_result(None)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(line)

    def _on_line(self, line: bytes) -> None:
        if b'"result"' in line:
            self._answers.pop(decode_read_answer(line).id).set_result(line)
            return
        message = decode_client_message(line)
        if message.method == "session/prompt":
            task = self._loop.create_task(self._prompted(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif message.method == "initialize":
            self._reply(message, AgentResult(protocol_version=1, agent_info=Implementation("asyncio", "1")))
        else:
            self._reply(message, AgentResult(session_id="session-1"))

    async def _prompted(self, message: ClientMessage) -> None:
        block = message.params.prompt[0] if message.params.prompt else None
        word, *numbers = block.text.split() if isinstance(block, TextContent) else [""]
        if word == "stream":
            await self._stream(message.params.session_id, *map(int, numbers))
        elif word == "read":
            await self._read(message.params.session_id, *map(int, numbers))
        self._reply(message, AgentResult(stop_reason="end_turn"))

    async def _stream(self, session_id: str, count: int, size: int) -> None:
        text = (LINE * (size // len(LINE) + 1))[:size]
        for number in range(count):
            send_update(session_id, AgentMessageChunk(TextContent(text)))
            if number % 32 == 0:
                await self._asyncio.sleep(0)

    async def _read(self, session_id: str, count: int) -> None:
        for number in range(count):
            self._answers[number] = answer = self._loop.create_future()
            write(1, encode(ReadMessage(number, ReadTextFileRequest(session_id, "/tmp/file.py"))) + b"\n")
            decode_read_answer(await answer)

    @staticmethod
    def _reply(message: ClientMessage, result: AgentResult) -> None:
        assert not isinstance(message.id, UnsetType)
        write(1, encode(AgentAnswer(message.id, result)) + b"\n")


def main_asyncio() -> None:
    import asyncio

    async def serve() -> None:
        await AsyncioFloor(asyncio).over

    asyncio.run(serve())


if __name__ == "__main__":
    if "--asyncio" in sys.argv:
        main_asyncio()
    else:
        main()
