"""What servers ask: questions to the user, answers of the model, folders; and what they report."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import Session
from dragoman.schema import v1
from tests.builtin.http_service import Answers, Service
from tests.builtin.mcp.fixtures import HERE, connected
from tests.builtin.mcp.test_offers import Talk, talk

ASKING = {"command": sys.executable, "args": [str(HERE / "asking_server.py")]}
Reply = v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation


class User:
    """Answers forms and pages, and records them."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.messages: list[str] = []
        self.done = asyncio.Event()

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> Reply:
        self.messages.append(request.message)
        return self.reply

    async def url(self, request: v1.ElicitationUrlMode, session: Session | None) -> Reply:
        self.messages.append(f"{request.message} {request.url}")
        return self.reply

    async def complete(self, elicitation_id: str) -> None:
        self.done.set()


ACCEPTED = v1.AcceptElicitation({"colour": "blue"})


async def test_questions_reach_the_user_of_an_allowed_server_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(ACCEPTED)
    async with talk(tmp_path / "1", monkeypatch, entry={"elicitation": True}, elicitation=user) as chat:
        assert await chat.say("call full_paint {}", "say {result}") == "accept: blue"
        assert user.messages == ["The MCP server full asks: Which colour?"]
        user.reply = v1.DeclineElicitation()
        assert await chat.say("call full_paint {}", "say {result}") == "decline: none"
    # A client without forms: the question counts as dismissed, and the user reads why.
    async with talk(tmp_path / "2", monkeypatch, entry={"elicitation": True}) as chat:
        assert await chat.say("call full_paint {}", "say {result}") == "cancel: none"
        assert chat.notices == ["MCP server full asked a question: The client cannot show it"]


async def test_what_is_not_allowed_is_not_announced_and_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(ACCEPTED)
    answers = Answers("allow_once")
    async with talk(tmp_path, monkeypatch, permission=answers, elicitation=user) as chat:
        for tool in ("paint", "poem"):
            words = await chat.say(f"call full_{tool} {{}}", "say {result}")
            assert "blue" not in words
            assert "haiku" not in words
        assert user.messages == []
        assert {request.tool_call.title for request in answers.asked} == {"full: paint", "full: poem"}
        # The folders of the session are no secret.
        assert await chat.say("call full_folders {}", "say {result}") == (tmp_path / "project").as_uri()


async def test_the_model_answers_a_server_after_the_user_agreed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ["reject_once", "allow_once", "allow_always"]
    requests: list[v1.RequestPermissionRequest] = []

    async def answer(request: v1.RequestPermissionRequest, session: Session) -> str | None:
        is_sampling = request.tool_call.title == "full: ask the model"
        kind = kinds[len(requests)] if is_sampling else "allow_once"
        if is_sampling:
            requests.append(request)
        return next(option.option_id for option in request.options if option.kind == kind)

    async with talk(tmp_path, monkeypatch, entry={"sampling": True}, permission=answer) as chat:

        def sampled() -> list[int | None]:
            found = [each for each in chat.model.requests if each.system == "You are a poet"]
            assert all(each.tools == () for each in found)
            return [each.max_output_tokens for each in found]

        assert "the user did not allow it" in await chat.say("call full_poem {}", "say {result}")
        assert sampled() == []
        for _ in range(3):  # asked the second time, and from the third on not any more
            assert await chat.say("call full_poem {}", "say {result}") == "scripted: a haiku about ACP"
        assert sampled() == [100, 100, 100]
        assert len(requests) == 3
        for request in requests:
            shown = str(request.tool_call.content)
            assert "system: You are a poet" in shown
            assert "user: say a haiku about ACP" in shown


async def test_no_user_means_no_answer_of_the_model(tmp_path: Path) -> None:
    service = Service(tmp_path, mcp_servers={"a": {**ASKING, "sampling": True}})
    headless = {"dragoman": {"headless": True}}
    async with service.client("allow_once", meta=headless) as remote:
        chat = Talk(await remote.new_session(service.project), None)  # type: ignore[arg-type]
        assert "no user can be asked" in await chat.say("call a_sample {}", "say {result}")


