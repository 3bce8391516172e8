"""The terminal client in a real tmux: screen, history, alternate screen, title and bell as tmux sees them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests import machine

pytest.importorskip("textual")
if reason := machine.why_missing("tmux"):
    pytest.skip(reason, allow_module_level=True)

from tests.host.local.kit import HostPlaceKit, local_place
from tests.tui.test_terminal import SCRIPTED

SECONDS = 90.0


class Tmux:
    """A tmux server of its own, with one window for each client."""

    def __init__(self, place: HostPlaceKit) -> None:
        self._name = f"dragoman-{os.getpid()}"
        self._place = place
        self._count = 0
        environment = {**place.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", "SHELL": "/bin/sh"}
        for name in ("NO_COLOR", "ACCESSIBLE", "TMUX"):
            environment.pop(name, None)
        self._environment = environment
        self("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", "main", "sleep 1000")
        self("set", "-g", "remain-on-exit", "on")
        self("set", "-g", "history-limit", "5000")

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._name, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.stdout

    def open(self, *words: str) -> Window:
        """Starts a client in a window of its own."""
        self._count += 1
        command = shlex.join([sys.executable, "-m", "dragoman", *words])
        folder = str(self._place.project)
        id = self("new-window", "-d", "-P", "-F", "#{pane_id}", "-c", folder, command).strip()
        return Window(self, id)

    def close(self) -> None:
        self("kill-server")


class Window:
    """One client in tmux."""

    def __init__(self, tmux: Tmux, id: str) -> None:
        self._tmux = tmux
        self._id = id

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", self._id)

    @property
    def everything(self) -> str:
        return self._tmux("capture-pane", "-p", "-S", "-5000", "-t", self._id)

    def fact(self, name: str) -> str:
        return self._tmux("display", "-p", "-t", self._id, f"#{{{name}}}").strip()

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", self._id, "-l", text)

    def key(self, *names: str) -> None:
        self._tmux("send-keys", "-t", self._id, *names)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", self._id, "-x", str(columns), "-y", str(rows))

    def until(self, text: str) -> str:
        end = time.monotonic() + SECONDS
        while text not in (shown := self.text):
            assert time.monotonic() < end, f"{text!r} is not shown:\n{shown}"
            time.sleep(0.05)  # tmux has nothing to wait for
        return shown

    def answer(self, *keys: str, until: str) -> None:
        """Types an answer until it counts: one that comes too soon is refused."""
        end = time.monotonic() + SECONDS
        while until not in self.everything:
            self.key(*keys)
            time.sleep(0.2)
            assert time.monotonic() < end, self.text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path_factory.mktemp("place")) as found:
        (found.project / "a.txt").write_text("hello\n")
        yield found


@pytest.fixture(scope="module")
def tmux(place: HostPlaceKit) -> Iterator[Tmux]:
    made = Tmux(place)
    yield made
    made.close()


def test_the_full_screen_answers_resizes_and_leaves_its_last_exchange(tmux: Tmux, place: HostPlaceKit) -> None:
    window = tmux.open(*SCRIPTED)
    window.until("F1 help")
    assert window.fact("alternate_on") == "1"
    window.type("edit a.txt hello => bye")
    window.key("Enter")
    window.until("needs your answer")
    window.resize(60, 20)
    window.until("1: Allow once")
    window.resize(80, 24)
    window.key("Tab")
    window.until("to answer\n")
    window.answer("1", until="✔ edit")
    assert (place.project / "a.txt").read_text() == "bye\n"
    window.until("Enter send")
    time.sleep(1.1)  # the place of a question stays empty for a second, and takes the keys
    window.key("C-d")
    window.until("brings you back")
    assert window.fact("alternate_on") == "0"
    assert "❯ edit a.txt hello => bye" in window.everything, "the last exchange stays"


@pytest.mark.soak  # test_terminal.py has two terminals that show the same
def test_a_prompt_is_typed_in_one_window_and_seen_in_another(tmux: Tmux) -> None:
    first = tmux.open(*SCRIPTED)
    first.until("Enter send")
    first.type("say from the first window")
    first.key("Enter")
    first.until("│ from the first window")
    second = tmux.open("--continue", "--inline")
    second.until("│ from the first window")
    first.until("Enter send")
    second.until("Enter send")
    second.type("say from the second window")
    second.key("Enter")
    first.until("│ from the second window")
    first.type("run sleep 1000")
    first.key("Enter")
    second.until("needs your answer")
    second.key("Escape")
    first.until("– Cancelled")
    for each in (first, second):
        each.until("Enter send")
        each.key("C-d")
        each.until("brings you back")


@pytest.mark.soak  # test_inline.py has every line once in a terminal
def test_inline_mode_leaves_every_line_once_in_the_history_of_tmux(tmux: Tmux, place: HostPlaceKit) -> None:
    (place.project / "b.txt").write_text("bye\n")
    window = tmux.open(*SCRIPTED, "--inline")
    window.until("Enter send")
    window.type("!seq -f 'number %g.' 300")
    window.key("Enter")
    window.type("typed meanwhile")
    window.until("shell: exit 0")
    window.until("❯ typed meanwhile")
    lines = window.everything.split("\n")
    assert [lines.count(f"  number {number}.") for number in (1, 2, 100, 199, 200, 299, 300)] == [1] * 7
    assert window.fact("alternate_on") == "0"
    window.resize(60, 20)
    window.type(" x")
    window.until("❯ typed meanwhile x")
    assert window.everything.count("  number 200.") == 1
    window.resize(80, 24)
    window.key("C-u")
    window.type("edit b.txt bye => hello")
    window.key("Enter")
    window.until("needs your answer")
    window.answer("M-1", until="✔ edit")
    window.until("Enter send")
    window.key("C-d")
    window.until("brings you back")


@pytest.mark.soak  # test_terminal.py has text that does not act
def test_text_of_an_agent_changes_neither_title_nor_screen(tmux: Tmux, place: HostPlaceKit) -> None:
    (place.project / "evil").write_text(
        "\x1b]2;owned\x07\x1bkowned\x1b\\\x1b[?1049h\x1b[2J\x1b]52;c;b3duZWQ=\x07the end\n"
    )
    for words in ((), ("--inline",), ("--plain",)):
        window = tmux.open(*SCRIPTED, *words)
        window.until("note: session" if words else "F1 help")
        window.type("read evil")
        window.key("Enter")
        window.until("the end")
        assert "owned" not in window.fact("pane_title")
        assert "owned" not in window.fact("window_name")
        assert window.fact("alternate_on") == ("0" if words else "1")
        window.key("C-d")
        window.until("brings you back")
    assert "owned" not in tmux("list-buffers")


def test_plain_mode_keeps_the_cursor_in_sight_and_its_first_line_names_it(tmux: Tmux) -> None:
    window = tmux.open(*SCRIPTED, "--plain")
    window.until("note: session")
    assert window.text.startswith("plain mode (--plain): lines only")
    window.type("say hello")
    window.key("Enter")
    window.until("-- done")
    assert window.fact("cursor_flag") == "1"
    assert window.fact("cursor_x") == "0", "at the start of an empty line"
    window.key("C-d")
    window.until("brings you back")
