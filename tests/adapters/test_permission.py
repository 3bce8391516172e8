"""Permission in both shapes: asked inside the run, and at the end of a run that is continued with the answers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import AskedCall, AskOption, BlockingContext, PromptContext
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.display import FileDiff, Location, ToolDisplay
from tests.adapters.fixtures import Answers, Forms, ask, session_of, statuses, text_of

WRITE = AskedCall(
    "write",
    {"path": "a.txt"},
    "Write a.txt",
    ToolDisplay("edit", (Location("a.txt"),), (FileDiff("a.txt", None, "x"),)),
)
OPTIONS = [
    AskOption("yes", "Yes"),
    AskOption("session", "Yes, for this session", scope="session"),
    AskOption("dry", "Only try it", input={"path": "a.txt", "dry": True}),
    AskOption("no", "No", allows=False),
    AskOption("never", "Never", allows=False, scope="always"),
]


async def test_the_question_shows_the_call_and_the_options_with_their_kinds(tmp_path: Path) -> None:
    async def asks(ctx: PromptContext) -> str:
        answer = await ctx.ask(WRITE, OPTIONS)
        return f"{answer.allowed} {answer.scope} {answer.option and answer.option.id}"

    answers = Answers("session")
    async with session_of(asks, tmp_path, permission=answers) as session:
        updates = await ask(session, "go")
    (request,) = answers.asked
    assert [(each.option_id, each.name, each.kind) for each in request.options] == [
        ("yes", "Yes", "allow_once"),
        ("session", "Yes, for this session", "allow_always"),
        ("dry", "Only try it", "allow_once"),
        ("no", "No", "reject_once"),
        ("never", "Never", "reject_always"),
    ]
    call = request.tool_call
    assert (call.title, call.kind, call.status, call.raw_input) == ("Write a.txt", "edit", "pending", {"path": "a.txt"})
    assert call.content
    assert isinstance(call.content[0], v1.Diff)
    assert call.content[0].path == str(tmp_path / "a.txt")
    assert text_of(updates) == "True session session"
    assert statuses(updates) == ["pending", "in_progress", "completed"]


async def test_the_question_names_a_tool_of_which_nothing_else_is_known(tmp_path: Path) -> None:
    async def asks(ctx: PromptContext) -> str:
        return str(bool(await ctx.ask(AskedCall("refund", {"order": 7}, "Refund 20 EUR"))))

    answers = Answers("allow")
    async with session_of(asks, tmp_path, permission=answers) as session:
        await ask(session, "go")
        [call] = session.state.tool_calls.values()
    assert (answers.asked[0].tool_call.name, call.name) == ("refund", "refund")


@pytest.mark.parametrize("is_blocking", [True, False])
async def test_an_option_may_change_the_input_and_a_no_denies_the_call(is_blocking: bool, tmp_path: Path) -> None:
    async def asks(ctx: PromptContext) -> str:
        answer = await ctx.ask(WRITE, OPTIONS)
        if answer:
            await ctx.result(answer.call_id, "written")
        return f"{bool(answer)} {answer.input}"

    def asks_blocking(ctx: BlockingContext) -> str:
        answer = ctx.ask(WRITE, OPTIONS)
        if answer:
            ctx.result(answer.call_id, "written")
        return f"{bool(answer)} {answer.input}"

    function: Any = asks_blocking if is_blocking else asks
    async with session_of(function, tmp_path, permission=Answers("dry", "no", None)) as session:
        updates = await ask(session, "go")
        assert text_of(updates) == "True {'path': 'a.txt', 'dry': True}"
        assert statuses(updates) == ["pending", "in_progress", "completed"]
        for _ in range(2):  # rejected, then cancelled
            updates = await ask(session, "go")
            assert text_of(updates).startswith("False")
            assert statuses(updates) == ["pending", "failed"]


async def test_the_user_can_change_the_input_in_a_form_where_the_client_has_forms(tmp_path: Path) -> None:
    async def asks(ctx: PromptContext) -> str:
        edit = AskOption("edit", "Edit", edits=True)
        call = AskedCall("mail", {"to": "a@example", "copies": 2, "lines": ["kept"]})
        return f"{(await ctx.ask(call, [edit, AskOption('no', 'No', allows=False)])).input}"

    forms = Forms({"to": "b@example", "copies": 3})
    answers = Answers("edit")
    async with session_of(asks, tmp_path, permission=answers, elicitation=forms) as session:
        assert text_of(await ask(session, "go")) == "{'to': 'b@example', 'copies': 3, 'lines': ['kept']}"
    answers = Answers("edit")
    async with session_of(asks, tmp_path, permission=answers) as session:
        await ask(session, "go")
    assert [each.option_id for each in answers.asked[0].options] == ["no"]
    async with session_of(asks, tmp_path, permission=Answers("edit"), elicitation=Forms(None)) as session:
        updates = await ask(session, "go")
        assert statuses(updates) == ["pending", "failed"]


async def test_a_shown_call_is_asked_about_by_its_id_and_is_pending_until_the_answer(tmp_path: Path) -> None:
    async def works(text: str, ctx: PromptContext) -> AsyncIterator[Any]:
        yield c.ToolInputAvailable("x", "bash", {"command": "rm -rf build"}, "Delete build")
        if await ctx.ask("x"):
            yield c.ToolOutputAvailable("x", "gone")
        else:
            yield c.ToolOutputDenied("x")

    for kind, expected in (("allow_once", ["in_progress", "completed"]), ("reject_once", ["failed"])):
        answers = Answers(kind)
        async with session_of(works, tmp_path, permission=answers) as session:
            updates = await ask(session, "go")
        assert answers.asked[0].tool_call.title == "Delete build"
        assert statuses(updates, "x") == ["pending", *expected]


async def test_a_form_is_filled_in_declined_or_not_there(tmp_path: Path) -> None:
    schema = v1.ElicitationSchema(properties={"name": v1.StringPropertySchema()})

    async def asks(ctx: PromptContext) -> str:
        return str(await ctx.form("Who?", schema))

    async with session_of(asks, tmp_path, elicitation=Forms({"name": "Ada"})) as session:
        assert text_of(await ask(session, "go")) == "{'name': 'Ada'}"
    async with session_of(asks, tmp_path, elicitation=Forms(None)) as session:
        assert text_of(await ask(session, "go")) == "None"
    async with session_of(asks, tmp_path) as session:
        assert text_of(await ask(session, "go")) == "None"


# The second shape


async def two_questions(ctx: PromptContext) -> AsyncIterator[Any]:
    if not ctx.answers:
        yield "I ask. "
        for call in ("x", "y"):
            yield c.ToolInputAvailable(call, "delete", {"path": call}, f"Delete {call}")
            yield c.ToolApprovalRequest(f"q{call}", call)
        ctx.offer("qy", OPTIONS)
        yield c.Finish("tool-calls")
        return
    for call in ("x", "y"):
        answer = ctx.answers[f"q{call}"]
        yield c.ToolOutputAvailable(call, f"deleted {answer.input}") if answer else c.ToolOutputDenied(call)
    yield "Done."
    yield c.Finish("stop")


async def test_a_run_that_ends_with_questions_is_continued_with_all_answers_in_one_turn(tmp_path: Path) -> None:
    answers = Answers("allow_once", "no")
    async with session_of(two_questions, tmp_path, permission=answers) as session:
        turn = session.prompt("go")
        updates = [update async for update in turn]
        assert turn.result.stop_reason == "end_turn"
    from tests.adapters.fixtures import on_wire

    wire = on_wire(updates)
    assert text_of(wire) == "I ask. Done."
    assert statuses(wire, "x") == ["pending", "in_progress", "completed"]
    assert statuses(wire, "y") == ["pending", "failed"]
    assert [request.tool_call.title for request in answers.asked] == ["Delete x", "Delete y"]
    assert len(answers.asked[1].options) == len(OPTIONS)


async def test_a_function_without_a_context_cannot_be_continued_and_says_what_to_do(tmp_path: Path) -> None:
    async def asks(text: str) -> AsyncIterator[Any]:
        yield c.ToolInputAvailable("x", "delete", {})
        yield c.ToolApprovalRequest("q", "x")

    async with session_of(asks, tmp_path, permission=Answers("allow_once")) as session:
        with pytest.raises(RequestError, match="give it a parameter ctx"):
            await ask(session, "go")


async def test_cancel_while_the_user_is_asked_ends_the_turn_and_fails_the_call(tmp_path: Path) -> None:
    async def inside(ctx: PromptContext) -> str:
        await ctx.ask("Delete everything")
        return "never"

    def blocking(ctx: BlockingContext) -> str:
        ctx.ask("Delete everything")
        return "never"

    for function in (inside, blocking, two_questions):
        answers = Answers("wait")
        async with session_of(function, tmp_path, permission=answers) as session:
            turn = session.prompt("go")
            updates: list[v1.SessionUpdate] = []

            async def read(turn: Any = turn, updates: Any = updates) -> None:
                async for update in turn:
                    updates.append(update)

            reading = asyncio.ensure_future(read())
            await answers.arrived.wait()
            await session.cancel()
            await reading
            assert turn.result.stop_reason == "cancelled"
            calls = [u for u in updates if isinstance(u, v1.ToolCallUpdate)]
            assert calls[-1].status == "failed"
