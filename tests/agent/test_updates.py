"""What a turn tells: every verb, as it stands on the wire, and what may not be sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.errors import CapabilityError, LocalProtocolError
from dragoman.schema import Unknown, v1
from tests.agent.fixtures import EVERYTHING, NOTHING, Link, connected

Act = Callable[[Turn], Awaitable[object]]


async def _shown(
    act: Act, *, capabilities: dict[str, Any] | None = None, unstable: bool = False, link: Link | None = None
) -> list[dict[str, Any]]:
    """The updates of a turn that does one thing."""
    agent = Agent("test", unstable=unstable)
    failures: list[BaseException] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        try:
            await act(turn)
        except Exception as error:
            failures.append(error)

    arguments = {} if link is None else {"link": link}
    async with connected(agent, capabilities=EVERYTHING if capabilities is None else capabilities, **arguments) as line:
        updates, answer = await line.turn(await line.open())
        assert answer["result"] == {"stopReason": "end_turn"}
    if failures:
        assert updates == []
        raise failures[0]
    return updates


TEXT = {"type": "text", "text": 'a "quoted" \u2028 line\n'}


@pytest.mark.rule(5, 210, 211, 212, 213, 230)
async def test_say_and_think_send_one_block_each(link: Link) -> None:
    async def act(turn: Turn) -> None:
        await turn.say('a "quoted" \u2028 line\n')
        await turn.think('a "quoted" \u2028 line\n')
        await turn.say(v1.TextContent('a "quoted" \u2028 line\n'), message_id="m1")
        await turn.think("b", message_id="m2")
        await turn.say(v1.ImageContent("aGk=", "image/png"))

    assert await _shown(act, link=link) == [
        {"sessionUpdate": "agent_message_chunk", "content": TEXT},
        {"sessionUpdate": "agent_thought_chunk", "content": TEXT},
        {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m1"},
        {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "b"}, "messageId": "m2"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
    ]


@pytest.mark.rule(1)
async def test_a_lone_surrogate_is_replaced_and_costs_nothing_else() -> None:
    updates = await _shown(lambda turn: turn.say("a\ud800b"))
    assert updates[0]["content"]["text"] == "a\ufffdb"


@pytest.mark.rule(262, 263, 264, 265)
async def test_a_plan_is_sent_whole_from_entries_pairs_or_words() -> None:
    updates = await _shown(lambda turn: turn.plan([v1.PlanEntry("a", "high", "completed"), ("b", "in_progress"), "c"]))
    assert updates == [
        {
            "sessionUpdate": "plan",
            "entries": [
                {"content": "a", "priority": "high", "status": "completed"},
                {"content": "b", "priority": "medium", "status": "in_progress"},
                {"content": "c", "priority": "medium", "status": "pending"},
            ],
        }
    ]


@pytest.mark.rule(214, 215, 216)
async def test_usage_carries_the_cost_if_there_is_one() -> None:
    async def act(turn: Turn) -> None:
        await turn.usage(10, 100)
        await turn.usage(20, 100, (0.5, "EUR"))
        await turn.usage(30, 100, v1.Cost(1, "USD"))

    assert await _shown(act) == [
        {"sessionUpdate": "usage_update", "used": 10, "size": 100},
        {"sessionUpdate": "usage_update", "used": 20, "size": 100, "cost": {"amount": 0.5, "currency": "EUR"}},
        {"sessionUpdate": "usage_update", "used": 30, "size": 100, "cost": {"amount": 1, "currency": "USD"}},
    ]


@pytest.mark.rule(215, 216)
@pytest.mark.parametrize(
    "act",
    [
        lambda turn: turn.usage(-1, 100),
        lambda turn: turn.usage(1, -100),
        lambda turn: turn.usage(1, 100, (1.0, "euro")),
        lambda turn: turn.usage(1, 100, (1.0, "eur")),
        lambda turn: turn.usage(1, 100, v1.Cost(1.0, "€€€")),
    ],
)
async def test_usage_that_makes_no_sense_is_refused(act: Act) -> None:
    with pytest.raises(LocalProtocolError):
        await _shown(act)


@pytest.mark.rule(217, 218, 268, 269)
async def test_commands_and_titles() -> None:
    async def act(turn: Turn) -> None:
        await turn.commands(
            [("help", "Shows help"), v1.AvailableCommand("go", "Goes", v1.UnstructuredCommandInput("where"))]
        )
        await turn.title("A title")
        await turn.title(None)

    assert await _shown(act) == [
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [
                {"name": "help", "description": "Shows help"},
                {"name": "go", "description": "Goes", "input": {"hint": "where"}},
            ],
        },
        {"sessionUpdate": "session_info_update", "title": "A title"},
        {"sessionUpdate": "session_info_update", "title": None},
    ]


@pytest.mark.rule(62, 219)
async def test_a_notice_is_sent_where_it_is_shown_and_else_says_that_it_was_not() -> None:
    results: list[bool] = []

    async def act(turn: Turn) -> None:
        results.append(await turn.notice("warning", "Careful", "It is hot"))

    assert await _shown(act) == [
        {"sessionUpdate": "notice", "severity": "warning", "title": "Careful", "description": "It is hot"}
    ]
    assert await _shown(act, capabilities=NOTHING) == []
    assert results == [True, False]
    with pytest.raises(LocalProtocolError, match="title"):
        await _shown(lambda turn: turn.notice("info", ""))


async def test_several_updates_are_sent_in_order_without_those_the_client_cannot_show() -> None:
    updates: list[v1.SessionUpdate] = [
        v1.UserMessageChunk(v1.TextContent("a")),
        v1.Notice("info", "b"),
        v1.AgentMessageChunk(v1.TextContent("c")),
    ]

    async def act(turn: Turn) -> None:
        await turn.update_all(updates)

    kinds = ["user_message_chunk", "notice", "agent_message_chunk"]
    assert [update["sessionUpdate"] for update in await _shown(act)] == kinds
    assert [update["sessionUpdate"] for update in await _shown(act, capabilities=NOTHING)] == [kinds[0], kinds[2]]
    with pytest.raises(LocalProtocolError, match="not a session update"):
        await _shown(lambda turn: turn.update_all(["text"]))  # type: ignore[list-item]  # what is tested


GATED: list[v1.SessionUpdate] = [
    v1.Notice("info", "Hello"),
    v1.CompactionUpdate("c", "in_progress"),
    v1.CompactionSummaryChunk("c", v1.TextContent("short")),
]


@pytest.mark.rule(62, 63, 222)
@pytest.mark.parametrize("update", GATED, ids=lambda update: type(update).__name__)
async def test_an_update_the_client_did_not_ask_for_is_refused_here(update: v1.SessionUpdate) -> None:
    assert len(await _shown(lambda turn: turn.update(update))) == 1
    with pytest.raises(CapabilityError, match=type(update).__name__):
        await _shown(lambda turn: turn.update(update), capabilities={"session": {"notices": None}})


UNSTABLE = [
    (v1.PlanUpdate(v1.PlanMarkdown("p", "# Plan")), "plan"),
    (v1.PlanRemoved("p"), "plan"),
    (v1.SubagentUpdate("child"), "subagents"),
    (v1.SessionMessage("m"), "subagents"),
    (v1.SessionMessageChunk("m", v1.TextContent("x")), "subagents"),
]


@pytest.mark.parametrize(("update", "gate"), UNSTABLE, ids=lambda each: type(each).__name__)
async def test_an_unstable_update_needs_both_sides_to_want_it(update: v1.SessionUpdate, gate: str) -> None:
    offered: dict[str, Any] = {gate: {}}
    assert len(await _shown(lambda turn: turn.update(update), capabilities=offered, unstable=True)) == 1
    with pytest.raises(CapabilityError, match=gate):
        await _shown(lambda turn: turn.update(update), capabilities=NOTHING, unstable=True)
    with pytest.raises(LocalProtocolError, match="unstable=True"):
        await _shown(lambda turn: turn.update(update), capabilities=offered)


@pytest.mark.parametrize("update", [v1.TextContent("x"), v1.ToolCallPatch("x"), "text", None, {"sessionUpdate": "x"}])
async def test_what_is_not_an_update_is_refused(update: Any) -> None:
    with pytest.raises(LocalProtocolError, match="not a session update"):
        await _shown(lambda turn: turn.update(update))


async def test_what_is_not_content_is_refused() -> None:
    strange: Any = v1.Plan([])
    with pytest.raises(LocalProtocolError, match="not a content block"):
        await _shown(lambda turn: turn.say(strange))


async def test_an_unknown_update_is_passed_on_as_it_is() -> None:
    raw = {"sessionUpdate": "applause", "hands": 2}
    assert await _shown(lambda turn: turn.update(Unknown("applause", raw))) == [raw]


@pytest.mark.rule(246, 248)
@pytest.mark.parametrize(
    "update",
    [
        v1.ToolCall("c", "Edit", content=[v1.Diff("src/a.py", "new")]),
        v1.ToolCallUpdate("c", content=[v1.Content(v1.TextContent("x")), v1.Diff("a.py", "new")]),
        v1.ToolCall("c", "Edit", locations=[v1.ToolCallLocation("/ok"), v1.ToolCallLocation("a.py", 3)]),
        v1.ToolCallUpdate("c", locations=[v1.ToolCallLocation("./a.py")]),
    ],
)
async def test_a_relative_path_in_a_tool_call_is_refused(update: v1.SessionUpdate) -> None:
    with pytest.raises(LocalProtocolError, match="absolute"):
        await _shown(lambda turn: turn.update(update))


async def test_every_stable_update_can_be_sent_to_a_client_that_wants_everything() -> None:
    block = v1.TextContent("x")
    updates: list[v1.SessionUpdate] = [
        v1.UserMessageChunk(block),
        v1.AgentMessageChunk(block),
        v1.AgentThoughtChunk(block),
        v1.ToolCall("c", "Title"),
        v1.ToolCallUpdate("c", content=None, locations=None),
        v1.Plan([]),
        v1.AvailableCommandsUpdate([]),
        v1.CurrentModeUpdate("free"),
        v1.ConfigOptionUpdate([]),
        v1.SessionInfoUpdate(),
        v1.UsageUpdate(1, 2),
        *GATED,
    ]

    async def act(turn: Turn) -> None:
        for update in updates:
            await turn.update(update)

    tags = [update["sessionUpdate"] for update in await _shown(act)]
    assert len(set(tags)) == len(updates) == 14
