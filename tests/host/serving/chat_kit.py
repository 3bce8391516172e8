"""A client of the AI SDK's endpoint that sees every byte, and one that keeps a chat as `useChat` does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import h11

from dragoman.host.serving.server import ServeOptions
from dragoman.testing.agent import scripted_agent
from dragoman.uistream.chunks import decode_chunk
from tests.host.serving.kit import FREELY, SECONDS, Served, served
from tests.uistream.chunk_reader import StrictReader

OPEN: list[Answered] = []


class Answered:
    """An answer that is read as it comes."""

    def __init__(self, host: Served) -> None:
        OPEN.append(self)
        self._host = host
        self._http = h11.Connection(h11.CLIENT)
        self._rest = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._host.port)
        data = b"" if body is None else json.dumps(body).encode()
        sent = {
            "host": f"127.0.0.1:{self._host.port}",
            "authorization": f"Bearer {self._host.secret}",
            "content-type": "application/json",
            "content-length": str(len(data)),
            **headers,
        }
        request = h11.Request(method=method, target=path, headers=[(k, v) for k, v in sent.items() if v])
        for event in (request, h11.Data(data=data), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        head = await self._next()
        assert isinstance(head, h11.Response)
        self.status = head.status_code
        self.headers = {name.decode(): value.decode() for name, value in head.headers}
        return self

    async def _next(self) -> Any:
        async with asyncio.timeout(SECONDS):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(65536))
            return event

    async def event(self) -> Any:
        """The next event: a chunk, "[DONE]", or None at the end."""
        while b"\n\n" not in self._rest:
            found = await self._next()
            if isinstance(found, h11.EndOfMessage):
                return None
            self._rest += bytes(found.data)
        event, self._rest = self._rest.split(b"\n\n", 1)
        if not event.startswith(b"data: "):
            return await self.event()
        data = event.removeprefix(b"data: ").decode()
        return data if data == "[DONE]" else json.loads(data)

    async def until(self, kind: str) -> list[Any]:
        found = []
        while True:
            found.append(await self.event())
            if found[-1] is None or found[-1]["type"] == kind:
                return found

    async def text(self) -> str:
        found = b""
        while isinstance(event := await self._next(), h11.Data):
            found += event.data
        return found.decode()

    async def chunks(self) -> list[Any]:
        """All chunks; the stream must end as streams of the AI SDK do."""
        assert self.status == 200, await self.text()
        found = []
        while (event := await self.event()) is not None:
            found.append(event)
        assert found.pop() == "[DONE]"
        self.close()
        return found

    def close(self) -> None:
        self._writer.close()

    async def closed(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class Chat:
    """A client that keeps its messages, as `useChat` does."""

    def __init__(self, host: Served, id: str = "chat-1", **body: Any) -> None:
        self.host = host
        self.id = id
        self.body = body
        self.messages: list[dict[str, Any]] = []
        self.reader = StrictReader(body.get("sdkVersion", 6))
        self._count = 0

    def user(self, text: str) -> None:
        self._count += 1
        message = {"id": f"u{self._count}", "role": "user", "parts": [{"type": "text", "text": text}]}
        self.messages.append(message)
        self.reader = StrictReader(self.body.get("sdkVersion", 6))

    async def post(self, path: str = "/ui-stream", **more: Any) -> Answered:
        body = {"id": self.id, "messages": self.messages, "trigger": "submit-message", **self.body, **more}
        return await Answered(self.host).ask("POST", path, body)

    async def read(self, answered: Answered) -> StrictReader:
        chunks = await answered.chunks()
        self.reader.stream([decode_chunk(json.dumps(chunk)) for chunk in chunks])
        return self.reader

    async def send(self, text: str, **more: Any) -> StrictReader:
        self.user(text)
        return await self.read(await self.post(**more))

    async def answer(self, allows: bool, reason: str = "") -> StrictReader:
        """Answer every question that the last stream ended with."""
        parts = [
            {"type": "dynamic-tool", "toolCallId": call, "approval": {"id": id, "approved": allows, "reason": reason}}
            for id, call in self.reader.asked.items()
        ]
        for id in list(self.reader.asked.values()):
            self.reader.tools[id]["state"] = "answered"
        self.messages = [each for each in self.messages if each["id"] != self.reader.message_id]
        self.messages.append({"id": self.reader.message_id, "role": "assistant", "parts": parts})
        return await self.read(await self.post(messageId=self.reader.message_id))


@asynccontextmanager
async def chatting(folder: Path, make: Any = scripted_agent, **settings: Any) -> AsyncIterator[Served]:
    usual = ServeOptions(limits=FREELY, drain_seconds=1.0, ui_stream=True, folders=(str(folder),))
    async with served(make, folder, **{"options": usual, **settings}) as host:
        yield host
    while OPEN:
        await OPEN.pop().closed()


async def idle(host: Served, attached: int = 0) -> None:
    """Wait until no turn runs and no chat is connected; a host has no event for it."""
    async with asyncio.timeout(SECONDS):
        while any(each.is_busy or len(each.attachments) > attached for each in host.host.live_sessions()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
