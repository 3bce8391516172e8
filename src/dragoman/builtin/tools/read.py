"""`read`: shows a part of a text file with line numbers, an image, a PDF, a notebook, or the names in a folder."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct

from dragoman.builtin.tools import paths, read_files
from dragoman.builtin.tools.command_text import plain
from dragoman.builtin.tools.long_output import PAGE_LIMIT, fit
from dragoman.builtin.tools.read_media import facts_about, media_type_of, read_image, read_pdf, why_not
from dragoman.builtin.tools.tool import Kind, Location, Preview, Tool, ToolError, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

_LINES: Final = 2000
# What other agents return at once, too: models expect a file of 700 lines in one call.
LIMIT_BYTES: Final = 50 * 1024
# Longer lines are usually generated; one of them would fill the whole output.
_LINE_LETTERS: Final = 2000
_ENTRIES: Final = 1000
_IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tif", ".tiff", ".avif", ".heic")
_PDF: Final = ".pdf"
_NOTEBOOK: Final = ".ipynb"
_BINARY: Final = (".zip", ".gz", ".xz", ".zst", ".7z", ".tar", ".docx", ".xlsx", ".pptx", ".so", ".exe", ".pyc")


class ReadArguments(Struct):
    """The file and the lines to read."""

    path: Annotated[str, Meta(description="File or folder, absolute or relative to the working folder.")]
    line: Annotated[
        int | None, Meta(description="First line to read, counted from 1; a negative number counts from the end.")
    ] = None
    limit: Annotated[int | None, Meta(description=f"How many lines to read; by default {_LINES}.")] = None


class ReadTool(Tool):
    """The tool that reads text files and lists folders."""

    name: Final = "read"
    kind: Final[Kind] = "read"
    arguments: Final = ReadArguments
    description: Final = (
        "Read a text file. Each line is shown after its number and a tab, which are not part of the file. "
        f"Returns up to {_LINES} lines or {LIMIT_BYTES // 1024} KB; use line and limit for the rest. Unsaved changes "
        "in the user's editor are included. For a folder it returns the names in it. Images, PDF files and notebooks "
        "are shown as such. Read a file before you overwrite it."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        path = paths.path_of(arguments, cwd)
        if path is None:
            return Preview("Read")
        line, limit = paths.number(arguments, "line"), paths.number(arguments, "limit")
        place = Location(path, line if line is not None and line > 0 else UNSET)
        return Preview(f"Read {paths.shown(path, cwd)}{_window_title(line, limit)}", (place,))

    def requests(self, arguments: ReadArguments, context: ToolContext) -> tuple[Request, ...]:
        path = paths.absolute(arguments.path, context.cwd)
        return paths.look("read", f"Read {paths.shown(path, context.cwd)}", path, context)

    async def run(self, arguments: ReadArguments, context: ToolContext) -> ToolOutput:
        path = paths.absolute(arguments.path, context.cwd)
        if await asyncio.to_thread(os.path.isdir, path):
            return ToolOutput(await asyncio.to_thread(_list, path, context.cwd), locations=(Location(path),))
        name, ending = paths.shown(path, context.cwd), os.path.splitext(path)[1].lower()
        if ending in _IMAGES or ending == _PDF:
            return await _media(arguments, path, name, ending, context)
        if ending in _BINARY:
            raise ToolError(f"{name} is not a text file; use bash with a program that reads {ending} files")
        try:
            text = await context.access.read_text(paths.permitted_target(path, context))
        except FileNotFoundError:
            raise paths.no_such_file(path, context, "find its right name with glob") from None
        if "\0" in text:
            raise ToolError(f"{name} is binary, not text; use a program that reads its format")
        read_files.remember(context.memory, path, text)
        if ending == _NOTEBOOK and arguments.line is None and arguments.limit is None:
            notebook = await asyncio.to_thread(read_notebook, text)
            if notebook is not None:
                return await _notebook(notebook, path, context)
        return _window(text, arguments, path, name)


async def _media(arguments: ReadArguments, path: str, name: str, ending: str, context: ToolContext) -> ToolOutput:
    """Read an image or a PDF. Raises: ToolError."""
    try:
        data = await context.access.read_bytes(paths.permitted_target(path, context))
    except FileNotFoundError:
        raise paths.no_such_file(path, context, "find its right name with glob") from None
    if ending != _PDF:
        return read_image(data, path, name, context)
    found = await read_pdf(data, path, name, context)
    return _window(found, arguments, path, name) if isinstance(found, str) else found


async def _notebook(notebook: Notebook, path: str, context: ToolContext) -> ToolOutput:
    """Return the cells of a notebook, and its images for models that see."""
    facts = facts_about(context)
    is_blind = facts is not None and facts.sees_images is False
    fitted = await fit(notebook.text, context, PAGE_LIMIT)
    hidden = ", its images are left out because this model does not see" if is_blind and notebook.images else ""
    note = f"[{notebook.cells} cells of a notebook{hidden}; give line to read the file itself, for example to edit it]"
    return ToolOutput(
        f"{fitted.text}\n{note}",
        images=() if is_blind else notebook.images,
        locations=(Location(path),),
        is_truncated=fitted.is_truncated,
        output_path=fitted.path,
    )


def _window_title(line: int | None, limit: int | None) -> str:
    if line is not None and line < 0:
        return f" (last {-line} lines)"
    if limit is not None and limit > 0:
        first = max(line or 1, 1)
        return f" (lines {first}-{first + limit - 1})" if limit > 1 else f" (line {first})"
    return f" (from line {line})" if line is not None and line > 1 else ""


def _window(text: str, arguments: ReadArguments, path: str, name: str) -> ToolOutput:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return ToolOutput("[the file is empty]", locations=(Location(path),))
    line, total = arguments.line or 1, len(lines)
    first = max(total + line, 0) if line < 0 else line - 1
    if first >= total:
        raise ToolError(f"{name} has {total} lines, so there is no line {line}; read from an earlier one")
    limit = _LINES if arguments.limit is None or arguments.limit < 1 else arguments.limit
    shown, is_cut = _numbered(lines, first, min(first + limit, total))
    last = first + len(shown)
    notes = []
    if last < total:
        notes.append(f"[lines {first + 1} to {last} of {total}; continue with line={last + 1}]")
    if is_cut:
        notes.append(f"[lines longer than {_LINE_LETTERS} characters are cut; read them whole with grep or bash]")
    place = Location(path, first + 1 if first else UNSET)
    return ToolOutput("\n".join([*shown, *notes]), locations=(place,), is_truncated=last < total or is_cut)


def _numbered(lines: list[str], first: int, end: int) -> tuple[list[str], bool]:
    """Return as many lines as fit, and whether one of them was cut."""
    shown: list[str] = []
    size_bytes, is_cut = 0, False
    for number in range(first, end):
        line = lines[number].removesuffix("\r")
        if len(line) > _LINE_LETTERS:
            line, is_cut = f"{line[:_LINE_LETTERS]} [... {len(line) - _LINE_LETTERS} more characters]", True
        numbered = f"{number + 1}\t{line}"
        size_bytes += len(numbered.encode("utf-8", "replace")) + 1
        if size_bytes > LIMIT_BYTES and shown:
            break
        shown.append(numbered)
    return shown, is_cut


def _list(path: str, cwd: str) -> str:
    try:
        with os.scandir(path) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries)
    except OSError as error:
        raise ToolError(f"the folder {paths.shown(path, cwd)} cannot be read: {error.strerror or error}") from error
    if not names:
        return f"[the folder {paths.shown(path, cwd)} is empty]"
    listed = [paths.encodable(name) for name in names[:_ENTRIES]]
    if len(names) > _ENTRIES:
        listed.append(f"[{_ENTRIES} of {len(names)} names; use glob to find the others]")
    return "\n".join(listed)


_CELL_BYTES: Final = 10 * 1024
MOST_IMAGES: Final = 8


class Notebook(Struct, frozen=True):
    """The text, and the images of outputs in their order."""

    text: str
    images: tuple[dict[str, str], ...] = ()
    cells: int = 0


def read_notebook(text: str) -> Notebook | None:
    """Return the cells of a notebook; None if the text is not one."""
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        return None
    blocks: list[str] = []
    images: list[dict[str, str]] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            continue
        kind = str(cell.get("cell_type") or "raw")
        blocks.append(f"[cell {number}, {kind}]\n{_joined(cell.get('source'))}".rstrip("\n"))
        written = "\n".join(_outputs(cell.get("outputs"), images)).strip("\n")
        if written:
            blocks.append(f"[output of cell {number}]\n{_cut(written)}")
    return Notebook("\n".join(blocks), tuple(images), len(cells))


def _outputs(outputs: Any, images: list[dict[str, str]]) -> Iterator[str]:
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        if isinstance(data, dict):
            yield from _shown(data, images)
        elif output.get("output_type") == "error":
            trace = output.get("traceback")
            lines = [str(line) for line in trace] if isinstance(trace, list) else []
            yield plain("\n".join(lines)) or f"{output.get('ename')}: {output.get('evalue')}"
        else:
            yield plain(_joined(output.get("text")))


def _shown(data: dict[str, Any], images: list[dict[str, str]]) -> Iterator[str]:
    for name, value in data.items():
        if name.startswith("image/") and name != "image/svg+xml":
            image = _image(_joined(value))
            if image is None or len(images) == MOST_IMAGES:
                yield f"[an image ({name}) that cannot be shown]"
            else:
                images.append(image)
                yield f"[image {len(images)}]"
    if "text/plain" in data:
        yield plain(_joined(data["text/plain"]))


def _image(text: str) -> dict[str, str] | None:
    encoded = "".join(text.split())
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    media_type = media_type_of(content)
    return None if media_type is None or why_not(content) else {"data": encoded, "media_type": media_type}


def _joined(value: Any) -> str:
    """Return a text of a notebook, which is one string or a list of lines."""
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else ""


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= _CELL_BYTES:
        return data.decode()
    return f"{data[:_CELL_BYTES].decode('utf-8', 'ignore')}\n[{len(data) - _CELL_BYTES} more bytes of this output]"
