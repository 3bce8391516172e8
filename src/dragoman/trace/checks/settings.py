"""Checks that modes and configuration options are offered, set and reported consistently.

Owns the values a session currently offers. An agent may change them at any time (rule 165).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.schema import is_advertised, v1
from dragoman.state.settings import option_values
from dragoman.trace.checks.facts import if_present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.checks.facts import Checks, Facts, SessionFacts
    from dragoman.trace.inspect.exchange import DecodedFrame


def take_settings(frame: DecodedFrame, facts: Facts, session: SessionFacts, modes: Any, options: Any) -> None:
    """Check and keep the modes and options of the response to session/new, load, resume or fork."""
    modes, options = if_present(modes), if_present(options)
    if modes is not None:
        session.modes = {mode.id for mode in modes.available_modes}
        if modes.current_mode_id not in session.modes:
            facts.report(170, frame, f"the current mode {modes.current_mode_id!r} is not among the available ones")
    if options is not None:
        take_options(frame, facts, session, options)
    if modes is not None and options is not None:
        for option in options:
            if isinstance(option, v1.SessionConfigSelect) and option.category == "mode":
                _compare_modes(frame, facts, session, modes.current_mode_id, option.current_value)


def _compare_modes(frame: DecodedFrame, facts: Facts, session: SessionFacts, mode: str, value: str) -> None:
    if mode != value and session.modes is not None and value in session.modes:
        facts.report(167, frame, f"the current mode is {mode!r}, but the option of category mode is {value!r}")


def take_options(frame: DecodedFrame, facts: Facts, session: SessionFacts, options: Sequence[Any]) -> None:
    """Check a complete list of options and make it the session's."""
    offered: dict[str, set[Any]] = {}
    for option in options:
        if isinstance(option, v1.SessionConfigSelect):
            values = offered[option.id] = option_values(option)
            if option.current_value not in values:
                facts.report(
                    149, frame, f"option {option.id!r}: {option.current_value!r} is not one of the offered values"
                )
        elif isinstance(option, v1.SessionConfigBoolean):
            offered[option.id] = {True, False}
            if facts.client is not None and not is_advertised(facts.client, "session.configOptions.boolean"):
                facts.report(150, frame, f"option {option.id!r} is boolean without session.configOptions.boolean")
    session.options = offered


def _ask_mode(frame: DecodedFrame, facts: Facts) -> None:
    session, request = facts.session(frame), frame.value
    if session is None or session.modes is None or not isinstance(request, v1.SetSessionModeRequest):
        return
    if request.mode_id not in session.modes:
        facts.report(171, frame, f"{request.mode_id!r} is not one of the available modes")
        facts.unoffered.add(frame)


def _answer_mode(frame: DecodedFrame, facts: Facts) -> None:
    if frame.request in facts.unoffered:
        facts.report(172, frame, "a mode that is not available was accepted")


def _ask_option(frame: DecodedFrame, facts: Facts) -> None:
    session, request = facts.session(frame), frame.value
    if session is None or session.options is None or request is None:
        return
    if request.value not in session.options.get(request.config_id, ()):
        facts.unoffered.add(frame)


def _answer_option(frame: DecodedFrame, facts: Facts) -> None:
    session, result = facts.session(frame), frame.value
    asked = frame.request.value if frame.request is not None else None
    if frame.request in facts.unoffered:
        facts.report(166, frame, "an option or value that is not offered was accepted")
    if session is None or not isinstance(result, v1.SetSessionConfigOptionResponse):
        return
    known = session.options or {}
    take_options(frame, facts, session, result.config_options)
    if asked is not None and session.options is not None and asked.config_id in known:
        if asked.config_id not in session.options:
            facts.report(163, frame, f"the answer does not list {asked.config_id!r}, the option that was set")
        else:
            _report_gone(frame, facts, 163, known, session.options)


def _report_gone(
    frame: DecodedFrame, facts: Facts, rule: int, earlier: dict[str, Any], offered: dict[str, Any]
) -> None:
    """Note options that are gone; that may be right, because options come and go with the values of others."""
    gone = [name for name in earlier if name not in offered]
    if gone:
        facts.report(rule, frame, f"no longer listed: {', '.join(gone)}", "NOTE")


def update_options(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.ConfigOptionUpdate) -> None:
    """Check a config_option_update, which carries the complete list, too."""
    known = session.options or {}
    take_options(frame, facts, session, update.config_options)
    _report_gone(frame, facts, 164, known, session.options or {})


def update_mode(frame: DecodedFrame, facts: Facts, session: SessionFacts, update: v1.CurrentModeUpdate) -> None:
    if session.modes is not None and update.current_mode_id not in session.modes:
        facts.report(170, frame, f"the current mode {update.current_mode_id!r} is not among the available ones")


CHECKS: Checks = {
    ("session/set_mode", "params"): _ask_mode,
    ("session/set_mode", "result"): _answer_mode,
    ("session/set_config_option", "params"): _ask_option,
    ("session/set_config_option", "result"): _answer_option,
}
