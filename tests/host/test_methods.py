"""The host's own methods by right: a table of every method and every set of rights (WIRE.md 6, row 16)."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import msgspec

from dragoman.host.host import Visitor
from dragoman.host.methods.table import ACP_RIGHTS, METHODS
from dragoman.host.quotas import Quota, Quotas
from dragoman.host.serving.pairing import Pairing, PairingCodes
from dragoman.host.serving.tokens import HostTokens
from tests.host.kit import Client, Hosted, OnTheWire, hosted

OURS: dict[str, Any] = {"_meta": {"dragoman": {"unstable": True}}}
RIGHTS = ("view", "prompt", "answer", "admin")
SETS = [frozenset(some) for count in range(5) for some in itertools.combinations(RIGHTS, count)]
PARAMS: dict[str, dict[str, Any]] = {
    "session/list": {},
    "session/load": {"cwd": "/tmp", "mcpServers": []},
    "session/resume": {"cwd": "/tmp", "mcpServers": []},
    "session/new": {"cwd": "/missing-folder", "mcpServers": []},
    "session/fork": {"cwd": "/tmp", "mcpServers": []},
    "session/prompt": {"prompt": [{"type": "text", "text": "hello"}]},
    "session/set_mode": {"modeId": "free"},
    "session/set_config_option": {"configId": "x", "value": "y"},
    "_dragoman/reorder": {"promptIds": []},
    "_dragoman/steer": {"text": "go on"},
    "_dragoman/login_methods": {"agent": "missing"},
    "_dragoman/log_in": {"agent": "missing", "method": "key"},
}


async def refused(line: Client, method: str, **params: object) -> bool:
    """Whether a call is refused for want of a right."""
    _, answer = await line.answer_to(line.ask(method, **{**PARAMS.get(method, {}), **params}))
    error = answer.get("error")
    return error is not None and (error.get("data") or {}).get("reason") == "forbidden"


async def state(host: Hosted, id: str) -> object:
    """Everything of a session that a client could change."""
    await host.host.settle()
    session = host.session(id)
    events = [(event.number, event.kind, event.body) for event in await host.host.log.read(id, 0, 1_000_000)]
    waiting = session.prompts.waiting_count, [question.id for question in session.questions]
    return msgspec.json.encode(session.facts), session.state, waiting, events, host.source.starts


async def test_each_method_needs_its_right_and_view_changes_nothing(tmp_path: Path) -> None:
    async with hosted(OnTheWire(capabilities={"loadSession": True, "sessionCapabilities": {"fork": {}}})) as host:
        host.host.keeps_traffic = True
        Quotas(host.host, Quota())
        host.host.pairing = Pairing(HostTokens(tmp_path / "tokens.json"), PairingCodes(tmp_path / "codes.json"))
        first = await host.client(OURS)
        session = await first.open(str(tmp_path))
        agent = host.source.agent
        first.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hello"}])
        prompt = await agent.prompted()
        agent.call(
            "session/request_permission",
            toolCall={"toolCallId": "c1", "title": "ls"},
            options=[{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
        )
        await first.until("session/request_permission")
        needed = {**ACP_RIGHTS, **{name: method.right for name, method in METHODS.items()}}
        for rights in SETS:
            line = await host.client(hello=False, visitor=Visitor(rights=rights, is_local=False))
            hello = await line.hello(OURS)
            own = hello["agentCapabilities"]["_meta"]["dragoman"]
            assert own["rights"] == sorted(rights)
            names = [name for name, method in METHODS.items() if method.right in rights]
            assert own["methods"] == [name for name in names if name.startswith("_")]
            before = await state(host, session)
            for name, right in needed.items():
                assert await refused(line, name, sessionId="missing") is (right not in rights), (name, rights)
                if right not in rights or right == "view":
                    assert await refused(line, name, sessionId=session) is (right not in rights), (name, rights)
            # What was refused did nothing, and neither did what `view` may call.
            assert await state(host, session) == before, rights
            await host.leave(line)
        agent.reply(prompt, {"stopReason": "end_turn"})
        await first.until("$/cancel_request")  # the question went with its turn


def test_every_handler_of_the_table_can_be_loaded() -> None:
    assert all(callable(method.load()) for method in METHODS.values() if method.handler)


async def test_a_client_gets_who_it_is_and_methods_that_are_not_in_the_table_are_not_there() -> None:
    async with hosted(OnTheWire()) as host:
        visitor = Visitor("ada", frozenset(("view",)), ("/srv",), is_local=False, device="d1")
        line = await host.client(hello=False, visitor=visitor)
        own = (await line.hello(OURS))["agentCapabilities"]["_meta"]["dragoman"]
        assert (own["user"], own["device"], own["folders"], own["rights"]) == ("ada", "d1", ["/srv"], ["view"])
        assert (own["machineName"], own["page"]) == (os.uname().nodename, None), "it serves no page"
        assert "_dragoman/traffic" not in own["methods"], "this host keeps none"
        for name in ("_dragoman/traffic", "_dragoman/host", "_dragoman/retire", "_dragoman/named", "_dragoman/nothing"):
            _, answer = await line.answer_to(line.ask(name))
            assert answer["error"]["code"] == -32601
        plain = await host.client(hello=False, visitor=visitor)
        answer = (await plain.hello())["agentCapabilities"]["_meta"]["dragoman"]
        assert "user" not in answer, "only clients that know the host get it"
