"""Images of the conversation in another program: written to a folder that only the user can read, then opened.

Only a key of the user opens them: what an agent sends is data of a stranger.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from base64 import b64decode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Final

from dragoman.schema import v1
from dragoman.state import Message, ToolCallState
from dragoman.tui.terminal.terminal_facts import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.state import TimelineItem

# Only kinds whose name is known: another ending could make the other program run what it contains.
_ENDINGS: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_OPENERS: Final = ("open",) if sys.platform == "darwin" else ("xdg-open", "gio")


def open_images(item: TimelineItem) -> str:
    """Write the images of an item to files and open them. Returns a sentence about what was done."""
    paths = save_images(item)
    if not paths:
        return "there is no image in this block"
    # Over SSH another program would open where the user does not see it.
    is_far = is_remote(os.environ)
    opener = None if is_far else next((found for name in _OPENERS if (found := shutil.which(name))), None)
    if opener is None:
        return f"saved as {', '.join(paths)}"
    words = [opener, "open"] if opener.endswith("gio") else [opener]
    for path in paths:
        subprocess.Popen(
            [*words, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return f"opened {', '.join(paths)}"


def save_images(item: TimelineItem) -> list[str]:
    """Write the images of an item to files. Returns their paths."""
    images = list(_images(item))
    if not images:
        return []
    folder = tempfile.mkdtemp(prefix="dragoman-images-")  # for this user only
    paths = []
    for number, (data, ending) in enumerate(images, 1):
        path = os.path.join(folder, f"image-{number}{ending}")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        paths.append(path)
    return paths


def image_data(item: TimelineItem, number: int) -> str | None:
    """Return the base64 of an image, or of a file that came along, by its place in the content of an item."""
    contents = _contents(item)
    match contents[number] if number < len(contents) else None:
        case v1.ImageContent(data=data) | v1.EmbeddedResource(resource=v1.BlobResourceContents(blob=data)):
            return data
    return None


def _contents(item: TimelineItem) -> Sequence[object]:
    """Return what an item contains, piece by piece, as the view shows it."""
    if isinstance(item, Message):
        return item.blocks
    if isinstance(item, ToolCallState):
        return [content.content if isinstance(content, v1.Content) else content for content in item.content]
    return ()


def _images(item: TimelineItem) -> Iterator[tuple[bytes, str]]:
    for block in _contents(item):
        if isinstance(block, v1.ImageContent) and block.mime_type in _ENDINGS:
            try:
                yield b64decode(block.data, validate=True), _ENDINGS[block.mime_type]
            except (NotBase64, ValueError):
                continue
