"""Forks: a session that goes on from another, at a message, while both live on by themselves."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import RemoteAgent, Session
from dragoman.errors import LocalProtocolError, RequestError, StoreError
from dragoman.schema import v1
from dragoman.store.ids import new_id
from dragoman.store.sessions import MessageRow, PartRow, SessionRow, Store, UsageRow
from tests.agent.fixtures import NOTHING
from tests.builtin.client_kinds import kind_client
from tests.builtin.fixtures import prompt_row
from tests.builtin.http_service import Service, ask, recording_model


def words(session: Session) -> list[str]:
    return [message.text for message in session.state.messages]


async def fork_at(agent: RemoteAgent, session: Session, message_id: object, cwd: Path) -> str:
    meta = {"dragoman": {"messageId": message_id}}
    answer = await agent.call("session/fork", v1.ForkSessionRequest(session.id, str(cwd), meta=meta))
    return str(answer.session_id)


async def test_it_is_offered_without_an_option_to_every_client_that_can(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with kind_client(service, NOTHING) as client:
        session_id = await client.start()
        await client.play(session_id, "say one")
        asking = client.ask("session/fork", sessionId=session_id, cwd=client.project, mcpServers=[])
        _, answer = await client.finish(asking)
        fork_id = answer["result"]["sessionId"]
        assert fork_id != session_id
        await client.play(fork_id, "say two")
    async with service.client() as agent:  # a client that keeps to the stable protocol
        assert agent.capabilities.session_capabilities
        assert agent.capabilities.session_capabilities.fork
        with pytest.raises(LocalProtocolError):
            await agent.fork_session(fork_id, service.project)
        assert words(await agent.load_session(fork_id, service.project)) == ["say one", "one", "say two", "two"]


async def test_a_fork_does_not_begin_in_the_mode_that_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = Service(tmp_path, unstable=True), recording_model(monkeypatch)
    async with service.client(unstable=True) as agent:
        session = await agent.new_session(service.project)
        for mode, expected in (("full", "ask"), ("edit", "edit")):
            await session.set_mode(mode)
            assert (await agent.fork_session(session.id, tmp_path)).state.mode == expected
            assert session.state.mode == mode


async def test_both_go_on_from_the_same_place_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, model = Service(tmp_path, unstable=True), recording_model(monkeypatch)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with service.client(unstable=True) as agent:
        session = await agent.new_session(service.project)
        await session.set_mode("plan")
        await ask(session, "say one")
        fork = await agent.fork_session(session.id, elsewhere)
        assert fork.id != session.id
        assert words(fork) == []
        assert fork.state.mode == "plan"
        await ask(fork, "say fork")
        assert model.words == ["say one", "one", "say fork"]
        await ask(session, "say two")
        assert model.words == ["say one", "one", "say two"]
        listed = {info.session_id: info async for info in agent.sessions()}
        assert (listed[fork.id].title, listed[fork.id].cwd) == ("say one (fork)", str(elsewhere))
        await agent.delete_session(session.id)
    async with service.client(unstable=True) as agent:
        assert words(await agent.load_session(fork.id, elsewhere)) == ["say one", "one", "say fork", "fork"]


async def test_at_a_message_nothing_after_it_is_taken_along(tmp_path: Path) -> None:
    service = Service(tmp_path, unstable=True)
    (service.project / "a.txt").write_text("content")
    async with service.client(unstable=True) as agent:
        session = await agent.new_session(service.project)
        await ask(session, "say one", "read a.txt", "say two")
        await ask(session, "say three")
        passage = session.state.messages[1].message_id
        forked = await fork_at(agent, session, passage, service.project)
    async with service.client(unstable=True) as agent:
        whole = await agent.load_session(session.id, service.project)
        first_of_second_turn = next(each for each in whole.state.messages if each.text == "say three")
        at_user = await fork_at(agent, whole, first_of_second_turn.message_id, service.project)
        assert words(await agent.load_session(forked, service.project))[1:] == ["one", "two"]
    async with service.client(unstable=True) as agent:
        loaded = await agent.load_session(at_user, service.project)
        assert words(loaded)[-2:] == ["two", "say three"]
        (call,) = loaded.state.tool_calls.values()
        assert call.status == "completed"


@pytest.mark.parametrize("wrong", ["msg_none", 3, ""])
async def test_a_message_that_is_not_there_is_refused(tmp_path: Path, wrong: object) -> None:
    service = Service(tmp_path, unstable=True)
    async with service.client(unstable=True) as agent:
        session = await agent.new_session(service.project)
        await ask(session, "say one")
        with pytest.raises(RequestError) as refused:
            await fork_at(agent, session, wrong, service.project)
        assert refused.value.code == -32602
        with pytest.raises(RequestError) as missing:
            await agent.fork_session("ses_none", service.project)
        assert missing.value.code == -32002
        assert len([info async for info in agent.sessions()]) == 1


async def test_no_fork_while_a_turn_runs(tmp_path: Path) -> None:
    service = Service(tmp_path, unstable=True)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def user(request: v1.RequestPermissionRequest, session: Any) -> str:
        asked.set()
        await answer.wait()
        return request.options[0].option_id

    async with service.client(permission=user, unstable=True) as agent:
        session = await agent.new_session(service.project)
        turn = asyncio.ensure_future(ask(session, "run touch hi"))
        await asked.wait()
        with pytest.raises(RequestError, match="running") as refused:
            await agent.fork_session(session.id, service.project)
        assert refused.value.code == -32600
        answer.set()
        await turn
        await agent.fork_session(session.id, service.project)


async def test_the_row_points_to_its_parent_and_starts_without_cost(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    try:
        parent = await store.create_session(SessionRow(new_id("ses"), "dragoman", "/w"))
        ids = [new_id("msg"), new_id("msg")]
        for id in ids:
            await store.begin_turn(parent.id, prompt_row(), id)
            await store.finish_message(
                parent.id,
                MessageRow(id, "assistant", (PartRow("text", id.encode()),)),
                [UsageRow("m", 5, cost_usd=1.0)],
            )
        await store.add_rule(parent.id, "execute:rm", "deny")
        row = SessionRow(new_id("ses"), "dragoman", "/w", parent_id=parent.id)
        fork = await store.fork_session(row, until=ids[0])
        assert (fork.parent_id, fork.parent_message_id) == (parent.id, ids[0])
        (copy,) = await store.messages(fork.id)
        assert copy.parts == (PartRow("text", ids[0].encode()),)
        assert copy.id not in ids
        assert await store.rules(fork.id) == (("execute:rm", "deny"),)
        assert (await store.usage(fork.id)).cost_usd is None
        assert (await store.usage(parent.id)).cost_usd == 2.0
        await store.begin_turn(parent.id, prompt_row(), new_id("msg"))
        with pytest.raises(StoreError, match="turn is running"):
            await store.fork_session(SessionRow(new_id("ses"), "dragoman", "/w", parent_id=parent.id))
        assert len((await store.sessions()).sessions) == 2
    finally:
        await store.close()
