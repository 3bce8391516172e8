"""Small pictures for tests, made by Pillow, and waiting until the screen has drawn them."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from io import BytesIO
from time import monotonic
from typing import Any

import pytest
from PIL import Image
from textual.pilot import Pilot

from dragoman.tui.screen.app import TerminalApp
from tests.tui.grids import grid
from tests.tui.opened import painted

SECONDS = 30.0
RED, BLUE = (255, 0, 0), (0, 0, 255)


def stripes(width: int, height: int, *, mode: str = "RGB") -> Image.Image:
    """The upper half is red, the lower one blue."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (0, height // 2, width, height))
    return image.convert(mode)


def chart() -> Image.Image:
    """Bars on a dark ground, in exactly the pixels that they are drawn in."""
    image = Image.new("RGB", (60, 20), (32, 38, 52))
    heights = (5, 8, 7, 11, 14, 12, 17, 15, 9, 6)
    for number, height in enumerate(heights):
        colour = (90 + 16 * number, 200 - 12 * number, 230 - 8 * number)
        image.paste(colour, (6 * number + 1, 19 - height, 6 * number + 5, 19))
    image.paste((120, 128, 145), (0, 19, 60, 20))
    return image


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *chunks: bytes) -> str:
    """A PNG in base64 that has this size, and these chunks."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b64encode(b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + chunk(b"IEND", b"")).decode()


def stored(image: Image.Image) -> str:
    """An image as a PNG that is not compressed: it has the same bytes with every version of every library."""
    line = 3 * image.width
    pixels = image.convert("RGB").tobytes()
    rows = b"".join(b"\0" + pixels[at : at + line] for at in range(0, len(pixels), line))
    return png(*image.size, chunk(b"IDAT", zlib.compress(rows, 0)))


def encoded(image: Image.Image, form: str = "PNG", **options: Any) -> str:
    written = BytesIO()
    image.save(written, form, **options)
    return b64encode(written.getvalue()).decode()


def use_terminal(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """A terminal of this machine with true colour, or as the variables say."""
    for name in ("SSH_CONNECTION", "SSH_TTY", "TMUX", "STY", "ZELLIJ", "NO_COLOR", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "truecolor", **variables}.items():
        monkeypatch.setenv(name, value)


async def until_drawn(app: TerminalApp, pilot: Pilot[None], text: str) -> list[str]:
    """The screen when it shows a text."""
    end = monotonic() + SECONDS
    while True:
        await painted(app, pilot)
        lines = grid(app)
        if any(text in line for line in lines):
            return lines
        assert monotonic() < end, "\n".join(lines)
