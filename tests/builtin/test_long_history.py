"""A prompt costs the same behind a hundred stored messages and behind ten thousand."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.context.history import ModelConversation
from dragoman.builtin.context.window.estimate import TokenCounter
from dragoman.builtin.context.window.facts import Compaction, TailStart
from dragoman.builtin.models.model import ModelRequest, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.builtin.past import PAGE
from dragoman.builtin.session import OpenSession
from dragoman.client import RemoteAgent, Session, connect
from dragoman.schema import v1
from dragoman.store import messages as stored_messages
from dragoman.store.ids import new_id
from dragoman.transports.memory import memory_pair
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import DataPart, StepStartPart, TextPart, UIMessage, Usage
from tests.builtin.http_service import Service, ask, recording_model
from tests.builtin.test_past import stored

FEW, MANY = 100, 10_000
LOADS, PROMPTS, TRIES = 2, 5, 4


def messages_of(count: int, **answers: Any) -> list[UIMessage]:
    """A conversation of so many messages; `a3=PART` puts a part into the answer with this number."""
    messages: list[UIMessage] = []
    for number in range(count // 2):
        messages.append(UIMessage(new_id("msg"), "user", [TextPart(f"say {number}")]))
        answer = UIMessage(new_id("msg"), "assistant", [StepStartPart(), TextPart(f"{number}")])
        if f"a{number}" in answers:
            answer.parts.append(answers[f"a{number}"])
        messages.append(answer)
    return messages


def compaction(back: int, user: int | None = None) -> DataPart:
    fact = Compaction("cmp", "what was before", TailStart(back), user)
    return DataPart("compaction", {"id": fact.id, "summary": fact.summary, "tail": {"back": back}, "user": user}, "cmp")


async def first_word(session: Session) -> float:
    """The CPU seconds of client and agent until the first word of an answer.

    Without collections: those of the many objects of this test would be counted in whichever prompt they fall.
    """
    gc.disable()
    try:
        began, seconds = time.process_time(), 0.0
        async for update in session.prompt("say hello"):
            if not seconds and isinstance(update, v1.AgentMessageChunk):
                seconds = time.process_time() - began
    finally:
        gc.enable()
    assert session.state.text == "hello"
    return seconds


@asynccontextmanager
async def client_of(service: Service) -> AsyncIterator[RemoteAgent]:
    """A client that does not compare ten thousand frames with the schema."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(service.agent.serve(theirs))
    try:
        async with connect(ours) as agent:
            yield agent
    finally:
        await serving


async def costs(service: Service, session_id: str) -> tuple[float, float]:
    """Of the first prompt after the session was loaded by another process, and of a next one."""
    firsts, nexts = [], []
    for _ in range(LOADS):
        async with client_of(service) as agent:
            session = await agent.load_session(session_id, service.project)
            firsts.append(await first_word(session))
            nexts += [await first_word(session) for _ in range(PROMPTS)]
    return min(firsts), min(nexts)


def hello(request: ModelRequest) -> Iterable[c.Chunk | StepEnd]:
    """An answer whose usage does not depend on the request: the scripted model counts its first one word by word."""
    yield c.TextStart("1")
    yield c.TextDelta("1", "hello")
    yield c.TextEnd("1")
    yield StepEnd("stop", Usage(input=50_000, output=1))


async def test_a_prompt_behind_ten_thousand_messages_costs_at_most_twice_one_behind_a_hundred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(hello)
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    opened = {}
    for count in (FEW, MANY):
        service = Service(tmp_path / str(count))
        service.home.mkdir()
        opened[count] = service, await stored(service, messages_of(count))
    found = {count: [float("inf"), float("inf")] for count in opened}
    for _ in range(TRIES):  # next to other tests the least that a prompt ever cost says what it costs
        for count, (service, session_id) in opened.items():
            found[count] = list(map(min, found[count], await costs(service, session_id)))
        if all(many <= 2 * few for few, many in zip(found[FEW], found[MANY], strict=True)):
            return
    pytest.fail(f"CPU seconds of the first and of a next prompt, behind so many messages: {found}")


