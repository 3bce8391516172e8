"""Every generated type, with values made by Hypothesis and the JSON schema as the judge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dragoman import schema
from dragoman.schema import forgiving, v1
from tests.conftest import IS_SOAK
from tests.schema.model import DEFINITIONS, MODEL, definition_of, members_of, no_loss, smallest_named
from tests.schema.strategies import Values

KNOWN = Values(unknown=False)
OPEN = Values(unknown=True)
NAMES = sorted([*MODEL.records, *MODEL.unions])
FEW = settings(
    max_examples=50 if IS_SOAK else 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def judge(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition_of(name)}", "$defs": DEFINITIONS})


@pytest.mark.parametrize("name", NAMES)
def test_every_instance_is_valid_by_the_schema_and_survives_the_round_trip(name: str) -> None:
    kind, validator = getattr(v1, name), judge(name)

    @FEW
    @given(KNOWN.of(name))
    def survives(value: Any) -> None:
        data = schema.encode(value)
        validator.validate(json.loads(data))
        assert schema.decode(kind, data, no_loss) == value

    survives()


@pytest.mark.rule(154, 156, 221, 225, 325, 326)
@pytest.mark.parametrize("name", NAMES)
def test_unknown_variants_and_enum_values_survive_at_any_depth(name: str) -> None:
    kind = getattr(v1, name)

    @FEW
    @given(OPEN.of(name))
    def survives(value: Any) -> None:
        data = schema.encode(value)
        again = schema.decode(kind, data, no_loss)
        assert again == value
        assert json.loads(schema.encode(again)) == json.loads(data)

    survives()


@pytest.mark.parametrize("name", sorted(MODEL.records))
def test_the_forgiving_pass_reads_clean_input_as_the_strict_one_does(name: str) -> None:
    kind = getattr(v1, name)

    @FEW
    @given(KNOWN.of(name))
    def agrees(value: Any) -> None:
        assert forgiving.read(kind, json.loads(schema.encode(value)), no_loss) == value

    agrees()


@pytest.mark.parametrize("name", sorted(MODEL.records))
def test_an_explicit_null_survives_where_the_schema_allows_one(name: str) -> None:
    kind = getattr(v1, name)
    for member in members_of(name):
        if member.is_nullable:
            given_value = {**smallest_named(name), member.wire: None}
            value = schema.decode(kind, schema.encode(given_value), no_loss)
            assert getattr(value, member.attribute) is None
            assert json.loads(schema.encode(value)) == given_value


@FEW
@given(st.data())
def test_absent_members_are_not_written(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(MODEL.records)))
    smallest = smallest_named(name)
    value = schema.decode(getattr(v1, name), schema.encode(smallest), no_loss)
    assert json.loads(schema.encode(value)) == smallest
