"""The decoding of images of strangers with Pillow: within limits, four formats only, any failure the same failure.

Runs in a thread. Pillow is imported here, with the first picture, and of it only the decoder that the first bytes name.
"""

from __future__ import annotations

from base64 import b64decode
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Final

from dragoman.view.image_size import image_size
from dragoman.view.rails.drawing import MOST_PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_CHARACTERS: Final = 28_000_000
"""Of the base64 of an image: 20 MB, more than an agent or a model accepts."""
_PASSED_BYTES: Final = 1_000_000  # of a PNG that a terminal gets as it is; a larger one would keep the paints waiting
_PIECE: Final = 256 * 1024  # characters of base64, a multiple of four
_CELL: Final = (16, 32)  # pixels of a cell, as many as large screens have
_FINER: Final = 4  # times as many pixels as the cells have; the terminal keeps all of them, decoded
_FORMATS: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG", "PngImagePlugin"),
    (0, b"\xff\xd8\xff", "JPEG", "JpegImagePlugin"),
    (0, b"GIF8", "GIF", "GifImagePlugin"),
    (8, b"WEBP", "WEBP", "WebPImagePlugin"),
)


class PictureFailed(Exception):
    """An image that is not drawn: too large, broken, or of another format."""


def half_pixels(data: str, columns: int, rows: int) -> bytes:
    """Return the pixels of an image in base64 for cells of two pixels each, as red, green, blue and opacity.

    The image keeps its proportions and is at the left and at the top; what is left of the cells is transparent.

    Raises:
        PictureFailed: it cannot be decoded.
    """
    try:
        image = _fitted(_opened(_bytes(data), (columns, 2 * rows)), (columns, 2 * rows))
        return _on_canvas(image, (columns, 2 * rows)).tobytes()
    except Exception as error:
        # A decoder that reads what a stranger wrote raises anything: SyntaxError, struct.error, MemoryError.
        raise PictureFailed(str(error)) from error


def png_bytes(data: str, columns: int, rows: int) -> bytes:
    """Return an image in base64 as PNG, for a terminal that draws it in so many cells; a small PNG stays as it is.

    Raises:
        PictureFailed: it cannot be decoded.
    """
    try:
        raw = _bytes(data)
        room = (columns * _CELL[0], rows * _CELL[1])
        image = _opened(raw, room)
        is_small = len(raw) <= _PASSED_BYTES and image.width * image.height <= _FINER * room[0] * room[1]
        if is_small and raw.startswith(_FORMATS[0][1]):
            return raw
        written = BytesIO()
        _fitted(image, room).save(written, "PNG")
        return written.getvalue()
    except Exception as error:
        # As above.
        raise PictureFailed(str(error)) from error


def _bytes(data: str) -> bytes:
    if len(data) > MOST_CHARACTERS:
        raise PictureFailed("too many bytes")
    size = image_size(data)  # before a decoder sees it: one that reads the header may take memory already
    if size is None or size[0] * size[1] > MOST_PIXELS:
        raise PictureFailed("too many pixels, or not an image")
    # Piece by piece: Python decodes one with all other threads waiting, the screen's too, 70 ms for 20 MB.
    return b"".join(b64decode(data[at : at + _PIECE], validate=True) for at in range(0, len(data), _PIECE))


def _opened(raw: bytes, room: tuple[int, int]) -> Image:
    """Return the first frame, decoded, and turned as a camera says; a JPEG not larger than needed."""
    from PIL import Image, ImageOps

    named = [format_ for format_ in _FORMATS if raw[format_[0] : format_[0] + len(format_[1])] == format_[1]]
    if not named:
        raise PictureFailed("not PNG, JPEG, GIF or WebP")
    _, _, name, plugin = named[0]
    import_module(f"PIL.{plugin}")
    image: Image.Image = Image.open(BytesIO(raw), formats=(name,))
    if image.width * image.height > MOST_PIXELS:  # what the decoder reads, which may not be what the header says
        raise PictureFailed("too many pixels")
    if name == "JPEG":
        image.draft("RGB", (room[0] * 2, room[1] * 2))
    image.load()
    return ImageOps.exif_transpose(image)


def _fitted(image: Image, room: tuple[int, int]) -> Image:
    """Return the image within so many pixels, never larger than it is, with its proportions, as RGBA."""
    from PIL.Image import Resampling

    scale = min(1.0, room[0] / image.width, room[1] / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.point(lambda value: value / 256).convert("L")
    elif image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    if size != image.size:
        image = image.resize(size, Resampling.BOX, reducing_gap=2.0)
    return image.convert("RGBA")


def _on_canvas(image: Image, size: tuple[int, int]) -> Image:
    if image.size == size:
        return image
    from PIL.Image import new

    canvas = new("RGBA", size)
    canvas.paste(image, (0, 0))
    return canvas
