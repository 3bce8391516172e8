"""Any input gives a value or the documented error, and a value that was read once reads the same again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import schema
from dragoman.errors import INVALID_PARAMS, PARSE_ERROR, RemoteProtocolError
from dragoman.schema import Loss, v1
from tests.conftest import IS_SOAK
from tests.schema.strategies import JSON, Values

KINDS = [
    "SessionNotification",
    "PromptRequest",
    "NewSessionRequest",
    "InitializeResponse",
    "InitializeRequest",
    "RequestPermissionRequest",
    "CreateElicitationRequest",
    "SetSessionConfigOptionResponse",
    "MessageMcpResponse",
    "SubagentUpdate",
]
OPEN = Values(unknown=True)
MANY = settings(max_examples=400 if IS_SOAK else 50, deadline=None, suppress_health_check=list(HealthCheck))


def damaged(value: Any, draw: st.DataObject) -> Any:
    """`value` with one node, somewhere, replaced, dropped or added."""
    if isinstance(value, dict) and value and draw.draw(st.integers(0, 3)):
        key = draw.draw(st.sampled_from(sorted(value)))
        if draw.draw(st.integers(0, 9)) == 0:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: damaged(value[key], draw)}
    if isinstance(value, list) and value and draw.draw(st.integers(0, 3)):
        index = draw.draw(st.integers(0, len(value) - 1))
        return [*value[:index], damaged(value[index], draw), *value[index + 1 :]]
    return draw.draw(JSON)


@pytest.mark.parametrize("name", KINDS)
def test_damaged_values_are_read_or_refused_and_what_was_read_is_stable(name: str) -> None:
    kind = getattr(v1, name)

    @MANY
    @given(OPEN.of(name), st.data())
    def holds(value: Any, draw: st.DataObject) -> None:
        data = schema.encode(damaged(json.loads(schema.encode(value)), draw))
        losses: list[Loss] = []
        try:
            first = schema.decode(kind, data, losses.append)
        except RemoteProtocolError as error:
            assert (error.code, error.path[:1]) == (INVALID_PARAMS, "$")  # noqa: PT017  # either outcome is right
            return
        again = schema.encode(first)
        assert schema.decode(kind, again, lambda loss: pytest.fail(loss.why)) == first

    holds()


@MANY
@given(st.sampled_from(KINDS), st.binary(max_size=40))
def test_bytes_that_mean_nothing_are_a_parse_error_or_refused(name: str, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        schema.decode(getattr(v1, name), data)
    assert caught.value.code in (PARSE_ERROR, INVALID_PARAMS)
