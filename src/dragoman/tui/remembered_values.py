"""Modes and options that a user chose: set in the session, kept for the agent, and set again in its new sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.text.visible import label
from dragoman.tui.option_values import known_options, values_of
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
    """Set a value in the session, and remember it for the agent. Raises: DragomanError."""
    if chosen.option == MODE:
        await conversation.set_mode(str(chosen.value))
    else:
        await conversation.set_option(chosen.option, chosen.value)
    agent = agent_key(conversation.agent)
    if agent and preferences is not None:
        preferences.remember(agent, chosen.option, chosen.value)
        note(f"{label(chosen.name, 40)}; new sessions of {label(agent, 20)} begin with it (/settings forgets it)")


def prepare_by(preferences: Preferences | None, note: Callable[[str], None]) -> Callable[[Session, str], Any]:
    """Return what sets the remembered values in a new session, before its first prompt."""

    async def prepare(session: Session, agent: str) -> None:
        wanted = {} if preferences is None else preferences.of(agent_key(agent))
        for option, value in wanted.items():
            try:
                await _prepare(session, option, value)
            except DragomanError as error:
                note(f"{option} = {value} of an earlier session was not taken: {error}")

    return prepare


async def _prepare(session: Session, option: str, value: str | bool) -> None:
    state = session.state
    if option == MODE:
        modes = [] if state.modes is None else [mode.id for mode in state.modes.available_modes]
        if value in modes and value != state.mode:
            await session.set_mode(str(value))
        return
    for offered_option in known_options(state):
        offered = [value_offered.value for value_offered in values_of(offered_option)]
        if offered_option.id == option and value in offered and value != offered_option.current_value:
            await session.set_config_option(option, value)
