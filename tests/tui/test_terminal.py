"""The full screen in a real terminal: a PTY whose output a terminal emulator reads, a real host, a real agent.

One story is in a terminal: keys, what is drawn, job control, and what stays when the screen is left. What needs no
terminal has the client in this process.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
from collections.abc import Callable
from time import monotonic

import pytest

pytest.importorskip("textual")
pyte = pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit  # noqa: E402
from tests.tui import here  # noqa: E402
from tests.tui.here import UserHere  # noqa: E402

SECONDS = 90.0
SYNCHRONIZED = b"\x1b[?2026$p"
SCRIPTED = ("-a", "dragoman", "--model", "scripted")


class Terminal:
    """A terminal of 80 by 24 with the client in it.

    What the client writes is taken letter by letter. The screen is as it was when the text that was waited for was
    drawn; what came behind it stays unread until the next wait, so that a test cannot see by chance what it did not
    wait for.
    """

    def __init__(self, place: HostPlaceKit, *words: str, **variables: str) -> None:
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self._written = bytearray()
        self._unread = bytearray()
        self._lines: list[str] = []
        environment = {**place.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", **variables}
        for name in ("NO_COLOR", "ACCESSIBLE", "TMUX"):
            environment.pop(name, None)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(place.project)
            os.execve(sys.executable, [sys.executable, "-m", "dragoman", *words], environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def until(self, text: str) -> str:
        """Reads until the screen shows a text."""
        self._until_drawn(lambda shown: text in shown, text, f"{text!r} is not shown")
        return self.text

    def until_gone(self, text: str) -> str:
        """Reads until the screen does not show a text any more."""
        self._until_drawn(lambda shown: text not in shown, "", f"{text!r} is still shown")
        return self.text

    def until_written(self, pattern: bytes, start: int = 0) -> re.Match[bytes]:
        """Reads until the client has written something, at or behind a place in `raw`."""
        end = monotonic() + SECONDS
        while (found := re.compile(pattern).search(bytes(self._written + self._unread), start)) is None:
            assert self._take(max(0.0, end - monotonic())), f"{pattern!r} was not written:\n{self.text}"
        self._feed(max(0, found.end() - len(self._written)))
        return found

    @property
    def raw(self) -> bytes:
        """What the client has written, up to what is on the screen."""
        return bytes(self._written)

    @property
    def text(self) -> str:
        """What is on the screen; lines that were drawn again are looked at again, and no others."""
        if len(self._lines) != self.screen.lines:
            self._lines = [""] * self.screen.lines
            self.screen.dirty.update(range(self.screen.lines))
        for row in self.screen.dirty.intersection(range(self.screen.lines)):  # a larger screen had more
            self._lines[row] = self._line(row)
        self.screen.dirty.clear()
        return "\n".join(self._lines)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait(self) -> int:
        """Reads to the end of the program."""
        end = monotonic() + SECONDS
        while self.read(max(0.0, end - monotonic())):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        os.close(self._fd)

    def read(self, seconds: float) -> bool:
        """Shows everything that has come, or that comes next; False if nothing came, or at the end of the program."""
        is_more = bool(self._unread) or self._take(seconds)
        self._feed(len(self._unread))
        return is_more

    def _until_drawn(self, is_so: Callable[[str], bool], text: str, message: str) -> None:
        """Reads letter by letter until the screen is as wanted; a text is drawn with its last letter, if it has one."""
        last = text.rstrip().encode()[-1:]
        end = monotonic() + SECONDS
        while not is_so(self.text):
            if not self._unread and not self._take(max(0.0, end - monotonic())):
                raise AssertionError(f"{message}:\n{self.text}")
            while self._unread:
                letter = self._unread[:1]
                if letter == b"\x1b" and self.screen.dirty and is_so(self.text):
                    return
                self._feed(1)
                if letter == last and self.screen.dirty and is_so(self.text):
                    return

    def _take(self, seconds: float) -> bool:
        """Takes what comes, without showing it."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is gone
            return False
        before = self._unread.count(SYNCHRONIZED)
        self._unread += data
        for _ in range(self._unread.count(SYNCHRONIZED) - before):  # a terminal without synchronized output
            os.write(self._fd, b"\x1b[?2026;0$y")
        return bool(data)

    def _feed(self, size: int) -> None:
        data = bytes(self._unread[:size])
        del self._unread[:size]
        self._written += data
        self._stream.feed(data)

    def _line(self, row: int) -> str:
        """A line as it is shown: the cell behind a wide letter is empty."""
        cells = self.screen.buffer[row]
        return "".join(cells[column].data for column in range(self.screen.columns)).rstrip()


