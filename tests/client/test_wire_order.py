"""What a program is called with comes in the order of the wire: updates, extensions, and responses between them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from dragoman.errors import RequestError
from dragoman.schema import Unknown, v1
from dragoman.state import Message
from tests.client.fixtures import client_and_agent, in_memory_only, open_session

# All that a test sends at once arrives in one piece only here; a socket may cut it anywhere.
pytestmark = in_memory_only


class Order:
    """Writes down what a program is called with."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.lines: list[bytes] = []
        self.runs: list[int] = []

    def updated(self, session_id: str, updates: Any, lines: Any) -> None:
        assert len(updates) == len(lines)
        self.runs.append(len(updates))
        self.lines += lines
        for update in updates:
            assert isinstance(update, v1.AgentMessageChunk)
            assert isinstance(update.content, v1.TextContent)
            self.events.append((session_id, update.content.text))

    def extended(self, params: Any) -> None:
        self.events.append(params["n"])

    def other(self, method: str, params: Any) -> None:
        self.events.append((method, params))


async def test_updates_extensions_and_responses_are_taken_in_the_order_of_the_wire() -> None:
    order = Order()
    async with client_and_agent(
        extensions={"_x": order.extended}, on_updates=order.updated, on_extension=order.other
    ) as (agent, line):
        session = await open_session(agent, line)
        turn = asyncio.ensure_future(session.prompt("go"))
        turn.add_done_callback(lambda _: order.events.append("the program goes on"))
        request = await line.expect("session/prompt")
        line.send(
            line.note("_x", n=1),
            line.chunk("s1", "a"),
            line.chunk("s1", "b"),
            line.note("_x", n=2),
            line.chunk("s1", "c"),
            line.note("_rest", n=3),
            line.result(request["id"], {"stopReason": "end_turn"}),
            line.note("_x", n=4),
            line.chunk("s1", "late"),
        )
        await turn
        await asyncio.sleep(0)
        in_order = [1, ("s1", "a"), ("s1", "b"), 2, ("s1", "c"), ("_rest", {"n": 3}), 4, ("s1", "late")]
        assert order.events == [*in_order, "the program goes on"]
        assert order.runs == [2, 1, 1], "what comes together is reported together"
        texts = [msgspec.json.decode(each)["params"]["update"]["content"]["text"] for each in order.lines]
        assert texts == ["a", "b", "c", "late"]


async def test_the_state_has_the_updates_and_the_end_of_the_turn_that_came_before() -> None:
    seen: list[tuple[str, str, bool]] = []

    def look(what: str) -> None:
        seen.append((what, session.state.text, session.state.is_running))

    async with client_and_agent(
        extensions={"_x": lambda params: look("extension")}, on_updates=lambda *_: look("updates")
    ) as (agent, line):
        session = await open_session(agent, line)
        turn = asyncio.ensure_future(session.prompt("go"))
        request = await line.expect("session/prompt")
        end = line.result(request["id"], {"stopReason": "end_turn"})
        line.send(line.chunk("s1", "a"), line.note("_x"), line.chunk("s1", "b"), end, line.note("_x"))
        await turn
        assert seen == [
            ("updates", "a", True),
            ("extension", "a", True),
            ("updates", "ab", True),
            ("extension", "ab", False),
        ]


async def test_updates_of_every_session_are_reported_in_order_between_them() -> None:
    order = Order()
    async with client_and_agent(on_updates=order.updated) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session("/tmp"))
        request = await line.expect("session/new")
        line.send(
            line.chunk("s1", "early"),
            line.result(request["id"], {"sessionId": "s1"}),
            line.chunk("s1", "a"),
            line.chunk("child", "b"),
            line.chunk("child", "c"),
            line.chunk("s1", "d"),
        )
        session = await opening
        assert order.events == [("s1", "early"), ("s1", "a"), ("child", "b"), ("child", "c"), ("s1", "d")]
        assert [item.text for item in session.state.timeline if isinstance(item, Message)] == ["earlyad"]


