"""WebSocket conformance of the server: cases of the Autobahn test suite, named by its numbers.

The suite itself (`autobahntestsuite` 25.10.1) is written for Python 2 and does not start on Python 3. Its server cases
send a message and expect it back. Here the message is a request that is answered with its own text, because this server
serves JSON-RPC; binary messages are no part of ACP and are ignored. The cases of compression (12 and 13) do not apply:
it is not offered.
"""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from tests.transports.raw_websocket import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    Frame,
    RawWebSocket,
    close,
    echo,
    frame,
)
from tests.transports.remote_kit import Http, Serving, remote_server

HELLO = echo(b"hello")
PARTS = (HELLO[:20], HELLO[20:])


def make_agent() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("hello")

    @agent.request("_test/echo")
    async def say_again(params: dict[str, Any]) -> dict[str, Any]:
        return params

    return agent


@asynccontextmanager
async def line() -> AsyncIterator[RawWebSocket]:
    serving = Serving(make_agent())
    async with remote_server(serving) as (_, port):
        opened = await RawWebSocket.open(Http(port))
        try:
            yield opened
        finally:
            await opened.close()
    await serving.over()


async def works(opened: RawWebSocket) -> None:
    """The connection is open and serves."""
    opened.send(frame(TEXT, echo(b"still here", 77)))
    assert await opened.next_text() == "still here"


def failed(frames: list[Frame], code: int) -> None:
    """The server ended the connection with this code, and sent nothing after it."""
    assert frames, "the server closed the socket without a close frame"
    assert [each.opcode for each in frames] == [CLOSE], frames
    assert frames[0].code == code


SIZES = {"1.1.2": 125, "1.1.3": 126, "1.1.4": 127, "1.1.5": 128, "1.1.6": 65535, "1.1.7": 65536}


async def test_1_1_texts_of_every_length_form() -> None:
    async with line() as opened:
        for case, size in SIZES.items():
            message = echo(b"*" * (size - len(echo(b""))))
            assert len(message) == size
            opened.send(frame(TEXT, message))
            assert len(await opened.next_text()) == size - len(echo(b"")), case
            whole = echo(b"*" * size)
            opened.send(frame(TEXT, whole))
            assert len(await opened.next_text()) == size, case


async def test_1_1_8_a_text_in_pieces_of_997_bytes() -> None:
    async with line() as opened:
        data = frame(TEXT, echo(b"*" * 65536))
        for start in range(0, len(data), 997):
            opened.send(data[start : start + 997])
            await opened.writer.drain()
        assert len(await opened.next_text()) == 65536


async def test_1_1_1_and_1_2_empty_and_binary_messages_are_not_answered() -> None:
    async with line() as opened:
        opened.send(frame(BINARY, b""), frame(BINARY, b"\xff" * 125), frame(BINARY, b"\0" * 65536))
        opened.send(frame(BINARY, b"a", fin=False), frame(CONT, b"b"))
        await works(opened)


