"""Rules about the envelope and the handshake: each finding has talk that causes it and talk that does not."""

from __future__ import annotations

import pytest

from tests.trace.cases import WHOLE, Case, assert_found, gate, lacks, name_of, nothing
from tests.trace.talk import INFO, Talk, brief, findings, started

ENVELOPE = [
    Case(1, "MUST", "a2c", lambda t: t.frame("a2c", b'{"jsonrpc":"2.0","method":"_x\xff"}'), nothing),
    Case(6, "MUST NOT", "a2c", lambda t: t.frame("a2c", b"Loading model..."), lambda t: t.frame("a2c", b"")),
    Case(7, "MUST NOT", "c2a", lambda t: t.frame("c2a", b"hello"), lambda t: t.frame("c2a", b"  ")),
    Case(10, "SCHEMA", "a2c", lambda t: t.frame("a2c", b'[{"jsonrpc":"2.0","method":"_x"}]'), nothing),
    Case(10, "SCHEMA", "c2a", lambda t: t.answer(t.ask("session/cancel", {"sessionId": "s"})), lambda t: t.cancel()),
    Case(
        14,
        "NOTE",
        "a2c",
        lambda t: t.frame("a2c", b'{"jsonrpc":"2.0","method":"_x","params":' + b"[" * 300 + b"]" * 300 + b"}"),
        nothing,
    ),
    Case(4, "NOTE", "a2c", lambda t: t.frame("a2c", b'{"jsonrpc":"2.0","meth', b""), nothing),
    Case(
        19,
        "MUST",
        "a2c",
        lambda t: t.frame("a2c", {"method": "_x/y", "params": {}}),
        lambda t: t.notify("_x/y", {}, by="a2c"),
    ),
    Case(
        20,
        "MUST",
        "a2c",
        lambda t: (t.ask("_x/y", id=7), t.answer("7")),
        lambda t: (t.ask("_x/y", id="7"), t.answer("7")),
    ),
    Case(20, "MUST", "c2a", lambda t: t.ask("_x/y", id=[1]), nothing),
    Case(21, "SHOULD NOT", "c2a", lambda t: (t.ask("_x/y", id=None), t.answer(None)), nothing),
    Case(
        22,
        "MUST",
        "a2c",
        lambda t: t.frame("a2c", {"jsonrpc": "2.0", "id": t.ask("_x/y")}),
        lambda t: t.answer(t.ask("_x/y")),
    ),
    Case(
        23,
        "MUST",
        "a2c",
        lambda t: t.frame("a2c", {"jsonrpc": "2.0", "id": t.ask("_x/y"), "error": {"code": "1", "message": ""}}),
        lambda t: t.fail(t.ask("_x/y"), 1),
    ),
    Case(24, "MUST NOT", "a2c", lambda t: t.answer(99), lambda t: t.fail(None, -32700)),
    Case(
        25,
        "MUST",
        "a2c",
        lambda t: [t.answer(id) for id in [t.ask("_x/y")] * 2],
        lambda t: t.answer(t.ask("_x/y")),
    ),
    Case(
        25,
        "NOTE",
        "c2a",
        lambda t: (t.ask("_x/y", id=70), t.ask("_x/y", id=70)),
        lambda t: (t.ask("_x/y", id=70), t.answer(70), t.ask("_x/y", id=70)),
    ),
    Case(
        25,
        "MUST",
        "a2c",
        lambda t: (t.prompt(), t.close("a2c"), t.exit(1)),
        lambda t: (t.prompt(), t.close("c2a"), t.close("a2c"), t.exit(0)),
    ),
    Case(
        28,
        "NOTE",
        "a2c",
        lambda t: t.answer(t.ask("session/set_model")),
        lambda t: t.fail(t.ask("session/set_model"), -32601),
    ),
    Case(
        331, "MUST", "a2c", lambda t: t.notify("vendor/x", {}, by="a2c"), lambda t: t.notify("_vendor/x", {}, by="a2c")
    ),
    Case(
        331,
        "lc",
        "c2a",
        lambda t: t.answer(t.ask("session/set_model")),
        lambda t: t.answer(t.ask("session/set_mode", {"sessionId": "s", "modeId": "code"})),
    ),
    Case(
        25,
        "MUST",
        "a2c",
        lambda t: (t.prompt(), t.turn(), t.close("c2a"), t.close("a2c")),
        lambda t: (t.turn(), t.prompt(), t.close("c2a"), t.close("a2c")),
    ),
    Case(
        25,
        "MUST",
        "c2a",
        lambda t: (_reads(t), t.reply(_reads(t), {"content": ""}), t.close("c2a"), t.close("a2c")),
        lambda t: (t.reply(_reads(t), {"content": ""}), _reads(t), t.close("c2a"), t.close("a2c")),
    ),
    Case(337, "SCHEMA", "a2c", lambda t: t.fail(t.ask("_x/y"), -32700), lambda t: t.fail(t.ask("_x/y"), -32601)),
    Case(
        340,
        "SHOULD",
        "a2c",
        lambda t: t.fail(t.ask("_x/y"), -32050),
        lambda t: [t.fail(t.ask("_x/y"), code) for code in (-32000, 400, -1)],
    ),
    Case(
        343,
        "SHOULD",
        "a2c",
        lambda t: t.fail(t.ask("_x/y"), -32603, "Traceback:\n  File ..."),
        lambda t: t.fail(t.ask("_x/y"), -32603, "It broke."),
    ),
]

