"""`apply_patch`: changes several files by one patch, all of them or none.

Offered instead of `edit` and `write` to the models that are trained on this format (`patch_format.py`). The whole patch
is worked out in memory before permission is asked, and again afterwards; then the files are written. If one cannot be
written, those before it get their old text back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths, read_files
from dragoman.builtin.tools.diff import diff_of
from dragoman.builtin.tools.patch_format import PatchError, apply_chunks, parse_patch
from dragoman.builtin.tools.tool import Kind, Location, Preview, Tool, ToolError, ToolOutput

if TYPE_CHECKING:
    from dragoman.builtin.tools.patch_format import FilePatch
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

_NAMES_SHOWN: Final = 3


class ApplyPatchArguments(Struct):
    """The patch."""

    patch: Annotated[str, Meta(description="The whole patch, from *** Begin Patch to *** End Patch.")]


class PlannedChange(Struct, frozen=True):
    """One file before (None: there was none) and after (None: it is deleted)."""

    path: str
    old: str | None
    new: str | None
    line: int = 1


class ApplyPatchTool(Tool):
    """The tool that applies patches."""

    name: Final = "apply_patch"
    kind: Final[Kind] = "edit"
    arguments: Final = ApplyPatchArguments
    description: Final = """\
Change files by a patch: all files of it, or none if one part cannot be applied. The format:
*** Begin Patch
*** Update File: src/app.py
@@ class App:
@@     def run(self):
 an unchanged line
-a line to remove
+a line to add
*** Add File: notes.txt
+every line of a new file begins with +
*** Delete File: old.txt
*** End Patch
`*** Move to: PATH` after an Update File line renames it. Give three unchanged lines around a change, and lines after @@
where those are not enough to find the place. There are no line numbers. Paths are relative to the working folder."""

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        try:
            files = parse_patch(paths.word(arguments, "patch"))
        except PatchError:
            return Preview("Apply patch")
        named = [paths.joined(file.path, cwd) for file in files]
        return Preview(_title(named, cwd), tuple(map(Location, dict.fromkeys(named))))

    async def check(self, arguments: ApplyPatchArguments, context: ToolContext) -> Preview | None:
        files = _parsed(arguments)
        named = _named(files, context)
        if not all(paths.may_read(path, context) for path in named):
            return None
        changes = await self._plan(files, context)
        diffs = tuple(diff_of(change.path, change.old, change.new or "") for change in changes)
        places = tuple(Location(change.path, change.line) for change in changes)
        return Preview(_title(named, context.cwd), places, diffs)

    def requests(self, arguments: ApplyPatchArguments, context: ToolContext) -> tuple[Request, ...]:
        named = _named(_parsed(arguments), context)
        title = _title(named, context.cwd)
        return tuple(request for path in named for request in paths.change(title, path, context))

    async def run(self, arguments: ApplyPatchArguments, context: ToolContext) -> ToolOutput:
        changes = await self._plan(_parsed(arguments), context)
        done: list[PlannedChange] = []
        try:
            for change in changes:
                await _make(change, context)
                done.append(change)
        except ToolError as error:
            for change in reversed(done):
                with suppress(ToolError):
                    await _make(PlannedChange(change.path, change.new, change.old), context)
            raise ToolError(f"nothing was changed: {error}") from error
        for change in changes:
            if change.new is not None:
                read_files.remember(context.memory, change.path, change.new)
            else:
                read_files.forget(context.memory, change.path)
        lines = [f"{_letter(change)} {paths.shown(change.path, context.cwd)}" for change in changes]
        return ToolOutput(
            "Applied the patch:\n" + "\n".join(lines),
            tuple(diff_of(change.path, change.old, change.new or "") for change in changes),
            tuple(Location(change.path, change.line) for change in changes if change.new is not None),
        )

    async def _plan(self, files: list[FilePatch], context: ToolContext) -> list[PlannedChange]:
        """Work out all files. Raises: ToolError if one part cannot be applied."""
        state = _Files(context)
        for file in files:
            path = paths.absolute(file.path, context.cwd)
            name = paths.shown(path, context.cwd)
            text = await state.text(path)
            if file.action == "add":
                if text:
                    raise ToolError(f"{name} exists already; change it with *** Update File: {file.path}")
                state.set(path, file.text)
                continue
            if text is None:
                raise paths.no_such_file(path, context, "give the path of a file that exists")
            if file.action == "delete":
                state.set(path, None)
                continue
            try:
                changed, line = apply_chunks(text, file.chunks, name)
            except PatchError as error:
                raise ToolError(str(error)) from error
            if file.move_to:
                target = paths.absolute(file.move_to, context.cwd)
                if await state.text(target) is not None:
                    raise ToolError(f"{paths.shown(target, context.cwd)} exists already; nothing can be moved to it")
                state.set(path, None)
                state.set(target, changed, line)
            else:
                state.set(path, changed, line)
        changes = state.changes()
        if not changes:
            raise ToolError("the patch changes nothing: its old and new lines are the same")
        return changes


class _Files:
    """The files of a patch while it is worked out: each section sees what the ones before it made."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._before: dict[str, str | None] = {}
        self._after: dict[str, tuple[str | None, int]] = {}

    async def text(self, path: str) -> str | None:
        if path in self._after:
            return self._after[path][0]
        try:
            self._before[path] = await self._context.access.read_text(path)
        except FileNotFoundError:
            self._before[path] = None
        self._after[path] = self._before[path], 1
        return self._before[path]

    def set(self, path: str, text: str | None, line: int = 1) -> None:
        self._after[path] = text, line

    def changes(self) -> list[PlannedChange]:
        return [
            PlannedChange(paths.real_path(path, self._context.roots), self._before[path], text, line)
            for path, (text, line) in self._after.items()
            if text != self._before[path]
        ]


def _parsed(arguments: ApplyPatchArguments) -> list[FilePatch]:
    try:
        return parse_patch(arguments.patch)
    except PatchError as error:
        raise ToolError(f"the patch cannot be read: {error}") from error


def _named(files: list[FilePatch], context: ToolContext) -> list[str]:
    """Return the paths that a patch touches, each once."""
    named = [name for file in files for name in (file.path, file.move_to) if name]
    return list(dict.fromkeys(paths.absolute(name, context.cwd) for name in named))


async def _make(change: PlannedChange, context: ToolContext) -> None:
    if change.new is None:
        await context.access.delete(change.path)
    else:
        await context.access.write_text(change.path, change.new)


def _letter(change: PlannedChange) -> str:
    return "A" if change.old is None else "D" if change.new is None else "M"


def _title(named: list[str], cwd: str) -> str:
    shown = [paths.shown(path, cwd) for path in dict.fromkeys(named)]
    more = len(shown) - _NAMES_SHOWN
    return f"Patch {', '.join(shown[:_NAMES_SHOWN])}" + (f" and {more} more" if more > 0 else "")
