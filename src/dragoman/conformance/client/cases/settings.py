"""Modes and config options: what the client understands of them, and what it may set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Fail, Skip, case

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe, ClientTurn
    from dragoman.conformance.conversation import WireMessage

_MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code", "description": "Acts"}],
}
_VALUES = [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]
_SELECT = {"id": "size", "name": "Size", "type": "select", "currentValue": "small", "options": _VALUES}
_SWITCH = {"id": "verbose", "name": "Verbose", "type": "boolean", "currentValue": False}


async def _offered(probe: ClientProbe, **session: Any) -> ClientTurn:
    """Wait for a prompt in a session that offers these settings; changes are confirmed as a real agent would."""
    options = session.get("configOptions", [])
    probe.answers["session/set_config_option"] = lambda request: {"configOptions": options}
    await probe.initialize()
    return await probe.require_prompt("a session with settings", **session)


def _options(probe: ClientProbe) -> list[dict[str, Any]]:
    """Boolean options only for clients that know them (rule 150)."""
    return [_SELECT, _SWITCH] if probe.offers("session.configOptions.boolean") else [_SELECT]


@case("client/settings/known-mode", rules=(171,))
async def known_mode(probe: ClientProbe) -> None:
    """session/set_mode names one of the modes the session offers.

    Offers two modes; expects that session/set_mode, if it comes, names one of them.
    """
    await _offered(probe, modes=_MODES)
    requests = _set(probe, "session/set_mode")
    for request in requests:
        if request.params.get("modeId") not in ("ask", "code"):
            raise Fail(f"session/set_mode names the mode {request.params.get('modeId')!r}")


@case("client/settings/modes-as-fallback", rules=(168,), level="SHOULD")
async def modes_as_fallback(probe: ClientProbe) -> None:
    """A client that sets modes at all sets them with session/set_mode when there are no config options.

    Offers modes alone; expects no session/set_config_option.
    """
    await _offered(probe, modes=_MODES)
    if probe.sent("session/set_config_option"):
        raise Fail("session/set_config_option was called for a session without config options")


@case("client/settings/option-members", rules=(162,))
async def option_members(probe: ClientProbe) -> None:
    """session/set_config_option has sessionId, configId and a value of its option; a boolean adds its type.

    Offers a choice and a switch; looks at session/set_config_option, if it comes.
    """
    request = await probe.expect("initialize")
    probe.note_initialize(request)
    options = _options(probe)
    probe.answers["session/set_config_option"] = lambda request: {"configOptions": options}
    probe.reply(request, probe.initialized())
    await probe.require_prompt("a session with settings", configOptions=options)
    for found in _set(probe, "session/set_config_option"):
        _expect_setting(probe, found)


@case("client/settings/options-before-modes", rules=(161,), level="SHOULD")
async def options_before_modes(probe: ClientProbe) -> None:
    """When a session has both, config options are used and modes are ignored.

    Offers modes and the same as a config option; expects no session/set_mode.
    """
    mode = {**_SELECT, "id": "mode", "category": "mode", "currentValue": "ask"}
    mode["options"] = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
    await _offered(probe, modes=_MODES, configOptions=[mode])
    if probe.sent("session/set_mode"):
        raise Fail("session/set_mode was called for a session that has config options")


@case("client/settings/unknown-type", rules=(154, 226), level="SHOULD")
async def unknown_type(probe: ClientProbe) -> None:
    """An option of an unknown type is ignored, the rest is kept.

    Offers a slider and a choice, and sends them again in an update; expects the turn to go on.
    """
    slider = {"id": "heat", "name": "Heat", "type": "slider", "currentValue": 0.5, "min": 0, "max": 1}
    turn = await _offered(probe, configOptions=[slider, _SELECT])
    turn.update("config_option_update", configOptions=[slider, _SELECT])
    await probe.require_well(turn, "a config option of an unknown type")


@case("client/settings/categories", rules=(155, 156))
async def categories(probe: ClientProbe) -> None:
    """Options without a category, or with one the client does not know, are options like any other.

    Offers options without, with an unknown and with an own category; expects the turn to go on.
    """
    kinds: list[dict[str, Any]] = [{}, {"category": None}, {"category": "weather"}, {"category": "_judge.example/x"}]
    options = [{**_SELECT, "id": f"size-{number}", **kind} for number, kind in enumerate(kinds)]
    turn = await _offered(probe, configOptions=options)
    turn.update("config_option_update", configOptions=options)
    await probe.require_well(turn, "config options of unknown categories")


@case("client/settings/change-in-turn", rules=(165, 175), level="SHOULD")
async def change_in_turn(probe: ClientProbe) -> None:
    """Modes and options may change at any time, also while a turn runs.

    Changes the mode and the options in a turn; expects the turn to go on.
    """
    turn = await _offered(probe, modes=_MODES, configOptions=[_SELECT])
    turn.update("current_mode_update", currentModeId="code")
    turn.update("config_option_update", configOptions=[{**_SELECT, "currentValue": "large"}])
    turn.update("config_option_update", configOptions=[])
    await probe.require_well(turn, "a change of modes and options in a turn")


def _set(probe: ClientProbe, method: str) -> list[WireMessage]:
    found = probe.sent(method)
    if not found:
        raise Skip(f"the client does not call {method} by itself")
    return found


def _expect_setting(probe: ClientProbe, request: WireMessage) -> None:
    params = request.params
    if params.get("sessionId") != probe.session_id:
        raise Fail(f"session/set_config_option names the session {params.get('sessionId')!r}")
    match params.get("configId"):
        case "size":
            if params.get("value") not in ("small", "large"):
                raise Fail(f"the choice was set to {params.get('value')!r}")
        case "verbose":
            if params.get("type") != "boolean" or not isinstance(params.get("value"), bool):
                raise Fail(f"the switch was set with type {params.get('type')!r} and value {params.get('value')!r}")
        case other:
            raise Fail(f"session/set_config_option names the option {other!r}")
