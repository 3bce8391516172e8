"""The input of the full screen: keys, menus, history, drafts, attachments, queue, with Textual's own pilot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList

from dragoman.schema import v1
from dragoman.state import fold
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.copied_answer import last_answer
from dragoman.tui.drafts import DraftFolder
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.conversation import copy as screen_copy
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.input.completion_menu import CompletionMenu
from dragoman.tui.screen.input.input_hint import InputHint
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.input.queue import QueueScreen
from dragoman.tui.screen.input.shell_panel import ShellPanel
from dragoman.tui.values import AgentInput
from tests.tui.test_screen import grid, painted

NAMED = frozenset({"enter", "escape", "tab", "up", "down", "backspace", "backslash", "space"})
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


class Folder:
    def __init__(self, cwd: Path) -> None:
        self.cwd = str(cwd)
        self.worktree = ""
        self.is_temporary = False
        self.mode = ""

    def choose(self, agent: str, model: str) -> None:
        raise NotImplementedError

    def new(self, agent: str | None) -> dict[str, Any]:
        raise NotImplementedError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "notes.txt").write_text("hello")
    (folder / "sub" / "code.py").write_text("x = 1\n")
    (folder / "logo.png").write_bytes(PNG)
    return folder


@asynccontextmanager
async def opened(
    monkeypatch: pytest.MonkeyPatch, project: Path, session_id: str | None = "s1"
) -> AsyncIterator[tuple[PromptInput, Pilot[None], TerminalApp]]:
    async def run(self: HostedConversation) -> None:
        self.phase, self.agent = "ready", "claude"
        self.accepts = AgentInput(image=True, embedded=True, steer=True)
        fold(self.state, v1.AvailableCommandsUpdate([v1.AvailableCommand("review", "look at a change")]))
        await asyncio.Event().wait()

    monkeypatch.setattr(HostedConversation, "run", run)
    app = TerminalApp(Folder(project), session_id=session_id)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        yield app.query_one(PromptInput), pilot, app


async def until(pilot: Pilot[None], is_true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await pilot.pause(0.02)


async def paste(prompt: PromptInput, pilot: Pilot[None], text: str) -> None:
    prompt.post_message(events.Paste(text))
    await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys as fast as a terminal sends them; a word of several letters that is not a key is typed."""
    for key in keys:
        for each in [key] if key in NAMED or "+" in key or len(key) == 1 else key:
            letter = {"space": " ", "backslash": "\\"}.get(each, each if len(each) == 1 else None)
            pilot.app.post_message(events.Key({" ": "space", "\\": "backslash"}.get(each, each), letter))
    prompt = pilot.app.query_one(PromptInput)
    for _ in range(2):  # the keys pass the queues of the app and of the input, and what they cause passes both again
        for part in (pilot.app, prompt):
            done = asyncio.Event()
            _ = part.call_later(done.set)
            async with asyncio.timeout(20):
                await done.wait()
    await pilot.pause()


def sent(app: TerminalApp) -> list[str]:
    return [prompt.text for prompt in app.conversation.prompts]


# Keys


async def test_the_keys_of_a_shell_move_and_delete(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, _):
        await press(pilot, "one two", "ctrl+a", "x", "ctrl+e", "y")
        assert prompt.text == "xone twoy"
        await press(pilot, "ctrl+w")
        assert prompt.text == "xone "
        await press(pilot, "ctrl+y", "ctrl+b", "ctrl+b", "-", "ctrl+f", "+")
        assert prompt.text == "xone tw-o+y"
        await press(pilot, "ctrl+a", "ctrl+right", "ctrl+k")
        assert prompt.text == "xone"
        await press(pilot, "ctrl+y", "ctrl+u")
        assert prompt.text == ""
        await press(pilot, "ctrl+y")
        assert prompt.text == "xone tw-o+y"
        await press(pilot, "ctrl+w", "ctrl+w", "ctrl+y")
        assert prompt.text == "xone tw-o+y", "what was deleted in a row comes back together"
        await press(pilot, "ctrl+underscore")
        assert prompt.text != "xone tw-o+y"


