"""A Jupyter notebook as text: its cells, numbered, with their outputs. Pure."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.tools.command_text import plain
from dragoman.builtin.tools.read_media import media_type_of, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

_CELL_BYTES: Final = 10 * 1024
MOST_IMAGES: Final = 8


class Notebook(Struct, frozen=True):
    """The text, and the images of outputs in their order."""

    text: str
    images: tuple[dict[str, str], ...] = ()
    cells: int = 0


def read_notebook(text: str) -> Notebook | None:
    """Return the cells of a notebook; None if the text is not one."""
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        return None
    blocks: list[str] = []
    images: list[dict[str, str]] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            continue
        kind = str(cell.get("cell_type") or "raw")
        blocks.append(f"[cell {number}, {kind}]\n{_joined(cell.get('source'))}".rstrip("\n"))
        written = "\n".join(_outputs(cell.get("outputs"), images)).strip("\n")
        if written:
            blocks.append(f"[output of cell {number}]\n{_cut(written)}")
    return Notebook("\n".join(blocks), tuple(images), len(cells))


def _outputs(outputs: Any, images: list[dict[str, str]]) -> Iterator[str]:
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        if isinstance(data, dict):
            yield from _shown(data, images)
        elif output.get("output_type") == "error":
            trace = output.get("traceback")
            lines = [str(line) for line in trace] if isinstance(trace, list) else []
            yield plain("\n".join(lines)) or f"{output.get('ename')}: {output.get('evalue')}"
        else:
            yield plain(_joined(output.get("text")))


def _shown(data: dict[str, Any], images: list[dict[str, str]]) -> Iterator[str]:
    for name, value in data.items():
        if name.startswith("image/") and name != "image/svg+xml":
            image = _image(_joined(value))
            if image is None or len(images) == MOST_IMAGES:
                yield f"[an image ({name}) that cannot be shown]"
            else:
                images.append(image)
                yield f"[image {len(images)}]"
    if "text/plain" in data:
        yield plain(_joined(data["text/plain"]))


def _image(text: str) -> dict[str, str] | None:
    encoded = "".join(text.split())
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    media_type = media_type_of(content)
    return None if media_type is None or why_not(content) else {"data": encoded, "media_type": media_type}


def _joined(value: Any) -> str:
    """Text of a notebook is one string or a list of lines."""
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else ""


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= _CELL_BYTES:
        return data.decode()
    return f"{data[:_CELL_BYTES].decode('utf-8', 'ignore')}\n[{len(data) - _CELL_BYTES} more bytes of this output]"
