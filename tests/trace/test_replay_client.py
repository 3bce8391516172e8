"""A recording played as a client: it drives an agent as recorded, and says what the agent did otherwise."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.agent import Agent, Turn
from dragoman.errors import RequestError
from dragoman.testing import scripted_agent
from dragoman.trace import Difference, Trace
from tests.trace.replay_kit import HELLO, everything, fake_client, kinds_of, prompts, record, replay_client, script


async def test_the_same_agent_shows_no_difference() -> None:
    trace = await record(scripted_agent(), everything)
    assert await replay_client(trace, scripted_agent()) == []


async def test_an_agent_that_went_another_way_shows_only_where() -> None:
    trace = await record(scripted_agent(), prompts("think", "tool", "plan"))
    other = scripted_agent()
    other.info = type(other.info)("another", "9.9")
    differences = await replay_client(trace, other)
    assert kinds_of(differences) == [
        ("changed", "initialize", "result.agentInfo.name"),
        ("changed", "initialize", "result.agentInfo.title"),
    ]


def speaker(*words: str, stop_reason: str = "end_turn") -> Agent:
    agent = Agent("speaker", version="1")

    @agent.prompt
    async def reply(turn: Turn) -> str:
        for word in words:
            await turn.say(word)
        return stop_reason

    return agent


@pytest.fixture(scope="module")
def spoken() -> Trace:
    return asyncio.run(record(speaker("one", "two", "three"), prompts("go", "on")))


TEXT = "params.update.content.text"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("one", "two", "three"), []),
        (("one", "TWO", "three"), [("changed", "session/update", TEXT)]),
        (("one", "two", "three", "four"), [("unexpected", "session/update", "")]),
        (("one", "two and a half", "two", "three"), [("unexpected", "session/update", "")]),
        (("one", "three"), [("missing", "session/update", "")]),
        (("two", "one", "three"), [("order", "session/update", "")]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) and value and isinstance(value[0], str) else "",
)
async def test_one_change_in_each_turn_is_one_difference_for_each(
    words: tuple[str, ...], expected: list[tuple[str, str, str]], spoken: Trace
) -> None:
    differences = await replay_client(spoken, speaker(*words))
    assert sorted(kinds_of(differences)) == sorted(expected * 2)


async def test_another_stop_reason_is_the_difference(spoken: Trace) -> None:
    differences = await replay_client(spoken, speaker("one", "two", "three", stop_reason="refusal"))
    assert [(each.path, each.recorded, each.came) for each in differences] == [
        ("result.stopReason", "end_turn", "refusal")
    ] * 2


async def test_an_error_instead_of_an_answer_is_a_difference_and_the_next_prompt_follows(spoken: Trace) -> None:
    agent = Agent("failing", version="1")
    asked = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        asked.append(turn.text)
        raise RequestError.internal_error("no")

    differences = await replay_client(spoken, agent)
    assert asked == ["go", "on"]
    assert ("changed", "session/prompt", "error") in kinds_of(differences)
    assert ("changed", "session/prompt", "result") in kinds_of(differences)


async def test_the_recorded_answers_are_given_to_what_the_agent_asks() -> None:
    trace = await record(scripted_agent(), prompts("permission", "fs", "elicitation", "extension"))
    assert await replay_client(trace, scripted_agent()) == []


async def test_a_question_that_was_not_recorded_is_refused_and_the_one_difference() -> None:
    def asking(ask: bool) -> Agent:
        agent = Agent("asking", version="1")

        @agent.prompt
        async def reply(turn: Turn) -> None:
            if ask:
                with pytest.raises(RequestError, match="the recording has no fs/read_text_file"):
                    await turn.read_file("/a")
            await turn.say("done")

        return agent

    trace = await record(asking(False), prompts("go"))
    assert kinds_of(await replay_client(trace, asking(True))) == [("unexpected", "fs/read_text_file", "")]


async def test_a_cancel_is_sent_where_it_was_recorded() -> None:
    async with fake_client(
        script(
            '> {"id":1,"method":"session/prompt","params":{"sessionId":"s"}}',
            '< {"method":"session/update","params":{"sessionId":"s","update":{"n":1}}}',
            '> {"method":"session/cancel","params":{"sessionId":"s"}}',
            '< {"id":1,"result":{"stopReason":"cancelled"}}',
        )
    ) as (wire, driving):
        assert (await wire.receive())["method"] == "session/prompt"
        for _ in range(20):
            await asyncio.sleep(0)
        assert wire.lines == []
        wire.send(method="session/update", params={"sessionId": "s", "update": {"n": 1}})
        assert (await wire.receive())["method"] == "session/cancel"
        wire.send(id=1, result={"stopReason": "cancelled"})
        assert await driving == []


async def test_a_question_that_does_not_come_takes_only_its_answer_along() -> None:
    trace = script(
        '> {"id":1,"method":"session/prompt","params":{"sessionId":"s"}}',
        '< {"id":9,"method":"session/request_permission","params":{"sessionId":"s"}}',
        '> {"method":"session/cancel","params":{"sessionId":"s"}}',
        '> {"id":9,"result":{"outcome":{"outcome":"cancelled"}}}',
        '< {"id":1,"result":{"stopReason":"cancelled"}}',
    )
    async with fake_client(trace, patience_seconds=0.5) as (wire, driving):
        assert (await wire.receive())["method"] == "session/prompt"
        assert (await wire.receive())["method"] == "session/cancel"
        wire.send(id="late", method="session/request_permission", params={"sessionId": "s"})
        assert (await wire.receive())["id"] == "late"
        wire.send(id=1, result={"stopReason": "cancelled"})
        assert await driving == []


async def test_ids_the_agent_makes_up_are_used_towards_it() -> None:
    async with fake_client(
        script(
            '> {"id":1,"method":"session/new","params":{"cwd":"/"}}',
            '< {"id":1,"result":{"sessionId":"recorded"}}',
            '> {"id":2,"method":"session/prompt","params":{"sessionId":"recorded","prompt":[]}}',
            '< {"id":"r","method":"session/request_permission","params":{"sessionId":"recorded"}}',
            '> {"id":"r","result":{"outcome":{"outcome":"cancelled"}}}',
            '< {"id":2,"result":{}}',
        )
    ) as (wire, driving):
        asked = await wire.receive()
        wire.send(id=asked["id"], result={"sessionId": "live"})
        asked = await wire.receive()
        assert asked["params"]["sessionId"] == "live"
        wire.send(id=77, method="session/request_permission", params={"sessionId": "live"})
        assert await wire.receive() == {
            "jsonrpc": "2.0",
            "id": 77,
            "result": {"outcome": {"outcome": "cancelled"}},
        }
        wire.send(id=asked["id"], result={})
        assert await driving == []


async def test_an_agent_that_leaves_is_missed() -> None:
    async with fake_client(script(*HELLO, '> {"id":2,"method":"session/new","params":{}}')) as (wire, driving):
        await wire.receive()
        wire.transport.close()
        assert kinds_of(await driving) == [("missing", "initialize", "")]


async def test_an_agent_that_never_answers_is_given_up() -> None:
    trace = script(*HELLO, '> {"id":2,"method":"session/list","params":{}}', '< {"id":2,"result":{}}')
    async with fake_client(trace, patience_seconds=0.5) as (wire, driving):
        assert (await wire.receive())["method"] == "initialize"
        assert (await wire.receive())["method"] == "session/list"
        wire.send(id=2, result={})
        assert kinds_of(await driving) == [("missing", "initialize", "")]


async def test_a_missing_update_does_not_delay_the_next_request_forever() -> None:
    trace = script(
        *HELLO,
        '< {"method":"session/update","params":{"sessionId":"s","update":{}}}',
        '> {"id":2,"method":"session/list","params":{}}',
        '< {"id":2,"result":{}}',
    )
    async with fake_client(trace, patience_seconds=0.5) as (wire, driving):
        wire.send(id=(await wire.receive())["id"], result={"protocolVersion": 1})
        wire.send(id=(await wire.receive())["id"], result={})
        assert kinds_of(await driving) == [("missing", "session/update", "")]


async def test_many_updates_that_do_not_come_are_waited_for_once() -> None:
    """A hundred times a second would be more than this test may take."""
    update = '< {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"u%d"}}}'
    trace = script('> {"id":1,"method":"session/prompt","params":{"sessionId":"s"}}', *(update % n for n in range(100)))
    async with asyncio.timeout(60), fake_client(trace, patience_seconds=1.0) as (wire, driving):
        assert (await wire.receive())["method"] == "session/prompt"
        assert kinds_of(await driving) == [("missing", "session/update", "")] * 100


async def test_a_recorded_answer_to_nothing_is_not_waited_for() -> None:
    trace = script(*HELLO, '< {"id":"x","result":{}}', '> {"id":2,"method":"session/list","params":{}}')
    async with asyncio.timeout(25), fake_client(trace) as (wire, driving):
        wire.send(id=(await wire.receive())["id"], result={"protocolVersion": 1})
        assert (await wire.receive())["method"] == "session/list"
        assert kinds_of(await driving) == [("missing", "", "")]


async def test_an_empty_recording_says_nothing_and_ends() -> None:
    async with fake_client(script()) as (wire, driving):
        assert await driving == []
        await wire.wait_end()
        assert wire.lines == []


def test_a_difference_is_one_readable_line() -> None:
    def line_of(**members: object) -> str:
        known = {"what": "changed", "dir": "a2c", "method": "m", "kind": "response", "number": 3}
        return str(Difference(**{**known, **members}))  # type: ignore[arg-type]

    assert line_of(path="result.a", recorded={"b": 1}) == (
        'changed: answer to m (#3): result.a: recorded {"b":1}, came nothing'
    )
    assert line_of(what="missing", kind="notification") == "missing: notification m (#3) did not come"
    assert line_of(what="order", kind="request") == "order: request m (#3) came later than recorded"
    assert line_of(what="unexpected", kind="raw", number=None, came="x" * 100) == (
        f'unexpected: a line that is not a message: "{"x" * 56}...'
    )
