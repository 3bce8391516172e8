"""Real messages: each is read strictly and written back as equal JSON, apart from a committed list of differences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import schema
from dragoman.errors import METHOD_NOT_FOUND, RemoteProtocolError
from dragoman.schema import Loss
from tests.golden.conversations import CORPORA, HERE, Message, differences, messages

KNOWN: dict[str, dict[str, list[dict[str, Any]]]] = json.loads((HERE / "known_differences.json").read_text())


@pytest.fixture(params=CORPORA, scope="module")
def corpus(request: pytest.FixtureRequest) -> tuple[str, list[Message]]:
    name: str = request.param
    if not CORPORA[name].is_dir():
        pytest.skip(f"no recorded conversations at {CORPORA[name]}")
    return name, list(messages(CORPORA[name]))


def entries(corpus: str, group: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for entry in KNOWN[corpus][group]:
        yield tuple(value for key, value in entry.items() if key != "why"), entry


def test_every_message_is_read_strictly_and_written_as_it_was(
    corpus: tuple[str, list[Message]], record_property: Any
) -> None:
    name, found = corpus
    allowed = {key for key, _ in entries(name, "members")}
    used, wrong, checked = set(), [], 0
    for message in found:
        if message.kind is None or is_bad(name, message):
            continue
        checked += 1
        for path in changed_by_reading(message):
            key = (message.method, message.part, path)
            used.add(key)
            if key not in allowed:
                wrong.append(f"{message.where} {message.method} {message.part} {path}")
    record_property("checked", checked)
    assert wrong == []
    assert used == allowed, "an entry of known_differences.json is no longer needed"
    assert checked > (4000 if name == "transcripts" else 40)


def is_bad(corpus: str, message: Message) -> bool:
    """Whether the list names this message: one that lacks the member at the entry's path."""
    return any(
        (message.method, message.part) == (entry["method"], entry["part"]) and entry["path"][2:] not in message.value
        for _, entry in entries(corpus, "bad")
    )


def changed_by_reading(message: Message) -> list[str]:
    data = json.dumps(message.value, ensure_ascii=False).encode()
    losses: list[Loss] = []
    value = schema.decode(message.kind, data, losses.append)
    assert losses == [], message.where
    return list(differences(message.value, json.loads(schema.encode(value))))


def test_the_first_pass_reads_every_message_that_holds_nothing_unknown(corpus: tuple[str, list[Message]]) -> None:
    name, found = corpus
    failed: Counter[str] = Counter()
    for message in found:
        if message.kind is None or message.value is None or is_bad(name, message):
            continue
        try:
            schema.decoder(message.kind).decode(json.dumps(message.value).encode())
        except ValueError:
            failed[f"{message.method} {message.part}"] += 1
    # The sample holds unknown variants on purpose; none of the recorded agents sends one this schema lacks.
    expected = {"session/new result": 1, "session/prompt params": 1, "session/update params": 2}
    assert failed == ({} if name == "transcripts" else {**expected, "elicitation/create params": 1})


@pytest.mark.rule(178, 337)
def test_deliberately_bad_requests_are_refused_with_their_code_and_path(corpus: tuple[str, list[Message]]) -> None:
    name, found = corpus
    seen = set()
    for key, entry in entries(name, "bad"):
        for message in found:
            if is_bad(name, message) and (message.method, message.part) == key[:2]:
                with pytest.raises(RemoteProtocolError) as caught:
                    schema.decode(message.kind, json.dumps(message.value).encode())
                assert (caught.value.code, caught.value.path) == (entry["code"], entry["path"])
                seen.add(key)
    assert seen == {key for key, _ in entries(name, "bad")}


@pytest.mark.rule(28, 333)
def test_methods_the_table_does_not_have_are_exactly_those_listed(corpus: tuple[str, list[Message]]) -> None:
    name, found = corpus
    unknown = {(message.side, message.method, METHOD_NOT_FOUND) for message in found if message.kind is None}
    assert unknown == {key for key, _ in entries(name, "unknown_methods")}
