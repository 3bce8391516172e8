"""A network that does what networks do: it cuts connections, delays what passes, and passes half of it."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from dragoman.transports.remote.server import RemoteServer

_DELAY_SECONDS = 0.003


class FaultProxy:
    """Between a client and a server. Each connection has delays of its own, so that one overtakes the other."""

    def __init__(self, server: RemoteServer, port: int, dice: random.Random) -> None:
        """Prepare it; entering opens it. `dice` decides about every piece."""
        self._behind = server
        self._port = port
        self._dice = dice
        self._cut_chance = 0.0
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.port = 0
        self.cuts = 0

    async def __aenter__(self) -> FaultProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        hosts = self._behind.rules.hosts
        assert isinstance(hosts, set)
        hosts.add(b"127.0.0.1:%d" % self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.heal()
        while self._serving:
            for pair in list(self._pairs):
                self._abort(pair)
            await asyncio.wait(self._serving)

    def hurt(self, cut_chance: float) -> None:
        """From now on cut some pieces in half, together with their connections."""
        self._cut_chance = cut_chance

    def heal(self) -> None:
        """Cut nothing more."""
        self._cut_chance = 0.0

    def cut(self) -> None:
        """Break every connection, with what is on its way."""
        for pair in list(self._pairs):
            self.cuts += 1
            self._abort(pair)

    def _abort(self, pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        for writer in pair:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        pair = (writer, there_writer)
        self._pairs.add(pair)
        await asyncio.wait(
            [
                asyncio.ensure_future(self._pass_on(reader, there_writer, pair)),
                asyncio.ensure_future(self._pass_on(there_reader, writer, pair)),
            ]
        )
        self._pairs.discard(pair)
        self._abort(pair)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        dice = self._dice
        with suppress(OSError):
            while data := await reader.read(dice.choice((1, 7, 300, 4096, 65536))):
                if dice.random() < 0.3:
                    await asyncio.sleep(dice.uniform(0, _DELAY_SECONDS))
                if dice.random() < self._cut_chance:
                    self.cuts += 1
                    writer.write(data[: len(data) // 2])
                    self._abort(pair)
                    return
                writer.write(data)
                await writer.drain()
        writer.close()
