"""How the usage of a run is put together from what an agent reports."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.runs.result import Cost, RunUsage, usage
from dragoman.schema import v1
from tests.state.make import folded

OWN: dict[str, Any] = {
    "totalTokens": 15,
    "inputTokens": 1,
    "outputTokens": 2,
    "thoughtTokens": 3,
    "cachedReadTokens": 4,
    "cachedWriteTokens": 5,
    "cost": {"amount": 0.1, "currency": "USD"},
    "sessionCost": {"amount": 0.5, "currency": "USD"},
}
COUNTS = {
    "total_tokens": 15,
    "input_tokens": 1,
    "output_tokens": 2,
    "thought_tokens": 3,
    "cached_read_tokens": 4,
    "cached_write_tokens": 5,
}


def test_usage_in_the_meta_of_the_built_in_agent_counts_with_the_cost_of_the_session() -> None:
    cost = Cost(0.5, "USD")
    assert usage(folded(), None, OWN) == RunUsage(**COUNTS, cost=cost)
    before = v1.UsageUpdate(7, 100, v1.Cost(0.4, "USD"))
    assert usage(folded(before), None, OWN) == RunUsage(**COUNTS, context_used=7, context_size=100, cost=cost)


def test_usage_of_the_protocol_comes_first() -> None:
    found = usage(folded(), v1.Usage(30, 10, 20), OWN)
    assert found is not None
    assert (found.total_tokens, found.input_tokens, found.output_tokens) == (30, 10, 20)


@pytest.mark.parametrize("wrong", [{"totalTokens": "many"}, {"sessionCost": 3}, {"sessionCost": {"amount": "x"}}])
def test_members_of_a_wrong_type_are_left_out(wrong: dict[str, Any]) -> None:
    assert usage(folded(), None, wrong) == RunUsage()


def test_without_any_report_there_is_no_usage() -> None:
    assert usage(folded(), None) is None
