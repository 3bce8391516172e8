"""Modes and configuration options: offered, set and reported consistently.

Owns what values a session currently offers. What an agent may do to them at any time (rule 165) is not held against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.schema import is_advertised, v1
from dragoman.trace.checks.link import given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.checks.link import Checks, Link, Session
    from dragoman.trace.inspect.exchange import Reading


def take_settings(reading: Reading, link: Link, session: Session, modes: Any, options: Any) -> None:
    """Checks and notes what the answer to session/new, load, resume or fork offers."""
    modes, options = given(modes), given(options)
    if modes is not None:
        session.modes = {mode.id for mode in modes.available_modes}
        if modes.current_mode_id not in session.modes:
            link.report(170, reading, f"the current mode {modes.current_mode_id!r} is not among the available ones")
    if options is not None:
        take_options(reading, link, session, options)
    if modes is not None and options is not None:
        for option in options:
            if isinstance(option, v1.SessionConfigSelect) and option.category == "mode":
                _compare_modes(reading, link, session, modes.current_mode_id, option.current_value)


def _compare_modes(reading: Reading, link: Link, session: Session, mode: str, value: str) -> None:
    if mode != value and session.modes is not None and value in session.modes:
        link.report(167, reading, f"modes say {mode!r}, the option of category mode says {value!r}")


def take_options(reading: Reading, link: Link, session: Session, options: Sequence[Any]) -> None:
    """Checks a complete list of options and makes it the session's."""
    offered: dict[str, set[Any]] = {}
    for option in options:
        if isinstance(option, v1.SessionConfigSelect):
            values = offered[option.id] = _values(option)
            if option.current_value not in values:
                link.report(
                    149, reading, f"option {option.id!r}: {option.current_value!r} is none of the offered values"
                )
        elif isinstance(option, v1.SessionConfigBoolean):
            offered[option.id] = {True, False}
            if link.client is not None and not is_advertised(link.client, "session.configOptions.boolean"):
                link.report(150, reading, f"option {option.id!r} is boolean without session.configOptions.boolean")
    session.options = offered


def _values(option: v1.SessionConfigSelect) -> set[Any]:
    values: set[Any] = set()
    for one in option.options:
        leaves = one.options if isinstance(one, v1.SessionConfigSelectGroup) else [one]
        values.update(leaf.value for leaf in leaves)
    return values


def _ask_mode(reading: Reading, link: Link) -> None:
    session, request = link.session(reading), reading.value
    if session is None or session.modes is None or not isinstance(request, v1.SetSessionModeRequest):
        return
    if request.mode_id not in session.modes:
        link.report(171, reading, f"{request.mode_id!r} is none of the available modes")
        link.unoffered.add(reading)


def _answer_mode(reading: Reading, link: Link) -> None:
    if reading.request in link.unoffered:
        link.report(172, reading, "a mode that is not available was accepted")


def _ask_option(reading: Reading, link: Link) -> None:
    session, request = link.session(reading), reading.value
    if session is None or session.options is None or request is None:
        return
    if request.value not in session.options.get(request.config_id, ()):
        link.unoffered.add(reading)


def _answer_option(reading: Reading, link: Link) -> None:
    session, result = link.session(reading), reading.value
    asked = reading.request.value if reading.request is not None else None
    if reading.request in link.unoffered:
        link.report(166, reading, "an option or value that is not offered was accepted")
    if session is None or not isinstance(result, v1.SetSessionConfigOptionResponse):
        return
    known = session.options or {}
    take_options(reading, link, session, result.config_options)
    if asked is not None and session.options is not None and asked.config_id in known:
        if asked.config_id not in session.options:
            link.report(163, reading, f"the answer does not list {asked.config_id!r}, the option that was set")
        else:
            _report_gone(reading, link, 163, known, session.options)


def _report_gone(reading: Reading, link: Link, rule: int, known: dict[str, Any], offered: dict[str, Any]) -> None:
    """Options come and go with the values of others, so a shorter list is worth a look and no more."""
    gone = [name for name in known if name not in offered]
    if gone:
        link.report(rule, reading, f"no longer listed: {', '.join(gone)}", "NOTE")


def update_options(reading: Reading, link: Link, session: Session, update: v1.ConfigOptionUpdate) -> None:
    """A config_option_update, which carries the complete list too."""
    known = session.options or {}
    take_options(reading, link, session, update.config_options)
    _report_gone(reading, link, 164, known, session.options or {})


def update_mode(reading: Reading, link: Link, session: Session, update: v1.CurrentModeUpdate) -> None:
    if session.modes is not None and update.current_mode_id not in session.modes:
        link.report(170, reading, f"the current mode {update.current_mode_id!r} is not among the available ones")


CHECKS: Checks = {
    ("session/set_mode", "params"): _ask_mode,
    ("session/set_mode", "result"): _answer_mode,
    ("session/set_config_option", "params"): _ask_option,
    ("session/set_config_option", "result"): _answer_option,
}
