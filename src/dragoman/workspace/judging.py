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

from dragoman.policy.paths import MAX_PATH, SECRET_PLACES, fixed_folder, is_below, matches_glob, normalise
from dragoman.policy.request import Request
from dragoman.policy.rule import SAFE, read_pattern
from dragoman.policy.safe import SafetyFacts, safe_parts
from dragoman.policy.verdict import READING, Judgement, Verdict, judge
from dragoman.workspace.git_config import git_runs_no_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dragoman.policy.parts import Part
    from dragoman.policy.rule import Rule
    from dragoman.workspace.folders import SessionFolders

LONG_LETTERS: Final = 16 * 1024
"""Judging a line of this length takes a few milliseconds."""
# Reading the names of this many files takes about 30 ms. A larger tree is not searched for each read.
MOST_ENTRIES: Final = 20_000
_MOST_WORDS: Final = 1_000  # of a command; no real one names more files
# A program elsewhere on the PATH, such as in `node_modules/.bin`, may have been written by the project.
_SYSTEM_FOLDERS: Final = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
_MOST_MATCHES: Final = 1_000  # files that a glob may stand for; each is looked at

P = ParamSpec("P")
T = TypeVar("T")


def with_facts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Request:
    """Return the request with what only the disk knows: other names of its files, and its safe parts."""
    return with_safe_parts(rules, with_other_names(rules, request), folders)


def judge_with_facts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Judgement:
    """Judge a request whose paths are settled, by the rules and the disk."""
    request = with_facts(rules, request, folders)
    return Judgement(request, judge(rules, request))


def judge_in(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Judgement:
    """Judge a request whose paths are settled, in a session whose files are served to an agent.

    Reading below the folders of the session is allowed unless a rule restricts it. The additional folders belong to
    the project: a command in one of them is not outside.
    """
    request = judged = with_facts(rules, request, folders)
    command = request.command
    if command is not None and command.cwd and any(is_below(command.cwd, folder) for folder in folders.real[1:]):
        judged = replace(request, command=command.moved(""))
    verdict = judge(rules, judged)
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


# Other names of files: a hard link of a denied file is that file under another name


def with_other_names(rules: Sequence[Rule], request: Request) -> Request:
    """Return the request with the names under which a rule denies its files, or with a reason to ask.

    The paths of a `read` get these names as well, so that a deny holds for them. What a command does with a file is
    not known: one that names a denied file under another name is asked about. A file with several names is looked for
    in the folders that deny and ask rules about reading name. The search is bounded; if it has to stop early, the user
    is asked. Without such a rule, and for a file with one name, nothing is searched.
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
    """Return the glob of a rule that restricts reading."""
    pattern = read_pattern(rule.text)
    if rule.action == "allow" or pattern.kind != "read" or pattern.agent not in (None, agent):
        return None
    return pattern.pattern


def _files(request: Request) -> Iterator[str]:
    """Yield the paths that a request may read."""
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
    """Return the names of a file that one of the globs covers, and whether all that could be one were looked at."""
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


# Safe commands


def with_safe_parts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Request:
    """Return the request with its safe parts filled in, if a rule `safe` may use them.

    `policy/safe.py` knows which commands only read; this adds what only the disk knows: links, programs on the PATH,
    git's configuration. Every doubt counts as not safe.
    """
    if request.kind != "execute" or all(rule.text.rpartition("@")[2] != SAFE for rule in rules):
        return request
    home = request.home or os.path.expanduser("~")
    secrets = [place for name in SECRET_PLACES if os.path.lexists(place := folders.enter(home, name))]

    def is_inside(path: str, folder: str) -> bool:
        real = folders.enter(folder, path, knows_home=True)
        if not folders.hold(real):
            return False
        # A folder that contains keys is not safe either: `grep -r` reads everything in it.
        if any(is_below(real, place) or is_below(place, real) for place in secrets):
            return False
        read = Request(request.agent, "read", paths=(real,), root=request.root, home=request.home)
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
    program = os.path.basename(part.argv[0])
    is_recursive = any(word[:1] == "-" and word[:2] != "--" and "r" in word for word in part.argv[1:])
    return program in ("git", "rg") or (program.endswith("grep") and is_recursive)
