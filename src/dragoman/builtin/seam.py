"""Where the agent's inside meets the protocol: names and kinds, each in one table.

Owns the rename table (snake_case inside, camelCase on the wire) and the kind of every tool. What a tool's own
arguments are called is between the tool and the model; they pass as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import Kind

RENAMES: Final[dict[str, str]] = {
    "session_id": "sessionId",
    "tool_call_id": "toolCallId",
    "tool_name": "toolName",
    "message_id": "messageId",
    "parent_message_id": "parentMessageId",
    "provider_id": "providerId",
    "model_id": "modelId",
    "mode_id": "modeId",
    "terminal_id": "terminalId",
    "option_id": "optionId",
    "media_type": "mimeType",
    "error_text": "errorText",
    "exit_code": "exitCode",
    "is_error": "isError",
    "is_truncated": "isTruncated",
    "output_path": "outputPath",
    "duration_ms": "durationMs",
    "started_at": "startedAt",
    "updated_at": "updatedAt",
    "created_at": "createdAt",
    "cache_read": "cachedReadTokens",
    "cache_write": "cachedWriteTokens",
    "cost_usd": "costUsd",
}
_BACK: Final = {wire: inside for inside, wire in RENAMES.items()}

# The thirteen tools every conforming agent calls by these names, and what a client takes each for.
KINDS: Final[dict[str, Kind]] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "glob": "search",
    "grep": "search",
    "bash": "execute",
    "todo": "other",
    "task": "other",
    "question": "other",
    "web_search": "fetch",
    "web_fetch": "fetch",
    "skill": "think",
    "tool_search": "search",
}


def kind_of(tool_name: str) -> Kind:
    """A tool nobody named here, such as one of an MCP server that declares nothing, is `other`."""
    return KINDS.get(tool_name, "other")


def to_wire(value: Any) -> Any:
    """The value with every key the table knows renamed, at every depth."""
    return _renamed(value, RENAMES)


def to_core(value: Any) -> Any:
    """The way back."""
    return _renamed(value, _BACK)


def _renamed(value: Any, table: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {table.get(key, key): _renamed(item, table) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_renamed(item, table) for item in value]
    return value