def test_a_prompt_a_question_and_the_way_out(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    (place.project / "evil").write_text("\x1b]0;owned\x07\x1b[2J\x9b5mthe end\n")
    terminal.type("read evil\\\rsay {result}\r")
    terminal.until("the end")
    assert b"owned\x07" not in terminal.raw
    assert terminal.screen.title != "owned", "text of an agent does not act on the terminal"
    terminal.until("Enter send")
    terminal.type("edit a.txt hello => bye\r")
    terminal.until("1: Allow once")
    terminal.until("needs your answer")
    terminal.type("1\x7f\t")  # typed, removed, and into the card
    terminal.until("to answer\n")
    end = monotonic() + SECONDS
    while b"answered: " not in terminal.raw:
        terminal.type("1" if "Allow once" in terminal.text else "")  # one that comes too soon is refused
        terminal.read(0.5)
        assert monotonic() < end, terminal.text
    terminal.until("✔ edit")
    assert (place.project / "a.txt").read_text() == "bye\n"
    terminal.until_gone("answered: ")  # the place of the question stays empty for a moment, and takes the keys
    terminal.type("xy\x01\x04")
    terminal.until("\n  y")  # Ctrl+D deletes in a draft
    assert terminal.text.index("❯ edit a.txt") < terminal.text.index("✔ edit"), "the prompt stands before its turn"
    terminal.type("\x05\x15\x1a")
    while os.waitpid(terminal.pid, os.WUNTRACED | os.WNOHANG) == (0, 0):
        terminal.read(0.05)
        assert monotonic() < end, terminal.text
    terminal.screen.reset()  # as `fg` finds it: the alternate screen is empty
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.until("✔ edit")
    terminal.until("? keys\n Enter send")
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert "brings you back" in terminal.text
    assert "✔ edit    Edit a.txt  +1 -1" in terminal.text, "the last exchange stays in the terminal"
    assert terminal.raw.rstrip().endswith(b"back") or b"\x1b[?1049l" in terminal.raw


async def test_a_client_that_is_gone_loses_nothing_and_two_clients_show_the_same(user: UserHere) -> None:
    async with user.host_here():
        async with user.screen(**here.SCRIPTED) as first:
            await first.until("F1 help")
            first.type("say before the end\r")
            await first.until("│ before the end")
        last = await user.find_session()
        async with user.screen(session_id=last) as again, user.screen(session_id=last) as other:
            for each in (again, other):
                await each.until("│ before the end")
            again.type("say from the first\r")
            for each in (again, other):
                await each.until("│ from the first")


async def test_a_command_that_fails_is_shown_with_its_exit_code_its_time_and_its_colours(user: UserHere) -> None:
    (user.project / "colours").write_text("\x1b[31mred words\x1b[0m\n")
    async with user.host_here():
        async with user.screen(**here.SCRIPTED) as client:
            await client.until("F1 help")
            client.type("run cat colours; exit 3\r")
            await client.answer("1", "exit code 3")
            text = await client.until("red words")
            assert "▸ ✘ run" in text
            session_id = client.app.conversation.session_id
            (segment,) = [part for strip in client.strips() for part in strip if "red words" in part.text]
            assert segment.style.color.number == 1, "the red of the terminal"
            await client.until("done · ")
        async with user.screen(session_id=session_id) as again:
            shown = re.compile(r"^▸ ✘ run .*exit code 3 .* s$", re.MULTILINE)  # from the log: the time that it took
            await again.wait_until(lambda: shown.search(again.text), lambda: again.text)
