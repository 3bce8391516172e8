"""What a client is shown of a tool call: title, kind, locations, diffs and output.

A producer attaches a `ToolDisplay` to the chunks that announce a call, under `providerMetadata.dragoman`, where the AI
SDK allows a producer's own data. So a stream can be shown without the tool that made it. Readers that do not know this
key ignore it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

if TYPE_CHECKING:
    from dragoman.uistream import chunks as c

    Announcing = TypeVar("Announcing", c.ToolInputStart, c.ToolInputAvailable, c.ToolInputError)

Kind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
_KEY: Final = "dragoman"
# Kinds of tools by their conventional names, for streams whose chunks carry no display.
KINDS: Final[dict[str, Kind]] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "apply_patch": "edit",
    "glob": "search",
    "grep": "search",
    "bash": "execute",
    "bash_output": "execute",
    "present_plan": "switch_mode",
    "bash_stop": "execute",
    "todo": "other",
    "task": "other",
    "question": "other",
    "web_search": "fetch",
    "web_fetch": "fetch",
    "skill": "think",
    "tool_search": "search",
    "call_tool": "other",
}


class Location(Struct, frozen=True):
    """A file, and perhaps a line of it, that a call is about."""

    path: str
    line: int | UnsetType = UNSET


class FileDiff(Struct, frozen=True):
    """A file before (None: it did not exist) and after a change."""

    path: str
    old: str | None
    new: str


class ToolDisplay(Struct, frozen=True, omit_defaults=True):
    """How a call is shown before it has an output. The title is the chunk's own."""

    kind: Kind = "other"
    locations: tuple[Location, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    parent: str | None = None
    """The call that this one belongs to, such as that of a sub-agent: `_meta.dragoman.parentToolCallId`."""
    mcp: tuple[str, str] | None = None
    """The MCP server and its tool, for rules of the client: `_meta.dragoman.mcp`."""
    input: Any = UNSET
    """The arguments to show, where they are not the call's own: those of a call that was made through another tool."""


class ToolOutput(Struct, frozen=True, omit_defaults=True):
    """The result of a call. This struct, as JSON, is the `output` of the chunk that ends the call.

    `text` is what the model reads; the other members are shown to the user.
    """

    text: str
    diffs: tuple[FileDiff, ...] = ()
    locations: tuple[Location, ...] = ()
    terminal: str | None = None
    """Id of a terminal of the client that shows the output live."""
    images: tuple[dict[str, str], ...] = ()
    """`{"data": base64, "media_type": ...}`"""
    resources: tuple[dict[str, Any], ...] = ()
    """`{"uri", "text" | "blob" | "name", "media_type"}`; with neither text nor blob it is a link."""
    exit_code: int | None = None
    is_error: bool = False
    """The tool ran but its result is a failure, such as a command that exits with 1."""
    is_truncated: bool = False
    output_path: str | None = None
    """File with the whole output when `text` holds only a part of it."""
    sandbox: str | None = None
    """For a command: the sandbox it ran in, or "off" if it ran outside."""
    denials: tuple[str, ...] = ()
    """What the sandbox kept from the command."""
    details: str = ""
    """Shown to the user before the text, such as what a subagent called; the model does not read it."""
    violations: tuple[dict[str, Any], ...] = ()
    """Protected files that the command changed: `{"path", "happened", "restored", "kept", "replaced"}`."""


def with_display(chunk: Announcing, title: str, display: ToolDisplay) -> Announcing:
    """Return the chunk with its title and display set; metadata of the provider is kept."""
    metadata = chunk.provider_metadata if isinstance(chunk.provider_metadata, dict) else {}
    metadata = {**metadata, _KEY: msgspec.to_builtins(display)}
    return msgspec.structs.replace(chunk, title=title, provider_metadata=metadata)


def display_of(tool_name: str, metadata: Any) -> ToolDisplay:
    """Read the display from a chunk's provider metadata. Without one, the kind follows from the tool's name."""
    if isinstance(metadata, dict) and _KEY in metadata:
        try:
            return msgspec.convert(metadata[_KEY], ToolDisplay)
        except msgspec.ValidationError:
            pass
    return ToolDisplay(KINDS.get(tool_name, "other"))


def with_shown(metadata: Any, display: Any) -> Any:
    """Return the metadata of a call with another display."""
    return {**(metadata if isinstance(metadata, dict) else {}), _KEY: display}


def without_diffs(metadata: Any) -> Any:
    """Return the metadata of a call whose output has the diffs, without the copy of them in its display."""
    if not isinstance(metadata, dict) or "diffs" not in metadata.get(_KEY, ()):
        return metadata
    return {**metadata, _KEY: {name: value for name, value in metadata[_KEY].items() if name != "diffs"}}
