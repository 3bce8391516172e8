"""What clients of the built-in agent are shown: arguments, errors, void steps, titles, and a session that is loaded."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.builtin.models.model import ModelRequest, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import ToolPart
from tests.agent.fixtures import NOTHING
from tests.builtin.client_kinds import kind_client
from tests.builtin.http_service import Service, ask
from tests.builtin.test_client_kinds import TURN, calls, kinds, of_kind, text

HIDDEN = "a\u202eb\x1b[31mc\x07d"


def writing(request: ModelRequest, arguments: dict[str, str]) -> Iterable[c.Chunk | StepEnd]:
    """One call of `write`, in pieces of a few letters, as models send it; then an empty answer."""
    if any(isinstance(part, ToolPart) for part in request.messages[-1].parts):
        yield StepEnd("stop")
        return
    yield c.ToolInputStart("1", "write")
    text = json.dumps(arguments)
    for start in range(0, len(text), 4):
        yield c.ToolInputDelta("1", text[start : start + 4])
    yield c.ToolInputAvailable("1", "write", arguments)
    yield StepEnd("tool-calls")


async def test_the_updates_of_a_written_file_cost_less_than_three_times_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.builtin.loop.PREVIEW_SECONDS", 0.0)  # as from a slow model
    words = "x" * 17_600
    model = ScriptedModel(lambda request: writing(request, {"path": "folder/big.txt", "text": words}))
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    async with Service(tmp_path, mode="full").session() as session:
        updates = await ask(session, "go")
    sent = [msgspec.to_builtins(update) for update in updates]
    of_call = [each for each in sent if each["sessionUpdate"].startswith("tool_call")]
    assert sum(len(json.dumps(each)) for each in of_call) < 3 * len(words)
    titles = [each["title"] for each in of_call if "title" in each]
    assert titles[-1] == "Write folder/big.txt"
    assert len(titles) == 2  # the tool's name, then the whole path, and no half of it
    places = [each["locations"][0]["path"] for each in of_call if "locations" in each]
    assert set(places) == {str(tmp_path / "project" / "folder" / "big.txt")}
    inputs = [each["rawInput"] for each in of_call if "rawInput" in each]
    assert inputs == [{"path": "folder/big.txt", "text": words}]
    # The title is there long before the arguments are complete.
    assert next(index for index, each in enumerate(of_call) if each.get("title") == titles[-1]) < next(
        index for index, each in enumerate(of_call) if "rawInput" in each
    )


async def test_every_error_says_its_message_in_the_details_too(tmp_path: Path) -> None:
    async with kind_client(Service(tmp_path), NOTHING) as client:
        session_id = await client.start()
        requests: list[tuple[str, dict[str, Any]]] = [
            ("session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "error out of tea"}]}),
            ("session/prompt", {"sessionId": session_id, "prompt": "text"}),
            ("session/load", {"sessionId": "gone", "cwd": "/", "mcpServers": []}),
            ("session/set_mode", {"sessionId": session_id, "modeId": "nonsense"}),
            ("no/such_method", {}),
        ]
        errors = []
        for method, params in requests:
            _, answer = await client.finish(client.ask(method, **params))
            errors.append(answer["error"])
    assert [error["data"]["details"] for error in errors] == [error["message"] for error in errors]
    assert "out of tea" in errors[0]["data"]["details"]
    assert errors[2]["data"]["sessionId"] == "gone"


async def test_a_void_step_stands_apart_from_the_answer_that_replaces_it(tmp_path: Path) -> None:
    async with kind_client(Service(tmp_path), NOTHING) as client:
        updates, _ = await client.play(await client.start(), "cut")
    messages: dict[str, str] = {}
    for update in of_kind(updates, "agent_message_chunk"):
        id = update["messageId"]
        messages[id] = messages.get(id, "") + update["content"]["text"]
    assert list(messages.values()) == [
        "half an answ",
        "\n\n[The answer broke off here and begins again.]\n\n",
        "half an answer",
    ]


@pytest.mark.parametrize(
    "prompt",
    [
        [],
        [{"type": "text", "text": " \n"}],
        [{"type": "text", "text": "say hi"}, {"type": "hologram", "data": "x"}],
    ],
    ids=["empty", "blank", "unknown block"],
)
async def test_a_prompt_that_cannot_be_read_whole_is_refused(tmp_path: Path, prompt: list[Any]) -> None:
    async with kind_client(Service(tmp_path), NOTHING) as client:
        session_id = await client.start()
        updates, answer = await client.finish(client.ask("session/prompt", sessionId=session_id, prompt=prompt))
        assert answer["error"]["code"] == -32602
        assert answer["error"]["data"]["path"].startswith("$.prompt")
        assert kinds(updates) <= {"available_commands_update"}
        # A picture alone is a prompt.
        picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        _, answer = await client.finish(client.ask("session/prompt", sessionId=session_id, prompt=[picture]))
        assert answer["result"]["stopReason"] == "end_turn"


async def test_control_characters_reach_no_title_and_no_plan(tmp_path: Path) -> None:
    async with kind_client(Service(tmp_path, mode="full"), NOTHING) as client:
        session_id = await client.start()
        call = json.dumps({"items": [{"content": HIDDEN}]})
        command = json.dumps({"command": f"echo {HIDDEN}"})
        updates, _ = await client.play(session_id, f"say {HIDDEN}", f"call todo {call}", f"call bash {command}")
        _, listed = await client.finish(client.ask("session/list"))
        (row,) = listed["result"]["sessions"]
        repeated = await client.load(session_id)
    for sent in (updates, repeated):
        titles = [update["title"] for update in sent if "title" in update]
        titles += [entry["content"] for update in of_kind(sent, "plan") for entry in update["entries"]]
        assert len(titles) >= 3
        for title in [*titles, row["title"]]:
            assert title.isprintable()
            assert "\u202e" not in title
    assert [entry["content"] for update in of_kind(updates, "plan") for entry in update["entries"]] == ["abcd"]


async def test_a_to_do_list_is_the_plan_and_not_a_call_unless_it_fails(tmp_path: Path) -> None:
    wrong = json.dumps({"items": [{"content": "one", "status": "sideways"}]})
    async with kind_client(Service(tmp_path), NOTHING) as client:
        session_id = await client.start()
        updates, _ = await client.play(session_id, "todo one; two", f"call todo {wrong}", "say {result}")
        repeated = await client.load(session_id)
    assert "use one of pending" in text(updates)  # the model reads the result as ever
    for sent in (updates, repeated):
        (call,) = calls(sent).values()
        assert call["status"] == "failed"
        assert "use one of pending" in call["content"][0]["content"]["text"]
        assert len(of_kind(sent, "plan")) == 1


async def test_a_loaded_session_is_shown_as_it_was_live(tmp_path: Path) -> None:
    service = Service(tmp_path)
    (service.project / "a.txt").write_text("content\n")
    async with kind_client(service, NOTHING, refuses="refused.txt") as client:
        session_id = await client.start()
        live, _ = await client.play(session_id, *TURN)
        failed, answer = await client.play(session_id, "say so far", "error out of tea")
        live += failed
        assert answer["error"]["data"]["details"] == "out of tea"
    async with kind_client(service, NOTHING) as client:
        loaded = await client.load(session_id)
    shown = ("title", "kind", "status", "content", "locations", "rawInput", "rawOutput")
    assert [{name: call.get(name) for name in shown} for call in calls(loaded).values()] == [
        {name: call.get(name) for name in shown} for call in calls(live).values()
    ]
    assert len(calls(loaded)) == 5
    assert of_kind(loaded, "plan")[-1] == of_kind(live, "plan")[-1]
    assert of_kind(loaded, "usage_update")[-1] == of_kind(live, "usage_update")[-1]
    assert of_kind(loaded, "session_info_update")[-1]["title"] == of_kind(live, "session_info_update")[-1]["title"]
    assert text(loaded, "agent_thought_chunk") in text(live, "agent_thought_chunk")  # without the notice
    assert text(loaded).startswith(text(live))
    assert text(loaded).removeprefix(text(live)).strip() == "[The turn failed: out of tea]"
    # The commands come before the answer, after the history.
    assert loaded[-1]["sessionUpdate"] == "available_commands_update"


async def test_a_loaded_command_shows_its_output_where_a_terminal_showed_it(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with kind_client(service, {"terminal": True}) as client:
        session_id = await client.start()
        updates, _ = await client.play(session_id, "run echo from the command")
        loaded = await client.load(session_id)
    (live_call,), (call,) = calls(updates).values(), calls(loaded).values()
    assert live_call["content"][0]["type"] == "terminal"
    assert "from the command" in call["content"][0]["content"]["text"]
    assert (call["title"], call["status"]) == (live_call["title"], "completed")


async def test_a_failed_turn_of_our_client_is_an_error_and_then_a_message(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.client() as agent:
        session = await agent.new_session(service.project)
        with pytest.raises(RequestError):
            await ask(session, "error out of tea")
    async with service.client() as agent:
        loaded = await agent.load_session(session.id, service.project)
        assert "The turn failed: out of tea" in loaded.state.messages[-1].text
        assert isinstance(loaded.state.commands[0], v1.AvailableCommand)


async def test_a_client_that_takes_over_is_shown_the_output_of_terminals_that_it_does_not_have(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with kind_client(service, {"terminal": True}) as first, kind_client(service, {"terminal": True}) as second:
        session_id = await first.start()
        asked = first.prompt(session_id, "run echo in its terminal\nrun echo without it")
        waiting = await first.until("terminal/wait_for_exit")
        updates = await second.load(session_id)
        first.serve(waiting)
        await first.finish(asked)
        updates += (await second.finish(second.ask("session/list")))[0]
        own, _ = await second.play(session_id, "run echo in my terminal")
    assert first.asked.count("terminal/create") == 1  # the second command does not use a client that lost its session
    earlier = [each["content"][0] for each in calls(updates).values()]
    assert [each["type"] for each in earlier] == ["content", "content"]
    assert "in its terminal" in earlier[0]["content"]["text"]
    assert "without it" in earlier[1]["content"]["text"]
    (call,) = calls(own).values()
    assert call["content"][0]["type"] == "terminal"
