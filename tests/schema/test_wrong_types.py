"""Every wrong JSON type in every member a stable method can carry, made from the schema.

The member's mark decides: its default with a report, its items skipped, or -32602 with its path; never anything else.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dragoman import schema
from dragoman.errors import INVALID_PARAMS, RemoteProtocolError
from dragoman.schema import UNSET, Loss, v1
from tests.schema.model import JSON_VALUES, MODEL, accepts, members_of, no_loss, smallest_named, stable_records
from tools.schema.model import ListOf, Member, Ref

RECORDS = stable_records()
METHODS = [
    method
    for table in (schema.AGENT_METHODS, schema.CLIENT_METHODS, schema.PROTOCOL_METHODS)
    for method in table.values()
    if method.is_stable
]


def wrong_values(member: Member) -> list[Any]:
    return [value for value in JSON_VALUES if not accepts(member, value)]


def read(name: str, member: Member, value: Any) -> tuple[Any, list[Loss]]:
    losses: list[Loss] = []
    data = schema.encode({**smallest_named(name), member.wire: copy.copy(value)})
    return schema.decode(getattr(v1, name), data, losses.append), losses


def assert_refused(name: str, member: Member, value: Any) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read(name, member, value)
    assert caught.value.code == INVALID_PARAMS
    assert caught.value.path.startswith(f"$.{member.wire}")


def test_there_is_a_case_for_every_record_of_every_stable_method() -> None:
    assert len(METHODS) == 25
    assert {"ToolCall", "AgentCapabilities", "PromptRequest", "ElicitationSchema"} <= set(RECORDS)
    cases = [value for name in RECORDS for member in members_of(name) for value in wrong_values(member)]
    assert len(cases) > 1000


@pytest.mark.rule(57, 59, 100, 226, 227)
@pytest.mark.parametrize("name", RECORDS)
def test_a_wrong_type_in_an_optional_member_does_what_its_mark_says(name: str) -> None:
    for member in members_of(name):
        if member.is_required:
            continue
        for value in wrong_values(member):
            if member.on_error or (member.on_null and value is None):
                result, losses = read(name, member, value)
                assert getattr(result, member.attribute) is UNSET
                assert [loss.path.startswith(f"$.{member.wire}") for loss in losses] == [True]
            else:
                assert_refused(name, member, value)


@pytest.mark.parametrize("name", RECORDS)
def test_a_wrong_type_in_a_required_member_is_refused_unless_it_has_a_mark(name: str) -> None:
    for member in members_of(name):
        if not member.is_required:
            continue
        for value in wrong_values(member):
            if member.on_error or (member.on_null and value is None):
                result, losses = read(name, member, value)
                assert getattr(result, member.attribute) == []
                assert len(losses) == 1
            else:
                assert_refused(name, member, value)


@pytest.mark.parametrize("name", RECORDS)
def test_a_missing_required_member_is_refused_whatever_its_mark(name: str) -> None:
    complete = smallest_named(name)
    for member in members_of(name):
        if member.is_required:
            data = schema.encode({wire: value for wire, value in complete.items() if wire != member.wire})
            with pytest.raises(RemoteProtocolError) as caught:
                schema.decode(getattr(v1, name), data)
            assert (caught.value.code, caught.value.path) == (INVALID_PARAMS, f"$.{member.wire}")


@pytest.mark.rule(226)
@pytest.mark.parametrize("name", RECORDS)
def test_invalid_items_are_skipped_only_where_the_schema_says_so(name: str) -> None:
    for member in members_of(name):
        if not isinstance(member.type, ListOf):
            continue
        good = smallest_item(member.type)
        losses: list[Loss] = []
        data = schema.encode({**smallest_named(name), member.wire: [good, 1.5, good]})
        if member.skip_items:
            result = schema.decode(getattr(v1, name), data, losses.append)
            assert len(getattr(result, member.attribute)) == 2
            assert [loss.path for loss in losses] == [f"$.{member.wire}[1]"]
        else:
            with pytest.raises(RemoteProtocolError) as caught:
                schema.decode(getattr(v1, name), data)
            assert caught.value.path == f"$.{member.wire}[1]"


def smallest_item(kind: ListOf) -> Any:
    return smallest_named(kind.item.name) if isinstance(kind.item, Ref) else "text"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.side} {method.name}")
def test_any_json_in_place_of_params_or_result_is_read_or_refused(method: schema.Method) -> None:
    for kind in (method.params, method.result):
        if kind is None:
            continue
        for value in JSON_VALUES:
            data = schema.encode(value)
            if (value is None or value == {}) and requires_nothing(kind):
                schema.decode(kind, data, no_loss)
                continue
            with pytest.raises(RemoteProtocolError) as caught:
                schema.decode(kind, data)
            assert caught.value.code == INVALID_PARAMS


def requires_nothing(kind: Any) -> bool:
    record = MODEL.records.get(getattr(kind, "__name__", ""))
    return record is not None and not any(member.is_required for member in record.members)


def test_every_optional_member_of_the_model_is_optional_in_python() -> None:
    for name in MODEL.records:
        kind = getattr(v1, name)
        required = {member.attribute for member in members_of(name) if member.is_required}
        assert set(kind.__struct_fields__[: len(required)]) == required
        assert all(default is UNSET for default in kind.__struct_defaults__)
