"""The full screen in a real terminal: a PTY whose output a terminal emulator reads, a real host, a real agent."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
from time import monotonic

import pytest

pytest.importorskip("textual")
pyte = pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit, processes, wait_for  # noqa: E402

SECONDS = 90.0
SCRIPTED = ("-a", "dragoman", "--model", "scripted")


class Terminal:
    """A terminal of 80 by 24 with the client in it."""

    def __init__(self, place: HostPlaceKit, *words: str, **variables: str) -> None:
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
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
        end = monotonic() + SECONDS
        while text not in self.text:
            left = end - monotonic()
            if left <= 0 or not self.read(left):
                raise AssertionError(f"{text!r} is not shown:\n{self.text}")
        return self.text

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

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
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is gone
            return False
        self.raw += data
        if b"\x1b[?2026$p" in data:  # a terminal without synchronized output
            os.write(self._fd, b"\x1b[?2026;0$y")
        self._stream.feed(data)
        return bool(data)


def test_a_prompt_a_question_and_the_way_out(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    terminal.type("edit a.txt hello => bye\r")
    terminal.until("1: Allow once")
    terminal.until("needs your answer")
    terminal.type("1\x7f\t")  # typed, removed, and into the card
    terminal.until("type the number of an answer")
    end = monotonic() + SECONDS
    while "✔ edit" not in terminal.text:
        terminal.type("1" if "Allow once" in terminal.text else "")  # one that comes too soon is refused
        terminal.read(0.5)
        assert monotonic() < end, terminal.text
    assert (place.project / "a.txt").read_text() == "bye\n"
    while "answered: " in terminal.text:  # the place of the question stays empty for a moment, and takes the keys
        assert terminal.read(SECONDS), terminal.text
    terminal.type("x\x04")
    terminal.until("there is a draft")
    assert terminal.text.index("❯ edit a.txt") < terminal.text.index("✔ edit"), "the prompt stands before its turn"
    terminal.type("\x15\x1a")
    while os.waitpid(terminal.pid, os.WUNTRACED | os.WNOHANG) == (0, 0):
        terminal.read(0.05)
        assert monotonic() < end, terminal.text
    terminal.screen.reset()  # as `fg` finds it: the alternate screen is empty
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.until("✔ edit")
    terminal.until("\n\n Enter send")
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert "brings you back" in terminal.text
    assert "✔ edit    Edit a.txt  +1 -1" in terminal.text, "the last exchange stays in the terminal"
    assert terminal.raw.rstrip().endswith(b"back") or b"\x1b[?1049l" in terminal.raw


def test_a_killed_client_loses_nothing_and_two_terminals_show_the_same(
    place: HostPlaceKit, terminals: list[Terminal]
) -> None:
    terminals.append(first := Terminal(place, *SCRIPTED))
    first.until("F1 help")
    first.type("say before the end\r")
    first.until("│ before the end")
    first.kill()
    terminals.append(again := Terminal(place, "--continue"))
    terminals.append(other := Terminal(place, "--continue"))
    for each in (again, other):
        each.until("│ before the end")
    again.type("say from the first\r")
    for each in (again, other):
        each.until("│ from the first")


def test_a_command_that_fails_is_shown_with_its_exit_code_its_time_and_its_colours(
    place: HostPlaceKit, terminals: list[Terminal]
) -> None:
    (place.project / "colours").write_text("\x1b[31mred words\x1b[0m\n")
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    terminal.type("run cat colours; exit 3\r")
    terminal.until("1: Allow once")
    terminal.type("\t")
    end = monotonic() + SECONDS
    while "exit code 3" not in terminal.text:
        terminal.type("1" if "Allow once" in terminal.text else "")  # one that comes too soon is refused
        terminal.read(0.5)
        assert monotonic() < end, terminal.text
    text = terminal.until("red words")
    assert "▸ ✘ run" in text
    row = next(y for y, line in enumerate(text.split("\n")) if "red words" in line)
    assert terminal.screen.buffer[row][5].fg == "red"
    terminal.kill()
    terminals.append(again := Terminal(place, "--continue"))
    line = next(line for line in again.until("exit code 3").split("\n") if "exit code 3" in line)
    assert line.startswith("▸ ✘ run")
    assert line.endswith(" s"), "from the log: the time that it took"


def test_text_of_an_agent_does_not_act_on_the_terminal(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    (place.project / "evil").write_text("\x1b]0;owned\x07\x1b[2J\x9b5mthe end\n")
    terminal.type("read evil\\\rsay {result}\r")
    terminal.until("the end")
    assert b"owned\x07" not in terminal.raw
    assert terminal.screen.title != "owned"


def test_the_demo_opens_the_client_and_leaves_nothing(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, "demo", "--talk"))
    shown = terminal.until("│ • edit greeting.txt")
    assert "Try these, one line each" in shown, "a newcomer sees what to type, and no wizard before it"
    terminal.until("Enter send")
    assert processes(place.mark), "a host of its own"
    terminal.type("\x04")
    assert terminal.wait() == 0
    wait_for(lambda: not processes(place.mark))
