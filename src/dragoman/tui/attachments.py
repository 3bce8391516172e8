"""What goes with a prompt besides its text: files behind `@`, images, pasted text, the output of a command.

A mentioned file and a chip such as `[pasted 10,000 lines]` stand in the text, and what is not in the text any more is
not sent: so removing an attachment is deleting its word. `build` reads the files and makes the blocks of the protocol,
as far as the agent takes them; it is for a thread. Does not know a screen.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from dragoman.schema import v1
from dragoman.text.terminal import harmless, plain, size
from dragoman.text.visible import label
from dragoman.tui.completion import mention, mentions, spoken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.tui.values import AgentInput

LINES_INLINE: Final = 20
CHARACTERS_INLINE: Final = 2_000
"""A paste above one of these two becomes an attachment: more would push the rest of the prompt out of sight."""
EMBEDDED_BYTES: Final = 32 << 10
"""A text file up to this size goes into the prompt; of a larger one the agent gets the path, and reads it itself."""
IMAGE_BYTES: Final = 10 << 20
_MOST_FILES: Final = 50
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_IMAGE_NAMES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LOCALE_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


class Chip(Struct, frozen=True):
    """An attachment that a word in the text stands for."""

    word: str
    kind: Literal["text", "image"]
    text: str = ""
    path: str = ""
    """The file of an image that came from the clipboard."""


class Built(NamedTuple):
    """The blocks that go with a text, and sentences about what could not be sent."""

    blocks: list[v1.ContentBlock]
    notes: list[str]


class ListedAttachment(NamedTuple):
    """One attachment, in the line above the input."""

    name: str
    what: str


def clean_paste(text: str) -> str:
    """Return pasted text without anything that acts on a terminal; every kind of line end is `\\n`."""
    return harmless(re.sub(_LOCALE_BREAKS, "\n", text))


def is_long_paste(text: str) -> bool:
    """Return whether a pasted text becomes a chip."""
    return len(text) > CHARACTERS_INLINE or text.count("\n") + 1 > LINES_INLINE


def paste_chip(text: str, taken: Mapping[str, Chip]) -> Chip:
    """Return the chip of a pasted text, with a word that no other one has."""
    lines = text.count("\n") + (not text.endswith("\n"))
    what = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
    return Chip(_free(f"pasted {what}", taken), "text", text)


def output_chip(command: str, output: str, ending: str, taken: Mapping[str, Chip]) -> Chip:
    """Return the chip of a command of the user's and its output."""
    name = label(command, 30).translate({ord("["): "(", ord("]"): ")"})
    body = f"$ {command}\n{plain(output)}\n({ending})\n"
    return Chip(_free(f"!{name}: {ending}", taken), "text", body)


def image_chip(path: str, size_bytes: int, taken: Mapping[str, Chip]) -> Chip:
    """Return the chip of an image from the clipboard."""
    return Chip(_free(f"image, {_size(size_bytes)}", taken), "image", path=path)


def _free(name: str, taken: Mapping[str, Chip]) -> str:
    word, number = f"[{name}]", 1
    while word in taken:
        number += 1
        word = f"[{name} #{number}]"
    return word


def chips_in(text: str, chips: Mapping[str, Chip]) -> list[Chip]:
    """Return the chips that stand in a text, in the order in which they do."""
    placed = [(text.find(word), chip) for word, chip in chips.items() if word in text]
    return [chip for _, chip in sorted(placed, key=lambda item: item[0])]


def chip_before(text: str, cursor: int, chips: Mapping[str, Chip]) -> Chip | None:
    """Return the chip that ends at a cursor."""
    return next((chip for word, chip in chips.items() if text.endswith(word, 0, cursor)), None)


def written_out(text: str, chips: Mapping[str, Chip], most: int) -> str:
    """Return a text for the history: short chips as their text, others with a word that says that they are not kept."""
    for chip in chips_in(text, chips):
        is_kept = chip.kind == "text" and len(chip.text) <= most
        text = text.replace(chip.word, chip.text.rstrip("\n") if is_kept else f"{chip.word[:-1]}, not kept]")
    return text


def image_path(pasted: str, folder: str) -> str | None:
    """Return the mention of an image whose path was pasted: bare, quoted or escaped as shells do it, or a `file:` URI.

    Terminals paste such a path when a file is dropped on them.
    """
    word = pasted.strip()
    if not word or "\n" in word or len(word) > 4096:
        return None
    if word.startswith("file://"):
        from urllib.parse import unquote, urlsplit

        word = unquote(urlsplit(word).path)
    elif re.search(r"[\\'\"]", word):
        import shlex

        try:
            parts = shlex.split(word)
        except ValueError:
            return None
        word = parts[0] if len(parts) == 1 else word
    path = os.path.join(folder, os.path.expanduser(word))
    if not path.lower().endswith(_IMAGE_NAMES) or '"' in path or not os.path.isfile(path):
        return None
    relative = os.path.relpath(path, folder)
    return mention(path if relative.startswith("..") else relative)


