"""Modes and config options: what is offered, and what may be chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.errors import LocalProtocolError
from dragoman.schema import v1
from tests.agent.fixtures import EVERYTHING, NOTHING, Link, connected, updated

MODES = v1.SessionModeState("ask", [v1.SessionMode("ask", "Ask"), v1.SessionMode("code", "Code", "Writes")])
MODEL = v1.SessionConfigSelect(
    "model", "Model", "small", [v1.SessionConfigSelectOption("small", "S"), v1.SessionConfigSelectOption("big", "B")]
)
GROUPED = v1.SessionConfigSelect(
    "effort",
    "Effort",
    "low",
    [
        v1.SessionConfigSelectGroup("cheap", "Cheap", [v1.SessionConfigSelectOption("low", "Low")]),
        v1.SessionConfigSelectGroup("dear", "Dear", [v1.SessionConfigSelectOption("high", "High")]),
    ],
    category="thought_level",
)
BRAVE = v1.SessionConfigBoolean("brave", "Brave", False)

Answer = Callable[[v1.SetSessionConfigOptionRequest], v1.SetSessionConfigOptionResponse | None]


def _agent(log: list[Any], answer: Answer = lambda params: None) -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        log.append((turn.session.modes, [option.current_value for option in turn.session.options]))  # type: ignore[union-attr]

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session.id, modes=MODES, config_options=[MODEL, GROUPED, BRAVE])

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> v1.LoadSessionResponse:
        return v1.LoadSessionResponse(config_options=[MODEL])

    @agent.set_mode
    async def set_mode(params: v1.SetSessionModeRequest, session: AgentSession) -> None:
        log.append(params.mode_id)

    @agent.set_config_option
    async def set_option(
        params: v1.SetSessionConfigOptionRequest, session: AgentSession
    ) -> v1.SetSessionConfigOptionResponse | None:
        log.append((params.config_id, params.value))
        return answer(params)

    return agent


def _values(result: dict[str, Any]) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in result["configOptions"]}


@pytest.mark.rule(101, 146, 147, 148, 151, 169)
async def test_a_new_session_says_which_modes_and_options_it_has(link: Link) -> None:
    async with connected(_agent([]), link, EVERYTHING) as line:
        result = await line.result("session/new", cwd="/work", mcpServers=[])
        assert result["modes"] == {
            "currentModeId": "ask",
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code", "description": "Writes"}],
        }
        assert [(each["id"], each["type"]) for each in result["configOptions"]] == [
            ("model", "select"),
            ("effort", "select"),
            ("brave", "boolean"),
        ]


@pytest.mark.rule(150, 153)
async def test_boolean_options_stay_with_the_agent_when_the_client_cannot_show_them() -> None:
    log: list[Any] = []
    async with connected(_agent(log), capabilities=NOTHING) as line:
        result = await line.result("session/new", cwd="/work", mcpServers=[])
        assert list(_values(result)) == ["model", "effort"]
        session_id = result["sessionId"]
        error = await line.error(
            "session/set_config_option", sessionId=session_id, configId="brave", type="boolean", value=True
        )
        assert error["code"] == -32602
        await line.turn(session_id)
        assert log == [(MODES, ["small", "low", False])]


@pytest.mark.rule(171, 173, 175)
async def test_setting_an_offered_mode_is_confirmed_by_the_answer_alone(link: Link) -> None:
    log: list[Any] = []
    async with connected(_agent(log), link) as line:
        session_id = await line.open()
        assert await line.result("session/set_mode", sessionId=session_id, modeId="code") == {}
        await line.turn(session_id)
        assert log[0] == "code"
        assert log[1][0].current_mode_id == "code"


@pytest.mark.rule(172)
async def test_an_unknown_mode_is_refused_and_never_reaches_the_handler() -> None:
    log: list[Any] = []
    agent = _agent(log)
    async with connected(agent) as line:
        session_id = await line.open()
        error = await line.error("session/set_mode", sessionId=session_id, modeId="destroy")
        assert (error["code"], error["data"]) == (-32602, {"path": "$.modeId"})
        await line.result("session/load", sessionId=session_id, cwd="/work", mcpServers=[])
        assert (await line.error("session/set_mode", sessionId=session_id, modeId="code"))["code"] == -32602
        assert log == []


@pytest.mark.rule(162, 163, 165)
async def test_setting_an_option_is_answered_with_the_complete_list(link: Link) -> None:
    log: list[Any] = []
    async with connected(_agent(log), link, EVERYTHING) as line:
        session_id = await line.open()
        method = "session/set_config_option"
        result = await line.result(method, sessionId=session_id, configId="model", value="big")
        assert _values(result) == {"model": "big", "effort": "low", "brave": False}
        result = await line.result(method, sessionId=session_id, configId="effort", value="high")
        assert _values(result) == {"model": "big", "effort": "high", "brave": False}
        result = await line.result(method, sessionId=session_id, configId="brave", type="boolean", value=True)
        assert _values(result) == {"model": "big", "effort": "high", "brave": True}
        assert log == [("model", "big"), ("effort", "high"), ("brave", True)]


@pytest.mark.rule(163, 165)
async def test_a_handler_may_answer_with_other_options_which_hold_from_then_on() -> None:
    log: list[Any] = []
    only = v1.SessionConfigSelect("model", "Model", "big", [v1.SessionConfigSelectOption("big", "B")])
    agent = _agent(log, lambda params: v1.SetSessionConfigOptionResponse([only, BRAVE]))
    async with connected(agent) as line:
        session_id = await line.open()
        method = "session/set_config_option"
        result = await line.result(method, sessionId=session_id, configId="model", value="big")
        assert _values(result) == {"model": "big"}
        assert (await line.error(method, sessionId=session_id, configId="model", value="small"))["code"] == -32602
        assert (await line.error(method, sessionId=session_id, configId="effort", value="low"))["code"] == -32602


@pytest.mark.rule(166)
@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"configId": "colour", "value": "red"}, "$.configId"),
        ({"configId": "model", "value": "huge"}, "$.value"),
        ({"configId": "model", "type": "boolean", "value": True}, "$.value"),
        ({"configId": "effort", "value": "cheap"}, "$.value"),
        ({"configId": "brave", "value": "true"}, "$.value"),
    ],
)
async def test_an_unknown_option_or_value_is_refused_and_never_reaches_the_handler(
    params: dict[str, Any], path: str
) -> None:
    log: list[Any] = []
    async with connected(_agent(log), capabilities=EVERYTHING) as line:
        error = await line.error("session/set_config_option", sessionId=await line.open(), **params)
        assert (error["code"], error["data"]) == (-32602, {"path": path})
        assert log == []


@pytest.mark.rule(166)
async def test_an_open_option_takes_any_text_and_the_others_do_not() -> None:
    agent = Agent("test")
    log: list[Any] = []

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session.id, config_options=[MODEL, GROUPED, BRAVE])

    async def set_option(
        params: v1.SetSessionConfigOptionRequest, session: AgentSession
    ) -> v1.SetSessionConfigOptionResponse:
        log.append(params.value)
        huge = v1.SessionConfigSelectOption("huge", "H")
        return v1.SetSessionConfigOptionResponse([v1.SessionConfigSelect("model", "Model", "huge", [huge])])

    agent.set_config_option(set_option, open_options=("model",))
    async with connected(agent, capabilities=EVERYTHING) as line:
        session_id, method = await line.open(), "session/set_config_option"
        for wrong in (
            {"configId": "colour", "value": "red"},
            {"configId": "model", "type": "boolean", "value": True},
            {"configId": "effort", "value": "huge"},
        ):
            assert (await line.error(method, sessionId=session_id, **wrong))["code"] == -32602
        assert log == []
        result = await line.result(method, sessionId=session_id, configId="model", value="huge")
        assert _values(result) == {"model": "huge"}
        assert log == ["huge"]


@pytest.mark.rule(164, 174)
async def test_a_turn_changes_mode_and_options_by_itself(link: Link) -> None:
    agent = _agent([])
    other = Agent("test")
    other.registered.requests.update(agent.registered.requests)
    failures: list[Exception] = []

    async def reply(turn: Turn) -> None:
        await turn.mode("code")
        await turn.config_options([MODEL, BRAVE])
        for act in (turn.mode("destroy"), turn.config_options([v1.SessionConfigSelect("m", "M", "x", [])])):
            try:
                await act
            except LocalProtocolError as error:
                failures.append(error)
        assert turn.session.modes is not None
        assert turn.session.modes.current_mode_id == "code"

    other.registered.requests["session/prompt"] = reply
    async with connected(other, link) as line:
        session_id = await line.open()
        before, answer = await line.answer_to(line.prompt(session_id))
        assert answer["result"] == {"stopReason": "end_turn"}
        mode, options = [updated(each) for each in before]
        assert mode == {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
        assert _values(options) == {"model": "small"}
        assert len(failures) == 2


@pytest.mark.rule(149, 170)
@pytest.mark.parametrize(
    "response",
    [
        {"modes": v1.SessionModeState("gone", [v1.SessionMode("ask", "Ask")])},
        {"config_options": [v1.SessionConfigSelect("m", "M", "x", [v1.SessionConfigSelectOption("y", "Y")])]},
    ],
)
async def test_an_offer_whose_current_choice_is_not_in_it_is_an_internal_error(response: dict[str, Any]) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session.id, **response)

    async with connected(agent) as line:
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32603


MODE_OPTION = v1.SessionConfigSelect(
    "how",
    "How",
    "ask",
    [v1.SessionConfigSelectOption("ask", "A"), v1.SessionConfigSelectOption("code", "C")],
    category="mode",
)


def _agent_with_both_views() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        if turn.text == "mode":
            await turn.mode("code")
        else:
            await turn.config_options([MODE_OPTION, BRAVE])
        assert [option.id for option in turn.session.options if isinstance(option, v1.SessionConfigBoolean)] == [
            "brave"
        ]

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session.id, modes=MODES, config_options=[MODE_OPTION, BRAVE])

    @agent.set_mode
    async def set_mode(params: v1.SetSessionModeRequest, session: AgentSession) -> None: ...

    @agent.set_config_option
    async def set_option(params: v1.SetSessionConfigOptionRequest, session: AgentSession) -> None: ...

    return agent


@pytest.mark.rule(167)
async def test_modes_and_the_option_that_shows_them_are_kept_in_step(link: Link) -> None:
    async with connected(_agent_with_both_views(), link) as line:
        session_id = await line.open()
        before, answer = await line.answer_to(line.ask("session/set_mode", sessionId=session_id, modeId="code"))
        assert [_values(updated(each)) for each in before] == [{"how": "code"}]
        assert answer["result"] == {}
        set_back = line.ask("session/set_config_option", sessionId=session_id, configId="how", value="ask")
        before, answer = await line.answer_to(set_back)
        assert [updated(each) for each in before] == [{"sessionUpdate": "current_mode_update", "currentModeId": "ask"}]
        assert _values(answer["result"]) == {"how": "ask"}
        updates, _ = await line.turn(session_id, "mode")
        assert [update["sessionUpdate"] for update in updates] == ["current_mode_update", "config_option_update"]
        updates, _ = await line.turn(session_id, "options")
        assert [update["sessionUpdate"] for update in updates] == ["config_option_update", "current_mode_update"]
        assert await line.result("session/set_mode", sessionId=session_id, modeId="ask") == {}
