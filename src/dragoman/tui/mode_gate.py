"""What stands between a user and a mode in which the agent acts without asking.

Such a mode lasts for its session: it is never remembered. The key for the next mode passes it by, choosing it by name
is confirmed once a session, and every form shows it in words. What is not known of a mode of an unknown agent counts
like this, except that it is not shown as a warning. Does not set anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.registry.mode_reach import HARMLESS, permits_all, reach_of
from dragoman.text.visible import label
from dragoman.tui.option_values import known_options, modes_of, values_of
from dragoman.tui.values import short_agent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.state import SessionState
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.option_values import OptionValue

UNASKED: Final = "acts without asking"


def is_remembered(chosen: OptionValue) -> bool:
    """Whether new sessions may begin with a value: only if it is known that it permits nothing."""
    return chosen.category in HARMLESS


def unasked_words(state: SessionState, agent: str) -> str:
    """Return what lets the agent act without asking now, for users; empty if nothing does."""
    found = [value for value in modes_of(state) if value.is_current and _reach(agent, value) == "unlimited"]
    if found:
        return f"{label(found[0].name, 20)}: {UNASKED}"
    for option in known_options(state):
        for value in values_of(option):
            if value.is_current and _permits_all(agent, value):
                return f"{label(option.name, 20)} {label(value.name, 10)}: {UNASKED}"
    return ""


class ModeGate:
    """The gate of one client, for all sessions that it shows."""

    def __init__(self) -> None:
        self._confirmed: set[tuple[str | None, str, str | bool]] = set()
        self._left: set[tuple[str | None, str | bool]] = set()

    def next(self, conversation: HostedConversation) -> OptionValue | None:
        """Return the mode that follows by a key; None if there is no other one that is known to ask.

        A mode that was left by the key can be entered by it again, unless the agent acts without asking in it.
        """
        values, id = modes_of(conversation.state), conversation.session_id
        current = next((place for place, value in enumerate(values) if value.is_current), -1)
        if current >= 0:
            self._left.add((id, values[current].value))
        for value in [*values[current + 1 :], *values[: max(current, 0)]]:
            reach = _reach(conversation.agent, value)
            if reach == "limited" or (reach == "unknown" and (id, value.value) in self._left):
                return value
        return None

    def question(self, conversation: HostedConversation, chosen: OptionValue) -> str:
        """Return what a user has to confirm before a value is set; empty if nothing, or if it was confirmed before."""
        if chosen.is_current or self._key(conversation, chosen) in self._confirmed:
            return ""
        agent, name = label(short_agent(conversation.agent), 20, "the agent"), label(chosen.name, 30)
        if _permits_all(conversation.agent, chosen):
            option = f"{label(chosen.group, 30, '')} {name}".strip()
            return f"{option}: {agent} {UNASKED}, until you change it or the session ends"
        if chosen.category != "mode":
            return ""
        match _reach(conversation.agent, chosen):
            case "unlimited":
                return f"mode {name}: {agent} {UNASKED}, until you choose another mode or the session ends"
            case "unknown" if (conversation.session_id, chosen.value) not in self._left:
                return f"mode {name}: it is not known what {agent} does in it without asking"
            case _:
                return ""

    def confirm(self, conversation: HostedConversation, chosen: OptionValue) -> None:
        """Note that the user confirmed a value, for this session."""
        self._confirmed.add(self._key(conversation, chosen))

    def _key(self, conversation: HostedConversation, chosen: OptionValue) -> tuple[str | None, str, str | bool]:
        return conversation.session_id, chosen.option, chosen.value


def none_follows(values: Sequence[OptionValue]) -> str:
    """Return what a user can do if no mode follows by the key: type one behind `/mode`."""
    names = ", ".join(label(str(value.value), 30) for value in values if not value.is_current)
    return f"no other mode is known to ask; /mode NAME chooses one: {names or 'there is none'}"


def _permits_all(agent: str, value: OptionValue) -> bool:
    if value.category == "mode" or is_remembered(value):
        return False
    # A switch says what it does in its name, a list in its values.
    words = (value.option, value.group) if value.value is True else (value.value, value.name, value.description)
    return permits_all(agent, value.option, value.value, " ".join(map(str, words)))


def _reach(agent: str, value: OptionValue) -> str:
    return reach_of(agent, str(value.value), value.name, value.description)
