"""The limits of a host's users: what is refused, in which words, and that no way around them is left."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.client import connect
from dragoman.errors import ConfigError, ConnectionClosed, RequestError
from dragoman.host import agent_places
from dragoman.host.host import Visitor
from dragoman.host.quotas import Quota, Quotas
from dragoman.host.working.uploads import UploadRefused
from dragoman.rpc import Transport
from dragoman.schema import v1
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.memory import memory_pair
from tests.host.kit import OURS, Client, Hosted, InProcess, hosted

SECONDS = 60.0


class Counted(InProcess):
    """Agents of a test, counted by the folder of their session: how many there were at once, and their turns."""

    def __init__(self, *, loads: bool = True) -> None:
        super().__init__(self._make_agent)
        self.go = asyncio.Event()
        self.begun = asyncio.Semaphore(0)
        """Released with each turn that begins."""
        self.agents: Counter[str] = Counter()
        self.turns: Counter[str] = Counter()
        self.most_agents: Counter[str] = Counter()
        self.most_turns: Counter[str] = Counter()
        self.most_of_all = 0
        self.cost: dict[str, float] = {}
        self._loads = loads

    async def start(self, cwd: str, env: Any) -> Transport:
        transport: Any = await super().start(cwd, env)
        self.agents[cwd] += 1
        self.most_agents[cwd] = max(self.most_agents[cwd], self.agents[cwd])
        self.most_of_all = max(self.most_of_all, self.agents.total())
        close = transport.close
        is_open = True

        def closed() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                self.agents[cwd] -= 1
            close()

        transport.close = closed
        return transport  # type: ignore[no-any-return]  # it is one, with another way to close it

    def _make_agent(self) -> Agent:
        agent = Agent("test")

        @agent.prompt
        async def reply(turn: Turn) -> None:
            cwd = turn.session.cwd
            self.turns[cwd] += 1
            self.most_turns[cwd] = max(self.most_turns[cwd], self.turns[cwd])
            self.begun.release()
            try:
                await turn.say("x" * 100)
                if "cost" in turn.text:
                    amount = self.cost[turn.session.id] = self.cost.get(turn.session.id, 0.0) + 1.0
                    await turn.usage(1, 100, cost=(amount, "USD"))
                if "wait" in turn.text:
                    await self.go.wait()
                elif "flood" in turn.text:
                    while True:
                        await turn.say("y" * 1000)
                await asyncio.sleep(0)
            finally:
                self.turns[cwd] -= 1

        if self._loads:

            @agent.load_session
            async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
                await session.say("an old message")

        return agent


def visitor(user: str) -> Visitor:
    return Visitor(principal=user, is_local=False)


@asynccontextmanager
async def limited(
    source: Counted, quota: Quota, *, most_agents: int | None = None, **options: Any
) -> AsyncIterator[tuple[Hosted, Quotas]]:
    async with hosted(source, **options) as host:
        yield host, Quotas(host.host, quota, most_agents=most_agents)


async def begun(source: Counted, count: int = 1) -> None:
    async with asyncio.timeout(SECONDS):
        for _ in range(count):
            await source.begun.acquire()


async def outcome(line: Client, request: int) -> dict[str, Any]:
    """The answer to a request, whatever comes before it, other answers too."""
    while True:
        message = await line.next()
        if "method" not in message and message.get("id") == request:
            return message


async def done(line: Client, method: str, **params: object) -> Any:
    """The result of a request, whatever comes before it."""
    answer = await outcome(line, line.ask(method, **params))
    assert "result" in answer, answer
    return answer["result"]


async def opened(line: Client) -> str:
    return str((await done(line, "session/new", cwd="/tmp", mcpServers=[]))["sessionId"])


def limit_of(message: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = message["error"]["data"]
    assert data["reason"] == "limit", message
    assert str(data["limit"]) in message["error"]["message"]
    assert "administrator" in message["error"]["message"]
    return data


# Under attack


async def test_no_limit_is_passed_however_many_clients_try_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two users with three connections and nine tasks each, which open, prompt, cancel, delete and die at random."""
    monkeypatch.setattr(agent_places, "_EMPTY_SECONDS", 0.0)
    monkeypatch.setattr(agent_places, "_NEW_SECONDS", 0.2)
    source = Counted()
    quota = Quota(sessions=5, agents=3, turns=2, prompts_per_hour=60)
    refused: Counter[str] = Counter()
    ended = 0
    users = ("ada", "bob")
    for user in users:
        (tmp_path / user).mkdir()

    async with limited(source, quota, most_agents=4, clock=lambda: 1_700_000_000.0) as (host, quotas):

        async def attempt(work: Any) -> Any:
            try:
                return await work
            except RequestError as error:
                data = error.data if isinstance(error.data, dict) else {}
                refused[str(data.get("limit", data.get("reason", error.message)))] += 1
                return None

        async def attack(user: str, seed: int) -> None:
            nonlocal ended
            chance = random.Random(f"{user} {seed}")
            for _ in range(3):
                ours, theirs = memory_pair()
                serving = asyncio.ensure_future(host.host.serve(theirs, visitor(user)))
                tasks: list[asyncio.Future[None]] = []
                with suppress(ConnectionClosed):
                    async with connect(ours) as agent:

                        async def work() -> None:
                            nonlocal ended
                            session = await attempt(agent.new_session(str(tmp_path / user)))
                            for _ in range(chance.randrange(1, 4) if session is not None else 0):
                                prompt = asyncio.ensure_future(attempt(session.prompt("hello")))
                                if chance.random() < 0.2:
                                    await asyncio.sleep(0)
                                    await session.cancel()
                                ended += (await prompt) is not None
                            if session is not None and chance.random() < 0.9:
                                await attempt(agent.delete_session(session.id))

                        tasks = [asyncio.ensure_future(work()) for _ in range(3)]
                        # Some clients go away in the middle of it.
                        how = asyncio.FIRST_COMPLETED if chance.random() < 0.3 else asyncio.ALL_COMPLETED
                        await asyncio.wait(tasks, return_when=how)
                await asyncio.gather(*tasks, return_exceptions=True)
                ours.close()
                await serving
                kept = (await host.host.log.page(user, limit=100)).records
                assert len(kept) <= 5

        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(attack(user, seed) for user in users for seed in range(3)))
        for user in users:
            folder = str(tmp_path / user)
            assert 0 < source.most_turns[folder] <= 2, user
            assert 0 < source.most_agents[folder] <= 3, user
            assert quotas.prompts_of(user) <= 60
        assert source.most_of_all <= 4
        # They tried: something was refused, and something ran.
        assert refused["sessions"] + refused["turns"] + refused["agents"] > 0, refused
        assert ended > 0

        def counted() -> bool:
            running = sum(session.agent.is_running for session in host.host.live_sessions())
            turns = quotas.turns_of("ada") + quotas.turns_of("bob")
            return quotas.places.running == running == source.agents.total() and not quotas.places.waiting + turns

        await waits(counted)  # nothing is held by what is over, also not by clients that went away


