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

from dragoman.policy.options import is_given, operands_of, read_options
from dragoman.policy.shell import Word

if TYPE_CHECKING:
    from dragoman.policy.parts import Part, Reading
    from dragoman.policy.shell import Redirection


class SafetyFacts(Struct, frozen=True):
    """What only the caller can know.

    Attributes:
        is_inside: whether a path (as written, from a folder) is below the roots after links are resolved, and may be
            read. The folder is absolute; a path may start with `~/`.
        is_system: whether a program's name, looked up on the PATH, is a program of the system outside the roots.
        git_is_harmless: whether git runs no program that the repository's own configuration names.
        is_glob_inside: whether everything that a glob stands for now is inside in this sense, and nothing of it looks
            like an option. Without it, a glob counts by the folder that it names.
    """

    is_inside: Callable[[str, str], bool]
    is_system: Callable[[str], bool]
    git_is_harmless: bool = False
    is_glob_inside: Callable[[str, str], bool] | None = None


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Safe(Struct, frozen=True):
    options: str
    # What the operands are: paths, text, a pattern and then paths, nothing; or at most so many paths.
    operands: str = "paths"


_TABLE: Final[dict[str, _Safe]] = {
    name: _Safe(options, operands)
    for names, options, operands in (
        (
            "ls",
            """-a -A -l -h -1 -R -t -r -S -d -F -i -s -p -C -x -m -n -g -o -G -k -U -X -v -Q -q -b -B -c -u --color=?
            --all --almost-all --human-readable --recursive --reverse --size --full-time --sort= --time-style=
            --group-directories-first""",
            "paths",
        ),
        ("cat", "-n -b -A -e -s -t -v", "paths"),
        ("head", "-n= -c= -# -q -v", "paths"),
        ("tail", "-n= -c= -# -q -v", "paths"),
        ("wc", "-l -w -c -m -L --lines --words --bytes --chars", "paths"),
        ("nl", "-b= -n= -w= -s=", "paths"),
        ("tac rev fold expand", "-w= -s -t=", "paths"),
        ("pwd", "-P -L", "nothing"),
        ("cd", "", "one"),
        ("echo", "-n -e -E", "anything"),
        ("printf", "", "text"),
        ("true false :", "", "anything"),
        (
            "grep egrep fgrep",
            """-n -i -v -w -x -c -l -L -o -h -H -r -E -F -P -G -s -q -a -I -b -T -Z -A= -B= -C= -m= -e= -# --include=
            --exclude= --exclude-dir= --color=? --ignore-case --line-number --recursive --count --invert-match
            --word-regexp --line-regexp --files-with-matches --files-without-match --only-matching --extended-regexp
            --fixed-strings --perl-regexp --no-filename --with-filename --quiet --no-messages --text --line-buffered
            --max-count= --context= --after-context= --before-context= --regexp=""",
            "pattern",
        ),
        (
            "rg",
            """-n -i -S -s -v -w -x -c -l -o -F -P -U -g= -t= -T= -A= -B= -C= -m= -e= --files --hidden --no-ignore
            --sort= --max-depth= --glob= --type= --json --heading --no-heading --color= -N -p -H -I -u -. -M= -d= -#
            --iglob= --type-not= --regexp= --line-number --no-line-number --ignore-case --smart-case --case-sensitive
            --fixed-strings --word-regexp --count --count-matches --files-with-matches --files-without-match
            --only-matching --invert-match --multiline --context= --after-context= --before-context= --max-count=
            --max-columns= --no-messages --stats --vimgrep --with-filename --no-filename --pretty --no-ignore-vcs
            --trim --type-list""",
            "pattern",
        ),
        ("fd", "-e= -t= -d= -H -I -g -s -i -p", "pattern"),
        (
            "tree",
            "-L= -a -d -I= -P= -f -s -h -i -p -t -r -D -F -C -n --noreport --dirsfirst --prune",
            "paths",
        ),
        ("stat", "-c= --format= --printf= -t", "paths"),
        ("file", "-b -i --mime-type", "paths"),
        ("du", "-s -h -a -c -d= -k -m -b -x --max-depth= --apparent-size --exclude=", "paths"),
        ("df", "-h -T -k -i", "paths"),
        (
            "sort",
            """-r -n -u -k= -t= -h -f -b -V -s -d -g -i -c -C -M -R -z --reverse --numeric-sort --unique --key=
            --field-separator= --human-numeric-sort --version-sort --stable --ignore-case""",
            "paths",
        ),
        ("uniq", "-c -d -u -i -f= -s=", "one"),
        ("cut", "-d= -f= -c= -b= -s --complement", "paths"),
        ("paste join comm", "-d= -s -1 -2 -3 -t= -j=", "paths"),
        ("tr", "-d -s -c", "text"),
        ("column", "-t -s= -c=", "paths"),
        (
            "diff",
            """-u -U= -r -q -w -b -B -i -N -y -a -c -C= -s -E -Z -t -W= --color=? --stat --brief --unified=? --recursive
            --side-by-side --suppress-common-lines --ignore-all-space --ignore-blank-lines --ignore-space-change
            --no-dereference --new-file --report-identical-files --strip-trailing-cr --width=""",
            "paths",
        ),
        ("cmp", "-l -s -n=", "paths"),
        ("od", "-A= -t= -N= -j= -a -b -c -d -o -s -x -v", "paths"),
        ("hexdump", "-b -c -C -d -o -x -v -n= -s=", "paths"),
        ("xxd", "-l= -s= -c= -p -u", "one"),
        ("strings", "-n= -a -t= -# -e= --all --bytes= --radix= --encoding=", "paths"),
        ("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum", "-b -t", "paths"),
        ("basename dirname", "-a -s=", "text"),
        ("realpath", "-e -m -s -q -z --relative-to= --relative-base= --no-symlinks", "paths"),
        ("readlink", "-f -e -m -n -q -s -v -z", "paths"),
        ("which type", "-a", "text"),
        ("date", "-u -I=? -R", "format"),
        ("uname", "-a -s -n -r -v -m -p -i -o", "nothing"),
        ("whoami nproc arch", "", "nothing"),
        ("id", "-u -g -G -n -r", "nothing"),
        ("seq", "-w -s= -f=", "text"),
        ("expr", "", "text"),
        ("numfmt", "--to= --from= --field= --suffix= --padding= --format= -d=", "text"),
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
# These run nothing from the repository's configuration, whatever it holds. The others run the pager on a terminal,
# and `log` runs the program that checks signatures if the configuration wants that.
_GIT_PLAIN: Final = frozenset({"rev-parse", "describe", "remote", "cat-file"})
_VERSIONED: Final = _words("node python python3 npm pnpm yarn cargo rustc go java ruby uv docker make gcc")
_FIND_FLAGS: Final = _words("-empty -prune -not ! -o -a ( ) -print -print0 -or -and")
_FIND_VALUED: Final = _words("-name -iname -path -ipath -type -size -mtime -mmin -maxdepth -mindepth -regex")
_VALUE: Final = re.compile(r"--[a-z-]+=")
_SED: Final = re.compile(r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$))?p")
_JQ: Final = read_options(
    """-r -c -n -s -S -e -M -C -a -j -R --tab --indent= --raw-output --compact-output --null-input --slurp --sort-keys
    --exit-status --raw-input --join-output --monochrome-output --ascii-output"""
)
_JQ_WORDS: Final = re.compile(
    r"\benv\b|\$ENV|input_filename|\binclude\b|\bimport\b|\binputs?\b|\bdebug\b|\$__|modulemeta|get_search_list"
)
# With one of these the first operand is a file, not the pattern.
_PATTERN_GIVEN: Final = _words("-e --regexp --files")
_LISTING: Final = _words("--files --type-list")
_TESTS: Final = _words(
    """! = == != < > ( ) -a -o -z -n -e -f -d -r -w -x -s -L -h -b -c -g -k -p -u -S -O -G -N
    -eq -ne -lt -le -gt -ge -nt -ot -ef"""
)
_PLACES: Final = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_FILTERS: Final = _words(
    "head tail grep egrep fgrep wc sort uniq cut tr nl cat tac rev fold expand column sed jq rg paste"
)
# The shell runs these itself, whatever is on the PATH.
_BUILTINS: Final = _words("cd echo pwd true false : printf type test [")
_QUIET: Final = frozenset({"echo", "true", ":", "pwd", "printf"})


def is_reader(program: str) -> bool:
    """Whether this program only reads what it is given, unless unusual options make it do more."""
    return program in _TABLE and program not in ("cd", "uniq", "xxd", "sort", "tree", "file", "fd")


def only_reads(part: Part) -> bool:
    """Whether this part only reads the files that its words name: `find` without actions, `sed -n` that prints."""
    program = part.argv[0].rpartition("/")[2]
    return is_reader(program) or (program in _SPECIAL and _files_of(program, part) is not None)


def files_of(part: Part) -> list[Word] | None:
    """Return the words of a listed command that name files it reads; None for any other command."""
    program = _program_name(part.argv[0])
    return None if program is None else _files_of(program, part)


def reads_below(part: Part) -> bool:
    """Whether a listed command reads the files below the folders it is given, and not only their names."""
    program = part.argv[0].rpartition("/")[2]
    return program in ("rg", "diff") or _is_recursive(program, part)


def _is_recursive(program: str, part: Part) -> bool:
    is_grep = program in ("grep", "egrep", "fgrep")
    return is_grep and is_given(read_options(_TABLE["grep"].options), part.argv[1:], _words("-r --recursive"))


def safe_parts(reading: Reading, facts: SafetyFacts) -> tuple[int, ...]:
    """Return the indexes of the parts that are safe commands; the caller puts them into `Request.safe_parts`."""
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
    if program not in _BUILTINS and not facts.is_system(program):
        return False
    if program == "git":
        return _is_safe_git(part, facts)
    files = _files_of(program, part)
    if files is None or not _is_inside_all(part, files, facts):
        return False
    return program != "diff" or _stays_inside(part, files, facts)


def _stays_inside(part: Part, folders: list[Word], facts: SafetyFacts) -> bool:
    """Whether `diff` reads nothing outside: it follows the links in the folders that it compares."""
    texts = part.argv[1:]
    if "--no-dereference" in texts:
        return True
    if is_given(read_options(_TABLE["diff"].options), texts, _words("-r --recursive")):
        return False
    is_glob_inside = facts.is_glob_inside
    if is_glob_inside is None:
        return True
    globs = [f"{word.path}/{names}" for word in folders for names in ("*", ".*") if word.text not in ("-", "/dev/null")]
    return all(is_glob_inside(glob, folder) for glob in globs for folder in part.folders)


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
        if word.fixed[:1] in ("-", "~") or ".." in word.text.split("/"):
            return False
        folder_name, slash, _ = word.fixed.rpartition("/")
        if not facts.is_inside(folder_name or slash or ".", folder):
            return False
        if facts.is_glob_inside is not None:
            return facts.is_glob_inside(word.text, folder)
        return bool(word.fixed)  # without a beginning it may stand for an option
    return bool(word.text) and facts.is_inside(word.path, folder)


def _files_of(program: str, part: Part) -> list[Word] | None:
    """Return the words that may name files; None if the command is not known to be safe."""
    words = list(part.command.words[1:])
    texts = [word.text for word in words]
    if texts in (["--version"], ["--help"]) and (program in _TABLE or program in _VERSIONED or program in _SPECIAL):
        return []
    if program in _VERSIONED:
        return [] if texts in (["-v"], ["-V"], ["version"]) else None
    if program in _SPECIAL:
        return _SPECIAL[program](words)
    entry = _TABLE.get(program)
    if entry is None:
        return None
    # `--include=*.py` stands for words with the same option.
    globs = [index for index, word in enumerate(words) if word.fixed is not None and not _VALUE.match(word.fixed)]
    if entry.operands == "anything":
        return [words[index] for index in globs]
    indexes = operands_of(read_options(entry.options), texts)
    # A glob may stand for several words: one that is the value of an option gives the words after it a new meaning.
    if indexes is None or not set(globs) <= set(indexes):
        return None
    files = _operand_files(program, entry, [words[index] for index in indexes], texts)
    # Without a file, `rg` reads its input only if that is another command's output; `grep -r` never does.
    is_searching = _is_recursive(program, part) or (program == "rg" and not part.is_fed and not _LISTING & set(texts))
    return [Word(".")] if files == [] and is_searching else files


def _operand_files(program: str, entry: _Safe, operands: list[Word], texts: list[str]) -> list[Word] | None:
    kind = entry.operands
    if kind == "paths":
        return operands
    if kind == "text":
        # A text names no file, but a glob in it shows names of files.
        is_variable = program == "printf" and texts[:1] == ["-v"]
        return None if is_variable else [word for word in operands if word.fixed is not None]
    if kind == "nothing":
        return None if operands else []
    if kind == "one":
        return operands if len(operands) <= 1 and all(word.fixed is None for word in operands) else None
    if kind == "format":
        return [] if all(word.text.startswith("+") for word in operands) else None
    has_pattern = is_given(read_options(entry.options), texts, _PATTERN_GIVEN)
    is_glob = bool(operands) and operands[0].fixed is not None  # of what it stands for, only the first is the pattern
    return operands if has_pattern or is_glob else operands[1:]


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
    # `--arg NAME VALUE` gives the filter a text.
    while (place := next((n for n, word in enumerate(words) if word.text in ("--arg", "--argjson")), None)) is not None:
        if len(words) < place + 3 or any(word.fixed is not None for word in words[place : place + 3]):
            return None
        words = words[:place] + words[place + 3 :]
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
    """Return the words that may be files: those that are not operators.

    `-v` is not allowed: it runs what stands in a subscript.
    """
    if any(word.text.startswith("-") and word.text not in _TESTS for word in words):
        return None
    return [word for word in words if word.text and word.text not in _TESTS]


def _bracket_files(words: list[Word]) -> list[Word] | None:
    return _test_files(words[:-1]) if words and words[-1].text == "]" else None


def _strings_files(words: list[Word]) -> list[Word] | None:
    # `@FILE` is replaced by the words in that file.
    indexes = operands_of(read_options(_TABLE["strings"].options), [word.text for word in words])
    # Any glob may stand for such a word.
    if indexes is None or any(word.text.startswith("@") or word.fixed is not None for word in words):
        return None
    return [words[index] for index in indexes]


_SPECIAL: Final[dict[str, Callable[[list[Word]], list[Word] | None]]] = {
    "find": _find_files,
    "sed": _sed_files,
    "jq": _jq_files,
    "command": _command_files,
    "sleep": _sleep_files,
    "strings": _strings_files,
    "test": _test_files,
    "[": _bracket_files,
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
        return rest == ["list"] and facts.git_is_harmless
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
    runs_nothing = name in _GIT_PLAIN and "--dirty" not in rest
    if not runs_nothing and not facts.git_is_harmless:
        return False
    # A word that could be a path must be inside: outside a repository `git diff` compares any two files. Revisions
    # such as `main..HEAD` and `HEAD:src/a` look like paths inside.
    return _is_inside_all(part, [words[1 + index] for index in operands], facts)
