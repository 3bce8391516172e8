"""What must have been in sight before a question is answered: all that the answer does, and the question itself."""

from __future__ import annotations

import pytest

pytest.importorskip("textual")

from textual import events
from textual.pilot import Pilot

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.tui.question_lines import answer_lines, question_lines
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.parts import Choice
from dragoman.tui.screen.questions.question_screen import QuestionScreen
from dragoman.tui.values import AskedQuestion, completed
from tests.tui.test_questions import Clock, settled
from tests.tui.test_screen import ask, grid, painted, question, shown

RULE = "execute:cmake -B build -G Ninja -D CMAKE_EXPORT_COMPILE_COMMANDS=ON -D WARNINGS_AS_ERRORS=OFF -D LAST_WORD=yes"


def with_rule(rule: str = RULE, options: int = 3) -> AskedQuestion:
    """A question whose second answer writes a rule."""
    call = v1.ToolCallPatch("1", title="cmake -B build", kind="execute", raw_input={"command": "cmake -B build"})
    offered = [
        v1.PermissionOption("yes", "Allow once", "allow_once"),
        v1.PermissionOption("ever", "Always allow it", "allow_always"),
        v1.PermissionOption("no", "Reject", "reject_once"),
        *(v1.PermissionOption(f"more{number}", f"Allow {number}", "allow_once") for number in range(options - 3)),
    ]
    own = {"options": {"ever": {"action": "allow", "rule": rule, "kept": "project", "by": "host", "file": "/r.json"}}}
    return AskedQuestion("q", v1.RequestPermissionRequest("s", call, offered, meta={"dragoman": own}), 0.0)


def request(call: v1.ToolCallPatch) -> v1.RequestPermissionRequest:
    options = [v1.PermissionOption("yes", "Allow", "allow_once"), v1.PermissionOption("no", "Reject", "reject_once")]
    return v1.RequestPermissionRequest("s", call, options)


# What is asked


def test_a_question_that_has_only_an_id_shows_what_was_reported_of_its_call() -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("go")])
    change = v1.Diff("/p/a.txt", "new line\n", old_text="old line\n")
    fold(state, v1.ToolCall("7", "Edit a.txt", kind="edit", content=[change]))
    bare = request(v1.ToolCallPatch("7"))
    lines = "\n".join(question_lines(completed(bare, state), 80))
    assert "Edit a.txt" in lines
    assert "new line" in lines
    fold(state, v1.ToolCallUpdate("7", status="completed"))
    assert completed(bare, state) is bare, "an id that is used again is another call"


def test_the_arguments_of_a_tool_without_a_command_and_a_change_are_shown() -> None:
    raw = {"query": "DROP TABLE users\u202e;", "limit": 5, "path": "/p/a.db"}
    call = v1.ToolCallPatch("1", title="db", raw_input=raw, locations=[v1.ToolCallLocation("/p/a.db")])
    lines = list(question_lines(request(call), 80))
    assert sum("  path: /p/a.db" in line for line in lines) == 1
    call = v1.ToolCallPatch("1", title="db", raw_input={"query": "DROP TABLE users\u202e;", "limit": 5})
    lines = list(question_lines(request(call), 80))
    assert "  input: query: DROP TABLE users<U+202E>;" in lines
    assert "  input: limit: 5" in lines


def test_a_title_that_does_not_fit_is_shown_whole_unless_the_command_says_the_same() -> None:
    title = " && ".join(f"echo {number}" for number in range(40))
    lines = "\n".join(question_lines(request(v1.ToolCallPatch("1", title=title, kind="execute")), 80))
    assert "echo 39" in lines
    call = v1.ToolCallPatch("1", title=f"`{title}`", kind="execute", raw_input={"command": title})
    assert not any("the agent calls it" in line for line in question_lines(request(call), 80))
    hidden = request(v1.ToolCallPatch("1", title="ls\u202e"))
    assert any("<U+202E>" in line for line in question_lines(hidden, 80))


def test_every_line_of_a_change_is_in_the_question_and_its_path_is_spelled_out() -> None:
    old, new = ("".join(f"{word} {number}\n" for number in range(6_000)) for word in ("before", "after"))
    call = v1.ToolCallPatch("1", title="Edit", kind="edit", content=[v1.Diff("/p/a\u202e.txt", new, old_text=old)])
    lines = list(question_lines(request(call), 80))
    assert "  /p/a<U+202E>.txt +6000 -6000" in lines
    assert sum(line.startswith("  +after") for line in lines) == 6_000
    assert "  -before 5999" in lines


@pytest.mark.parametrize("width", [38, 78, 158])
def test_the_meaning_of_an_answer_is_in_sight_however_long_its_name_is(width: int) -> None:
    name = "No, reject this and stop (no) " * 20
    asked = v1.RequestPermissionRequest("s", v1.ToolCallPatch("1"), [v1.PermissionOption("a", name, "allow_always")])
    first = next(answer_lines(asked, width))
    assert first.startswith("  a 1: yes, always: No, reject")
    assert len(first) < width


# What is in sight