# Each limit


async def test_turns_are_counted_over_all_connections_and_a_prompt_behind_one_that_runs_adds_none() -> None:
    source = Counted()
    async with limited(source, Quota(turns=1)) as (host, quotas):
        one, two = [await host.client(OURS, visitor=visitor("ada")) for _ in range(2)]
        other = await host.client(OURS, visitor=visitor("bob"))
        first, second = await one.open("/tmp"), await two.open("/tmp")
        running = one.prompt(first, "wait")
        await begun(source)
        found = limit_of(await outcome(two, two.prompt(second)))
        assert (found["limit"], found["value"], found["used"]) == ("turns", 1, 1)
        behind = one.prompt(first, "behind")
        theirs = await other.open("/tmp")
        assert (await outcome(other, other.prompt(theirs)))["result"] == {"stopReason": "end_turn"}
        quotas.change("ada", {"turns": 2})
        assert "result" in await outcome(two, two.prompt(second))
        source.go.set()
        for request in (running, behind):
            assert "result" in await outcome(one, request)


async def test_an_idle_agent_of_the_user_makes_room_and_one_that_cannot_come_back_does_not() -> None:
    for loads in (True, False):
        source = Counted(loads=loads)
        async with limited(source, Quota(agents=1)) as (host, quotas):
            line = await host.client(OURS, visitor=visitor("ada"))
            first = await line.open("/tmp")
            assert "result" in await outcome(line, line.prompt(first))
            request = line.ask("session/new", cwd="/tmp", mcpServers=[])
            answer = await outcome(line, request)
            if loads:
                assert "result" in answer
                assert not host.session(first).has_agent
            else:
                assert limit_of(answer)["limit"] == "agents"
                await done(line, "session/close", sessionId=first)
                assert await opened(line)
            assert source.most_of_all == 1
            assert quotas.places.count("ada") == 1


async def test_sessions_that_are_opened_at_the_same_time_do_not_pass_the_limit_together() -> None:
    source = Counted()
    async with limited(source, Quota(sessions=2)) as (host, quotas):
        line = await host.client(OURS, visitor=visitor("ada"))
        requests = [line.ask("session/new", cwd="/tmp", mcpServers=[]) for _ in range(6)]
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < len(requests):
            message = await line.next()
            if "method" not in message:
                answers[message["id"]] = message
        ids = [answer["result"]["sessionId"] for answer in answers.values() if "result" in answer]
        assert len(ids) == 2
        assert {limit_of(answer)["limit"] for answer in answers.values() if "error" in answer} == {"sessions"}
        await done(line, "session/delete", sessionId=ids[0])
        assert await opened(line)
        failed = await outcome(line, line.ask("session/new", cwd="/nowhere", mcpServers=[]))
        assert "error" in failed  # and holds no place
        quotas.change("ada", {"sessions": None})
        assert await opened(line)


