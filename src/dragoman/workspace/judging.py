"""The judgement of a request by the rules and the disk: the way from a request to a verdict that all programs share.

    request = folders.settle_request(request, agent)      where its paths lead; the built-in agent's tools do it
    request = with_facts(rules, request, folders)         what only the disk knows
    judge(rules, request)                                 the verdict, which `policy/verdict.py` makes of that

`judge_with_facts` takes the last two steps; `judge_in` is that for a program that serves the files of a session to an
agent. A command line may have 200 KB, and judging it takes tens of milliseconds; the files that a request names are
looked at on the disk, too. `off_loop_if_long` keeps that off the event loop.
"""

from __future__ import annotations

import asyncio
import os
import stat
from glob import iglob
from itertools import islice
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from msgspec.structs import replace

from dragoman.policy.commands import is_reading
from dragoman.policy.named_files import INDEX
from dragoman.policy.paths import (
    MAX_PATH,
    fixed_folder,
    is_below,
    matches_glob,
    matches_wildcards,
    may_name,
    normalise,
)
from dragoman.policy.request import PATH_KINDS, Request
from dragoman.policy.rule import SAFE, read_pattern
from dragoman.policy.safe import SafetyFacts, safe_parts
from dragoman.policy.secret_places import SECRET_PLACES
from dragoman.policy.verdict import READING, Judgement, Verdict, judge
from dragoman.workspace.git_config import git_runs_no_program, read_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dragoman.policy.parts import Part
    from dragoman.policy.rule import Rule
    from dragoman.workspace.folders import SessionFolders

LONG_LETTERS: Final = 16 * 1024
"""Judging a line of this length takes a few milliseconds."""
# Reading the names of this many files takes about 30 ms. A larger tree is not searched for each read.
MOST_ENTRIES: Final = 20_000
_MOST_NAMES: Final = 2_000  # of a command; no real one names more files
# A program elsewhere on the PATH, such as in `node_modules/.bin`, may have been written by the project.
_SYSTEM_FOLDERS: Final = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
_MOST_MATCHES: Final = 1_000  # files that a glob may stand for; each is looked at

P = ParamSpec("P")
T = TypeVar("T")


def with_facts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Request:
    """Return the request with what only the disk knows: where it leads, other names of its files, its safe parts."""
    request = with_links(rules, with_globs(rules, request, folders), folders)
    request = with_boundary(request, folders)
    return with_safe_parts(rules, with_other_names(rules, request), folders)


def judge_with_facts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Judgement:
    """Judge a request by the rules and the disk."""
    request = with_facts(rules, folders.settle_request(request, request.agent), folders)
    return Judgement(request, judge(rules, request))


