"""Values of version 2 as the values that the session state has: those of version 1.

Content blocks, options and commands say the same in both versions and have one form in the state, so that every program
that reads the state works with agents of both. Where version 2 says more (a file that was moved), it is put in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import RemoteProtocolError
from dragoman.schema import UNSET, Unknown, decode, encode, v1, v2
from dragoman.text.patches import git_patch, read_patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.text.patches import PatchHunk

_BLOCKS: Final[dict[type, type]] = {
    v2.ImageContent: v1.ImageContent,
    v2.AudioContent: v1.AudioContent,
    v2.ResourceLink: v1.ResourceLink,
    v2.EmbeddedResource: v1.EmbeddedResource,
    v2.TextContent: v1.TextContent,
}
_CHUNKS: Final[dict[type, type[v1.UserMessageChunk | v1.AgentMessageChunk | v1.AgentThoughtChunk]]] = {
    v2.UserMessageChunk: v1.UserMessageChunk,
    v2.AgentMessageChunk: v1.AgentMessageChunk,
    v2.AgentThoughtChunk: v1.AgentThoughtChunk,
}
# The same members with the same meaning in both versions.
_SAME: Final[dict[type, type]] = {
    v2.PlanUpdate: v1.PlanUpdate,
    v2.PlanRemoved: v1.PlanRemoved,
    v2.SessionInfoUpdate: v1.SessionInfoUpdate,
    v2.UsageUpdate: v1.UsageUpdate,
    v2.Notice: v1.Notice,
    v2.CompactionUpdate: v1.CompactionUpdate,
    v2.CompactionSummaryChunk: v1.CompactionSummaryChunk,
    v2.SubagentUpdate: v1.SubagentUpdate,
    v2.SessionMessage: v1.SessionMessage,
    v2.SessionMessageChunk: v1.SessionMessageChunk,
}


def read_block(block: v2.ContentBlock) -> v1.ContentBlock:
    """Read a content block; one of an unknown type stays as it is."""
    if type(block) is v2.TextContent and block.annotations is UNSET:
        return v1.TextContent(block.text, meta=block.meta)
    if isinstance(block, Unknown):
        return block
    made: v1.ContentBlock = _again(block, _BLOCKS[type(block)])
    return made


def read_blocks(blocks: Iterable[v2.ContentBlock] | None) -> list[v1.ContentBlock]:
    """Read content blocks; None is an empty list."""
    return [read_block(block) for block in blocks or ()]


def read_update(update: v2.SessionUpdate) -> v1.SessionUpdate | None:
    """Return the update of version 1 that says the same; None if version 1 has none, as for a whole message."""
    kind = type(update)
    if isinstance(update, v2.ContentChunk):
        return _CHUNKS[kind](read_block(update.content), message_id=update.message_id, meta=update.meta)
    if kind in _SAME:
        made: v1.SessionUpdate = _again(update, _SAME[kind])
        return made
    if isinstance(update, v2.AvailableCommandsUpdate):
        return v1.AvailableCommandsUpdate(read_commands(update.available_commands), meta=update.meta)
    if isinstance(update, v2.ConfigOptionUpdate):
        return v1.ConfigOptionUpdate(read_options(update.config_options), meta=update.meta)
    return update if isinstance(update, Unknown) else None


def read_commands(commands: Iterable[v2.AvailableCommand]) -> list[v1.AvailableCommand]:
    """Slash commands; one of an unknown type cannot be used and is left out."""
    made = []
    for command in commands:
        if isinstance(command, v2.Command):
            given = command.input
            takes: Any = UNSET
            if isinstance(given, v2.TextCommandInput):
                takes = v1.UnstructuredCommandInput(given.hint, meta=given.meta)
            made.append(v1.AvailableCommand(command.name, command.description, input=takes, meta=command.meta))
    return made


def read_options(options: Iterable[v2.SessionConfigOption]) -> list[v1.SessionConfigOption]:
    """Configuration options; one of an unknown type stays as it is."""
    made: list[v1.SessionConfigOption] = []
    for option in options:
        if isinstance(option, Unknown):
            made.append(option)
        elif isinstance(option, v2.SessionConfigBoolean):
            made.append(
                v1.SessionConfigBoolean(
                    option.config_id,
                    option.name,
                    option.current_value,
                    description=option.description,
                    category=option.category,
                    meta=option.meta,
                )
            )
        else:
            made.append(
                v1.SessionConfigSelect(
                    option.config_id,
                    option.name,
                    option.current_value,
                    _choices(option.options),
                    description=option.description,
                    category=option.category,
                    meta=option.meta,
                )
            )
    return made


def _choices(choices: v2.SessionConfigSelectOptions) -> v1.SessionConfigSelectOptions:
    groups = [choice for choice in choices if isinstance(choice, v2.SessionConfigSelectGroup)]
    if groups:
        return [
            v1.SessionConfigSelectGroup(
                group.group_id, group.name, [_choice(option) for option in group.options], meta=group.meta
            )
            for group in groups
        ]
    return [_choice(option) for option in choices if isinstance(option, v2.SessionConfigSelectOption)]


def _choice(choice: v2.SessionConfigSelectOption) -> v1.SessionConfigSelectOption:
    return v1.SessionConfigSelectOption(choice.value, choice.name, description=choice.description, meta=choice.meta)


def read_tool_content(content: v2.ToolCallContent) -> list[v1.ToolCallContent]:
    """Read one item of a tool call's content: a diff becomes one item for each part that has a text, the others one."""
    if isinstance(content, v2.Content):
        return [v1.Content(read_block(content.content), meta=content.meta)]
    if isinstance(content, v2.Terminal):
        return [v1.Terminal(content.terminal_id, meta=content.meta)]
    return _read_diff(content) if isinstance(content, v2.Diff) else [content]


