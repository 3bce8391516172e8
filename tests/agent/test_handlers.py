"""How handlers may be written: async or plain, with arguments in order or by name; a mistake is found at once."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from dragoman import Agent, LocalProtocolError, Session, Turn, spawn
from dragoman.agent import AgentSession, Context, RemoteClient
from dragoman.schema import v1
from dragoman.testing import linked

MODES = v1.SessionModeState("ask", [v1.SessionMode("ask", "Ask"), v1.SessionMode("code", "Code")])


def echo() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("done")

    @agent.new_session
    def open_session(session: AgentSession) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session.id, modes=MODES)

    return agent


async def answer(agent: Agent, prompt: str = "hello") -> str:
    async with linked(agent) as remote:
        session = await remote.new_session(cwd="/work")
        await session.prompt(prompt)
        return session.state.text


async def set_mode(agent: Agent) -> Session:
    async with linked(agent) as remote:
        session = await remote.new_session(cwd="/work")
        await session.set_mode("code")
        return session


Seen = list[tuple[str, Any]]


def by_order(seen: Seen) -> Callable[..., Any]:
    async def handler(request: v1.SetSessionModeRequest, session: AgentSession) -> None:
        seen.append((request.mode_id, session))

    return handler


def by_order_with_other_names(seen: Seen) -> Callable[..., Any]:
    async def handler(what: v1.SetSessionModeRequest, where: AgentSession) -> None:
        seen.append((what.mode_id, where))

    return handler


def in_the_other_order(seen: Seen) -> Callable[..., Any]:
    async def handler(session: AgentSession, request: v1.SetSessionModeRequest) -> None:
        seen.append((request.mode_id, session))

    return handler


def by_member(seen: Seen) -> Callable[..., Any]:
    async def handler(mode_id: str, session: AgentSession) -> None:
        seen.append((mode_id, session))

    return handler


def by_keyword(seen: Seen) -> Callable[..., Any]:
    async def handler(*, session: AgentSession, mode_id: str, unused: int = 7) -> None:
        assert unused == 7
        seen.append((mode_id, session))

    return handler


def plain(seen: Seen) -> Callable[..., Any]:
    def handler(mode_id: str, session: AgentSession) -> None:
        seen.append((mode_id, session))

    return handler


def a_lambda(seen: Seen) -> Callable[..., Any]:
    return lambda mode_id, session: seen.append((mode_id, session))


def a_partial(seen: Seen) -> Callable[..., Any]:
    async def handler(into: Seen, mode_id: str, session: AgentSession) -> None:
        into.append((mode_id, session))

    return partial(handler, seen)


def any_arguments(seen: Seen) -> Callable[..., Any]:
    async def handler(*given: Any) -> None:
        seen.append((given[0].mode_id, given[1]))

    return handler


def an_object(seen: Seen) -> Callable[..., Any]:
    class Handler:
        async def __call__(self, mode_id: str, session: AgentSession) -> None:
            seen.append((mode_id, session))

    return Handler()


@pytest.mark.parametrize(
    "make",
    [
        by_order,
        by_order_with_other_names,
        in_the_other_order,
        by_member,
        by_keyword,
        plain,
        a_lambda,
        a_partial,
        any_arguments,
        an_object,
    ],
)
async def test_a_handler_gets_what_it_asks_for(make: Callable[[Seen], Callable[..., Any]]) -> None:
    agent, seen = echo(), Seen()
    agent.set_mode(make(seen))
    session = await set_mode(agent)
    [(mode_id, handled)] = seen
    assert mode_id == "code"
    assert handled.id == session.id
    assert session.state.mode == "code"


def test_a_parameter_that_is_not_known_is_refused_at_registration_with_the_known_ones() -> None:
    agent = echo()
    with pytest.raises(LocalProtocolError) as caught:

        @agent.set_mode
        async def handler(modeid: str) -> None: ...

    assert str(caught.value) == (
        "the handler of session/set_mode takes (request, session), or any of these by name: "
        "request, session, client, session_id, mode_id, meta; 'modeid' is not one of them"
    )


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_parameters_is_refused_at_registration(count: int) -> None:
    handler: Any = {1: lambda one: None, 3: lambda one, two, three: None}[count]
    with pytest.raises(LocalProtocolError, match="takes \\(request, context\\), or any of these by name: request, "):
        echo().list_sessions(handler)


def test_a_generator_is_refused_where_an_answer_is_returned() -> None:
    with pytest.raises(LocalProtocolError, match="session/close has a yield in it"):

        @echo().close_session  # type: ignore[arg-type]  # the mistake
        async def close(session: AgentSession) -> AsyncIterator[None]:
            yield None


def test_what_is_not_callable_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="the handler of logout is not callable"):
        echo().logout("later")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(LocalProtocolError, match="the handler of session/prompt is not callable"):
        Agent("test").prompt("later")  # type: ignore[call-overload]  # the mistake


async def test_config_options_and_requests_without_a_session_are_handled_by_name() -> None:
    agent = Agent("test")
    seen: list[tuple[str, object]] = []
    option = v1.SessionConfigSelect("m", "Model", "a", [v1.SessionConfigSelectOption(v, v) for v in ("a", "b")])

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def open_session(cwd: str, client: RemoteClient, session: AgentSession) -> v1.NewSessionResponse:
        seen.append((cwd, client is session.client))
        return v1.NewSessionResponse(session.id, config_options=[option])

    @agent.set_config_option
    def choose(config_id: str, value: str | bool) -> None:
        seen.append((config_id, value))

    @agent.list_sessions
    def sessions(cwd: str, context: Context, client: RemoteClient) -> v1.ListSessionsResponse:
        seen.append((cwd, context.client is client))
        return v1.ListSessionsResponse([])

    async with linked(agent) as remote:
        session = await remote.new_session(cwd="/work")
        await session.set_config_option("m", "b")
        await remote.list_sessions(cwd="/other")
    assert seen == [("/work", True), ("m", "b"), ("/other", True)]


async def test_a_prompt_handler_takes_the_turn_or_members_of_it() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(text: str, session: AgentSession, turn: Turn) -> None:
        await turn.say(f"{text} in {session.cwd}")

    assert await answer(agent) == "hello in /work"


async def test_a_prompt_handler_may_call_the_turn_what_it_likes() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(prompt: Turn) -> None:
        await prompt.say(prompt.text)

    assert await answer(agent) == "hello"


async def test_a_plain_generator_streams_its_text() -> None:
    agent, closed = Agent("test"), []

    @agent.prompt
    def reply(text: str) -> Iterator[str]:
        try:
            yield from text
        finally:
            closed.append(True)

    assert await answer(agent) == "hello"
    assert closed == [True]


def test_a_plain_prompt_handler_is_refused_because_it_could_not_await() -> None:
    with pytest.raises(LocalProtocolError, match="reply, is a plain function and cannot await") as caught:

        @Agent("test").prompt  # type: ignore[type-var]  # found by type checkers too, where the result is annotated
        def reply(turn: Turn) -> float:
            return 1.0

    assert "write it as async def, or yield the text" in str(caught.value)


def test_an_unknown_parameter_of_a_prompt_handler_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="by name: turn, text, prompt, session, client, meta; 'cwd' is not"):

        @Agent("test").prompt
        async def reply(text: str, cwd: str) -> None: ...


async def test_a_lambda_that_gives_no_coroutine_is_an_error_of_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("test")
    agent.prompt(lambda turn: 7)  # type: ignore[type-var]  # the mistake
    async with linked(agent) as remote:
        session = await remote.new_session(cwd="/work")
        with pytest.raises(Exception, match="Internal error"):
            await session.prompt("hello")
    assert "write it as async def" in caplog.text


async def asked(permission: Any) -> bool:
    agent, answers = Agent("test"), []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        answers.append(bool(await turn.ask("Delete it")))

    async with linked(agent, permission=permission) as remote:
        session = await remote.new_session(cwd="/work")
        await session.prompt("go")
    return bool(answers[0])


async def test_a_permission_service_may_be_plain_and_name_its_arguments() -> None:
    def allow(options: list[v1.PermissionOption], tool_call: v1.ToolCallPatch) -> str:
        assert tool_call.title == "Delete it"
        return next(option.option_id for option in options if option.kind == "allow_once")

    assert await asked(allow)
    assert await asked(lambda request, session: request.options[0].option_id)
    assert not await asked(lambda request, session: None)


async def test_a_permission_service_with_an_unknown_parameter_is_refused_and_the_agent_is_ended() -> None:
    with pytest.raises(LocalProtocolError, match="session/request_permission takes \\(request, session\\)"):
        await asked(lambda question: None)
    with pytest.raises(LocalProtocolError, match="'question' is not one of them"):
        async with spawn(sys.executable, "-c", "input()", permission=lambda question: None):
            pass
