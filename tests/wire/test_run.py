"""A run of lines of one kind is decoded in one pass, and ends at everything else."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from dragoman.wire import Frame, Framer, TooLong, decode_run
from dragoman.wire.run import RUN_BLOCK_BYTES


class Tick(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    method: Literal["tick"]
    params: Any
    id: UnsetType = UNSET


decode = msgspec.json.Decoder(Tick).decode


def tick(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"tick","params":%d}' % number


def numbers(frames: list[Frame], start: int = 0) -> list[object]:
    return [one.params for one in decode_run(frames, decode, start)]


def test_all_frames_of_the_kind_are_decoded_in_order() -> None:
    assert numbers([tick(1), tick(2), tick(3)]) == [1, 2, 3]
    assert numbers([]) == []


STOPS: dict[str, Frame] = {
    "another method": b'{"jsonrpc":"2.0","method":"tock","params":0}',
    "a request": b'{"jsonrpc":"2.0","method":"tick","params":0,"id":1}',
    "no JSON": b"noise",
    "another version": b'{"jsonrpc":"1.0","method":"tick","params":0}',
    "a message spread over lines, first half": b'{"jsonrpc":"2.0","method":"tick",',
    "two messages on a line": tick(0) + tick(0),
    "not UTF-8 where nobody reads": b'{"jsonrpc":"2.0","method":"tick","params":0,"x":"\xff"}',
    "a large line": b'{"jsonrpc":"2.0","method":"tick","params":"' + b"x" * RUN_BLOCK_BYTES + b'"}',
    "an over-long line": TooLong(tick(0), tick(0), 50, 10),
}


@pytest.mark.rule(1, 4, 5)
@pytest.mark.parametrize("name", STOPS)
def test_a_run_ends_before_anything_else_and_goes_on_behind_it(name: str) -> None:
    frames = [tick(1), tick(2), STOPS[name], tick(3)]
    assert numbers(frames) == [1, 2]
    assert numbers(frames, start=2) == []
    assert numbers(frames, start=3) == [3]


def test_a_line_that_nests_too_deeply_for_the_decoder_ends_a_run() -> None:
    def decode_or_give_up(line: bytes) -> Tick:
        if b"[" in line:
            raise RecursionError  # how deep that is depends on the interpreter: 990 levels in 3.11, 9,998 in 3.13
        return decode(line)

    assert len(decode_run([tick(1), tick(2), b"[", tick(3)], decode_or_give_up)) == 2


def test_text_beyond_ascii_belongs_to_a_run() -> None:
    line = '{"jsonrpc":"2.0","method":"tick","params":"é\u2028𝄞"}'.encode()
    assert numbers([line, tick(1)]) == ["é\u2028𝄞", 1]


@pytest.mark.rule(5)
def test_what_each_line_holds_decides_even_if_the_counts_agree() -> None:
    # One message over two lines and two messages on one line: three lines, three messages, and none of it allowed.
    data = tick(1).replace(b',"params"', b',\n"params"') + b"\n" + tick(2) + b" " + tick(3) + b"\n"
    frames = Framer().feed(data)
    assert len(frames) == len(msgspec.json.Decoder(Tick).decode_lines(data)) == 3
    assert numbers(frames) == []
