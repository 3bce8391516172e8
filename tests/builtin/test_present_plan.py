"""Plan mode ends with the user's answer: accepted with a mode, edited, or rejected."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import Session
from dragoman.schema import v1
from tests.builtin.http_service import Service

PLAN = 'call present_plan {"plan": "1. write a.txt"}\nwrite a.txt done\nsay {result}'


class Chooser:
    """Answers the question about a plan by the id of an option, and other questions with no."""

    def __init__(self, *ids: str) -> None:
        self.ids = list(ids)
        self.asked: list[v1.RequestPermissionRequest] = []

    async def __call__(self, request: v1.RequestPermissionRequest, session: Session) -> str | None:
        if request.tool_call.kind != "switch_mode":
            return None
        self.asked.append(request)
        return self.ids.pop(0)


def test_the_tool_is_offered_in_plan_mode_only() -> None:
    from dragoman.builtin.tools.table import built_in_tools, offered_tools

    tools = built_in_tools()
    assert "present_plan" in [tool.name for tool in offered_tools(tools, "scripted", is_planning=True)]
    assert "present_plan" not in [tool.name for tool in offered_tools(tools, "scripted")]


async def test_an_accepted_plan_changes_the_mode_and_the_work_goes_on_in_the_same_turn(tmp_path: Path) -> None:
    service, chooser = Service(tmp_path, mode="plan"), Chooser("accept_edit")
    async with service.session(permission=chooser) as session:
        await session.prompt(PLAN)
        assert session.state.mode == "edit"
        assert (service.project / "a.txt").read_text().strip() == "done"
    request = chooser.asked[0]
    assert [option.kind for option in request.options][:2] == ["allow_once", "allow_once"]
    assert "accept_full" not in [option.option_id for option in request.options]
    content = request.tool_call.content
    assert isinstance(content, list)
    shown = [item.content for item in content if isinstance(item, v1.Content)]
    assert [block.text for block in shown if isinstance(block, v1.TextContent)] == ["1. write a.txt"]


@pytest.mark.parametrize("answer", ["keep_planning", "nothing"])
async def test_a_plan_that_is_not_accepted_changes_nothing(tmp_path: Path, answer: str) -> None:
    service = Service(tmp_path, mode="plan")
    async with service.session(permission=Chooser(answer)) as session:
        await session.prompt(PLAN)
        assert session.state.mode == "plan"
        assert not (service.project / "a.txt").exists()


async def test_a_client_that_allows_everything_gets_the_narrowest_mode(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="plan")
    async with service.session("allow_once") as session:
        await session.prompt('call present_plan {"plan": "1. look"}\nsay ok')
        assert session.state.mode == "ask"


async def test_a_mode_that_the_user_chooses_while_the_question_is_open_accepts_the_plan(tmp_path: Path) -> None:
    service, is_asked = Service(tmp_path, mode="plan"), asyncio.Event()

    async def wait(request: v1.RequestPermissionRequest, session: Session) -> str | None:
        is_asked.set()
        await asyncio.Event().wait()
        return None

    async with service.session(permission=wait) as session:
        turn = asyncio.ensure_future(_whole(session, PLAN))
        await asyncio.wait_for(is_asked.wait(), 10)
        await session.set_mode("edit")
        await asyncio.wait_for(turn, 60)
        assert (service.project / "a.txt").exists()


async def test_without_forms_the_plan_is_edited_as_a_file_and_the_turn_ends(tmp_path: Path) -> None:
    service, chooser = Service(tmp_path, mode="plan"), Chooser("edit_plan", "accept_ask")
    async with service.session(permission=chooser) as session:
        await session.prompt(PLAN)
        assert (service.project / "PLAN.md").read_text() == "1. write a.txt\n"
        assert "PLAN.md" in session.state.turns[-1].text
        (service.project / "PLAN.md").write_text("1. write b.txt\n")
        await session.prompt("call present_plan {}\nsay ok")
        assert session.state.mode == "ask"
    texts = [str(request.tool_call.content) for request in chooser.asked]
    assert "write b.txt" in texts[1]


async def test_a_plan_is_not_written_through_a_link_of_the_project(tmp_path: Path) -> None:
    service, chooser = Service(tmp_path, mode="plan"), Chooser("edit_plan")
    (service.project / "main.py").write_text("pass\n")
    (service.project / "PLAN.md").symlink_to("main.py")
    async with service.session(permission=chooser) as session:
        await session.prompt(PLAN)
        assert "cannot be written" in str(session.state.tool_calls)
    assert (service.project / "main.py").read_text() == "pass\n"


async def test_with_forms_the_plan_is_edited_in_the_client_and_the_model_reads_the_change(tmp_path: Path) -> None:
    service, chooser = Service(tmp_path, mode="plan"), Chooser("edit_plan", "accept_edit")

    class Forms:
        async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> Any:
            field = request.requested_schema.properties_or_default["answer"]
            assert getattr(field, "default", None) == "1. write a.txt"
            return v1.AcceptElicitation(content={"answer": "1. write c.txt"})

    async with service.session(permission=chooser, elicitation=Forms()) as session:
        await session.prompt('call present_plan {"plan": "1. write a.txt"}\nsay {result}')
        assert "1. write c.txt" in session.state.turns[-1].text
        assert session.state.mode == "edit"


async def test_outside_plan_mode_there_is_nothing_to_accept(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="ask")
    async with service.session("allow_once") as session:
        await session.prompt(PLAN)
        call = next(iter(session.state.tool_calls.values()))
        assert call.status == "failed"
        assert session.state.mode == "ask"


async def _whole(session: Session, text: str) -> None:
    await session.prompt(text)