async def test_a_server_of_the_2025_protocol_asks_and_reports(tmp_path: Path) -> None:
    user = User(ACCEPTED)
    service = Service(tmp_path, mcp_servers={"a": {**ASKING, "elicitation": True, "sampling": "always"}})
    async with service.client("allow_once", elicitation=user) as remote:
        chat = Talk(await remote.new_session(service.project), None)  # type: ignore[arg-type]

        async def call(tool: str) -> Any:
            return json.loads(await chat.say(f"call a_{tool} {{}}", "say {result}"))

        assert await call("form") == {"action": "accept", "content": {"colour": "blue"}}
        assert await call("page") == {"action": "accept"}
        await asyncio.wait_for(user.done.wait(), 10)
        assert user.messages[-1] == "The MCP server a asks: Please pay https://pay.example/1"
        assert (await call("nested"))["action"] == "cancel"
        assert "could not be asked" in chat.notices[0]
        sampled = await call("sample")
        assert (sampled["content"]["text"], sampled["stopReason"]) == ("sampled", "endTurn")
        assert (await call("roots"))["roots"] == [{"uri": service.project.as_uri()}]
        # Warnings are shown, up to a number.
        await chat.say("call a_log {}", "say done")
        shown = [each for each in chat.notices if each.startswith("MCP server a reports")]
        assert "MCP server a reports: warning 0" in shown
        assert len(shown) <= 11
        assert not any("info" in each for each in shown)
        # A client with another folder that takes the session over changes the roots, and is asked.
        other = tmp_path / "other"
        other.mkdir()
        new_user = User(ACCEPTED)
        async with service.client("allow_once", elicitation=new_user) as second:
            taken = await second.load_session(chat.session.id, service.project, additional_directories=[str(other)])
            chat = Talk(taken, None)  # type: ignore[arg-type]
            assert other.as_uri() in str(await call("roots"))
            asked = len(user.messages)
            assert (await call("form"))["action"] == "accept"
            assert (len(user.messages), len(new_user.messages)) == (asked, 1)
            words = (await chat.say("call a_said {}", "say {result}")).split()
        assert "notifications/roots/list_changed" in words
        assert words[words.index("logging/setLevel") + 1] == "warning"


async def test_a_server_that_is_killed_comes_back_and_its_call_fails_in_words(tmp_path: Path) -> None:
    service = Service(tmp_path, mcp_servers={"a": ASKING})
    async with service.client("allow_once") as remote:
        chat = Talk(await remote.new_session(service.project), None)  # type: ignore[arg-type]
        words = await chat.say("call a_die {}", "say {result}")
        assert "the MCP server a is not available" in words
        assert "signal" in words.lower() or "kill" in words.lower()
        # The next turn waits for it, with the same tools; nobody had to be told.
        assert "initialize" in await chat.say("call a_said {}", "say {result}")
        assert chat.notices == []


async def test_a_resource_that_is_never_answered_does_not_hold_up_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.builtin.mcp.prompting.LONGEST_SECONDS", 0.2)
    service = Service(tmp_path, mcp_servers={"a": ASKING})
    async with service.client("allow_once") as remote:
        chat = Talk(await remote.new_session(service.project), None)  # type: ignore[arg-type]
        await asyncio.wait_for(chat.say("@a:hang://x"), 20)
        assert chat.notices == ["@a:hang://x could not be read: a did not answer within 0.2 s"]


async def test_the_model_is_asked_a_bounded_number_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.builtin.mcp.session_side.MOST_SAMPLES", 1)
    service = Service(tmp_path, mcp_servers={"a": {**ASKING, "sampling": "always"}})
    async with service.client("allow_once") as remote:
        chat = Talk(await remote.new_session(service.project), None)  # type: ignore[arg-type]
        assert "sampled" in await chat.say("call a_sample {}", "say {result}")
        assert "no more" in await chat.say("call a_sample {}", "say {result}")


async def test_a_server_announces_nothing_that_the_user_did_not_allow(tmp_path: Path) -> None:
    async with connected(tmp_path, configured={"a": ASKING}) as session:
        words = (await session.call("a_said")).text
        assert "elicitation" not in words
        assert "sampling" not in words