def judge_in(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Judgement:
    """Judge a request whose paths are settled, in a session whose files are served to an agent.

    Reading below the folders of the session is allowed unless a rule restricts it.
    """
    request = with_facts(rules, request, folders)
    verdict = judge(rules, request)
    is_open = verdict.action == "ask" and verdict.rule is None and not request.caution
    if is_open and request.kind == "read" and folders.hold_all(request.paths):
        verdict = Verdict("allow", None, READING)
    return Judgement(request, verdict)


async def off_loop_if_long(requests: Sequence[Request], judge: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `judge` in a thread if the requests are long, at once otherwise: for nearly every one a thread takes longer.

    In a thread it must not change what the loop uses.
    """
    commands = [request.command for request in requests if request.command is not None]
    letters = sum(len(path) for request in requests for path in request.paths)
    letters += sum(len(command.line or "") + sum(map(len, command.argv or ())) for command in commands)
    if letters > LONG_LETTERS:
        return await asyncio.to_thread(judge, *args, **kwargs)
    return judge(*args, **kwargs)


# Links and globs: where the words of a command lead


def with_globs(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Request:
    """Return the request with other forms of the globs of rules: a folder that one starts in may be a link."""
    if request.kind != "execute" and not request.paths:
        return request
    found: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        pattern = read_pattern(rule.text)
        if pattern.kind in PATH_KINDS and pattern.pattern is not None and pattern.pattern not in found:
            forms = folders.forms_of(pattern.pattern, request.home)
            if forms:
                found[pattern.pattern] = forms
    # Only an allow has to know: a deny holds for any spelling.
    has_allow = any(rule.action == "allow" and read_pattern(rule.text).pattern is not None for rule in rules)
    return replace(request, globs=tuple(found.items()), ignores_case=has_allow and folders.ignores_case)


def with_links(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Request:
    """Return a command with the places that its paths lead to, and with the files that its globs stand for.

    A folder that a rule with wildcards may reach into is searched for such files. What takes too long to look up is
    asked about.
    """
    if request.kind != "execute" or request.command is None:
        return request
    leads: dict[str, tuple[str, ...]] = {}
    left = _MOST_NAMES
    globs = [glob for rule in rules if (glob := _restricted(rule, request.agent)) is not None]
    for_reading = {glob for rule in rules if (glob := _restricted(rule, request.agent, "read")) is not None}
    search = _Search(globs, request)
    for part, files in zip(request.reading.parts, request.named_files, strict=True):
        named = {file.path: file for file in reversed(files)}
        for path in dict.fromkeys((*part.folders, *part.written, *part.read, *named)):
            if path in leads or len(path) > MAX_PATH or "\0" in path:
                continue
            left -= 1
            if left < 0:
                return replace(request, caution="the command names too many files to look at")
            file = named.get(path)
            if file is not None and file.wildcards:
                if globs:
                    leads[path] = (path, *search.matches(path))
                continue
            places = folders.settle(request.home + path[1:] if path.startswith("~") else path)
            if path.endswith(f"/{INDEX}"):
                places += search.tracked(path.removesuffix(INDEX), [glob for glob in globs if glob in for_reading])
            if file is not None and file.reaches and globs:
                # `grep -r` and `rg` follow no links, and a command of which nothing is known may.
                places += search.below(places[-1], follows=not is_reading(part) or part.argv[0] == "diff")
            if set(places) != {normalise(path, request.root, request.home)}:
                leads[path] = tuple(dict.fromkeys(places))
    return replace(request, leads=tuple(leads.items())) if leads else request


class _Search:
    """A bounded search for files that rules restrict, for one request."""

    def __init__(self, globs: Sequence[str], request: Request) -> None:
        self._request = request
        # Others are about one folder or one file, and need no search.
        self._wide = [glob for glob in globs if set(glob.removesuffix("/**")) & set("*?")]
        self._globs = globs
        self._left = MOST_ENTRIES

    def matches(self, path: str) -> tuple[str, ...]:
        """Return the files that a path with wildcards stands for and that a rule is about. Hidden ones count."""
        found = ["/"]
        for name in normalise(path, "/", self._request.home).strip("/").split("/"):
            if not set(name) & set("*?["):
                found = [os.path.join(folder, name) for folder in found]
                continue
            names = [(folder, entry) for folder in found for entry in self._names_in(folder)]
            if self._left < 0:
                return tuple(self._first_fit(self._globs))
            found = [os.path.join(folder, entry) for folder, entry in names if matches_wildcards(name, entry)]
        real = {os.path.realpath(match) for match in found if os.path.lexists(match)}
        return tuple(place for place in real if self._is_restricted(place, self._globs))

    def _names_in(self, folder: str) -> list[str]:
        try:
            names = os.listdir(folder) if self._left >= 0 else []
        except OSError:  # it cannot be read, or is not a folder
            return []
        self._left -= len(names)
        return names

    def tracked(self, folder: str, globs: Sequence[str]) -> tuple[str, ...]:
        """Return a name that one of the globs covers if git may keep such a file in the repository of a folder."""
        if not globs:
            return ()
        index = read_index(folder)
        found = None if index is None else index.lower()
        for glob in globs:
            *above, last = glob.lower().removesuffix("/").split("/")
            while above and not last.strip("*?"):
                last = above.pop() + "/"
            text = max(last.replace("?", "*").split("*"), key=len) + ("\0" if last[-1:] not in ("*", "?", "/") else "")
            if found is None or text.encode() in found:
                return tuple(self._first_fit([glob]))
        return ()

    def below(self, folder: str, *, follows: bool) -> tuple[str, ...]:
        """Return a file below a folder that a rule is about because of its wildcards, or because a link leads there."""
        if not (self._wide or follows) or folder == "/" or not os.path.isdir(folder):
            return ()
        folders = [folder]
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        self._left -= 1
                        if self._left < 0:
                            return tuple(self._first_fit(self._globs))
                        if self._is_restricted(entry.path, self._wide):
                            return (entry.path,)
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif follows and entry.is_symlink() and self._leads_to(real := os.path.realpath(entry.path)):
                            return (real,)
            except OSError:  # it cannot be read
                continue
        return ()

    def _leads_to(self, real: str) -> bool:
        request = self._request
        return any(
            may_name(glob, real, root, request.home, reaches=True) for glob in self._globs for root in request.roots
        )

    def _first_fit(self, globs: Sequence[str]) -> Iterator[str]:
        """Yield a name that the first rule covers: in a tree that is too large to search there may be one."""
        name = globs[0].replace("**", "x").replace("*", "x").replace("?", "x")
        yield normalise(name, self._request.root, self._request.home)

    def _is_restricted(self, path: str, globs: Sequence[str]) -> bool:
        request = self._request
        roots = request.roots
        return any(matches_glob(glob, path, root, request.home, ignore_case=True) for glob in globs for root in roots)


# Worktrees


def with_boundary(request: Request, folders: SessionFolders) -> Request:
    """Return a request of a session in a worktree with what the boundary around that states.

    A command that only reads the files it names may name those of the project.
    """
    boundary = folders.boundary
    if boundary is None:
        return request
    if request.kind != "execute":
        changes, removes = request.kind not in ("read", "search"), request.kind in ("delete", "move")
        real = [os.path.realpath(path) for path in request.paths if "\0" not in path]
        closed = (boundary.why_closed(path, changes=changes, removes=removes) for path in (*request.paths, *real))
        why, is_apart = next(filter(None, closed), ""), any(map(boundary.original_of, real))
        return replace(request, closed=why, is_apart=is_apart) if why or is_apart else request
    for part, files in zip(request.reading.parts, request.named_files, strict=True):
        changed = (*part.written, *(() if is_reading(part) else (*part.folders, *(file.path for file in files))))
        looked = () if not is_reading(part) else (*part.folders, *(file.path for file in files))
        for path, changes in (*((path, True) for path in changed), *((path, False) for path in (*part.read, *looked))):
            for place in request.settled(path):
                why = boundary.why_closed(normalise(place, request.root, request.home), changes=changes)
                if why:
                    return replace(request, closed=f"the command names {path}: {why}")
    return request


# Other names of files: a hard link of a denied file is that file under another name


def with_other_names(rules: Sequence[Rule], request: Request) -> Request:
    """Return the request with the names under which a rule denies its files, or with a reason to ask.

    The paths of a `read` get these names as well, so that a deny holds for them. What a command does with a file is
    not known: one that names a denied file under another name is asked about, and so is one that writes into a file
    with several names. A file with several names is looked for in the folders that deny and ask rules name. The search
    is bounded; if it has to stop early, the user is asked. Without such a rule, and for a file with one name, nothing
    is searched.
    """
    if request.kind not in ("read", "execute"):
        return request
    for path in (path for part in request.reading.parts for path in part.written) if request.command else ():
        status = _several_names(request.settled(path)[-1])
        if status is not None:
            why = f"the command writes {path}, a hard link: the same file has {status.st_nlink} names"
            return replace(request, caution=why)
    globs = [glob for rule in rules if (glob := _restricted(rule, request.agent, request.kind)) is not None]
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


def _restricted(rule: Rule, agent: str, kind: str = "execute") -> str | None:
    """Return the glob of a rule that restricts reading; for a command, what it does with a file is not known."""
    pattern = read_pattern(rule.text)
    is_meant = pattern.kind in PATH_KINDS if kind == "execute" else pattern.kind == "read"
    if rule.action == "allow" or not is_meant or pattern.agent not in (None, agent):
        return None
    return pattern.pattern


def _files(request: Request) -> Iterator[str]:
    """Yield the paths that a request may use."""
    if request.kind == "read":
        yield from (path for path in request.paths if "\0" not in path)
        return
    for part, files in zip(request.reading.parts, request.named_files, strict=True):
        for path in dict.fromkeys((*part.read, *(file.path for file in files if not file.wildcards))):
            if len(path) <= MAX_PATH and "\0" not in path:
                yield request.home + path[1:] if path.startswith("~") else path


def _several_names(path: str) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # there is no such file; reading it will report that
        return None
    return status if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 else None


def _denied_names(status: os.stat_result, globs: Sequence[str], request: Request) -> tuple[list[str], bool]:
    """Return the names of a file that one of the globs covers, and whether all that could be one were looked at."""
    left = MOST_ENTRIES
    seen: set[str] = set()
    for glob, root in ((glob, root) for glob in globs for root in request.roots):
        place = fixed_folder(glob, root, request.home)
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
            names = [name for name in seen if matches_glob(glob, name, root, request.home, ignore_case=True)]
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


# Safe commands


def with_safe_parts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Request:
    """Return the request with its safe parts filled in, if a rule `safe` may use them.

    `policy/safe.py` knows which commands only read; this adds what only the disk knows: links, programs on the PATH,
    git's configuration. Every doubt counts as not safe.
    """
    if request.kind != "execute" or all(rule.text.rpartition("@")[2] != SAFE for rule in rules):
        return request
    home = request.home or os.path.expanduser("~")
    secrets = [folders.enter(home, name) for name in SECRET_PLACES if os.path.lexists(os.path.join(home, name))]

    def is_inside(path: str, folder: str) -> bool:
        real = folders.enter(folder, path, knows_home=True)
        if not folders.hold(real):
            return False
        # A folder that contains keys is not safe either: `grep -r` reads everything in it.
        if any(is_below(real, place) or is_below(place, real) for place in secrets):
            return False
        read = replace(request, kind="read", paths=(real,), command=None, leads=())
        read = with_other_names(rules, read)
        verdict = judge(rules, read)
        return not read.caution and (verdict.action == "allow" or verdict.is_uncovered)

    def is_system(name: str) -> bool:
        import shutil  # it loads every compression module, and few commands get here

        program = shutil.which(name)
        folder = os.path.dirname(program) if program else ""
        return folder in _SYSTEM_FOLDERS and not folders.hold(folders.resolve(folder))

    def is_glob_inside(glob: str, folder: str) -> bool:
        # Shells and this module read these letters differently.
        if "[^" in glob or "[:" in glob or "[." in glob or "[=" in glob or "\\" in glob:
            return False
        # Some users' shells look at hidden names as well.
        matches = list(islice(iglob(glob, root_dir=folder, include_hidden=True), _MOST_MATCHES + 1))
        if len(matches) > _MOST_MATCHES:
            return False
        return all(not path.startswith("-") and is_inside(path, folder) for path in matches)

    reading = request.reading
    # git uses the repository of the folder that `cd` left, which may be another one than that of the session.
    git_folders = {folder for part in reading.parts if "git" in part.argv[0] for folder in part.folders}
    facts = SafetyFacts(
        is_inside,
        is_system,
        git_is_harmless=all(map(git_runs_no_program, git_folders)),
        is_glob_inside=is_glob_inside,
    )
    safe = safe_parts(reading, facts)
    if any(rule.action != "allow" and read_pattern(rule.text).kind == "read" for rule in rules):
        safe = tuple(index for index in safe if not _reads_unnamed(reading.parts[index]))
    return replace(request, safe_parts=safe)


def _reads_unnamed(part: Part) -> bool:
    """Whether a safe command prints content of files that its words do not name, so that no rule can see them."""
    return os.path.basename(part.argv[0]) == "git"
