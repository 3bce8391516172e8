"""Where messages of a chain go: to neighbours only, with ids of each hop, and never under a name of the chain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.proxy.chain_router import ChainRouter

HELLO = {"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}}
READY = {"protocolVersion": 1, "agentCapabilities": {}}


class Chain:
    """A router, and the programs of the chain as the test plays them."""

    def __init__(self, links: int) -> None:
        self.sent: list[tuple[int, dict[str, Any]]] = []
        self.lines: list[bytes] = []
        self.broken: list[str] = []
        self.noise: list[str] = []
        self.agent = links + 1
        self.router = ChainRouter(
            [f"link {number}" for number in range(1, links + 1)],
            "the agent",
            self._send,
            self.broken.append,
            self.noise.append,
        )

    def _send(self, target: int, line: bytes) -> None:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.lines.append(line)
        self.sent.append((target, json.loads(line)))

    def say(self, sender: int, **message: object) -> list[tuple[int, dict[str, Any]]]:
        """What is sent when a program says something."""
        return self.raw(sender, json.dumps({"jsonrpc": "2.0", **message}).encode())

    def raw(self, sender: int, line: bytes) -> list[tuple[int, dict[str, Any]]]:
        before = len(self.sent)
        self.router.feed(sender, line)
        return self.sent[before:]

    def greet(self, prefix: str = "proxy/") -> Any:
        """The whole start, with links that pass everything on; the answer that the client gets."""
        [(_, message)] = self.say(0, id="hello", method="initialize", params=HELLO)
        ids: list[Any] = []
        for link in range(1, self.agent):
            if prefix == "_proxy/":
                assert message["method"] == "proxy/initialize"
                unknown = {"code": -32601, "message": "?"}
                [(target, message)] = self.say(link, id=message["id"], error=unknown)
                assert target == link
            assert (message["method"], message["params"]) == (f"{prefix}initialize", HELLO)
            ids.append(message["id"])
            inner = {"method": "initialize", "params": HELLO}
            [(target, message)] = self.say(link, id=link * 7, method=f"{prefix}successor", params=inner)
            assert target == link + 1
        assert message["method"] == "initialize"
        [(target, message)] = self.say(self.agent, id=message["id"], result=READY)
        for link in range(self.agent - 1, 0, -1):
            assert (target, message["id"]) == (link, link * 7)
            [(target, message)] = self.say(link, id=ids.pop(), result=message["result"])
        assert target == 0
        return message


@pytest.mark.parametrize("links", [0, 1, 3])
@pytest.mark.parametrize("prefix", ["proxy/", "_proxy/"])
def test_initialize_goes_through_every_link_in_the_form_that_it_knows(links: int, prefix: str) -> None:
    chain = Chain(links)
    assert chain.greet(prefix) == {"jsonrpc": "2.0", "id": "hello", "result": READY}
    if links:
        # What comes from behind is wrapped in the same form.
        [(target, message)] = chain.say(chain.agent, id=1, method="fs/read_text_file", params={"path": "/a"})
        assert (target, message["method"]) == (links, f"{prefix}successor")
        assert message["params"] == {"method": "fs/read_text_file", "params": {"path": "/a"}}
    assert chain.broken == []


def test_params_pass_as_the_bytes_they_were_and_meta_of_a_hop_does_not() -> None:
    chain = Chain(1)
    chain.greet()
    odd = b'{"b":1.50,"a":"\\u00e9\\/", "x" : [ ] }'
    wrapped = (
        b'{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"_meta":{"hop":1},"method":"m","params":%b}}'
    )
    [(target, message)] = chain.raw(1, wrapped % odd)
    assert target == 2
    assert odd in chain.lines[-1]
    assert "hop" not in str(message)


def test_a_cancel_names_the_request_of_each_hop() -> None:
    chain = Chain(3)
    chain.greet()
    [(_, message)] = chain.say(0, id="p", method="session/prompt", params={})
    ids = []
    for link in (1, 2, 3):
        ids.append(message["id"])
        inner = {"method": "session/prompt", "params": {}}
        [(_, message)] = chain.say(link, id="same", method="proxy/successor", params=inner)
    ids.append(message["id"])
    for sender, request_id in ((0, "p"), (1, "same"), (2, "same"), (3, "same")):
        [(target, message)] = chain.say(sender, method="$/cancel_request", params={"requestId": request_id})
        assert (target, message["params"]) == (sender + 1, {"requestId": ids[sender]})
    assert chain.say(2, method="$/cancel_request", params={"requestId": "none"}) == []


@pytest.mark.parametrize("name", ["proxy/", "_proxy/"])
def test_methods_of_the_chain_are_never_passed_on(name: str) -> None:
    chain = Chain(2)
    chain.greet()
    forged = {"method": f"{name}successor", "params": {"method": "session/update", "params": {}}}
    for sender, method, params in (
        (0, f"{name}successor", forged),
        (0, f"{name}initialize", HELLO),
        (0, f"{name}other", {}),
        (1, f"{name}initialize", HELLO),
        (1, f"{name}successor", forged),
        (1, f"{name}successor", {"method": f"{name}initialize", "params": HELLO}),
        (3, f"{name}successor", forged),
        (3, f"{name}initialize", HELLO),
    ):
        [(target, message)] = chain.say(sender, id=99, method=method, params=params)
        assert (target, message["error"]["code"]) == (sender, -32601), (sender, method)
        assert chain.say(sender, method=method, params=params) == []
    assert chain.broken == []


def test_a_response_counts_only_from_the_program_that_was_asked_and_once() -> None:
    chain = Chain(2)
    chain.greet()
    [(_, message)] = chain.say(0, id=1, method="session/new", params={})
    for sender in (0, 2, 3):
        assert chain.say(sender, id=message["id"], result={"forged": True}) == []
    assert chain.say(1, id=str(message["id"]), result={}) == []
    assert chain.say(1, id=message["id"], result={"ok": 1}) == [(0, {"jsonrpc": "2.0", "id": 1, "result": {"ok": 1}})]
    assert chain.say(1, id=message["id"], result={"ok": 2}) == []
    assert len(chain.noise) == 5


def test_a_line_with_two_methods_has_one_for_everyone_behind() -> None:
    chain = Chain(1)
    chain.greet()
    line = b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","method":"proxy/successor","params":{"method":"x"}}'
    for sender in (0, 1, 2):
        for _, message in chain.raw(sender, line):
            assert "proxy/successor" not in str(message.get("method"))
    assert all(line.count(b'"method"') <= 2 for line in chain.lines[-3:])


def test_a_link_that_answers_before_its_successor_breaks_the_chain() -> None:
    for passes_on in (False, True):
        chain = Chain(2)
        [(_, message)] = chain.say(0, id=1, method="initialize", params=HELLO)
        if passes_on:  # but does not wait for the answer
            chain.say(1, id=2, method="proxy/successor", params={"method": "initialize", "params": HELLO})
        [(target, answer)] = chain.say(1, id=message["id"], result=READY)
        assert (target, answer["id"], answer["error"]["code"]) == (0, 1, -32603)
        assert "before link 2 did" in chain.broken[0]
        assert chain.say(0, id=3, method="session/new", params={}) == []


def test_an_answer_to_an_earlier_initialize_does_not_count() -> None:
    chain = Chain(1)
    chain.greet()
    [(_, message)] = chain.say(0, id=1, method="initialize", params=HELLO)
    chain.say(1, id=message["id"], result=READY)
    assert "before the agent did" in chain.broken[0]


def test_a_link_that_changes_the_version_breaks_the_chain() -> None:
    chain = Chain(1)
    chain.say(0, id=1, method="initialize", params=HELLO)
    inner = {"method": "initialize", "params": {**HELLO, "protocolVersion": 2}}
    chain.say(1, id=2, method="proxy/successor", params=inner)
    assert "changed the version" in chain.broken[0]
    chain = Chain(1)
    [(_, first)] = chain.say(0, id=1, method="initialize", params={**HELLO, "protocolVersion": 2})
    inner = {"method": "initialize", "params": {**HELLO, "protocolVersion": 2}}
    [(_, message)] = chain.say(1, id=2, method="proxy/successor", params=inner)
    chain.say(2, id=message["id"], result=READY)  # the agent may choose a lower one
    chain.say(1, id=first["id"], result={**READY, "protocolVersion": 2})
    assert "changed the version" in chain.broken[0]


def test_a_program_that_is_not_a_link_is_named() -> None:
    chain = Chain(1)
    [(_, message)] = chain.say(0, id=1, method="initialize", params=HELLO)
    [(_, message)] = chain.say(1, id=message["id"], error={"code": -32600, "message": "initialize must come first"})
    assert message["method"] == "_proxy/initialize"
    chain.say(1, id=message["id"], error={"code": -32600, "message": "initialize must come first"})
    assert "is not a link of a chain" in chain.broken[0]


def test_nothing_reaches_a_program_before_its_initialize() -> None:
    chain = Chain(2)
    [(target, message)] = chain.say(0, id=1, method="session/new", params={})
    assert (target, message["error"]["code"]) == (0, -32600)
    chain.say(0, id=2, method="initialize", params=HELLO)
    for sender in (1, 2, 3):
        for method, params in (("x", {}), ("proxy/successor", {"method": "session/new"})):
            for target, _ in chain.say(sender, id=method, method=method, params=params):
                # The first link has been sent its initialize, so it may ask the client.
                assert target == sender or (sender, target, method) == (1, 0, "x")
            chain.say(sender, method=method, params=params)
    assert {target for target, _ in chain.sent} <= {0, 1, 2, 3}
    assert not any(target == 3 and "method" in message for target, message in chain.sent)


def test_a_failed_initialize_may_be_repeated_and_two_at_once_may_not() -> None:
    chain = Chain(1)
    [(_, message)] = chain.say(0, id=1, method="initialize", params=HELLO)
    [(target, again)] = chain.say(0, id=2, method="initialize", params=HELLO)
    assert (target, again["error"]["code"]) == (0, -32600)
    failure = {"code": -32000, "message": "log in first"}
    assert chain.say(1, id=message["id"], error=failure) == [(0, {"jsonrpc": "2.0", "id": 1, "error": failure})]
    assert chain.greet()["result"] == READY


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 40) | st.sampled_from(["initialize", "proxy/successor", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["method", "params", "id", "requestId", "protocolVersion"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
methods = st.sampled_from(
    ["initialize", "proxy/initialize", "_proxy/successor", "proxy/successor", "$/cancel_request", "session/update", "x"]
)
messages = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": values, "method": methods, "params": values, "result": values, "error": values},
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 4), messages | st.binary(max_size=20)), max_size=25))
def test_whatever_is_sent_goes_to_a_neighbour_under_a_plain_name(said: list[tuple[int, Any]]) -> None:
    chain = Chain(3)
    chain.greet()
    for sender, message in said:
        if chain.broken:
            break
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        for target, sent in chain.raw(sender, line.replace(b"\n", b" ")):
            if chain.broken:
                assert target == 0
                continue
            assert abs(target - sender) <= 1
            method = sent.get("method", "")
            if method == "proxy/successor":
                assert target == sender - 1, "only from behind"
                assert not sent["params"]["method"].startswith(("proxy/", "_proxy/"))
            elif method == "proxy/initialize":
                assert target == sender + 1
            else:
                assert not method.startswith(("proxy/", "_proxy/"))