async def test_prompts_of_an_hour_are_counted_and_the_same_prompt_twice_is_one() -> None:
    now = 1_700_000_000.0
    async with limited(Counted(), Quota(prompts_per_hour=2), clock=lambda: now) as (host, _):
        line = await host.client(OURS, visitor=visitor("ada"))
        session = await line.open("/tmp")
        text: list[dict[str, Any]] = [{"type": "text", "text": "hi"}]
        for id in ("a", "a", "b"):
            asked = line.ask("session/prompt", sessionId=session, prompt=text, _meta={"dragoman": {"promptId": id}})
            assert "result" in await outcome(line, asked)
        found = limit_of(await outcome(line, line.prompt(session)))
        assert (found["limit"], found["value"]) == ("prompts_per_hour", 2)
        assert 0 < found["retrySeconds"] <= 3600
        now += 3660
        assert "result" in await outcome(line, line.prompt(session))


async def test_cost_and_bytes_and_prompts_survive_a_restart_and_a_deletion_forgives_no_cost(tmp_path: Path) -> None:
    quota = Quota(cost_per_day=2.0, stored_bytes=1_000_000, prompts_per_hour=10)
    now, used = 1_700_000_000.0, 0
    for life in range(2):
        log = SqliteLog(tmp_path / "log" / "sessions.sqlite")
        source = Counted()
        async with limited(source, quota, log=log, clock=lambda: now) as (host, quotas):  # noqa: B023 - it changes
            line = await host.client(OURS, visitor=visitor("ada"))
            session = await line.open("/tmp")
            assert "result" in await outcome(line, line.prompt(session, "cost"))
            assert quotas.cost_of("ada") == {"USD": 1.0 + life}
            assert quotas.prompts_of("ada") == 1 + life
            if life == 0:
                used = quotas.bytes_of("ada")
                assert used > 100
                upload = await host.host.uploads.put(b"z" * 1000, "text/plain", user="ada", device="laptop")
                assert quotas.bytes_of("ada") == used + upload.bytes
            else:
                assert quotas.bytes_of("ada") > used + 1000
                await done(line, "session/delete", sessionId=session)
                assert quotas.cost_of("ada") == {"USD": 2.0}
                found = limit_of(await outcome(line, line.ask("session/new", cwd="/tmp", mcpServers=[])))
                assert (found["limit"], found["value"], found["used"]) == ("cost_per_day", 2.0, 2.0)
                assert 0 < found["retrySeconds"] <= 86400
                now += 86400
                assert await opened(line)
        await log.close()


async def test_a_turn_that_reaches_the_cost_of_the_day_is_cancelled_with_all_others_of_its_user() -> None:
    source = Counted()
    async with limited(source, Quota(cost_per_day=1.0)) as (host, _):
        line = await host.client({**OURS, "session": {"notices": {}}}, visitor=visitor("ada"))
        other = await host.client(OURS, visitor=visitor("bob"))
        first, second, theirs = await line.open("/tmp"), await line.open("/tmp"), await other.open("/tmp")
        requests = [line.prompt(first, "wait"), line.prompt(first, "behind it")]
        apart = other.prompt(theirs, "wait")
        await begun(source, 2)
        requests.append(line.prompt(second, "cost, then wait"))
        answers: dict[int, dict[str, Any]] = {}
        notices: list[str] = []
        while len(answers) < 3:
            message = await line.next()
            if "method" not in message:
                answers[message["id"]] = message
            elif "update" in message["params"] and message["params"]["update"]["sessionUpdate"] == "notice":
                notices.append(str(message["params"]["update"]))
        assert answers[requests[0]]["result"] == answers[requests[2]]["result"] == {"stopReason": "cancelled"}
        assert limit_of(answers[requests[1]])["limit"] == "cost_per_day"
        assert "cost_per_day" in "".join(notices)
        source.go.set()
        assert (await outcome(other, apart))["result"] == {"stopReason": "end_turn"}


