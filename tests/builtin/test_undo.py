"""Turns are taken back and brought back, in the conversation and in the files, and what others changed stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.checkpoints import Checkpoints, past_turns
from dragoman.builtin.context.rewound import REDO, REWIND, RewoundWalk, rewound
from dragoman.builtin.models.model import ModelRequest
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.client import Session
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.store.messages import message_from_row
from dragoman.store.sessions import Store
from dragoman.uistream.messages import DataPart, TextPart, UIMessage
from tests.builtin.fixtures import model_view
from tests.builtin.http_service import Service


async def answer_to(session: Session, text: str) -> str:
    await session.prompt(text)
    return session.state.turns[-1].text


async def stored(service: Service, session_id: str) -> list[UIMessage]:
    store = await Store.open(service.settings.store)
    try:
        return [message_from_row(row) for row in await store.messages(session_id)]
    finally:
        await store.close()


async def known_to_model(service: Service, session_id: str) -> str:
    view = model_view(await stored(service, session_id))
    return " ".join(part.text for message in view for part in message.parts if isinstance(part, TextPart))


async def test_undo_takes_back_the_last_turn_and_redo_brings_it_back(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    file = service.project / "a.txt"
    async with service.session() as session:
        await session.prompt("write a.txt first\nsay one")
        await session.prompt("run echo second > a.txt; echo new > b.txt\nsay two")
        answer = await answer_to(session, "/undo")
        assert "a.txt" in answer
        assert file.read_text().strip() == "first"
        assert not (service.project / "b.txt").exists()
        known = await known_to_model(service, session.id)
        assert "one" in known
        assert "two" not in known
        await answer_to(session, "/redo")
        assert file.read_text().strip() == "second"
        assert "two" in await known_to_model(service, session.id)
        assert "nothing to bring back" in await answer_to(session, "/redo")


async def test_undo_goes_back_turn_by_turn_and_rewind_to_a_number(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    file = service.project / "a.txt"
    async with service.session() as session:
        for number in (1, 2, 3, 4):
            await session.prompt(f"write a.txt v{number}\nsay turn{number}")
        await answer_to(session, "/undo")
        await answer_to(session, "/undo")
        assert file.read_text().strip() == "v2"
        listed = await answer_to(session, "/rewind")
        assert "1: write a.txt v1" in listed
        assert "(1 file changed)" in listed
        assert "3:" not in listed
        await session.prompt("write a.txt v5\nsay turn5")
        assert "nothing to bring back" in await answer_to(session, "/redo")
        await answer_to(session, "/rewind 2")
        assert file.read_text().strip() == "v1"
        known = await known_to_model(service, session.id)
        assert "turn1" in known
        assert not any(f"turn{number}" in known for number in (2, 3, 4, 5))
        assert "There is no turn" in await answer_to(session, "/rewind 9")


async def test_what_others_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        await session.prompt("write a.txt agent\n& write b.txt agent\nsay done")
        (service.project / "a.txt").write_text("mine\n")
        answer = await answer_to(session, "/undo")
        assert (service.project / "a.txt").read_text() == "mine\n"
        assert not (service.project / "b.txt").exists()
        assert "changed since by others" in answer


async def test_a_turn_without_changes_is_taken_back_without_touching_files_of_an_earlier_one(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        await session.prompt("write a.txt x\nsay one")
        await session.prompt("say two")
        await answer_to(session, "/undo")
        assert (service.project / "a.txt").exists()
        await answer_to(session, "/undo")
        assert not (service.project / "a.txt").exists()
        await answer_to(session, "/redo")
        assert (service.project / "a.txt").exists()
        await answer_to(session, "/redo")
        assert "two" in await known_to_model(service, session.id)
        assert not (tmp_path / "home" / "checkpoints" / "refused").exists()


async def test_another_process_knows_what_was_taken_back(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        await session.prompt("write a.txt x\nsay one")
        await session.prompt("write a.txt y\nsay two")
        await answer_to(session, "/undo")
        id = session.id
    async with Service(tmp_path, mode="full").client() as agent:
        again = await agent.load_session(id, service.project)
        assert "two" in str(again.state.timeline)  # clients see everything
        await answer_to(again, "/redo")
        assert (service.project / "a.txt").read_text().strip() == "y"


async def test_redo_brings_back_only_what_its_undo_took_back_in_each_folder(tmp_path: Path) -> None:
    service, other = Service(tmp_path, mode="full"), tmp_path / "other"
    other.mkdir()
    async with service.client() as agent:
        session = await agent.new_session(service.project, additional_directories=[str(other)])
        await session.prompt(f"run echo b > {other}/b.txt\nsay one")
        await answer_to(session, "/undo")
        await session.prompt("write a.txt x\nsay two")  # so that the first undo cannot be brought back any more
        await answer_to(session, "/undo")
        answer = await answer_to(session, "/redo")
        assert "a.txt" in answer
        assert (service.project / "a.txt").exists()
        assert not (other / "b.txt").exists()


async def test_an_undo_that_was_cut_off_after_the_files_is_completed_and_can_be_brought_back(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        await session.prompt("write a.txt x\nsay one")
        checkpoints = Checkpoints(service.home / "checkpoints", session.id, [str(service.project)])
        history = await stored(service, session.id)
        await checkpoints.take_back([turn.uid for turn in past_turns(history)])  # and then the process dies
        assert not (service.project / "a.txt").exists()
        assert "a.txt" in await answer_to(session, "/undo")
        assert "one" not in await known_to_model(service, session.id)
        await answer_to(session, "/redo")
        assert (service.project / "a.txt").exists()


async def test_a_fork_from_a_checkpoint_has_what_was_before_the_turn(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full", unstable=True)
    async with service.client(unstable=True) as agent:
        session = await agent.new_session(service.project)
        for number in (1, 2, 3):
            await session.prompt(f"say turn{number}")
        forked = await _fork(agent, session, 3)
        known = await known_to_model(service, forked)
        assert "turn2" in known
        assert "turn3" not in known
        assert await known_to_model(service, await _fork(agent, session, 1)) == ""
        for wrong in (0, 4, "1", True):
            with pytest.raises(RequestError, match="checkpoint must be"):
                await _fork(agent, session, wrong)


async def _fork(agent: Any, session: Session, checkpoint: Any) -> str:
    params = v1.ForkSessionRequest(session.id, session.cwd, meta={"dragoman": {"checkpoint": checkpoint}})
    return str((await agent.call("session/fork", params)).session_id)


async def test_undo_past_a_compaction_gives_the_model_the_messages_before_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []

    class Recording(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            texts = (part.text for each in request.messages for part in each.parts if isinstance(part, TextPart))
            requests.append(" ".join(texts))
            async for item in super().stream(request):
                yield item

    model = Recording()
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        early = "say early " + "word " * 1_000
        await session.prompt(early)
        for _ in range(4):
            await session.prompt("say middle " + "word " * 6_000)
        assert "shortened" in await answer_to(session, "/compact")
        id = session.id
    async with Service(tmp_path, mode="full").client() as agent:
        again = await agent.resume_session(id, service.project)  # only what the model needs is in memory
        await again.prompt("say late")
        assert early.strip() not in requests[-1]
        await answer_to(again, "/rewind 2")
        await again.prompt("say after")
    assert early.strip() in requests[-1]
    assert "say middle word" not in requests[-1]
    assert "say late" not in requests[-1]


def message(role: Any, *facts: DataPart) -> UIMessage:
    return UIMessage("m", role, list(facts))


def test_both_ways_to_find_what_was_taken_back_agree() -> None:
    def turn(*facts: DataPart) -> list[UIMessage]:
        return [message("user"), message("assistant", *facts)]

    histories = [
        [*turn(), *turn(), *turn(DataPart(REWIND, {"back": 2}))],
        [*turn(), *turn(), *turn(DataPart(REWIND, {"back": 2})), *turn(DataPart(REWIND, {"back": 6})), *turn()],
        [*turn(), *turn(), *turn(DataPart(REWIND, {"back": 2})), *turn(DataPart(REDO, {})), *turn()],
        [
            *turn(),
            *turn(DataPart(REWIND, {"back": 2})),
            *turn(),
            *turn(DataPart(REWIND, {"back": 2})),
            *turn(DataPart(REDO, {})),
        ],
        [*turn(), *turn(DataPart(REWIND, {"back": 99})), *turn(DataPart(REWIND, {"back": "x"}))],
    ]
    for history in histories:
        walk, taken = RewoundWalk(), set()
        for index in range(len(history) - 1, -1, -1):
            if walk.is_rewound(history[index]):
                taken.add(index)
        assert taken == rewound(history)