@pytest.mark.parametrize("size", [(80, 24), (44, 30)])
async def test_the_rule_of_an_answer_is_never_cut(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        await ask(app, pilot, with_rule())
        lines = [line[1:].strip() for line in grid(app)]
        start = next(number for number, line in enumerate(lines) if line.startswith("writes: "))
        end = next(number for number, line in enumerate(lines) if "Reject" in line)
        text = "".join(line.removeprefix("⤷ ") for line in lines[start:end])
        assert RULE.replace(" ", "") in text.replace(" ", "")
        assert "…" not in text


async def test_on_a_small_screen_always_is_chosen_where_its_rule_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch, (40, 10)) as (app, pilot):
        asked = with_rule("execute:cmake *")
        card, clock = await settled(app, pilot, asked)
        assert any("❯[n]" in line for line in grid(app)), "what Enter would choose is marked"
        await pilot.press("alt+2")
        assert not asked.answer.done()
        assert "v shows" in card.problem
        await pilot.press("tab", "v")
        await pilot.pause()
        whole = app.screen
        assert isinstance(whole, QuestionScreen)
        clock.now += 1.0
        await painted(app, pilot)
        await pilot.press("end")
        await painted(app, pilot)
        assert any("cmake *" in line for line in grid(app))
        clock.now += 1.0
        await pilot.press("2")
        assert asked.answer.result() == "ever"


async def test_answers_that_do_not_fit_on_the_whole_screen_are_scrolled_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = with_rule(options=40)
        _, clock = await settled(app, pilot, asked)
        await pilot.press("tab", "v")
        await pilot.pause()
        clock.now += 1.0
        await painted(app, pilot)
        await pilot.press("1")
        assert not asked.answer.done(), "the end of the answers was not in sight"
        await pilot.press("end")
        await painted(app, pilot)
        assert any("40: yes, this time: Allow 36" in line for line in grid(app))
        await pilot.press("1")
        assert asked.answer.result() == "yes"


async def test_another_width_does_not_make_an_unread_question_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch, (44, 24)) as (app, pilot):
        card, _ = await settled(app, pilot, question(command=" ".join(f"word{number}" for number in range(400))))
        await pilot.press("tab")
        for key in ("pagedown", "pagedown", "pagedown", "pagedown", "home"):
            await pilot.press(key)
            await painted(app, pilot)
        seen = [card.is_read]
        for width in (90, 44):
            await pilot.resize_terminal(width, 16)
            await painted(app, pilot)
            seen.append(card.is_read)
            await pilot.press("end")
            await painted(app, pilot)
        assert seen == [False, False, True], "what was read stays read"


@pytest.mark.parametrize("rows", [1, 30])
async def test_a_card_behind_a_list_was_not_in_sight(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    async with shown(monkeypatch) as (app, pilot):
        clock = Clock(app)
        await app.push_screen(Choice("which?", ["one"] * rows))
        await pilot.pause()
        asked = question()
        card = await ask(app, pilot, asked)
        assert len(app.screen_stack) == 2
        clock.now += 10.0
        app.screen.refresh()
        await pilot.press("escape")
        await pilot.pause()
        await painted(app, pilot)
        assert card.question is asked
        await pilot.press("alt+1")
        assert not asked.answer.done()
        assert "too soon" in card.problem
        clock.now += 0.5
        await pilot.press("alt+1")
        assert asked.answer.result() == "yes"


async def test_an_answer_counts_from_when_its_key_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = question()
        card = await ask(app, pilot, asked)
        early = events.Key("alt+1", None)
        early.time -= 10.0  # read long ago: the program was busy, and handles it only now
        card._painted_at = early.time - 0.1
        await _send(app, pilot, early)
        assert not asked.answer.done()
        assert "too soon" in card.problem
        await _send(app, pilot, events.Key("alt+1", None))
        assert asked.answer.result() == "yes"


async def _send(app: TerminalApp, pilot: Pilot[None], key: events.Key) -> None:
    app.post_message(key)
    await pilot.pause()


async def test_the_end_of_the_conversation_stays_in_sight_when_a_card_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        for number in range(30):
            fold(app.conversation.state, v1.ToolCall(str(number), f"call {number}", kind="read", status="completed"))
        await painted(app, pilot)
        await ask(app, pilot, question())
        await pilot.pause()
        assert any("call 29" in line for line in grid(app))


async def test_an_answer_without_a_clear_meaning_is_neither_selected_nor_given_by_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        options = [
            v1.PermissionOption("y", "Yes", "allow_once"),
            v1.PermissionOption("y", "No", "reject_once"),
            v1.PermissionOption("n", "No", "reject_once"),
        ]
        asked = AskedQuestion("q", v1.RequestPermissionRequest("s", v1.ToolCallPatch("1"), options), 0.0)
        card, _ = await settled(app, pilot, asked)
        assert any("❯    3: No" in line for line in grid(app)), "of two answers of a kind none has the letter"
        assert asked.rejecting is options[2]
        unclear = AskedQuestion("q", v1.RequestPermissionRequest("s", v1.ToolCallPatch("1"), options[:2]), 0.0)
        assert unclear.rejecting is None
        app.conversation.questions[:] = []
        card.show(None)
        card._gone_at = -10.0
        await ask(app, pilot, unclear)
        assert "the agent offers no answer" in card.how()
        assert not any("reject and say why" in line for line in grid(app))
