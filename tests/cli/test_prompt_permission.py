"""Permission, asked at a real terminal: what is shown, what counts as an answer, what a peer cannot fake."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from dragoman.cli.prompt.diff import view_diff
from dragoman.cli.prompt.permission import choices, draw, read_reply
from dragoman.cli.prompt.progress import Progress
from dragoman.client.permission import Answer, Question
from dragoman.client.question_words import AlwaysDetails, option_words
from dragoman.policy import Command, Request
from dragoman.policy.decide import Option, offer_options
from dragoman.schema import UNSET, v1
from dragoman.state import SessionState
from dragoman.text.colour import Painter
from dragoman.text.terminal import cells
from tests.cli.prompt_kit import ATTACKS, Screen, acts, screen

OPTIONS = (
    v1.PermissionOption("opt-once", "Allow", "allow_once"),
    v1.PermissionOption("opt-always", "Always allow", "allow_always"),
    v1.PermissionOption("opt-no", "Reject", "reject_once"),
    v1.PermissionOption("opt-never", "Never", "reject_always"),
)


class Session:
    """As much of a session as a question looks at."""

    def __init__(self) -> None:
        self.state = SessionState()


def question(
    *,
    title: str = "Edit app.py",
    kind: str = "edit",
    paths: tuple[str, ...] = (),
    options: tuple[v1.PermissionOption, ...] = OPTIONS,
    diffs: tuple[v1.Diff, ...] = (),
    content: Any = UNSET,
    raw_input: Any = UNSET,
    argv: tuple[str, ...] | None = None,
    shell: str | None = None,
    cwd: str = "",
    env: Mapping[str, str] | None = None,
    proposals: tuple[str, ...] = ("edit:app.py",),
    host: str | None = None,
    mcp: tuple[str, str] | None = None,
) -> Question:
    call = v1.ToolCallPatch("call-1", kind=kind, title=title, content=content, raw_input=raw_input)
    command = None if argv is None and shell is None else Command(argv, shell, cwd)
    asked = Request("gemini", kind, title, paths=paths, command=command, root="/home/u/p", host=host, mcp=mcp)
    request = v1.RequestPermissionRequest("s", call, list(options))
    offered = tuple(
        Option(option.option_id, option.name, option.kind, rule, "project")
        for option in options
        for rule in proposals[:1]
        if option.kind.endswith("always")
    )
    return Question(
        request,
        asked,
        "no rule is about this",
        diffs,
        env=env or {},
        options=offered,
        rule_file="/rules.json",
        sent=request,
    )


async def ask(asked: Question, *keys: str, columns: int = 80, rows: int = 40) -> tuple[str | None, str]:
    """Types each of the keys after a prompt; returns the answer and the screen."""
    async with screen(columns, rows) as terminal:
        answer = asyncio.create_task(begin(terminal, asked))
        for key in keys:
            await terminal.until_input_is_awaited()
            terminal.type(key)
        answered = await answer
        await terminal.everything()
        return answered, terminal.text


async def begin(terminal: Screen, asked: Question, **options: Any) -> str | None:
    answer = await terminal.prompt(**options).ask(asked, Session())  # type: ignore[arg-type]
    return None if answer is None else answer.option_id


@pytest.mark.rule(255, 256, 260)
@pytest.mark.parametrize(
    ("key", "chosen"),
    [
        ("1", "opt-once"),
        ("2", "opt-always"),
        ("3", "opt-no"),
        ("4", "opt-never"),
        ("y", "opt-once"),
        ("a", "opt-always"),
        ("n", "opt-no"),
        ("w use b.txt instead", "opt-no"),
        (" 1 ", "opt-once"),
        ("c", None),
        ("cancel", None),
    ],
)
@pytest.mark.convention("answer a question", "exec")
async def test_an_answer_is_a_number_or_a_letter(key: str, chosen: str | None) -> None:
    assert (await ask(question(), f"{key}\n"))[0] == chosen


@pytest.mark.parametrize("key", ["", " ", "0", "5", "yes", "Y", "1 2", "11", "allow", "opt-once", "Allow", "١", "¹"])
async def test_any_other_key_and_enter_alone_are_not_an_answer(key: str) -> None:
    answer, text = await ask(question(), f"{key}\n", f"{key}\n", "3\n")
    assert answer == "opt-no"
    assert text.count("Please type one of the answers listed above.") == 2


@pytest.mark.rule(258)
async def test_the_end_of_input_cancels() -> None:
    assert (await ask(question(), "\x04"))[0] is None


async def test_what_was_typed_before_the_question_does_not_answer_it() -> None:
    async with screen() as terminal:
        terminal.type("1\ny\n")
        answer = asyncio.create_task(begin(terminal, question()))
        await terminal.until_input_is_awaited()
        terminal.type("3\n")
        assert await answer == "opt-no"


async def test_everything_that_will_happen_is_shown() -> None:
    asked = question(
        title="Run the tests",
        kind="execute",
        argv=("npm", "test", "--", "a b", "$(id)"),
        cwd="/home/u/p/web",
        env={"NODE_ENV": "test", "X": "a b"},
        paths=("/home/u/p/web", "/etc/passwd"),
        proposals=("execute:npm test",),
    )
    _, text = await ask(asked, "c\n")
    for line in (
        "gemini asks for permission",
        "  kind   execute",
        "  runs   npm test -- 'a b' '$(id)'",
        "  in     /home/u/p/web",
        "  sets   NODE_ENV=test",
        "  sets   X='a b'",
        "  path   /home/u/p/web",
        "  path   /etc/passwd  (outside the project)",
        "  why    no rule is about this",
        "  agent  calls it: Run the tests",
        "  y 1       Allow",
        "  a 2       Always allow",
        "            writes: allow execute:npm test, in /rules.json",
        "  n 3       Reject",
        "    4       Never",
        "            writes: deny execute:npm test, in /rules.json",
        "  w WHY     reject and say why",
        "  c         cancel",
    ):
        assert f"\n{line}\n" in text
    assert "your answer: y, a, n or 1-4, w WHY, c to cancel > " in text


async def test_the_reason_of_a_refusal_is_part_of_the_answer() -> None:
    async with screen() as terminal:
        asking = asyncio.create_task(terminal.prompt().ask(question(), Session()))  # type: ignore[arg-type]
        for line in ("w\n", "w use b.txt  instead \n"):
            await terminal.until_input_is_awaited()
            terminal.type(line)
        answer = await asking
        assert answer is not None
        assert (answer.option_id, answer.reason) == ("opt-no", "use b.txt  instead")
        assert "type the reason behind w" in terminal.text


async def test_everything_that_one_answer_permits_is_shown() -> None:
    also = (
        Request("gemini", "execute", command=Command(("rm", "-r", "a b"), cwd="/tmp"), root="/home/u/p"),
        Request("gemini", "execute", command=Command(line="id; id"), paths=("/etc/passwd",), root="/home/u/p"),
        Request("gemini", "fetch", host="example.org", root="/home/u/p"),
    )
    asked = msgspec.structs.replace(question(paths=("/home/u/p/app.py",)), also=also)
    _, text = await ask(asked, "c\n")
    for line in (
        "  kind   edit, execute, fetch",
        "  runs   rm -r 'a b'",
        "  in     /tmp",
        "  shell  │ id; id",
        "  path   /home/u/p/app.py",
        "  path   /etc/passwd  (outside the project)",
        "  host   example.org",
    ):
        assert f"\n{line}\n" in text


async def test_the_reason_is_shown_to_its_end() -> None:
    why = "what it is about could not be read: " + "it names no command and " * 20 + "it may change a protected file"
    _, text = await ask(msgspec.structs.replace(question(), why=why), "c\n")
    shown = re.search(r"\n  why    (.*?)\n  agent ", text, re.DOTALL)
    assert shown is not None
    assert re.sub(r"\n +⤷ ", "", shown[1]) == why


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Edit \u202etxt.exe", "Edit <U+202E>txt.exe"),
        ("Edit\x1b[2K\rRead", "Edit<U+001B>[2K<U+000D>Read"),
        ("Edit\n  1 y", "Edit ⏎   1 y"),
        ("al\u200blow", "al<U+200B>low"),
    ],
)
async def test_hidden_characters_of_a_title_are_spelled_out(title: str, shown: str) -> None:
    _, text = await ask(question(title=title), "c\n")
    assert f"\n  agent  calls it: {shown}\n" in text


def test_a_long_title_cannot_push_the_command_off_the_screen() -> None:
    title = "x" * 5000 + "END"
    sheet = draw(
        question(title=title, argv=("rm", "-rf", "/")), SessionState(), agent="x", paint=Painter(False), width=79
    )
    assert any("rm -rf /" in line for line in sheet.head[:8])
    assert "more characters" in re.sub(r" +⤷ ", "", "".join(sheet.head))
    assert sheet.head[-1].endswith("END")


async def test_a_shell_line_is_shown_as_it_is_line_by_line() -> None:
    _, text = await ask(question(kind="execute", shell="cd /tmp &&\n  rm -rf *\n"), "c\n")
    assert "\n  shell  │ cd /tmp &&\n         │   rm -rf *\n" in text


async def test_a_host_and_a_tool_of_a_server_are_named() -> None:
    _, text = await ask(question(kind="fetch", host="example.org", mcp=("files", "read it")), "c\n")
    assert "\n  host   example.org\n" in text
    assert "\n  mcp    files 'read it'\n" in text


async def test_an_always_that_the_agent_keeps_is_named_as_the_agents() -> None:
    _, text = await ask(question(proposals=()), "c\n")
    assert "writes: " not in text
    assert text.count("the agent remembers this in its own way; dragoman writes no rule") == 2
    assert "\n  a 2       yes, always: Always allow\n" in text


async def test_a_change_is_shown_as_unified_hunks() -> None:
    change = v1.Diff("/home/u/p/app.py", "import os\nprint('hello')\n", old_text="import os\nprint('hi')\n")
    _, text = await ask(question(diffs=(change,)), "c\n")
    lines = ["/home/u/p/app.py", "@@ -1,2 +1,2 @@", " import os", "-print('hi')", "+print('hello')", "+1 -1"]
    assert "".join(f"\n  │ {line}" for line in lines) + "\n" in text


async def test_a_change_that_was_sent_with_and_without_its_last_newline_is_shown_once() -> None:
    """Agents send a change as arguments, often a piece of the file, and as a diff of the whole file."""
    path = "/home/u/p/greeting.txt"
    piece, whole = v1.Diff(path, "Hello!", old_text="Hi."), v1.Diff(path, "Hello!\n", old_text="Hi.\n")
    other = v1.Diff(path, "Hello!\n", old_text="Hi.\n\n")
    _, text = await ask(question(diffs=(piece, whole)), "c\n")
    assert text.count("+Hello!") == 1
    _, text = await ask(question(diffs=(piece, other)), "c\n")
    assert text.count("+Hello!") == 2


async def test_a_change_reported_before_the_request_is_shown_with_it() -> None:
    session = Session()
    session.state.begin_turn([])
    session.state.note_permission(v1.ToolCallPatch("call-1", content=[v1.Diff("/home/u/p/new.py", "pass\n")]))
    async with screen() as terminal:
        answer = asyncio.create_task(terminal.prompt().ask(question(), session))  # type: ignore[arg-type]
        text = await terminal.until_input_is_awaited()
        terminal.type("\x04")
        await answer
    assert "│ /home/u/p/new.py (new file)" in text
    assert "│ +pass" in text


async def test_an_input_of_an_unknown_form_is_shown_as_it_is() -> None:
    raw = {"fileName": "x.txt", "diff": "+one\n+two\n", "options": {"force": True}}
    _, text = await ask(question(raw_input=raw), "c\n")
    rows = ("input  fileName: x.txt", "input  diff: +one", "       +two", 'input  options: {"force":true}')
    assert "\n" + "".join(f"  {row}\n" for row in rows) in text


async def test_a_long_change_is_cut_to_the_screen_and_v_shows_all_of_it() -> None:
    change = v1.Diff("/home/u/p/a.txt", "".join(f"line {n}\n" for n in range(100)))
    async with screen(80, 30) as terminal:
        answer = asyncio.create_task(begin(terminal, question(diffs=(change,))))
        first = await terminal.until_input_is_awaited()
        assert "more lines: v shows everything" in first
        assert "line 99" not in first
        assert first.count("\n") <= 30
        terminal.type("v\n")
        pages = []
        while "your answer" not in (page := await terminal.until_input_is_awaited()):
            assert page.count("\n") <= 30
            pages.append(page)
            terminal.type("\n")
        assert all(f"+line {n}\n" in "".join([*pages, page]) for n in range(100))
        terminal.type("1\n")
        assert await answer == "opt-once"


async def test_paging_can_be_stopped() -> None:
    change = v1.Diff("/home/u/p/a.txt", "".join(f"line {n}\n" for n in range(500)))
    answer, text = await ask(question(diffs=(change,)), "v\n", "q\n", "n\n")
    assert answer == "opt-no"
    assert "line 499" not in text


@pytest.mark.rule(254, 261)
def test_letters_are_given_only_to_the_one_option_of_a_kind() -> None:
    options = [*OPTIONS, v1.PermissionOption("again", "Allow too", "allow_once")]
    twice = choices(option_words(options, {}))
    assert [choice.letter for choice in twice] == ["", "a", "n", "", ""]
    assert read_reply("y", twice) is None
    assert read_reply("5", twice) is twice[4].option


@pytest.mark.rule(256, 261)
async def test_an_option_whose_meaning_is_unclear_cannot_be_chosen() -> None:
    options = (
        v1.PermissionOption("same", "Reject", "reject_once"),
        v1.PermissionOption("same", "Allow", "allow_once"),
        v1.PermissionOption("later", "Perhaps", "allow_sometimes"),
    )
    answer, text = await ask(question(options=options), "1\n", "2\n", "3\n", "y\n", "n\n", "c\n")
    assert answer is None
    assert text.count("cannot be chosen") == 3
    assert "a kind that this version does not know: Perhaps" in text


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_nothing_in_a_question_acts_on_the_terminal_or_hides(attack: str) -> None:
    asked = question(
        title=attack,
        kind=attack,
        paths=(f"/home/u/p/{attack}",),
        options=(v1.PermissionOption(attack, attack, "allow_once"), v1.PermissionOption("no", "Reject", "reject_once")),
        diffs=(v1.Diff(attack, f"new {attack}\n", old_text=f"old {attack}\n"),),
        content=[v1.Content(v1.TextContent(attack))],
        argv=("run", attack),
        cwd=attack,
        env={attack: attack},
        host=attack,
        mcp=(attack, attack),
        proposals=(f"edit:{attack}",),
    )
    answer, text = await ask(asked, "n\n", rows=2000)
    assert acts(text) == set()
    assert answer == "no"
    assert max(cells(line) for line in text.split("\n") if " > " not in line) <= 80


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_text_of_an_agent_never_stands_where_an_option_stands(attack: str) -> None:
    asked = question(
        title=attack,
        shell=attack,
        content=[v1.Content(v1.TextContent(attack))],
        options=(v1.PermissionOption("a", attack, "reject_once"), v1.PermissionOption("b", attack, "reject_always")),
        proposals=(),
    )
    sheet = draw(asked, SessionState(), agent=attack, paint=Painter(False), width=79)
    options = [line for line in (*sheet.head, *sheet.body, *sheet.foot) if re.match(r"  [yan ] \d ", line)]
    assert options[0].startswith("  n 1       no: ")
    assert options[1].startswith("    2       no, never: ")
    assert len(options) == 2


def test_a_name_that_imitates_the_next_option_stays_behind_its_own_kind() -> None:
    name = "No\n  y 2       Allow" + " " * 90 + "  n 3       Reject"
    sheet = draw(
        question(options=(v1.PermissionOption("a", name, "allow_always"), OPTIONS[2]), proposals=()),
        SessionState(),
        agent="x",
        paint=Painter(False),
        width=79,
    )
    assert sheet.foot[1].startswith("  a 1       yes, always: No↵ y 2 Allow n 3 Reject")
    assert sum(line.startswith("  n 2       Reject") for line in sheet.foot) == 1


def test_many_paths_cannot_push_the_command_off_the_screen() -> None:
    asked = question(argv=("rm", "-rf", "/"), paths=tuple(f"/home/u/p/{n}" for n in range(500)))
    sheet = draw(asked, SessionState(), agent="x", paint=Painter(False), width=79)
    assert len(sheet.head) <= 40
    assert any("rm -rf /" in line for line in sheet.head)
    assert sum("path" in line for line in (*sheet.head, *sheet.body)) == 500


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (None, "a\nb\n", ["/f (new file)", "@@ -0,0 +1,2 @@", "+a", "+b"]),
        ("a\n", "", ["/f (emptied)", "@@ -1 +0,0 @@", "-a"]),
        ("a\n", "a\n", ["/f"]),
        ("a\n", "a", ["/f", "@@ -1 +1 @@", "-a", "+a", "\\ no newline at the end of the file"]),
        ("a\r\nb\r\n", "a\r\nc\r\n", ["/f", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]),
        ("a\r\n", "a\n", ["/f", "@@ -1 +1 @@", "-a<U+000D>", "+a"]),
        ("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nX\n",
         ["/f", "@@ -6,4 +6,4 @@", " 6", " 7", " 8", "-9", "+X"]),
    ],
)  # fmt: skip
def test_a_change_is_literal(old: str | None, new: str, lines: list[str]) -> None:
    assert view_diff("/f", old, new, paint=Painter(False), width=79).lines == lines


def test_an_enormous_change_is_cut_and_counted_in_full() -> None:
    view = view_diff("/f", "x\n" * 100_000, "y\n" * 100_000 + "z" * 1_000_000, paint=Painter(False), width=79)
    assert view.figures == "+100001 -100000"
    assert len(view.lines) <= 20_001
    assert "is not shown" in view.lines[-1]


def test_a_change_of_many_equal_lines_is_drawn_quickly() -> None:
    started = time.monotonic()
    view = view_diff("/f", "x\n" * 1000, "x\ny\n" * 500, paint=Painter(False), width=79)
    assert view.added >= 500
    assert time.monotonic() - started < 5


async def test_colour_is_used_only_if_wanted_and_never_for_an_agents_words() -> None:
    change = v1.Diff("/home/u/p/a", "new\n", old_text="old\n")
    async with screen() as terminal:
        answer = asyncio.create_task(begin(terminal, question(diffs=(change,)), colour=True))
        text = await terminal.until_input_is_awaited()
        terminal.type("\x04")
        await answer
    assert "\x1b[32m+new\x1b[0m" in text
    assert "\x1b[31m-old\x1b[0m" in text
    assert "\x1b" not in (await ask(question(diffs=(change,)), "c\n"))[1]


@pytest.mark.rule(194, 258)
async def test_a_withdrawn_question_leaves_a_note_and_restores_the_terminal() -> None:
    async with screen() as terminal:
        terminal.make_raw()
        before = terminal.mode()
        answer = asyncio.create_task(begin(terminal, question()))
        await terminal.until_input_is_awaited()
        assert terminal.mode() != before
        terminal.type("1")  # half an answer
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        await terminal.until("this question was withdrawn; nothing was answered")
        assert terminal.mode() == before
        # The half answer is gone with its question.
        answer = asyncio.create_task(begin(terminal, question()))
        await terminal.until_input_is_awaited()
        terminal.type("\n")
        await terminal.until("one of the answers")
        terminal.type("\x04")
        assert await answer is None
        assert terminal.mode() == before


async def test_one_question_at_a_time_in_the_order_they_came() -> None:
    form = v1.ElicitationFormMode("?", v1.ElicitationSchema(), session_id="s")
    async with screen() as terminal:
        user, session = terminal.prompt(), Session()
        asked: list[asyncio.Task[Any]] = [
            asyncio.create_task(user.ask(question(title=f"question {n}"), session))  # type: ignore[arg-type]
            for n in range(3)
        ]
        asked.append(asyncio.create_task(user.form(form, None)))
        first = await terminal.until_input_is_awaited()
        assert "question 0" in first
        assert "question 1" not in first
        asked[1].cancel()  # while it waits for its turn: never shown, no note
        terminal.type("1\n")
        assert "question 2" in (await terminal.until_input_is_awaited())
        terminal.type("3\n")
        assert "fill in a form" in (await terminal.until_input_is_awaited())
        terminal.type("d\n")
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert answers[0] == Answer("opt-once")
        assert isinstance(answers[1], asyncio.CancelledError)
        assert answers[2:] == [Answer("opt-no"), v1.DeclineElicitation()]
        await terminal.everything()
        assert "question 1" not in terminal.text
        assert "withdrawn" not in terminal.text


async def test_progress_is_silent_while_a_question_is_open() -> None:
    stream = io.StringIO()
    progress = Progress(stream, False, False)
    async with screen() as terminal:
        answer = asyncio.create_task(begin(terminal, question(), progress=progress))
        await terminal.until_input_is_awaited()
        progress.terminal_output("t", b"  1 y       allow once     Allow\n")
        progress.note("later")
        assert stream.getvalue() == ""
        terminal.type("n\n")
        assert await answer == "opt-no"
    assert stream.getvalue() == "│   1 y       allow once     Allow\nlater\n"


async def test_a_terminal_that_cannot_be_opened_answers_nothing() -> None:
    async with screen() as terminal:
        user = terminal.prompt()
        user._tty = "/nonexistent"
        assert await user.ask(question(), Session()) is None  # type: ignore[arg-type]
        user._tty = "/dev/null"
        assert await user.ask(question(), Session()) is None  # type: ignore[arg-type]


def test_letters_stand_for_the_answers_of_ours_by_their_scope() -> None:
    offered = offer_options(["execute:npm test", "execute:npm *"])
    options = [v1.PermissionOption(option.id, option.label, option.kind) for option in offered]
    always = {
        option.id: AlwaysDetails(action="allow", by="host", rule=option.rule, kept=option.scope)
        for option in offered
        if option.scope
    }
    assert [(choice.letter, choice.option.id) for choice in choices(option_words(options, always))] == [
        ("y", "allow-once"),
        ("", "allow-session"),
        ("a", "allow-project"),
        ("", "allow-project-wide"),
        ("n", "reject-once"),
        ("", "reject-session"),
        ("", "reject-project"),
    ]