async def test_stored_bytes_refuse_prompts_and_attachments_and_end_a_turn_that_floods(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log" / "sessions.sqlite")
    async with limited(Counted(), Quota(stored_bytes=100_000), log=log) as (host, quotas):
        line = await host.client(OURS, visitor=visitor("ada"))
        session = await line.open("/tmp")
        found = limit_of(await outcome(line, line.prompt(session, "z" * 200_000)))
        assert (found["limit"], found["value"]) == ("stored_bytes", 100_000)
        # At the same time: together they are too much, and one of them fits.
        puts = [host.host.uploads.put(b"z" * 40_000, "text/plain", user="ada", device="laptop") for _ in range(4)]
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert 1 <= sum(not isinstance(result, BaseException) for result in results) <= 2
        assert all(isinstance(result, UploadRefused) for result in results if isinstance(result, BaseException))
        assert quotas.bytes_of("ada") <= 100_000
        assert (await outcome(line, line.prompt(session, "flood")))["result"] == {"stopReason": "cancelled"}
        assert limit_of(await outcome(line, line.prompt(session)))["limit"] == "stored_bytes"
        await done(line, "session/delete", sessionId=session)
        assert await opened(line)
    await log.close()


# The agents of the host


async def test_a_turn_waits_for_an_agent_of_the_host_and_a_new_session_for_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Counted(loads=False)
    async with limited(source, Quota(), most_agents=1) as (host, quotas):
        monkeypatch.setattr(agent_places, "_NEW_SECONDS", 0.0)
        ada, bob = [await host.client(OURS, visitor=visitor(user)) for user in ("ada", "bob")]
        session = await ada.open("/tmp")
        error = await bob.error("session/new", cwd="/tmp", mcpServers=[])
        assert error["data"] == {"reason": "no_agent", "value": 1, "used": 1}
        assert "try again later" in error["message"]
        monkeypatch.setattr(agent_places, "_NEW_SECONDS", SECONDS)
        waiting = bob.ask("session/new", cwd="/tmp", mcpServers=[])
        await waits(lambda: quotas.places.waiting == 1)
        await done(ada, "session/close", sessionId=session)
        assert "result" in await outcome(bob, waiting)
        assert source.most_of_all == 1


async def test_idle_agents_end_for_others_and_a_turn_that_waits_can_be_cancelled() -> None:
    source = Counted()
    async with limited(source, Quota(), most_agents=2) as (host, quotas):
        ada, bob = [await host.client(OURS, visitor=visitor(user)) for user in ("ada", "bob")]
        sessions = []
        for line in (ada, ada, bob):  # each agent is idle when the next one is needed
            sessions.append(await line.open("/tmp"))
            assert "result" in await outcome(line, line.prompt(sessions[-1]))
        assert not host.session(sessions[0]).has_agent
        held = [ada.prompt(sessions[1], "wait"), bob.prompt(sessions[2], "wait")]
        await begun(source, 5)
        first = ada.prompt(sessions[0], "too many")
        await waits(lambda: quotas.places.waiting == 1)
        ada.notify("session/cancel", sessionId=sessions[0])
        assert (await outcome(ada, first))["result"] == {"stopReason": "cancelled"}
        assert quotas.places.waiting == 0
        again = ada.prompt(sessions[0], "when there is room")
        await waits(lambda: quotas.places.waiting == 1)
        source.go.set()
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < 2:
            message = await ada.next()
            if "method" not in message:
                answers[message["id"]] = message
        assert {id: "result" in message for id, message in answers.items()} == {held[0]: True, again: True}
        assert "result" in await outcome(bob, held[1])
        assert source.most_of_all == 2


async def waits(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - a test has no event for it
            await asyncio.sleep(0.005)


# The file


async def test_limits_of_users_are_read_again_when_the_file_changes_and_a_broken_one_lifts_none(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log" / "sessions.sqlite")
    async with limited(Counted(), Quota(turns=3), log=log) as (_, quotas):
        file = tmp_path / "log" / "quotas.json"
        quotas.change("ada", {"turns": 1, "cost_per_day": 2.5})
        assert (quotas.of("ada").turns, quotas.of("ada").cost_per_day, quotas.of("bob").turns) == (1, 2.5, 3)
        file.write_text(file.read_text().replace("2.5", "7.5"))
        assert quotas.of("ada").cost_per_day == 7.5
        file.write_text("{")
        assert quotas.of("ada").turns == 1
        file.write_text('{"version": 1, "users": {"ada": {"cows": 1}}}')
        assert quotas.of("ada").turns == 1
        file.unlink()
        assert quotas.of("ada") == Quota(turns=3)
        quotas.change("ada", {"turns": None})
        quotas.change("ada", {"turns": "default"})
        assert quotas.own_names("ada") == frozenset()
        for wrong in ({"cows": 1}, {"turns": -1}, {"turns": 1.5}, {"turns": True}, {"turns": "many"}):
            with pytest.raises(ConfigError):
                quotas.change("ada", wrong)
    await log.close()