HANDSHAKE = [
    Case(33, "MUST", "c2a", lambda t: (t.fail(t.ask("session/list"), -32600), t.hello()), lambda t: t.hello(), Talk),
    Case(
        34,
        "MUST NOT",
        "c2a",
        lambda t: (
            t.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO}),
            t.fail(t.ask("session/list"), -32600),
        ),
        lambda t: (t.hello(), t.ask("session/list")),
        Talk,
    ),
    Case(
        35,
        "SHOULD",
        "a2c",
        lambda t: t.answer(t.ask("session/list"), {"sessions": []}),
        lambda t: (
            t.fail(t.ask("session/list"), -32600),
            t.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO}),
            t.answer(t.ask("session/list"), {"sessions": []}),  # too early of the client, but in order for the agent
        ),
        Talk,
    ),
    Case(
        39,
        "NOTE",
        "a2c",
        lambda t: t.fail(t.ask("initialize", {"protocolVersion": 99, "clientInfo": INFO}), -32602),
        lambda t: t.fail(t.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO}), -32603),
        Talk,
    ),
    Case(40, "NOTE", "a2c", lambda t: t.hello(protocolVersion=3), lambda t: t.hello(), Talk),
    Case(44, "SHOULD", "c2a", lambda t: t.ask("initialize", {"protocolVersion": 1}), lambda t: t.hello(), Talk),
    Case(
        45,
        "SHOULD",
        "a2c",
        lambda t: t.answer(t.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO}), {"protocolVersion": 1}),
        lambda t: t.hello(),
        Talk,
    ),
    Case(
        67,
        "MUST",
        "c2a",
        lambda t: (t.hello(authMethods=[{"id": "a", "name": "A"}]), t.answer(t.ask("authenticate", {"methodId": "b"}))),
        lambda t: (t.hello(authMethods=[{"id": "a", "name": "A"}]), t.answer(t.ask("authenticate", {"methodId": "a"}))),
        Talk,
    ),
    Case(
        68,
        "MUST NOT",
        "c2a",
        lambda t: (
            t.hello(authMethods=[{"id": "a", "name": "A", "type": "terminal"}]),
            t.answer(t.ask("authenticate", {"methodId": "a"})),
        ),
        lambda t: (
            t.hello(authMethods=[{"id": "a", "name": "A", "type": "agent"}]),
            t.answer(t.ask("authenticate", {"methodId": "a"})),
        ),
        Talk,
    ),
    Case(
        69,
        "MUST",
        "a2c",
        lambda t: t.hello(client={}, authMethods=[{"id": "a", "name": "A", "type": "terminal"}]),
        lambda t: t.hello(authMethods=[{"id": "a", "name": "A", "type": "terminal"}]),
        Talk,
    ),
    Case(
        61,
        "SDK",
        "a2c",
        lambda t: t.answer(t.ask("session/list"), {"sessions": []}),
        lambda t: t.fail(t.ask("session/list"), -32601),
        lacks("agent", "sessionCapabilities", "list"),
    ),
    gate(79, "logout", {}, "auth", "logout", level="MUST NOT"),
    gate(104, "session/load", {"sessionId": "s", "cwd": "/p", "mcpServers": []}, "loadSession"),
    gate(110, "session/resume", {"sessionId": "s", "cwd": "/p"}, "sessionCapabilities", "resume"),
    gate(114, "session/close", {"sessionId": "s"}, "sessionCapabilities", "close"),
    gate(122, "session/list", {}, "sessionCapabilities", "list"),
    gate(135, "session/delete", {"sessionId": "s"}, "sessionCapabilities", "delete"),
    gate(49, "session/fork", {"sessionId": "s", "cwd": "/p"}, "sessionCapabilities", "fork"),
    gate(272, "fs/read_text_file", {"sessionId": "s", "path": "/p/a"}, "fs", "readTextFile", by="a2c"),
    gate(272, "fs/write_text_file", {"sessionId": "s", "path": "/p/a", "content": ""}, "fs", "writeTextFile", by="a2c"),
    gate(282, "terminal/create", {"sessionId": "s", "command": "ls"}, "terminal", by="a2c"),
    gate(
        298,
        "elicitation/create",
        {"mode": "form", "message": "?", "requestedSchema": {}, "sessionId": "s"},
        "elicitation",
        level="MUST NOT",
        by="a2c",
    ),
]


