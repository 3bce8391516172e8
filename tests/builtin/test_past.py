"""A long session is opened at once, shown page by page, and read only as far back as the model needs it."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.past import PAGE, Reach, StoredPast
from dragoman.builtin.session import OpenSession
from dragoman.client import Session
from dragoman.store.ids import new_id
from dragoman.store.messages import message_to_row
from dragoman.store.sessions import MessageRow, SessionRow, Store
from dragoman.uistream.messages import DataPart, StepStartPart, TextPart, ToolPart, UIMessage
from tests.builtin.http_service import Service, recording_model


def conversation(turns: int, clear_at: int | None = None) -> Iterator[UIMessage]:
    for number in range(turns):
        metadata: dict[str, Any] = {"command": {"name": "clear"}} if number == clear_at else {}
        yield UIMessage(new_id("msg"), "user", [TextPart(f"prompt {number}")], metadata)
        call = ToolPart(f"call{number}", "read", "output-available", {"path": "a"}, {"text": "lines"}, title="Read a")
        yield UIMessage(new_id("msg"), "assistant", [StepStartPart(), call, TextPart(f"answer {number}")])


async def stored(service: Service, messages: Sequence[UIMessage]) -> str:
    """A stored session with these messages."""
    store = await Store.open(service.settings.store)
    try:
        row = await store.create_session(
            SessionRow(new_id("ses"), "dragoman", str(service.project), model="scripted", title="long")
        )
        await asyncio.gather(*(store.add_message(row.id, message_to_row(message)) for message in messages))
        return row.id
    finally:
        await store.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each look at the store returned with their parts."""
    counts: list[int] = []
    messages = Store.messages

    async def counted(self: Store, session_id: str, **options: Any) -> tuple[MessageRow, ...]:
        found = await messages(self, session_id, **options)
        if options.get("has_parts", True):
            counts.append(len(found))
        return found

    monkeypatch.setattr(Store, "messages", counted)
    return counts


def shown(session: Session) -> list[str]:
    return [message.text for message in session.state.messages]


def written(turns: int) -> list[str]:
    return [text for number in range(turns) for text in (f"prompt {number}", f"answer {number}")]


@pytest.mark.parametrize("turns", [0, 1, PAGE // 2, PAGE // 2 + 1, 2 * PAGE])
async def test_a_loaded_session_shows_every_message_once_and_in_order(
    turns: int, tmp_path: Path, reads: list[int]
) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, list(conversation(turns)))
    async with service.client() as agent:
        session = await agent.load_session(session_id, service.project)
        assert shown(session) == written(turns)
        assert len(session.state.tool_calls) == turns
        assert max(reads, default=0) <= PAGE  # so many are in memory at a time, and the next page replaces them
        assert sum(reads) == 2 * turns


async def test_resuming_a_session_waits_for_no_message(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, list(conversation(300)))
    read, may_read = OpenSession.read_past, asyncio.Event()

    async def held_back(session: OpenSession) -> None:
        await may_read.wait()
        await read(session)

    monkeypatch.setattr(OpenSession, "read_past", held_back)
    async with service.client() as agent:
        session = await agent.resume_session(session_id, service.project)
        assert reads == []
        may_read.set()
        assert (await session.prompt("say hello")).stop_reason == "end_turn"
        assert sum(reads) >= 600  # nothing was cleared, so the model is given all of them


async def test_a_prompt_reads_only_what_the_model_is_given(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recording_model(monkeypatch)
    service = Service(tmp_path)
    session_id = await stored(service, list(conversation(1000, clear_at=990)))
    async with service.client() as agent:
        session = await agent.resume_session(session_id, service.project)
        await session.prompt("say hello")
        assert model.words == [*written(1000)[2 * 991 :], "say hello"]
        assert sum(reads) <= PAGE + 1
        reads.clear()
        await session.prompt("say more")
        assert reads == []
        assert model.words[-3:] == ["say hello", "hello", "say more"]


async def test_the_model_is_given_the_same_after_a_restart_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recording_model(monkeypatch)
    service = Service(tmp_path)
    session_id = await stored(service, list(conversation(PAGE)))
    for _ in range(2):
        async with service.client() as agent:
            session = await agent.resume_session(session_id, service.project)
            await session.prompt("say hello")
    assert model.words == [*written(PAGE), "say hello", "hello", "say hello"]


async def test_a_client_that_loads_after_another_one_worked_sees_every_message_once(tmp_path: Path) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, list(conversation(PAGE, clear_at=PAGE - 3)))
    async with service.client() as one, service.client() as two, service.client() as three:
        await one.resume_session(session_id, service.project)
        early = await two.load_session(session_id, service.project)
        assert shown(early) == written(PAGE)
        await early.prompt("say hello")  # reads a part of the past into memory
        late = await three.load_session(session_id, service.project)
        assert shown(late) == [*written(PAGE), "say hello", "hello"]


async def test_a_client_that_loads_during_a_turn_misses_nothing(tmp_path: Path) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, list(conversation(PAGE)))
    async with service.client() as one, service.client() as other:
        first = await one.resume_session(session_id, service.project)
        async with first.prompt("say before\npause 0.2\nsay after") as turn:
            await anext(turn)
            second = await other.load_session(session_id, service.project)
            await turn
        watching = second.updates()
        async with asyncio.timeout(60):
            while "after" not in shown(second)[-1]:
                await anext(watching)
        assert shown(second)[: 2 * PAGE + 1] == [*written(PAGE), "say before\npause 0.2\nsay after"]
        assert shown(second)[2 * PAGE + 1 :] == ["before", "after"]


