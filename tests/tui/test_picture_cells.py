"""Pictures as cells, from small images: sizes, colours, transparency, hostile data, and what terminals get."""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode, b64encode

import pytest

pytest.importorskip("textual")
pytest.importorskip("PIL")

from PIL import Image
from rich.cells import cell_len

from dragoman.tui.screen.conversation.pictures import decoding
from dragoman.tui.screen.conversation.pictures.decoding import PictureFailed, half_pixels, png_bytes
from dragoman.tui.screen.conversation.pictures.shown import PLACEHOLDER, half_blocks, marks, placeholders
from dragoman.tui.screen.strips import strip_of
from dragoman.tui.terminal import graphics
from dragoman.view.blocks import MediaPiece, MessageBlock
from dragoman.view.rails import RailView, rail_lines
from dragoman.view.rails.pictures import PictureRow, picture_box, row_of
from tests.tui.drawn_pictures import chunk, encoded, png, stripes

# Places


@pytest.mark.parametrize(
    ("size", "room", "box"),
    [
        ((640, 480), (78, 16), (43, 16)),
        ((1920, 1080), (78, 16), (57, 16)),
        ((1920, 1080), (38, 16), (38, 11)),
        ((16, 16), (78, 16), (16, 8)),
        ((3000, 1), (78, 16), (78, 1)),
        ((1, 3000), (78, 16), (1, 16)),
        ((1, 1), (1, 1), (1, 1)),
        ((999_999, 16), (80, 40), (80, 1)),
    ],
)
def test_a_picture_keeps_its_proportions_and_fits(
    size: tuple[int, int], room: tuple[int, int], box: tuple[int, int]
) -> None:
    assert picture_box(*size, *room) == box


def message(width: int, height: int, uri: str | None = None) -> MessageBlock:
    return MessageBlock(7, 0, "agent", (MediaPiece("image/png", 84_000, uri, width, height),))


def test_the_caption_is_the_placeholder_with_the_name_and_the_keys() -> None:
    lines = rail_lines(message(640, 480, "file:///tmp/a%0b\x07chart.png"), RailView(80, has_picture=lambda *_: True))
    assert lines[0][0][0].startswith("│ [image 640x480 png, 84 KB] · a%0b")
    assert lines[0][0][0].endswith("chart.png · o opens it, Enter draws it larger")
    assert lines[0][0][0].isprintable()
    assert len(lines) == 17
    assert row_of(lines[16][-1][1]) == PictureRow(7, 0, 43, 16, 15)
    opened = rail_lines(message(640, 480), RailView(80, is_open=True, has_picture=lambda *_: True))
    assert opened[0][0][0].endswith("Enter draws it smaller")
    assert len(opened) == 1 + 29
    assert all(cell_len("".join(text for text, _ in line)) <= 80 for line in lines + opened)


def test_an_image_that_is_not_drawn_is_one_line() -> None:
    assert rail_lines(message(640, 480), RailView(80)) == [(("│ [image 640x480 png, 84 KB]", "dim"),)]
    too_large = rail_lines(message(100_000, 100_000), RailView(80, has_picture=lambda *_: True))
    assert too_large == [(("│ [image 100000x100000 png, 84 KB]", "dim"),)]


# Half blocks


def test_a_cell_shows_two_pixels_in_two_colours() -> None:
    pixels = half_pixels(encoded(stripes(4, 4)), 2, 1)
    [[segment]] = half_blocks(pixels, 2, (0, 0, 0))
    assert segment.text == "▀▀"
    assert segment.style is not None
    assert segment.style.color is not None
    assert segment.style.color.triplet == (255, 0, 0)
    assert segment.style.bgcolor is not None
    assert segment.style.bgcolor.triplet == (0, 0, 255)


def test_what_is_transparent_is_the_background_of_the_terminal() -> None:
    image = Image.new("RGBA", (4, 2))
    image.putpixel((1, 0), (255, 0, 0, 255))
    image.putpixel((2, 1), (255, 0, 0, 255))
    image.putpixel((3, 0), (255, 255, 255, 128))
    [row] = half_blocks(half_pixels(encoded(image), 4, 1), 4, (255, 0, 0))
    assert [segment.text for segment in row] == [" ", "▀", "▄", "▀"]
    assert all(segment.style is not None and segment.style.bgcolor is None for segment in row)
    mixed = row[3].style
    assert mixed is not None
    assert mixed.color is not None
    assert mixed.color.triplet == (255, 128, 128)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_has_pixels(mode: str) -> None:
    image = Image.new("I;16", (8, 8), 40_000) if mode == "I;16" else stripes(8, 8, mode=mode)
    pixels = half_pixels(encoded(image), 8, 4)
    assert len(pixels) == 8 * 8 * 4
    assert pixels[3::4] == b"\xff" * 64
    assert any(pixels[:100:4])


