"""Modes and options that a user chose: set in the session, and, if they permit nothing, set again in new sessions.

A mode lasts for its session, and so does every option that is not known to be harmless (`mode_gate.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import DragomanError
from dragoman.text.visible import label
from dragoman.tui.mode_gate import is_remembered
from dragoman.tui.option_values import known_options, modes_of, named, values_of
from dragoman.tui.start.preferences import MODE, agent_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client import Session
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.option_values import OptionValue
    from dragoman.tui.start.preferences import Preferences


async def set_and_remember(
    conversation: HostedConversation, preferences: Preferences | None, chosen: OptionValue, note: Callable[[str], None]
) -> None:
    """Set a value in the session, and remember it for the agent if it is harmless. Raises: DragomanError."""
    if chosen.option == MODE and conversation.state.modes is not None:
        await conversation.set_mode(str(chosen.value))
    else:
        await conversation.set_option(chosen.option, chosen.value)
    agent = agent_key(conversation.agent)
    if agent and preferences is not None and is_remembered(chosen):
        preferences.remember(agent, chosen.option, chosen.value)
        note(f"{label(chosen.name, 40)}; new sessions of {label(agent, 20)} begin with it (/settings forgets it)")
    else:
        note(f"{label(chosen.name, 40)}, for this session")


def prepare_by(
    preferences: Preferences | None, note: Callable[[str], None], mode: str = ""
) -> Callable[[Session, str], Any]:
    """Return what sets the remembered values in a new session, before its first prompt.

    Args:
        preferences: what is remembered.
        note: shows the user a sentence.
        mode: the mode of the first session, from the command line.
    """
    first = [mode] if mode else []

    async def prepare(session: Session, agent: str) -> None:
        if preferences is not None:
            _drop_modes(preferences, note)
        key = agent_key(agent)
        wanted = {} if preferences is None else preferences.of(key)
        for option, value in wanted.items():
            try:
                if not await _prepare(session, option, value) and preferences is not None:
                    preferences.forget(key, option)
                    note(f"{label(option, 30)} = {label(str(value), 40)} is no longer remembered: {_LASTS}")
            except DragomanError as error:
                note(f"{option} = {value} of an earlier session was not taken: {error}")
        if first:
            await _begin_in(session, first.pop(), note)

    return prepare


_LASTS: Final = "what an agent may do lasts for its session"


def _drop_modes(preferences: Preferences, note: Callable[[str], None]) -> None:
    """Drop the modes that an earlier version remembered for every folder, and state it once."""
    try:
        agents = preferences.drop_modes()
    except DragomanError:
        return  # the file cannot be written; the modes in it are not used either
    if agents:
        names = ", ".join(label(agent, 20) for agent in agents)
        note(f"the remembered mode of {names} was dropped: a mode lasts for its session")


async def _begin_in(session: Session, mode: str, note: Callable[[str], None]) -> None:
    """Set the mode that the command line names: a user who types it there has chosen it."""
    found = named(modes_of(session.state), mode)
    if len({value.value for value in found}) != 1:
        names = ", ".join(label(str(value.value), 30) for value in modes_of(session.state))
        note(f"--mode {label(mode, 30)}: the agent does not offer it{f'; it offers {names}' if names else ''}")
    elif not found[0].is_current:
        try:
            await _set(session, found[0])
        except DragomanError as error:
            note(f"--mode {label(mode, 30)} was not taken: {error}")


async def _set(session: Session, chosen: OptionValue) -> None:
    if chosen.option == MODE and session.state.modes is not None:
        await session.set_mode(str(chosen.value))
    else:
        await session.set_config_option(chosen.option, chosen.value)


async def _prepare(session: Session, option: str, value: str | bool) -> bool:
    """Set a remembered value, if it is offered; False if it must not be remembered."""
    for offered_option in known_options(session.state):
        values = values_of(offered_option)
        if offered_option.id != option:
            continue
        if values and not is_remembered(values[0]):
            return False
        if value in [offered.value for offered in values] and value != offered_option.current_value:
            await session.set_config_option(option, value)
    return True
