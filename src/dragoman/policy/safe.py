"""Safe commands: programs that only read, each with the options under which that is certain.

The table lists allowed options, never forbidden ones; any other option makes a command ordinary. A command is safe if
its program is the system's, all of its operands that can be files lie inside the roots, and nothing is written. This
module does not access the disk: the caller passes `SafetyFacts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.policy.options import operands_of, read_options

if TYPE_CHECKING:
    from dragoman.policy.parts import Part, Reading
    from dragoman.policy.shell import Redirection, Word


class SafetyFacts(Struct, frozen=True):
    """What only the caller can know.

    Attributes:
        is_inside: whether a path (as written, from a folder) is below the roots after links are resolved, and may be
            read. The folder is absolute; a path may start with `~/`.
        is_system: whether a program's name, looked up on the PATH, is a program of the system outside the roots.
        git_is_harmless: whether git runs no program that the repository's own configuration names.
    """

    is_inside: Callable[[str, str], bool]
    is_system: Callable[[str], bool]
    git_is_harmless: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Safe(Struct, frozen=True):
    options: str
    # What the operands are: paths, text, a pattern and then paths, nothing; or at most so many paths.
    operands: str = "paths"


_TABLE: Final[dict[str, _Safe]] = {
    name: _Safe(options, operands)
    for names, options, operands in (
        ("ls", "-a -A -l -h -1 -R -t -r -S -d -F -i -s -p --color=?", "paths"),
        ("cat", "-n -b -A -e -s -t -v", "paths"),
        ("head", "-n= -c= -# -q -v", "paths"),
        ("tail", "-n= -c= -# -q -v", "paths"),
        ("wc", "-l -w -c -m -L", "paths"),
        ("nl", "-b= -n= -w= -s=", "paths"),
        ("tac rev fold expand", "-w= -s -t=", "paths"),
        ("pwd", "-P -L", "nothing"),
        ("cd", "", "one"),
        ("echo", "-n -e -E", "anything"),
        ("printf", "", "text"),
        ("true false :", "", "anything"),
        (
            "grep egrep fgrep",
            """-n -i -v -w -x -c -l -L -o -h -H -r -E -F -P -s -q -A= -B= -C= -m= -e= -# --include= --exclude=
            --exclude-dir= --color=?""",
            "pattern",
        ),
        (
            "rg",
            """-n -i -S -s -v -w -x -c -l -o -F -P -U -g= -t= -T= -A= -B= -C= -m= -e= --files --hidden --no-ignore
            --sort= --max-depth= --glob= --type= --json --heading --no-heading --color=""",
            "pattern",
        ),
        ("fd", "-e= -t= -d= -H -I -g -s -i -p", "pattern"),
        ("tree", "-L= -a -d -I= -P= -f -s -h --noreport", "paths"),
        ("stat", "-c= --format= --printf= -t", "paths"),
        ("file", "-b -i --mime-type", "paths"),
        ("du", "-s -h -a -c -d= --max-depth=", "paths"),
        ("df", "-h -T", "paths"),
        ("sort", "-r -n -u -k= -t= -h -f -b -V -s", "paths"),
        ("uniq", "-c -d -u -i -f= -s=", "one"),
        ("cut", "-d= -f= -c= -b= -s --complement", "paths"),
        ("paste join comm", "-d= -s -1 -2 -3 -t= -j=", "paths"),
        ("tr", "-d -s -c", "text"),
        ("column", "-t -s= -c=", "paths"),
        ("diff", "-u -U= -r -q -w -b -B -i -N -y --color=?", "paths"),
        ("cmp", "-l -s -n=", "paths"),
        ("od hexdump", "-A= -t= -c -x -N= -j= -C -n= -s=", "paths"),
        ("xxd", "-l= -s= -c= -p -u", "one"),
        ("md5sum sha1sum sha256sum", "-b -t", "paths"),
        ("basename dirname", "-a -s=", "text"),
        ("realpath readlink", "-f -e -m -s", "paths"),
        ("which type", "-a", "text"),
        ("date", "-u -I=? -R", "format"),
        ("uname", "-a -s -n -r -v -m -p -i -o", "nothing"),
        ("whoami nproc arch", "", "nothing"),
        ("id", "-u -g -G -n -r", "nothing"),
        ("seq", "-w -s=", "text"),
    )
    for name in names.split()
}
_GIT: Final = {
    "status": "-s -b --short --branch --porcelain=? -u=?",
    "log": """-# -n= --oneline --stat --graph --decorate --all --since= --until= --author= --grep= --format= --pretty=
        -p --name-only --name-status""",
    "diff": "--stat --cached --staged --name-only --name-status -w -U= --no-ext-diff --no-textconv",
    "show": "--stat --name-only --format=",
    "branch": "--list -a -r -v -vv --show-current",
    "rev-parse": "--short=? --abbrev-ref=? --verify --show-toplevel --git-dir --is-inside-work-tree -q",
    "ls-files": "-m -o --exclude-standard -s",
    "blame": "-L= -w",
    "grep": "-n -i -l -w -c -E -F -e=",
    "describe": "--tags --always --dirty --abbrev=",
    "remote": "-v",
    "tag": "-l --list",
    "stash": "",
    "cat-file": "-p -t -s",
}
# Options without which a bare word would change something: `git branch x` makes a branch.
_GIT_NEEDS: Final = {
    "branch": ("--list", "-a", "-r", "--show-current"),
    "tag": ("-l", "--list"),
    "cat-file": ("-p", "-t", "-s"),
}
# These run nothing from the repository's configuration, whatever it holds.
_GIT_PLAIN: Final = frozenset({"log", "branch", "rev-parse", "describe", "remote", "tag", "stash", "cat-file"})
_VERSIONED: Final = _words("node python python3 npm pnpm yarn cargo rustc go java ruby uv docker make gcc")
_FIND_FLAGS: Final = _words("-empty -prune -not ! -o -a ( ) -print -print0 -or -and")
_FIND_VALUED: Final = _words("-name -iname -path -ipath -type -size -mtime -mmin -maxdepth -mindepth -regex")
_SED: Final = re.compile(r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$))?p")
_JQ: Final = read_options("-r -c -n -s -S -e -M -C --tab --indent=")
_JQ_WORDS: Final = re.compile(r"\benv\b|\$ENV|input_filename|\binclude\b|\bimport\b|\binputs?\b|\bdebug\b|\$__")
_PLACES: Final = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_FILTERS: Final = _words(
    "head tail grep egrep fgrep wc sort uniq cut tr nl cat tac rev fold expand column sed jq rg paste"
)
_QUIET: Final = frozenset({"echo", "true", ":", "pwd", "printf"})


def is_reader(program: str) -> bool:
    """Whether this program only reads what it is given, unless unusual options make it do more."""
    return program in _TABLE and program not in ("cd", "uniq", "xxd", "sort", "tree", "file", "fd")


def only_reads(part: Part) -> bool:
    """Whether this part only reads the files that its words name: `find` without actions, `sed -n` that prints."""
    program = part.argv[0].rpartition("/")[2]
    return is_reader(program) or (program in _SPECIAL and _files_of(program, part) is not None)


def safe_parts(reading: Reading, facts: SafetyFacts) -> tuple[int, ...]:
    """The indexes of the parts that are safe commands; the caller puts them into `Request.safe_parts`."""
    return tuple(index for index, part in enumerate(reading.parts) if is_safe_part(part, facts))


def is_safe(reading: Reading, facts: SafetyFacts) -> bool:
    """Whether a command consists only of safe commands."""
    return bool(reading.parts) and all(is_safe_part(part, facts) for part in reading.parts)


def is_safe_part(part: Part, facts: SafetyFacts) -> bool:
    """Whether this part only reads, and only inside the roots."""
    if part.written or part.command.assignments or not _is_inside_all(part, [r.target for r in _inputs(part)], facts):
        return False
    program = _program_name(part.argv[0])
    if program is None or not all(facts.is_inside(".", folder) for folder in part.folders):
        return False
    if program not in ("cd", "echo", "pwd", "true", "false", ":", "printf", "type") and not facts.is_system(program):
        return False
    if program == "git":
        return _is_safe_git(part, facts)
    files = _files_of(program, part)
    return files is not None and _is_inside_all(part, files, facts)


def is_quiet(part: Part) -> bool:
    """Whether this part does no more than shape the output of another, or print a text: it opens no file."""
    if part.written or part.read or part.command.assignments:
        return False
    program = part.argv[0]
    if program in _QUIET or (part.is_fed and program in _FILTERS):
        return _files_of(program, part) == []
    return False


def _inputs(part: Part) -> list[Redirection]:
    return [item for item in part.command.redirections if item.operator == "<"]


def _program_name(word: str) -> str | None:
    for place in _PLACES:
        word = word.removeprefix(place)
    return None if "/" in word else word


def _is_inside_all(part: Part, files: list[Word], facts: SafetyFacts) -> bool:
    return all(_is_inside(word, folder, facts) for word in files for folder in part.folders)


def _is_inside(word: Word, folder: str, facts: SafetyFacts) -> bool:
    if word.text in ("-", "/dev/null"):
        return True
    if word.fixed is not None:
        # What a glob stands for begins like its fixed part; an empty one may stand for an option.
        if not word.fixed or word.fixed[0] in "-/~" or ".." in word.text.split("/"):
            return False
        return facts.is_inside(word.fixed.rpartition("/")[0] or ".", folder)
    return bool(word.text) and facts.is_inside(word.path, folder)


def _files_of(program: str, part: Part) -> list[Word] | None:
    """The words that may name files; None if the command is not known to be safe."""
    words = list(part.command.words[1:])
    texts = [word.text for word in words]
    if texts in (["--version"], ["--help"]) and (program in _TABLE or program in _VERSIONED or program in _SPECIAL):
        return []
    if program in _VERSIONED:
        return [] if texts in (["-v"], ["-V"], ["version"]) else None
    if program in _SPECIAL:
        return _SPECIAL[program](words)
    entry = _TABLE.get(program)
    if entry is None or entry.operands == "anything":
        return None if entry is None else []
    indexes = operands_of(read_options(entry.options), texts)
    if indexes is None or any(word.fixed == "" for word in words):
        return None
    return _operand_files(program, entry, [words[index] for index in indexes], texts)


def _operand_files(program: str, entry: _Safe, operands: list[Word], texts: list[str]) -> list[Word] | None:
    kind = entry.operands
    if kind == "paths":
        return operands
    if kind == "text":
        return [] if not (program == "printf" and texts[:1] == ["-v"]) else None
    if kind == "nothing":
        return None if operands else []
    if kind == "one":
        return operands if len(operands) <= 1 else None
    if kind == "format":
        return [] if all(word.text.startswith("+") for word in operands) else None
    has_pattern = any(text.startswith("-e") for text in texts) or "--files" in texts
    return operands if has_pattern else operands[1:]


def _find_files(words: list[Word]) -> list[Word] | None:
    files: list[Word] = []
    index = 0
    while index < len(words) and not words[index].text.startswith(("-", "(", "!")):
        files.append(words[index])
        index += 1
    while index < len(words):
        word = words[index]
        if word.fixed is not None:
            return None
        if word.text in _FIND_VALUED:
            # An unquoted glob after `-name` may become several words, options among them.
            if index + 1 >= len(words) or words[index + 1].fixed is not None:
                return None
            index += 2
        elif word.text == "-newer" and index + 1 < len(words):
            files.append(words[index + 1])
            index += 2
        elif word.text in _FIND_FLAGS:
            index += 1
        else:
            return None
    return files


def _sed_files(words: list[Word]) -> list[Word] | None:
    texts = [word.text for word in words]
    if texts[:1] != ["-n"] or len(texts) < 2 or not all(_SED.fullmatch(part) for part in texts[1].split(";")):
        return None
    return None if any(text.startswith("-") and text != "-" for text in texts[2:]) else words[2:]


def _jq_files(words: list[Word]) -> list[Word] | None:
    indexes = operands_of(_JQ, [word.text for word in words])
    if not indexes or _JQ_WORDS.search(words[indexes[0]].text):
        return None
    return [words[index] for index in indexes[1:]]


def _command_files(words: list[Word]) -> list[Word] | None:
    # `command NAME` runs it.
    return [] if words and words[0].text in ("-v", "-V") else None


def _sleep_files(words: list[Word]) -> list[Word] | None:
    return [] if len(words) == 1 and re.fullmatch(r"[0-5]?[0-9](\.[0-9]+)?s?", words[0].text) else None


def _test_files(words: list[Word]) -> list[Word] | None:
    return [word for word in words if not word.text.startswith("-") and word.text not in ("!", "=", "==", "!=")]


_SPECIAL: Final[dict[str, Callable[[list[Word]], list[Word] | None]]] = {
    "find": _find_files,
    "sed": _sed_files,
    "jq": _jq_files,
    "command": _command_files,
    "sleep": _sleep_files,
    "test": _test_files,
}


def _is_safe_git(part: Part, facts: SafetyFacts) -> bool:
    words = list(part.command.words[1:])
    while words and words[0].text in ("--no-pager", "--no-optional-locks"):
        words = words[1:]
    texts = [word.text for word in words]
    if texts in (["--version"], ["version"]):
        return True
    name, rest = (texts[0], texts[1:]) if texts else ("", [])
    table = _GIT.get(name)
    if table is None or any(word.fixed is not None for word in words):
        return False
    if name == "stash":
        return rest == ["list"]
    operands = operands_of(read_options(table), rest)
    if operands is None or (name == "remote" and rest != ["-v"]):
        return False
    if (
        rest
        and name in _GIT_NEEDS
        and not set(rest) & set(_GIT_NEEDS[name])
        and not (name == "branch" and not operands)
    ):
        return False
    runs_nothing = name == "cat-file" or (name in _GIT_PLAIN and not _asks_for_patch(rest))
    if name == "show":
        runs_nothing = "--stat" in rest or "--name-only" in rest
    if not runs_nothing and not facts.git_is_harmless:
        return False
    # A word that could be a path must be inside: outside a repository `git diff` compares any two files. Revisions
    # such as `main..HEAD` and `HEAD:src/a` look like paths inside.
    return _is_inside_all(part, [words[1 + index] for index in operands], facts)


def _asks_for_patch(words: list[str]) -> bool:
    """Whether a cluster or an option of `git log` shows the content of files, for which git may run programs."""
    return any(word.startswith("-") and not word.startswith("--") and "p" in word for word in words)
