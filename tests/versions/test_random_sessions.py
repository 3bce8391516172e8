"""Random valid sessions: what leaves a translator is valid by the schema of the version it is for.

Unknown variants are drawn too: version 2 is open, and version 1 must not receive them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dragoman.schema import encode, v1, v2
from dragoman.versions import VERSIONS, Version, translator
from dragoman.versions.frames import Side
from dragoman.versions.version2.v2_hosted import V2ClientAtHost
from tests.conftest import IS_SOAK
from tests.schema.model import MODEL, MODEL_V2
from tests.schema.strategies import JSON, Values
from tests.versions.conversation import Conversation
from tests.versions.oracle import Watched

# The same examples in every run, and no search for a smaller one: a failure names its frame.
SOME = settings(
    max_examples=100 if IS_SOAK else 8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
FEW = settings(SOME, max_examples=4)
V1 = Values(unknown=False)
V2 = Values(unknown=True, model=MODEL_V2, types=v2)
MODELS = {1: (MODEL, v1, V1), 2: (MODEL_V2, v2, V2)}

AGENT_V1 = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": True,
        "auth": {"logout": {}},
        "sessionCapabilities": {name: {} for name in ("list", "resume", "close", "delete", "fork")},
    },
}
AGENT_V2 = {
    "protocolVersion": 2,
    "info": {"name": "a", "version": "1"},
    "capabilities": {"session": {"mcp": {"stdio": {}}}},
}
GATES = {
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "plan": {},
    "subagents": {},
    "_meta": {"terminal_output": True},
}


def opened(client: int, *, gates: bool = True) -> tuple[Conversation, Watched]:
    """A conversation between versions 1 and 2 with session `s` open, judged on both sides."""
    agent = 3 - client
    watched = Watched(translator("1" if client == 1 else "2", "1" if agent == 1 else "2"), client, agent)
    talk = Conversation(watched)
    info = {"name": "c", "version": "1"}
    first: dict[str, Any] = {"protocolVersion": client, "info": info} if client == 2 else {"protocolVersion": 1}
    if client == 1 and gates:
        first["clientCapabilities"] = GATES
    talk.ask("client", "i", "initialize", **first)
    talk.answer("agent", "i", AGENT_V1 if agent == 1 else AGENT_V2)
    talk.ask("client", "n", "session/new", cwd="/w", **({"mcpServers": []} if client == 1 else {}))
    talk.answer("agent", "n", {"sessionId": "s"})
    return talk, watched


def plain(value: Any) -> Any:
    return json.loads(encode(value))


@pytest.mark.parametrize("client", [1, 2])
def test_random_updates_are_valid_in_the_other_version(client: int) -> None:
    values = MODELS[3 - client][2]

    @SOME
    @given(st.lists(values.of("SessionUpdate"), max_size=6), st.booleans())
    def check(updates: list[Any], gates: bool) -> None:
        talk, watched = opened(client, gates=gates)
        for update in updates:
            talk.notify("agent", "session/update", sessionId="s", update=plain(update))
        assert watched.faults == []

    check()


def _shared_methods() -> list[tuple[int, Side, str]]:
    """Methods that a translator passes on: client version, serving side, name."""
    cases: list[tuple[int, Side, str]] = []
    for client in (1, 2):
        cases += [
            (client, "agent", each.name) for each in MODELS[client][0].methods if each.side == "agent" and each.result
        ]
        names = ("session/request_permission", "elicitation/create")
        cases += [(client, "client", name) for name in names]
    return [case for case in cases if case[2] not in ("initialize", "session/prompt")]


@pytest.mark.parametrize(("client", "server", "method"), _shared_methods())
def test_random_requests_and_results_are_valid_in_the_other_version(client: int, server: Side, method: str) -> None:
    version = client if server == "agent" else 3 - client
    asker: Side = "client" if server == "agent" else "agent"
    model, _, values = MODELS[version]
    row = next(each for each in model.methods if (each.side, each.name) == (server, method))

    @FEW
    @given(st.data())
    def check(data: st.DataObject) -> None:
        talk, watched = opened(client)
        params = plain(data.draw(values.of(row.params)))
        if "sessionId" in params:
            params["sessionId"] = "s"
        talk.take("client")
        talk.take("agent")
        talk.feed(asker, {"id": 9, "method": method, "params": params})
        passed = [each for each in talk.take(server) if each.get("id") == 9 and "method" in each]
        if passed:
            other = MODELS[3 - version]
            answered = next(
                each for each in other[0].methods if (each.side, each.name) == (server, passed[0]["method"])
            )
            assert answered.result is not None
            talk.answer(server, 9, plain(data.draw(other[2].of(answered.result))))
        assert watched.faults == []

    check()


METHODS = """
    initialize session/new session/update session/prompt session/cancel session/request_permission session/load
    session/resume session/close session/set_mode session/set_config_option session/list terminal/output terminal/create
    fs/read_text_file auth/login authenticate $/cancel_request _x/y
