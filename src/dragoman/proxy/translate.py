"""An agent of one version of the protocol behind a client of another one.

Each line goes through a translator (`dragoman.versions`), which may answer either side. When the agent ends, what the
client still waits for is answered with an error. Streams, room and ends are those of `proxy/between.py`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.proxy.between import EDITOR, GRACE_SECONDS, run_between, spawn
from dragoman.transports.stdio import StdioTransport
from dragoman.transports.translated import LineTranslation
from dragoman.versions import translator
from dragoman.wire import Request, read_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.proxy.between import Between, Middle
    from dragoman.rpc.transport import Transport
    from dragoman.versions import Lost, Side, Translator
    from dragoman.wire import Frame

_AGENT: Final = 1
_SIDES: Final[tuple[Side, Side]] = ("client", "agent")  # by number


async def run_translation(
    command: Sequence[str], translator: Translator, *, notes: Sequence[str] = (), grace_seconds: float = GRACE_SECONDS
) -> int:
    """Run `command` behind this program's stdin and stdout until it ends; return its exit code.

    Args:
        command: The agent's command.
        notes: Sentences for stderr at the start.

    Raises:
        ConfigError: The command cannot be used.
        DragomanError: The system could not start one more program.
    """

    async def start(between: Between) -> Sequence[Transport]:
        agents = await spawn([command], between)
        return [StdioTransport(), *agents]

    ending = await run_between(
        start,
        lambda between: _TranslatingMiddle(translator, between),
        name="dragoman",
        notes=notes,
        grace_seconds=grace_seconds,
    )
    return ending.code


class _TranslatingMiddle:
    """A translator between two programs."""

    is_waiting = True  # the agent may answer until it ends
    is_behind = False

    def __init__(self, translator: Translator, between: Between) -> None:
        self._between = between
        self._lines = LineTranslation(translator, self._deliver, lambda lost: report(lost, between), between.say)

    def _deliver(self, side: Side, line: bytes) -> None:
        self._between.send(_SIDES.index(side), line)

    def feed(self, number: int, line: Frame) -> None:
        self._lines.take(_SIDES[number], line)

    def ended(self, number: int, reason: ConnectionClosed) -> None:
        self._lines.end(_SIDES[number])
        if number == EDITOR:
            self._between.end_input(_AGENT)

    async def close(self) -> None:
        self._lines.stop()


class AnyEditor:
    """An editor of version 1 or 2 in front of a middle of version 1, which its first line shows."""

    def __init__(self, between: Between) -> None:
        self.inner: Middle
        self._between = between
        self._translation: LineTranslation | None = None
        self._is_first = True

    @property
    def is_waiting(self) -> bool:
        return self.inner.is_waiting

    @property
    def is_behind(self) -> bool:
        return self.inner.is_behind

    def send(self, line: bytes) -> None:
        """Send the editor a line of version 1."""
        if self._translation is None:
            self._between.send(EDITOR, line)
        else:
            self._translation.feed("agent", line)

    def feed(self, number: int, line: Frame) -> None:
        if number != EDITOR:
            self.inner.feed(number, line)
            return
        if self._is_first:
            self._is_first = False
            if isinstance(line, bytes) and _asks_for_version_2(line):
                made = translator("2", "1")
                self._translation = LineTranslation(
                    made, self._deliver, lambda lost: report(lost, self._between), self._between.say
                )
        if self._translation is None:
            self.inner.feed(EDITOR, line)
        else:
            self._translation.take("client", line)

    def _deliver(self, side: Side, line: bytes) -> None:
        if side == "client":
            self._between.send(EDITOR, line)
        else:
            self.inner.feed(EDITOR, line.removesuffix(b"\n"))

    def ended(self, number: int, reason: ConnectionClosed) -> None:
        if number == EDITOR and self._translation is not None:
            self._translation.end("client")
        self.inner.ended(number, reason)

    async def close(self) -> None:
        await self.inner.close()
        if self._translation is not None:
            self._translation.stop()


def report(lost: Lost, between: Between) -> None:
    """Report what could not be translated."""
    between.say(f"not translated: {lost.what}")


def _asks_for_version_2(line: bytes) -> bool:
    """Whether a line is an `initialize` of version 2."""
    message = read_message(line)
    if not isinstance(message, Request) or message.method != "initialize" or message.params is None:
        return False
    with suppress(msgspec.MsgspecError):
        params = msgspec.json.decode(message.params, type=dict[str, Any])
        version = params.get("protocolVersion")
        return isinstance(version, int) and version >= 2 and isinstance(params.get("info"), dict)
    return False
