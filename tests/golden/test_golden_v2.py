"""Real messages of version 2: each is read and written back as equal JSON, unknown parts included."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from dragoman import schema
from dragoman.errors import RemoteProtocolError
from dragoman.schema import Loss, v2
from tests.golden.conversations import CORPORA_V2, Message, differences, messages

# Other recordings next to them are of version 1, or have the first messages of several versions mixed.
PATTERNS = {"v2-traffic": ("v2-*.jsonl", "real-*.jsonl"), "sample": ("sample.jsonl",)}

# Made on purpose, or by a probe that asks for what version 2 does not have.
UNKNOWN_METHODS = {
    "v2-traffic": {("client", "_auth/status_update"), ("agent", "session/load")},
    "sample": set(),
}
# Messages with variants that no schema names: the scripted peers and the sample send some on purpose.
WITH_UNKNOWN: dict[str, dict[str, int]] = {
    "v2-traffic": {"session/update params": 1, "session/new params": 1},
    "sample": {
        "initialize result": 1,
        "session/new params": 1,
        "session/new result": 1,
        "session/prompt params": 1,
        "session/update params": 4,
        "elicitation/create params": 1,
        "session/set_config_option params": 1,
    },
}
EXTRA_MEMBERS: dict[str, set[tuple[str, str, str]]] = {"v2-traffic": set(), "sample": set()}


@pytest.fixture(params=CORPORA_V2, scope="module")
def corpus(request: pytest.FixtureRequest) -> tuple[str, list[Message]]:
    name: str = request.param
    if not CORPORA_V2[name].is_dir():
        pytest.skip(f"no recorded conversations at {CORPORA_V2[name]}")
    return name, [each for pattern in PATTERNS[name] for each in messages(CORPORA_V2[name], 2, pattern)]


def test_every_message_is_read_and_written_as_it_was(corpus: tuple[str, list[Message]]) -> None:
    name, found = corpus
    changed, checked = set(), 0
    for message in found:
        if message.kind is None:
            continue
        checked += 1
        kind: Any = v2.Error if message.part == "error" else message.kind
        losses: list[Loss] = []
        value = schema.decode(kind, schema.encode(message.value), losses.append)
        assert losses == [], message.where
        for path in differences(message.value, json.loads(schema.encode(value))):
            changed.add((message.method, message.part, path))
    assert changed == EXTRA_MEMBERS[name]
    assert checked > (800 if name == "v2-traffic" else 40)


def test_the_first_pass_reads_everything_that_holds_nothing_unknown(corpus: tuple[str, list[Message]]) -> None:
    name, found = corpus
    failed: Counter[str] = Counter()
    for message in found:
        if message.kind is None or message.part == "error":
            continue
        try:
            schema.decoder(message.kind).decode(schema.encode(message.value))
        except ValueError:
            failed[f"{message.method} {message.part}"] += 1
    assert failed == WITH_UNKNOWN[name]


def test_methods_the_tables_do_not_have_are_exactly_those_listed(corpus: tuple[str, list[Message]]) -> None:
    name, found = corpus
    assert {(each.side, each.method) for each in found if each.kind is None} == UNKNOWN_METHODS[name]


def test_a_message_without_a_required_member_is_refused_with_its_path() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        schema.decode(v2.PromptResponse, b"{}")
    assert (caught.value.code, caught.value.path) == (-32602, "$.messageId")