async def test_an_update_that_cannot_be_read_is_reported_as_it_came(caplog: pytest.LogCaptureFixture) -> None:
    found: list[Any] = []
    async with client_and_agent(on_updates=lambda *values: found.append(values)) as (agent, line):
        await open_session(agent, line)
        line.send(
            line.update("s1", "of_the_future", anything=[1]),
            line.update("s1", "tool_call", title="without an id"),
            line.note("session/update", update={"sessionUpdate": "tool_call"}),
            line.chunk("s1", "a"),
        )
        line.send(line.request(1, "_none"))
        assert (await line.next())["error"]["code"] == -32601, "all before it was handled"
    assert len(found) == 3
    future = {"sessionUpdate": "of_the_future", "anything": [1]}
    broken = {"sessionUpdate": "tool_call", "title": "without an id"}
    assert [(id, list(updates)) for id, updates, _ in found[:2]] == [
        ("s1", [Unknown("of_the_future", future)]),
        ("s1", [Unknown("tool_call", broken)]),
    ]
    assert msgspec.json.decode(found[1][2][0])["params"]["update"] == broken
    assert "ignored an unreadable session/update" in caplog.text


async def test_what_fails_in_a_program_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with client_and_agent(extensions={"_x": fail}, on_updates=fail, on_extension=fail) as (agent, line):
        session = await open_session(agent, line)
        turn = asyncio.ensure_future(session.prompt("go"))
        request = await line.expect("session/prompt")
        end = line.result(request["id"], {"stopReason": "end_turn"})
        line.send(line.note("_x"), line.chunk("s1", "a"), line.note("_y"), line.request(5, "_x"), end)
        await turn
        assert session.state.text == "a"
        assert (await line.next())["error"] == {"code": -32603, "message": "Internal error"}
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(failures) == 4


async def test_a_plain_function_answers_a_request_before_what_came_behind_it_is_handled() -> None:
    order: list[str] = []

    def add(params: Any) -> int:
        order.append("request")
        return params["a"] + params["b"]  # type: ignore[no-any-return]  # JSON of the test

    def refuse(params: Any) -> None:
        raise RequestError.invalid_params("not that")

    async with client_and_agent(
        extensions={"_add": add, "_refuse": refuse, "_note": lambda params: order.append("note")}
    ) as (_, line):
        line.send(line.request(1, "_add", a=1, b=2), line.note("_note"), line.request(2, "_refuse"))
        answers = [await line.next(), await line.next()]
        assert order == ["request", "note"]
    by_id = {answer["id"]: answer for answer in answers}
    assert by_id[1]["result"] == 3
    assert by_id[2]["error"]["message"] == "not that"


async def test_a_coroutine_runs_in_a_task_whatever_kind_of_function_made_it() -> None:
    done: asyncio.Queue[str] = asyncio.Queue()
    go_on = asyncio.Event()

    async def slow(params: Any) -> str:
        await go_on.wait()
        done.put_nowait(params["name"])
        return "answer"

    def hidden(params: Any) -> Any:
        return slow(params)

    async with client_and_agent(
        extensions={"_slow": slow, "_hidden": hidden, "_quick": lambda params: go_on.set()}
    ) as (_, line):
        line.send(line.note("_slow", name="a"), line.note("_hidden", name="b"), line.request(1, "_hidden", name="c"))
        line.send(line.note("_quick"))
        assert (await line.next())["result"] == "answer"
        async with asyncio.timeout(60):
            assert {await done.get() for _ in range(3)} == {"a", "b", "c"}


async def test_a_coroutine_does_not_begin_for_a_request_that_is_cancelled_at_once() -> None:
    began: list[str] = []

    async def slow(params: Any) -> None:
        began.append("slow")

    async with client_and_agent(extensions={"_slow": slow}) as (_, line):
        line.send(line.request(1, "_slow"), line.note("$/cancel_request", requestId=1))
        assert (await line.next())["error"]["code"] == -32800
    assert began == []
