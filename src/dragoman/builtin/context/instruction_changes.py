"""Instructions that change during a session: they are announced to the model with the user's next message.

The system prompt keeps the instructions that the session began with, because every change of it makes the provider's
cache useless. What the model knows of a file is: what the system prompt has, then what the summary of the conversation
carries over, then what the messages announce. Where the file differs from that, a part of the user's message states it.
So a change is announced once, again after `/clear` or `/undo` took the announcement away, and correctly in a session
that is opened again, whose system prompt is new. A part is complete with the system prompt alone: the last one of a
file is enough. Files are only read if one looks changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.environment_block import NAME
from dragoman.builtin.context.instructions import beginning, instruction_paths, marked, read_instruction_files
from dragoman.uistream.messages import DataPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dragoman.builtin.context.history import ModelView
    from dragoman.builtin.context.instructions import Instructions
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.viewer import Viewer
    from dragoman.uistream.messages import UIMessage

_log = logging.getLogger("dragoman.builtin")

KEY: Final = "instructions"
"""In the data of an environment part: `{"path", "digest"}` of the file that it announces; no digest if it is gone."""
FULL_CHARACTERS: Final = 8000
"""A longer text is announced as a diff; a longer diff as the beginning of the text."""
MOST_FILES: Final = 8
_CONTEXT_LINES: Final = 2
_WATCHES: Final = "watched instructions"  # in a session's memory
_DIGITS: Final = 16


class InstructionWatch:
    """The instruction files of one set of folders, read again when they look changed."""

    def __init__(self, cwd: str, directories: Sequence[str], config_dir: Path) -> None:
        self._where = cwd, tuple(directories), config_dir
        self._signature: tuple[object, ...] | None = None
        self._texts: dict[str, str] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that can hold instructions."""
        return instruction_paths(*self._where)

    def texts(self) -> dict[str, str]:
        """Return the instructions as they are now, by path."""
        signature = tuple(map(_stamp, self.paths))
        if signature != self._signature:
            # The stamps come first: a change while the files are read is then seen the next time.
            self._texts, self._signature = read_instruction_files(*self._where), signature
        return self._texts


async def add_instruction_changes(session: OpenSession, viewer: Viewer, message: UIMessage, view: ModelView) -> None:
    """Add to a new user's message what has changed of the instructions since the model was given them."""
    base = await asyncio.shield(session.begin_instructions(viewer))
    watches: dict[tuple[str, ...], InstructionWatch] = session.memory.setdefault(_WATCHES, {})
    watch = watches.get(viewer.roots)
    if watch is None:
        folders = viewer.session.additional_directories
        watch = watches[viewer.roots] = InstructionWatch(viewer.cwd, folders, session.settings.config_dir)
    try:
        parts = await asyncio.to_thread(changed_parts, base, watch, view)
    except Exception:  # a prompt never fails because of this
        _log.warning("changes of the instructions are not announced", exc_info=True)
        return
    message.parts = [*parts, *message.parts]


def changed_parts(base: Instructions, watch: InstructionWatch, view: ModelView) -> list[DataPart]:
    """Return a part for each file that differs from what the model knows of it, in the order of their reading."""
    now, possible = watch.texts(), frozenset(watch.paths)
    known = {path: digest_of(text) for path, text in base.files.items()}
    # Another client of the session may have other folders: what was announced for those does not concern this one.
    known |= {path: digest for path, digest in announced(view) if path in possible}
    order = [*now, *(path for path in known if path not in now)]
    changed = [path for path in order if known.get(path, "") != (digest_of(now[path]) if path in now else "")]
    parts = []
    for number, path in enumerate(changed):
        text = _announcement(path, base.files.get(path), now.get(path), known.get(path, ""), number < MOST_FILES)
        fact = {"path": path, "digest": digest_of(now[path])} if path in now else {"path": path}
        parts.append(DataPart(NAME, {"text": text, KEY: fact}))
    return parts


def announced(view: ModelView) -> Iterator[tuple[str, str]]:
    """Yield path and digest of what the conversation announces, the newest last; the digest of a file that is gone is
    empty."""
    if view.compaction is not None:
        yield from ((note.path, note.digest) for note in view.compaction.notes.instructions)
    for message in view.noted:
        for part in message.parts:
            fact = fact_of(part)
            if fact is not None:
                yield fact


def fact_of(part: object) -> tuple[str, str] | None:
    """Return path and digest if a part announces a change of instructions."""
    match part:
        case DataPart(name=name, data={"instructions": {"path": str(path), **rest}}) if name == NAME:
            return path, str(rest.get("digest", ""))
    return None


def digest_of(text: str) -> str:
    """Return what a text is recognized by."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]


def _announcement(path: str, first: str | None, now: str | None, known: str, is_whole: bool) -> str:
    """Return the sentence and the text for the model.

    Args:
        first: the text in the system prompt.
        now: the text of the file, None if it is gone.
        known: the digest of what the model knows, empty if it knows nothing.
        is_whole: there is room for the text.
    """
    if now is None:
        return f"The instructions in {path} do not hold any more: the file is gone or empty."
    if first == now:
        return f"The instructions in {path} are again those of the system prompt, and hold as they stand there."
    what = f"The instructions in {path} have changed" if known else f"There are new instructions in {path}"
    if not is_whole:
        return f"{what}. Read the file before you go on."
    hold = "They permit nothing. Follow this"
    if len(now) > FULL_CHARACTERS and first is not None:
        diff = _diff(first, now)
        if len(diff) <= FULL_CHARACTERS:
            return f"{what}. Compared with the system prompt the text differs in this. {hold}:\n{marked(path, diff)}"
    kept = now if len(now) <= FULL_CHARACTERS else beginning(now, FULL_CHARACTERS)
    cut = "" if kept == now else f"\n[{len(now) - len(kept)} characters are left out: read the file.]"
    return f"{what}. {hold} instead of what you were given of this file before:\n{marked(path, kept + cut)}"


def _diff(old: str, new: str) -> str:
    import difflib  # only for long files that have changed

    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=_CONTEXT_LINES, lineterm="")
    return "\n".join(list(lines)[2:])


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
