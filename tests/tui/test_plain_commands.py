"""The commands of plain mode as a user types them: one client, one host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.host.local.kit import HostPlaceKit, local_place
from tests.tui.test_plain import SCRIPTED, opened


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path_factory.mktemp("place")) as found:
        (found.project / "a.txt").write_text("hello\n")
        yield found


def test_prompts_that_wait_are_changed_moved_and_taken_back(place: HostPlaceKit) -> None:
    with opened(place, *SCRIPTED) as client:
        client.type("run sleep 1000")
        client.until("answer with a number")
        client.type("say first", "say second", "say third")
        client.until("note: waiting, 3 in the queue")
        client.type("/edit 2 say changed", "/move 3 1", "/queue")
        client.until("note: changed: say changed")
        client.until("1: say third")
        client.until("3: say changed")
        client.type("/move 9 1", "/move 1 9", "/edit 1", "/drop 2", "/queue")
        client.until("note: /move takes the number")
        client.until("note: the places are 1 to 3")
        client.until("note: type the new text behind the number")
        client.until("note: taken back")
        client.until("2: say changed")
        client.type("/steer use ninja")
        client.until("note: ")
        client.type("/stop")
        client.until("note: the turn ended: stopped")
        client.until("  third")
        client.until("  changed")
        client.until("-- done")
        assert "  first" not in client.seen
        client.type("/stop")
        client.until("note: nothing runs")
        assert client.end() == 0


def test_files_commands_and_answers_in_lines(place: HostPlaceKit) -> None:
    with opened(place, *SCRIPTED) as client:
        client.until("note: session")
        client.type("say see @a.txt")
        client.until("  see @a.txt")
        client.until("-- done")
        client.type("!echo from the shell; exit 3")
        client.until("shell: echo from the shell")
        client.until("  from the shell")
        client.until("shell: exit 3")
        client.type("!!", "say with it")
        client.until("goes with your next prompt")
        client.until("  with it [!echo from the shell; exit 3:")
        client.until("-- done")
        client.type("!", "/traffic 40")
        client.until("note: type a command behind !")
        client.until("req 2, prompt")
        client.type("think A long thought about it.\\", "say thought over")
        client.until("thought: A long thought")
        client.until("-- done")
        client.type("/thought", "/copy")
        client.until("thought:")
        client.until("  A long thought about it.")
        client.until("note: copied")
        # The built-in agent has commands of these names, which win, but for the mode.
        client.type("/mode", "/mode 9", "/mode plan", "/dragoman:model")
        client.until("1: Ask (ask), chosen")
        client.until("note: /mode N, or a name, uses one")
        client.until("note: there is no mode 9")
        client.until("Plan, for this session")
        client.until("1: scripted (scripted), chosen")
        client.type("/options", "/options effort", "/options effort 1", "/options nothing")
        client.until("model: scripted (Model)")
        client.until("1: ")
        client.until("new sessions of dragoman begin with it")
        client.until("note: the options are mode, model, effort")
        client.type("/settings", "/settings forget effort", "/help", "/unknown words")
        client.until("screen: full")
        client.until("remembered: dragoman, effort = ")
        client.until("note: effort is not remembered")
        client.until("/leave")
        client.until("-- done")  # a command of the agent, which does not know it either
        client.type("/sessions", "/sessions all", "/open 77", "/leave")
        client.until("1: done, say see @a.txt")
        client.until("note: /open takes the number")
        client.until("brings you back")


def test_a_session_of_another_folder_is_opened_by_its_number(place: HostPlaceKit) -> None:
    other = place.project / "other"
    other.mkdir(exist_ok=True)
    with opened(place, *SCRIPTED, "--cwd", str(other)) as client:
        client.until("note: session")
        client.type("say from the other folder")
        client.until("-- done")
    with opened(place, *SCRIPTED) as client:
        client.until("note: session")
        client.type("/sessions all")
        number = client.until("say from the other folder").partition(":")[0]
        assert "project/other" in client.seen[-1], "the folder is named"
        client.type(f"/open {number}")
        client.until("  from the other folder")
        client.until("note: session")
