"""The entries of a recording.

Owns the kinds of entry and their meaning; `docs/recording.md` shows the form of each on disk. Does not know files or
the protocol: a frame is the bytes of a line.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.errors import StoreError

FORMAT: Final = "dragoman"
VERSION: Final = 1

Direction: TypeAlias = Literal["c2a", "a2c"]
"""From client to agent, from agent to client."""


class TraceError(StoreError):
    """A file is not a recording, or a line of it cannot be read; the message names both."""


class Header(Struct, frozen=True, kw_only=True):
    """How and when a recording was made; all members are empty for a file without a header."""

    started: str = ""
    """ISO 8601, UTC; the times of all entries count from here."""
    by: str = ""
    command: tuple[str, ...] = ()
    cwd: str | None = None
    redacted: bool = False
    protocol: str = ""
    """The version of the protocol, if the recorder was given it; otherwise `initialize` shows it."""


class Frame(Struct, frozen=True, gc=False):
    """One line, exactly as it was sent; `data + eol` of all frames of a direction is its byte stream.

    An empty `eol` means that the line did not end here: the stream ended, or the line is longer than a frame may be
    (32 MiB) and continues in the next frame of its direction.
    """

    t: float
    dir: Direction
    data: bytes
    eol: bytes = b"\n"


class Stderr(Struct, frozen=True, gc=False):
    """One line the agent wrote to stderr, without its end."""

    t: float
    text: str


class End(Struct, frozen=True, gc=False):
    """A direction ended: no more bytes came in it."""

    t: float
    dir: Direction


class Exit(Struct, frozen=True, gc=False):
    """The agent's process ended, by itself with a code or by a signal; neither is set if that is not known."""

    t: float
    code: int | None = None
    signal: str | None = None


Entry: TypeAlias = Header | Frame | Stderr | End | Exit
