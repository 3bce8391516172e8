"""Recorded messages with flaws added: the quick ways of reading give what the slow, general ones give.

There are two of them: an update line decoded in one pass (against one message at a time), and an object that is tried
as a whole (against one member at a time). Values, losses and errors have to be the same.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dragoman.client.connection import ClientConnection
from dragoman.client.services import ClientServices
from dragoman.errors import RemoteProtocolError
from dragoman.rpc import Observer
from dragoman.schema import Loss, encode, v1
from dragoman.schema.forgiving import read
from dragoman.transports.memory import memory_pair
from tests.golden.conversations import CORPORA, messages

FLAWS: list[Any] = [None, 5, -1, 2**64, 1.5, True, "", "other", [], [None], ["x"], {}, {"type": "unheard"}]
PER_SHAPE = 12

corpora = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.skipif(not CORPORA[name].exists(), reason="not here")) for name in CORPORA],
)


def _outline(value: Any) -> Any:
    """The names and types of a value: two messages of one outline are read the same way."""
    if isinstance(value, dict):
        return tuple((name, _outline(each)) for name, each in value.items() if name != "_meta")
    if isinstance(value, list):
        return ("list", *sorted({str(_outline(each)) for each in value[:3]}))
    return type(value).__name__


def distinct(name: str) -> list[tuple[Any, Any]]:
    """One recorded message, with its type, for every outline in a corpus."""
    found: dict[Any, tuple[Any, Any]] = {}
    for message in messages(CORPORA[name]):
        if message.kind is not None and isinstance(message.value, dict):
            found.setdefault((message.method, message.part, _outline(message.value)), (message.kind, message.value))
    return list(found.values())


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and item below a value, as the container and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:3])
    for key, each in items:
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def flawed(value: Any, chance: random.Random) -> Any:
    """A copy with one to four members replaced, removed or renamed."""
    spoilt = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        places = list(_places(spoilt))
        if not places:
            break
        container, key = chance.choice(places)
        how = chance.random()
        if how < 0.7:
            container[key] = copy.deepcopy(chance.choice(FLAWS))
        elif how < 0.85:
            del container[key]
        elif isinstance(container, dict):
            container[f"{key}_"] = container.pop(key)
    return spoilt


def _reading(kind: Any, value: Any, *, tries_whole: bool) -> Any:
    losses: list[Loss] = []
    try:
        found = read(kind, copy.deepcopy(value), losses.append, tries_whole=tries_whole)
    except RemoteProtocolError as error:
        return error.code, error.message, error.path
    return found, encode(found), losses


@corpora
def test_an_object_tried_as_a_whole_reads_as_member_by_member(name: str) -> None:
    chance = random.Random(17)
    with_losses = 0
    for kind, value in distinct(name):
        for _ in range(PER_SHAPE):
            spoilt = flawed(value, chance)
            whole = _reading(kind, spoilt, tries_whole=True)
            assert whole == _reading(kind, spoilt, tries_whole=False), json.dumps(spoilt)
            with_losses += len(whole) == 3 and bool(whole[2])
    assert with_losses > 20


class Delivered(ClientConnection):
    """A client that writes down which updates of which session it was given; without `is_quick`, one at a time."""

    def __init__(self, losses: Losses, *, is_quick: bool) -> None:
        super().__init__(memory_pair()[0], ClientServices(), observers=[losses])
        self.updates: list[tuple[str, bytes]] = []
        self.runs = 0
        if not is_quick:
            self.peer._hot_decode = None

    def on_hot(self, frames: list[v1.UpdateFrame], lines: list[bytes]) -> None:
        self.runs += 1
        super().on_hot(frames, lines)

    def _route(
        self, session_id: str, updates: list[v1.SessionUpdate], lines: Sequence[bytes], share_bytes: int
    ) -> None:
        self.updates += [(session_id, encode(update)) for update in updates]


class Losses(Observer):
    def __init__(self) -> None:
        self.found: list[Loss] = []

    def lost(self, method: str, loss: Loss) -> None:
        self.found.append(loss)


def _compact(params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _spaced(params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


def _params_first(params: Any) -> bytes:
    return json.dumps({"params": params, "method": "session/update", "jsonrpc": "2.0"}).encode() + b"\n"


@corpora
@pytest.mark.parametrize("write", [_compact, _spaced, _params_first])
async def test_update_lines_read_in_one_pass_are_delivered_as_one_at_a_time(name: str, write: Any) -> None:
    chance = random.Random(18)
    updates = [value for kind, value in distinct(name) if kind is v1.SessionNotification]
    # Every third is flawed, so that runs end and begin at all places.
    sent = [flawed(value, chance) if n % 3 == 0 else value for n, value in enumerate(updates * 4)]
    data = b"".join(map(write, sent))
    read_as = []
    for is_quick in (True, False):
        losses = Losses()
        client = Delivered(losses, is_quick=is_quick)
        client.peer.start()
        client.peer.feed(data)
        read_as.append((client.updates, losses.found))
        assert (client.runs > len(updates) / 2) is is_quick
        await client.peer.close()
        await asyncio.sleep(0)
    assert read_as[0] == read_as[1]
    assert len(read_as[0][0]) > len(updates)
