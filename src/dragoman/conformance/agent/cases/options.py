"""Config options and modes: what is offered, what choosing does, and what cannot be chosen.

To see an answer without changing the user's settings, most of these choose what is chosen already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Fail, Inconclusive, Skip, Warn, case
from dragoman.conformance.expect import expect_code, expect_empty, expect_not_found

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.conversation import WireMessage

_CATEGORIES = {"mode", "model", "model_config", "thought_level"}

_INVENTED = "no-such-value"


@case("agent/options/shape", rules=(101, 146, 147, 148, 151, 152))
async def shape(probe: AgentProbe) -> None:
    """Every config option has an id, a name, a type and a current value; a select has options, a boolean none.

    Opens a session; expects the required members in every option it returns.
    """
    for option in (await _options(probe))[1]:
        for member in ("id", "name", "type"):
            if not isinstance(option.get(member), str):
                raise Fail(f"a config option has no {member}: {option!r}")
        current = option.get("currentValue")
        if option["type"] == "select" and (not isinstance(current, str) or not _values(option)):
            raise Fail(f"select {option['id']!r} has no current value or no values: {option!r}")
        if option["type"] == "boolean" and (not isinstance(current, bool) or "options" in option):
            raise Fail(f"boolean {option['id']!r} has no boolean value, or has options: {option!r}")


@case("agent/options/current-offered", rules=(149, 152))
async def current_offered(probe: AgentProbe) -> None:
    """The current value of a select is one of its values.

    Opens a session; expects the current value of every select among its values.
    """
    for option in _selects((await _options(probe))[1]):
        if option.get("currentValue") == _INVENTED:
            raise Warn(f"the value that the judge made up for {option.get('id')!r} was kept")
        if option.get("currentValue") not in _values(option):
            raise Fail(f"the current value of {option.get('id')!r} is {option.get('currentValue')!r}, not offered")


@case("agent/options/categories", rules=(157,), level="SHOULD")
async def categories(probe: AgentProbe) -> None:
    """A category that the protocol does not know begins with an underscore.

    Opens a session; expects known categories, or names with an underscore.
    """
    for option in (await _options(probe))[1]:
        category = option.get("category")
        if category is not None and category not in _CATEGORIES and not str(category).startswith("_"):
            raise Fail(f"the category of {option.get('id')!r} is {category!r}")


@case("agent/options/complete-answer", rules=(162, 163))
async def complete_answer(probe: AgentProbe) -> None:
    """session/set_config_option is answered with the complete list of options.

    Sets an option to the value it has; expects every option in the answer.
    """
    session_id, options = await _options(probe)
    option = _first_select(options)
    answer = await _set(probe, session_id, option, option["currentValue"])
    if answer.is_error:
        raise Inconclusive(f"setting {option['id']!r} to the value it has was answered with {answer}")
    before, after = _ids(options), _ids(answer.fields.get("configOptions"))
    if before - after:
        raise Fail(f"the session has the options {sorted(before)}, the answer has {sorted(after)}")


@case("agent/options/takes-effect", rules=(163,), level="SHOULD")
async def takes_effect(probe: AgentProbe) -> None:
    """The answer to session/set_config_option shows the new value.

    Sets an option to another value; expects it as the current one.
    """
    session_id, options = await _options(probe)
    for option in _selects(options):
        other = next((value for value in _values(option) if value != option["currentValue"]), None)
        if other is None:
            continue
        answer = await _set(probe, session_id, option, other)
        if answer.is_error:
            continue
        now = {option.get("id"): option.get("currentValue") for option in _list(answer.fields.get("configOptions"))}
        if now.get(option["id"]) != other:
            raise Fail(f"{option['id']!r} was set to {other!r} and the answer shows {now.get(option['id'])!r}")
        return
    raise Inconclusive("no option could be set to another value")


@case("agent/options/boolean", rules=(151, 162, 163), level="SHOULD")
async def boolean(probe: AgentProbe) -> None:
    """A boolean option can be set with `type: boolean`.

    Sets a boolean option to the value it has; expects the complete list.
    """
    session_id, options = await _options(probe)
    option = next((option for option in options if option.get("type") == "boolean"), None)
    if option is None:
        raise Skip("the agent has no boolean option")
    answer = await _set(probe, session_id, option, option.get("currentValue"), type="boolean")
    if answer.is_error or _ids(answer.fields.get("configOptions")) != _ids(options):
        raise Fail(f"setting a boolean option was answered with {answer}")


@case("agent/options/unknown-option", rules=(166, 337), level="SHOULD", provokes=True)
async def unknown_option(probe: AgentProbe) -> None:
    """An option that does not exist is refused with -32602.

    Sets an option that was not offered; expects -32602.
    """
    session_id, _ = await _options(probe)
    answer = await _set(probe, session_id, {"id": "no-such-option"}, "x")
    expect_code(answer, -32602, "an unknown option")


@case("agent/options/unknown-value", rules=(166, 337), level="SHOULD", provokes=True)
async def unknown_value(probe: AgentProbe) -> None:
    """A value that is not offered is refused with -32602.

    Sets a select to a value it does not offer; expects -32602.
    """
    session_id, options = await _options(probe)
    answer = await _set(probe, session_id, _first_select(options), _INVENTED)
    expect_code(answer, -32602, "an unknown value")


@case("agent/options/unknown-session", rules=(119, 338, 342), level="SHOULD", provokes=True)
async def options_unknown_session(probe: AgentProbe) -> None:
    """An option of a session that is not open is answered with -32002 and its id.

    Sets an option in a session that does not exist; expects -32002 with data.sessionId.
    """
    _, options = await _options(probe)
    option = _first_select(options)
    answer = await _set(probe, "no-such-session", option, option["currentValue"])
    expect_not_found(answer, "no-such-session", "an option of a session that does not exist")


@case("agent/options/during-turn", rules=(165,), level="SHOULD")
async def during_turn(probe: AgentProbe) -> None:
    """An option can be set while a turn is running.

    Sets an option to the value it has in the middle of a turn; expects a result before the turn ends.
    """
    session_id, options = await _options(probe)
    option = _first_select(options)
    turn = await probe.running(session_id)
    answer = await _set(probe, session_id, option, option["currentValue"])
    probe.cancel(session_id)
    await turn.end()
    if answer.is_error:
        raise Fail(f"setting an option in the middle of a turn was answered with {answer}")


@case("agent/options/complete-update", rules=(164,), level="SHOULD")
async def complete_update(probe: AgentProbe) -> None:
    """A config_option_update carries the complete list of options.

    Leads the agent to report its options; expects all of them.
    """
    session_id, options = await _options(probe)
    turn = await probe.act("config", session_id)
    update = (await turn.first_update("config_option_update")).params["update"]
    await turn.end()
    before, after = _ids(options), _ids(update.get("configOptions"))
    if before - after:
        raise Fail(f"the update lacks the options {sorted(before - after)}")


@case("agent/options/mode-in-step", rules=(167,), level="SHOULD")
async def mode_in_step(probe: AgentProbe) -> None:
    """Modes and the option of category mode are sent both, and have the same current value.

    Opens a session; expects modes and an option of category mode together, with one current value.
    """
    opened = (await probe.open_session()).fields
    modes = opened.get("modes")
    option = next((option for option in _list(opened.get("configOptions")) if option.get("category") == "mode"), None)
    if not modes and option is None:
        raise Skip("the agent has no modes")
    if not modes or option is None:
        raise Fail(f"the agent sends only {'modes' if modes else 'an option of category mode'}")
    if modes.get("currentModeId") != option.get("currentValue"):
        raise Fail(f"the mode is {modes.get('currentModeId')!r}, the option is {option.get('currentValue')!r}")


@case("agent/modes/shape", rules=(101, 169, 170))
async def modes_shape(probe: AgentProbe) -> None:
    """Every mode has an id and a name, and the current mode is one of them.

    Opens a session; expects the required members in `modes`.
    """
    _, modes = await _modes(probe)
    available = _list(modes.get("availableModes"))
    for mode in available:
        if not isinstance(mode.get("id"), str) or not isinstance(mode.get("name"), str):
            raise Fail(f"a mode has no id or no name: {mode!r}")
    if modes.get("currentModeId") not in [mode.get("id") for mode in available]:
        raise Fail(f"the current mode {modes.get('currentModeId')!r} is not among the available ones")


@case("agent/modes/set", rules=(173,))
async def set_mode(probe: AgentProbe) -> None:
    """session/set_mode succeeds with an empty object.

    Sets the mode the session is in; expects an object with nothing but _meta.
    """
    session_id, modes = await _modes(probe)
    params = {"sessionId": session_id, "modeId": modes.get("currentModeId")}
    answer = await probe.call("session/set_mode", params)
    if answer.is_error:
        raise Inconclusive(f"setting the mode the session is in was answered with {answer}")
    expect_empty(answer, "session/set_mode")


@case("agent/modes/unknown-mode", rules=(172, 337), level="SHOULD", provokes=True)
async def unknown_mode(probe: AgentProbe) -> None:
    """A mode that does not exist is refused with -32602.

    Sets a mode that was not offered; expects -32602.
    """
    session_id, _ = await _modes(probe)
    answer = await probe.call("session/set_mode", {"sessionId": session_id, "modeId": "no-such-mode"})
    expect_code(answer, -32602, "an unknown mode")


@case("agent/modes/unknown-session", rules=(119, 338, 342), level="SHOULD", provokes=True)
async def modes_unknown_session(probe: AgentProbe) -> None:
    """The mode of a session that is not open is answered with -32002 and its id.

    Sets the mode of a session that does not exist; expects -32002 with data.sessionId.
    """
    _, modes = await _modes(probe)
    params = {"sessionId": "no-such-session", "modeId": modes.get("currentModeId")}
    answer = await probe.call("session/set_mode", params)
    expect_not_found(answer, "no-such-session", "the mode of a session that does not exist")


@case("agent/modes/during-turn", rules=(175,), level="SHOULD")
async def mode_during_turn(probe: AgentProbe) -> None:
    """The mode can be set while a turn is running.

    Sets the mode in the middle of a turn; expects a result before the turn ends.
    """
    session_id, modes = await _modes(probe)
    turn = await probe.running(session_id)
    params = {"sessionId": session_id, "modeId": modes.get("currentModeId")}
    answer = await probe.call("session/set_mode", params)
    probe.cancel(session_id)
    await turn.end()
    if answer.is_error:
        raise Fail(f"setting the mode in the middle of a turn was answered with {answer}")


@case("agent/modes/update", rules=(174,))
async def mode_update(probe: AgentProbe) -> None:
    """A current_mode_update names the mode as `currentModeId`, and it is one of those offered.

    Leads the agent to change its mode; expects currentModeId with an offered mode.
    """
    session_id, modes = await _modes(probe)
    turn = await probe.act("mode", session_id)
    update = (await turn.first_update("current_mode_update")).params["update"]
    await turn.end()
    if "currentModeId" not in update:
        raise Fail(f"the update has no currentModeId: {update!r}")
    if update["currentModeId"] not in [mode.get("id") for mode in _list(modes.get("availableModes"))]:
        raise Fail(f"the mode {update['currentModeId']!r} was never offered")


async def _options(probe: AgentProbe) -> tuple[str, list[dict[str, Any]]]:
    opened = (await probe.open_session()).fields
    if not opened.get("configOptions"):
        raise Skip("the agent has no config options")
    return opened["sessionId"], _list(opened["configOptions"])


async def _modes(probe: AgentProbe) -> tuple[str, dict[str, Any]]:
    opened = (await probe.open_session()).fields
    if not isinstance(opened.get("modes"), dict):
        raise Skip("the agent has no modes")
    return opened["sessionId"], opened["modes"]


async def _set(
    probe: AgentProbe, session_id: str, option: dict[str, Any], value: object, **more: object
) -> WireMessage:
    params = {"sessionId": session_id, "configId": option.get("id"), "value": value, **more}
    return await probe.call("session/set_config_option", params)


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _ids(options: object) -> set[str]:
    return {str(option.get("id")) for option in _list(options)}


def _selects(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [option for option in options if option.get("type") == "select"]


def _first_select(options: list[dict[str, Any]]) -> dict[str, Any]:
    selects = _selects(options)
    if not selects:
        raise Skip("the agent has no select option")
    return selects[0]


def _values(option: dict[str, Any]) -> list[Any]:
    """Return the values of a select, flat or in groups."""
    values: list[Any] = []
    for entry in _list(option.get("options")):
        values += (
            [choice.get("value") for choice in _list(entry["options"])] if "options" in entry else [entry.get("value")]
        )
    return values
