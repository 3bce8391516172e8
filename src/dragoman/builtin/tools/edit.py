"""`edit`: replaces an exact piece of a file, or explains why it cannot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths, read_files
from dragoman.builtin.tools.did_you_mean import hint_for
from dragoman.builtin.tools.diff import diff_of
from dragoman.builtin.tools.tool import FileDiff, Kind, Location, Preview, Tool, ToolError, ToolOutput

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

_LINES_NAMED: Final = 10


class EditArguments(Struct):
    """The text to replace and its replacement."""

    path: Annotated[str, Meta(description="File, absolute or relative to the working folder.")]
    old: Annotated[
        str,
        Meta(
            description="The exact text to replace, with its white space and without line numbers; "
            "as many lines as it takes to occur only once in the file."
        ),
    ]
    new: Annotated[str, Meta(description="The new text; empty to delete.")]
    all: Annotated[bool | None, Meta(description="Replace every occurrence.")] = None


class EditTool(Tool):
    """Replaces text in a file."""

    name: Final = "edit"
    kind: Final[Kind] = "edit"
    arguments: Final = EditArguments
    description: Final = (
        "Replace a piece of a text file. `old` must match exactly and only once, unless `all` is set. "
        "Whether lines end with LF or CRLF makes no difference."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        path = paths.path_of(arguments, cwd)
        if path is None:
            return Preview("Edit")
        old, new = arguments.get("old"), arguments.get("new")
        # Without `new`, which arrives last, the diff would show a deletion.
        diffs = (FileDiff(path, old, new),) if isinstance(old, str) and isinstance(new, str) else ()
        return Preview(f"Edit {paths.shown(path, cwd)}", (Location(path),), diffs)

    def requests(self, arguments: EditArguments, context: ToolContext) -> tuple[Request, ...]:
        path = paths.absolute(arguments.path, context.cwd)
        return paths.change(f"Edit {paths.shown(path, context.cwd)}", path, context)

    async def run(self, arguments: EditArguments, context: ToolContext) -> ToolOutput:
        path = paths.absolute(arguments.path, context.cwd)
        name = paths.shown(path, context.cwd)
        if arguments.old == arguments.new:
            raise ToolError("old and new are the same, so there is nothing to change")
        try:
            text = await context.access.read_text(path)
        except FileNotFoundError:
            raise paths.no_such_file(path, context, "create it with write, or find its name with glob") from None
        if not arguments.old:
            raise ToolError("old is empty; give the text to replace, or use write for a whole file")
        was_current = read_files.is_current(context.memory, path, text)
        spots = await asyncio.to_thread(find, text, arguments.old)
        if not spots:
            is_stale = read_files.is_known(context.memory, path) and not was_current
            stale = "The file has changed since you last read it. " if is_stale else ""
            # In a thread: comparing a long file line by line takes a moment.
            hint = await asyncio.to_thread(hint_for, text, arguments.old, arguments.new)
            raise ToolError(f"old does not occur in {name}, so nothing was changed. {stale}{hint}")
        if len(spots) > 1 and not arguments.all:
            raise ToolError(
                f"old occurs {len(spots)} times in {name} ({_named(_lines_of(text, spots))}); give more of the lines "
                "around it so that it occurs once, or set all to replace every one"
            )
        spots = _apart(spots)
        lines = _lines_of(text, spots)
        changed = replace(text, spots, arguments.new)
        if changed == text:
            raise ToolError(f"old and new differ only in their line ends, which {name} keeps as they are")
        real = paths.real_path(path, context.roots)  # what changes when the path leads through a link
        await context.access.write_text(path, changed)
        if was_current:  # otherwise the model still does not know the rest of the file
            read_files.remember(context.memory, path, changed)
        times = "" if len(spots) == 1 else f"{len(spots)} replacements, "
        return ToolOutput(
            f"Edited {name} ({times}{_named(lines)}).", (diff_of(real, text, changed),), (Location(real, lines[0]),)
        )


def find(text: str, old: str) -> list[tuple[int, int]]:
    """Return the places of `old`, with any line ends. Overlapping places are included: they are ambiguous too."""
    spots: list[tuple[int, int]] = []
    if "\n" not in old or "\r" not in text + old:
        start = text.find(old)
        while start >= 0:
            spots.append((start, start + len(old)))
            start = text.find(old, start + 1)
        return spots
    import re

    # A line end is never the second half of a CRLF: that would leave its first half behind.
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(re.escape(line) for line in old.replace("\r\n", "\n").split("\n")))
    start = 0
    while match := pattern.search(text, start):
        spots.append(match.span())
        start = match.start() + 1
    return spots


def replace(text: str, spots: list[tuple[int, int]], new: str) -> str:
    """Return the text with `new` at each of the places, with the line ends of the file."""
    plain = new.replace("\r\n", "\n")
    if (returns := text.count("\r\n")) * 2 > text.count("\n"):
        new = plain.replace("\n", "\r\n")
    elif not returns:
        new = plain
    pieces, end = [], 0
    for start, stop in spots:
        pieces += [text[end:start], new]
        end = stop
    return "".join([*pieces, text[end:]])


def _apart(spots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the places without those that begin inside an earlier one."""
    apart: list[tuple[int, int]] = []
    for spot in spots:
        if not apart or spot[0] >= apart[-1][1]:
            apart.append(spot)
    return apart


def _lines_of(text: str, spots: list[tuple[int, int]]) -> list[int]:
    lines, line, end = [], 1, 0
    for start, _ in spots:
        line += text.count("\n", end, start)
        lines.append(line)
        end = start
    return lines


def _named(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = len(lines) - _LINES_NAMED
    return f"lines {', '.join(map(str, lines[:_LINES_NAMED]))}" + (f" and {more} more" if more > 0 else "")
