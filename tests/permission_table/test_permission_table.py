"""No verdict, sentence or option changes unnoticed: 400 requests, most of them recorded, by 30 sets of rules."""

from __future__ import annotations

import json
import os

import pytest

from tests.permission_table.rule_sets import SETS
from tests.permission_table.table import CHANGED, REQUESTS, differences

SHOWN = 5
PARTS = 8  # so that the workers of a test run share them


def test_the_table_is_large_enough_to_notice_a_change() -> None:
    assert len(REQUESTS.read_text().splitlines()) == 400
    assert len(SETS) == 30


@pytest.mark.skipif(os.path.realpath("/tmp") != "/tmp", reason="cut texts depend on the length of the folder's path")
@pytest.mark.parametrize("first", range(PARTS))
def test_every_request_is_decided_as_before_by_every_set_of_rules(first: int) -> None:
    found = differences(slice(first, None, PARTS))
    shown = "\n".join(json.dumps(change, indent=1) for change in found[:SHOWN])
    assert not found, f"{len(found)} outcomes differ, see tests/permission_table/table.py:\n{shown}"


def test_a_change_that_was_accepted_has_a_reason() -> None:
    changes = [json.loads(line) for line in CHANGED.read_text().splitlines()] if CHANGED.exists() else []
    assert all(change["reason"].strip() for change in changes)
