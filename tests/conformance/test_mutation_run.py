"""The judge catches what it is there to catch: `make mutants` in a size that fits.

The wrong agents and clients have tests of their own (`test_mutants.py`, `test_client_mutants.py`); here are the wrong
recordings, all of them, the agents that were once missed, and what is printed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from dragoman.conformance.passive import judge_entries
from tests.conformance import mutation_run
from tests.conformance.mutants_passive import ESCAPES
from tests.conformance.recording_tape import HEADER, conforming


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What a wrong agent makes the library log is not worth reading."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def test_every_wrong_recording_is_found_by_the_rule_it_breaks() -> None:
    outcomes = await mutation_run.run(mutation_run.recordings())
    assert [outcome.mistake.id for outcome in outcomes if outcome.seen] == []
    assert len(outcomes) > 150


@pytest.mark.parametrize("side", ["agent", "client", None])
def test_recording_that_conforms_brings_not_even_a_note(side: mutation_run.Binds | None) -> None:
    report = judge_entries("conforming", conforming().entries, HEADER, side)
    assert (report.passive, report.notes) == ([], 0)


async def test_agents_that_were_once_missed_are_caught() -> None:
    names = {name for name, _, _ in ESCAPES}
    outcomes = await mutation_run.run(mistake for mistake in mutation_run.agents() if mistake.name in names)
    assert [outcome.seen for outcome in outcomes if outcome.seen] == []
    assert len(outcomes) == len(names)


async def test_table_has_the_rate_of_each_kind_and_names_what_escaped() -> None:
    [mistake] = [each for each in mutation_run.recordings() if each.name == "agent: a log line on stdout"]
    outcomes = await mutation_run.run([mistake, mistake._replace(finding="passive/9")])
    rates, escaped = mutation_run.table(outcomes)
    assert "recordings      1 of    2 caught    50.0 %" in rates
    assert escaped.startswith("  escaped  recordings: agent: a log line on stdout: passive/9 not seen")
