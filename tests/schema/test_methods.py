"""The method table against the schema it was made from."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import schema
from dragoman.errors import RemoteProtocolError
from dragoman.schema import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS, Method, is_advertised, v1
from tests.schema.model import DEFINITIONS, MODEL, STABLE
from tools.schema import choices

TABLES = {"agent": AGENT_METHODS, "client": CLIENT_METHODS, "protocol": PROTOCOL_METHODS}
ALL = [method for table in TABLES.values() for method in table.values()]


def test_the_table_holds_every_method_of_the_schema_but_those_of_proxy_chains() -> None:
    wanted = {
        (node["x-side"], node["x-method"])
        for node in DEFINITIONS.values()
        if "x-method" in node and node["x-side"] not in choices.SKIPPED_SIDES
    }
    assert {(method.side, method.name) for method in ALL} == wanted
    assert len(wanted) == 37


def test_stable_is_what_the_stable_schema_has() -> None:
    wanted = {(method.side, method.name) for method in STABLE.methods}
    assert {(method.side, method.name) for method in ALL if method.is_stable} == wanted


@pytest.mark.parametrize("method", ALL, ids=repr)
def test_every_method_resolves_its_types_and_their_decoders(method: Method) -> None:
    schema.decoder(method.params)
    assert (method.kind == "request") == (method.result is not None)
    if method.result is not None:
        schema.decoder(method.result)


def test_one_name_may_be_a_request_on_one_side_and_a_notification_on_the_other() -> None:
    assert AGENT_METHODS["mcp/message"].kind == "notification"
    assert CLIENT_METHODS["mcp/message"].kind == "request"


def test_a_session_scoped_method_cannot_be_called_without_session_id() -> None:
    for method in ALL:
        record = MODEL.records.get(getattr(method.params, "__name__", ""))
        if record is not None:
            required = {member.wire for member in record.members if member.is_required}
            assert method.is_session_scoped == ("sessionId" in required)
    assert AGENT_METHODS["session/set_config_option"].is_session_scoped
    assert not AGENT_METHODS["session/new"].is_session_scoped


@pytest.mark.rule(109, 279)
@pytest.mark.parametrize("method", [method for method in ALL if method.kind == "request"], ids=repr)
def test_a_null_result_is_read_exactly_where_the_table_says_so(method: Method) -> None:
    if method.null_result_ok:
        assert schema.decode(method.result, b"null") == schema.decode(method.result, b"{}")
    else:
        with pytest.raises(RemoteProtocolError):
            schema.decode(method.result, b"null")


CAPABILITIES: dict[str, Any] = {"agent": v1.AgentCapabilities, "client": v1.ClientCapabilities}
FLAGS = {"loadSession", "terminal", "fs.readTextFile", "fs.writeTextFile", "mcpCapabilities.acp"}
GATED = [method for method in ALL if method.gate]


@pytest.mark.rule(49, 57, 58)
@pytest.mark.parametrize("method", GATED, ids=repr)
def test_a_gate_is_closed_when_absent_null_or_false_and_open_when_given(method: Method) -> None:
    assert method.gate is not None
    kind, steps = CAPABILITIES[method.side], method.gate.split(".")
    assert not is_advertised(kind(), method.gate)
    good: Any = True if method.gate in FLAGS else {}
    for value, is_open in ((None, False), (False, False), (good, True)):
        nested: Any = value
        for step in reversed(steps):
            nested = {step: nested}
        assert is_advertised(schema.decode(kind, schema.encode(nested)), method.gate) is is_open


@pytest.mark.rule(53)
def test_the_baseline_of_an_agent_has_no_gate() -> None:
    assert {"session/new", "session/prompt", "session/cancel", "initialize", "authenticate"} <= {
        name for name, method in AGENT_METHODS.items() if method.gate is None
    }
