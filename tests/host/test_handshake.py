"""`initialize`: what clients are told before and after an agent was seen, and who may log in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.host import HostSettings, Visitor
from dragoman.store.sqlite_log import SqliteLog
from dragoman.testing.agent import scripted_agent
from tests.host.kit import OURS, InProcess, OnTheWire, WireAgent, hosted

RICH: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True},
    "mcpCapabilities": {"http": True},
    "sessionCapabilities": {"additionalDirectories": {}, "close": {}},
    "_meta": {"vendor": {"x": 1}},
}


async def test_the_agent_gets_what_the_host_can_do_from_any_client() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        await host.opened()
        await host.opened(OURS)
        first, second = (agent.hello for agent in source.agents)
        assert first == second
        capabilities = first["clientCapabilities"]
        assert first["clientInfo"]["name"] == "dragoman"
        assert capabilities["fs"] == {"readTextFile": True, "writeTextFile": True}
        assert capabilities["terminal"] is True
        assert set(capabilities["elicitation"]) == {"form", "url"}
        assert set(capabilities["session"]) == {"configOptions", "notices", "compaction"}
        assert not (capabilities.get("auth") or {}).get("terminal")
        assert not capabilities.get("_meta")
        assert "plan" not in capabilities


async def test_an_unbound_client_gets_what_every_agent_can_do() -> None:
    rich, poor = OnTheWire("rich", RICH), OnTheWire("poor", {})
    async with hosted(rich, more=[poor]) as host:
        for _ in range(2):
            line = await host.client(hello=False)
            answer = await line.hello()
            capabilities = answer["agentCapabilities"]
            assert capabilities["promptCapabilities"] == {"image": False, "audio": False, "embeddedContext": True}
            assert capabilities["mcpCapabilities"] == {"http": False, "sse": False}
            assert set(capabilities["sessionCapabilities"]) == {"list", "resume", "delete", "close"}
            assert capabilities["loadSession"] is True
            assert "auth" not in capabilities
            assert set(capabilities["_meta"]) == {"dragoman"}
            assert answer["agentInfo"]["name"] == "dragoman"
            ours = await host.client(OURS)
            for name in ("rich", "poor"):
                await ours.open("/tmp", _meta={"dragoman": {"agent": name}})
        assert rich.starts == poor.starts == 2


async def test_a_bound_client_gets_the_agents_own_capabilities_and_starts_it_once_ever(tmp_path: Path) -> None:
    for round in range(2):  # the second host reads what the first one kept
        log = SqliteLog(tmp_path / "host" / "events.db")
        rich, poor = OnTheWire("rich", RICH), OnTheWire("poor", {})
        async with hosted(rich, more=[poor], log=log) as host:
            for visitor, meta in ((Visitor(agent="rich"), {}), (Visitor(), {"dragoman": {"agent": "rich"}})):
                line = await host.client(hello=False, visitor=visitor)
                answer = await line.hello(_meta=meta)
                capabilities = answer["agentCapabilities"]
                assert capabilities["promptCapabilities"]["image"] is True
                assert capabilities["mcpCapabilities"] == {"http": True, "sse": False}
                assert "additionalDirectories" in capabilities["sessionCapabilities"]
                assert "close" in capabilities["sessionCapabilities"]
                assert capabilities["_meta"]["vendor"] == {"x": 1}
            assert rich.starts == (1 if round == 0 else 0)
            assert poor.starts == 0
            await line.open("/tmp")
            assert rich.agents[-1].opened, "a bound connection opens sessions of its agent"
        await log.close()
    assert (tmp_path / "host" / "agent-capabilities.json").stat().st_mode & 0o077 == 0


async def test_a_new_version_of_an_agent_is_asked_again() -> None:
    source = OnTheWire("rich", RICH)
    async with hosted(source) as host:
        await (await host.client(hello=False, visitor=Visitor(agent="rich"))).hello()
        source.version, source.capabilities = "2", {}
        answer = await (await host.client(hello=False, visitor=Visitor(agent="rich"))).hello()
        assert answer["agentCapabilities"]["promptCapabilities"]["image"] is False
        assert source.starts == 2


async def test_an_answer_that_has_changed_reaches_the_next_client() -> None:
    source = OnTheWire("rich", RICH)
    async with hosted(source) as host:
        for capabilities, expected in ((RICH, True), ({}, True), ({}, False)):
            source.capabilities = capabilities
            line = await host.client(hello=False, visitor=Visitor(agent="rich"))
            answer = await line.hello()
            assert answer["agentCapabilities"]["promptCapabilities"]["image"] is expected
            await line.open("/tmp")


async def test_an_agent_that_the_host_does_not_run_is_refused() -> None:
    async with hosted(OnTheWire()) as host:
        line = await host.client(hello=False)
        error = await line.error("initialize", protocolVersion=1, _meta={"dragoman": {"agent": "other"}})
        assert (error["code"], error["data"]) == (-32602, {"agents": ["test"]})
        await line.hello()
        error = await line.error("session/new", cwd="/tmp", mcpServers=[], _meta={"dragoman": {"agent": "other"}})
        assert (error["code"], error["data"]) == (-32602, {"agents": ["test"]})


async def test_initialize_comes_first_and_a_second_one_changes_nothing() -> None:
    async with hosted(OnTheWire()) as host:
        line = await host.client(hello=False)
        assert (await line.error("session/list"))["code"] == -32600
        first = await line.hello(OURS)
        assert await line.hello({}) == first
        session = await line.open("/tmp")
        _, closed = await line.answer_to(line.ask("session/close", sessionId=session))
        assert closed["result"] == {}, "it still knows the host"


async def test_a_client_that_does_not_initialize_is_cut_off() -> None:
    async with hosted(OnTheWire(), settings=HostSettings(initialize_seconds=0.01)) as host:
        line = await host.client(hello=False)
        async with asyncio.timeout(30):
            await line.ended


def login_agents() -> list[InProcess]:
    return [InProcess(lambda: scripted_agent(requires_login=True), "one"), InProcess(scripted_agent, "two")]


async def seen(host: Any) -> None:
    """Every agent was started once."""
    for name in ("one", "two"):
        await (await host.client(hello=False, visitor=Visitor(agent=name))).hello()


async def test_logins_are_forwarded_and_serve_later_sessions() -> None:
    one, two = login_agents()
    async with hosted(one, more=[two]) as host:
        line = await host.client(hello=False, visitor=Visitor(agent="one"))
        answer = await line.hello()
        assert [method["id"] for method in answer["authMethods"]] == ["scripted-login"]
        assert answer["agentCapabilities"]["auth"] == {"logout": {}}
        error = await line.error("session/new", cwd="/tmp", mcpServers=[])
        assert error["code"] == -32000
        assert [method["id"] for method in error["data"]["authMethods"]] == ["scripted-login"]
        assert (await line.error("authenticate", methodId="nonsense"))["code"] == -32602
        assert await line.result("authenticate", methodId="scripted-login") == {}
        await line.open("/tmp")
        watching = await host.client({**OURS, "session": {"notices": {}}}, visitor=Visitor(agent="one"))
        session = await watching.open("/tmp")
        assert session
        await line.answer_to(line.ask("logout"))
        assert "logged out" in (await watching.until_update("notice"))["title"]
        error = await line.error("session/new", cwd="/tmp", mcpServers=[])
        assert error["code"] == -32000


async def test_an_unbound_client_names_the_agent_with_the_method() -> None:
    one, two = login_agents()
    async with hosted(one, more=[two]) as host:
        await seen(host)
        line = await host.client(hello=False)
        answer = await line.hello()
        assert [method["id"] for method in answer["authMethods"]] == ["one/scripted-login", "two/scripted-login"]
        assert "auth" not in answer["agentCapabilities"]
        assert await line.result("authenticate", methodId="one/scripted-login") == {}
        await line.open("/tmp", _meta={"dragoman": {"agent": "one"}})
        await line.everything()
        assert (await line.error("logout"))["code"] == -32601


class _Insists(WireAgent):
    """Real agents offer a login in a terminal to every client."""

    auth_methods = (
        {"id": "key", "name": "Key"},
        {"id": "tty", "name": "Terminal", "type": "terminal", "args": ["--login"]},
    )


@pytest.mark.parametrize(
    ("capabilities", "is_local", "expected"),
    [
        ({"auth": {"terminal": True}}, True, ["key", "dragoman-login"]),
        # An editor behind `dragoman connect`: its launch command is not the agent either.
        ({"auth": {"terminal": True}, "_meta": {"dragoman": {"bridge": "1"}}}, True, ["key", "dragoman-login"]),
        ({"auth": {"terminal": True}}, False, ["key"]),
        ({}, True, ["key"]),
    ],
)
async def test_a_login_in_a_terminal_is_one_of_the_host(
    capabilities: dict[str, Any], is_local: bool, expected: list[str]
) -> None:
    async with hosted(OnTheWire("one", kind=_Insists)) as host:
        line = await host.client(hello=False, visitor=Visitor(agent="one", is_local=is_local))
        methods = (await line.hello(capabilities))["authMethods"]
        assert [method["id"] for method in methods] == expected
        if len(expected) == 2:
            assert methods[1]["args"] == ["login", "-a", "one"]
            assert methods[1]["type"] == "terminal"
        found = await (await host.client(OURS, visitor=Visitor(is_local=is_local))).result(
            "_dragoman/login_methods", agent="one"
        )
        assert [method["id"] for method in found["authMethods"]] == ["key"]
        (command,) = found["commands"]
        assert (command["id"], command["name"]) == ("tty", "Terminal")
        assert command["command"].endswith("dragoman login -a one tty"), "what to type on the machine of the host"


async def test_with_several_principals_only_an_administrator_logs_in() -> None:
    one, two = login_agents()
    async with hosted(one, more=[two], settings=HostSettings(is_shared=True)) as host:
        await seen(host)
        rights = frozenset(("view", "prompt", "answer"))
        line = await host.client(hello=False, visitor=Visitor("guest", rights, agent="one"))
        answer = await line.hello()
        assert answer["authMethods"] == []
        assert "auth" not in answer["agentCapabilities"]
        for method, params in (("authenticate", {"methodId": "scripted-login"}), ("logout", {})):
            assert (await line.error(method, **params))["code"] == -32601


async def test_a_login_from_another_machine_says_why_it_may_not_finish() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(visitor=Visitor("local", agent="test", is_local=False))
        error = await line.error("authenticate", methodId="x")
        assert "on the machine of the host" in error["message"]
