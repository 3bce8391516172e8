"""stdout and stderr without known keys and without anything that acts on a terminal, whatever is written to them.

Providers and agents repeat keys in error messages, and their text may hold control sequences. Every command writes
through `sys.stdout` and `sys.stderr`, so both are replaced here, once: keys in the bytes, controls in the text. What is
written to `sys.stdout.buffer` is data (the answer of `exec` on a pipe) and is only masked. The protocol's own stream of
an agent (`transports/stdio.py`) is a separate descriptor and is not changed. Loaded at every start: it imports little.
"""

import io
import sys

from dragoman.text.secrets import SplitMask, known_keys

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO, TextIO

    from _typeshed import ReadableBuffer


_replaced: "list[TextIO]" = []  # kept: a text stream that is collected closes the stream below


def protect_streams() -> None:
    """Remove what acts on a terminal from everything that this program prints from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper:  # None: closed when the program started. Another type: a test's own.
            stream.flush()
            setattr(sys, name, _safe(stream, stream.buffer, write_through=False))


def mask_keys(environment: "Mapping[str, str | None]") -> None:
    """Mask the keys of this environment from now on, in all output of this program."""
    known_keys.learn(environment)
    if known_keys:
        mask_streams()


def mask_stored_keys() -> None:
    """Mask the stored keys of the user, too: an agent that reads their file may show them."""
    from dragoman.settings.places import config_dir

    if not (config_dir() / "credentials.json").exists():  # most users have none, and loading the reader takes time
        return
    from dragoman.builtin.models.providers import PROVIDERS
    from dragoman.errors import ConfigError
    from dragoman.settings.credentials import Credentials
    from dragoman.text.secrets import remember_keys

    try:
        stored = Credentials(config_dir()).keys()
    except ConfigError:  # it is reported where a key is needed
        return
    keys = {PROVIDERS[id].key_variable: entry.key for id, entry in stored.items() if id in PROVIDERS}
    remember_keys(keys)
    mask_keys({})


def mask_streams() -> None:
    """Put the masked streams in place; they mask what is known when something is written."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # None: closed when the program started. Another type: a test has put its own in place.
        if type(stream) in (io.TextIOWrapper, SafeText) and not isinstance(stream.buffer, MaskedBytes):
            stream.flush()
            _replaced.append(stream)
            # The stream below has a buffer already.
            setattr(sys, name, _safe(stream, MaskedBytes(stream.buffer), write_through=True))


def finish() -> None:
    """Flush both streams, with what was kept because it could have been the beginning of a key."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
            if isinstance(stream.buffer, MaskedBytes):
                stream.buffer.finish()
        except (AttributeError, OSError, ValueError):  # it is closed, or its reader is gone
            continue


def _safe(stream: "TextIO", below: "BinaryIO | MaskedBytes", *, write_through: bool) -> "SafeText":
    return SafeText(
        below,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
        write_through=write_through,
    )


class SafeText(io.TextIOWrapper):
    """A text stream that lets through text, our own colours and the redrawing of a line, and no other control."""

    def write(self, text: str, /) -> int:
        size = len(text)
        if not text.replace("\n", "").replace("\t", "").isprintable():  # False for everything that acts
            from dragoman.cli.console import uses_colour
            from dragoman.text.terminal import printed

            text = printed(text, has_colour=uses_colour(self), can_redraw=self.isatty())
        super().write(text)
        return size


class MaskedBytes(io.BufferedIOBase):
    """A binary stream that masks keys on their way to another one."""

    def __init__(self, below: "BinaryIO") -> None:
        self._below = below
        self.name = below.name
        self._mask = SplitMask(known_keys)

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        piece = bytes(data)
        self._below.write(self._mask.feed(piece))
        return len(piece)

    def finish(self) -> None:
        """Write what was kept."""
        self._below.write(self._mask.finish())
        self._below.flush()

    def flush(self) -> None:
        self._below.flush()

    def fileno(self) -> int:
        return self._below.fileno()

    def isatty(self) -> bool:
        return self._below.isatty()
