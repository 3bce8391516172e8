"""A text that was sent is in the conversation, in the queue, or back where the user types: it is never lost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.local_host.loaded_turns import LoadedTurns
from tests.tui.test_turn_order import Place, Remembering, Wire, connected, ended, started, talk_over

TAKEN = v1.PromptResponse("end_turn", meta={"dragoman": {"isTaken": True}})


async def test_steered_text_is_before_those_that_wait_until_the_agent_takes_it() -> None:
    conversation, interface, wire = await connected()
    first, second = conversation.prompts
    conversation.turn_started(started(first.id))
    added = conversation.steer("use [paste]", "use tabs")
    assert conversation.queued == [added, second]
    assert not conversation.take_back(added), "the agent has it"
    await wire.sends(3)
    assert wire.sent[2].meta["dragoman"]["steer"] is True
    assert wire.sent[2].prompt == [v1.TextContent("use tabs")]
    wire.waiting[2][0](TAKEN)
    assert (conversation.prompts, interface.ends, interface.back) == ([first, second], [], [])
    assert interface.notes == ["added to the turn that runs"]
    await talk_over(conversation)


async def test_steered_text_that_was_not_taken_is_the_next_prompt() -> None:
    conversation, interface, wire = await connected()
    first, second = conversation.prompts
    conversation.turn_started(started(first.id))
    added = conversation.steer("use tabs")
    await wire.sends(3)
    wire.waiting[0][0](v1.PromptResponse("cancelled"))
    assert conversation.queued == [added, second]
    assert "it is the next prompt" in interface.notes[-1]
    assert conversation.take_back(second), "a prompt that waits"
    conversation.turn_started(started(added.id))
    assert added.has_started
    wire.waiting[2][0](v1.PromptResponse("end_turn"))
    assert [reason for reason, _ in interface.ends] == ["cancelled", "end_turn"]
    await talk_over(conversation)


@pytest.mark.parametrize("reason", ["not_run", "queue_full", "forbidden", None])
async def test_a_prompt_that_the_host_refused_is_given_back_and_the_turn_goes_on(reason: str | None) -> None:
    conversation, interface, wire = await connected()
    first = conversation.prompts[0]
    conversation.turn_started(started(first.id))
    wire.waiting[1][1](RequestError(-32603, "not now", {"reason": reason} if reason else None))
    assert interface.back == [("second", "not now")]
    assert (conversation.prompts, interface.ends) == ([first], [])
    assert conversation.state.is_running, "the end of the other prompt is not the end of this turn"
    await talk_over(conversation)


async def test_a_prompt_that_was_cancelled_before_its_turn_is_given_back() -> None:
    conversation, interface, wire = await connected()
    conversation.turn_started(started("of another client"))
    wire.waiting[0][0](v1.PromptResponse("cancelled"))
    assert interface.back == [("first", "it was cancelled before its turn")]
    assert conversation.is_foreign_turn
    conversation.turn_ended(ended("of another client", "end_turn"))
    assert not conversation.is_running
    await talk_over(conversation)


@pytest.mark.parametrize("goes", ["leave", "dismiss", "switch"])
async def test_a_prompt_that_no_session_ran_is_given_back_when_none_will(goes: str) -> None:
    conversation, interface, wire = await connected()
    wire.waiting[0][1](RequestError(-32603, "its agent ended", {"reason": "agent_lost"}))
    assert interface.back == [], "the card offers a new session for it"
    assert conversation.trouble is not None
    if goes == "leave":
        await conversation.leave()
    elif goes == "switch":
        await conversation.switch(None)
    else:
        conversation.dismiss_trouble()
    assert [text for text, _ in interface.back] == ["first"]
    await talk_over(conversation)
    assert [text for text, _ in interface.back] == ["first"], "once"


async def test_what_waits_for_a_session_is_given_back_when_the_client_is_left() -> None:
    interface = Remembering()
    conversation = HostedConversation(Place(), interface)
    for text in ("one", "two"):
        conversation.send(text)
    await conversation.leave()
    assert [text for text, _ in interface.back] == ["two", "one"], "each is put before the one before"


async def test_after_a_host_was_lost_only_what_has_no_turn_is_given_back() -> None:
    interface, wire = Remembering(), Wire()
    conversation = HostedConversation(Place(), interface)
    ran, waited = conversation.send("ran"), conversation.send("waited")
    conversation._remote, conversation._session = wire, SimpleNamespace(id="s")  # type: ignore[assignment]
    conversation._sent.send_again(LoadedTurns([{"promptId": ran.id}]))
    await wire.sends(2)
    wire.waiting[0][1](RequestError(-32603, "the host ended", {"reason": "interrupted"}))
    wire.waiting[1][1](RequestError(-32603, "the host ended before the turn", {"reason": "not_run"}))
    assert interface.back == [("waited", "the host ended before the turn")]
    assert not conversation.state.messages, "it is in the history that was loaded, and not a second time"
    assert waited not in conversation.prompts
    await talk_over(conversation)


async def test_the_turn_of_a_prompt_that_was_taken_back_does_not_count_as_running() -> None:
    """The host may begin it before it gets the message: no answer to it comes here, so that its end is not known."""
    conversation, interface, _ = await connected()
    first = conversation.prompts[0]
    assert conversation.stop() is not None
    assert (conversation.prompts, interface.back) == ([], [("first\nsecond", "the turn was stopped")])
    running = []
    for id in (first.id, "of-another-client"):
        conversation.turn_started(started(id))
        running.append(conversation.is_running)
    assert running == [False, True]
    await talk_over(conversation)
