"""`write`: a whole file, new or in place of one the model knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths, read_files
from dragoman.builtin.tools.diff import diff_of, first_line
from dragoman.builtin.tools.tool import FileDiff, Kind, Location, Preview, ToolError, ToolOutput

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request


class WriteArguments(Struct):
    """What to write where."""

    path: Annotated[str, Meta(description="File, absolute or relative to the working folder. Folders are made.")]
    text: Annotated[str, Meta(description="All of the file's new text.")]


class Write:
    """Writes whole files."""

    name: Final = "write"
    kind: Final[Kind] = "edit"
    arguments: Final = WriteArguments
    description: Final = (
        "Write a whole text file: a new one, or in place of one that you have read in this session and that has not "
        "changed since. To change a part of a file use edit."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        path = paths.place_of(arguments, cwd)
        if path is None:
            return Preview("Write")
        text = arguments.get("text")
        diffs = (FileDiff(path, None, text),) if isinstance(text, str) else ()
        return Preview(f"Write {paths.shown(path, cwd)}", (Location(path),), diffs)

    def requests(self, arguments: WriteArguments, context: ToolContext) -> tuple[Request, ...]:
        path = paths.absolute(arguments.path, context.cwd)
        return paths.change(f"Write {paths.shown(path, context.cwd)}", path, context)

    async def run(self, arguments: WriteArguments, context: ToolContext) -> ToolOutput:
        path = paths.absolute(arguments.path, context.cwd)
        name = paths.shown(path, context.cwd)
        if path.endswith("/") or arguments.path.endswith("/"):
            raise ToolError(f"{arguments.path} names a folder; give the path of a file, its folders are made with it")
        old = await self._standing(path, name, arguments.text, context)
        if old == arguments.text:
            read_files.remember(context.memory, path, old)
            return ToolOutput(
                f"{name} already has exactly this text; nothing was written.", locations=(Location(path),)
            )
        real = paths.real_path(path, context.roots)  # what changes when the path leads through a link
        await context.access.write_text(path, arguments.text)
        read_files.remember(context.memory, path, arguments.text)
        size = f"{len(arguments.text.splitlines())} lines"
        verb = "Created" if old is None else "Overwrote"
        place = Location(real, first_line(old, arguments.text))
        return ToolOutput(f"{verb} {name} ({size}).", (diff_of(real, old, arguments.text),), (place,))

    async def _standing(self, path: str, name: str, text: str, context: ToolContext) -> str | None:
        """The text that would be lost, None for no file. Raises: ToolError when the model does not know it."""
        try:
            old = await context.access.read_text(path)
        except FileNotFoundError:
            return None
        except ToolError as error:
            raise ToolError(f"{name} is not overwritten, because what is there cannot be read: {error}") from error
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
