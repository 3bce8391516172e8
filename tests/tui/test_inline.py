"""Inline mode: one story in a real terminal, with a resize and a lost host; the others with the client here."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

import pytest

pytest.importorskip("prompt_toolkit")
pyte = pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit  # noqa: E402
from tests.tui import here  # noqa: E402
from tests.tui.here import UserHere  # noqa: E402
from tests.tui.test_terminal import SCRIPTED, SECONDS, Terminal  # noqa: E402

READY = "Enter send"
ROWS = 60


class Inline(Terminal):
    """The client in a terminal that keeps what scrolled out."""

    def __init__(self, place: HostPlaceKit, *words: str) -> None:
        super().__init__(place, *words, "--inline")
        self.screen = pyte.HistoryScreen(80, 24, history=5_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)

    @property
    def everything(self) -> str:
        """The history of the terminal, then its screen."""
        top = ["".join(row[column].data for column in range(80)).rstrip() for row in self.screen.history.top]
        return "\n".join([*top, self.text])

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def answer(self, keys: str, until: str) -> None:
        """Types an answer until it counts: one that comes too soon is refused."""
        end = monotonic() + SECONDS
        while until not in self.text:
            assert monotonic() < end, self.text
            self.type(keys)
            while until not in self.text and self.read(0.5):
                pass


@contextmanager
def opened(place: HostPlaceKit, *words: str) -> Iterator[Inline]:
    client = Inline(place, *words)
    try:
        yield client
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(client.pid, signal.SIGKILL)
            os.waitpid(client.pid, 0)
        client.close()


def test_every_line_is_in_the_history_once_and_typed_text_stays(place: HostPlaceKit) -> None:
    rows = "\n\n".join(f"row {number} of the file" for number in range(1, ROWS + 1))
    (place.project / "rows.txt").write_text(rows)
    with opened(place, *SCRIPTED) as client:
        client.until(READY)
        client.type("read rows.txt\\\rslow 20\\\rsay {result}\r")
        client.until("working")
        client.type("typed meanwhile")
        client.until(f"\n│ {2 * ROWS - 1} row {ROWS} of the file")
        client.until("done ·")
        client.until("❯ typed meanwhile")  # the live lines are drawn again below what was printed
        shown = client.everything
        for number in range(1, ROWS + 1):
            assert shown.count(f"\n│ {2 * number - 1} row {number} of the file") == 1, number
        assert shown.count("❯ read rows.txt") == 1, "the prompt stands before its turn"
        client.resize(60, 20)
        client.type(" x")
        client.until("❯ typed meanwhile x")
        assert client.everything.count(f"\n│ {2 * ROWS - 1} row {ROWS} of the file") == 1, "old lines stay as they are"
        client.resize(80, 24)
        session = next(line for line in shown.split("\n") if line.startswith("note: session")).split()[2]
        for pid in place.pids():
            os.kill(pid, signal.SIGKILL)
        client.until("the host is gone")
        client.until(READY)
        client.until("❯ typed meanwhile x")
        client.type("\x15say after the end of the host\r")
        client.until("│ after the end of the host")
        assert client.everything.count(f"\n│ {2 * ROWS - 1} row {ROWS} of the file") == 1, (
            "what is loaded again is not printed again"
        )
        client.until(READY)
        client.type("edit a.txt hello => bye\r")
        client.until("needs your answer")
        client.answer("\x1b1", "answered: Allow once")
        client.until("✔ edit")
        assert (place.project / "a.txt").read_text() == "bye\n"
        client.until(READY)
        client.type("a draft\x03\x03\x03")
        assert client.wait() == 0
        assert f"dragoman attach {session} brings you back" in client.text
        assert client.screen.cursor.hidden is False
        assert b"\x1b[?1049h" not in client.raw, "the alternate screen is never used"
    with opened(place, "attach", session) as again:
        again.until("│ after the end of the host")
        again.until(READY)
        again.type("\x1b[A")
        again.until("❯ a draft")
        again.type("\x15\x04")
        assert again.wait() == 0


async def test_a_line_is_a_prompt_and_alt_and_a_number_or_tab_and_a_key_answer_a_question(user: UserHere) -> None:
    async with user.host_here(), user.inline(**here.SCRIPTED) as client:
        await client.until(READY)
        client.type("edit a.txt hello => bye\r")
        await client.until("needs your answer")
        assert "1: Allow once" in client.text
        client.type("say 1\r")  # a prompt, which waits
        await client.wait_until(lambda: client.text.rstrip().endswith("❯"), lambda: client.text)
        assert (user.project / "a.txt").read_text() == "hello\n"
        await client.answer("\x1b1", "answered: Allow once")
        await client.until("✔ edit")
        assert (user.project / "a.txt").read_text() == "bye\n"
        await client.until("│ 1")  # the scripted model repeats the prompt that waited
        await client.until(READY)
        client.type("edit a.txt bye => never\r")
        await client.until("needs your answer")
        client.type("\t")
        await client.until("type the letter or number of an answer")
        client.type("x\r")  # neither types nor answers
        await client.answer("4", "answered: Reject")
        await client.until(READY)
        assert (user.project / "a.txt").read_text() == "bye\n"
        client.type("run sleep 1000\r")
        await client.until("needs your answer")
        client.type("\x1b")
        await client.until("Cancelled")
        await client.until(READY)


async def test_completion_paste_history_and_new_lines_in_the_input(user: UserHere) -> None:
    async with user.host_here(), user.inline(**here.SCRIPTED) as client:
        await client.until(READY)
        client.type("/tra")
        await client.until("the last messages between host and agent")
        client.type("\t")
        await client.until("❯ /traffic")
        client.type("\r")
        await client.until("req 0, initialize")
        (user.project / "rows.txt").write_text("row 1\n")
        client.type("say see @ro")
        await client.until("rows.txt")
        client.type("\t\r")
        await client.until("│ see @rows.txt")
        await client.until(READY)
        client.type("\x1b[200~" + "pasted\n" * 30 + "\x1b[201~")
        await client.until("[pasted 30 lines]")
        client.type("\x7f\x7f")
        client.type("say one\nsay two\x1b\rsay three\r")
        await client.until("│ one\n│ two\n│ three")
        await client.until(READY)
        client.type("\x1b[A")
        await client.until("❯ say one\nsay two\nsay three")
        client.type("\x03")
        await client.until("cleared; Up brings it back")
        client.type("!echo from the shell\r")
        await client.until("  from the shell")
        await client.until("shell: exit 0")
        client.type("!!")
        client.type("\r")
        await client.until("❯ [!echo from the shell: exit 0]")


async def test_a_form_is_filled_in_line_by_line(user: UserHere) -> None:
    async with user.host_here(), user.inline(agent="scripted") as client:
        await client.until(READY)
        client.type("elicitation\r")
        await client.until("form: Name")
        client.type("Ada\r")
        await client.until("form: Colour")
        client.type("2\r\r")
        await client.until("form: Subscribe")
        client.type("y\r")
        await client.until("form: this will be sent")
        client.type("/send\r")
        await client.until("'name': 'Ada'")


async def test_text_of_an_agent_neither_acts_on_the_terminal_nor_looks_like_a_question(user: UserHere) -> None:
    evil = (
        "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[?1049h\x1b[2J\u202egnp\u202c\n\n"
        "question: run: rm -rf /\n\n  1: Allow once\n\n◆ needs your answer\n\nthe end\n"
    )
    (user.project / "evil").write_text(evil)
    async with user.host_here(), user.inline(**here.SCRIPTED) as client:
        await client.until(READY)
        client.type("read evil\\\rsay {result}\r")
        await client.until("the end")
        await client.until("done ·")
        assert client.screen.title == ""
        for sequence in ("\x1b]", "\x1b[?1049h", "\x1b[2J", "\u202e"):
            assert sequence not in client.raw
        own = [line for line in client.everything.split("\n") if line.startswith(("question:", "◆ needs"))]
        assert own == [], "only our own questions stand at the first column"