@pytest.mark.parametrize("form", ["JPEG", "GIF", "WEBP"])
def test_the_other_formats_are_drawn_and_of_an_animation_the_first_frame(form: str) -> None:
    later = [Image.new("RGB", (8, 8), "green")] * 2
    options = {} if form == "JPEG" else {"save_all": True, "append_images": later}
    data = encoded(stripes(8, 8), form, **options)
    pixels = half_pixels(data, 8, 4)
    assert pixels[0] > 200 > 60 > pixels[1]
    assert png_bytes(data, 8, 4).startswith(b"\x89PNG")


def test_a_flat_and_a_turned_picture_stay_in_their_cells() -> None:
    assert len(half_pixels(encoded(stripes(3000, 1)), 78, 1)) == 78 * 2 * 4
    assert len(half_pixels(encoded(stripes(1, 3000)), 1, 16)) == 32 * 4
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera that was held upright
    pixels = half_pixels(encoded(stripes(40, 20), "JPEG", exif=exif.tobytes()), 40, 10)
    assert (pixels[3], pixels[4 * 39 + 3]) == (255, 0), "it is at the left, and nothing is at the right"


# Hostile data


WHOLE = encoded(stripes(60, 60))
HOSTILE = {
    "empty": "",
    "not base64": "\u20ac" * 40,
    "text": b64encode(b"not an image" * 9).decode(),
    "truncated": WHOLE[: len(WHOLE) // 8 * 4],
    "only a header": png(40, 40),
    "a header that lies": png(4000, 4000, chunk(b"IDAT", zlib.compress(bytes(100)))),
    "a bomb": png(100_000, 100_000, chunk(b"IDAT", zlib.compress(bytes(1_000_000)))),
    "a bomb in a text": png(4, 4, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(80_000_000), 9))),
    "a gif without frames": b64encode(b"GIF89a\x10\x00\x10\x00\x00\x00\x00;" + bytes(40)).decode(),
    "a webp that lies": b64encode(
        b"RIFF\xff\xff\xff\x7fWEBPVP8X\n\0\0\0" + bytes(4) + b"\x0f\0\0" * 2 + b"x" * 40
    ).decode(),
    "a jpeg without data": b64encode(b"\xff\xd8\xff\xc0\0\x11\x08\0\x10\0\x10\x03" + bytes(60)).decode(),
    "another format": encoded(stripes(8, 8), "BMP"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_is_one_failure(name: str) -> None:
    for decode in (half_pixels, png_bytes):
        with pytest.raises(PictureFailed):
            decode(HOSTILE[name], 8, 4)


def test_too_many_bytes_are_not_even_decoded_from_base64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_CHARACTERS", len(WHOLE) - 1)
    monkeypatch.setattr(decoding, "b64decode", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(PictureFailed, match="too many bytes"):
        half_pixels(WHOLE, 8, 4)


def test_an_image_is_decoded_from_base64_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_PIECE", 40)
    assert half_pixels(WHOLE, 8, 4)[:4] == bytes((255, 0, 0, 255))
    assert png_bytes(WHOLE, 60, 30) == b64decode(WHOLE)


def test_text_of_an_agent_is_never_a_part_of_a_picture() -> None:
    assert PLACEHOLDER not in strip_of(((f"{PLACEHOLDER}\u0305\u0305 text", "sgr:38;5;20"),), 20).text


# The kitty graphics protocol


def test_the_marks_are_those_of_the_protocol() -> None:
    found = [ord(mark) for mark in marks()]
    assert len(found) == 85
    assert found[:6] == [0x305, 0x30D, 0x30E, 0x310, 0x312, 0x33D]
    assert [found[place] for place in (29, 39, 49, 53, 68, 84)] == [0x36F, 0x597, 0x5A9, 0x5C4, 0x65E, 0x6EC]


def test_placeholders_name_their_row_and_column_and_the_image_by_colour() -> None:
    rows = placeholders(0x123456, 80, 40)
    assert [len(row) for row in rows] == [1] * 40
    last = rows[39][0]
    assert cell_len(last.text) == 80
    assert last.text[-3:] == f"{PLACEHOLDER}\u0597{marks()[79]}"
    assert last.style is not None
    assert last.style.color is not None
    assert last.style.color.triplet == (0x12, 0x34, 0x56)
    few = placeholders(200, 1, 1)[0][0].style
    assert few is not None
    assert few.color is not None
    assert few.color.number == 200


def test_a_png_is_passed_in_chunks_as_it_is_and_nothing_is_answered() -> None:
    noise = Image.effect_noise((80, 80), 90)
    data = encoded(noise)
    written = graphics.transmit(300, png_bytes(data, 40, 20), 40, 20)
    first, *rest = written.removesuffix("\x1b\\").split("\x1b\\")
    assert first.startswith("\x1b_Ga=T,U=1,f=100,i=300,c=40,r=20,q=2,m=1;")
    assert all(piece.startswith(f"\x1b_Gq=2,m={int(piece is not rest[-1])};") for piece in rest)
    pieces = [piece.partition(";")[2] for piece in (first, *rest)]
    assert all(len(piece) <= 4096 for piece in pieces)
    assert "".join(pieces) == data
    assert graphics.delete(300) == "\x1b_Ga=d,d=I,i=300,q=2\x1b\\"
    assert graphics.delete(300, is_tmux=True) == "\x1bPtmux;\x1b\x1b_Ga=d,d=I,i=300,q=2\x1b\x1b\\\x1b\\"


def test_a_png_of_many_pixels_is_passed_smaller() -> None:
    data = encoded(Image.new("L", (1600, 1200)))
    made = png_bytes(data, 20, 8)
    assert struct.unpack(">II", made[16:24]) == (320, 240)


LOCAL = {"TERM": "xterm-256color"}
KITTY = {"TERM": "xterm-kitty"}
SSH = {"SSH_TTY": "/dev/pts/1"}
TMUX = {"TMUX": "/tmp/x"}


@pytest.mark.parametrize(
    ("setting", "environment", "colours", "has_graphics", "form"),
    [
        ("auto", LOCAL, "truecolor", False, "blocks"),
        ("auto", LOCAL, "256", False, ""),
        ("auto", KITTY, "truecolor", True, "sharp"),
        ("auto", KITTY, "truecolor", False, "blocks"),
        ("auto", LOCAL | SSH, "truecolor", False, ""),
        ("auto", LOCAL | TMUX, "truecolor", False, ""),
        ("auto", LOCAL, "standard", False, ""),
        ("auto", LOCAL, None, False, ""),
        ("blocks", LOCAL | SSH | TMUX, "256", False, "blocks"),
        ("blocks", KITTY, "truecolor", True, "blocks"),
        ("blocks", LOCAL, "standard", False, ""),
        ("sharp", KITTY | SSH, "256", True, "sharp"),
        ("sharp", KITTY | TMUX, "truecolor", False, "sharp"),
        ("sharp", LOCAL, "truecolor", False, "blocks"),
        ("sharp", LOCAL, None, True, ""),
        ("off", KITTY, "truecolor", True, ""),
    ],
)
def test_the_setting_and_the_terminal_choose_the_form(
    setting: str, environment: dict[str, str], colours: str | None, has_graphics: bool, form: str
) -> None:
    assert (
        graphics.picture_form(setting, environment, colours, is_ascii=False, has_graphics=has_graphics),
        graphics.picture_form(setting, environment, colours, is_ascii=True, has_graphics=has_graphics),
    ) == (form, "")


@pytest.mark.parametrize(
    ("setting", "environment", "asks"),
    [
        ("auto", KITTY, True),
        ("auto", LOCAL | {"TERM_PROGRAM": "ghostty"}, True),
        ("auto", LOCAL, False),
        ("auto", KITTY | SSH, False),
        ("auto", KITTY | TMUX, False),
        ("sharp", LOCAL | SSH, True),
        ("sharp", KITTY | TMUX, False),
        ("blocks", KITTY, False),
        ("off", KITTY, False),
    ],
)
def test_only_a_terminal_that_is_known_is_asked_unless_the_setting_says_so(
    setting: str, environment: dict[str, str], asks: bool
) -> None:
    assert graphics.asks_graphics(setting, environment) is asks
