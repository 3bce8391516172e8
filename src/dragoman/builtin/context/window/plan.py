"""The parts of a conversation that stay word for word, those that are summarised, and the outputs that are left out.

Owns the cuts: only before a message of the user or before a step of the model, so that every call keeps its result.
Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.builtin.context.history import output_text
from dragoman.builtin.context.window.estimate import BYTES_PER_TOKEN, tokens_of_output, tokens_of_part
from dragoman.builtin.context.window.facts import Cut, Pruning, TailStart
from dragoman.uistream.messages import OtherPart, StepStartPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.context.history import ModelView
    from dragoman.builtin.context.window.limits import WindowLimits
    from dragoman.uistream.messages import Part

_SMALL_OUTPUT: Final = 200
"""Tokens; the note that replaces an output is nearly as long."""
_LEAST_KEPT: Final = 400
"""Characters of an output that is cut; less is of no use."""
# Outputs that the model works from, however old they are.
_LASTING: Final = frozenset({"todo", "skill", "question"})


class Unit(Struct, frozen=True):
    """A piece of the conversation that is kept or summarised as a whole: a user's message or a step."""

    index: int
    """Position of its message in what is stored."""
    start: int
    """The number of its first part in the stored message."""
    is_user: bool
    parts: tuple[Part, ...]
    tokens: int


class Plan(Struct, frozen=True):
    """How a conversation is shortened."""

    head: tuple[Unit, ...]
    """What is summarised."""
    tail: tuple[Unit, ...]
    user: Unit | None
    """The user's last message, if it is in the head. It is kept as well."""
    cuts: Pruning | None = None
    """What has to be cut of the tail, because it does not fit as it is."""

    def place(self, carrier: int, parts: int) -> TailStart:
        """Return the beginning of the tail, seen from the message that stores the fact and has so many parts."""
        return TailStart(carrier - self.tail[0].index, self.tail[0].start) if self.tail else TailStart(0, parts)


def units_of(view: ModelView) -> list[Unit]:
    """Return the pieces of a conversation, oldest first."""
    units: list[Unit] = []
    for entry in view.entries:
        parts = entry.message.parts
        if entry.message.role == "user":
            units.append(_unit(entry.index, entry.start, parts, is_user=True))
            continue
        begin = 0
        for number, part in enumerate(parts):
            if number > begin and _begins_unit(part, parts[number - 1]):
                units.append(_unit(entry.index, entry.start + begin, parts[begin:number]))
                begin = number
        if begin < len(parts):
            units.append(_unit(entry.index, entry.start + begin, parts[begin:]))
    return [unit for unit in units if unit.tokens or unit.is_user]


def _begins_unit(part: Part, before: Part) -> bool:
    """Whether a part begins a unit. A step does, and so does what the user added before it."""
    if isinstance(part, StepStartPart):
        return not isinstance(before, OtherPart)
    return isinstance(part, OtherPart) and not isinstance(before, OtherPart)


def _unit(index: int, start: int, parts: Sequence[Part], *, is_user: bool = False) -> Unit:
    return Unit(index, start, is_user, tuple(parts), sum(map(tokens_of_part, parts)))


def plan_of(
    view: ModelView, limits: WindowLimits, overhead: int, carrier: int, *, tail_tokens: int | None = None
) -> Plan:
    """Return how to shorten a conversation.

    Args:
        overhead: tokens of the system prompt and the tools, which every request has.
        carrier: the position of the message that stores the result.
        tail_tokens: how much to keep instead of the usual; 0 keeps only the user's last message.
    """
    units = units_of(view)
    room = limits.tail if tail_tokens is None else tail_tokens
    begin, used = len(units), 0
    # The newest piece stays in any case: the model has not seen its results yet.
    while begin > 0 and room and (begin == len(units) or used + units[begin - 1].tokens <= room):
        begin -= 1
        used += units[begin].tokens
    head, tail = units[:begin], units[begin:]
    last_user = next((unit for unit in reversed(units) if unit.is_user), None)
    user = last_user if last_user is not None and last_user not in tail else None
    # What is left for the kept pieces once the summary has its place.
    space = max(limits.goal(overhead) - overhead - (2 * limits.summary if head else 0), limits.limit // 8)
    cuts = _cuts(tail, user, space, room, carrier)
    return Plan(tuple(head), tuple(tail), user, cuts)


def _cuts(tail: Sequence[Unit], user: Unit | None, space: int, room: int, carrier: int) -> Pruning | None:
    """Return what to cut so that the tail and the user's message fit in `space` tokens."""
    pruning = Pruning({}, {})
    kept_users = [unit for unit in (user, *tail) if unit is not None and unit.is_user]
    user_tokens = sum(unit.tokens for unit in kept_users)
    steps = [unit for unit in tail if not unit.is_user]
    step_room = max(min(space - user_tokens, max(room, space // 2)), space // 4) if steps else 0
    if sum(unit.tokens for unit in steps) > step_room:
        _cut_outputs(pruning, steps, step_room)
    user_room = space - (min(sum(unit.tokens for unit in steps), step_room) if steps else 0)
    if user_tokens > user_room:
        largest = max(kept_users, key=lambda unit: unit.tokens)
        keep = max(user_room - (user_tokens - largest.tokens), space // 4)
        pruning.users[carrier - largest.index] = int(keep * BYTES_PER_TOKEN)
    return pruning if pruning.calls or pruning.users else None


def _cut_outputs(pruning: Pruning, steps: Sequence[Unit], room: int) -> None:
    """Cut the longest outputs, so that all together fit."""
    calls = [part for unit in steps for part in unit.parts if isinstance(part, ToolPart)]
    others = sum(unit.tokens for unit in steps) - sum(map(tokens_of_output, calls))
    left = max(room - others, 0)
    for number, call in enumerate(sorted(calls, key=tokens_of_output)):
        share = left // (len(calls) - number)
        tokens = tokens_of_output(call)
        if tokens > share and tokens > _SMALL_OUTPUT:
            # The characters of a text that is not ASCII have more bytes.
            text = output_text(call)
            per_token = len(text) / max(tokens, 1)
            pruning.calls[call.tool_call_id] = Cut(max(int(share * per_token), _LEAST_KEPT))
            tokens = share
        left = max(left - tokens, 0)


def prunable(view: ModelView, limits: WindowLimits) -> tuple[list[ToolPart], int]:
    """Return the calls whose old outputs can be left out, and how many tokens that saves; none if it is too little."""
    units = units_of(view)
    users = [number for number, unit in enumerate(units) if unit.is_user]
    recent = users[-2] if len(users) >= 2 else 0
    kept, saved = 0, 0
    calls: list[ToolPart] = []
    for number in range(len(units) - 1, -1, -1):
        for part in reversed(units[number].parts):
            if not isinstance(part, ToolPart) or not part.is_over:
                continue
            tokens = tokens_of_output(part)
            kept += tokens
            is_old = number < recent and kept > limits.kept_outputs
            if is_old and tokens > _SMALL_OUTPUT and part.name not in _LASTING:
                calls.append(part)
                saved += tokens
    return (calls, saved) if saved >= limits.worth_pruning else ([], 0)
