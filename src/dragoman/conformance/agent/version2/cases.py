"""The cases for agents of version 2; docs/spec/rules-v2.md has the rules."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dragoman.conformance.case import ALONE, VERSION2_CASES, Fail, Inconclusive, Skip, case
from dragoman.conformance.conversation import Silence
from dragoman.conformance.expect import expect_code, expect_success

if TYPE_CHECKING:
    from dragoman.conformance.agent.version2.probe import Version2Probe
    from dragoman.conformance.conversation import WireMessage

_case = partial(case, registry=VERSION2_CASES)
_NO_SESSION: Final = "no-such-session"
_MESSAGES: Final = ("user_message", "user_message_chunk", "agent_message", "agent_message_chunk")


# Initialize


@_case("agent/v2-initialize/answers", rules=(2008,), shares=ALONE)
async def answers(probe: Version2Probe) -> None:
    """An agent of version 2 answers version 2 with 2.

    Sends initialize with version 2; expects a result with protocolVersion 2, info and capabilities.
    """
    answer = await probe.initialize()
    expect_success(answer, "initialize")
    if answer.fields.get("protocolVersion") != 2:
        raise Fail(f"version 2 was asked for, {answer.fields.get('protocolVersion')!r} answered")
    info = answer.fields.get("info")
    if not isinstance(info, dict) or not isinstance(info.get("name"), str):
        raise Fail("the result of initialize has no info with a name")


@_case("agent/v2-initialize/higher", rules=(2008,), shares=ALONE)
async def higher(probe: Version2Probe) -> None:
    """A higher version is answered with the highest one that the agent speaks.

    Sends initialize with version 65535; expects 2.
    """
    answer = await probe.initialize(protocolVersion=65535)
    expect_success(answer, "version 65535")
    version = answer.fields.get("protocolVersion")
    if type(version) is not int or not 2 <= version < 65535:
        raise Fail(f"version 65535 was asked for, {version!r} answered")


@_case("agent/v2-initialize/too-low", rules=(2009,), shares=ALONE, is_watched=False)
async def too_low(probe: Version2Probe) -> None:
    """A version below all that the agent speaks is refused with -32022, which lists them.

    Sends initialize with version 0; expects -32022 with requested 0 and supported, or an answer of version 1, whose
    rules let an agent that speaks it too answer with a version of its own.
    """
    answer = await probe.initialize(protocolVersion=0)
    if _is_version_1(answer):
        return
    expect_code(answer, -32022, "version 0")
    data = answer.error.get("data")
    if not isinstance(data, dict) or data.get("requested") != 0 or 2 not in (data.get("supported") or []):
        raise Fail(f"the error does not say what was requested and what is supported: {data!r}")


@_case("agent/v2-initialize/not-a-version", rules=(2010,), shares=ALONE, is_watched=False)
async def not_a_version(probe: Version2Probe) -> None:
    """A version that is not an integer from 0 to 65535 is refused with -32602.

    Sends initialize with a text, a fraction, -1 and 65536; expects -32602 each time.
    """
    for version in ("2", 1.5, -1, 65536):
        expect_code(await probe.initialize(protocolVersion=version), -32602, f"protocolVersion {version!r}")


@_case("agent/v2-initialize/without-info", rules=(2012,), shares=ALONE, is_watched=False)
async def without_info(probe: Version2Probe) -> None:
    """initialize of version 2 without info is refused with -32602.

    Sends initialize with version 2 and without info; expects -32602, or an answer of version 1 from an agent that
    speaks it too: a client of version 1 may ask for a version that is too high.
    """
    answer = await probe.initialize(info=None)
    if not _is_version_1(answer):
        expect_code(answer, -32602, "initialize without info")


def _is_version_1(answer: WireMessage) -> bool:
    return not answer.is_error and answer.fields.get("protocolVersion") == 1


@_case("agent/v2-initialize/again", rules=(2011,), shares=ALONE, is_watched=False)
async def again(probe: Version2Probe) -> None:
    """After a refused initialize the connection takes another one.

    Sends initialize with a text as the version, then a valid one; expects success.
    """
    await probe.initialize(protocolVersion="two")
    expect_success(await probe.initialize(), "initialize after a refused one")


@_case("agent/v2-initialize/first", rules=(2007,), shares=ALONE, is_watched=False)
async def first(probe: Version2Probe) -> None:
    """A request before initialize is refused with -32600, and the connection goes on.

    Sends session/new, then initialize; expects -32600, then success.
    """
    answer = await probe.call("session/new", probe.session_params())
    expect_code(answer, -32600, "session/new before initialize")
    expect_success(await probe.initialize(), "initialize after a request that was too early")


@_case("agent/v2-messages/unknown-method", rules=(2004,), provokes=True)
async def unknown_method(probe: Version2Probe) -> None:
    """A method that does not exist is refused with -32601, those of version 1 too.

    Sends session/set_mode and a made-up method; expects -32601 each time.
    """
    for method in ("session/no-such-method", "session/set_mode", "authenticate"):
        expect_code(await probe.call(method, {"sessionId": _NO_SESSION}), -32601, method)


# Login


@_case("agent/v2-login/methods", rules=(2014,), provokes=True)
async def login_methods(probe: Version2Probe) -> None:
    """An agent that lists login methods has auth/login and auth/logout.

    Sends auth/login with a made-up method; expects an error other than -32601.
    """
    if not probe.answered.get("authMethods"):
        raise Skip("the agent lists no login methods")
    answer = await probe.call("auth/login", {"methodId": "no-such-method"})
    if answer.code == -32601:
        raise Fail("the agent lists login methods and has no auth/login")


@_case("agent/v2-login/unknown", rules=(2016,), level="SHOULD", provokes=True)
async def unknown_login(probe: Version2Probe) -> None:
    """An unknown login method is refused with -32602.

    Sends auth/login with a made-up method; expects -32602.
    """
    if not probe.answered.get("authMethods"):
        raise Skip("the agent lists no login methods")
    expect_code(await probe.call("auth/login", {"methodId": "no-such-method"}), -32602, "an unknown login method")


# Sessions


@_case("agent/v2-session/new", rules=(2018,))
async def new(probe: Version2Probe) -> None:
    """session/new answers with a new id each time.

    Opens two sessions; expects two ids.
    """
    ids = {await probe.new_session(), await probe.new_session()}
    if len(ids) != 2:
        raise Fail("two sessions have the same id")


@_case("agent/v2-session/list", rules=(2018,))
async def listed(probe: Version2Probe) -> None:
    """session/list exists and answers with a list.

    Sends session/list; expects sessions.
    """
    answer = await probe.call("session/list", {})
    expect_success(answer, "session/list")
    if not isinstance(answer.fields.get("sessions"), list):
        raise Fail("the result of session/list has no sessions")


@_case("agent/v2-session/resume", rules=(2018, 2019, 2020))
async def resume(probe: Version2Probe) -> None:
    """A session is resumed without its history, and its state comes before the response.

    Plays a turn, closes the session and resumes it without replayFrom; expects a state_update and no message.
    """
    session_id, since = await _closed_session(probe)
    answer = await probe.call("session/resume", probe.session_params(sessionId=session_id))
    expect_success(answer, "session/resume")
    kinds = _kinds(probe, session_id, since, answer.index)
    if any(kind in _MESSAGES for kind in kinds):
        raise Fail("messages of the history came, and replayFrom did not ask for them")
    if "state_update" not in kinds:
        raise Fail("no state_update came before the response to session/resume")


@_case("agent/v2-session/replay", rules=(2019, 2020))
async def replay(probe: Version2Probe) -> None:
    """With replayFrom start the history comes before the response.

    Plays a turn, closes the session and resumes it from the start; expects messages, then a state, then the response.
    """
    session_id, since = await _closed_session(probe)
    params = probe.session_params(sessionId=session_id, replayFrom={"type": "start"})
    answer = await probe.call("session/resume", params)
    expect_success(answer, "session/resume from the start")
    kinds = _kinds(probe, session_id, since, answer.index)
    if not any(kind in _MESSAGES for kind in kinds):
        raise Fail("no message of the history came before the response")
    shown = [kind for kind in kinds if kind in (*_MESSAGES, "state_update")]
    if shown[-1] != "state_update":
        raise Fail("the state of the session does not follow the history")


@_case("agent/v2-session/cursor", rules=(2021,), provokes=True)
async def cursor(probe: Version2Probe) -> None:
    """A replay cursor of an unknown type is refused with -32602.

    Closes a session and resumes it from a made-up cursor; expects -32602.
    """
    session_id, _ = await _closed_session(probe)
    params = probe.session_params(sessionId=session_id, replayFrom={"type": "_no-such-cursor"})
    expect_code(await probe.call("session/resume", params), -32602, "a cursor of an unknown type")


@_case("agent/v2-session/unknown", rules=(2022,), level="SHOULD", provokes=True)
async def unknown_session(probe: Version2Probe) -> None:
    """Requests about an unknown session are refused with -32002.

    Sends session/prompt and session/resume with a made-up id; expects -32002.
    """
    turn = probe.prompt(_NO_SESSION, "hello")
    expect_code(await turn.response(), -32002, "a prompt of an unknown session")
    answer = await probe.call("session/resume", probe.session_params(sessionId=_NO_SESSION))
    expect_code(answer, -32002, "session/resume of an unknown session")


@_case("agent/v2-session/close-unknown", rules=(2025,), level="SHOULD", provokes=True)
async def close_unknown(probe: Version2Probe) -> None:
    """Closing an unknown session succeeds or is answered with -32002.

    Sends session/close with a made-up id; expects a result or -32002.
    """
    answer = await probe.call("session/close", {"sessionId": _NO_SESSION})
    if answer.is_error and answer.code != -32002:
        raise Fail(f"session/close of an unknown session was answered with {answer}")


@_case("agent/v2-session/close-working", rules=(2018, 2023))
async def close_working(probe: Version2Probe) -> None:
    """Closing a session that works ends the work as cancelled before the response.

    Begins a long turn and closes the session; expects idle with cancelled, then the response.
    """
    turn = await probe.running()
    since = probe.mark
    answer = await probe.call("session/close", {"sessionId": turn.session_id})
    expect_success(answer, "session/close")
    ends = _idles(probe, turn.session_id, since, answer.index)
    if "cancelled" not in ends:
        raise Fail(f"no idle with cancelled came before the response to session/close, but {ends or 'none'}")


@_case("agent/v2-session/option", rules=(2027,), provokes=True)
async def option(probe: Version2Probe) -> None:
    """A changed option is answered with the whole list; an unknown option is refused with -32602.

    Sets an option to the value that it has, then a made-up one; expects the list, then -32602.
    """
    opened = await probe.open_session()
    session_id, options = opened.fields["sessionId"], opened.fields.get("configOptions") or []
    known = next((option for option in options if isinstance(option, dict) and option.get("type") == "select"), None)
    if known is None:
        raise Skip("the agent has no option to choose from")
    asked = {"sessionId": session_id, "configId": known["configId"], "type": "id", "value": known["currentValue"]}
    answer = await probe.call("session/set_config_option", asked)
    expect_success(answer, "session/set_config_option")
    if len(answer.fields.get("configOptions") or []) != len(options):
        raise Fail("the answer does not have the whole list of options")
    answer = await probe.call("session/set_config_option", {**asked, "configId": "no-such-option"})
    expect_code(answer, -32602, "an unknown option")


# Prompts


@_case("agent/v2-prompt/turn", rules=(2029, 2030))
async def turn(probe: Version2Probe) -> None:
    """A prompt is answered with its message id, shown with it, and its work goes from running to idle.

    Sends a prompt; expects the response, a user message with its id, running, and idle.
    """
    played = await probe.play("say", await probe.new_session())
    message_id = (await played.response()).fields.get("messageId")
    if not isinstance(message_id, str):
        raise Fail(f"the response to the prompt names no message: {message_id!r}")
    shown = [*played.updates("user_message"), *played.updates("user_message_chunk")]
    if message_id not in [update.get("messageId") for update in shown]:
        raise Fail(f"no update shows the message {message_id!r}")
    states = played.states()
    if "running" not in states and "requires_action" not in states:
        raise Fail(f"the work began without running; the states were {states}")


@_case("agent/v2-prompt/two", rules=(2032,))
async def two(probe: Version2Probe) -> None:
    """Two prompts at once both get an answer, each with a message of its own.

    Sends two prompts without waiting; expects two message ids, both shown, or a refusal of the second.
    """
    session_id = await probe.new_session()
    one, other = (probe.prompt(session_id, probe.text("say")) for _ in range(2))
    first_answer, second_answer = await one.response(), await other.response()
    expect_success(first_answer, "the first of two prompts")
    await one.end()
    if second_answer.is_error:
        raise Inconclusive(f"the agent refuses a prompt while another one runs: {second_answer}")
    await other.end()
    if first_answer.fields.get("messageId") == second_answer.fields.get("messageId"):
        raise Fail("two prompts have the same message id")


@_case("agent/v2-prompt/cancel", rules=(2033,))
async def cancel(probe: Version2Probe) -> None:
    """A cancelled turn ends with idle and cancelled.

    Begins a long turn and cancels it; expects idle with the stop reason cancelled.
    """
    running = await probe.running()
    probe.cancel(running.session_id)
    end = await running.end(probe.settings.timeout_seconds)
    reason = end.params["update"].get("stopReason") if not end.is_error else end
    if reason != "cancelled":
        raise Fail(f"the cancelled turn ended with {reason!r}")


@_case("agent/v2-tools/cancel-unknown", rules=(2042,), provokes=True)
async def cancel_unknown(probe: Version2Probe) -> None:
    """Cancelling an unknown tool call or terminal is refused with -32602.

    Sends tool_call/cancel and terminal/cancel with made-up ids; expects -32602 each time.
    """
    session_id = await probe.new_session()
    for method, member in (("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")):
        answer = await probe.call(method, {"sessionId": session_id, member: "no-such-id"})
        expect_code(answer, -32602, f"{method} of an unknown id")


@_case("agent/v2-tools/shown", rules=(2038, 2040))
async def shown(probe: Version2Probe) -> None:
    """What a command does is shown: its terminal is described, and its output is base64.

    Leads the agent to run a command; expects a tool call whose terminals updates describe.
    """
    played = await probe.play("run", await probe.new_session())
    calls = played.updates("tool_call_update")
    if not calls:
        raise Inconclusive("the turn ended without a tool call; a prompt that leads to it would help")
    described = {update.get("terminalId") for update in played.updates("terminal_update")}
    for call in calls:
        for content in call.get("content") or ():
            if content.get("type") == "terminal" and content.get("terminalId") not in described:
                raise Fail(f"no terminal_update describes terminal {content.get('terminalId')!r}")
    for chunk in played.updates("terminal_output_chunk"):
        try:
            b64decode(str(chunk.get("data")), validate=True)
        except ValueError:
            raise Fail("the bytes of a terminal are not base64") from None


@_case("agent/v2-tools/permission", rules=(2035, 2036, 2044))
async def permission(probe: Version2Probe) -> None:
    """A permission request has options, and after the answer the work goes on to idle.

    Leads the agent to ask for permission and allows it; expects options, then idle.
    """
    asking = probe.prompt(await probe.new_session(), probe.text("ask"))
    request = await asking.first_request("session/request_permission")
    if not request.params.get("options"):
        raise Fail("the permission request has no options")
    await asking.end()


async def _closed_session(probe: Version2Probe) -> tuple[str, int]:
    """Close a session with a turn in it; return it and the mark after that."""
    session_id = await probe.new_session()
    await probe.play("say", session_id)
    answer = await probe.call("session/close", {"sessionId": session_id})
    expect_success(answer, "session/close")
    with suppress(Silence):
        await asyncio.sleep(probe.settings.quiet_seconds)
    return session_id, probe.mark


def _updates(probe: Version2Probe, session_id: str, since: int, until: int) -> list[dict[str, Any]]:
    return [
        message.params["update"]
        for message in probe.incoming[since:until]
        if message.method == "session/update"
        and message.params.get("sessionId") == session_id
        and isinstance(message.params.get("update"), dict)
    ]


def _kinds(probe: Version2Probe, session_id: str, since: int, until: int) -> list[str]:
    return [str(update.get("sessionUpdate")) for update in _updates(probe, session_id, since, until)]


def _idles(probe: Version2Probe, session_id: str, since: int, until: int) -> list[Any]:
    found = _updates(probe, session_id, since, until)
    return [update.get("stopReason") for update in found if update.get("state") == "idle"]
