"""Facts about a request's command line that several judgements need: its parts, its folders and the files it names.

The meeting point of `parts.py` (what a line runs) and `paths.py` (which paths are protected, inside, matched). Which
rule decides belongs to `verdict.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.policy import commands, paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.policy.parts import Part, Reading
    from dragoman.policy.request import Request

# Enough for any real line; the time to check a name is about 20 microseconds.
_MAX_NAMES: Final = 500


def is_inside(path: str, request: Request) -> bool:
    """Whether a path is below the project, by its name."""
    place = paths.normalise(path, request.root, request.home)
    return paths.is_below(place, paths.normalise(request.root, "/", request.home))


def is_elsewhere(part: Part, request: Request) -> bool:
    """Whether a part runs outside the project: `npm test` in another folder is another program."""
    return not all(is_inside(folder, request) for folder in part.folders)


def stays_inside(part: Part, request: Request) -> bool:
    """Whether this is a `cd` into a folder of the project, which needs no permission."""
    if part.argv[0] != "cd" or part.written or part.read or part.command.assignments or is_elsewhere(part, request):
        return False
    words = [word for word in part.command.words[1:] if word.text != "--"]
    targets = (paths.normalise(word.path, folder, request.home) for word in words for folder in part.folders)
    return all(is_inside(target, request) for target in targets)


def names_protected(request: Request) -> str | None:
    """Why the user is always asked about this command: it changes or names a protected path."""
    reading = request.reading
    for part in reading.parts:
        for path in part.written:
            if paths.is_protected(path, request.root, request.home):
                return f"the command writes {path}, which is protected: always asked for"
    checked: set[str] = set()
    for word in _named(reading, request):
        if word in checked or not paths.is_worth_checking(word):
            continue
        if len(checked) == _MAX_NAMES:
            return "the command names too many files to check: always asked for"
        checked.add(word)
        if paths.is_protected_word(word, request.root, request.home):
            return f"the command names {word}, which is protected: always asked for"
    changing = (part for part in reading.parts if not commands.is_reading(part))
    for glob in (word.text for part in changing for word in part.command.words[1:] if word.fixed is not None):
        if paths.may_be_protected(glob):
            return f"the command names {glob}, which may stand for a protected file: always asked for"
    return None


def _named(reading: Reading, request: Request) -> Iterator[str]:
    """The words that may name files to change, as written and from the folder that `cd` left."""
    yield from commands.words_of(reading)
    root = paths.normalise(request.root, "/", request.home)
    for part in reading.parts:
        if part.folders != (root,):
            yield from _named_from(part)


def _named_from(part: Part) -> Iterator[str]:
    """The words of a part that changes files, as paths from the folder that `cd` left."""
    if not commands.is_reading(part):
        for word in part.command.words[1:]:
            if not word.text.startswith(("/", "-", "~")):
                yield from (f"{folder}/{word.text}" for folder in part.folders)


def concern_paths(kind: str, glob: str | None, request: Request) -> commands.Concern:
    """Whether a deny or ask rule about files concerns a command.

    A redirection is an edit or a read of its file. What programs do with the files they are given is not known: a
    word that names a file of the rule may concern it, and so may a line that cannot be read.
    """
    reading = request.reading
    if reading.unreadable:
        return "maybe"
    touched = [path for part in reading.parts for path in (part.written if kind == "edit" else part.read)]
    if kind in ("edit", "read") and any(_is_in(glob, path, request) for path in touched):
        return "yes"
    if glob is None:
        return "no"
    for part in reading.parts:
        if kind != "read" and commands.is_reading(part):
            continue
        for word in part.command.words[1:]:
            text = word.path if word.fixed is None else word.fixed
            for value in (text, text.partition("=")[2]):
                for folder in part.folders if value else ():
                    if paths.may_cover_word(
                        glob, value, folder, request.root, request.home, is_start=word.fixed is not None
                    ):
                        return "maybe"
    return "no"


def _is_in(glob: str | None, path: str, request: Request) -> bool:
    return glob is None or paths.matches_glob(glob, path, request.root, request.home, ignore_case=True)
