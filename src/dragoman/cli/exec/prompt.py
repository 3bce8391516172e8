"""The prompt: where its text comes from, and which blocks it becomes.

Owns `@path` mentions and attached images, and which of them an agent accepts. A mention reaches only files below the
session's folders: a prompt often contains text of another author (an issue, a log), which must not decide which of the
user's files leave the machine. Everything is read before an agent is started, so that a wrong path costs nothing.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.cli.exits import CliError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from dragoman.cli.exec.options import Options
    from dragoman.schema import v1

# More than this is for the agent's own tools to read in parts: it would fill a good part of a model's context.
EMBEDDED_BYTES: Final = 256 * 1024
# Base64 makes four bytes of three, and a message of the protocol ends at 32 MiB.
IMAGE_BYTES: Final = 16 * 1024 * 1024

_MENTION: Final = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_PUNCTUATION: Final = ".,;:!?)]}'\""
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


class Image(NamedTuple):
    """An image and its type."""

    source: str
    """Where the user gave it: `--image PATH`, or `stdin`."""
    mime_type: str
    data: bytes


class Mention(NamedTuple):
    """A file or folder named in the prompt; `data` is None for what can only be linked."""

    name: str
    path: str
    data: bytes | None


class Prompt(NamedTuple):
    """The prompt as read, before it is known which content the agent accepts."""

    text: str
    mentions: tuple[Mention, ...] = ()
    images: tuple[Image, ...] = ()
    outside: tuple[str, ...] = ()
    """Mentions of files that exist, but not below the session's folders; they stay text."""


def read_prompt(options: Options) -> Prompt:
    """Read the text, the mentioned files and the images.

    Raises:
        CliError: there is no prompt, or a file cannot be read.
    """
    text, piped = _text(options)
    images = tuple(read_image(path) for path in options.images)
    image = image_type(piped)
    if image is not None:
        if len(piped) > IMAGE_BYTES:
            raise CliError(f"stdin: an image larger than {IMAGE_BYTES // 1024 // 1024} MiB", hint="make it smaller")
        images = (*images, Image("stdin", image, piped))
    if not text.strip() and not images:
        raise CliError("the prompt is empty", hint="dragoman exec 'What is this project?'")
    mentions, outside = find_mentions(text, options.roots)
    if piped.strip() and image is None:
        from dragoman.cli.piped_text import with_piped

        text = with_piped(text, _decode(piped, "stdin"))
    return Prompt(text, mentions, images, outside)


def blocks(prompt: Prompt, accepted: v1.PromptCapabilities | None) -> list[v1.ContentBlock]:
    """Return the prompt as content blocks: text and links always, other kinds if the agent accepts them.

    Raises:
        CliError: an image was attached and the agent does not accept images.
    """
    from dragoman.schema import v1

    takes_images = accepted is not None and accepted.image is True
    takes_resources = accepted is not None and accepted.embedded_context is True
    found: list[v1.ContentBlock] = [v1.TextContent(prompt.text)] if prompt.text.strip() else []
    for mention in prompt.mentions:
        found.append(_mentioned(mention, takes_images=takes_images, takes_resources=takes_resources))
    for image in prompt.images:
        if not takes_images:
            raise CliError(
                f"{image.source}: this agent does not accept images (promptCapabilities.image)",
                hint="mention the file as @path instead: the agent gets a link to it",
            )
        found.append(v1.ImageContent(_base64(image.data), image.mime_type))
    return found


def find_mentions(text: str, roots: Sequence[str]) -> tuple[tuple[Mention, ...], tuple[str, ...]]:
    """Return the files that `@path` and `@"path"` name: those below the roots, and the names of those elsewhere.

    Anything else with an @ (a user name, a decorator) is just text.
    """
    from dragoman.policy.paths import is_below

    inside: dict[str, Mention] = {}
    outside: list[str] = []
    real_roots = [os.path.realpath(root) for root in roots]
    for match in _MENTION.finditer(text):
        name = _existing(match, roots[0])
        if name is None:
            continue
        path = os.path.realpath(os.path.join(roots[0], name))
        if not any(is_below(path, root) for root in real_roots):
            outside.append(name)
        elif path not in inside:
            inside[path] = Mention(name, path, _small(path))
    return tuple(inside.values()), tuple(outside)


