"""The values an agent may send where the schema lists them.

A reader takes any string there, a writer only what the schema names: a misspelt kind would break a rule of the protocol
on the wire, and a strict client could not read the update. Owns the types for authors (`Literal`, so that editors
complete them) and the checks of what is sent. A value of your own is written `extension("_name")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET, ExtensionValue, v1

if TYPE_CHECKING:
    from collections.abc import Iterable

ToolKindValue: TypeAlias = (
    Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
    | ExtensionValue
)
ToolStatusValue: TypeAlias = Literal["pending", "in_progress", "completed", "failed"] | ExtensionValue
PlanStatusValue: TypeAlias = Literal["pending", "in_progress", "completed"] | ExtensionValue
SeverityValue: TypeAlias = Literal["info", "warning", "error"] | ExtensionValue

# Enums whose schema takes any string: there a leading underscore alone marks a value of the sender's own.
_OPEN = frozenset({"NoticeSeverity", "CompactionStatus"})


def check_value(enum: str, value: object, where: str) -> None:
    """Raise LocalProtocolError for a value that the schema does not name and that is not marked as an extension.

    Args:
        enum: The name of the enum in the schema.
        value: The value to send; absent and null are not checked.
        where: What the value is, for the error.
    """
    if value is UNSET or value is None or type(value) is ExtensionValue:
        return
    known = v1.KNOWN_VALUES[enum]
    if isinstance(value, str) and (value in known or (enum in _OPEN and value.startswith("_"))):
        return
    raise LocalProtocolError(_refusal(value, known, where))


def check_tool_call(call: v1.ToolCall | v1.ToolCallUpdate | v1.ToolCallPatch) -> None:
    """Check kind and status of a tool call (rules 240, 241)."""
    if call.kind is not UNSET:
        check_value("ToolKind", call.kind, "the kind of a tool call")
    if call.status is not UNSET:
        check_value("ToolCallStatus", call.status, "the status of a tool call")


def check_plan(entries: Iterable[v1.PlanEntry]) -> None:
    """Check status and priority of each entry (rule 266)."""
    for entry in entries:
        check_value("PlanEntryStatus", entry.status, "the status of a plan entry")
        check_value("PlanEntryPriority", entry.priority, "the priority of a plan entry")


def check_permission_options(options: Iterable[v1.PermissionOption]) -> None:
    """Check the kind of each option (rule 254). An option whose kind is an extension never counts as a yes."""
    for option in options:
        check_value("PermissionOptionKind", option.kind, "the kind of a permission option")


def check_content(block: Any) -> None:
    """Check the audience of a content block (rule 237)."""
    annotations = getattr(block, "annotations", None)
    if annotations:
        for role in annotations.audience or ():
            check_value("Role", role, "the audience of a content block")


def check_form(schema: v1.ElicitationSchema) -> None:
    """Check the formats of the text fields of a form."""
    for name, field in (schema.properties or {}).items():
        if isinstance(field, v1.StringPropertySchema):
            check_value("StringFormat", field.format, f"the format of the field {name!r}")


def _refusal(value: object, words: Iterable[str], where: str) -> str:
    from difflib import get_close_matches

    listed = sorted(words)
    near = get_close_matches(value, listed, 1) if isinstance(value, str) else []
    hint = f"did you mean {near[0]!r}? It is" if near else "it is"
    return f'{where} cannot be {value!r}; {hint} one of {", ".join(listed)}, or extension("_name") for one of your own'