"""
KINDS = """
    agent_message agent_message_chunk user_message user_message_chunk tool_call tool_call_update tool_call_content_chunk
    terminal_update terminal_output_chunk state_update plan plan_update plan_removed config_option_update
    available_commands_update current_mode_update done _z
"""
MEMBERS = """
    sessionId session_id update type data messageId content toolCallId status options optionId outcome plan planId
    entries configOptions availableCommands state stopReason error result terminalId output title rawInput _meta changes
    patch prompt cwd mcpServers modes id name value configId protocolVersion protocol_version info capabilities session
"""
WORDS, UPDATES, KEYS = (st.sampled_from(names.split()) for names in (METHODS, KINDS, MEMBERS))
NESTED = st.recursive(
    JSON | st.sampled_from(["s", "m", "t", "idle", "running", "terminal", "diff", "text", "items", "select"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, NESTED, max_size=6)


@st.composite
def frames(draw: st.DrawFn) -> tuple[Side, dict[str, Any]]:
    """A frame of a hostile peer: a known method with members of any shape, or any answer."""
    side: Side = draw(st.sampled_from(["client", "agent"]))
    frame: dict[str, Any] = {"jsonrpc": "2.0"}
    if draw(st.booleans()):
        frame["id"] = draw(st.integers(0, 3) | st.just("dragoman-translate-1") | JSON)
    if draw(st.integers(0, 3)):
        frame["method"] = draw(WORDS)
        params: Any = draw(OBJECTS | JSON)
        if isinstance(params, dict) and draw(st.booleans()):
            params["sessionId"] = params["session_id"] = "s"
            params["update"] = {**draw(OBJECTS), "sessionUpdate": draw(UPDATES)}
            params["type"] = draw(UPDATES)
            params["data"] = draw(OBJECTS)
        frame["params"] = params
    else:
        frame[draw(st.sampled_from(["result", "error"]))] = draw(OBJECTS | JSON)
    return side, frame


@pytest.mark.parametrize("agent", VERSIONS)
@pytest.mark.parametrize("client", VERSIONS)
def test_no_input_breaks_a_translator(client: Version, agent: Version) -> None:
    @SOME
    @given(st.lists(frames(), max_size=12))
    def check(given_frames: list[tuple[Side, dict[str, Any]]]) -> None:
        made = translator(client, agent, folder="/w")
        sent = []
        for side, frame in given_frames:
            sent += made.feed(side, frame)
        sent += made.elapsed() + made.closed("agent") + made.closed("client")
        for side, frame in sent:
            assert side in ("client", "agent")
            assert isinstance(encode(frame), bytes)
        assert all(lost.count > 0 for lost in made.losses)

    check()


def test_no_input_breaks_the_translator_in_front_of_a_host() -> None:
    turns = st.sampled_from(["_dragoman/turn_started", "_dragoman/turn_ended"])

    @SOME
    @given(st.lists(frames() | st.tuples(st.just("agent"), turns), max_size=12))
    def check(given_frames: list[tuple[Side, Any]]) -> None:
        made = V2ClientAtHost()
        hello = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}
        made.feed("client", {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})
        sent = made.feed("agent", {"jsonrpc": "2.0", "id": "hello", "result": AGENT_V1})
        for side, frame in given_frames:
            whole = {"jsonrpc": "2.0", "method": frame, "params": {"sessionId": "s", "promptId": "p"}}
            sent += made.feed(side, whole if isinstance(frame, str) else frame)
        sent += made.closed("agent") + made.closed("client")
        assert all(isinstance(encode(frame), bytes) for _, frame in sent)

    check()
