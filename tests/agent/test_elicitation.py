"""Asking the user for input."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.agent import Agent, ClientError, Context, Turn
from dragoman.errors import CapabilityError, LocalProtocolError
from dragoman.schema import Unknown, v1
from tests.agent.fixtures import Link, connected

SCHEMA = v1.ElicitationSchema(properties={"name": v1.StringPropertySchema(title="Name")}, required=["name"])
ON_WIRE = {"properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}
URL = "https://example.org/login"
BOTH: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


def _agent(act: Callable[[Turn], Awaitable[Any]], results: list[Any]) -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        try:
            results.append(await act(turn))
        except (ClientError, LocalProtocolError) as error:
            results.append(error)

    return agent


@pytest.mark.rule(302, 303, 312, 314)
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"action": "accept", "content": {"name": "Ada"}}, v1.AcceptElicitation({"name": "Ada"})),
        ({"action": "accept"}, v1.AcceptElicitation()),
        ({"action": "decline"}, v1.DeclineElicitation()),
        ({"action": "cancel"}, v1.CancelElicitation()),
    ],
)
async def test_a_form_is_answered_in_every_way(answer: object, expected: object, link: Link) -> None:
    results: list[Any] = []
    agent = _agent(lambda turn: turn.elicit("Who?", SCHEMA), results)
    async with connected(agent, link, BOTH) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        assert await line.answer_next("elicitation/create", answer) == {
            "mode": "form",
            "message": "Who?",
            "requestedSchema": ON_WIRE,
            "sessionId": session_id,
        }
        await line.answer_to(request_id)
    assert results == [expected]


@pytest.mark.rule(326)
async def test_an_unknown_action_is_none_of_the_known_ones() -> None:
    results: list[Any] = []
    async with connected(_agent(lambda turn: turn.elicit("Who?", SCHEMA), results), capabilities=BOTH) as line:
        line.prompt(await line.open())
        await line.answer_next("elicitation/create", {"action": "_maybe", "content": {"name": "x"}})
        await line.next()
    assert isinstance(results[0], Unknown)


@pytest.mark.rule(302, 304)
async def test_a_page_belongs_to_the_tool_call_that_needs_it_and_is_reported_when_done(link: Link) -> None:
    results: list[Any] = []

    async def act(turn: Turn) -> object:
        async with turn.tool("Log in", id="c") as call:
            answer = await turn.elicit("Please log in", url=URL, elicitation_id="e1", tool_call=call)
            await turn.session.client.complete_elicitation("e1")
            return answer

    async with connected(_agent(act, results), link, BOTH) as line:
        session_id = await line.open()
        line.prompt(session_id)
        await line.next()
        await line.next()
        assert await line.answer_next("elicitation/create", {"action": "accept"}) == {
            "mode": "url",
            "message": "Please log in",
            "elicitationId": "e1",
            "url": URL,
            "sessionId": session_id,
            "toolCallId": "c",
        }
        assert (await line.expect("elicitation/complete"))["params"] == {"elicitationId": "e1"}
    assert results == [v1.AcceptElicitation()]


@pytest.mark.rule(298, 299, 300)
@pytest.mark.parametrize(
    "capabilities",
    [{}, {"elicitation": {}}, {"elicitation": None}, {"elicitation": {"form": None}}, {"elicitation": {"url": {}}}],
)
async def test_a_form_that_was_not_offered_is_refused_here_and_the_turn_goes_on(capabilities: dict[str, Any]) -> None:
    results: list[Any] = []
    agent = _agent(lambda turn: turn.elicit("Who?", SCHEMA), results)
    async with connected(agent, capabilities=capabilities) as line:
        _, answer = await line.turn(await line.open())
        assert answer["result"] == {"stopReason": "end_turn"}
    assert isinstance(results[0], CapabilityError)


@pytest.mark.rule(298, 299)
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_a_page_that_was_not_offered_is_refused_here(capabilities: dict[str, Any]) -> None:
    results: list[Any] = []
    agent = _agent(lambda turn: turn.elicit("Go", url=URL), results)
    async with connected(agent, capabilities=capabilities) as line:
        await line.turn(await line.open())
    assert isinstance(results[0], CapabilityError)


@pytest.mark.rule(302)
@pytest.mark.parametrize("arguments", [{}, {"schema": SCHEMA, "url": URL}])
async def test_a_question_has_exactly_one_mode(arguments: dict[str, Any]) -> None:
    results: list[Any] = []
    async with connected(_agent(lambda turn: turn.elicit("?", **arguments), results), capabilities=BOTH) as line:
        await line.turn(await line.open())
    assert isinstance(results[0], LocalProtocolError)


@pytest.mark.rule(316)
async def test_an_id_is_free_again_only_when_its_page_is_done_with() -> None:
    results: list[Any] = []
    agent = _agent(lambda turn: turn.elicit("Go", url=URL, elicitation_id="e"), results)
    async with connected(agent, capabilities=BOTH) as line:
        session_id = await line.open()
        line.prompt(session_id)
        await line.answer_next("elicitation/create", {"action": "decline"})
        await line.next()
        line.prompt(session_id)
        await line.answer_next("elicitation/create", {"action": "accept"})
        await line.next()
        await line.turn(session_id)
    assert isinstance(results[2], LocalProtocolError)
    assert "'e'" in str(results[2])


@pytest.mark.rule(316)
async def test_pages_get_ids_of_their_own() -> None:
    results: list[Any] = []

    async def act(turn: Turn) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(turn.elicit("Go", url=URL))

    async with connected(_agent(act, results), capabilities=BOTH) as line:
        line.prompt(await line.open())
        ids = {(await line.answer_next("elicitation/create", {"action": "cancel"}))["elicitationId"] for _ in range(3)}
        assert len(ids) == 3
        await line.next()


@pytest.mark.rule(301, 314)
async def test_a_failed_question_can_be_caught() -> None:
    results: list[Any] = []
    async with connected(_agent(lambda turn: turn.elicit("Who?", SCHEMA), results), capabilities=BOTH) as line:
        line.prompt(await line.open())
        await line.refuse("elicitation/create", -32602)
        assert (await line.next())["result"] == {"stopReason": "end_turn"}
    assert results[0].code == -32602


async def test_the_handler_of_a_notification_cannot_ask_the_user() -> None:
    agent = Agent("test")
    failures: list[Exception] = []
    done = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.notification("_x/note")
    async def note(params: Any, context: Context) -> None:
        try:
            await context.elicit("Who?", SCHEMA)
        except LocalProtocolError as error:
            failures.append(error)
        done.set()

    async with connected(agent, capabilities=BOTH) as line:
        line.notify("_x/note")
        async with asyncio.timeout(60):
            await done.wait()
    assert "notification" in str(failures[0])
