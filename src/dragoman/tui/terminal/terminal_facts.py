"""What is known of the terminal: whether it is light, shows UTF-8, is far away, or draws pictures itself.

The background is asked for with OSC 11 before the screen starts, and the answer is read after the slow imports: nothing
waits for a terminal that does not answer. Keys that were typed meanwhile are kept for the input. Where the terminal is
asked for the kitty graphics protocol and for its name, these questions go first: terminals answer in order, so that the
answers are there when the colour is.
"""

from __future__ import annotations

import locale
import os
import re
import select
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWER_SECONDS: Final = 0.1
_ASKED: Final = b"\x1b]11;?\x1b\\"
_ANSWER: Final = re.compile(rb"\x1b\]11;([^\x07\x1b]{1,64})(?:\x07|\x1b\\)")
_ASKED_GRAPHICS: Final = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[>q"  # one pixel that is not kept; the name
_GRAPHICS_ANSWER: Final = re.compile(rb"\x1b(?:_G|P>\|)([^\x1b]{0,200})\x1b\\")
_LATE: Final = re.compile("\x1b\\]1[01];[^\x07\x1b]{1,64}(?:\x07|\x1b\\\\)|\x1b(?:_G|P>\\|)[^\x1b]{0,200}\x1b\\\\")
_KNOWS_PLACEHOLDERS: Final = re.compile(rb"ghostty |kitty\((?:0\.(?:2[89]|[3-9]\d)|[1-9])")
_LIGHT: Final = 0.5
_ASCII_SIGNS: Final = str.maketrans("…·─│█░•❯⤷↵☐☑◐", "~--|#.*>>/-+*")


class TerminalAnswers(NamedTuple):
    """What the terminal answered before the screen started."""

    background: tuple[int, int, int] | None = None
    has_graphics: bool = False
    """It knows the kitty graphics protocol with placeholders: kitty does from 0.28 on, and Ghostty."""


def is_light_answer(value: str) -> bool | None:
    """Return whether the answer to OSC 11, as `rgb:ffff/ffff/ffff`, is a light colour; None if it is not a colour."""
    colour = answered_colour(value)
    if colour is None:
        return None
    red, green, blue = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue > _LIGHT * 255


def answered_colour(value: str) -> tuple[int, int, int] | None:
    """Return the colour in the answer to OSC 11, as red, green and blue of 255; None if it is not a colour."""
    kind, _, numbers = value.partition(":")
    parts = numbers.split("/")[:3]
    try:
        shares = [int(part, 16) / (16 ** len(part) - 1) for part in parts]
    except (ValueError, ZeroDivisionError):
        return None
    if kind not in ("rgb", "rgba") or len(shares) != 3:
        return None
    red, green, blue = (round(255 * share) for share in shares)
    return red, green, blue


def is_light_by_variable(environment: Mapping[str, str]) -> bool | None:
    """Return the same by COLORFGBG (`15;0`: the last number is the background); None if it says nothing."""
    last = environment.get("COLORFGBG", "").rpartition(";")[2]
    if not last.isdigit():
        return None
    return int(last) in (7, *range(9, 16))


def is_remote(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal is at the other end of an SSH line."""
    return bool(environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"))


def shows_unicode(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal shows the characters of the rail."""
    if environment.get("TERM") == "linux":
        return False
    return "utf" in locale.getpreferredencoding(False).lower()


def ascii_signs(text: str) -> str:
    """Return a text with our own signs as ASCII, each of one column as before; letters of others stay as they are."""
    return text if text.isascii() else text.translate(_ASCII_SIGNS)


class BackgroundQuestion:
    """The question for the background colour, asked once, and read once before the screen takes the terminal."""

    def __init__(self, fd_in: int, fd_out: int, *, asks_graphics: bool = False) -> None:
        self._in, self._out = fd_in, fd_out
        self._asks_graphics = asks_graphics
        self._before: list[Any] | None = None
        self._asked_at = 0.0
        self.is_light: bool | None = None
        self.answers = TerminalAnswers()
        self.typed = b""
        """What the user typed meanwhile."""

    def ask(self) -> None:
        """Ask, with the echo of the terminal switched off: the answer must not be seen."""
        import termios

        try:
            self._before = termios.tcgetattr(self._in)
            quiet = termios.tcgetattr(self._in)
            quiet[0] &= ~termios.ICRNL  # Enter has to arrive as Enter
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._in, termios.TCSANOW, quiet)
            os.write(self._out, _ASKED_GRAPHICS + _ASKED if self._asks_graphics else _ASKED)
        except (termios.error, OSError):
            return
        self._asked_at = monotonic()

    def read(self) -> None:
        """Read the answer, and restore the terminal."""
        if self._before is None:
            return
        import termios

        data = b""
        try:
            while _ANSWER.search(data) is None:
                left = self._asked_at + ANSWER_SECONDS - monotonic()
                if not select.select([self._in], [], [], max(0.0, left))[0]:
                    break
                more = os.read(self._in, 4096)
                if not more:
                    break
                data += more
        except OSError:
            pass
        finally:
            termios.tcsetattr(self._in, termios.TCSANOW, self._before)
            self._before = None
        colour = _ANSWER.search(data)
        if colour is not None:
            value = colour[1].decode("ascii", "replace")
            self.is_light = is_light_answer(value)
            self.answers = TerminalAnswers(answered_colour(value))
            data = data[: colour.start()] + data[colour.end() :]
        if self._asks_graphics:
            given = _GRAPHICS_ANSWER.findall(data)
            is_known = any(answer.endswith(b";OK") for answer in given) and any(map(_KNOWS_PLACEHOLDERS.match, given))
            self.answers = self.answers._replace(has_graphics=is_known)
            data = _GRAPHICS_ANSWER.sub(b"", data)
        self.typed = data.replace(b"\n", b"\r")  # what Enter was before the terminal was switched


def ask_background(*, asks_graphics: bool = False) -> BackgroundQuestion | None:
    """Ask the terminal of this process; None if stdin or stdout are not a terminal, or it is one that cannot answer."""
    if os.environ.get("TERM", "dumb") in ("dumb", "linux") or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    question = BackgroundQuestion(sys.stdin.fileno(), sys.stdout.fileno(), asks_graphics=asks_graphics)
    question.ask()
    return question


def without_late_answer(text: str) -> str:
    """Return what the terminal sent, without an answer that came after the screen had started."""
    return _LATE.sub("", text) if any(start in text for start in ("\x1b]", "\x1b_", "\x1bP")) else text
