"""No sequence of valid updates makes the fold raise, and no text is lost."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.schema import UNSET, Unknown, v1
from dragoman.schema.v1 import AgentMessageChunk, AgentThoughtChunk, ContentBlock, SessionUpdate, UserMessageChunk
from dragoman.state import CompactionState, Message, SessionMessageState, SessionState, fold

IDS = st.sampled_from(["a", "b", "c"])
META = st.none() | st.just(UNSET) | st.just({"k": 1})
BLOCKS: st.SearchStrategy[ContentBlock] = st.one_of(
    st.builds(v1.TextContent, st.text(max_size=5)),
    st.builds(v1.TextContent, st.text(max_size=5), meta=st.just({"k": 1})),
    st.just(v1.ImageContent("AA==", "image/png")),
    st.just(Unknown("hologram", {"type": "hologram"})),
)
SOME_BLOCKS = st.none() | st.just(UNSET) | st.lists(BLOCKS, max_size=3)
TEXTS = st.none() | st.just(UNSET) | st.text(max_size=3)
STATUSES = st.sampled_from(["pending", "in_progress", "completed", "failed", "_x"])
PIECES = st.none() | st.just(UNSET) | st.lists(st.builds(v1.Diff, st.just("/a"), st.just("new")), max_size=2)
ENTRIES = st.lists(st.builds(v1.PlanEntry, st.text(max_size=3), st.just("low"), st.just("pending")), max_size=3)
OPTIONS = st.lists(
    st.one_of(
        st.builds(
            v1.SessionConfigSelect,
            st.just("mode"),
            st.just("Mode"),
            IDS,
            st.lists(st.builds(v1.SessionConfigSelectOption, IDS, st.just("n")), max_size=3),
            category=st.sampled_from(["mode", "model", None]),
        ),
        st.builds(v1.SessionConfigBoolean, IDS, st.just("n"), st.booleans(), category=st.just("mode")),
        st.just(Unknown("slider", {"type": "slider"})),
    ),
    max_size=3,
)
UPDATES: dict[type, st.SearchStrategy[Any]] = {
    kind: st.builds(kind, BLOCKS, st.none() | st.just(UNSET) | IDS, META)
    for kind in (UserMessageChunk, AgentMessageChunk, AgentThoughtChunk)
} | {
    v1.ToolCall: st.builds(
        v1.ToolCall, IDS, st.text(max_size=3), name=TEXTS, status=st.just(UNSET) | STATUSES,
        content=PIECES.filter(lambda pieces: pieces is not None),
    ),
    v1.ToolCallUpdate: st.builds(
        v1.ToolCallUpdate, IDS, status=st.none() | st.just(UNSET) | STATUSES, title=TEXTS, content=PIECES, meta=META
    ),
    v1.Plan: st.builds(v1.Plan, ENTRIES),
    v1.PlanUpdate: st.builds(
        v1.PlanUpdate,
        st.one_of(
            st.builds(v1.PlanItems, IDS, ENTRIES),
            st.builds(v1.PlanFile, IDS, st.just("file:///p")),
            st.builds(v1.PlanMarkdown, IDS, st.text(max_size=3)),
            st.builds(Unknown, st.just("graph"), st.sampled_from([{"planId": "a"}, {"planId": None}, {}])),
        ),
    ),
    v1.PlanRemoved: st.builds(v1.PlanRemoved, IDS),
    v1.AvailableCommandsUpdate: st.builds(
        v1.AvailableCommandsUpdate, st.lists(st.builds(v1.AvailableCommand, IDS, st.just("d")), max_size=2)
    ),
    v1.CurrentModeUpdate: st.builds(v1.CurrentModeUpdate, IDS),
    v1.ConfigOptionUpdate: st.builds(v1.ConfigOptionUpdate, OPTIONS),
    v1.SessionInfoUpdate: st.builds(v1.SessionInfoUpdate, title=TEXTS, updated_at=TEXTS, meta=META),
    v1.UsageUpdate: st.builds(
        v1.UsageUpdate, st.just(1), st.just(2), st.none() | st.just(UNSET) | st.just(v1.Cost(1.0, "USD"))
    ),
    v1.Notice: st.builds(v1.Notice, st.sampled_from(["info", "_x"]), st.just("t"), TEXTS),
    v1.CompactionUpdate: st.builds(
        v1.CompactionUpdate, IDS, STATUSES | st.just("cancelled"), summary=SOME_BLOCKS, error=TEXTS, meta=META
    ),
    v1.CompactionSummaryChunk: st.builds(v1.CompactionSummaryChunk, IDS, BLOCKS, META),
    v1.SubagentUpdate: st.builds(
        v1.SubagentUpdate, IDS, title=TEXTS, state=st.none() | st.just(UNSET) | st.just(v1.RunningStateUpdate()),
        additional_directories=st.none() | st.just(UNSET) | st.lists(st.just("/d"), max_size=2),
    ),
    v1.SessionMessage: st.builds(v1.SessionMessage, IDS, sender_session_id=TEXTS, content=SOME_BLOCKS, meta=META),
    v1.SessionMessageChunk: st.builds(v1.SessionMessageChunk, IDS, BLOCKS, META),
    Unknown: st.builds(Unknown, st.just("_x"), st.just({"sessionUpdate": "_x"})),
}  # fmt: skip
READ = "read"
STEPS = st.one_of(*UPDATES.values(), st.sampled_from(["begin", "cancel", "end_turn", "cancelled", "refusal", READ]))


def test_every_variant_is_made() -> None:
    assert set(UPDATES) == {*get_args(v1.SessionUpdate), Unknown}


def step(state: SessionState, one: SessionUpdate | str) -> None:
    if not isinstance(one, str):
        fold(state, one)
    elif one == "begin" and not state.is_running:
        state.begin_turn([v1.TextContent("prompt")])
    elif one == "cancel":
        state.cancel_turn()
    elif one == READ:
        read(state)
    elif one != "begin" and state.is_running:
        state.end_turn(one)


def read(state: SessionState) -> None:
    """Look at everything, and check what must hold at any moment."""
    for name in dir(SessionState):
        if not name.startswith("_") and isinstance(getattr(SessionState, name), property):
            getattr(state, name)
    for item in state.timeline:
        repr(item)
        if isinstance(item, (Message, CompactionState, SessionMessageState)):
            assert "".join(block.text for block in item.blocks if isinstance(block, v1.TextContent)) == item.text
    for call in state.tool_calls.values():
        assert state.timeline[call.position] is call
    for turn in state.turns:
        assert len(turn.text) <= sum(len(message.text) for message in turn.messages)
    assert state.text == (state.turns[-1].text if state.turns else "")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
def test_no_sequence_of_updates_raises(steps: list[SessionUpdate | str]) -> None:
    state = SessionState()
    revision = state.revision
    for one in steps:
        step(state, one)
        assert state.revision >= revision
        revision = state.revision
    read(state)


AGENT_CHUNKS = st.builds(AgentMessageChunk, BLOCKS, st.none() | st.just(UNSET) | IDS)
THOUGHT_CHUNKS = st.builds(AgentThoughtChunk, BLOCKS, st.none() | st.just(UNSET) | IDS)


def words(chunks: list[AgentMessageChunk]) -> str:
    return "".join(chunk.content.text for chunk in chunks if isinstance(chunk.content, v1.TextContent))


@settings(deadline=None)
@given(st.lists(st.tuples(AGENT_CHUNKS, st.booleans()), max_size=30))
def test_the_text_of_each_message_is_the_concatenation_of_its_chunks(
    chunks: list[tuple[AgentMessageChunk, bool]],
) -> None:
    state = SessionState()
    state.begin_turn([])
    by_id: dict[str | None, list[AgentMessageChunk]] = {}
    for chunk, is_read in chunks:
        fold(state, chunk)
        by_id.setdefault(chunk.message_id if isinstance(chunk.message_id, str) else None, []).append(chunk)
        if is_read:
            assert len(state.text) == sum(len(words(part)) for part in by_id.values())
    for message_id, part in by_id.items():
        spoken = [one for one in state.messages if one.role == "agent" and one.message_id == message_id]
        assert "".join(one.text for one in spoken) == words(part)
        if message_id is not None:
            assert len(spoken) == 1
    assert state.text == "".join(one.text for one in state.messages)


@settings(deadline=None)
@given(st.lists(AGENT_CHUNKS | THOUGHT_CHUNKS | UPDATES[v1.ToolCall], max_size=30))
def test_without_ids_the_text_is_the_concatenation_of_all_chunks(updates: list[SessionUpdate]) -> None:
    state = SessionState()
    state.begin_turn([])
    spoken: list[AgentMessageChunk] = []
    for update in updates:
        if isinstance(update, (AgentMessageChunk, AgentThoughtChunk)):
            update = type(update)(update.content)
        if isinstance(update, AgentMessageChunk):
            spoken.append(update)
        fold(state, update)
    assert state.text == words(spoken)
