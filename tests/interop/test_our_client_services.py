"""Our client serves agents written on the official SDKs: permission, files, terminals, elicitation."""

import json
from pathlib import Path

import pytest

from dragoman import Session
from dragoman.schema import v1
from tests.interop.our_client import DiskFiles, FormsAndUrls, ProcessTerminals, Urls, agent_of
from tests.interop.support import SDKS

both = pytest.mark.parametrize("sdk", SDKS)


@both
@pytest.mark.rule(253, 254, 255, 256, 259, 260)
async def test_permission_is_allowed_rejected_or_cancelled(sdk: str) -> None:
    answers: list[str | None] = ["yes", "no", None, "not offered"]
    asked: list[v1.RequestPermissionRequest] = []

    async def decide(request: v1.RequestPermissionRequest, session: Session) -> str | None:
        asked.append(request)
        return answers.pop(0)

    said = []
    async with agent_of(sdk, permission=decide) as (agent, _):
        session = await agent.new_session("/work-a")
        for _ in range(4):
            await session.prompt("permission")
            said.append(session.state.text.removeprefix("permission: "))
    assert said == ["allow_once", "reject_once", "cancelled", "cancelled"]
    assert [option.option_id for option in asked[0].options] == ["yes", "no"]
    assert [option.kind for option in asked[0].options] == ["allow_once", "reject_once"]
    assert asked[0].tool_call.tool_call_id == "asked-1"


@both
@pytest.mark.rule(61, 259, 301, 341)
async def test_what_was_not_offered_is_refused(sdk: str) -> None:
    """Neither SDK keeps its agent from asking for what the client did not advertise."""
    async with agent_of(sdk, elicitation=Urls()) as (agent, _):
        session = await agent.new_session("/work-a")
        await session.prompt("read /w/a.txt")
        assert session.state.text == "error: -32601"
        await session.prompt("form")
        assert session.state.text == "error: -32602"
        await session.prompt("permission")
        assert session.state.text == "permission: cancelled"


@both
@pytest.mark.rule(251, 273, 274, 275, 277, 278, 279, 280, 283, 285, 288, 289, 290, 291, 292, 294, 296, 341)
async def test_files_and_terminals_of_the_client_serve_the_agent(sdk: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    terminals = ProcessTerminals()
    async with agent_of(sdk, files=DiskFiles(), terminals=terminals) as (agent, check):
        session = await agent.new_session("/work-a")
        await session.prompt(f"read {tmp_path}/a.txt")
        assert session.state.text == "read: one\ntwo\nthree\n"
        await session.prompt(f"read {tmp_path}/a.txt 2 1")
        assert session.state.text == "read: two\n"
        await session.prompt(f"read {tmp_path}/none")
        assert session.state.text == "error: -32002"
        await session.prompt("read relative.txt")
        assert session.state.text == "error: -32602"
        await session.prompt(f"write {tmp_path}/new.txt fresh")
        assert session.state.text == "written"
        await session.prompt("form")
        assert session.state.text == "error: -32601"
        await session.prompt("terminal")
        assert json.loads(session.state.text) == {"after": -32002, "exitCode": 3, "output": "out", "truncated": False}
        [shown] = session.state.tool_calls["run-1"].content
        assert isinstance(shown, v1.Terminal)
        await session.prompt("kill")
        assert json.loads(session.state.text) == {"killed": True, "running": True}
    assert (tmp_path / "new.txt").read_text() == "fresh"
    assert terminals.running == {}
    used = {method for method in check.received_methods() if method.startswith("terminal/")}
    assert used == {f"terminal/{verb}" for verb in ("create", "output", "wait_for_exit", "kill", "release")}


@both
@pytest.mark.rule(302, 303, 304, 312, 316, 317, 318, 319)
async def test_forms_are_answered_and_urls_opened_and_completed(sdk: str) -> None:
    service = FormsAndUrls(
        v1.AcceptElicitation(content={"name": "Ada"}), v1.DeclineElicitation(), v1.CancelElicitation()
    )
    said = []
    async with agent_of(sdk, elicitation=service) as (agent, _):
        session = await agent.new_session("/work-a")
        for text in ("form", "form", "form", "url"):
            await session.prompt(text)
            said.append(session.state.text.replace(" ", ""))
    assert said == ['form:accept{"name":"Ada"}', "form:decline{}", "form:cancel{}", "url:accept"]
    form = service.forms[0]
    assert form.message == "Who are you?"
    properties = form.requested_schema.properties
    assert isinstance(properties, dict)
    assert isinstance(properties["name"], v1.StringPropertySchema)
    assert [(request.elicitation_id, request.url) for request in service.urls] == [
        ("url-1", "https://example.com/login")
    ]
    assert service.completed == ["url-1"]


@pytest.mark.rule(302)
async def test_a_form_can_belong_to_the_request_that_makes_a_session() -> None:
    """The Python SDK does not tell its agents the id of the request they answer."""
    service = FormsAndUrls(v1.AcceptElicitation(content={"name": "Ada"}))
    async with agent_of("ts", elicitation=service) as (agent, check):
        await agent.new_session("/form")
        [asked] = [frame["id"] for frame in check.outgoing if frame.get("method") == "session/new"]
    assert [form.request_id for form in service.forms] == [asked]
