"""Tool calls: their life on the wire, what they show, and what the user allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.agent import Agent, Permission, ToolCallHandle, Turn
from dragoman.errors import LocalProtocolError
from dragoman.schema import extension, v1
from tests.agent.fixtures import ClientLine, Link, connected, reached, updated

ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow"}}
REJECT = {"outcome": {"outcome": "selected", "optionId": "reject"}}


def _states(updates: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(update["sessionUpdate"], update.get("status")) for update in updates]


@pytest.mark.rule(238, 239, 240, 241, 242, 243, 248, 249, 250)
async def test_a_tool_call_is_announced_started_and_completed(link: Link) -> None:
    agent = Agent("test")
    ids: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool(
            "Read",
            kind="read",
            name="read",
            locations=["a.py", "/abs/b.py", v1.ToolCallLocation("c.py", 7)],
            raw_input={"n": 1},
        ) as call:
            ids.append(call.id)
            assert call.status == "in_progress"

    async with connected(agent, link) as line:
        updates, _ = await line.turn(await line.open("/work"))
        assert updates == [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": ids[0],
                "title": "Read",
                "name": "read",
                "kind": "read",
                "status": "pending",
                "locations": [{"path": "/work/a.py"}, {"path": "/abs/b.py"}, {"path": "/work/c.py", "line": 7}],
                "rawInput": {"n": 1},
            },
            {"sessionUpdate": "tool_call_update", "toolCallId": ids[0], "status": "in_progress"},
            {"sessionUpdate": "tool_call_update", "toolCallId": ids[0], "status": "completed"},
        ]


@pytest.mark.rule(239)
async def test_every_tool_call_has_an_id_of_its_own_unless_the_author_names_it() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for _ in range(5):
            async with turn.tool("x"):
                pass
        async with turn.tool("x", id="mine") as call:
            assert call.id == "mine"

    async with connected(agent) as line:
        updates, _ = await line.turn(await line.open())
        assert len({update["toolCallId"] for update in updates}) == 6


@pytest.mark.rule(241)
async def test_a_body_that_raises_fails_the_call_without_sending_the_reason() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        with pytest.raises(ZeroDivisionError):
            async with turn.tool("x"):
                raise ZeroDivisionError("secret")
        await turn.say("went on")

    async with connected(agent) as line:
        updates, answer = await line.turn(await line.open())
        assert _states(updates)[:3] == [
            ("tool_call", "pending"),
            ("tool_call_update", "in_progress"),
            ("tool_call_update", "failed"),
        ]
        assert "secret" not in str(updates)
        assert answer["result"] == {"stopReason": "end_turn"}


@pytest.mark.rule(198, 241)
async def test_a_cancelled_call_fails_before_the_turn_is_answered(link: Link) -> None:
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool("outer"), turn.tool("inner"):
            running.set()
            await asyncio.Event().wait()

    async with connected(agent, link) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        line.notify("session/cancel", sessionId=session_id)
        before, answer = await line.answer_to(request_id)
        assert _states([updated(each) for each in before])[-2:] == [("tool_call_update", "failed")] * 2
        assert answer["result"] == {"stopReason": "cancelled"}


async def test_a_generator_closed_inside_a_tool_call_fails_it() -> None:
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> AsyncIterator[str]:
        async with turn.tool("x"):
            while True:
                running.set()
                yield "more"

    async with connected(agent) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        line.notify("session/cancel", sessionId=session_id)
        before, answer = await line.answer_to(request_id)
        assert updated(before[-1])["status"] == "failed"
        assert answer["result"] == {"stopReason": "cancelled"}


async def test_a_tool_call_that_outlives_its_turn_sends_nothing() -> None:
    agent = Agent("test")
    may_end = asyncio.Event()
    failures: list[BaseException] = []
    tasks: list[asyncio.Task[None]] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        entered = asyncio.Event()

        async def outlive() -> None:
            try:
                async with turn.tool("x"):
                    entered.set()
                    await may_end.wait()
            except LocalProtocolError as error:
                failures.append(error)

        tasks.append(asyncio.create_task(outlive()))
        await entered.wait()

    async with connected(agent) as line:
        await line.turn(await line.open())
        may_end.set()
        await tasks[0]
        assert "turn is over" in str(failures[0])
        await line.silence()


@pytest.mark.rule(242, 245, 246)
async def test_what_a_call_shows_is_sent_whole_and_nothing_shown_is_lost() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit") as call:
            await call.diff("src/a.py", None, "new")
            await call.diff("/abs/b.py", "old", "new")
            await call.text("done")
            await call.add(v1.ImageContent("aGk=", "image/png"))

    async with connected(agent) as line:
        updates, _ = await line.turn(await line.open("/work"))
        shown = [update["content"] for update in updates if "content" in update]
        assert [len(each) for each in shown] == [1, 2, 3, 4]
        assert shown[-1] == [
            {"type": "diff", "path": "/work/src/a.py", "oldText": None, "newText": "new"},
            {"type": "diff", "path": "/abs/b.py", "oldText": "old", "newText": "new"},
            {"type": "content", "content": {"type": "text", "text": "done"}},
            {"type": "content", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
        ]


@pytest.mark.rule(189, 242)
async def test_an_update_sends_what_changed_and_nothing_else() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool("x", id="c") as call:
            await call.update(title="y", raw_output=[1], locations=["a.py"], kind="search")
            await call.update(content=["text", v1.Diff("/a", "b")])
            await call.update(content=[])
            await call.update(raw_output=None)

    async with connected(agent) as line:
        updates, _ = await line.turn(await line.open("/work"))
        head = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
        assert updates[2:-1] == [
            {**head, "title": "y", "rawOutput": [1], "locations": [{"path": "/work/a.py"}], "kind": "search"},
            {
                **head,
                "content": [
                    {"type": "content", "content": {"type": "text", "text": "text"}},
                    {"type": "diff", "path": "/a", "newText": "b"},
                ],
            },
            {**head, "content": []},
            {**head, "rawOutput": None},
        ]


async def test_a_call_that_the_body_ended_is_not_ended_again() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool("x") as call:
            await call.update(status="failed", raw_output="no luck")

    async with connected(agent) as line:
        updates, _ = await line.turn(await line.open())
        assert _states(updates)[1:] == [("tool_call_update", "in_progress"), ("tool_call_update", "failed")]


async def test_a_call_that_waits_for_permission_stays_pending_while_it_shows_something() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool("x", start=False) as call:
            assert call.status == "pending"
            await call.update(title="y")
            await call.diff("/a", "old", "new")
            assert call.status == "pending"
            await call.start()

    async with connected(agent) as line:
        updates, _ = await line.turn(await line.open())
        assert [state for _, state in _states(updates)] == [
            "pending",
            None,
            None,
            "in_progress",
            "completed",
        ]


async def _asked(agent: Agent, line: ClientLine, answer: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs a turn that asks once: the request's params, and every update of the turn."""
    request_id = line.prompt(await line.open("/work"))
    updates: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    while True:
        message = await line.next()
        if message.get("method") == "session/request_permission":
            params = message["params"]
            if isinstance(answer, int):
                line.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": answer, "message": "No"}})
            else:
                line.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})
        elif "method" in message:
            updates.append(updated(message))
        else:
            assert message["id"] == request_id
            assert message["result"] == {"stopReason": "end_turn"}
            return params, updates


