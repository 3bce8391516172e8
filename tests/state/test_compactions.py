"""Compactions: patches, places, one end."""

from __future__ import annotations

import pytest

from dragoman.schema import UNSET
from dragoman.schema.v1 import CompactionSummaryChunk, CompactionUpdate, ImageContent, SessionUpdate
from tests.state.make import agent, folded, in_turn, text

IMAGE = ImageContent("AA==", "image/png")


@pytest.mark.rule(222)
def test_members_are_patches() -> None:
    state = folded(CompactionUpdate("c", "in_progress", summary=[text("a")], error="slow", meta={"m": 1}))
    compaction = state.compactions["c"]
    assert (compaction.text, compaction.error, compaction.meta) == ("a", "slow", {"m": 1})
    folded(CompactionUpdate("c", "in_progress"), into=state)
    assert (compaction.text, compaction.error, compaction.meta) == ("a", "slow", {"m": 1})
    folded(CompactionUpdate("c", "in_progress", summary=[text("b"), IMAGE], error=None, meta=None), into=state)
    assert compaction.blocks == (text("b"), IMAGE)
    assert (compaction.error, compaction.meta) == (None, None)


@pytest.mark.rule(222)
@pytest.mark.parametrize("nothing", [None, []])
def test_null_and_an_empty_list_clear_the_summary(nothing: None) -> None:
    state = folded(CompactionUpdate("c", "in_progress", summary=[text("a")]))
    folded(CompactionSummaryChunk("c", text("b")), CompactionUpdate("c", "completed", summary=nothing), into=state)
    assert (state.compactions["c"].text, state.compactions["c"].blocks) == ("", ())


@pytest.mark.rule(223)
def test_the_first_frame_fixes_the_place() -> None:
    state = in_turn(
        agent("a"), CompactionUpdate("c", "in_progress"), agent("b"), CompactionUpdate("c", "completed")
    )  # fmt: skip
    assert state.timeline[2] is state.compactions["c"]
    assert len(state.timeline) == 4
    assert (state.compactions["c"].id, state.compactions["c"].turn) == ("c", 0)


@pytest.mark.rule(223)
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_final_status_is_final(status: str) -> None:
    state = folded(CompactionUpdate("c", "in_progress"))
    compaction = state.compactions["c"]
    assert not compaction.is_finished
    folded(CompactionUpdate("c", status), into=state)
    assert (compaction.status, compaction.is_finished) == (status, True)
    late: list[SessionUpdate] = [
        CompactionUpdate("c", "in_progress", error="x"),
        CompactionUpdate("c", "completed" if status != "completed" else "failed", error="y"),
        CompactionSummaryChunk("c", text("z")),
    ]
    folded(*late, into=state)
    assert (compaction.status, compaction.error, compaction.text) == (status, None, "")
    assert list(state.unknown) == late


@pytest.mark.rule(222, 223)
def test_the_same_final_status_again_still_patches() -> None:
    state = folded(CompactionUpdate("c", "completed"), CompactionUpdate("c", "completed", summary=[text("s")]))
    assert state.compactions["c"].text == "s"
    assert not state.unknown


@pytest.mark.rule(224)
def test_chunks_append_to_the_summary() -> None:
    state = folded(
        CompactionUpdate("c", "in_progress", summary=[text("a")]),
        CompactionSummaryChunk("c", text("b"), meta={"of": "the chunk"}),
        CompactionSummaryChunk("c", IMAGE),
    )
    compaction = state.compactions["c"]
    assert compaction.blocks == (text("ab"), IMAGE)
    assert compaction.meta is None


@pytest.mark.rule(224)
def test_a_chunk_for_an_unseen_id_makes_a_running_compaction() -> None:
    state = folded(CompactionSummaryChunk("c", text("a")))
    assert (state.compactions["c"].status, state.compactions["c"].text) == ("in_progress", "a")
    assert state.timeline[0] is state.compactions["c"]


def test_a_status_of_a_later_version_is_kept_and_is_not_an_end() -> None:
    state = folded(CompactionUpdate("c", "paused"), CompactionSummaryChunk("c", text("a")))
    assert (state.compactions["c"].status, state.compactions["c"].text) == ("paused", "a")
    folded(CompactionUpdate("c", "completed"), into=state)
    assert state.compactions["c"].status == "completed"


def test_its_revision_grows_with_each_change() -> None:
    state = folded(CompactionUpdate("c", "in_progress"))
    compaction = state.compactions["c"]
    seen = [compaction.revision]
    for update in (CompactionSummaryChunk("c", text("a")), CompactionUpdate("c", "completed", summary=UNSET)):
        folded(update, into=state)
        seen.append(compaction.revision)
    assert seen == sorted(set(seen))
    assert repr(compaction) == "CompactionState('c', 'completed', 'a')"