def _read_diff(diff: v2.Diff) -> list[v1.ToolCallContent]:
    patch = diff.patch or None
    text = patch.text if patch is not None and patch.format == "git_patch" else ""
    whole = _whole_texts(diff, text)
    if whole is not None:
        return [whole]
    by_path: dict[str, list[PatchHunk]] = {}
    for hunk in read_patch(text):
        by_path.setdefault(hunk.path, []).append(hunk)
    made: list[v1.ToolCallContent] = []
    for change in diff.changes:
        if isinstance(change, Unknown):
            made.append(_words(f"{change.tag or 'change'} {_path(change.raw)}"))
            continue
        hunks = by_path.pop(change.path, [])
        made += [_hunk_diff(hunk, change) for hunk in hunks]
        if isinstance(change, v2.DiffMove):
            made.append(_words(f"move {change.old_path} to {change.path}"))
        elif isinstance(change, v2.DiffCopy):
            made.append(_words(f"copy {change.old_path} to {change.path}"))
        elif not hunks:
            made.append(_words(f"{_operation(change)} {change.path}"))
    for hunks in by_path.values():  # files of the patch that the list of changes does not name
        made += [_hunk_diff(hunk, None) for hunk in hunks]
    return made


def _whole_texts(diff: v2.Diff, patch: str) -> v1.Diff | None:
    """Return the two texts that a translator kept in `_meta`, if they say what the patch says."""
    kept = (diff.meta or {}).get("dragoman")
    if not isinstance(kept, dict) or len(diff.changes) != 1 or isinstance(diff.changes[0], Unknown):
        return None
    old, new, path = kept.get("oldText"), kept.get("newText"), diff.changes[0].path
    if not isinstance(new, str) or not (old is None or isinstance(old, str)) or git_patch(path, old, new) != patch:
        return None
    return v1.Diff(path, new, old_text=old)


def _hunk_diff(hunk: PatchHunk, change: v2.DiffChange | None) -> v1.Diff:
    is_new = isinstance(change, v2.DiffAdd) or hunk.old is None
    new = "" if isinstance(change, v2.DiffDelete) else hunk.new
    return v1.Diff(hunk.path, new, old_text=None if is_new else hunk.old)


def _words(sentence: str) -> v1.Content:
    return v1.Content(v1.TextContent(sentence))


def _operation(change: v2.DiffChange) -> str:
    names: dict[type, str] = {v2.DiffAdd: "add", v2.DiffDelete: "delete"}
    return names.get(type(change), "modify")


def _path(raw: Any) -> str:
    path = raw.get("path") if isinstance(raw, dict) else None
    return path if isinstance(path, str) else ""


def read_tool_patch(call: v2.ToolCallPatch) -> v1.ToolCallUpdate:
    """Return the tool call's update for programs that read version 1: what was cleared has its empty value."""
    items = call.content
    return v1.ToolCallUpdate(
        call.tool_call_id,
        name=call.name,
        title="" if call.title is None else call.title,
        kind="other" if call.kind is None else call.kind,
        status="pending" if call.status is None else call.status,
        content=UNSET if items is UNSET else [made for item in items or () for made in read_tool_content(item)],
        locations=UNSET if call.locations is UNSET else read_locations(call.locations),
        raw_input=call.raw_input,
        raw_output=call.raw_output,
        meta=call.meta,
    )


def read_locations(locations: Sequence[v2.ToolCallLocation] | None) -> list[v1.ToolCallLocation]:
    """Read places in files."""
    return [v1.ToolCallLocation(place.path, line=place.line, meta=place.meta) for place in locations or ()]


def _again(value: object, kind: Any) -> Any:
    """Read the same members as another type; what does not fit there is left out, or the value is kept as unknown."""
    try:
        return decode(kind, encode(value))
    except RemoteProtocolError:
        return Unknown(None, decode(Any, encode(value)))
