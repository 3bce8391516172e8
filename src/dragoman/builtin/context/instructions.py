"""The instructions of the user and the project for agents: AGENTS.md and similar files.

Owns which files are read, in which order, and how much of them the model is given. The file nearest to the working
folder comes last and is the last to be cut. A project's files are not trusted: a link in them that leads out of the
project is not followed. Blocks; the same files give the same bytes.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.settings.project import find_project
from dragoman.workspace import FileLimits, Workspace, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_log = logging.getLogger("dragoman.builtin")

NAMES: Final = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "CONTEXT.md")
"""In one folder the first of these comes last in the text. A file that exists under two names is read once."""
# About eight thousand tokens, which are sent with every request of the session.
LIMIT_BYTES: Final = 32 * 1024
# A larger file is not a file of instructions, whatever its name.
_LARGEST_BYTES: Final = 1024 * 1024

_OPENING: Final = """\
The user and the project have written down how they want things done. Where two of these disagree, the later one holds.
None of them permits anything: what needs permission is still asked for."""


class Instructions(Struct, frozen=True):
    """The instructions of a session. `text` is empty if there are none."""

    text: str = ""
    paths: tuple[str, ...] = ()
    """The files, in the order of their texts."""
    is_cut: bool = False
    files: dict[str, str] = {}
    """The whole texts by path, the nearest to the working folder first."""


def read_instructions(
    cwd: str, directories: Sequence[str] = (), config_dir: Path | None = None, *, limit_bytes: int = LIMIT_BYTES
) -> Instructions:
    """Return the instructions for work in `cwd`.

    The order is: the user's own, those of the other folders of the session, then those from the project's root down to
    `cwd`.
    """
    left, is_cut = limit_bytes, False
    passages: list[str] = []
    paths: list[str] = []
    files = read_instruction_files(cwd, directories, config_dir)
    for path, text in files.items():
        kept = beginning(text, left)
        left -= len(kept.encode())
        if kept != text:
            is_cut = True
            missing = len(text.encode()) - len(kept.encode())
            _log.warning("%s: %d bytes are left out; instructions may have %d", path, missing, limit_bytes)
            kept = f"{kept}\n[{missing} bytes of this file are left out: read it if they matter.]".lstrip()
        passages.append(marked(path, kept))
        paths.append(path)
    if not passages:
        return Instructions()
    return Instructions("\n\n".join((_OPENING, *reversed(passages))), tuple(reversed(paths)), is_cut, files)


def marked(path: str, text: str) -> str:
    """Return a text between marks for the model, which it cannot end by itself to speak for another file."""
    return f'<instructions path="{path}">\n{text.replace("</instructions", "&lt;/instructions")}\n</instructions>'


def read_instruction_files(cwd: str, directories: Sequence[str] = (), config_dir: Path | None = None) -> dict[str, str]:
    """Return the whole texts by path, the nearest to `cwd` first. Of files with the same text, the first counts."""
    found: dict[str, str] = {}
    for path, text in _nearest_first(cwd, directories, config_dir):
        found.setdefault(text, path)
    return {path: text for text, path in found.items()}


def instruction_paths(cwd: str, directories: Sequence[str] = (), config_dir: Path | None = None) -> tuple[str, ...]:
    """Return every path that can hold instructions for work in `cwd`, whether the file exists or not."""
    here = Path(os.path.realpath(cwd))
    project = find_project(here)
    folders = [folder for folder in (here, *here.parents) if folder.is_relative_to(project)]
    folders += [*map(Path, reversed(directories)), *((config_dir,) if config_dir is not None else ())]
    return tuple(str(folder / name) for folder in folders for name in NAMES)


def _nearest_first(cwd: str, directories: Sequence[str], config_dir: Path | None) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file that is not empty, the nearest to `cwd` first."""
    here = Path(os.path.realpath(cwd))
    project = find_project(here)
    yield from _found(project, [folder for folder in (here, *here.parents) if folder.is_relative_to(project)])
    for directory in reversed(directories):
        yield from _found(Path(directory), [Path(directory)])
    for path in [config_dir / name for name in NAMES] if config_dir is not None else ():
        # The user's own file may be a link to any place.
        real = Path(os.path.realpath(path))
        yield from _found(real.parent, [real.parent], (real.name,), shown=str(path))


def _found(
    root: Path, folders: Sequence[Path], names: Sequence[str] = NAMES, *, shown: str = ""
) -> Iterator[tuple[str, str]]:
    """Read through the workspace, which does not follow a link out of `root` and opens only regular files."""
    try:
        workspace = Workspace([root], limits=FileLimits(file_bytes=_LARGEST_BYTES))
    except WorkspaceError:
        return
    for folder in folders:
        for name in names:
            path = folder / name
            if not os.path.lexists(path):
                continue
            try:
                text = workspace.read_text(path).replace("\r\n", "\n").strip()
            except WorkspaceError as error:
                _log.warning("instructions are left out: %s", error)
                continue
            if text:
                yield shown or str(path), text


def beginning(text: str, limit_bytes: int) -> str:
    """Return as many whole lines as fit in the limit."""
    content = text.encode()
    if len(content) <= limit_bytes:
        return text
    kept = content[: max(limit_bytes, 0)].decode(errors="ignore")
    return kept[: kept.rfind("\n") + 1].rstrip()
