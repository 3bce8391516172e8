"""Images and PDF files for `read`: shown to models that see and read them, otherwise a sentence or their text.

Owns what is accepted: providers refuse a whole request because of one image that is too large, and with it every later
request of the session. Nothing is scaled or converted here.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from dragoman.builtin.tools.tool import Location, ToolError, ToolOutput

if TYPE_CHECKING:
    from dragoman.builtin.models.catalogue import ModelFacts
    from dragoman.builtin.tools.tool import ToolContext

# Providers count the bytes of the base64 text, which is a third longer.
MOST_IMAGE_BYTES: Final = (5 << 20) * 3 // 4
_MOST_PIXELS: Final = 8000
# The document is sent to the model and to the client, twice; a message of the protocol must hold that.
MOST_DOCUMENT_BYTES: Final = 5 << 20
_MOST_PAGES: Final = 100
_UNCOUNTED_BYTES: Final = 1 << 20
_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)
# Frame headers of JPEG, which have the size; C4, C8 and CC are something else.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PAGE: Final = re.compile(rb"/Type\s*/Page\b")
_COUNT: Final = re.compile(rb"/Count\s+(\d{1,7})\b")
_PROGRAM: Final = "pdftotext"
_SECONDS: Final = 30.0
_MOST_TEXT_BYTES: Final = 10 << 20


def facts_about(context: ToolContext) -> ModelFacts | None:
    """Return what is known of the model that reads the output."""
    from dragoman.builtin.models.catalogue import facts_of

    return facts_of(context.model_name)


def media_type_of(data: bytes) -> str | None:
    """Return the type of an image that models accept, by its content; None for anything else."""
    return next((name for signature, name in _SIGNATURES if signature.match(data)), None)


def read_image(data: bytes, path: str, name: str, context: ToolContext) -> ToolOutput:
    """Return an image for the model, or a sentence if it does not see. Raises: ToolError."""
    media_type = media_type_of(data)
    if media_type is None:
        raise ToolError(
            f"{name} is not a PNG, JPEG, GIF or WebP image; convert it to PNG with a program, then read that"
        )
    refusal = why_not(data)
    if refusal:
        raise ToolError(f"{name} {refusal}; make a smaller copy with a program, then read that")
    facts = facts_about(context)
    about = f"{media_type.removeprefix('image/').upper()} image of {len(data)} bytes"
    if facts is not None and facts.sees_images is False:
        return ToolOutput(
            f"[{name} is a {about}. This model does not see images: ask the user what it shows, or use a program]",
            locations=(Location(path),),
        )
    image = {"data": base64.b64encode(data).decode(), "media_type": media_type}
    return ToolOutput(f"[{name}: {about}]", images=(image,), locations=(Location(path),))


def why_not(data: bytes) -> str:
    """Return why an image cannot be shown to a model, in words that follow its name; empty if it can."""
    if len(data) > MOST_IMAGE_BYTES:
        return f"has {len(data)} bytes, more than the {MOST_IMAGE_BYTES} of an image that models accept"
    size = size_of(data)
    if size is not None and max(size) > _MOST_PIXELS:
        return f"has {size[0]} x {size[1]} pixels, more than the {_MOST_PIXELS} on one side that models accept"
    return ""


def size_of(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, GIF or JPEG; None if they are not known."""
    if data[:4] == b"\x89PNG" and data[12:16] == b"IHDR":
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data[:4] == b"GIF8":
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    at = 2
    while data[:2] == b"\xff\xd8" and at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _JPEG_FRAMES:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


# PDF


async def read_pdf(data: bytes, path: str, name: str, context: ToolContext) -> ToolOutput | str:
    """Return a document for a model that reads documents, otherwise its text. Raises: ToolError."""
    if not data[:1024].lstrip().startswith(b"%PDF-"):
        raise ToolError(f"{name} is not a PDF file, although it has that name; use a program that reads its format")
    pages = _pages(data)
    is_small = 0 < pages <= _MOST_PAGES if pages else len(data) <= _UNCOUNTED_BYTES
    if _reads_documents(context) and is_small and len(data) <= MOST_DOCUMENT_BYTES:
        document = {
            "uri": f"file://{quote(path)}",
            "blob": base64.b64encode(data).decode(),
            "media_type": "application/pdf",
        }
        about = f", {pages} pages" if pages else ""
        return ToolOutput(
            f"[{name}: PDF document of {len(data)} bytes{about}]", resources=(document,), locations=(Location(path),)
        )
    program = _find_program()
    if program is None:
        why = "is too large for this model" if _reads_documents(context) else "cannot be read by this model"
        raise ToolError(
            f"{name} is a PDF file that {why}, and {_PROGRAM} is not installed here; ask the user to install it "
            "(poppler-utils), or use another program that reads PDF files"
        )
    return await _text_of(program, data, name)


def _reads_documents(context: ToolContext) -> bool:
    """Whether the model is known to read documents, and its requests can carry them in a result."""
    from dragoman.builtin.models.providers import provider_of

    facts, provider = facts_about(context), provider_of(context.model_name)
    is_able = facts is not None and facts.reads_documents is True
    return is_able and provider is not None and provider.form in ("messages", "responses", "gemini")


def _pages(data: bytes) -> int:
    """Return the number of pages; 0 if it is hidden in a compressed part."""
    counts = [int(found) for found in _COUNT.findall(data)]
    return max([len(_PAGE.findall(data)), *counts])


def _find_program() -> str | None:
    """Find the program in PATH, whose relative folders are not trusted."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, _PROGRAM)
        if os.path.isabs(folder) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


async def _text_of(program: str, data: bytes, name: str) -> str:
    """Return the text of a PDF, with a line before each page. Raises: ToolError."""
    process = await asyncio.create_subprocess_exec(
        *(program, "-layout", "-enc", "UTF-8", "-", "-"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            written, _ = await process.communicate(data)
    except TimeoutError:
        raise ToolError(f"{_PROGRAM} did not read {name} within {_SECONDS:g} s; use another program") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        raise ToolError(f"{_PROGRAM} cannot read {name} (exit code {process.returncode}); it may be damaged or locked")
    pages = written[:_MOST_TEXT_BYTES].decode("utf-8", "replace").removesuffix("\f").split("\f")
    if not any(page.strip() for page in pages):
        raise ToolError(
            f"{name} has {len(pages)} pages without text: they are images, which have to be recognized first"
        )
    return "\n".join(f"[page {number}]\n{page.rstrip()}" for number, page in enumerate(pages, 1))
