"""`edit`: replaces pieces of a file, or explains why it cannot.

The edit is worked out before permission is asked, so that the user is shown what will change, and again afterwards,
because the file may have changed in the meantime. `edit_match.py` finds the places.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths, read_files
from dragoman.builtin.tools.diff import diff_of
from dragoman.builtin.tools.edit_match import match_edit
from dragoman.builtin.tools.tool import FileDiff, Kind, Location, Preview, Tool, ToolError, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.tools.edit_match import EditMatch
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

_LINES_NAMED: Final = 10


class EditPiece(Struct):
    """One replacement of several."""

    old: Annotated[str, Meta(description="The exact text to replace; it must occur once.")]
    new: Annotated[str, Meta(description="The new text; empty to delete.")]
    all: Annotated[bool | None, Meta(description="Replace every occurrence.")] = None


class EditArguments(Struct):
    """The text to replace and its replacement, or several of them."""

    path: Annotated[str, Meta(description="File, absolute or relative to the working folder.")]
    old: Annotated[
        str | None,
        Meta(
            description="The exact text to replace, with its white space and without line numbers; "
            "as many lines as it takes to occur only once in the file."
        ),
    ] = None
    new: Annotated[str | None, Meta(description="The new text; empty to delete.")] = None
    all: Annotated[bool | None, Meta(description="Replace every occurrence.")] = None
    edits: Annotated[
        list[EditPiece] | None,
        Meta(
            description="Several replacements in this file instead of old and new, applied in order: all of them, or "
            "none if one cannot be applied."
        ),
    ] = None


class PlannedEdit(Struct, frozen=True):
    """An edit that can be applied: the file before and after it."""

    text: str
    changed: str
    lines: tuple[int, ...]
    """Lines of the changed text where something was replaced."""
    ignored: tuple[str, ...]
    """What was ignored to find the places."""


class EditTool(Tool):
    """The tool that replaces text in a file."""

    name: Final = "edit"
    kind: Final[Kind] = "edit"
    arguments: Final = EditArguments
    description: Final = (
        "Replace a piece of a text file, or several with `edits`. `old` must occur only once, unless `all` is set. "
        "Copy it exactly; a difference only in indentation, white space at line ends or typographic quotes is accepted "
        "if the place is clear."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        path = paths.path_of(arguments, cwd)
        if path is None:
            return Preview("Edit")
        old, new = arguments.get("old"), arguments.get("new")
        # Without `new`, which arrives last, the diff would show a deletion.
        diffs = (FileDiff(path, old, new),) if isinstance(old, str) and isinstance(new, str) else ()
        return Preview(f"Edit {paths.shown(path, cwd)}", (Location(path),), diffs)

    async def check(self, arguments: EditArguments, context: ToolContext) -> Preview | None:
        path = paths.absolute(arguments.path, context.cwd)
        if not paths.may_read(path, context):
            return None
        plan = await self._plan(arguments, path, context)
        real = paths.real_path(path, context.roots)
        title = f"Edit {paths.shown(path, context.cwd)}"
        return Preview(title, (Location(real, plan.lines[0]),), (diff_of(real, plan.text, plan.changed),))

    def requests(self, arguments: EditArguments, context: ToolContext) -> tuple[Request, ...]:
        path = paths.absolute(arguments.path, context.cwd)
        return paths.change(f"Edit {paths.shown(path, context.cwd)}", path, context)

    async def run(self, arguments: EditArguments, context: ToolContext) -> ToolOutput:
        path = paths.absolute(arguments.path, context.cwd)
        target = paths.permitted_target(path, context)
        plan = await self._plan(arguments, target, context)
        was_current = read_files.is_current(context.memory, path, plan.text)
        real = paths.real_path(path, context.roots)  # what changes when the path leads through a link
        await context.access.write_text(target, plan.changed)
        if was_current:  # otherwise the model still does not know the rest of the file
            read_files.remember(context.memory, path, plan.changed)
        times = "" if len(plan.lines) == 1 else f"{len(plan.lines)} replacements, "
        matched = f"; matched after ignoring {' and '.join(plan.ignored)}" if plan.ignored else ""
        return ToolOutput(
            f"Edited {paths.shown(path, context.cwd)} ({times}{_named(plan.lines)}{matched}).",
            (diff_of(real, plan.text, plan.changed),),
            (Location(real, plan.lines[0]),),
        )

    async def _plan(self, arguments: EditArguments, target: str, context: ToolContext) -> PlannedEdit:
        """Read the file at `target` and work out the whole edit. Raises: ToolError if it cannot be applied."""
        pieces = _pieces(arguments)
        path = paths.absolute(arguments.path, context.cwd)
        name = paths.shown(path, context.cwd)
        try:
            text = await context.access.read_text(target)
        except FileNotFoundError:
            raise paths.no_such_file(path, context, "create it with write, or find its name with glob") from None
        is_stale = read_files.is_known(context.memory, path) and not read_files.is_current(context.memory, path, text)
        # In a thread: comparing a long file line by line takes a moment.
        return await asyncio.to_thread(plan_edit, name, text, pieces, is_stale=is_stale)


def plan_edit(name: str, text: str, pieces: Sequence[EditPiece], *, is_stale: bool = False) -> PlannedEdit:
    """Work out an edit of a text. Raises: ToolError if one of the pieces cannot be applied."""
    changed, spans, ignored = text, list[tuple[int, int]](), dict[str, None]()
    for number, piece in enumerate(pieces, 1):
        which = f"edit {number} of {len(pieces)}: " if len(pieces) > 1 else ""
        match = _match(name, changed, piece, which, is_stale=is_stale)
        if match.ignored:
            ignored[match.ignored] = None
        changed, spans = _applied(changed, match, spans, which)
    if changed == text:
        raise ToolError(f"old and new differ only in their line ends, which {name} keeps as they are")
    lines = dict.fromkeys(changed.count("\n", 0, start) + 1 for start, _ in sorted(spans))
    return PlannedEdit(text, changed, tuple(lines), tuple(ignored))


def _pieces(arguments: EditArguments) -> list[EditPiece]:
    if arguments.edits is not None:
        if arguments.old is not None or arguments.new is not None:
            raise ToolError("give either old and new, or edits, not both")
        pieces = arguments.edits
    elif arguments.old is None or arguments.new is None:
        missing = "old" if arguments.old is None else "new"
        raise ToolError(f"{missing} is missing; give old and new, or a list of edits")
    else:
        pieces = [EditPiece(arguments.old, arguments.new, arguments.all)]
    if not pieces:
        raise ToolError("edits is empty, so there is nothing to change")
    for piece in pieces:
        if piece.old == piece.new:
            raise ToolError("old and new are the same, so there is nothing to change")
        if not piece.old:
            raise ToolError("old is empty; give the text to replace, or use write for a whole file")
    return pieces


def _match(name: str, text: str, piece: EditPiece, which: str, *, is_stale: bool) -> EditMatch:
    """Find one piece. Raises: ToolError if it is not there, or there more than once."""
    match = match_edit(text, piece.old, piece.new)
    if match is None:
        stale = "The file has changed since you last read it. " if is_stale else ""
        hint = hint_for(text, piece.old, piece.new)
        raise ToolError(f"{which}old does not occur in {name}, so nothing was changed. {stale}{hint}")
    if len(match.places) == 1:
        return match
    lines = _named([text.count("\n", 0, place.start) + 1 for place in match.places])
    if not piece.all:
        but = f" (ignoring {match.ignored})" if match.ignored else ""
        raise ToolError(
            f"{which}old occurs {len(match.places)} times in {name}{but} ({lines}); give more of the lines "
            "around it so that it occurs once, or set all to replace every one"
        )
    if not match.is_repeatable:
        raise ToolError(
            f"{which}old occurs {len(match.places)} times in {name} only if {match.ignored} is ignored ({lines}); "
            "copy it exactly to replace every one"
        )
    return match


def _applied(
    text: str, match: EditMatch, spans: list[tuple[int, int]], which: str
) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with the replacements, and the spans of all replacements so far in it. Raises: ToolError."""
    pieces: list[str] = []
    made: list[tuple[int, int]] = []
    moved = spans
    end = grown = 0
    for place in match.places:
        if place.start < end:
            continue  # begins inside the place before
        if any(start < place.stop and place.start < stop for start, stop in spans):
            raise ToolError(f"{which}it changes text that an edit before it has changed; join the two into one")
        new = with_line_ends_of(text, place.new)
        pieces += [text[end : place.start], new]
        made.append((place.start + grown, place.start + grown + len(new)))
        more = len(new) - (place.stop - place.start)
        moved = [
            (now[0] + more, now[1] + more) if then[0] >= place.stop else now
            for then, now in zip(spans, moved, strict=True)
        ]
        grown += more
        end = place.stop
    return "".join([*pieces, text[end:]]), [*moved, *made]