# How far back the model's messages reach


def user(**metadata: Any) -> UIMessage:
    return UIMessage(new_id("msg"), "user", [TextPart("x")], metadata)


def reply(*parts: DataPart) -> UIMessage:
    return UIMessage(new_id("msg"), "assistant", [TextPart("y"), *parts])


def compaction(back: int, user: int | None = None) -> DataPart:
    data: dict[str, Any] = {"id": "1", "summary": "s", "tail": {"back": back}}
    return DataPart("compaction", data if user is None else {**data, "user": user})


def needed(*messages: UIMessage) -> int:
    """How many of these messages, oldest first, the model needs."""
    reach = Reach()
    for count, message in enumerate(reversed(messages), 1):
        if reach.add(message):
            return count
    return len(messages)


def test_without_a_border_every_message_is_needed() -> None:
    assert needed(*(user() if number % 2 else reply() for number in range(20))) == 20


def test_a_clear_is_a_border_unless_it_is_a_command_of_the_project() -> None:
    before = [user(), reply()] * 5
    assert needed(*before, user(command={"name": "clear"}), reply(), user()) == 3
    assert needed(*before, user(command={"name": "clear", "prompt": "x"}), reply(), user()) == 13


@pytest.mark.parametrize(("back", "kept", "count"), [(0, None, 2), (2, None, 4), (2, 5, 7), (5, 2, 7), (99, None, 12)])
def test_the_tail_of_the_last_compaction_is_a_border(back: int, kept: int | None, count: int) -> None:
    before = [user(), reply(compaction(9))] * 5
    assert needed(*before, reply(compaction(back, kept)), user()) == count


@pytest.mark.parametrize("data", [None, "text", {}, {"tail": 3}, {"tail": {"back": "x"}}, {"user": 3}])
def test_data_of_another_program_under_that_name_is_not_a_border(data: Any) -> None:
    assert needed(user(), reply(DataPart("compaction", data)), user()) == 3


async def test_reading_twice_adds_nothing(tmp_path: Path) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, list(conversation(3)))
    store = await Store.open(service.settings.store)
    try:
        past = StoredPast(store, session_id)
        await past.open()
        history: list[UIMessage] = []
        await past.read(history)
        await past.read(history)
        assert len(history) == 6
        assert past.until is None
    finally:
        await store.close()
