"""Questions to the client for permission, and forms in which the user changes a call's input.

Owns the way from options to the protocol's options and back. Everything that is not clearly a yes is a no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from dragoman.adapters.values import AskAnswer
from dragoman.agent.permission import ask_permission
from dragoman.errors import CapabilityError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.adapters.values import AskOption
    from dragoman.agent import AgentSession, Turn


async def ask_client(session: AgentSession, call: v1.ToolCallPatch, options: Sequence[AskOption]) -> AskAnswer:
    """Send the question and read the answer."""
    offered = [v1.PermissionOption(option.id, option.label, option.kind) for option in options]
    content = [
        replace(item, path=session.path(item.path)) if isinstance(item, v1.Diff) else item
        for item in call.content or ()
    ]
    locations = [replace(place, path=session.path(place.path)) for place in call.locations or ()]
    shown = replace(call, content=content or UNSET, locations=locations or UNSET)
    given = await ask_permission(session, shown, offered)
    chosen = next((option for option in options if option.id == given.option_id), None)
    if chosen is None or not given.allowed:
        return AskAnswer(False, chosen, reason=given.reason, call_id=call.tool_call_id)
    return AskAnswer(True, chosen, chosen.input, call_id=call.tool_call_id)


async def edit_in_form(turn: Turn, call: v1.ToolCallPatch, option: AskOption) -> AskAnswer:
    """Let the user change the input. Members that a form cannot show keep their value. A declined form is a no."""
    given = call.raw_input if isinstance(call.raw_input, dict) else {}
    call_id = call.tool_call_id
    fields: dict[str, Any] = {name: field for name, value in given.items() if (field := _field(value)) is not None}
    if not fields:
        return AskAnswer(True, option, option.input, call_id=call_id)
    try:
        answer = await turn.elicit(
            f"Change the input of: {call.title or 'this call'}", v1.ElicitationSchema(properties=fields)
        )
    except CapabilityError:
        return AskAnswer(False, option, reason="the client cannot show a form", call_id=call_id)
    if not isinstance(answer, v1.AcceptElicitation):
        return AskAnswer(False, option, reason="the user did not complete the form", call_id=call_id)
    changed = answer.content if isinstance(answer.content, dict) else {}
    kept = {**given, **{name: changed[name] for name in fields if name in changed}}
    return AskAnswer(True, option, kept, call_id=call_id)


def _field(value: Any) -> Any:
    """Return the field of a form for a value, None for values that no field can hold."""
    if isinstance(value, bool):
        return v1.BooleanPropertySchema(default=value)
    if isinstance(value, int):
        return v1.IntegerPropertySchema(default=value)
    if isinstance(value, float):
        return v1.NumberPropertySchema(default=value)
    return v1.StringPropertySchema(default=value) if isinstance(value, str) else None