def _reads(talk: Talk) -> object:
    return talk.request("fs/read_text_file", {"sessionId": "s", "path": "/p/a"})


CASES = [*ENVELOPE, *HANDSHAKE]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_broken_rule_is_found_where_it_is_broken_and_nowhere_else(case: Case) -> None:
    assert_found(case)


def test_without_initialize_nothing_is_concluded_from_what_is_missing() -> None:
    talk = Talk()
    talk.answer(talk.ask("session/resume", {"sessionId": "s", "cwd": "/p", "mcpServers": []}))
    talk.prompt("unknown")
    talk.say(session="stray")
    talk.answer(900)
    talk.request("fs/read_text_file", {"sessionId": "s", "path": "/p/a"})
    talk.update("notice", severity="info", title="x")
    assert findings(talk) == []


def test_recording_that_begins_late_holds_nothing_against_a_second_initialize() -> None:
    talk = Talk()
    talk.answer(40)  # to a request before the recording
    talk.fail(talk.ask("session/list"), -32601)
    talk.hello()
    assert 33 not in [finding.rule for finding in findings(talk)]


def test_header_says_that_the_recording_is_whole() -> None:
    talk = Talk()
    talk.prompt("s")
    assert brief(findings(talk, WHOLE))[0] == (33, "MUST", "c2a")
    assert findings(talk) == []


def test_client_that_asks_for_a_later_version_and_gets_this_one_has_initialized() -> None:
    talk = Talk()
    asked = talk.ask("initialize", {"protocolVersion": 2, "capabilities": {"own": {}}, "info": INFO})
    talk.answer(asked, {"protocolVersion": 1, "agentInfo": INFO})
    talk.open("s")
    talk.fail(talk.request("fs/read_text_file", {"sessionId": "s", "path": "/a"}), -32601, by="c2a")
    talk.turn("s")
    assert findings(talk, WHOLE) == []  # what the client can do is not known


def test_client_that_asks_for_a_later_version_in_the_old_form_is_held_to_its_capabilities() -> None:
    talk = Talk()
    asked = talk.ask("initialize", {"protocolVersion": 9, "clientCapabilities": {}, "clientInfo": INFO})
    talk.answer(asked, {"protocolVersion": 1, "agentInfo": INFO})
    talk.open("s")
    talk.fail(talk.request("fs/read_text_file", {"sessionId": "s", "path": "/a"}), -32601, by="c2a")
    assert brief(findings(talk, WHOLE)) == [(272, "MUST", "a2c")]


def test_another_version_is_not_judged_by_these_rules() -> None:
    talk = Talk()
    talk.hello(protocolVersion=3)
    talk.notify("session/update", {"whatever": 1}, by="a2c")
    talk.ask("session/load", {})
    assert brief(findings(talk)) == [(40, "NOTE", "a2c")]


def test_answer_to_a_broken_request_is_not_unasked() -> None:
    talk = started()
    talk.frame("c2a", {"id": 55, "method": "_x/y", "params": {}})
    talk.fail(55, -32600)
    assert brief(findings(talk)) == [(19, "MUST", "c2a")]
