"""Who may use the agent: advertised methods, authenticate, logout."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Context, Turn
from dragoman.errors import LocalProtocolError, RequestError
from dragoman.schema import v1
from tests.agent.fixtures import connected, raw

KEY = v1.AuthMethodAgent("key", "API key")
LOGIN = v1.AuthMethodTerminal("login", "Log in", args=["login"], env={"A": "b"})


def _agent() -> Agent:
    agent = Agent("test", auth_methods=[KEY, LOGIN])
    users: set[str] = set()

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        if not users:
            raise RequestError.auth_required()

    @agent.authenticate
    async def authenticate(params: v1.AuthenticateRequest, context: Context) -> None:
        users.add(params.method_id)

    @agent.logout
    async def logout(params: v1.LogoutRequest, context: Context) -> None:
        users.clear()

    return agent


@pytest.mark.rule(64, 69, 74)
async def test_terminal_methods_are_shown_only_to_clients_with_a_terminal() -> None:
    async with raw(_agent()) as line:
        without = await line.result("initialize", protocolVersion=1)
        assert without["authMethods"] == [{"id": "key", "name": "API key"}]
        terminal = {"auth": {"terminal": True}}
        shown = await line.result("initialize", protocolVersion=1, clientCapabilities=terminal)
        assert shown["authMethods"] == [
            {"id": "key", "name": "API key"},
            {"type": "terminal", "id": "login", "name": "Log in", "args": ["login"], "env": {"A": "b"}},
        ]


@pytest.mark.rule(76, 77, 78, 80, 338)
async def test_a_session_needs_authentication_until_it_was_given_and_again_after_logout() -> None:
    async with connected(_agent()) as line:
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32000
        assert await line.result("authenticate", methodId="key") == {}
        await line.open()
        assert await line.result("logout") == {}
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32000


@pytest.mark.rule(76)
async def test_logout_works_without_any_params() -> None:
    async with connected(_agent()) as line:
        line.send({"jsonrpc": "2.0", "id": 7, "method": "logout"})
        assert await line.next() == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.rule(67, 68)
@pytest.mark.parametrize("method_id", ["login", "nobody", ""])
async def test_only_advertised_methods_of_the_agent_itself_are_accepted(method_id: str) -> None:
    async with connected(_agent(), capabilities={"auth": {"terminal": True}}) as line:
        error = await line.error("authenticate", methodId=method_id)
        assert error["code"] == -32602
        assert error["data"] == {"path": "$.methodId"}
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32000


async def test_an_auth_method_without_a_handler_is_refused_before_anything_is_served() -> None:
    agent = Agent("test", auth_methods=[KEY])

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    transport: Any = None
    with pytest.raises(LocalProtocolError, match="'key'"):
        await agent.serve(transport)


@pytest.mark.rule(302)
async def test_a_handler_can_ask_the_user_on_behalf_of_the_request_it_answers() -> None:
    agent = Agent("test", auth_methods=[KEY])
    answers: list[object] = []

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.authenticate
    async def authenticate(params: v1.AuthenticateRequest, context: Context) -> None:
        answers.append(await context.elicit("Go there", url="https://example.org", elicitation_id="e1"))

    async with connected(agent, capabilities={"elicitation": {"url": {}}}) as line:
        request_id = line.ask("authenticate", methodId="key")
        assert await line.answer_next("elicitation/create", {"action": "accept"}) == {
            "mode": "url",
            "message": "Go there",
            "elicitationId": "e1",
            "url": "https://example.org",
            "requestId": request_id,
        }
        assert (await line.answer_to(request_id))[1]["result"] == {}
        assert answers == [v1.AcceptElicitation()]
