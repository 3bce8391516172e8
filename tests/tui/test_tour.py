"""The tour of `dragoman demo`, in real terminals, with the packages that `make run` installs and no others."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit, processes, wait_for
from tests.project.runtime_packages import hide_others
from tests.tui.test_terminal import Terminal

DONE = b"\n-- done"
LIST = "6. `rewind`"
SENTENCES = (
    ("What can you do?", LIST),
    ("hello", LIST),
    ("hello", LIST),
    ("asdf", LIST),
    ("asdf", LIST),
    ("...", LIST),
    ("?", LIST),
    ("Bonjour", LIST),
    ("こんにちは", LIST),
    ("rewind", "nothing to take back"),
    ("undo that please", "nothing to take back"),
    ("review", "nothing to review"),
    ("what did you change?", "nothing to review"),
    ("Read the README.", "tool: read Read README.md"),
    ("read the program", "tool: read Read greet"),
    ("show me the tests", "It has one test"),
    ("lis le fichier", "Next:"),
    ("Make a plan!", "plan: "),
    ("plan", "plan: "),
    ("run the tests", "1 test passed"),
    ("run the tests", "1 test passed"),
    ("edit the greeting", "The greeting is now “Hello, {name}! Nice"),
    ("edit the greeting", "The greeting is now “Welcome back"),
    ("run it", "Welcome back, world!"),
    ("Ändere die Begrüßung bitte", "The greeting is now “Good to see you"),
    ("make it friendlier, and run it afterwards", "The greeting is now “Hello, {name}.”"),
    ("edita el saludo", "The greeting is now “Hello, {name}! Nice"),
    ("run the program", "Nice to meet you."),
    ("2", "The greeting is now “Welcome back"),
    ("step 5", "It is “Welcome back, {name}!”"),
    ("review the changes", "It is “Welcome back, {name}!”"),
    ("mach es rückgängig", "`/rewind`"),
    ("运行测试", "1 test passed"),
    ("ok", "tool: read Read README.md"),
    ("is there a real agent, like claude?", "stub (on this machine): `"),
    ("which agents are there", "stub (on this machine): `"),
    ("/undo", "taken back"),
    ("/rewind 22", "turns are taken back"),
    ("are the changes gone?", "nothing to review"),
    ("edit " + "the greeting and so on " * 100, "The greeting is now “Hello, {name}! Nice"),
    ("thank you", LIST),
    ("thank you", LIST),
)


class Tour:
    """The demo on a terminal, with a folder of its own for temporary files."""

    def __init__(self, terminal: Terminal, temporary: Path, place: HostPlaceKit) -> None:
        self.terminal = terminal
        self._temporary = temporary
        self._place = place

    @property
    def text(self) -> str:
        return self.terminal.raw.decode(errors="replace").replace("\r\n", "\n")

    def take_turn(self, sentence: str) -> str:
        """Types a sentence in plain lines, answers what is asked with "for this session", and returns what came."""
        start = behind = len(self.terminal.raw)
        self.terminal.type(f"{sentence}\n")
        # An answer that comes too soon is refused, and asked for again.
        while (found := self.terminal.until_written(rb"answers nothing|answer again|\n-- done", behind))[0] != DONE:
            behind = found.end()
            self.terminal.type("2\n")
        return self.terminal.raw[start:].decode(errors="replace").replace("\r\n", "\n")

    def is_gone(self) -> bool:
        return not processes(self._place.mark) and not list(self._temporary.iterdir())


@pytest.fixture
def open_tour(place: HostPlaceKit, terminals: list[Terminal], tmp_path: Path) -> Callable[..., Tour]:
    """Returns what starts the demo, for a user with an agent of their own."""
    temporary, hidden = tmp_path / "t", tmp_path / "hidden"
    temporary.mkdir()
    hidden.mkdir()
    hide_others(hidden)
    place.settings(agent_servers={"stub": {"command": sys.executable, "args": ["stub.py"]}})

    def start(**variables: str) -> Tour:
        terminal = Terminal(place, "demo", "--talk", TMPDIR=str(temporary), PYTHONPATH=str(hidden), **variables)
        terminals.append(terminal)
        return Tour(terminal, temporary, place)

    return start


def test_each_of_forty_sentences_has_an_answer_of_its_own(open_tour: Callable[..., Tour]) -> None:
    tour = open_tour(TERM="dumb")  # plain lines
    tour.terminal.until_written(rb"`edit the greeting`; or read, run, plan, review, rewind; or `agents`\.\r\n")
    before = ""
    for sentence, expected in SENTENCES:
        shown = tour.take_turn(sentence)
        assert expected in " ".join(shown.split()), f"{sentence}:\n{shown}"
        assert not re.search(r"^(error|warning|note: the turn ended)", shown, re.MULTILINE), shown
        answer = "".join(re.findall(r"^agent:\n((?:  .*\n|\n)+)", shown, re.MULTILINE))
        assert answer, shown
        assert answer != before, f"the same twice: {shown}"
        if not sentence.startswith("/"):
            assert "Next" in answer or LIST in answer, f"no step to try next: {shown}"
        before = answer
    tour.terminal.type("/leave\n")
    assert tour.terminal.wait() == 0
    assert "brings you back" not in tour.text, "there is nothing to come back to"
    assert tour.is_gone()


def test_the_first_screen_says_what_it_is_and_an_edit_asks(open_tour: Callable[..., Tour]) -> None:
    tour = open_tour()
    terminal = tour.terminal
    shown = terminal.until("or `agents`.")
    assert (
        "│ A tour: the model is scripted, calls no service, and works on a copy.\n│ Type `edit the greeting`" in shown
    )
    assert "❯" not in shown, "nothing is shown as typed that the user did not type"
    terminal.type("edit the greeting\r")
    terminal.until("◆ question: edit: Edit words.txt")
    terminal.until("needs your answer")
    os.kill(terminal.pid, signal.SIGKILL)  # in the middle of a question
    wait_for(tour.is_gone)


def test_nothing_of_the_demo_stays_in_whatever_way_it_ends(open_tour: Callable[..., Tour]) -> None:
    tours = [open_tour(TERM="dumb") for _ in range(2)]
    for tour in tours:
        tour.terminal.until_written(rb"or `agents`\.\r\n")
    os.kill(tours[0].terminal.pid, signal.SIGTERM)
    tours[1].terminal.close()  # the window is closed
    wait_for(tours[0].is_gone)
