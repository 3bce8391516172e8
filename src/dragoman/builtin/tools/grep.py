"""`grep`: finds lines of files by a regular expression."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.files import LATE, read_scope
from dragoman.builtin.tools.long_output import LIMIT_BYTES
from dragoman.builtin.tools.search import FileMatches, Findings, FoundLine, Query, find_lines, search
from dragoman.builtin.tools.tool import Kind, Location, Preview, Tool, ToolError, ToolOutput
from dragoman.builtin.tools.walk import in_thread
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

MOST_MATCHES: Final = 200
_MOST_CONTEXT: Final = 20
_LINE_LETTERS: Final = 500
_LOCATIONS: Final = 20


class GrepArguments(Struct):
    """The pattern, and where to search."""

    pattern: Annotated[str, Meta(description="Regular expression, matched line by line.")]
    path: Annotated[str | None, Meta(description="File or folder to search; by default the working folder.")] = None
    include: Annotated[
        str | None, Meta(description="Only files that match this glob, like *.py or src/**/*.{ts,tsx}.")
    ] = None
    context: Annotated[int | None, Meta(description=f"Lines to show around each match, at most {_MOST_CONTEXT}.")] = (
        None
    )
    files: Annotated[bool | None, Meta(description="Only the names of the files that have a match.")] = None
    insensitive: Annotated[bool | None, Meta(description="Ignore upper and lower case.")] = None
    literal: Annotated[bool | None, Meta(description="The pattern is plain text, not a regular expression.")] = None
    hidden: Annotated[bool | None, Meta(description="Also files and folders whose name begins with a dot.")] = None
    ignored: Annotated[bool | None, Meta(description="Also files that .gitignore excludes.")] = None


class GrepTool(Tool):
    """Searches the text of files."""

    name: Final = "grep"
    kind: Final[Kind] = "search"
    arguments: Final = GrepArguments
    description: Final = (
        f"Search the text of files; up to {MOST_MATCHES} matching lines with their numbers, by file. Leaves out hidden "
        "files, files that .gitignore excludes, and binary files. To find files by name use glob."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        pattern = paths.word(arguments, "pattern")
        title = f"Search `{shorten(pattern, paths.TITLE_LETTERS)}`" if pattern.strip() else "Search"
        include = paths.word(arguments, "include")
        if include.strip():
            title = f"{title} in {shorten(include, paths.TITLE_LETTERS)}"
        folder = paths.path_of(arguments, cwd)
        if folder is None or folder == cwd:
            return Preview(title)
        joint = "below" if include.strip() else "in"
        return Preview(f"{title} {joint} {paths.shown(folder, cwd)}", (Location(folder),))

    def requests(self, arguments: GrepArguments, context: ToolContext) -> tuple[Request, ...]:
        start = _start(arguments, context.cwd)
        # To search one file is to read it, so the rules about reading apply.
        kind = "read" if os.path.isfile(start) else "search"
        return paths.look(kind, f"Search {shorten(arguments.pattern, paths.TITLE_LETTERS)}", start, context)

    async def run(self, arguments: GrepArguments, context: ToolContext) -> ToolOutput:
        start = _start(arguments, context.cwd)
        query = Query(
            arguments.pattern,
            bool(arguments.literal),
            bool(arguments.insensitive),
            min(max(arguments.context or 0, 0), _MOST_CONTEXT),
            bool(arguments.files),
            MOST_MATCHES,
        )
        if not arguments.pattern:
            raise ToolError("the pattern is empty; give a regular expression, or use glob to find files by name")
        try:
            if await asyncio.to_thread(os.path.isdir, start):
                scope = read_scope(start, arguments.include, arguments.hidden, arguments.ignored)
                findings = await search(query, scope)
                folder = start
                _leave_out_denied(findings, folder, context)
            else:
                findings = await _in_file(query, start, context)
                folder = os.path.dirname(start)
        except re.error as error:
            raise ToolError(
                f"{arguments.pattern!r} is not a regular expression: {error}; correct it, or set literal to search "
                "plain text"
            ) from error
        return _output(findings, folder, arguments, context.cwd)


def _start(arguments: GrepArguments, cwd: str) -> str:
    return paths.absolute(arguments.path, cwd) if arguments.path else cwd


async def _in_file(query: Query, path: str, context: ToolContext) -> Findings:
    """Search one file, which is read like any other, so that unsaved changes are included."""
    regex = query.compile()
    try:
        text = await context.access.read_text(path)
    except FileNotFoundError:
        raise paths.no_such_file(path, context, "find its right name with glob") from None
    lines, was_late = await in_thread(lambda stop: find_lines(text, regex, query, stop))
    findings = Findings(was_late=was_late)
    if lines:
        findings.add(FileMatches(os.path.basename(path), () if query.only_files else lines), query)
    return findings


def _leave_out_denied(findings: Findings, folder: str, context: ToolContext) -> None:
    """Remove files that a rule denies to read: a permission to search a folder does not include them."""
    allowed = [
        found
        for found in findings.files
        if all(
            context.verdict(request).action != "deny"
            for request in paths.look("read", "Search", os.path.join(folder, found.path), context)
        )
    ]
    findings.denied = len(findings.files) - len(allowed)
    findings.files = allowed


def _output(findings: Findings, folder: str, arguments: GrepArguments, cwd: str) -> ToolOutput:
    parts: list[str] = []
    room_bytes = LIMIT_BYTES
    is_full = findings.is_full
    for found in findings.files:
        text = _file_text(found, paths.shown(os.path.join(folder, found.path), cwd))
        room_bytes -= len(text.encode("utf-8", "replace")) + 1
        if room_bytes < 0:
            is_full = True
            break
        parts.append(text)
    if findings.denied:
        parts.append(f"[{findings.denied} files with matches left out: a rule denies reading them]")
    elif not findings.files:
        parts.append(_nothing(arguments))
    if is_full:
        what = "files" if arguments.files else "matches"
        parts.append(f"[there are more {what}; use a narrower pattern, path or include]")
    if findings.was_late:
        parts.append(LATE)
    locations = []
    for found in findings.files[:_LOCATIONS]:
        first = next((line.number for line in found.lines if line.at is not None), None)
        path = paths.encodable(os.path.join(folder, found.path))
        locations.append(Location(path, UNSET if first is None else first))
    return ToolOutput("\n".join(parts), locations=tuple(locations), is_truncated=is_full or findings.was_late)


def _file_text(found: FileMatches, name: str) -> str:
    """Return the name, and each line after its number: with a colon for a match, a dash for a line around one."""
    parts = [name]
    last = found.lines[0].number - 1 if found.lines else 0
    for line in found.lines:
        if line.number != last + 1 and any(each.at is None for each in found.lines):
            parts.append("  --")
        parts.append(f"  {line.number}{'-' if line.at is None else ':'} {_cut(line)}")
        last = line.number
    return paths.encodable("\n".join(parts))


def _cut(line: FoundLine) -> str:
    """Return a long line from a little before its match."""
    if len(line.text) <= _LINE_LETTERS:
        return line.text
    start = max((line.at or 0) - _LINE_LETTERS // 4, 0)
    end = start + _LINE_LETTERS
    return ("…" if start else "") + line.text[start:end] + ("…" if end < len(line.text) else "")


def _nothing(arguments: GrepArguments) -> str:
    words = [f"No match for {arguments.pattern}."]
    if not (arguments.hidden and arguments.ignored):
        words.append("Hidden and ignored files were left out.")
    if "\n" in arguments.pattern or (r"\n" in arguments.pattern and not arguments.literal):
        words.append("The search is line by line, so a line end in the pattern never matches.")
    return " ".join(words)