def with_line_ends_of(text: str, new: str) -> str:
    """Return `new` with the line ends that most lines of the text have."""
    plain = new.replace("\r\n", "\n")
    if (returns := text.count("\r\n")) * 2 > text.count("\n"):
        return plain.replace("\n", "\r\n")
    return new if returns else plain


def _named(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = len(lines) - _LINES_NAMED
    return f"lines {', '.join(map(str, lines[:_LINES_NAMED]))}" + (f" and {more} more" if more > 0 else "")


_READ_AGAIN: Final = "Read the file again and copy the text exactly."
_NUMBERED: Final = re.compile(r"\s*\d+\t")
_LINES_SHOWN: Final = 12
_LINES_COMPARED: Final = 5000
_LETTERS_COMPARED: Final = 300
_LIKENESS: Final = 0.6


def hint_for(text: str, old: str, new: str) -> str:
    """Return one or two sentences on why `old` is not in `text`."""
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    if all(_NUMBERED.match(line) for line in wanted):
        return "It begins with line numbers, which are not part of the file: leave them and the tab out."
    text, new = text.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    lines = text.split("\n")
    at = _find_loosely(lines, wanted)
    if at is not None:
        return f"It is there with other white space:\n{_shown(lines, at, len(wanted))}\nCopy it exactly."
    if len(new.strip()) > 3 and new in text:
        line = text.count("\n", 0, text.find(new)) + 1
        return f"The new text is already there (line {line}), so this edit may have been made before."
    at = _find_similar(lines, wanted)
    if at is not None:
        return f"The most similar lines are:\n{_shown(lines, at, len(wanted))}\n{_READ_AGAIN}"
    return _READ_AGAIN


def _find_loosely(lines: list[str], wanted: list[str]) -> int | None:
    plain = [" ".join(line.split()) for line in lines]
    asked = [" ".join(line.split()) for line in wanted]
    if not any(asked):
        return None
    if len(asked) == 1:
        return next((number for number, line in enumerate(plain) if asked[0] in line), None)
    for number in range(len(plain) - len(asked) + 1):
        # `old` may begin and end in the middle of a line.
        if (
            plain[number].endswith(asked[0])
            and plain[number + len(asked) - 1].startswith(asked[-1])
            and plain[number + 1 : number + len(asked) - 1] == asked[1:-1]
        ):
            return number
    return None


def _find_similar(lines: list[str], wanted: list[str]) -> int | None:
    """Return where `wanted` would begin if its longest line were the most similar line of the file."""
    import difflib

    longest = max(range(len(wanted)), key=lambda number: len(wanted[number].strip()))
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[longest].strip()[:_LETTERS_COMPARED])
    best, best_at = _LIKENESS, None
    for number, line in enumerate(lines[:_LINES_COMPARED]):
        matcher.set_seq1(line.strip()[:_LETTERS_COMPARED])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (likeness := matcher.ratio()) > best:
            best, best_at = likeness, number
    return None if best_at is None else max(best_at - longest, 0)


def _shown(lines: list[str], first: int, count: int) -> str:
    end = min(first + min(count, _LINES_SHOWN), len(lines))
    return "\n".join(f"{number + 1}\t{lines[number][:_LETTERS_COMPARED]}" for number in range(first, end))
