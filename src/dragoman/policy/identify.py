"""Which programs a part of a command line runs, as far as the table of known programs states (`known.py`).

Each part is identified once: wrappers are taken off, other names of programs, subcommands and options become one name.
What rules compare is a list of `ProgramRun`: the program itself and every one that its words run. What is not known, or
cannot be seen, is stated in words; a deny or ask rule may then concern the part. Pure: the disk is not looked at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.policy import paths
from dragoman.policy.grammars import ASSIGNMENT, BUILTINS, CODE, INPUT_OF_XARGS, SPECIAL, is_input, short
from dragoman.policy.known import (
    entry_of,
    is_harmless_value,
    is_harmless_variable,
    is_system_place,
    more_of,
    options_of,
    path_of,
    program_path,
)
from dragoman.policy.options import parse_options
from dragoman.policy.shell import Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.policy.known import Known
    from dragoman.policy.options import Parsed
    from dragoman.policy.parts import Part

_MAX_DEPTH: Final = 8
# Kinds of programs that run files.
_RUNS_FILES: Final = frozenset({"project", "script", "code"})
# Paths that lead out of the folder of a command, alone or behind an option: `/tmp/x`, `--init=/tmp/x`, `../x`.
_PLACES: Final = re.compile(r"(?:^|(?<=[=:,@;])|(?<=^-[A-Za-z]))(?:~?/(?!/)|\.\./)[^=:,;]*")
_SYSTEM_FILES: Final = re.compile(r"/(?:usr|lib|lib64|opt|etc|bin|sbin|nix|Library|System)(?:/|$)|/dev/null$")
# Options that name a place to write to, of any program, and places where compilers look for what is compiled.
_WRITTEN_PLACES: Final = frozenset(
    (
        *("-o", "--output", "--output-file", "--outfile", "--out", "--out-dir", "--outdir", "--outDir", "--output-dir"),
        *("--dist-dir", "--target-dir", "--log-file", "--logfile", "--junitxml", "--junit-xml", "--basetemp", "-MF"),
        *("--cache-dir", "--cache-location", "--report", "--report-file", "--coverage-dir", "--coverageDirectory"),
        *("--tsBuildInfoFile", "-d", "--destination", "--dest"),
    )
)
_COMPILERS: Final = frozenset(["gcc", "g++", "cc", "c++", "clang", "clang++", "cpp"])
_COMPILED_PLACES: Final = re.compile(r"-(?:I|L|isystem|D)")
_ARCHITECTURE: Final = re.compile(
    r"linux(?:32|64)|x86_64|i[3-6]86|uname26|aarch64|arm\w*|ppc\w*|s390x?|sparc\w*|mips\w*|riscv\w*|ia64"
)
_VERSION: Final = re.compile(r"(?<=.)(?:@[^/@]*|[=<>~!]=.*)$")
# Options of wrappers with which programs and files are looked for elsewhere, and whose value is a folder.
_OTHER_PLACES: Final[dict[tuple[str, ...], set[str]]] = {
    ("env",): {"-C"},
    ("sudo",): {"-D", "-R"},
    ("unshare",): {"-R", "-w"},
    ("nsenter",): {"-r", "-w", "-a", "-m", "-t"},
}
_OPEN_FILE: Final = re.compile(r"(?:^|[=:])/(?:dev/(?:stdin|fd/)|proc/)")
# Modules that take code, or another program, from the words after them.
_RUNNING_MODULES: Final = frozenset(
    {
        *("code", "timeit", "pdb", "cprofile", "profile", "trace", "runpy", "ensurepip", "venv", "idlelib", "asyncio"),
        *("sqlite3", "ipython", "bpython", "ptpython", "xonsh", "invoke", "fabric"),
    }
)


class ProgramRun(Struct, frozen=True):
    """One program that is run, in the form in which rules compare it.

    Attributes:
        path: the one name of the program and its subcommands.
        kind: what it does, as in the table; "" if it is not known.
        options: the one name of each option, with its value.
        operands: the other words; a command that it runs is the next `ProgramRun` instead.
        vague: the word because of which this may be another command of the same program.
        globs: the beginnings of operands that stand for words which are not known.
        is_subcommand_vague: whether that word may stand for the subcommand, and not only for options.
        is_other_name: whether it is only another name of the next `ProgramRun`: `python -m pip`, `python x.py`.
    """

    path: tuple[str, ...]
    kind: str
    options: frozenset[tuple[str, str | None]] = frozenset()
    operands: tuple[str, ...] = ()
    vague: str = ""
    is_subcommand_vague: bool = False
    globs: tuple[str, ...] = ()
    is_other_name: bool = False


class Identified(Struct, frozen=True):
    """What a part of a line runs.

    Attributes:
        runs: the programs, the outermost first.
        unknown: what is not known of it, as the beginning of a sentence; "" if everything is.
        has_code: whether its words or its input are code or commands, in which a rule can look for its words.
        project: which files or tools of the project it runs, as a user would name them.
    """

    runs: tuple[ProgramRun, ...] = ()
    unknown: str = ""
    has_code: bool = False
    project: tuple[str, ...] = ()


def identify(part: Part, root: str, home: str, known: Mapping[str, str], before: Part | None = None) -> Identified:
    """Return what a part runs.

    Args:
        known: the programs that the user added to those that are known, with their kinds.
        before: the part whose output is its input.
    """
    made = Identification(part.folders, root, home, known)
    made.is_fed_names = before is not None and _lists_files(before.argv)
    for name, _ in part.command.assignments:
        made.check_variable(name)
    made.read(part.command.words, 0)
    return made.result()


# What an allow of first words may cover without having named it: it runs no other program that its words name.
_STATED: Final = frozenset({"reads", "changes", "sends", "project", "script"})
# Options in front of a subcommand that change how much is printed, or for which part of a project or a cluster. Any
# other may bring a configuration, a server or a folder along.
_IN_FRONT: Final = frozenset(
    {
        *("-q", "--quiet", "-v", "--verbose", "-s", "--silent", "--color", "--no-color", "--no-progress", "--offline"),
        *("-h", "--help", "-V", "--version", "-w", "--workspace", "-n", "--namespace", "-R", "--repo"),
        *("-P", "--no-pager", "--no-optional-locks"),
    }
)


def adds_nothing(words: tuple[str, ...], part: Part) -> bool:
    """Whether the words of a part behind those of an allow are known to run nothing that the allow does not name.

    A program that is not in the table is what the user named, and has no options that anything is known of.
    """
    if entry_of(program_path(words[0])[:1]) is None:
        return True
    named = Identification(("/",), "/", "", {})
    named.read(tuple(map(Word, words)), 0)
    made = Identification(part.folders, "/", "", {})
    made.read(part.command.words, 0)
    if made.result().unknown not in ("", named.result().unknown):
        return False
    entry = entry_of(program_path(part.argv[0]))
    if entry is not None and entry.kind == "group" and not any(word[:1] == "-" for word in words):
        options = options_of(entry)
        in_front = parse_options(options, part.argv[1:], stops_early=True).options
        if any(name not in _IN_FRONT | {options.equal.get(one) for one in _IN_FRONT} for name, _ in in_front):
            return False
    known = [(run.path, run.kind) for run in named.runs]
    return len(made.runs) <= len(known) and all(
        run.kind in _STATED or (run.path, run.kind) in known for run in made.runs
    )


@lru_cache(maxsize=1024)
def identify_rule(words: tuple[str, ...]) -> tuple[ProgramRun, ...]:
    """Return the runs that a rule with these words is about."""
    made = Identification(("/",), "/", "", {})
    made.read(tuple(map(Word, words)), 0)
    return tuple(run for run in made.result().runs if not run.is_other_name)


def _lists_files(words: tuple[str, ...]) -> bool:
    """Whether a command prints names of files that stand for no option: each starts with a folder of its words."""
    program = program_path(words[0])[:1]
    if program == ("find",):
        return not {"-printf", "-fprintf", "-exec", "-execdir", "-ls"} & set(words)
    entry = entry_of(program)
    if program not in (("grep",), ("rg",)) or entry is None:
        return False
    parsed = parse_options(options_of(entry), words[1:])
    names = {name for name, _ in parsed.options}
    # Without a folder, or with a glob for one, a name may start with a dash.
    folders = [words[1 + index] for index in parsed.operands][0 if names & {"-e", "-f"} else 1 :]
    return bool(names & {"-l", "--files"}) and bool(folders) and not any(set("*?[") & set(text) for text in folders)


class Identification:
    def __init__(self, folders: tuple[str, ...], root: str, home: str, known: Mapping[str, str]) -> None:
        self.is_fed_names = False
        self._folders, self._root, self._home, self._known = folders, root, home, known
        self.runs: list[ProgramRun] = []
        self._unknown = ""
        self._has_code = False
        self.project: list[str] = []

    def result(self) -> Identified:
        return Identified(tuple(self.runs), self._unknown, self._has_code, tuple(dict.fromkeys(self.project)))

    def check_variable(self, name: str) -> None:
        if not is_harmless_variable(name):
            self.doubt(f"the variable {name} may change what runs")

    def doubt(self, why: str, *, has_code: bool = False) -> None:
        self._unknown = self._unknown or why
        self._has_code = self._has_code or has_code

    def read(self, words: tuple[Word, ...], depth: int, launcher: str = "") -> None:
        """Identify the command of these words.

        Args:
            launcher: the words of a launcher in front, such as `npx`: a program that is not known is the project's.
        """
        if depth == _MAX_DEPTH:
            self.doubt("wrappers run wrappers too deeply", has_code=True)
            return
        first = words[0]
        if first.fixed is not None:
            self.doubt("the program is taken from data", has_code=True)
            return
        if "/" in first.text:
            self._check_place(first, launcher)
        # A launcher takes a version behind the name: `npx npm@9`, `pipx run pip==24`.
        path = program_path(_VERSION.sub("", first.text) if launcher else first.text)
        if entry_of(path[:1]) is None:
            self._read_unlisted(path, words, launcher)
            return
        self._read_listed(path, words, depth, launcher)

    def _check_place(self, program: Word, launcher: str) -> None:
        """Note where a program comes from that is named with its folder: the name alone says nothing about it."""
        is_system = all(map(is_system_place, self.places(program)))
        if self.is_inside(program) and not is_input(program.text) and not (is_system and self._root == "/"):
            self.project.append(f"{launcher} {program.text}".strip())
        elif not is_system:
            self.doubt(f"`{short(program.text)}` is a program neither of the system nor of the project")

    def is_inside(self, word: Word) -> bool:
        """Whether a path is below the project."""
        root = paths.normalise(self._root, "/", self._home)
        return all(paths.is_below(place, root) for place in self.places(word))

    def places(self, word: Word) -> list[str]:
        return [paths.normalise(word.path, folder, self._home) for folder in self._folders]

    def _read_unlisted(self, path: tuple[str, ...], words: tuple[Word, ...], launcher: str) -> None:
        text = words[0].text
        kind = self._known.get(path[0], "")
        is_project = bool(self.project) and self.project[-1].endswith(text)
        if path[0] in BUILTINS:
            kind = "reads"
            BUILTINS[path[0]](self, words)
        elif kind == "project" or (not kind and (launcher or is_project) and not is_input(text)):
            if not is_project:
                self.project.append(f"{launcher} {text}".strip())
            kind = "project"
        elif not kind and [word.text for word in words[1:]] in (["--version"], ["--help"]) and "/" not in text:
            kind = "reads"
        elif not kind:
            self.doubt(f"`{short(text)}` is not known")
        # Nothing is known of its words: each may be an option, or belong to one.
        vague = next((word.text for word in words[1:] if word.fixed is not None or word.text[:1] == "-"), "")
        options = frozenset((word.text.partition("=")[0], None) for word in words[1:] if word.text[:1] == "-")
        operands = tuple(word.text for word in words[1:] if word.text[:1] != "-")
        self.runs.append(ProgramRun(path, kind, options, operands, vague))

    def _read_listed(self, path: tuple[str, ...], words: tuple[Word, ...], depth: int, launcher: str) -> None:
        given: list[tuple[str, str | None]] = []
        index = 1
        name = words[0].text.rpartition("/")[2]
        entry = entry_of(path)
        if path == ("cargo",) and len(words) > 1 and words[1].text.startswith("+"):
            index = 2  # the toolchain
        while entry is not None and entry.kind == "group":
            parsed = parse_options(options_of(entry), [word.text for word in words[index:]], stops_early=True)
            given += parsed.options
            self.check_options(name, entry, parsed)
            for option, value in parsed.options if path == ("git",) else ():
                if option in ("-C", "--git-dir", "--work-tree") and not self.is_inside(Word(value or "")):
                    self.doubt(f"`{short(value or option)}` is not in the project, and git runs what its settings name")
            if parsed.unlisted:
                self.runs.append(ProgramRun(path, "", frozenset(given), (), parsed.unlisted, is_subcommand_vague=True))
                return
            if not parsed.operands:
                default = more_of(entry).default
                path = (*path, default) if default and not given else path
                self.runs.append(ProgramRun(path, "reads", frozenset(given)))
                return
            index += parsed.operands[0]
            word = words[index]
            if word.fixed is not None:
                self.doubt(f"the subcommand of `{name}` is taken from data", has_code=True)
                self.runs.append(ProgramRun(path, "", frozenset(given), (), word.text, is_subcommand_vague=True))
                return
            found, implied = path_of(path, word.text)
            if entry_of(found) is None and (default_entry := entry_of((*path, "*"))) is not None:
                # Any other word is a script of the project.
                path, entry = (*path, "run"), default_entry
                break
            given += ((option, None) for option in implied)
            path, entry = found, entry_of(found)
            index += 1
            name = f"{name} {word.text}"
        if entry is None:
            why = "may be an alias" if path[0] == "git" else "is not known"
            self.doubt(f"`{short(name)}` {why}")
            self.runs.append(ProgramRun(path, "", frozenset(given), (), path[-1], is_subcommand_vague=True))
            return
        KnownCommand(self, path, entry, name, words, index, given, depth, launcher).read()

    def check_options(self, name: str, entry: Known, parsed: Parsed) -> None:
        if parsed.running:
            self.doubt(f"`{short(name)}` with `{short(parsed.running)}` runs what its words name", has_code=True)
        elif parsed.unlisted and not options_of(entry).is_open:
            self.doubt(f"`{short(name)}` with `{short(parsed.unlisted)}` is not known", has_code=True)
        for table, value in parsed.keyed:
            if not is_harmless_value(table, value):
                self.doubt(f"`{short(name)}` with `{short(value)}` may run what it names", has_code=True)


class KnownCommand:
    """One command of a program that is known, while its words are read."""

    def __init__(
        self,
        whole: Identification,
        path: tuple[str, ...],
        entry: Known,
        name: str,
        words: tuple[Word, ...],
        index: int,
        given: list[tuple[str, str | None]],
        depth: int,
        launcher: str,
    ) -> None:
        self.whole, self.path, self.entry, self.name = whole, path, entry, name
        self.rest = words[index:]
        self.given, self.depth, self.launcher = given, depth, launcher
        self.table = options_of(entry)
        self.texts = [word.text for word in self.rest]

    def read(self) -> None:
        special = SPECIAL.get(" ".join(self.path))
        if special is not None:
            special(self)
        elif self.entry.kind == "words":
            self.read_wrapper()
        elif self.entry.kind == "code":
            self.read_interpreter()
        elif self.entry.kind == "asks":
            self.whole.doubt(f"`{short(self.name)}` runs what its words or its files name", has_code=True)
            self.add(parse_options(self.table, self.texts))
        else:
            self.read_plain()
        if self.entry.kind in _RUNS_FILES:
            self.check_places()

    def check_places(self) -> None:
        """Note a word that may name code outside of the project, which is not of the project: `-C /tmp/x`.

        What belongs to a script is its own. An option that is known to name only a place to write does not count.
        """
        texts = self.texts
        if self.entry.kind != "project":
            parsed = parse_options(self.table, texts, stops_early=True)
            texts = texts[: parsed.operands[0] + 1] if parsed.operands else texts
        texts = [*(value or "" for _, value in self.given), *texts]
        for before, text in zip(["", *texts], texts, strict=False):
            name = text.partition("=")[0] if text[:1] == "-" else before
            if name in _WRITTEN_PLACES or (self.path[0] in _COMPILERS and _COMPILED_PLACES.match(text)):
                continue
            if "://" in text and self.entry.kind != "project":
                self.whole.doubt(f"`{short(text)}` is not in the project, and `{short(self.name)}` may run it")
            for place in _PLACES.findall(text):
                path = Word(place, is_home=place[:1] == "~")
                if not (self.whole.is_inside(path) or all(map(_SYSTEM_FILES.match, self.whole.places(path)))):
                    self.whole.doubt(f"`{short(place)}` is not in the project, and `{short(self.name)}` may run it")
                    return

    def add(
        self,
        parsed: Parsed,
        operands: Sequence[str] | None = None,
        *,
        kind: str = "",
        vague: str = "",
        is_vague: bool = False,
        is_other_name: bool = False,
    ) -> None:
        """Add the run of this command."""
        names = self.table.equal
        given = {(names.get(name, name), value) for name, value in (*self.given, *parsed.options)}
        for name, others in more_of(self.entry).implies.items():
            one = names.get(name, name)
            if any(option == one for option, _ in given):
                given |= {(names.get(other, other), None) for other in others.removeprefix("=").split()}
                if others[:1] == "=":
                    given -= {(one, None)}
        if self.path[0] == "npm" and ("--location", "global") in given:
            given.add(("--global", None))
        glob = next((word.text for word in self.rest if word.fixed is not None and word.fixed[:1] in ("", "-")), "")
        if operands is None:
            operands = [self.texts[index] for index in parsed.operands]
        options = frozenset(given)
        vague = vague or parsed.unlisted or glob
        kind = kind or ("project" if self.entry.kind == "script" else self.entry.kind)
        globs = tuple(word.fixed for word in self.rest if word.fixed is not None)
        self.whole.runs.append(
            ProgramRun(self.path, kind, options, tuple(operands), vague, is_vague, globs, is_other_name)
        )

    def check(self, parsed: Parsed) -> None:
        """Note what is not known about the options."""
        self.whole.check_options(self.name, self.entry, parsed)
        if self.table.running:
            glob = next(
                (word.text for word in self.rest if word.fixed is not None and word.fixed[:1] in ("", "-")), None
            )
            if glob is not None:
                self.whole.doubt(f"`{short(glob or 'input')}` may stand for an option of `{short(self.name)}`")

    def read_plain(self) -> None:
        parsed = parse_options(self.table, self.texts)
        self.check_plain(parsed)
        self.add(parsed)

    def check_plain(self, parsed: Parsed) -> None:
        kind = self.entry.kind
        if kind == "script":
            # What follows belongs to a file of the project, unless it is an option of the program itself.
            if parsed.running:
                self.check(parsed)
        else:
            self.check(parsed)
        if kind in ("project", "script"):
            operand = self.texts[parsed.operands[0]] if parsed.operands and kind == "script" else ""
            if operand and self.rest[parsed.operands[0]].fixed is not None:
                self.whole.doubt(f"what `{short(self.name)}` runs is taken from data", has_code=True)
            if is_input(operand):
                self.whole.doubt(f"`{short(self.name)}` runs code from its input", has_code=True)
            self.note_project(f"{self.name} {operand}")
        if kind == "project" and any(_OPEN_FILE.search(text) for text in self.texts):
            self.whole.doubt(f"`{short(self.name)}` runs what its input names", has_code=True)
        if kind == "project" and self.table.is_open:
            values = {value for _, value in parsed.options}
            # `@FILE` is a file with more options.
            code = next(
                (text for text in self.texts if text not in values and (CODE.search(text) or text[:1] == "@")), None
            )
            if code is not None:
                self.whole.doubt(f"`{short(code)}` may be code that `{short(self.name)}` runs", has_code=True)
        if self.path[0] == "gh" and "--" in self.texts:
            self.whole.doubt(f"`{short(self.name)}` passes the words after `--` to git", has_code=True)
        if self.path[0] == "git" and any(text.lower().startswith("ext::") for text in self.texts):
            self.whole.doubt("git runs the program that an address names", has_code=True)

    def note_project(self, name: str) -> None:
        self.whole.project.append(f"{self.launcher} {name}".strip())

    def run_inner(self, start: int, launcher: str = "") -> None:
        """Identify the command that starts at this word."""
        self.whole.read(self.rest[start:], self.depth + 1, launcher)

    def read_wrapper(self) -> None:
        parsed = parse_options(self.table, self.texts, stops_early=True)
        self.whole.check_options(self.name, self.entry, parsed)
        more = more_of(self.entry)
        places = parsed.operands
        count = more.operands
        if self.path == ("setarch",) and places and _ARCHITECTURE.fullmatch(self.texts[places[0]]):
            count = 1
        if self.path in (("env",), ("sudo",), ("doas",)):
            while places and (assigned := ASSIGNMENT.match(self.texts[places[0]])):
                self.whole.check_variable(assigned[1])
                places = places[1:]
        inner = places[count:]
        self.add(parsed, [self.texts[index] for index in places[:count]])
        if parsed.unlisted or parsed.running:
            return
        names = {name for name, _ in parsed.options}
        is_chroot = self.path == ("chroot",) and [self.texts[index] for index in places[:count]] != ["/"]
        if is_chroot or names & _OTHER_PLACES.get(self.path, set()):
            self.whole.doubt(f"`{short(self.name)}` looks for programs and files in another folder")
        if not inner and self.rest and self.rest[-1].text == INPUT_OF_XARGS and self.rest[-1].fixed is not None:
            # `echo 5 CMD | xargs timeout`: the command follows in the input.
            self.whole.doubt("the program is taken from data", has_code=True)
        if not inner:
            if names & {"-s", "-i"} and self.path == ("sudo",):
                self.whole.doubt("a shell reads its input", has_code=True)
            return
        if more.prefix:
            self.whole.read((Word(more.prefix), *self.rest[inner[0] :]), self.depth + 1)
        elif more.is_launcher:
            self.read_launched(inner[0], names)
        elif not (self.path == ("command",) and names & {"-v", "-V"}):
            self.run_inner(inner[0])

    def read_launched(self, start: int, names: set[str]) -> None:
        if self.path[0] == "uv" and "-m" in names:
            self.whole.read((Word("python"), Word("-m"), *self.rest[start:]), self.depth + 1, self.name)
        else:
            self.run_inner(start, self.name)

    def read_interpreter(self) -> None:
        # The words after a module are its own.
        last = "-m" if self.path == ("python",) else ""
        parsed = parse_options(self.table, self.texts, stops_early=True, last=last)
        options = dict(parsed.options)
        alone = more_of(self.entry).alone.split()
        module = options.get(last)
        self.whole.check_options(self.name, self.entry, parsed)
        if parsed.unlisted or parsed.running:
            self.add(parsed)
        elif module is not None:
            self.read_module(parsed, module)
        elif parsed.operands and self.rest[parsed.operands[0]].text:
            script, *rest = (self.rest[index] for index in parsed.operands)
            self.add(parsed, is_other_name=True)
            name = script.text.rpartition("/")[2].lower()
            self.whole.runs.append(ProgramRun((name,), "project", operands=tuple(word.text for word in rest)))
            self.read_script(script)
        elif any(self.table.equal.get(name, name) in options for name in alone):
            self.add(parsed)
            if "--test" in options:
                self.note_project(f"{self.name} --test")
        else:
            self.add(parsed)
            self.whole.doubt(f"`{short(self.name)}` runs code from its input", has_code=True)

    def read_module(self, parsed: Parsed, module: str) -> None:
        """Read what `python -m` runs: a program under another name, or a module of the project."""
        rest = tuple(self.rest[index] for index in parsed.operands)
        name = module.partition(".")[0].lower()
        if any(word.fixed is not None and word.text.endswith(module) for word in self.rest):
            self.whole.doubt(f"the module of `{short(self.name)}` is taken from data", has_code=True)
        if name in _RUNNING_MODULES:
            self.add(parsed)
            self.whole.doubt(f"`{short(self.name)} -m {short(module)}` runs code from its words", has_code=True)
            return
        self.add(parsed, [word.text for word in rest], is_other_name=True)
        self.whole.read((Word(module), *rest), self.depth + 1, f"{self.launcher} {self.name} -m".strip())

    def read_script(self, script: Word) -> None:
        if script.text[:1] == "+":
            # An option of a shell: `bash +B -c CODE`.
            self.whole.doubt(f"`{short(self.name)}` with `{short(script.text)}` is not known", has_code=True)
        elif is_input(script.text) or script.fixed is not None:
            self.whole.doubt(f"`{short(self.name)}` runs code from its input", has_code=True)
        elif not self.whole.is_inside(script):
            self.whole.doubt(f"`{short(script.text)}` is not a file of the project")
        else:
            self.note_project(f"{self.name} {script.text}")
