"""The first line of the screen: where, with which agent, and how far. Pure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.text.terminal import cells, clip
from dragoman.text.visible import label
from dragoman.tui.local_host.session_rows import shown_cost
from dragoman.tui.mode_gate import unasked_words
from dragoman.tui.option_values import options_of, values_of
from dragoman.tui.values import short_agent
from dragoman.view.labels import seconds_text

if TYPE_CHECKING:
    from dragoman.state import SessionState
    from dragoman.view.rails import RailLine

_WITH_BAR: Final = 100
_BAR: Final = 10


class HeaderFacts(NamedTuple):
    """What the header shows besides the state of the session."""

    folder: str
    agent: str
    branch: str = ""
    worktree: str = ""
    seconds: int = -1
    """How long the turn runs; -1 if none does."""
    has_unicode: bool = True


def header_line(state: SessionState, facts: HeaderFacts, width: int) -> RailLine:
    """Return the line; what matters least is left out first on a narrow screen."""
    left = f" {label(os.path.basename(facts.folder) or facts.folder, 30)}"
    details = [label(facts.branch, 30, ""), f"worktree {label(facts.worktree, 20)}" if facts.worktree else ""]
    title = label(state.title or "", 40, "")
    agent = label(short_agent(facts.agent), 20, "")
    unasked = unasked_words(state, facts.agent)
    mode = "" if unasked else current_mode(state)
    right = [agent, current_value(state, "model"), mode, *usage_words(state, facts, width)]
    right = [word for word in right if word]
    # The least important goes first: the title, the branch, the mode, the model.
    tried = [
        (" · ".join(filter(None, [left, *details, title])), right),
        (" · ".join(filter(None, [left, *details])), right),
        (left, right),
        (left, [word for word in right if word != mode]),
        (left, [agent, *usage_words(state, facts, width)]),
        (left, usage_words(state, facts, 0)),
    ]
    # What the agent does without asking is never left out.
    warning = f"{unasked}  " if unasked else ""
    room = max(1, width - cells(warning))
    shown, parts = next(
        ((text, parts) for text, parts in tried if cells(text) + cells("  ".join(parts)) + 3 <= room), tried[-1]
    )
    end = "  ".join(filter(None, parts))
    end = f"{end} " if end else ""
    shown = clip(shown, max(1, room - cells(end) - 1))
    space = " " * max(1, room - cells(shown) - cells(end))
    return ((shown, "bold"), (space, ""), *(((warning, "warn"),) if warning else ()), (end, "dim"))


def current_mode(state: SessionState) -> str:
    """Return the name of the mode."""
    if state.modes is not None and state.mode is not None:
        for mode in state.modes.available_modes:
            if mode.id == state.mode:
                return label(mode.name, 20)
    return current_value(state, "mode")


def current_value(state: SessionState, category: str) -> str:
    """Return the name of the value of a category, such as `model`; empty if the agent does not let it be chosen."""
    for option in options_of(state, category):
        name = next((value.name for value in values_of(option) if value.is_current), str(option.current_value))
        return label(name, 24, "")
    return ""


def cost_sentence(state: SessionState) -> str:
    """Return what the session cost so far, and how full its context is, as far as the agent reported it."""
    usage, cost = state.usage, state.cost
    parts = []
    if cost is not None and cost.amount:
        parts.append(f"this session cost {shown_cost(cost.amount, cost.currency)} so far")
    else:
        parts.append("the agent has not reported a cost")
    if usage is not None and usage.size:
        share = round(100 * min(1.0, usage.used / usage.size))
        parts.append(f"{usage.used:,} of {usage.size:,} tokens of the context are used ({share}%)")
    return "; ".join(parts)


def usage_words(state: SessionState, facts: HeaderFacts, width: int) -> list[str]:
    """Return how much of the context is used, the cost, and the time of the turn."""
    words = []
    usage, cost = state.usage, state.cost
    if usage is not None and usage.size:
        share = min(1.0, usage.used / usage.size)
        text = f"{round(100 * share)}%"
        full, empty = ("█", "░") if facts.has_unicode else ("#", ".")
        done = round(_BAR * share)
        words.append(f"ctx {full * done}{empty * (_BAR - done)} {text}" if width >= _WITH_BAR else f"ctx {text}")
    if cost is not None and cost.amount:
        words.append(shown_cost(cost.amount, cost.currency))
    if facts.seconds >= 0:
        words.append(seconds_text(facts.seconds))
    return words
