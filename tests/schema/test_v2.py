"""The types of version 2: made by the same generator, judged by their own schema, loaded only when used."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from dragoman import schema
from dragoman.errors import RemoteProtocolError
from dragoman.schema import Loss, Unknown, forgiving, v1, v2
from dragoman.schema.methods import method_tables
from tests.schema.model import DEFINITIONS_V2, MODEL_V2, definition_of, no_loss
from tests.schema.strategies import Values

KNOWN = Values(unknown=False, model=MODEL_V2, types=v2)
OPEN = Values(unknown=True, model=MODEL_V2, types=v2)
# Params and results reach every other type.
NAMES = sorted({name for method in MODEL_V2.methods for name in (method.params, method.result) if name})
FEW = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _without_ranges(node: Any) -> Any:
    """The schema without ranges and exclusions, which the types do not have, and with null as an id."""
    if isinstance(node, dict):
        if node == DEFINITIONS_V2["RequestId"]:
            return {"anyOf": [*node["anyOf"], {"type": "null"}]}
        ranges = ("minimum", "maximum", "minItems")
        kept = {name: each for name, each in node.items() if name not in ranges}
        return {"anyOf" if name == "oneOf" else name: _without_ranges(each) for name, each in kept.items()}
    return [_without_ranges(each) for each in node] if isinstance(node, list) else node


DEFINITIONS = _without_ranges(DEFINITIONS_V2)


@pytest.mark.parametrize("name", NAMES)
def test_every_instance_is_valid_by_the_schema_and_survives_the_round_trip(name: str) -> None:
    kind = getattr(v2, name)
    definition = definition_of(name, MODEL_V2)
    validator = Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": DEFINITIONS})

    @FEW
    @given(KNOWN.of(name))
    def survives(value: Any) -> None:
        data = schema.encode(value)
        validator.validate(json.loads(data))
        assert schema.decode(kind, data, no_loss) == value

    survives()


@pytest.mark.parametrize("name", NAMES)
def test_unknown_variants_and_enum_values_survive_at_any_depth(name: str) -> None:
    kind = getattr(v2, name)

    @FEW
    @given(OPEN.of(name))
    def survives(value: Any) -> None:
        data = schema.encode(value)
        again = schema.decode(kind, data, no_loss)
        assert json.loads(schema.encode(again)) == json.loads(data)

    survives()


def test_a_flaw_is_forgiven_by_the_marks_of_this_version_and_reported() -> None:
    losses: list[Loss] = []
    flawed = {
        "toolCallId": "c",
        "title": 5,
        "content": [{"type": "diff"}, {"type": "_x"}],
        "sessionUpdate": "tool_call_update",
    }
    data = schema.encode({"sessionId": "s", "update": flawed})
    found = schema.decode(v2.UpdateSessionNotification, data, losses.append)
    assert isinstance(found.update, v2.ToolCallUpdate)
    assert found.update.content == [Unknown("_x", {"type": "_x"})]
    assert [loss.path for loss in losses] == ["$.update.title", "$.update.content[0].changes"]


def test_names_that_both_versions_have_keep_their_own_marks() -> None:
    """`AvailableCommandsUpdate.availableCommands` skips invalid items in both; `Diff.changes` exists in one only."""
    data = schema.encode({"changes": [{"operation": 5}], "type": "diff"})
    losses: list[Loss] = []
    assert forgiving.read(v2.Diff, json.loads(data), losses.append) == v2.Diff([])
    assert len(losses) == 1
    with pytest.raises(RemoteProtocolError):
        forgiving.read(v1.Diff, json.loads(data), None)


def test_a_state_update_is_one_record_with_the_members_of_all_states() -> None:
    data = b'{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":-32603,"message":"m"}}'
    found = schema.decode(v2.SessionUpdate, data, no_loss)
    assert isinstance(found, v2.SessionStateUpdate)
    assert (found.state, found.stop_reason) == ("idle", "error")
    assert isinstance(found.error, v2.Error)
    assert json.loads(schema.encode(found)) == json.loads(data)


def test_the_method_tables_are_those_of_each_version() -> None:
    assert set(method_tables(2).client) == {
        "session/update",
        "session/request_permission",
        "elicitation/create",
        "elicitation/complete",
        "mcp/message",
        "auth/status_update",
    }
    assert method_tables(2).agent["session/prompt"].result is v2.PromptResponse
    assert method_tables(1).agent["session/prompt"].result is v1.PromptResponse
    assert "session/load" not in method_tables(2).agent
    with pytest.raises(ValueError, match="not for 3"):
        method_tables(3)


def test_the_types_of_version_2_are_not_loaded_before_they_are_used() -> None:
    program = (
        "import sys; from dragoman import schema\n"
        'schema.decode(schema.v1.PromptResponse, b\'{"stopReason":"end_turn","usage":5}\')\n'
        "print(*(name for name in sys.modules if '.v2' in name))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
