"""What the schema does not state and was decided by hand: names, homes, gates, defaults by rule.

Everything here is data; the reader and the emitter hold no name of the protocol.
"""

from __future__ import annotations

from typing import Final

from tools.schema.model import Choice

ENVELOPES: Final = frozenset(
    f"{side}{what}" for side in ("Agent", "Client", "Proxy") for what in ("Request", "Response", "Notification")
)
"""The JSON-RPC envelope belongs to `wire/`."""

SKIPPED: Final = ENVELOPES | {"ExtRequest", "ExtResponse", "ExtNotification"}

SKIPPED_SIDES: Final = frozenset({"proxy"})
"""Chains of proxies are a protocol of their own; nothing here speaks it."""

VARIANT_NAMES: Final = {
    ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome",
    ("CreateElicitationResponse", "accept"): "AcceptElicitation",
    ("CreateElicitationResponse", "decline"): "DeclineElicitation",
    ("CreateElicitationResponse", "cancel"): "CancelElicitation",
}
"""Variants that have no definition of their own, or one that only makes sense flattened."""

INNER_ENUMS: Final = {"IdleStateUpdate": ("stopReason", "IdleStopReason")}
"""Records whose alternatives only list the values of one member: that member, and the enum it becomes."""

UNTAGGED_NAMES: Final = {"ToolCallUpdate": "ToolCallPatch"}
"""A definition used with and without tag: the one without gets this name, the tagged one is named by its tag."""

CHOICES: Final = {
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

RULE_DEFAULTS: Final = {("ToolCall", "kind"): "other", ("ToolCall", "status"): "pending"}
"""Defaults the prose gives and the schema leaves out (rules 240 and 241)."""

GATES: Final = {
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
"""The capability of the serving side each method needs; a method not named here is always there."""

HOMES: Final = {
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
"""Which module defines the types of which methods; what is left goes to the last.

Defining a Struct costs about 60 us, and an agent answers `initialize` before it needs a second module.
"""

LENIENT_NAMES: Final = {"CurrentModeUpdate": {"currentModeId": "modeId"}}
"""Other names a member is read from, in the forgiving pass only (the prose and the schema disagree)."""

WITHOUT_TAG: Final = {"RequestPermissionRequest": "tool_call"}
"""Members whose type has a tagged subclass; an instance of that is stored as its base, or the tag would leak."""