def _asking(answers: list[Permission], options: list[v1.PermissionOption] | None = None) -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool(
            "Delete it", kind="delete", id="c", locations=["x"], raw_input={"f": 1}, start=False
        ) as call:
            answers.append(await turn.ask(call, options))

    return agent


@pytest.mark.rule(188, 243, 252, 253, 254)
async def test_permission_is_asked_while_the_call_is_pending_and_a_yes_starts_it(link: Link) -> None:
    answers: list[Permission] = []
    agent = _asking(answers)
    async with connected(agent, link) as line:
        params, updates = await _asked(agent, line, ALLOW)
        assert params == {
            "sessionId": params["sessionId"],
            "toolCall": {
                "toolCallId": "c",
                "title": "Delete it",
                "kind": "delete",
                "status": "pending",
                "locations": [{"path": "/work/x"}],
                "rawInput": {"f": 1},
            },
            "options": [
                {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
                {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
            ],
        }
        assert [state for _, state in _states(updates)] == ["pending", "in_progress", "completed"]
        assert answers == [Permission(True, "allow", "allow_once")]


@pytest.mark.rule(194, 254, 255, 256, 258, 261, 314)
@pytest.mark.parametrize(
    "answer",
    [
        REJECT,
        {"outcome": {"outcome": "selected", "optionId": "always no"}},
        {"outcome": {"outcome": "selected", "optionId": "strange"}},
        {"outcome": {"outcome": "selected", "optionId": "not offered"}},
        {"outcome": {"outcome": "selected", "optionId": ""}},
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "approved"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": "selected"},
        {"outcome": None},
        {},
        None,
        -32601,
        -32603,
        -32800,
    ],
)
async def test_whatever_is_not_clearly_a_yes_is_a_no(answer: object) -> None:
    answers: list[Permission] = []
    options = [
        v1.PermissionOption("allow", "Allow", "allow_once"),
        v1.PermissionOption("reject", "Reject", "reject_once"),
        v1.PermissionOption("always no", "Never", "reject_always"),
        v1.PermissionOption("strange", "Allow, sort of", extension("_allow_sometimes")),
    ]
    agent = _asking(answers, options)
    async with connected(agent) as line:
        _, updates = await _asked(agent, line, answer)
        assert [state for _, state in _states(updates)] == ["pending", "failed"]
        assert not answers[0].allowed
        assert not answers[0]


@pytest.mark.rule(254, 261)
async def test_always_is_a_yes_and_says_so() -> None:
    answers: list[Permission] = []
    agent = _asking(answers, [v1.PermissionOption("a", "Always", "allow_always")])
    async with connected(agent) as line:
        await _asked(agent, line, {"outcome": {"outcome": "selected", "optionId": "a"}})
        assert answers == [Permission(True, "a", "allow_always")]


@pytest.mark.rule(243)
@pytest.mark.parametrize(("answer", "last"), [(ALLOW, "completed"), (REJECT, "failed")])
async def test_asking_about_a_title_announces_a_call_and_ends_it(answer: object, last: str) -> None:
    agent = Agent("test")
    answers: list[Permission] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        answers.append(await turn.ask("Run the tests"))

    async with connected(agent) as line:
        params, updates = await _asked(agent, line, answer)
        assert params["toolCall"]["title"] == updates[0]["title"] == "Run the tests"
        assert params["toolCall"]["toolCallId"] == updates[0]["toolCallId"]
        assert _states(updates)[0] == ("tool_call", "pending")
        assert updates[-1]["status"] == last


@pytest.mark.rule(243, 253)
async def test_asking_about_a_call_announces_it_and_about_a_patch_does_not() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        subject = v1.ToolCall("c", "New") if turn.text == "call" else v1.ToolCallUpdate("c", title="Known")
        await turn.ask(subject)

    async with connected(agent) as line:
        session_id = await line.open()
        line.prompt(session_id, "call")
        assert updated(await line.next()) == {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "New"}
        assert (await line.answer_next("session/request_permission", ALLOW))["toolCall"] == {
            "toolCallId": "c",
            "title": "New",
        }
        await line.next()
        line.prompt(session_id, "patch")
        params = await line.answer_next("session/request_permission", ALLOW)
        assert params["toolCall"] == {"toolCallId": "c", "title": "Known"}
        await line.next()


@pytest.mark.rule(254)
@pytest.mark.parametrize(
    "options",
    [[], [v1.PermissionOption("a", "A", "allow_once"), v1.PermissionOption("a", "B", "reject_once")]],
)
async def test_a_question_without_distinct_options_is_refused(options: list[v1.PermissionOption]) -> None:
    agent = Agent("test")
    failures: list[Exception] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        try:
            await turn.ask(v1.ToolCallPatch("c"), options)
        except LocalProtocolError as error:
            failures.append(error)

    async with connected(agent) as line:
        updates, _ = await line.turn(await line.open())
        assert updates == []
        assert len(failures) == 1


async def test_several_permissions_can_be_pending_at_once(link: Link) -> None:
    agent = Agent("test")
    answers: dict[str, bool] = {}

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async def ask(name: str) -> None:
            answers[name] = (await turn.ask(v1.ToolCallPatch(name))).allowed

        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(ask(name))

    async with connected(agent, link) as line:
        request_id = line.prompt(await line.open())
        asked = [await line.expect("session/request_permission") for _ in range(3)]
        for message in reversed(asked):
            answer = ALLOW if message["params"]["toolCall"]["toolCallId"] == "b" else REJECT
            line.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})
        await line.answer_to(request_id)
        assert answers == {"a": False, "b": True, "c": False}


async def test_a_handle_names_its_parts() -> None:
    agent = Agent("test")
    handles: list[ToolCallHandle] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool("x") as call:
            handles.append(call)

    async with connected(agent) as line:
        await line.turn(await line.open())
        assert handles[0].status == "completed"
        assert handles[0].id.startswith("call_")
