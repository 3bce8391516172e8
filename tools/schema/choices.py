"""What the schema does not state and was decided by hand: names, homes, gates, defaults by rule.

Everything here is data; the reader and the emitter hold no name of the protocol. One `Choices` for each version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tools.schema.model import Choice


@dataclass(frozen=True)
class Choices:
    """The decisions for one version of the protocol."""

    version: int
    variant_names: dict[tuple[str, str], str]
    """Variants that have no definition of their own, one that is shared, or one that only makes sense flattened."""
    choices: dict[str, Choice]
    gates: dict[tuple[str, str], str]
    """The capability of the serving side each method needs; a method not named here is always there."""
    homes: dict[str, list[str]]
    """Which module defines the types of which methods; what is left goes to the last.

    Defining a Struct costs about 60 us, and an agent answers `initialize` before it needs a second module.
    """
    update_params: str
    """The params of `session/update`, which have a type for the whole line."""
    untagged_names: dict[str, str] = field(default_factory=dict)
    """A definition used with and without tag: the one without gets this name, the tagged one is named by its tag."""
    rule_defaults: dict[tuple[str, str], str] = field(default_factory=dict)
    """Defaults the prose gives and the schema leaves out (rules 240 and 241)."""
    lenient_names: dict[str, dict[str, str]] = field(default_factory=dict)
    """Other names a member is read from, in the forgiving pass only (the prose and the schema disagree)."""
    without_tag: dict[str, str] = field(default_factory=dict)
    """Members whose type has a tagged subclass; an instance of that is stored as its base, or the tag would leak."""
    flattened: dict[str, str] = field(default_factory=dict)
    """A union that is itself a tagged variant becomes one record of this name with the members of all its variants."""
    any_value: frozenset[str] = frozenset()
    """Definitions that admit every JSON value next to the shapes they name."""


ENVELOPES: Final = frozenset(
    f"{side}{what}" for side in ("Agent", "Client", "Proxy") for what in ("Request", "Response", "Notification")
)
"""The JSON-RPC envelope belongs to `wire/`."""

SKIPPED: Final = ENVELOPES | {"ExtRequest", "ExtResponse", "ExtNotification"}

SKIPPED_SIDES: Final = frozenset({"proxy"})
"""Chains of proxies are a protocol of their own; nothing here speaks it."""

_VARIANT_NAMES: Final = {
    ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome",
    ("CreateElicitationResponse", "accept"): "AcceptElicitation",
    ("CreateElicitationResponse", "decline"): "DeclineElicitation",
    ("CreateElicitationResponse", "cancel"): "CancelElicitation",
}

INNER_ENUMS: Final = {"IdleStateUpdate": ("stopReason", "IdleStopReason")}
"""Records whose alternatives only list the values of one member: that member, and the enum it becomes."""

_V1_CHOICES: Final = {
    choice.name: choice
    for choice in (
        Choice(
            "McpServer",
            "tag",
            "type",
            {"http": "McpServerHttp", "sse": "McpServerSse", "acp": "McpServerAcp"},
            "McpServerStdio",
            ("stdio",),
        ),
        Choice("AuthMethod", "tag", "type", {"terminal": "AuthMethodTerminal"}, "AuthMethodAgent", ("agent",)),
        Choice("MultiSelectItems", "tag", "type", {"string": "StringMultiSelectItems"}, "TitledMultiSelectItems"),
        Choice(
            "SetSessionConfigOptionRequest",
            "tag",
            "type",
            {"boolean": "SetSessionConfigBoolean"},
            "SetSessionConfigSelect",
            is_open=False,
        ),
        Choice(
            "EmbeddedResourceResource",
            "member",
            variants={"text": "TextResourceContents", "blob": "BlobResourceContents"},
            is_open=False,
        ),
        Choice("MessageMcpResponse", "member", variants={"result": "McpResult", "error": "McpFailure"}, is_open=False),
        Choice(
            "SessionConfigSelectOptions",
            "items",
            variants={"group": "SessionConfigSelectGroup", "value": "SessionConfigSelectOption"},
            is_open=False,
        ),
    )
}

_V1_GATES: Final = {
    ("agent", "session/load"): "loadSession",
    ("agent", "session/list"): "sessionCapabilities.list",
    ("agent", "session/delete"): "sessionCapabilities.delete",
    ("agent", "session/resume"): "sessionCapabilities.resume",
    ("agent", "session/close"): "sessionCapabilities.close",
    ("agent", "session/fork"): "sessionCapabilities.fork",
    ("agent", "session/archive"): "sessionCapabilities.archive",
    ("agent", "session/unarchive"): "sessionCapabilities.archive",
    ("agent", "session/status"): "sessionCapabilities.status",
    ("agent", "session/set_title"): "sessionCapabilities.title",
    ("agent", "logout"): "auth.logout",
    ("agent", "auth/status"): "auth.status",
    ("agent", "providers/list"): "providers",
    ("agent", "providers/set"): "providers",
    ("agent", "providers/disable"): "providers",
    ("agent", "mcp/message"): "mcpCapabilities.acp",
    ("client", "fs/read_text_file"): "fs.readTextFile",
    ("client", "fs/write_text_file"): "fs.writeTextFile",
    ("client", "terminal/create"): "terminal",
    ("client", "terminal/output"): "terminal",
    ("client", "terminal/release"): "terminal",
    ("client", "terminal/wait_for_exit"): "terminal",
    ("client", "terminal/kill"): "terminal",
    ("client", "elicitation/create"): "elicitation",
    ("client", "elicitation/complete"): "elicitation",
}

_V1_HOMES: Final = {
    "handshake": ["initialize"],
    "session": [
        "session/update",
        "session/new",
        "session/prompt",
        "session/cancel",
        "session/load",
        "session/request_permission",
        "fs/read_text_file",
        "fs/write_text_file",
        "$/cancel_request",
    ],
    "rare": [],
}

V1: Final = Choices(
    version=1,
    variant_names=_VARIANT_NAMES,
    choices=_V1_CHOICES,
    gates=_V1_GATES,
    homes=_V1_HOMES,
    update_params="SessionNotification",
    untagged_names={"ToolCallUpdate": "ToolCallPatch"},
    rule_defaults={("ToolCall", "kind"): "other", ("ToolCall", "status"): "pending"},
    lenient_names={"CurrentModeUpdate": {"currentModeId": "modeId"}},
    without_tag={"RequestPermissionRequest": "tool_call"},
)

V2: Final = Choices(
    version=2,
    variant_names={
        **_VARIANT_NAMES,
        ("DiffChange", "add"): "DiffAdd",
        ("DiffChange", "delete"): "DiffDelete",
        ("DiffChange", "modify"): "DiffModify",
        ("DiffChange", "move"): "DiffMove",
        ("DiffChange", "copy"): "DiffCopy",
        ("SetSessionConfigOptionRequest", "id"): "SetSessionConfigSelect",
        ("SetSessionConfigOptionRequest", "boolean"): "SetSessionConfigBoolean",
    },
    choices={
        **{
            name: _V1_CHOICES[name]
            for name in (
                "MultiSelectItems",
                "EmbeddedResourceResource",
                "MessageMcpResponse",
            )
        },
        "SessionConfigSelectOptions": Choice(
            "SessionConfigSelectOptions",
            "items",
            variants={"groupId": "SessionConfigSelectGroup", "value": "SessionConfigSelectOption"},
            is_open=False,
        ),
        # Open unions that name a single variant.
        "AvailableCommand": Choice("AvailableCommand", "tag", "type", {"command": "Command"}),
        "AvailableCommandInput": Choice("AvailableCommandInput", "tag", "type", {"text": "TextCommandInput"}),
        "ReplayFrom": Choice("ReplayFrom", "tag", "type", {"start": "ReplayFromStart"}),
    },
    gates={
        ("agent", "session/delete"): "session.delete",
        ("agent", "session/fork"): "session.fork",
        ("agent", "session/archive"): "session.archive",
        ("agent", "session/unarchive"): "session.archive",
        ("agent", "session/status"): "session.status",
        ("agent", "session/set_title"): "session.title",
        ("agent", "auth/status"): "auth.status",
        ("agent", "providers/list"): "providers",
        ("agent", "providers/set"): "providers",
        ("agent", "providers/disable"): "providers",
        ("agent", "mcp/message"): "session.mcp.acp",
        ("client", "elicitation/create"): "elicitation",
        ("client", "elicitation/complete"): "elicitation",
    },
    homes={
        "handshake": ["initialize"],
        "session": [
            "session/update",
            "session/new",
            "session/prompt",
            "session/cancel",
            "session/resume",
            "session/request_permission",
            "$/cancel_request",
        ],
        "rare": [],
    },
    update_params="UpdateSessionNotification",
    untagged_names={"ToolCallUpdate": "ToolCallPatch"},
    without_tag={"ToolCallPermissionSubject": "tool_call"},
    flattened={"StateUpdate": "SessionStateUpdate"},
    any_value=frozenset({"ErrorData", "ElicitationContentValue"}),
)

VERSIONS: Final = {1: V1, 2: V2}