class Work:
    """How many messages were decoded, folded and counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded = self.folded = self.counted = 0
        decode, fold, count = stored_messages.message_from_row, ModelConversation._add, TokenCounter.message

        def decoded(row: Any) -> UIMessage:
            self.decoded += 1
            return decode(row)

        def folded(conversation: ModelConversation, messages: Sequence[UIMessage], *rest: Any) -> None:
            self.folded += len(messages)
            fold(conversation, messages, *rest)

        def counted(counter: TokenCounter, message: UIMessage, **options: Any) -> int:
            self.counted += 1
            return count(counter, message, **options)

        monkeypatch.setattr("dragoman.builtin.past.message_from_row", decoded)
        monkeypatch.setattr(ModelConversation, "_add", folded)
        monkeypatch.setattr(TokenCounter, "message", counted)

    def take(self) -> tuple[int, int, int]:
        done = self.decoded, self.folded, self.counted
        self.decoded = self.folded = self.counted = 0
        return done


async def opened(agent: RemoteAgent, session_id: str, service: Service, how: str) -> Session:
    opening = agent.load_session if how == "load" else agent.resume_session
    return await opening(session_id, service.project)


async def test_a_loaded_session_decodes_each_message_once_and_prompts_look_at_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, messages_of(600))
    work = Work(monkeypatch)
    async with service.client() as agent:
        session = await agent.load_session(session_id, service.project)
        assert work.take() == (600, 600, 600)
        for _ in range(3):
            await ask(session, "say hello")
            decoded, folded, counted = work.take()
            assert decoded == 0
            assert folded <= 2  # the prompt, and the answer before it
            assert counted <= 4


async def test_a_resumed_session_has_read_what_the_model_is_given_when_the_user_has_written_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, messages_of(600))
    work, prepare, is_prepared = Work(monkeypatch), OpenSession.prepare_conversation, asyncio.Event()

    async def prepared(session: OpenSession) -> None:
        await prepare(session)
        is_prepared.set()

    monkeypatch.setattr(OpenSession, "prepare_conversation", prepared)
    async with service.client() as agent:
        session = await agent.resume_session(session_id, service.project)
        await asyncio.wait_for(is_prepared.wait(), 20)
        assert work.take() == (600, 600, 600)
        await ask(session, "say hello")
        decoded, folded, counted = work.take()
        assert (decoded, folded) == (0, 1)
        assert counted <= 4


async def test_a_resumed_session_folds_each_message_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(tmp_path)
    session_id = await stored(service, messages_of(600))
    work = Work(monkeypatch)
    async with service.client() as agent:
        session = await agent.resume_session(session_id, service.project)
        await ask(session, "say hello")
        decoded, folded, counted = work.take()
        assert (decoded, folded) == (600, 601)
        assert counted <= 610
        await ask(session, "say hello")
        assert work.take()[:2] == (0, 2)


@pytest.mark.parametrize("how", ["load", "resume"])
async def test_the_model_is_given_the_same_however_the_session_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    model = recording_model(monkeypatch)
    service = Service(tmp_path)
    session_id = await stored(service, messages_of(4 * PAGE, a70=compaction(9), a100=compaction(20, 25)))
    async with service.client() as agent:
        session = await opened(agent, session_id, service, how)
        await ask(session, "say one")
        # The carrier is message 201, so the tail begins with message 181, and the user's message 176 stays, too.
        assert model.words[:4] == ["what was before", "say 88", "90", "say 91"]
        assert model.words[-1] == "say one"
        await ask(session, "/clear")
        await ask(session, "say two")
        assert model.words == ["say two"]
        await ask(session, "/undo")
        await ask(session, "say three")
        assert model.words == ["say three"]
        before = model.words
    async with service.client() as agent:
        session = await opened(agent, session_id, service, how)
        await ask(session, "say four")
        assert model.words == [*before, "three", "say four"]


def test_a_conversation_that_grew_is_the_one_that_is_made_at_once() -> None:
    messages = messages_of(60, a5=compaction(2), a20=DataPart("pruning", {"calls": {}, "users": {"3": 2}}, "p1"))
    growing = ModelConversation(messages[:1])
    for end in range(2, len(messages) + 1):
        assert growing.extend(messages[:end])
        grown, whole = growing.view(), ModelConversation(messages[:end]).view()
        assert [message.parts for message in grown.messages] == [message.parts for message in whole.messages]
        assert [entry.index for entry in grown.entries] == [entry.index for entry in whole.entries]
        assert (grown.last_fact, grown.summary) == (whole.last_fact, whole.summary)
    copied = [UIMessage(message.id, message.role, message.parts) for message in messages]
    assert not growing.extend(copied), "another history is another conversation"
    assert not growing.extend(messages[:-1])
    taken_back = UIMessage(new_id("msg"), "assistant", [DataPart("rewind", {"back": 2})])
    assert not growing.extend([*messages, taken_back])
