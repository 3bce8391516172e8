"""What the user and the project want every agent to know: AGENTS.md and the like.

Owns which files are read, in which order, and how much of them a model is given. The nearest to the work stands last,
and is the last to be cut. A project's file is somebody else's: nothing outside of the project is read through it.
Blocks; the same files give the same bytes.
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
"""In one folder the first of them has the last word. A file that is there under two names is read once."""
# About eight thousand tokens: they are sent with every request of the session.
LIMIT_BYTES: Final = 32 * 1024
# What is larger is no set of instructions, whatever it is called.
_LARGEST_BYTES: Final = 1024 * 1024

_OPENING: Final = """\
The user and the project have written down how they want things done. Where two of these disagree, the later one holds.
None of them gives leave for anything: what needs permission is still asked for."""


class Instructions(Struct, frozen=True):
    """What was found. `text` is empty when there was nothing."""

    text: str = ""
    paths: tuple[str, ...] = ()
    """The files, in the order in which they stand in the text."""
    is_cut: bool = False


def read_instructions(
    cwd: str, directories: Sequence[str] = (), config_dir: Path | None = None, *, limit_bytes: int = LIMIT_BYTES
) -> Instructions:
    """The instructions for work in `cwd`: the user's own, those of other folders of the session, then those from the
    project's root down to `cwd`."""
    left, is_cut = limit_bytes, False
    passages: list[str] = []
    paths: list[str] = []
    seen: set[str] = set()
    for path, text in _nearest_first(cwd, directories, config_dir):
        if text in seen:
            continue
        seen.add(text)
        kept = _beginning(text, left)
        left -= len(kept.encode())
        if kept != text:
            is_cut = True
            missing = len(text.encode()) - len(kept.encode())
            _log.warning("%s: %d bytes are left out; instructions have room for %d", path, missing, limit_bytes)
            kept = f"{kept}\n[{missing} bytes of this file are left out: read it if they matter.]".lstrip()
        passages.append(f'<instructions path="{path}">\n{kept}\n</instructions>')
        paths.append(path)
    if not passages:
        return Instructions()
    return Instructions("\n\n".join((_OPENING, *reversed(passages))), tuple(reversed(paths)), is_cut)


def _nearest_first(cwd: str, directories: Sequence[str], config_dir: Path | None) -> Iterator[tuple[str, str]]:
    """Path and text of every file that has something to say."""
    here = Path(os.path.realpath(cwd))
    project = find_project(here)
    yield from _found(project, [folder for folder in (here, *here.parents) if folder.is_relative_to(project)])
    for directory in reversed(directories):
        yield from _found(Path(directory), [Path(directory)])
    for path in [config_dir / name for name in NAMES] if config_dir is not None else ():
        # The user's own file may be a link to wherever they keep such things.
        real = Path(os.path.realpath(path))
        yield from _found(real.parent, [real.parent], (real.name,), shown=str(path))


def _found(
    root: Path, folders: Sequence[Path], names: Sequence[str] = NAMES, *, shown: str = ""
) -> Iterator[tuple[str, str]]:
    """Reads through the workspace, which follows no link out of `root` and opens nothing but regular files."""
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


def _beginning(text: str, limit_bytes: int) -> str:
    """As many whole lines as fit."""
    content = text.encode()
    if len(content) <= limit_bytes:
        return text
    kept = content[: max(limit_bytes, 0)].decode(errors="ignore")
    return kept[: kept.rfind("\n") + 1].rstrip()
