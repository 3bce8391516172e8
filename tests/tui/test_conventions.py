"""The table of conventions in docs/terminal.md, with the client in this process; terminals are in the other file.

The full screen and inline mode have the same keys: each story is told to both.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("prompt_toolkit")
pytest.importorskip("pyte")

from dragoman.tui.completion import AgentCommand, command_suggestions, literal_text, unknown_command
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.lines import commands as line_commands
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.keys import actions
from tests.tui.here import SCRIPTED, InlineHere, ScreenHere, UserHere

UP, DOWN, CTRL_C, CTRL_D, ESC = "\x1b[A", "\x1b[B", "\x03", "\x04", "\x1b"
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPgPAAEDAQAIicLsAAAAAElFTkSuQmCC")
both = pytest.mark.parametrize("form", ["full screen", "inline"])


class Keyboard:
    """A client that is used by keys, the full screen or inline mode."""

    def __init__(self, client: ScreenHere | InlineHere) -> None:
        self.client = client
        self.type = client.type
        self.until = client.until

    @property
    def text(self) -> str:
        return self.client.text

    @property
    def draft(self) -> str:
        """What is in the input."""
        if isinstance(self.client, InlineHere):
            return self.client.terminal.editor.text
        return str(self.client.app.query_one(PromptInput).text)

    @property
    def conversation(self) -> HostedConversation:
        if isinstance(self.client, InlineHere):
            return self.client.terminal.client.conversation
        found: HostedConversation = self.client.app.conversation
        return found

    @property
    def is_left(self) -> bool:
        client = self.client
        return client._is_over if isinstance(client, InlineHere) else client.app._exit

    async def wait(self, is_true: Any) -> None:
        await self.client.wait_until(is_true, lambda: f"draft {self.draft!r}, waiting {self.waiting} in\n{self.text}")

    async def until_draft(self, text: str) -> None:
        await self.wait(lambda: self.draft == text)

    async def until_left(self) -> None:
        await self.wait(lambda: self.is_left)

    @property
    def waiting(self) -> list[str]:
        return [prompt.text for prompt in self.conversation.queued]

    async def work(self) -> None:
        """Begin a turn that does not end by itself."""
        self.client.clock.let_pass()
        self.type("run sleep 1000\r")
        await self.until("needs your answer")

    async def until_ready(self) -> None:
        self.client.clock.let_pass()
        await self.until("Enter send")

    async def until_stopped(self) -> None:
        await self.wait(lambda: not self.conversation.is_running)


@asynccontextmanager
async def at(user: UserHere, form: str, **options: Any) -> AsyncIterator[Keyboard]:
    opened = user.screen if form == "full screen" else user.inline
    async with opened(**{**SCRIPTED, **options}) as client:
        await client.until("Enter send")
        keyboard = Keyboard(client)
        if isinstance(client, ScreenHere):  # which paints no more when it is left
            client.app.exit = _then(client.app.exit, client.news)
        await keyboard.wait(lambda: keyboard.conversation.phase == "ready")
        yield keyboard


def _then(act: Callable[[], None], also: Callable[[], None]) -> Callable[[], None]:
    def both_of_them() -> None:
        act()
        also()

    return both_of_them


# Ctrl+C, Esc and what waits


@both
@pytest.mark.convention("stop", "full screen", "inline")
@pytest.mark.convention("clear the draft", "full screen", "inline")
@pytest.mark.convention("while a turn runs", "full screen", "inline")
@pytest.mark.convention("history", "full screen", "inline")
async def test_a_stop_gives_back_what_waits_and_ctrl_c_then_clears_it_into_the_history(
    user: UserHere, form: str
) -> None:
    async with user.host_here(), at(user, form) as client:
        await client.work()
        client.type("say one\rsay two\rsay three\r")
        await client.wait(lambda: client.waiting == ["say one", "say two", "say three"])
        client.type(UP)
        await client.until_draft("say three")
        assert client.waiting == ["say one", "say two"], "Up in an empty input takes the last one back"
        client.type(" later")
        await client.until_draft("say three later")
        client.type(ESC)
        await client.until_draft("say one\nsay two\nsay three later")
        await client.until_stopped()
        assert not client.waiting
        assert "│ one" not in client.text, "what is given back is not sent"
        client.type(CTRL_C)
        await client.until_draft("")
        await client.until("cleared; Up brings it back")
        client.type(UP)
        await client.until_draft("say one\nsay two\nsay three later")
        client.type(CTRL_C)
        await client.until_draft("")
        client.type("/stop\r")
        await client.until_draft("")
        await client.work()
        client.type("say four\r")
        await client.wait(lambda: client.waiting == ["say four"])
        client.type("the draft")
        await client.until_draft("the draft")
        client.type(CTRL_C)
        await client.until_draft("say four\nthe draft")
        await client.until_stopped()
        client.type("\x12one\r" if form == "full screen" else "\x15\x15\x15\x15two\x12")
        await client.until_draft("say one\nsay two\nsay three later")


@both
@pytest.mark.convention("stop", "full screen", "inline")
@pytest.mark.convention("leave", "full screen", "inline")
async def test_ctrl_c_leaves_only_at_the_second_time_within_two_seconds_and_one_key_at_a_time(
    user: UserHere, form: str
) -> None:
    async with user.host_here(), at(user, form) as client:
        client.type("run sleep 1000\r" + CTRL_C)  # in one read: it stops what Enter sent
        await client.wait(lambda: client.draft or "Cancelled" in client.text)
        await client.until_stopped()
        assert "again to leave" not in client.text
        client.type(("" if client.draft else "x") + CTRL_C)  # a draft is cleared
        await client.until_draft("")
        client.type("!sleep 1000\r")
        await client.until("running" if form == "full screen" else "shell: sleep 1000")
        client.type(CTRL_C)
        await client.until("stopped after")
        client.type(CTRL_C)
        await client.until("Ctrl+C again to leave")
        user.clock.let_pass(2.1)
        client.type(CTRL_C)
        client.type("x")
        await client.until_draft("x")
        assert not client.is_left, "the first one was too long ago"
        client.type(CTRL_C)
        await client.until_draft("")
        client.type(CTRL_C)  # the draft was cleared, which is not the first of two
        client.type("y")
        await client.until_draft("y")
        assert not client.is_left
        client.type(CTRL_C + CTRL_C + CTRL_C)  # clears, asks, leaves
        await client.until_left()
    async with user.host_here(), at(user, form) as client:
        client.type("ab\x01" + CTRL_D)  # deletes in a draft
        await client.until_draft("b")
        client.type(CTRL_D + CTRL_D)
        await client.until_left()


@both
@pytest.mark.convention("leave while it works", "full screen", "inline")
async def test_leaving_a_turn_asks_once_whether_it_goes_on_or_is_stopped(user: UserHere, form: str) -> None:
    async with user.host_here() as host:
        async with at(user, form) as client:
            await client.work()
            client.type(CTRL_D + "s")  # a key that was typed before the question is not an answer
            await client.until("stop and leave" if form == "inline" else "[s] stop it, and leave")
            assert client.conversation.is_running
            client.type(ESC)
            await client.wait(lambda: "s stop and leave" not in client.text and "[s] stop" not in client.text)
            assert client.conversation.is_running
            assert not client.is_left
            client.type("\x15/exit\r")
            await client.until("stop and leave" if form == "inline" else "[s] stop it, and leave")
            client.type(CTRL_C)  # whatever is open: the turn is what runs
            await client.until_stopped()
            await client.wait(lambda: "s stop and leave" not in client.text and "[s] stop" not in client.text)
            assert not client.is_left
            client.type(CTRL_C)
            await client.until("again to leave")
            await client.work()
            client.type("say queued\r")
            await client.wait(lambda: client.waiting == ["say queued"])
            client.type("/exit\r")
            await client.until("stop and leave" if form == "inline" else "[s] stop it, and leave")
            client.type("s")
            await client.until_left()
            session_id = client.conversation.session_id
            words = client.conversation.farewell(was_running=client.conversation.is_running)
            assert words == f"dragoman attach {session_id} brings you back", "the turn was waited for"
        async with at(user, form, session_id=session_id) as client:
            await client.until_draft("say queued")  # the draft of the session
            client.type(CTRL_C)
            await client.until_draft("")
            await client.work()
            client.type(CTRL_D)
            await client.until("stop and leave" if form == "inline" else "[s] stop it, and leave")
            client.type("d")
            await client.until_left()
            words = client.conversation.farewell(was_running=True)
            assert words.startswith("still running; ")
            assert words.endswith(f"dragoman sessions cancel {session_id} stops it")
        assert [session.prompts.is_busy for session in host.live_sessions()] == [True], "the work goes on"


@pytest.mark.convention("stop", "full screen")
async def test_ctrl_c_stops_the_turn_from_a_list_and_from_the_review_and_else_closes_them(user: UserHere) -> None:
    async with user.host_here(), at(user, "full screen") as client:
        client.type("say one\r")
        await client.until("│ one\n  done")
        for keys, shown in (("\x1bOP", "keys and commands"), ("/diff\r", "review · turn"), ("\x10", "Enter open")):
            await client.work()
            client.type(keys)
            await client.until(shown)
            client.type(CTRL_C)
            await client.until_stopped()
            assert shown in client.text, "what is open stays"
            client.type(CTRL_C)
            await client.until_ready()
            assert not client.is_left
            user.clock.let_pass()
        client.type("a draft\x12")
        await client.until("history:")
        client.type("one")
        await client.until("history: one")
        client.type(CTRL_C)
        await client.wait(lambda: "history:" not in client.text)
        await client.until_draft("a draft")


# Menus and commands


@both
@pytest.mark.convention("send", "full screen", "inline")
@pytest.mark.convention("menu", "full screen", "inline")
@pytest.mark.convention("unknown command", "full screen", "inline")
@pytest.mark.convention("cost", "full screen", "inline")
@pytest.mark.convention("help", "full screen", "inline")
@pytest.mark.convention("redraw", "full screen", "inline")
async def test_enter_takes_rows_and_unknown_commands_stay_here(user: UserHere, form: str) -> None:
    async with user.host_here(), at(user, form) as client:
        client.type("say a\nsay b\x1b\rsay c\\\rsay d\r")
        await client.until("│ a\n│ b\n│ c\n│ d")
        await client.until("Enter send")
        client.type("/")
        await client.until("❯ /model")
        client.type("cos")
        await client.until("❯ /cost")
        client.type("\r")
        await client.until_draft("/cost ")
        client.type("\r")
        await client.until("the agent has not reported a cost")
        client.type("/modle now\r")
        await client.until("there is no command /modle. Did you mean /mode?")
        await client.until_draft("/modle now")
        client.type(CTRL_C)
        await client.until_draft("")
        client.type("//modle now\r")
        await client.until("❯ /modle now")
        await client.until_ready()
        client.type(" /elom\r")
        await client.wait(lambda: " /elom" in [item.text for item in client.conversation.state.messages])
        await client.until_ready()
        client.type("/usr/bin/x is broken\r")
        await client.until("❯ /usr/bin/x is broken")
        await client.until_ready()
        (user.project / "rows.txt").write_text("row 1\n")
        client.type("say see @ro")
        await client.until("❯ rows.txt")
        client.type("\r")
        await client.until_draft("say see @rows.txt ")
        client.type("\r")
        await client.until("│ see @rows.txt")
        await client.until_ready()
        client.type("/hel")
        await client.until("❯ /help")
        client.type(ESC)
        await client.wait(lambda: "❯ /help" not in client.text)
        assert client.draft == "/hel"
        client.type("\x15")
        await client.until_draft("")
        for keys in ("?", "\x1bOP", "/help\r"):
            client.type(keys)
            await client.until("keys and commands" if form == "full screen" else "always ours are")
            if isinstance(client.client, ScreenHere):
                client.type("\x0c" + CTRL_C)  # closes what is open
                await client.wait(lambda: "keys and commands" not in client.text)
            else:
                client.client.screen.reset()  # as if another program had cleared the terminal
                client.type("\x0c")
                await client.until("Enter send")
        assert not client.is_left


def test_the_menu_of_a_slash_alone_is_short_and_everything_is_found_by_typing() -> None:
    for ours in (actions.client_commands(), line_commands.client_commands()):
        names = [row.shown for row in command_suggestions("", [], ours)]
        assert len(names) == 8
        assert names[:4] == ["/model", "/mode", "/resume", "/new"]
        theirs = [AgentCommand(name, "") for name in ("compact", "init", "review", "model")]
        mixed = [row.shown for row in command_suggestions("", theirs, ours)]
        assert mixed == ["/model", "/mode", "/resume", "/new", "/help", "/compact", "/init", "/review"]
        for name in ("exit", "quit", "clear", "undo", "cost", "resume", "model", "rewind", "paste"):
            assert command_suggestions(name, [], ours)[0].inserted == f"/{name} "


@pytest.mark.parametrize(
    ("text", "is_prompt"),
    [
        ("/usr/bin/x is broken", True),
        ("/usr/bin", True),
        ("/tmp is full", True),
        ("/tmp", False),
        ("/nothing-here is full", False),
        ("/.*regexp.*/ does not match", True),
        ("/model x", True),
        ("/Model", False),
        ("/", False),
        ("//", True),
        ("/* a comment */", True),
    ],
)
def test_what_follows_decides_whether_a_slash_begins_a_command(text: str, is_prompt: bool) -> None:
    assert (unknown_command(text, {"model"}) == "") is is_prompt


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ("//foo bar", "/foo bar"),
        (" /foo", " /foo"),
        ("\n/foo", " /foo"),
        ("// a comment", None),
        ("/foo", None),
        (" x", None),
    ],
)
def test_two_slashes_or_a_blank_send_a_command_as_it_is(raw: str, sent: str | None) -> None:
    assert literal_text(raw) == sent


# Sessions and images


@both
@pytest.mark.convention("new session", "full screen", "inline")
@pytest.mark.convention("rewind", "full screen", "inline")
@pytest.mark.convention("image", "full screen", "inline")
@pytest.mark.convention("suspend", "inline")
async def test_images_new_sessions_and_rewinding_by_their_usual_names(
    user: UserHere, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user.project / "clip.png").write_bytes(PIXEL)

    async def paste_image(env: Any) -> tuple[str, int]:
        return str(user.project / "clip.png"), len(PIXEL)

    monkeypatch.setattr("dragoman.tui.clipboard.paste_image", paste_image)
    monkeypatch.setattr("dragoman.tui.screen.conversation.copy.paste_image", paste_image)
    suspended: list[Any] = []
    suspend = "prompt_toolkit.application.Application.suspend_to_background"
    monkeypatch.setattr(suspend, lambda application: suspended.append(True))
    async with user.host_here(), at(user, form, agent="scripted", model=None) as client:
        await client.wait(lambda: client.conversation.accepts.image)
        for keys in ("\x16", "\x1bv", "/paste\r"):
            client.type(keys)
            await client.wait(lambda: client.draft.startswith("[image, "))
            client.type(CTRL_C)
            await client.until_draft("")
        client.type("x\r")
        await client.wait(lambda: client.conversation.state.timeline and not client.conversation.is_running)
        for name in ("/undo\r", "/rewind\r", *([ESC + ESC] if form == "full screen" else [])):
            client.type(name)
            await client.until("rewind" if form == "full screen" else "note: /rewind N")
            if form == "full screen":
                client.type(CTRL_C)
                await client.wait(lambda: len(client.client.app.screen_stack) == 1)  # type: ignore[union-attr]
        if form == "inline":
            client.type("\x1a")
            await client.wait(lambda: suspended)
        before = client.conversation.session_id
        for name in ("/clear\r", "/new\r", *(["\x0e"] if form == "full screen" else [])):
            client.type(name)
            await client.wait(
                lambda: client.conversation.phase == "ready" and client.conversation.session_id not in (None, before)  # noqa: B023
            )
            before = client.conversation.session_id


# Plain mode


@pytest.mark.convention("send", "plain")
@pytest.mark.convention("while a turn runs", "plain")
@pytest.mark.convention("unknown command", "plain")
@pytest.mark.convention("cost", "plain")
@pytest.mark.convention("help", "plain")
@pytest.mark.convention("new session", "plain")
@pytest.mark.convention("rewind", "plain")
@pytest.mark.convention("image", "plain")
@pytest.mark.convention("leave", "plain")
@pytest.mark.convention("leave while it works", "plain")
async def test_plain_mode_has_the_same_names(user: UserHere, monkeypatch: pytest.MonkeyPatch) -> None:
    (user.project / "clip.png").write_bytes(PIXEL)

    async def paste_image(env: Any) -> tuple[str, int]:
        return str(user.project / "clip.png"), len(PIXEL)

    monkeypatch.setattr("dragoman.tui.clipboard.paste_image", paste_image)
    async with user.host_here():
        async with user.plain(**SCRIPTED) as client:
            await client.until("note: session")
            client.type("say a\\", "say b")
            await client.until("  a")
            await client.until("  b")
            await client.until("-- done")
            client.type("/modle now", "//modle now")
            await client.until("there is no command /modle. Did you mean /mode? //modle sends it")
            await client.until("-- done")
            client.type("/cost", "/help")
            await client.until("note: the agent has not reported a cost")
            await client.until("(also /exit, /quit)")
            client.type("run sleep 1000")
            await client.until("answer with ")
            client.type("say waits", "/queue", "/drop 1", "say also", "/exit")
            await client.until("1: say waits")
            await client.until("note: taken back")
            await client.until("note: the turn is still running: /exit stop stops it and leaves, /exit again")
            client.type("/exit nonsense", "/exit stop")
            await client.until("note: /exit leaves")
            await client.until("note: not sent: the turn was stopped; type it again:")
            await client.until("  say also")
            line = await client.until("brings you back")
            assert "running" not in line
        async with user.plain(agent="scripted") as client:
            line = await client.until("note: session")
            client.type("/undo", "/clear")
            await client.until("note: ")
            assert await client.until("note: session") != line
            client.type("/paste")
            await client.until("goes with your next prompt")
            client.type("/quit")
            await client.until("brings you back")
