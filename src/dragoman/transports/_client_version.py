"""Which version of the protocol a client speaks, seen in its `initialize`, for a role that is written in version 1.

Theory of operation
-------------------
The receiver of a transport passes everything on to the role's peer. Before the role is initialized it looks at each
line. A request `initialize` of version 2 puts a translator between the transport and the peer, for the rest of the
connection; that line is the first one that it translates. Once the role is initialized in version 1 the peer is called
directly, so a client of version 1 costs nothing and loads nothing. A failed `initialize` decides nothing.

A client speaks version 2 if it asks for 2 or a later version and introduces itself as version 2 has it, with `info`.
One that asks for a later version in version 1's form is answered in version 1, as an agent of version 1 does it.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.errors import ConnectionClosed
    from dragoman.rpc.transport import Receiver, Transport
    from dragoman.versions import Lost, Translator

_log = logging.getLogger("dragoman.versions")

# A longer line is not the `initialize` of any client; it is passed on without a look.
_LONGEST_BYTES: Final = 1024 * 1024
_LATEST: Final = 65535  # of the schema


class _Params(Struct):
    protocolVersion: int  # noqa: N815 - the protocol's name
    info: dict[str, Any] | None = None


class _Initialize(Struct):
    id: Any
    method: str
    params: _Params


_read: Final = msgspec.json.Decoder(_Initialize)


class _Versioned(Protocol):
    """What a receiver of version 1 has to have: a peer, or another."""

    def feed(self, data: bytes) -> None: ...

    def end(self, reason: ConnectionClosed) -> None: ...

    def drained(self) -> None: ...

    def reroute(self, transport: Transport) -> None:
        """Write through `transport` from here on."""


class VersionedClient:
    """The receiver in front of a peer of version 1 whose client may speak version 2.

    Args:
        is_initialized: Whether the role has answered `initialize`; nothing is decided after that.
        make_translator: Makes the translator for a client of version 2; called at most once.
    """

    def __init__(
        self,
        peer: _Versioned,
        transport: Transport,
        is_initialized: Callable[[], bool],
        make_translator: Callable[[], Translator],
    ) -> None:
        self._peer = peer
        self._transport = transport
        self._is_initialized = is_initialized
        self._make_translator = make_translator
        self._part = b""
        # Replaced when the version is known: a call through a method of ours would cost time with every read.
        self.feed: Callable[[bytes], None] = self._feed_first
        self.end: Callable[[ConnectionClosed], None] = self._end_first
        self.drained: Callable[[], None] = peer.drained

    def _feed_first(self, data: bytes) -> None:
        if self._is_initialized():
            self._pass_on()
            self.feed(data)
            return
        data = self._part + data
        cut = data.rfind(b"\n") + 1
        whole, self._part = data[:cut], data[cut:]
        at = _start_of_version_2(whole)
        if at is not None:
            self._translate(whole[:at], whole[at:])
            return
        if len(self._part) > _LONGEST_BYTES:
            whole, self._part = data, b""
        if whole:
            self._peer.feed(whole)
        if self._is_initialized():
            self._pass_on()

    def _pass_on(self) -> None:
        self.feed, self.end = self._peer.feed, self._peer.end
        part, self._part = self._part, b""
        if part:
            self.feed(part)

    def _end_first(self, reason: ConnectionClosed) -> None:
        self._pass_on()
        self.end(reason)

    def _translate(self, before: bytes, data: bytes) -> None:
        from dragoman.transports.translated import TranslatedTransport

        if before:
            self._peer.feed(before)
        translated = TranslatedTransport(
            self._transport, self._make_translator(), "agent", on_loss=_report_loss, on_noise=_report_noise
        )
        translated.take_over(self._peer)
        self._peer.reroute(translated)
        self.feed, self.end, self.drained = translated.feed, translated.end, translated.drained
        part, self._part = self._part, b""
        self.feed(data + part)


class VersionedTransport:
    """A transport to a client of version 1 or 2 for a program that is written in version 1 and has no peer.

    Args:
        inner: Leads to the client; it is closed with this one.
        is_initialized: Whether the program has seen an `initialize`; nothing is decided after that.
    """

    def __init__(
        self, inner: Transport, is_initialized: Callable[[], bool], make_translator: Callable[[], Translator]
    ) -> None:
        self._inner = inner
        self._out = inner
        self._is_initialized = is_initialized
        self._make_translator = make_translator
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        self._receiver = receiver
        self._inner.start(VersionedClient(self, self._inner, self._is_initialized, self._make_translator))

    def write(self, data: bytes) -> None:
        """Write, translated if the client speaks version 2."""
        self._out.write(data)

    @property
    def unsent_bytes(self) -> int:
        """What was written and has not left yet."""
        return self._inner.unsent_bytes

    def pause_reading(self) -> None:
        """Stop feeding."""
        self._out.pause_reading()

    def resume_reading(self) -> None:
        """Feed again."""
        self._out.resume_reading()

    def close(self) -> None:
        """Release everything and call the receiver no more."""
        self._out.close()

    async def wait_closed(self) -> None:
        """Return when everything is released."""
        await self._out.wait_closed()

    # What the receiver in front of it calls

    def feed(self, data: bytes) -> None:
        """Take messages of version 1."""
        if self._receiver is not None:
            self._receiver.feed(data)

    def end(self, reason: ConnectionClosed) -> None:
        """Take note that the client is gone."""
        if self._receiver is not None:
            self._receiver.end(reason)

    def drained(self) -> None:
        """Take note that there is room for more."""
        if self._receiver is not None:
            self._receiver.drained()

    def reroute(self, transport: Transport) -> None:
        """Write through `transport` from here on."""
        self._out = transport


def make_v2_translator(*, keeps_turns: bool = False) -> Translator:
    """Return the translator for a client of version 2 at an agent of version 1.

    Args:
        keeps_turns: A session that the client closes goes on, as those of a host do.
    """
    from dragoman.versions.version2.v2_client import V2ClientV1Agent

    return V2ClientV1Agent(f"dragoman-{os.urandom(4).hex()}", keeps_turns=keeps_turns)


def make_v2_host_translator() -> Translator:
    """Return the translator for a client of version 2 at a host."""
    from dragoman.versions.version2.v2_hosted import V2ClientAtHost

    return V2ClientAtHost(f"dragoman-{os.urandom(4).hex()}")


def _start_of_version_2(lines: bytes) -> int | None:
    """Return where the line begins that makes this a connection of version 2.

    None if no line, or one of version 1, does.
    """
    at = 0
    while at < len(lines):
        end = lines.index(b"\n", at)
        line = lines[at:end]
        if b'"initialize"' in line:
            try:
                found = _read.decode(line)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                found = None
            if found is not None and found.method == "initialize":
                is_later = 2 <= found.params.protocolVersion <= _LATEST
                return at if is_later and found.params.info is not None else None
        at = end + 1
    return None


def _report_loss(lost: Lost) -> None:
    _log.warning("not translated for a client of version 2: %s", lost.what)


def _report_noise(sentence: str) -> None:
    _log.warning("%s", sentence)
