"""Whom a broken message concerns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from dragoman.wire.glimpse import Glimpse, glimpse
from dragoman.wire.ids import Id

UNKNOWN = Glimpse("unknown", UNSET)

READABLE = {
    "a request": (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a', Glimpse("request", 5)),
    "a request with white space": (b' { "jsonrpc" : "2.0" , "id" : "5" , "method"\t: "x', Glimpse("request", "5")),
    "a response": (b'{"jsonrpc":"2.0","id":5,"result":{"a', Glimpse("response", 5)),
    "an error": (b'{"jsonrpc":"2.0","error":{"code":1,"id":9},"id":5,"a":', Glimpse("response", 5)),
    "a notification": (b'{"jsonrpc":"2.0","method":"x","params":{"a', Glimpse("request", UNSET)),
    "params before the method": (b'{"id":5,"params":{"a":[1,2', Glimpse("request", 5)),
    "an id behind other members": (b'{"params":{"id":1},"method":"x","id":5,', Glimpse("request", 5)),
    "null": (b'{"id":null,"method":"x"}', Glimpse("request", None)),
    "a string with quotes": (b'{"id":"a\\"b","method":"x"}', Glimpse("request", 'a"b')),
    "a negative id": (b'{"id":-7,"method":"x"}', Glimpse("request", -7)),
    "a name that occurs twice": (b'{"id":1,"id":2,"method":"x"}', Glimpse("request", 2)),
}


@pytest.mark.rule(20, 27)
@pytest.mark.parametrize("name", READABLE)
def test_id_and_kind_are_read_from_the_outermost_object(name: str) -> None:
    head, expected = READABLE[name]
    seen = glimpse(head)
    assert seen == expected
    assert type(seen.id) is type(expected.id)


UNREADABLE = {
    "an id in params": (b'{"method":"x","params":{"id":5', Glimpse("request", UNSET)),
    "an id in params that are closed": (b'{"method":"x","params":{"id":5},"m":', Glimpse("request", UNSET)),
    "an id in a list": (b'{"result":[{"id":5},{"id":6}],"m', Glimpse("response", UNSET)),
    "an id in a string": (b'{"method":"x\\",\\"id\\":5,","m":', Glimpse("request", UNSET)),
    "a value that says id": (b'{"method":"id","m":5,', Glimpse("request", UNSET)),
    "a number that is cut": (b'{"method":"x","id":12', Glimpse("request", UNSET)),
    "a string that is cut": (b'{"method":"x","id":"12', Glimpse("request", UNSET)),
    "a name that is cut": (b'{"id":5,"metho', UNKNOWN),
    "an id without a kind": (b'{"jsonrpc":"2.0","id":5,"other":{"a', UNKNOWN),
    "true": (b'{"method":"x","id":true,"m', Glimpse("request", UNSET)),
    "a fraction": (b'{"method":"x","id":1.5,"m', Glimpse("request", UNSET)),
    "an object": (b'{"method":"x","id":{"id":5},"m', Glimpse("request", UNSET)),
    "5,000 digits": (b'{"method":"x","id":' + b"9" * 5000 + b",", Glimpse("request", UNSET)),
    "a string that is not UTF-8": (b'{"method":"x","id":"\xff",', Glimpse("request", UNSET)),
    "a log line that quotes a frame": (b'sent {"jsonrpc":"2.0","id":5,"result":{}}', UNKNOWN),
    "a batch": (b'[{"jsonrpc":"2.0","id":5,"method":"x"}]', UNKNOWN),
    "two objects": (b'{"a":1}{"id":5,"method":"x"}', UNKNOWN),
    "colons only": (b"{:::,:,}", UNKNOWN),
    "nothing": (b"", UNKNOWN),
}


@pytest.mark.rule(20, 27)
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_not_certain_is_not_returned(name: str) -> None:
    head, expected = UNREADABLE[name]
    assert glimpse(head) == expected


TAILS: dict[str, tuple[bytes, Id | UnsetType]] = {
    "an id that comes last": (b'aaa"},"id":5}', 5),
    "an id with white space": (b'aaa"} , "id" : "x" } \r', "x"),
    "null": (b'aaa"},"id":null}', None),
    "an id in a nested object": (b'aaa","id":5}}', UNSET),
    "an id in a string": (b'aaa,\\"id\\":5}"}', UNSET),
    "an id that is not the last member": (b'aaa,"id":5,"b":1}', UNSET),
    "an id that is not one": (b'aaa,"id":true}', UNSET),
}


@pytest.mark.parametrize("name", TAILS)
def test_an_id_at_the_very_end_is_found_too(name: str) -> None:
    tail, expected = TAILS[name]
    assert glimpse(b'{"jsonrpc":"2.0","result":{"text":"aaa', tail) == Glimpse("response", expected)


def test_the_head_is_believed_before_the_tail() -> None:
    assert glimpse(b'{"id":1,"result":{"a', b'a"},"id":2}').id == 1


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"{", b"}", b"[", b":", b",", b'"id"', b'"method"', b"5", b'"', b"\\", b" "])))
def test_any_tokens_give_a_glimpse(tokens: list[bytes]) -> None:
    head = b"".join(tokens)
    assert isinstance(glimpse(head, head), Glimpse)