def listed(text: str, folder: str, chips: Mapping[str, Chip], can: AgentInput) -> list[ListedAttachment]:
    """Return what would be sent with a text, for the line above the input. Looks at the files; for a thread."""
    rows = [ListedAttachment(label(chip.word[1:-1], 60), "") for chip in chips_in(text, chips)]
    for mentioned in mentions(text)[:_MOST_FILES]:
        file = _existing(mentioned, folder)
        if file is None:
            continue
        word, path = file
        status = os.stat(path)
        name, how_much = label(word.rstrip("/"), 60), _size(status.st_size)
        if stat.S_ISDIR(status.st_mode):
            rows.append(ListedAttachment(name, "folder"))
        elif path.lower().endswith(_IMAGE_NAMES):
            rows.append(ListedAttachment(name, f"image, {how_much}" if can.image else "link; no images here"))
        else:
            rows.append(ListedAttachment(name, how_much))
    return rows


def _size(size_bytes: int) -> str:
    return f"{size_bytes} bytes" if size_bytes < 1000 else f"{size(size_bytes).strip()}B"


def build(text: str, folder: str, chips: Mapping[str, Chip], can: AgentInput) -> Built:
    """Return the blocks that go with a text. Reads files; for a thread."""
    from urllib.parse import quote

    made = Built([], [])
    for number, chip in enumerate(chips_in(text, chips), 1):
        if chip.kind == "image":
            _add_image(made, chip.path, chip.word, can)
        else:
            name = quote(chip.word[1:-1].split(":")[0].lstrip("!").replace(" ", "-")) or "text"
            resource = v1.TextResourceContents(chip.text, f"attachment:{number}/{name}", "text/plain")
            made.blocks.append(v1.EmbeddedResource(resource))
    words = mentions(text)
    for file in (_existing(word, folder) for word in words[:_MOST_FILES]):
        if file is not None:
            _add_file(made, file[1], file[0], can)
    if len(words) > _MOST_FILES:
        made.notes.append(f"only the first {_MOST_FILES} files behind @ are attached")
    return made


def _existing(word: str, folder: str) -> tuple[str, str] | None:
    """Return the part of a mention that names a file or a folder, and its real path."""
    for form in spoken(word):
        path = os.path.join(folder, os.path.expanduser(form))
        if "\0" not in path and os.path.exists(path):
            return form, os.path.realpath(path)
    return None


def _add_file(made: Built, path: str, word: str, can: AgentInput) -> None:
    from dragoman.workspace.ignore import read_plain

    if path.lower().endswith(_IMAGE_NAMES) and os.path.isfile(path):
        if can.image:
            _add_image(made, path, word, can)
            return
        made.notes.append(f"{label(word, 60)} is sent as a link: the agent does not take images")
    is_folder = os.path.isdir(path)
    content = read_plain(path, EMBEDDED_BYTES) if can.embedded and not is_folder else None
    uri = _uri(path)
    try:
        whole = None if content is None or b"\0" in content else content.decode()
    except UnicodeDecodeError:
        whole = None
    if whole is not None:
        made.blocks.append(v1.EmbeddedResource(v1.TextResourceContents(whole, uri, "text/plain")))
        return
    name = word.rstrip("/")
    try:
        size_bytes = None if is_folder else os.stat(path).st_size
    except OSError as error:
        made.notes.append(f"{label(word, 60)} is not attached: {error.strerror}")
        return
    link = v1.ResourceLink(name, uri) if size_bytes is None else v1.ResourceLink(name, uri, size=size_bytes)
    made.blocks.append(link)


def _add_image(made: Built, path: str, word: str, can: AgentInput) -> None:
    if not can.image:
        made.notes.append(f"{label(word, 60)} is not sent: the agent does not take images")
        return
    import base64

    from dragoman.workspace.ignore import read_plain

    content = read_plain(path, IMAGE_BYTES)
    kind = None if content is None else image_type(content)
    if content is None:
        made.notes.append(
            f"{label(word, 60)} is not attached: it cannot be read, or has more than {_size(IMAGE_BYTES)}"
        )
    elif kind is None:
        made.notes.append(f"{label(word, 60)} is not attached: it is not a PNG, JPEG, GIF or WebP image")
    else:
        data = base64.b64encode(content).decode()
        made.blocks.append(v1.ImageContent(data, kind, uri=_uri(path)))


def _uri(path: str) -> str:
    from urllib.parse import quote

    return f"file://{quote(os.fsencode(path))}"


def image_type(content: bytes) -> str | None:
    """Return the media type of an image, by its first bytes."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if content.startswith(start)), None)
