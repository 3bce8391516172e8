"""The blocking client of the host: its JSON lines are those of `json`, and broken ones are an error."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.host.local.lines import _slow, read_line, write_line
from dragoman.host.local.place import HostPlace
from dragoman.host.local.thin import HostLost, HostRefused, ThinClient, connect_to

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_a_line_is_what_json_writes_and_reads(value: Any) -> None:
    line = write_line(value)
    assert line.count(b"\n") == 1
    assert read_line(line) == value == json.loads(line)
    assert line[:-1].decode("utf-8", "surrogatepass") == _slow()[0](value)
    assert read_line(json.dumps(value, indent=1).replace("\n", " ").encode() + b"\r\n") == value


@pytest.mark.parametrize("line", [b"", b"{", b"nothing", b'{"a":1} x', b'{"a":}', b"[1,]", b'"\x01"'])
def test_what_is_not_json_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_line(line)


@pytest.fixture
def pair() -> Any:
    ours, theirs = socket.socketpair()
    client = ThinClient(ours, HostPlace("/nowhere", "00000000"))
    client.set_timeout(20.0)
    with theirs:
        yield client, theirs
    client.close()


def test_messages_arrive_whole_however_they_are_cut(pair: tuple[ThinClient, socket.socket]) -> None:
    client, theirs = pair
    data = b'{"n":1}\n{"n":2}\n{"n":3}\n'
    seen = []
    for place in range(len(data)):
        theirs.send(data[place : place + 1])
        if data[place : place + 1] == b"\n":
            seen.append(client.read()["n"])
    theirs.send(data)
    assert [*seen, *(client.read()["n"] for _ in range(3))] == [1, 2, 3, 1, 2, 3]


def test_an_answer_is_found_between_other_messages(pair: tuple[ThinClient, socket.socket]) -> None:
    client, theirs = pair
    id = client.request("x", a=1)
    assert json.loads(theirs.recv(4096)) == {"jsonrpc": "2.0", "id": id, "method": "x", "params": {"a": 1}}
    theirs.send(b'{"id":%d,"method":"ask"}\n{"method":"n"}\n{"id":%d,"result":7}\n' % (id, id))
    others: list[dict[str, Any]] = []
    assert client.result(id, others.append) == 7
    assert [each["method"] for each in others] == ["ask", "n"]
    theirs.send(b'{"id":2,"error":{"code":-1,"message":"no","data":{"reason":"busy"}}}\n')
    with pytest.raises(HostRefused, match="no") as refused:
        client.call("y")
    assert (refused.value.code, refused.value.reason) == (-1, "busy")


def test_the_end_of_a_fresh_connection_differs_from_that_of_a_used_one(
    pair: tuple[ThinClient, socket.socket],
) -> None:
    client, theirs = pair
    theirs.send(b'{"n":1}\n')
    client.read()
    theirs.close()
    with pytest.raises(HostLost) as lost:
        client.read()
    assert not lost.value.is_fresh
    ours, other = socket.socketpair()
    other.close()
    fresh = ThinClient(ours, HostPlace("/nowhere", "00000000"))
    with pytest.raises(HostLost) as lost:
        fresh.read()
    assert lost.value.is_fresh
    fresh.close()


def test_without_a_socket_there_is_nothing_to_connect_to() -> None:
    assert connect_to(HostPlace("/nowhere", "00000000")) is None