PINGS = {"2.1": b"", "2.2": b"Hello, world!", "2.3": b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", "2.4": b"\xfe" * 125}


async def test_2_1_to_2_4_a_ping_is_answered_with_its_data() -> None:
    async with line() as opened:
        for case, data in PINGS.items():
            opened.send(frame(PING, data))
            assert await opened.next() == Frame(0x80 | PONG, data), case


async def test_2_5_a_ping_of_126_bytes_is_wrong() -> None:
    async with line() as opened:
        opened.send(frame(PING, b"\xfe" * 126), frame(TEXT, HELLO))
        failed(await opened.end(), 1002)


async def test_2_6_and_2_11_pings_byte_by_byte() -> None:
    async with line() as opened:
        await opened.send_bytewise(*(frame(PING, b"payload-%d" % number) for number in range(10)))
        for number in range(10):
            assert await opened.next() == Frame(0x80 | PONG, b"payload-%d" % number)


async def test_2_7_to_2_9_pongs_that_were_not_asked_for_are_ignored() -> None:
    async with line() as opened:
        opened.send(frame(PONG), frame(PONG, b"unsolicited"), frame(PING, b"ping"))
        assert await opened.next() == Frame(0x80 | PONG, b"ping")
        await works(opened)


async def test_2_10_ten_pings_at_once_are_answered_in_order() -> None:
    async with line() as opened:
        opened.send(*(frame(PING, b"%d" % number) for number in range(10)))
        assert [(await opened.next()).data for _ in range(10)] == [b"%d" % number for number in range(10)]


RESERVED_BITS = {
    "3.1": frame(TEXT, HELLO, rsv=1),
    "3.2": frame(TEXT, HELLO, rsv=2),
    "3.3": frame(TEXT, HELLO, rsv=3),
    "3.4": frame(TEXT, HELLO, rsv=4),
    "3.5": frame(BINARY, b"\x00\xff", rsv=5),
    "3.6": frame(PING, b"Hello", rsv=6),
    "3.7": frame(CLOSE, rsv=7),
}


@pytest.mark.parametrize("case", [*RESERVED_BITS])
async def test_3_reserved_bits_are_wrong(case: str) -> None:
    """RSV1 marks compressed data, which was not negotiated."""
    async with line() as opened:
        if case in ("3.2", "3.3", "3.4"):
            await works(opened)
        opened.send(RESERVED_BITS[case], frame(PING))
        failed(await opened.end(), 1002)


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
async def test_4_reserved_opcodes_are_wrong(opcode: int) -> None:
    """Cases 4.1.1 to 4.1.5 and 4.2.1 to 4.2.5."""
    async with line() as opened:
        await works(opened)
        opened.send(frame(opcode, b"" if opcode in (3, 11) else b"reserved opcode payload"), frame(PING))
        failed(await opened.end(), 1002)


def fragments(parts: Iterable[bytes]) -> list[bytes]:
    """A text message in frames."""
    whole = list(parts)
    last = len(whole) - 1
    return [frame(CONT if number else TEXT, part, fin=number == last) for number, part in enumerate(whole)]


async def test_5_3_to_5_8_messages_in_fragments_with_pings_between() -> None:
    first, second = fragments(PARTS)
    async with line() as opened:
        opened.send(first, second)
        assert await opened.next_text() == "hello"
        await opened.send_bytewise(first, second)
        assert await opened.next_text() == "hello"
        opened.send(first, frame(PING, b"in between"), second)
        assert await opened.next() == Frame(0x80 | PONG, b"in between")
        assert await opened.next_text() == "hello"
        await opened.send_bytewise(first, frame(PING, b"in between"), second)
        assert await opened.next() == Frame(0x80 | PONG, b"in between")
        assert await opened.next_text() == "hello"


async def test_5_19_and_5_20_five_fragments_with_pings_and_a_pause() -> None:
    parts = fragments((HELLO[:10], HELLO[10:20], HELLO[20:30], HELLO[30:40], HELLO[40:]))
    async with line() as opened:
        opened.send(parts[0], parts[1], frame(PING, b"1"))
        assert (await opened.next()).data == b"1"
        opened.send(parts[2], parts[3], frame(PING, b"2"), parts[4])
        assert (await opened.next()).data == b"2"
        assert await opened.next_text() == "hello"


WRONG_FRAGMENTS = {
    "5.1": [frame(PING, b"a", fin=False), frame(CONT, b"b")],
    "5.2": [frame(PONG, b"a", fin=False), frame(CONT, b"b")],
    "5.9": [frame(CONT, b"nothing to continue"), frame(TEXT, HELLO)],
    "5.12": [frame(CONT, b"nothing to continue", fin=False), frame(TEXT, HELLO)],
    "5.18": [frame(TEXT, PARTS[0], fin=False), frame(TEXT, PARTS[1])],
}


@pytest.mark.parametrize("case", [*WRONG_FRAGMENTS])
async def test_5_wrong_fragments(case: str) -> None:
    async with line() as opened:
        opened.send(*WRONG_FRAGMENTS[case])
        failed(await opened.end(), 1002)


async def test_5_10_and_5_11_wrong_fragments_byte_by_byte() -> None:
    async with line() as opened:
        await opened.send_bytewise(WRONG_FRAGMENTS["5.9"][0])
        failed(await opened.end(), 1002)


async def test_5_15_to_5_17_a_message_is_answered_before_the_wrong_fragment_ends_the_connection() -> None:
    async with line() as opened:
        opened.send(*fragments(PARTS))
        assert await opened.next_text() == "hello"
        opened.send(frame(CONT, b"x", fin=False), frame(TEXT, HELLO))
        failed(await opened.end(), 1002)


async def test_6_1_fragments_without_data() -> None:
    async with line() as opened:
        for parts in ((b"", b"", HELLO), (b"", PARTS[0], b"", PARTS[1], b""), (HELLO, b"")):
            opened.send(*fragments(parts))
            assert await opened.next_text() == "hello"


KOSME = "\u03ba\u1f79\u03c3\u03bc\u03b5".encode()
VALID = {
    "6.2.1": "Hello-\u00b5@\u00df\u00f6\u00e4\u00fc\u00e0\u00e1-UTF-8!!".encode(),
    "6.5": KOSME,
    "6.7": b"\x7f\xc2\x80\xe0\xa0\x80\xf0\x90\x80\x80",
    "6.9": b"\x7f\xdf\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf",
    "6.11.1": b"\xed\x9f\xbf",
    "6.11.2": b"\xee\x80\x80",
    "6.11.3": b"\xef\xbf\xbd",
    "6.11.4": b"\xf4\x8f\xbf\xbf",
    "6.22": b"".join(chr(plane << 16 | low).encode() for plane in range(17) for low in (0xFFFE, 0xFFFF)),
    "6.23": b"\xef\xbf\xb9\xef\xbf\xba\xef\xbf\xbb\xef\xbf\xbc\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf",
}


async def test_6_valid_utf_8_whole_in_fragments_and_with_code_points_split() -> None:
    """Cases 6.2.2 to 6.2.4 for every text: whole, split in the middle, one byte in each fragment."""
    async with line() as opened:
        for case, text in VALID.items():
            message = echo(text)
            middle = len(message) // 2
            for parts in ((message,), (message[:middle], message[middle:]), [bytes((byte,)) for byte in message]):
                opened.send(*fragments(parts))
                assert (await opened.next_text()).encode() == text, case


INVALID = {
    "6.3.1": KOSME + b"\xed\xa0\x80edited",
    "6.4": KOSME + b"\xf4\x90\x80\x80edited",
    **{f"6.6.{size}": KOSME[:size] for size in (1, 3, 4, 6, 8, 10)},
    "6.8.1": b"\xf8\x88\x80\x80\x80",
    "6.8.2": b"\xfc\x84\x80\x80\x80\x80",
    "6.10.1": b"\xf7\xbf\xbf\xbf",
    "6.10.2": b"\xfb\xbf\xbf\xbf\xbf",
    "6.10.3": b"\xfd\xbf\xbf\xbf\xbf\xbf",
    "6.11.5": b"\xf4\x90\x80\x80",
    "6.12.1": b"\x80",
    "6.12.8": bytes(range(0x80, 0xC0)),
    "6.13.1": b" ".join(bytes((byte,)) for byte in range(0xC0, 0xE0)) + b" ",
    "6.13.5": b"\xfc \xfd ",
    "6.14.1": b"\xc0",
    "6.14.4": b"\xf8\x80\x80\x80",
    "6.14.8": b"\xf7\xbf\xbf",
    "6.15.1": b"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80\xfc\x80\x80\x80\x80\xdf\xef\xbf\xf7\xbf\xbf",
    "6.16.1": b"\xfe",
    "6.16.2": b"\xff",
    "6.16.3": b"\xfe\xfe\xff\xff",
    "6.17.1": b"\xc0\xaf",
    "6.17.2": b"\xe0\x80\xaf",
    "6.17.3": b"\xf0\x80\x80\xaf",
    "6.18.1": b"\xc1\xbf",
    "6.18.2": b"\xe0\x9f\xbf",
    "6.18.3": b"\xf0\x8f\xbf\xbf",
    "6.19.1": b"\xc0\x80",
    "6.19.3": b"\xf0\x80\x80\x80",
    "6.20.1": b"\xed\xa0\x80",
    "6.20.7": b"\xed\xbf\xbf",
    "6.21.1": b"\xed\xa0\x80\xed\xb0\x80",
    "6.21.8": b"\xed\xaf\xbf\xed\xbf\xbf",
}


async def test_6_invalid_utf_8_ends_the_connection_with_1007() -> None:
    serving = Serving(make_agent())
    async with remote_server(serving) as (_, port):
        for case, text in INVALID.items():
            for parts in ([echo(text)], [bytes((byte,)) for byte in echo(text)]):  # 6.3.2: byte by byte
                opened = await RawWebSocket.open(Http(port))
                opened.send(*fragments(parts))
                frames = await opened.end()
                assert [(each.opcode, each.code) for each in frames] == [(CLOSE, 1007)], case
                await opened.close()
    await serving.over()


async def test_7_1_1_and_7_1_2_a_close_is_answered_once_and_the_socket_is_closed() -> None:
    async with line() as opened:
        await works(opened)
        opened.send(close(1000), close(1000))
        failed(await opened.end(), 1000)


async def test_7_1_3_and_7_1_4_nothing_after_a_close_is_answered() -> None:
    for late in (frame(PING), frame(TEXT, HELLO)):
        async with line() as opened:
            opened.send(close(1000), late)
            failed(await opened.end(), 1000)


async def test_7_1_5_a_close_within_a_message_ends_the_connection_and_the_rest_is_not_answered() -> None:
    """The suite expects 1000 in return; the library calls the incomplete message a fault, 1002."""
    first, second = fragments(PARTS)
    async with line() as opened:
        opened.send(first, close(1000), second)
        failed(await opened.end(), 1002)


async def test_7_1_6_a_large_message_before_the_close() -> None:
    async with line() as opened:
        opened.send(frame(TEXT, echo(b"*" * 262144)), frame(TEXT, HELLO), close(1000), frame(PING))
        assert (await opened.end())[-1].code == 1000


CLOSES = {
    "7.3.1": (frame(CLOSE), None),
    "7.3.2": (frame(CLOSE, b"a"), 1002),
    "7.3.3": (close(1000), 1000),
    "7.3.4": (close(1000, b"Hello World!"), 1000),
    "7.3.5": (close(1000, b"*" * 123), 1000),
    "7.3.6": (close(1000, b"*" * 124), 1002),
    "7.5.1": (close(1000, KOSME + b"\xed\xa0\x80edited"), 1007),
}


@pytest.mark.parametrize("case", [*CLOSES])
async def test_7_3_and_7_5_what_a_close_frame_holds(case: str) -> None:
    data, code = CLOSES[case]
    async with line() as opened:
        opened.send(data)
        [found] = await opened.end()
        assert (found.opcode, found.code) == (CLOSE, code)


GOOD_CODES = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
BAD_CODES = (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535)


async def test_7_7_7_9_and_7_13_close_codes() -> None:
    serving = Serving(make_agent())
    async with remote_server(serving) as (_, port):
        for code in (*GOOD_CODES, *BAD_CODES):
            opened = await RawWebSocket.open(Http(port))
            opened.send(close(code))
            [found] = await opened.end()
            assert (found.opcode, found.code) == (CLOSE, code if code in GOOD_CODES else 1002), code
            await opened.close()
    await serving.over()


async def test_9_large_messages_whole_and_in_fragments() -> None:
    """Cases 9.1.4 (4 MiB) and 9.3.5 (4 MiB in frames of 16 KiB)."""
    message = echo(b"*" * (4 << 20))
    async with line() as opened:
        opened.send(frame(TEXT, message))
        assert len(await opened.next_text()) == 4 << 20
        opened.send(*fragments(message[start : start + 16384] for start in range(0, len(message), 16384)))
        assert len(await opened.next_text()) == 4 << 20


async def test_10_1_1_a_message_in_frames_of_1300_bytes() -> None:
    message = echo(b"*" * 65536)
    async with line() as opened:
        opened.send(*fragments(message[start : start + 1300] for start in range(0, len(message), 1300)))
        assert len(await opened.next_text()) == 65536


async def test_frames_of_a_client_must_be_masked() -> None:
    """RFC 6455, 5.1; the suite has no case for it."""
    async with line() as opened:
        opened.send(frame(TEXT, HELLO, is_masked=False))
        failed(await opened.end(), 1002)


async def test_a_message_over_the_limit_ends_with_1009_before_it_is_read() -> None:
    async with line() as opened:
        opened.send(frame(TEXT, b"x" * 100)[:1] + b"\xff" + (33 << 20).to_bytes(8) + b"\x01\x02\x03\x04")
        failed(await opened.end(), 1009)


async def test_compression_is_not_agreed_on() -> None:
    serving = Serving(make_agent())
    async with remote_server(serving) as (_, port):
        offer = "permessage-deflate; client_max_window_bits"
        opened = await RawWebSocket.open(Http(port), sec_websocket_extensions=offer)
        assert "sec-websocket-extensions" not in opened.head
        await works(opened)
        await opened.close()
    await serving.over()


async def test_a_client_that_sends_pings_and_reads_nothing_does_not_fill_the_memory() -> None:
    async with line() as opened:
        transport = opened.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        ping = frame(PING, b"x" * 125) * 500
        sent = 0
        while sent < 10 << 20:
            opened.send(ping)
            sent += len(ping)
            async with asyncio.timeout(60):
                await opened.writer.drain()
        transport.resume_reading()
        opened.send(frame(TEXT, HELLO))
        pongs = 0
        while (await opened.next()).opcode == PONG:
            pongs += 1
        assert pongs * 127 < 4 << 20


async def test_a_message_in_very_many_fragments_takes_no_more_memory_than_its_text() -> None:
    text = b"x" * 20_000
    first, *rest = fragments((PARTS[0], *(text[start : start + 2] for start in range(0, len(text), 2))))
    async with line() as opened:
        tracemalloc.start()
        try:
            opened.send(first, *rest[:-1], frame(PING))
            assert (await opened.next()).opcode == PONG
            assert tracemalloc.get_traced_memory()[0] < 300_000
        finally:
            tracemalloc.stop()
