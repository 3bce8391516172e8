"""Other names of the files that a request reads: a hard link of a denied file is that file under another name.

A file with several names is looked for in the folders that deny and ask rules about reading name. The search is
bounded; if it has to stop early, the user is asked. Without such a rule, and for a file with one name, nothing is
searched.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.policy.paths import MAX_PATH, fixed_folder, matches_glob, normalise
from dragoman.policy.rule import read_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.policy.request import Request
    from dragoman.policy.rule import Rule

# Reading the names of this many files takes about 30 ms. A larger tree is not searched for each read.
MOST_ENTRIES: Final = 20_000
_MOST_WORDS: Final = 1_000  # of a command; no real one names more files


def with_other_names(rules: Sequence[Rule], request: Request) -> Request:
    """Return the request with the names under which a rule denies its files, or with a reason to ask.

    The paths of a `read` get these names as well, so that a deny holds for them. What a command does with a file is
    not known: one that names a denied file under another name is asked about.
    """
    if request.kind not in ("read", "execute"):
        return request
    globs = [glob for rule in rules if (glob := _restricted(rule, request.agent)) is not None]
    if not globs:
        return request
    found: list[str] = []
    for path in _files(request):
        status = _several_names(path)
        if status is None:
            continue
        names, is_complete = _denied_names(status, globs, request)
        found += names
        if names and request.kind == "execute":
            return replace(request, caution=f"the command names {path}, and that is {names[0]} under another name")
        if not names and not is_complete:
            why = f"{path} is a hard link: the same file has {status.st_nlink} names"
            return replace(request, caution=f"{why}, and a file that a rule denies may be one of them")
    return replace(request, paths=tuple(dict.fromkeys((*request.paths, *found)))) if found else request


def _restricted(rule: Rule, agent: str) -> str | None:
    """The glob of a rule that restricts reading."""
    pattern = read_pattern(rule.text)
    if rule.action == "allow" or pattern.kind != "read" or pattern.agent not in (None, agent):
        return None
    return pattern.pattern


def _files(request: Request) -> Iterator[str]:
    """The paths that a request may read."""
    if request.kind == "read":
        yield from (path for path in request.paths if "\0" not in path)
        return
    words = 0
    for part in request.reading.parts:
        for word in part.command.words[1:]:
            words += 1
            if words > _MOST_WORDS:
                return
            for text in {word.path, word.path.partition("=")[2]}:
                if text and len(text) <= MAX_PATH and "\0" not in text:
                    yield from (normalise(text, folder, request.home) for folder in part.folders)
        yield from part.read


def _several_names(path: str) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # there is no such file; reading it will report that
        return None
    return status if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 else None


def _denied_names(status: os.stat_result, globs: Sequence[str], request: Request) -> tuple[list[str], bool]:
    """The names of a file that one of the globs covers, and whether all that could be one were looked at."""
    left = MOST_ENTRIES
    seen: set[str] = set()
    for glob in globs:
        place = fixed_folder(glob, request.root, request.home)
        is_one_file = not glob.endswith("/") and not set(glob) & set("*?")
        # One file is looked for in its folder: a deny holds for it in any spelling.
        folders = [os.path.dirname(place) if is_one_file else place]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0:
                            return [], False
                        if not is_one_file and entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif entry.inode() == status.st_ino and _is_same(entry, status):
                            seen.add(entry.path)
            except OSError:  # it cannot be read, or is not there: nothing in it has been linked from here
                continue
            names = [name for name in seen if matches_glob(glob, name, request.root, request.home, ignore_case=True)]
            if names:
                return names, True
            if len(seen) == status.st_nlink:
                break
    return [], True


def _is_same(entry: os.DirEntry[str], status: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(follow_symlinks=False), status)
    except OSError:
        return False