def read_image(path: str) -> Image:
    """Read an image file.

    Raises:
        CliError: it is not an image, or too large for a message.
    """
    data = _read(path, IMAGE_BYTES, "--image")
    mime_type = image_type(data)
    if mime_type is None:
        raise CliError(f"--image {path}: not a PNG, JPEG, GIF or WebP file", hint="mention other files as @path")
    return Image(f"--image {path}", mime_type, data)


def image_type(data: bytes) -> str | None:
    """Return the media type of an image, by its first bytes; None if it is not a known image."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime_type for magic, mime_type in _IMAGES if data.startswith(magic)), None)


def _text(options: Options) -> tuple[str, bytes]:
    """Return the prompt, and what is piped in next to it."""
    from dragoman.cli.main import has_silent_stdin

    if options.prompt_file is not None:
        if options.prompt is not None:
            raise CliError("the prompt is given twice: as an argument and with --file", hint="use only one of them")
        text = _decode(_read(options.prompt_file, None, "--file"), options.prompt_file)
    elif options.prompt is not None and options.prompt != "-":
        text = options.prompt
    else:
        return _only_stdin(options), b""
    if options.holds_agent or has_silent_stdin():
        return text, b""
    from dragoman.cli.piped_text import read_piped

    return text, read_piped(is_quiet=options.progress == "none", seconds=options.timeout_seconds)


def _only_stdin(options: Options) -> str:
    stream: BinaryIO | None = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        if options.images and options.prompt is None:
            return ""
        raise CliError("no prompt", hint="dragoman exec 'What is this project?', or pipe it: ... | dragoman exec")
    return _decode(stream.read(), "stdin")


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CliError(f"{where}: not UTF-8 text (byte {error.start})", hint="convert it to UTF-8 first") from None


def _read(path: str, most: int | None, flag: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read() if most is None else file.read(most + 1)
    except OSError as error:
        raise CliError(f"{flag} {path}: {error.strerror}", hint="name a file that can be read") from None
    if most is not None and len(data) > most:
        raise CliError(f"{flag} {path}: larger than {most // 1024 // 1024} MiB", hint="make it smaller")
    return data


def _existing(match: re.Match[str], cwd: str) -> str | None:
    quoted, bare = match.groups()
    for name in (quoted,) if quoted else (bare, bare.rstrip(_PUNCTUATION)):
        if name and os.path.exists(os.path.join(cwd, os.path.expanduser(name))):
            return os.path.expanduser(name)
    return None


def _small(path: str) -> bytes | None:
    """Return the content of a regular file that is small enough to send; None otherwise."""
    try:
        if not os.path.isfile(path):  # never a FIFO, which would wait for a writer
            return None
        limit = IMAGE_BYTES if path.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp")) else EMBEDDED_BYTES
        if os.path.getsize(path) > limit:
            return None
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:  # the agent may be allowed what we are not
        return None


def _mentioned(mention: Mention, *, takes_images: bool, takes_resources: bool) -> v1.ContentBlock:
    from dragoman.schema import UNSET, v1

    uri = "file://" + _quoted(mention.path)
    data = mention.data
    image = None if data is None else image_type(data)
    if data is not None and image is not None and takes_images:
        return v1.ImageContent(_base64(data), image, uri=uri)
    text = None if data is None or image is not None or not takes_resources else _as_text(data)
    mime_type = image or _mime_type(mention.path) or UNSET
    if text is not None:
        return v1.EmbeddedResource(v1.TextResourceContents(text, uri, mime_type=mime_type))
    return v1.ResourceLink(mention.name, uri, mime_type=mime_type)


def _as_text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _mime_type(path: str) -> str | None:
    from mimetypes import guess_type

    return guess_type(path)[0]


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def _base64(data: bytes) -> str:
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode("ascii")
