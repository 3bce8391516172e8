"""Which session updates an agent may send on a connection, and the checks before they are sent.

Owns one table per connection, made from what its client advertised. It maps the type of an update to a check, or to
None (send it as it is); a type that is missing is not an update. Common updates cost one lookup. Pure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from dragoman.agent.values import check_content, check_plan, check_tool_call, check_value
from dragoman.errors import CapabilityError, LocalProtocolError
from dragoman.schema import Unknown, v1

if TYPE_CHECKING:
    from dragoman.agent.client import RemoteClient
    from dragoman.agent.settings import OfferedSettings

Check: TypeAlias = Callable[[Any, Any], Any]
UpdateChecks: TypeAlias = dict[type, Check | None]


def make_update_checks(client: RemoteClient, *, takes_unstable: bool) -> UpdateChecks:
    """Make the table for a client whose capabilities are known."""
    from dragoman.schema.stability import UNSTABLE_TYPES  # defines every type, which `initialize` can do without

    checks: UpdateChecks = {
        v1.UserMessageChunk: _check_chunk,
        v1.AgentMessageChunk: _check_chunk,
        v1.AgentThoughtChunk: _check_chunk,
        v1.Plan: _check_plan,
        v1.AvailableCommandsUpdate: None,
        v1.SessionInfoUpdate: None,
        v1.UsageUpdate: None,
        v1.ToolCall: _check_tool,
        v1.ToolCallUpdate: _check_tool,
        v1.CurrentModeUpdate: _note_mode,
        v1.ConfigOptionUpdate: _note_options,
        Unknown: None,  # an agent that relays another one passes on what neither side knows
    }
    needs = {
        v1.Notice: "session.notices",  # rule 62
        v1.CompactionUpdate: "session.compaction",  # rule 63
        v1.CompactionSummaryChunk: "session.compaction",
        v1.PlanUpdate: "plan",
        v1.PlanRemoved: "plan",
        v1.SubagentUpdate: "subagents",
        v1.SessionMessage: "subagents",
        v1.SessionMessageChunk: "subagents",
    }
    for kind, gate in needs.items():
        if kind in UNSTABLE_TYPES and not takes_unstable:
            checks[kind] = _refuse_unstable
        else:
            checks[kind] = OFFERED.get(kind.__name__) if client.offers(gate) else _refusal(gate)
    return checks


def _check_chunk(settings: OfferedSettings, update: v1.ContentChunk) -> object:
    check_content(update.content)
    return update


def _check_plan(settings: OfferedSettings, update: v1.Plan) -> object:
    check_plan(update.entries)
    return update


def _check_tool(settings: OfferedSettings, update: v1.ToolCall | v1.ToolCallUpdate) -> object:
    check_tool_call(update)
    return _check_paths(settings, update)


def _check_paths(settings: OfferedSettings, update: v1.ToolCall | v1.ToolCallUpdate) -> object:
    """Check that paths of diffs and locations are absolute (rules 246, 248)."""
    for item in update.content or ():
        if type(item) is v1.Diff and not os.path.isabs(item.path):
            raise LocalProtocolError(f"the path of a diff must be absolute, not {item.path!r}")
    for location in update.locations or ():
        if not os.path.isabs(location.path):
            raise LocalProtocolError(f"the path of a location must be absolute, not {location.path!r}")
    return update


def _note_mode(settings: OfferedSettings, update: v1.CurrentModeUpdate) -> object:
    settings.change_mode(update.current_mode_id)
    return update


def check_notice(settings: OfferedSettings, update: v1.Notice) -> object:
    """Return the check of a notice, for a client that can show one."""
    check_value("NoticeSeverity", update.severity, "the severity of a notice")
    return update


def _check_compaction(settings: OfferedSettings, update: v1.CompactionUpdate) -> object:
    check_value("CompactionStatus", update.status, "the status of a compaction")
    return update


def _note_options(settings: OfferedSettings, update: v1.ConfigOptionUpdate) -> object:
    return v1.ConfigOptionUpdate(settings.offer_options(update.config_options), meta=update.meta)


# Checks of updates that only some clients take, by the name of the update.
OFFERED: dict[str, Check] = {"Notice": check_notice, "CompactionUpdate": _check_compaction}
# What is left of a check for an update of another agent, whose values are passed on as they came.
_RELAYED: dict[Check, Check | None] = {
    _check_chunk: None,
    _check_plan: None,
    _check_tool: _check_paths,
    _check_compaction: None,
    check_notice: None,
}


def for_relayed(check: Check | None) -> Check | None:
    """Return the same check without the comparison of values with those the schema names."""
    return None if check is None else _RELAYED.get(check, check)


def _refuse_unstable(settings: OfferedSettings, update: object) -> NoReturn:
    raise LocalProtocolError(f"{type(update).__name__} is not stable; create the agent with unstable=True to send it")


def _refusal(gate: str) -> Check:
    def refuse(settings: OfferedSettings, update: object) -> NoReturn:
        raise CapabilityError(f"{type(update).__name__} needs a client that advertises {gate}; this one does not")

    return refuse


def require_stable(value: object) -> None:
    """Raise LocalProtocolError when a result holds a type or member that only the unstable schema has."""
    from dragoman.schema.stability import find_unstable

    where = find_unstable(value)
    if where is not None:
        raise LocalProtocolError(
            f"{type(value).__name__} holds {where}, which is not stable; create the agent with unstable=True to send it"
        )
