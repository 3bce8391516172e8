"""Child sessions and messages between sessions."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.schema.v1 import (
    RunningStateUpdate,
    SessionMessage,
    SessionMessageChunk,
    SubagentSessionCapabilities,
    SubagentUpdate,
)
from dragoman.state import SubagentState
from tests.state.make import agent, folded, in_turn, text

FULL: dict[str, Any] = {
    "title": "Explorer",
    "description": "looks around",
    "capabilities": SubagentSessionCapabilities(),
    "state": RunningStateUpdate(),
    "cwd": "/w",
    "meta": {"m": 1},
}


def test_a_child_is_known_by_its_first_update() -> None:
    state = in_turn(SubagentUpdate("child"))
    assert state.subagents["child"] == SubagentState("child", position=1, turn=0)
    assert state.timeline[1] is state.subagents["child"]


@pytest.mark.parametrize("member", FULL)
def test_members_are_patches(member: str) -> None:
    state = folded(SubagentUpdate("child", **FULL, additional_directories=["/x"]))
    whole = state.subagents["child"]
    assert {name: getattr(whole, name) for name in FULL} == FULL
    folded(SubagentUpdate("child", **{member: None}), into=state)
    assert {name: getattr(state.subagents["child"], name) for name in FULL} == {**FULL, member: None}
    assert state.subagents["child"].additional_directories == ("/x",)
    assert state.subagents["child"].revision > whole.revision
    assert len(state.timeline) == 1


def test_no_directories_and_no_word_about_them_differ() -> None:
    state = folded(SubagentUpdate("child", additional_directories=[]))
    assert state.subagents["child"].additional_directories == ()
    folded(SubagentUpdate("child", additional_directories=None), into=state)
    assert state.subagents["child"].additional_directories is None


def test_a_message_between_sessions_gathers_content_and_participants_in_any_order() -> None:
    state = folded(
        SessionMessageChunk("m", text("a"), meta={"of": "the chunk"}),
        SessionMessage("m", sender_session_id="p", recipient_session_id="c"),
        SessionMessageChunk("m", text("b")),
        SessionMessage("m", sender_message_id="1", recipient_message_id="2", meta={"k": 1}),
    )
    message = state.session_messages["m"]
    assert (message.message_id, message.text, message.meta) == ("m", "ab", {"k": 1})
    assert (message.sender_session_id, message.recipient_session_id) == ("p", "c")
    assert (message.sender_message_id, message.recipient_message_id) == ("1", "2")
    assert state.timeline[0] is message
    assert repr(message) == "SessionMessageState('m', 'ab')"


def test_an_upsert_replaces_or_clears_what_it_names() -> None:
    state = folded(SessionMessage("m", sender_session_id="p", content=[text("a")]))
    message = state.session_messages["m"]
    before = message.revision
    folded(SessionMessage("m", content=[text("b")]), into=state)
    assert (message.text, message.sender_session_id) == ("b", "p")
    folded(SessionMessage("m", sender_session_id=None, content=None), into=state)
    assert (message.text, message.sender_session_id) == ("", None)
    assert message.revision > before


def test_a_child_does_not_split_a_message() -> None:
    state = in_turn(agent("a"), SubagentUpdate("child"), agent("b"))
    assert state.text == "ab"
    assert len(state.turns[0].messages) == 1