async def test_a_new_line_by_every_key_and_enter_sends(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d", "backslash", "enter", "e")
        assert prompt.text == "a\nb\nc\nd\ne"
        assert prompt.size.height == 5
        await press(pilot, "enter")
        assert sent(app) == ["a\nb\nc\nd\ne"]
        assert prompt.text == ""


async def test_the_real_cursor_is_where_the_text_goes(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "漢字")
        await pilot.pause()
        row = next(y for y, line in enumerate(grid(app)) if "漢字" in line)
        assert app.cursor_position == (2 + 4, row)
        await press(pilot, "ctrl+j", "あ")
        await until(pilot, lambda: app.cursor_position == (2 + 2, row))
        assert prompt.text == "漢字\nあ"


async def test_letters_behind_a_key_do_not_overtake_it(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, _):
        await press(pilot, "old")
        for key, letter in (("ctrl+u", None), ("n", "n"), ("e", "e"), ("w", "w")):
            pilot.app.post_message(events.Key(key, letter))
        await pilot.pause()
        assert prompt.text == "new"


# Menus


async def test_enter_takes_the_marked_row_of_a_menu_and_runs_a_whole_name(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        menu = app.query_one(CompletionMenu)
        await press(pilot, "/rev")
        assert any("/review" in line and "claude" in line for line in await painted(app, pilot))
        assert any(line.startswith("❯ /review") for line in await painted(app, pilot)), "the first row is marked"
        await press(pilot, "enter")
        assert (prompt.text, sent(app), menu.is_open) == ("/review ", [], False)
        await press(pilot, "ctrl+u", "/re", "down")
        assert menu.marked == 1
        await press(pilot, "v")
        assert menu.marked == 0, "a letter takes the mark back"
        await press(pilot, "iew", "enter")
        assert sent(app) == ["/review"], "a name that is typed to its end runs"
        await press(pilot, "/review", "down", "down", "up", "enter")
        assert prompt.text.startswith("/re"), "the row that was chosen is taken, also behind a whole name"
        assert len(sent(app)) == 1
        await press(pilot, "ctrl+u", "/rev", "tab")
        assert prompt.text == "/review "
        assert prompt.has_focus
        await press(pilot, "tab")
        assert app.query_one(Transcript).has_focus, "without a menu Tab goes on"


async def test_esc_closes_the_menu_and_the_draft_stays(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        stopped: list[str] = []
        monkeypatch.setattr(TerminalApp, "action_stop", lambda self, argument="": stopped.append("x"))
        await press(pilot, "/re", "escape")
        assert (prompt.text, app.query_one(CompletionMenu).is_open, stopped) == ("/re", False, [])
        await press(pilot, "v")
        assert not app.query_one(CompletionMenu).is_open, "it stays closed for this word"
        await press(pilot, "escape")
        assert (prompt.text, stopped) == ("/rev", ["x"])


async def test_a_file_is_completed_anywhere_and_goes_with_the_prompt(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "read @")
        menu = app.query_one(CompletionMenu)
        await until(pilot, lambda: menu.is_open)
        await press(pilot, "co", "tab")
        assert prompt.text == "read @sub/code.py "
        await press(pilot, "and @su", "tab")
        assert prompt.text == "read @sub/code.py and @sub/", "behind a folder the menu goes on"
        assert menu.is_open
        await press(pilot, "down", "enter", "now")
        assert prompt.text == "read @sub/code.py and @sub/code.py now"
        await until(pilot, lambda: app.query_one(InputHint).display)
        assert any("attached: sub/code.py (6 bytes)" in line for line in await painted(app, pilot))
        await press(pilot, "enter")
        await until(pilot, lambda: sent(app))
        uri = f"file://{project}/sub/code.py"
        assert app.conversation.prompts[0].blocks == [
            v1.TextContent("read @sub/code.py and @sub/code.py now"),
            v1.EmbeddedResource(v1.TextResourceContents("x = 1\n", uri, "text/plain")),
        ]


# Pasting


async def test_a_long_paste_is_a_chip_that_one_backspace_removes(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "see")
        await paste(prompt, pilot, "\n".join(f"line {number}" for number in range(10_000)))
        assert prompt.text == "see [pasted 10,000 lines] "
        await press(pilot, "backspace", "backspace")
        assert prompt.text == "see "
        await paste(prompt, pilot, "a\x1b[31m\r\nb\x07\r")
        assert prompt.text == "see a\nb\n", "controls are gone, and nothing was sent"
        assert sent(app) == []
        await paste(prompt, pilot, "x" * 2001)
        await press(pilot, "enter")
        await until(pilot, lambda: sent(app))
        text, block = app.conversation.prompts[0].blocks
        assert text == v1.TextContent("see a\nb\n[pasted 2,001 characters]")
        assert isinstance(block, v1.EmbeddedResource)
        assert isinstance(block.resource, v1.TextResourceContents)
        assert block.resource.text == "x" * 2001
        app.conversation.prompts.clear()
        await press(pilot, "up", "enter")
        await until(pilot, lambda: sent(app))
        assert app.conversation.prompts[0].blocks == [text, block], "the history of this client has the attachment"


async def test_the_pasted_path_of_an_image_sends_the_image(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await paste(prompt, pilot, f"{project}/logo.png")
        assert prompt.text == "@logo.png "
        await press(pilot, "enter")
        await until(pilot, lambda: sent(app))
        assert isinstance(app.conversation.prompts[0].blocks[1], v1.ImageContent)
        app.conversation.accepts = AgentInput()
        await press(pilot, "@logo.png", "enter")
        await until(pilot, lambda: len(sent(app)) == 2)
        assert isinstance(app.conversation.prompts[1].blocks[1], v1.ResourceLink)
        assert any("does not take images" in line for line in await painted(app, pilot))


# History and drafts


async def test_history_is_walked_at_the_edges_and_the_draft_comes_back(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "first", "ctrl+j", "line", "enter", "second", "enter")
        app.conversation.prompts.clear()
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "draft", "up")
        assert prompt.text == "second"
        await press(pilot, "up")
        assert prompt.text == "first\nline"
        await press(pilot, "up")
        assert prompt.text == "first\nline", "the first Up moved to the first line"
        await press(pilot, "down", "down", "down")
        assert prompt.text == "draft"
        await press(pilot, "ctrl+r", "FIR")
        assert prompt.text == "first\nline"
        assert any("history: FIR" in line for line in await painted(app, pilot))
        await press(pilot, "escape")
        assert prompt.text == "draft"
        await press(pilot, "ctrl+r", "i", "enter")
        assert prompt.text == "first\nline"
        assert sent(app) == [], "Enter in the search keeps, and does not send"


async def test_a_draft_belongs_to_its_session_and_survives_the_client(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "for one")
        app.conversation.session_id = "s2"  # the conversation goes to another session
        await press(pilot, "x")
        assert prompt.text == "x", "the letter is for the session in sight"
        app.conversation.session_id = "s1"
        await until(pilot, lambda: prompt.text == "for one")
        app.conversation.session_id = "s2"
        await until(pilot, lambda: prompt.text == "x")
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        assert prompt.text == "for one", "the draft of the session that is opened"
        await press(pilot, "enter")
        assert DraftFolder(str(project)).load("s1") is None, "sent"
    left = DraftFolder(str(project)).load("s1")
    assert left is not None
    assert left.text == "for one", "no host got it"


async def test_a_draft_stays_with_its_conversation_and_does_not_go_into_a_new_one(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        await press(pilot, "for one")
        first, app.conversation = app.conversation, HostedConversation(Folder(project), app)
        await press(pilot, "new")
        assert prompt.text == "new"
        second, app.conversation = app.conversation, first
        await until(pilot, lambda: prompt.text == "for one")
        app.conversation = second
        await until(pilot, lambda: prompt.text == "new")
        app.conversation = first
        await until(pilot, lambda: prompt.text == "for one")
        second.session_id = "s2"  # connected, while the user was elsewhere
        prompt.give_back(second, "not run")
        app.conversation = second
        await until(pilot, lambda: prompt.text == "not run\nnew")
        app.returned("nor this", "why")
        assert prompt.text == "nor this\nnot run\nnew"


async def test_a_draft_of_a_session_without_an_id_yet_goes_with_it(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project, None) as (prompt, pilot, app):
        await press(pilot, "early")
        drafts = DraftFolder(str(project))
        await until(pilot, lambda: drafts.load(None))
        app.conversation.session_id = "s9"
        await until(pilot, lambda: drafts.load("s9"))
        assert drafts.load(None) is None
        assert prompt.text == "early"


# Commands of the user


async def test_a_shell_command_shows_its_output_and_is_sent_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        panel = app.query_one(ShellPanel)
        await press(pilot, "!echo a{1,2}b; exit 3", "enter")
        await until(pilot, lambda: panel.command is not None and panel.command.ending)
        await until(pilot, lambda: any("exit 3 after" in line for line in grid(app)))
        assert sent(app) == []
        await press(pilot, "!!", "enter")
        assert prompt.text.startswith("[!echo a{1,2}b; exit 3: exit 3]")
        assert not panel.display
        await press(pilot, "ctrl+u", "!!echo shared", "enter")
        await until(pilot, lambda: "[!echo shared: exit 0]" in prompt.text)
        await press(pilot, "enter")
        await until(pilot, lambda: sent(app))
        block = app.conversation.prompts[0].blocks[1]
        assert isinstance(block, v1.EmbeddedResource)
        assert isinstance(block.resource, v1.TextResourceContents)
        assert block.resource.text == "$ echo shared\nshared\n(exit 0)\n"


async def test_esc_stops_the_command_first_and_not_the_turn(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (_, pilot, app):
        stopped: list[str] = []
        monkeypatch.setattr(TerminalApp, "action_stop", lambda self, argument="": stopped.append("x"))
        panel = app.query_one(ShellPanel)
        await press(pilot, "!sleep 300", "enter")
        await until(pilot, lambda: panel.command)
        await press(pilot, "!ls", "enter")
        assert any("a command runs already" in line for line in await painted(app, pilot))
        await press(pilot, "escape")
        assert panel.command is not None
        await until(pilot, lambda: panel.command is not None and panel.command.ending)
        assert panel.command.ending == "stopped"
        assert stopped == []
        await press(pilot, "escape")
        assert not panel.display
        await press(pilot, "escape")
        assert stopped == ["x"]


# Queue and steering


async def test_prompts_that_wait_are_reordered_edited_and_deleted(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        for word in ("one", "two", "three"):
            await press(pilot, *word, "enter")
        await press(pilot, "up")
        assert (prompt.text, sent(app)) == ("three", ["one", "two"]), "Up takes the last one back"
        await press(pilot, "enter", "ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        await pilot.press("shift+down", "shift+down")
        assert sent(app) == ["two", "three", "one"]
        assert app.screen.query_one(OptionList).highlighted == 2
        await pilot.press("K")
        assert sent(app) == ["two", "one", "three"]
        await pilot.press("d")
        await until(pilot, lambda: sent(app) == ["two", "three"])
        await pilot.press("escape", *"draft", "ctrl+q", "enter")
        await until(pilot, lambda: not isinstance(app.screen, QueueScreen))
        assert prompt.text == "two\ndraft", "the draft stays"
        assert sent(app) == ["three"]
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        listed = app.screen
        assert isinstance(listed, QueueScreen)
        listed.action_leave()
        app.conversation.prompts[0].has_started = True  # its turn begins while the list closes
        listed._follow()
        await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_text_is_steered_where_the_agent_can_and_offered_otherwise(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (prompt, pilot, app):
        steered: list[str] = []
        cancelled: list[str] = []

        def steer(text: str, written_out: str = "") -> None:
            steered.append(written_out)

        async def cancel() -> None:
            cancelled.extend(sent(app))

        monkeypatch.setattr(app.conversation, "steer", steer)
        monkeypatch.setattr(app.conversation, "cancel", cancel)
        await press(pilot, "begin", "ctrl+s")
        assert sent(app) == ["begin"], "no turn runs: it is a prompt"
        app.conversation.prompts[0].has_started = True
        await press(pilot, "tabs", "ctrl+s")
        await until(pilot, lambda: steered == ["tabs"])
        assert (sent(app), prompt.text) == (["begin"], "")
        await press(pilot, "late", "enter")
        await until(pilot, lambda: sent(app) == ["begin", "late"])
        app.conversation.accepts = AgentInput()
        await press(pilot, "/steer not lost", "enter")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await pilot.press("escape")
        await until(pilot, lambda: prompt.text == "not lost")
        await press(pilot, "ctrl+u")
        await pilot.press(*"now", "ctrl+s", "escape")
        assert prompt.text == "now", "nothing happens without a choice"
        await pilot.press("ctrl+s", "down", "enter")
        await until(pilot, lambda: cancelled)
        assert cancelled == ["begin", "now", "late"], "it is the next one when the turn is stopped"


# Copying


async def test_the_last_answer_and_the_conversation_are_copied(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    async with opened(monkeypatch, project) as (_, pilot, app):
        copied: list[str] = []
        monkeypatch.setattr(screen_copy, "copy_text", lambda app, text: copied.append(text))
        await press(pilot, "alt+c")
        assert copied == []
        app.conversation.state.begin_turn([v1.TextContent("why?")])
        long = "because " * 40
        for update in (
            v1.AgentMessageChunk(v1.TextContent(long)),
            v1.ToolCall("1", "ls", kind="execute", status="completed"),
        ):
            fold(app.conversation.state, update)
        assert last_answer(app.conversation.state) == long.strip()
        await press(pilot, "alt+c", "/copy all", "enter")
        await until(pilot, lambda: len(copied) == 2)
        assert copied[0] == long.strip(), "without rails and without the breaks of the screen"
        assert "why?" in copied[1]
        assert long.strip() in copied[1]


async def test_a_copy_says_where_it_is_and_the_mouse_can_be_released(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with opened(monkeypatch, project) as (_, pilot, app):
        written: list[str] = []
        monkeypatch.setattr(app, "write_terminal", written.append)
        screen_copy.copy_text(app, "text")
        await until(pilot, lambda: any("copied 4 characters (terminal" in line for line in grid(app)))
        await press(pilot, "alt+s")
        assert "\x1b[?1003l" in written[-1]
        assert any("Shift+drag" in line or "select and copy there" in line for line in await painted(app, pilot))
        await press(pilot, "alt+s")
        assert "\x1b[?1003h" in written[-1]
        assert not app.query_one(InputHint).display
