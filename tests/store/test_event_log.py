"""The contract of the event log, for every engine: numbers without gaps, one order, one owner, pages, and accepting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.store.event_log import (
    Accepted,
    Already,
    EventKind,
    EventLog,
    KeyInUse,
    ListPlace,
    LogEvent,
    NewEvent,
    NoSession,
    OwnedElsewhere,
    OwnershipLost,
    RecordChange,
)
from tests.store.log_engines import ENGINES, Engine, record

SECONDS = 30.0


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(request.param, tmp_path)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def log(engine: Engine) -> EventLog:
    return engine.open()


def ignore(events: list[LogEvent]) -> None:
    """Events that a test reads later."""


async def everything(log: EventLog, session: str) -> list[LogEvent]:
    events: list[LogEvent] = []
    while page := await log.read(session, events[-1].number if events else 0, 64):
        events += page
    return events


# Events


async def test_events_are_numbered_and_reported_in_the_order_they_came(log: EventLog) -> None:
    owned = {id: await log.create(record(id)) for id in "ab"}
    seen: dict[str, list[int]] = {"a": [], "b": []}
    for number in range(100):
        session = "ab"[number % 2]
        kind: EventKind = "prompt" if number % 7 == 0 else "update"

        def note(events: list[LogEvent], session: str = session) -> None:
            seen[session] += [int(event.body) for event in events]

        owned[session].append([NewEvent(kind, b"%d" % number)], note)
        if number % 10 == 0:
            await asyncio.sleep(0)
    for session in "ab":
        await owned[session].settle()
    assert seen == {"a": list(range(0, 100, 2)), "b": list(range(1, 100, 2))}
    assert [event.number for event in await everything(log, "a")] == list(range(1, 51))
    assert [event.body for event in await log.read("b", 48, 1000)] == [b"97", b"99"]
    assert owned["a"].head == 50
    found = await log.find("a", "me")
    assert found is not None
    assert found.head == 50


async def test_an_event_is_reported_only_when_a_reader_can_see_it(log: EventLog) -> None:
    owned = await log.create(record("a"))
    seen: list[asyncio.Task[list[LogEvent]]] = []
    kinds: list[EventKind] = ["update", "prompt", "update"]
    for kind in kinds:
        owned.append([NewEvent(kind, b"1")], lambda _: seen.append(asyncio.ensure_future(log.read("a", 0, 10))))
        await owned.settle()
        await seen[-1]
    assert [len(task.result()) for task in seen] == [1, 2, 3]


async def test_events_of_one_turn_of_the_loop_are_reported_together(log: EventLog) -> None:
    owned = await log.create(record("a"))
    reports: list[list[int]] = []

    def committed(events: list[LogEvent]) -> None:
        reports.append([event.number for event in events])

    for _ in range(3):
        owned.append([NewEvent("update", b"1")], committed)
    await owned.settle()
    assert reports == [[1, 2, 3]]


async def test_pages_go_through_the_whole_log(log: EventLog) -> None:
    owned = await log.create(record("a"))
    for _ in range(20):
        owned.append([NewEvent("update", b'{"a":"\xc3\xa4"}', turn=3)] * 50, ignore)
        await owned.settle()
    events = await everything(log, "a")
    assert [event.number for event in events] == list(range(1, 1001))
    assert {(event.kind, event.turn, event.body) for event in events} == {("update", 3, b'{"a":"\xc3\xa4"}')}
    assert await log.read("a", 1000, 10, head=1000) == []
    assert await log.read("unknown", 0, 10) == []


async def test_events_of_two_versions_of_the_protocol_stay_apart(log: EventLog) -> None:
    owned = await log.create(record("a"))
    owned.append([NewEvent("update", b"1"), NewEvent("update", b"2", version=2), NewEvent("update", b"3")], ignore)
    await owned.settle()
    assert [(event.number, event.version) for event in await everything(log, "a")] == [(1, 1), (2, 2), (3, 1)]


async def test_joined_events_take_the_place_of_old_ones_and_the_head_stays(log: EventLog) -> None:
    owned = await log.create(record("a"))
    for number in range(4):  # each is committed in one piece
        bodies = [b"%d" % (3 * number + place) for place in range(3)]
        owned.append([NewEvent("update", body) for body in bodies], ignore)
        await owned.settle()
    joined = [LogEvent(2, "update", b"first", 1, 5.0), LogEvent(7, "end", b"second", 1, 6.0)]
    await owned.replace(7, joined)  # in the middle of the third piece
    found = await log.find("a", "me")
    assert found is not None
    assert (found.oldest, found.head) == (8, 12)
    events = await log.read("a", 0, 100)
    assert [event.number for event in events] == [2, 7, 8, 9, 10, 11, 12]
    assert [event.body for event in events[:3]] == [b"first", b"second", b"7"]
    assert [event.number for event in await log.read("a", 2, 100)] == [7, 8, 9, 10, 11, 12]
    seen: list[LogEvent] = []
    owned.append([NewEvent("update", b"new")], seen.extend)
    await owned.settle()
    assert [event.number for event in seen] == [13]
    await owned.replace(9, [LogEvent(9, "update", b"third", 2, 7.0)])
    assert [event.number for event in await log.read("a", 0, 100)] == [2, 7, 9, 10, 11, 12, 13]


async def test_a_session_whose_events_are_all_joined_away_keeps_its_numbers(engine: Engine) -> None:
    log = engine.open()
    owned = await log.create(record("a"))
    owned.append([NewEvent("update", b"1")] * 3, ignore)
    await owned.settle()
    await owned.replace(3, [])
    assert await log.read("a", 0, 10, head=3) == []
    await log.close()
    owned = await engine.open().take("a")
    assert owned.head == 3
    seen: list[LogEvent] = []
    owned.append([NewEvent("update", b"4")], seen.extend)
    await owned.settle()
    assert [event.number for event in seen] == [4]


async def test_the_surplus_of_a_session_is_what_is_too_old_or_too_much(log: EventLog) -> None:
    owned = await log.create(record("a"))
    assert await log.surplus("a", before=1e9, size_bytes=0) == 0
    for _ in range(4):
        owned.append([NewEvent("update", b"x" * 100)], ignore)
        await owned.settle()
    times = [event.at for event in await log.read("a", 0, 100)]
    assert await log.surplus("a", before=0.0, size_bytes=1000) == 0
    assert await log.surplus("a", before=times[2], size_bytes=1000) == 2
    assert await log.surplus("a", before=0.0, size_bytes=150) == 2
    await owned.replace(2, [])
    assert await log.surplus("a", before=0.0, size_bytes=150) == 0
    assert [event.number for event in await log.read("a", 0, 100)] == [3, 4]


# Prompts


async def test_a_prompt_is_accepted_once_in_the_life_of_a_session(engine: Engine) -> None:
    log = engine.open()
    owned = await log.create(record("a"))
    found: list[Accepted | Already] = []
    owned.append([NewEvent("update", b"0")], ignore)
    for id in ("p", "q", "p"):
        owned.accept(id, [NewEvent("prompt", b'"%b"' % id.encode())], found.append)
    owned.append([NewEvent("update", b"9")], ignore)
    await owned.settle()
    assert [type(each) for each in found] == [Accepted, Accepted, Already]
    assert found[2] == Already(2)
    events = await everything(log, "a")
    assert [(event.number, event.body) for event in events] == [(1, b"0"), (2, b'"p"'), (3, b'"q"'), (4, b"9")]
    await log.close()
    again = engine.open()
    owned = await again.take("a")
    owned.accept("q", [NewEvent("prompt", b"1")], found.append)
    await owned.settle()
    assert found[-1] == Already(3)
    assert len(await everything(again, "a")) == 4
    other = await again.create(record("b"))
    other.accept("q", [NewEvent("prompt", b"1")], found.append)
    await other.settle()
    assert isinstance(found[-1], Accepted), "an id counts in its own session"


# Records


async def test_a_record_is_described_after_the_events_it_speaks_of_and_the_last_one_wins(log: EventLog) -> None:
    owned = await log.create(record("a"))
    for number in range(3):
        owned.append([NewEvent("update", b"1")], ignore)
        owned.describe(owned.record._replace(agent_session="x", facts=b'{"title":"%d"}' % number, keys=("name:n",)))
    await owned.settle()
    found = await log.find("a", "me")
    assert found is not None
    assert (found.agent_session, found.facts, found.head, found.keys) == ("x", b'{"title":"2"}', 3, ("name:n",))
    assert owned.record == found


async def test_a_session_of_another_principal_is_not_found(log: EventLog) -> None:
    await log.create(record("a"))
    assert await log.find("a", "another") is None
    assert await log.find("b", "me") is None


async def test_a_key_opens_one_session_and_finds_it(log: EventLog) -> None:
    owned = await log.create(record("a"), "key:1")
    with pytest.raises(KeyInUse) as caught:
        await log.create(record("b"), "key:1")
    assert caught.value.session == "a"
    assert await log.find("b", "me") is None
    await log.create(record("c", "another"), "key:1")
    assert [each.id for each in await log.find_keyed("me", "key:1")] == ["a"]
    owned.describe(owned.record._replace(keys=("key:1", "name:x")))
    await owned.settle()
    assert [each.id for each in await log.find_keyed("me", "name:x")] == ["a"]
    owned.describe(owned.record._replace(keys=()))
    await owned.settle()
    assert await log.find_keyed("me", "name:x") == []
    await log.delete("a")
    await log.create(record("d"), "key:1")


async def test_a_list_is_read_in_pages_the_last_change_first(log: EventLog) -> None:
    for number in range(25):
        place = {"agent": "other" if number % 5 == 0 else "agent", "cwd": "/x" if number % 2 else "/work"}
        await log.create(record(f"s{number:02}", at=float(number // 2), **place))
    await log.create(record("z", "another"))
    found: list[str] = []
    before: ListPlace | None = None
    while True:
        page = await log.page("me", before=before, limit=10)
        found += [each.id for each in page.records]
        if page.next is None:
            break
        before = page.next
    assert found == [f"s{number:02}" for number in reversed(range(25))]
    chosen = await log.page("me", agent="agent", cwd="/x", before=ListPlace(6.0, "s13"), limit=3)
    assert [each.id for each in chosen.records] == ["s11", "s09", "s07"]
    assert chosen.next == ListPlace(3.0, "s07")
    assert len((await log.page(None, limit=100)).records) == 26


async def test_a_list_has_archived_sessions_or_others_or_both(log: EventLog) -> None:
    async def listed(archived: bool | None) -> str:
        page = await log.page("me", archived=archived, before=ListPlace(9.0, ""), limit=3)
        return "".join(found.id for found in page.records)

    owned = {id: await log.create(record(id, at=float(place))) for place, id in enumerate("abcde")}
    for id in "bd":
        owned[id].describe(owned[id].record._replace(facts=b'{"archivedAt":5}'))
        await owned[id].settle()
    assert [await listed(archived) for archived in (False, True, None)] == ["eca", "db", "edc"]
    owned["d"].describe(owned["d"].record._replace(facts=b'{"title":"archivedAt"}'))
    await owned["d"].settle()
    assert [await listed(archived) for archived in (False, True, None)] == ["edc", "b", "edc"]


async def test_prompts_questions_answers_and_ends_move_a_session_up_and_notices_do_not(log: EventLog) -> None:
    owned = {id: await log.create(record(id)) for id in "abc"}

    async def order() -> str:
        return "".join(each.id for each in (await log.page("me", limit=10)).records)

    assert await order() == "cba"
    kinds: tuple[EventKind, ...] = ("notice", "agent", "update", "start", "setting")
    for kind in kinds:
        owned["a"].append([NewEvent(kind, b"1")], ignore)
    owned["a"].describe(owned["a"].record._replace(facts=b'{"turns":1}'))
    await owned["a"].settle()
    assert await order() == "cba"
    moving: tuple[EventKind, ...] = ("prompt", "question", "answer", "end")
    for kind, id in zip(moving, "abab", strict=True):
        owned[id].append([NewEvent(kind, b"1")], ignore)
        await owned[id].settle()
        assert (await order())[0] == id
    owned["c"].describe(owned["c"].record._replace(facts=b'{"title":"new"}', updated_at=1e6))
    await owned["c"].settle()
    assert await order() == "cba"


async def test_changes_are_followed_from_now_on_and_a_slow_reader_gets_the_last_state(log: EventLog) -> None:
    await log.create(record("before"))
    changes = log.changes("me")
    owned = await log.create(record("a"))
    await log.create(record("foreign", "another"))
    for number in range(3):
        owned.describe(owned.record._replace(facts=b"[%d]" % number))
        await owned.settle()
    async with asyncio.timeout(SECONDS):
        change = await anext(changes)
    assert change == RecordChange("a", owned.record)
    assert owned.record.facts == b"[2]"
    await log.delete("a")
    async with asyncio.timeout(SECONDS):
        assert await anext(changes) == RecordChange("a", None)


async def test_a_deleted_session_is_gone_with_its_events(log: EventLog) -> None:
    owned = await log.create(record("a"))
    owned.append([NewEvent("update", b"1")], ignore)
    owned.accept("p", [NewEvent("prompt", b"2")], lambda _: None)
    await owned.settle()
    await log.delete("a")
    assert owned.lost.done()
    assert await log.find("a", "me") is None
    assert await log.read("a", 0, 10) == []
    seen: list[LogEvent] = []
    owned.append([NewEvent("update", b"late")], seen.extend)
    await owned.settle()
    owned = await log.create(record("a"))
    assert await log.read("a", 0, 10) == []
    owned.append([NewEvent("update", b"new")], seen.extend)
    await owned.settle()
    assert [(event.number, event.body) for event in seen] == [(1, b"new")]


# Owners


async def test_a_session_has_one_owner(log: EventLog) -> None:
    with pytest.raises(NoSession):
        await log.take("a")
    owned = await log.create(record("a"))
    with pytest.raises(OwnedElsewhere):
        await log.take("a")
    owned.append([NewEvent("update", b"1")], ignore)
    await owned.release()
    again = await log.take("a")
    assert again.head == 1


async def test_an_owner_that_lost_its_session_commits_and_reports_nothing(log: EventLog) -> None:
    first = await log.create(record("a"))
    seen: list[bytes] = []

    def note(events: list[LogEvent]) -> None:
        seen.extend(event.body for event in events)

    first.append([NewEvent("update", b"1")], note)
    await first.settle()
    second = await log.take("a", force=True)
    assert second.epoch > first.epoch
    assert isinstance(first.lost.result(), OwnershipLost)
    first.append([NewEvent("update", b"of the first")], note)
    first.describe(first.record._replace(facts=b'"of the first"'))
    second.append([NewEvent("update", b"2")], note)
    await first.settle()
    await second.settle()
    assert seen == [b"1", b"2"]
    assert [event.body for event in await everything(log, "a")] == [b"1", b"2"]
    found = await log.find("a", "me")
    assert found is not None
    assert found.facts == b"{}"
    assert not second.lost.done()


async def test_a_log_that_was_opened_again_belongs_to_who_opened_it_last(engine: Engine) -> None:
    log = engine.open()
    first = await log.create(record("a"))
    first.append([NewEvent("update", b"1")], ignore)
    await first.settle()
    again = engine.open()
    second = await again.take("a")
    assert second.epoch > first.epoch
    seen: list[LogEvent] = []
    first.append([NewEvent("update", b"late")], seen.extend)
    async with asyncio.timeout(SECONDS):
        await first.lost
    assert seen == []
    second.append([NewEvent("update", b"2")], seen.extend)
    await second.settle()
    assert [event.body for event in await everything(again, "a")] == [b"1", b"2"]
