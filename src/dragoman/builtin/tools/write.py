"""`write`: writes a whole file: a new one, or one that the model has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths, read_files
from dragoman.builtin.tools.diff import diff_of, first_line
from dragoman.builtin.tools.tool import FileDiff, Kind, Location, Preview, Tool, ToolError, ToolOutput

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request


class WriteArguments(Struct):
    """The file and its new text."""

    path: Annotated[
        str, Meta(description="File, absolute or relative to the working folder. Missing folders are created.")
    ]
    text: Annotated[str, Meta(description="The whole new text of the file.")]


class WriteTool(Tool):
    """The tool that writes whole files."""

    name: Final = "write"
    kind: Final[Kind] = "edit"
    arguments: Final = WriteArguments
    description: Final = (
        "Write a whole text file: a new one, or one that you have read in this session and that has not changed since. "
        "To change a part of a file use edit."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        path = paths.path_of(arguments, cwd)
        if path is None:
            return Preview("Write")
        text = arguments.get("text")
        diffs = (FileDiff(path, None, text),) if isinstance(text, str) else ()
        return Preview(f"Write {paths.shown(path, cwd)}", (Location(path),), diffs)

    async def check(self, arguments: WriteArguments, context: ToolContext) -> Preview | None:
        path = _file_path(arguments, context)
        if not paths.may_read(path, context):
            return None
        name = paths.shown(path, context.cwd)
        old = await self._current_text(path, path, name, arguments.text, context)
        real = paths.real_path(path, context.roots)
        place = Location(real, first_line(old, arguments.text))
        return Preview(f"Write {name}", (place,), (diff_of(real, old, arguments.text),))

    def requests(self, arguments: WriteArguments, context: ToolContext) -> tuple[Request, ...]:
        path = paths.absolute(arguments.path, context.cwd)
        return paths.change(f"Write {paths.shown(path, context.cwd)}", path, context)

    async def run(self, arguments: WriteArguments, context: ToolContext) -> ToolOutput:
        path = _file_path(arguments, context)
        name = paths.shown(path, context.cwd)
        target = paths.permitted_target(path, context)
        old = await self._current_text(path, target, name, arguments.text, context)
        if old == arguments.text:
            read_files.remember(context.memory, path, old)
            return ToolOutput(
                f"{name} already has exactly this text; nothing was written.", locations=(Location(path),)
            )
        real = paths.real_path(path, context.roots)  # what changes when the path leads through a link
        await context.access.write_text(target, arguments.text)
        read_files.remember(context.memory, path, arguments.text)
        size = f"{len(arguments.text.splitlines())} lines"
        verb = "Created" if old is None else "Overwrote"
        place = Location(real, first_line(old, arguments.text))
        return ToolOutput(f"{verb} {name} ({size}).", (diff_of(real, old, arguments.text),), (place,))

    async def _current_text(self, path: str, target: str, name: str, text: str, context: ToolContext) -> str | None:
        """Return the text that would be lost, None for no file. Raises: ToolError if the model has not read it."""
        try:
            old = await context.access.read_text(target)
        except FileNotFoundError:
            return None
        except ToolError as error:
            raise ToolError(f"{name} is not overwritten, because it cannot be read: {error}") from error
        if old in ("", text) or read_files.is_current(context.memory, path, old):
            return old
        if read_files.is_known(context.memory, path):
            raise ToolError(
                f"{name} has changed since you last read it, so it is not overwritten; read it again, then decide"
            )
        raise ToolError(
            f"{name} exists and you have not read it in this session, so it is not overwritten; read it first, "
            "or change a part of it with edit"
        )


def _file_path(arguments: WriteArguments, context: ToolContext) -> str:
    """Raises: ToolError if the path names a folder."""
    path = paths.absolute(arguments.path, context.cwd)
    if path.endswith("/") or arguments.path.endswith("/"):
        raise ToolError(f"{arguments.path} names a folder; give the path of a file")
    return path
