"""The files that the words of a command may name: the one function that finds them for deny and ask rules.

Of a command that is listed in `safe.py`, with options that are all known, it is known which words are files. Of every
other command every word counts, at every place in it: behind `@`, `=`, `:` and other separators, behind the letters of
a short option, in the texts of scripts and here-documents. Programs that use files which no word names (`grep -r`,
`rg`, `tar -x`, `patch`, `xargs`) name the folder they work in, or anything. Where the names lead is not known here:
`workspace/judging.py` looks at the disk.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from dragoman.policy.commands import has_harmless_variables
from dragoman.policy.known import entry_of, more_of, options_of, path_of, program_path
from dragoman.policy.options import parse_options
from dragoman.policy.paths import MAX_PATH, Wildcards, normalise
from dragoman.policy.programs import name_of
from dragoman.policy.safe import files_of, reads_below
from dragoman.policy.shell import Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.policy.parts import Part


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Between these a word may have the name of a file: `@F`, `key=F`, `HOST:F`, `name=<F`, `a,F`, `:(top)F`, `"F"`.
_SEPARATORS: Final = re.compile(r"[@=:,<>;|&+%#!()\[\]{}'\"`\s\\]+")
_BLANK: Final = re.compile(r"\s")
_SHORT_OPTION: Final = re.compile(r"-[a-zA-Z0-9]+")
_MOST_LETTERS: Final = 12  # of short options in one word, in front of a value
_MOST_NAMES: Final = 2_000  # different ones in a line; with more, any file may be named
_MOST_PIECES: Final = 64  # places in one word
# What `/proc` and `/dev/fd` show of a process: its folder, its root, its open files.
_MAGIC: Final = re.compile(
    r"/proc/(?P<whose>[^/]+)(?:/task/[^/]+)?/(?P<what>cwd|root|fd|exe|map_files)(?P<rest>/.*)?|/dev/fd/.*"
)
# They search the folder they are started in, if no other one is named.
_SEARCHING: Final = _words("ag ack ack-grep pt sift ugrep ug rga rg ripgrep semgrep fd fdfind find")
_RECURSIVE: Final = re.compile(r"-[a-zA-Z0-9]*[rRd]|--[rd]")
# They write files whose names stand in an archive or a patch, into the folder they are started in or that is named.
_ELSEWHERE: Final = {
    program: re.compile(option)
    for programs, option in (
        ("tar bsdtar gtar", r"-[a-zA-Z]*C.*|--d.*|--cd.*"),
        ("unzip", r"-[a-zA-Z]*d.*"),
        ("7z 7za 7zr", r"-o.+"),
        ("cpio pax bsdcpio unrar patch gpatch", r"(?!)"),
    )
    for program in programs.split()
}
_PACKS: Final = re.compile(r"-?[a-wyzA-Z]*[ctru][a-wyzA-Z]*|--create|--list")
_UNPACKS: Final = re.compile(r"-[a-zA-Z]*x.*|--ex.*|--ge.*")
_LISTS_ZIP: Final = re.compile(r"-[a-z]*[lvtZ][a-z]*")
_LINKING: Final = _words("ln link mount cp mv rsync install git")
# Tools of the project: which files of a folder they use does not depend on whether the folder is named.
_TOOLS: Final = _words(
    """
    tsc eslint prettier biome jest vitest mocha playwright cypress pytest tox nox mypy ruff black isort flake8 pylint
    pyright bandit coverage cmake ctest ninja meson make go gofmt cargo rustfmt uv pip poetry npm pnpm yarn bun mvn
    gradle dotnet
    """
)
# They take the names of files from their input or from a file.
_FROM_DATA: Final = _words("xargs parallel cpio pax bsdcpio")
_DATA_OPTION: Final = re.compile(r"--?files?0?(?:-f.*)?(?:=.*)?|--input-file.*|--config(?:=.*)?|-@")
_GIT_DATA: Final = re.compile(r"--stdin.*|--batch.*|--pathspec-f.*")
_ASSIGNED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_TAR_LIST: Final = re.compile(r"-[a-zA-Z]*T.*|[a-zA-Z]*T[a-zA-Z]*")
# They send or serve the files of the folder they are started in.
_SENDS_ALL: Final = _words("publish pack package http.server")
# What they read on their input is content, not names.
_CONTENT: Final = frozenset({"tee", "dd"})
# Options of git whose value is a text and not a file.
_GIT_TEXTS: Final = frozenset({"commit", "tag", "merge", "stash", "notes"})
_GIT_MESSAGE: Final = re.compile(r"-[a-zA-Z]*m|--message")
# A folder means no more to them than no folder at all: they use what git knows, and show it or keep it.
_GIT_WHOLE: Final = _words(
    "add commit status log diff show stash branch push fetch pull switch tag rev-parse ls-files blame shortlog"
)
# They print what git keeps of every file, unless an option makes them print names or numbers only.
_GIT_PRINTS: Final = _words("diff show stash whatchanged format-patch range-diff diff-tree diff-index diff-files")
_GIT_PATCH: Final = re.compile(r"-[a-zA-Z]*[pucmL].*|--patch.*|--cc|--full-diff|--word-diff.*|--binary")
_GIT_NAMES: Final = re.compile(
    r"--(?:stat|name-only|name-status|shortstat|numstat|summary|quiet|no-patch|dirstat).*|-s"
)
INDEX: Final = ".git/index"
_GIT_UNNAMED: Final = frozenset({"grep", "apply", "am", "archive", "clean"})


class NamedFile(Struct, frozen=True):
    """A path that a command may name: absolute or from `~`, with its `..`, so that it can be looked up on the disk."""

    path: str
    reaches: bool = True  # a folder stands for the files below it
    wildcards: Wildcards = ""
    is_piece: bool = False  # it is a part of a word, or of a text


ANYTHING: Final = NamedFile("/", is_piece=True)


def named_files(part: Part, roots: Sequence[str]) -> tuple[NamedFile, ...]:
    """Return what a part may name, each path once. `cd` names no file: it moves the folder of the parts after it."""
    if part.argv[0] == "cd":
        return ()
    found: dict[NamedFile, None] = {}
    for path, reaches, wildcards, is_piece in _named(part, roots):
        places = _starts(path, part, roots)
        found.update((NamedFile(place, reaches, wildcards, is_piece), None) for place in places or ())
        if places is None:
            found[ANYTHING] = None
        if len(found) > _MOST_NAMES:
            return (ANYTHING,)
    return tuple(found)


_Found = tuple[str, bool, Wildcards, bool]


def _named(part: Part, roots: Sequence[str]) -> Iterator[_Found]:
    command, argv = part.command, part.argv
    if "/" in argv[0]:
        yield command.words[0].path, False, "", False
    for _, value in () if has_harmless_variables(part) else command.assignments:
        yield from _pieces(Word(value))
    files = files_of(part)
    if files is not None:
        for word in files:
            yield word.path, reads_below(part), "" if word.fixed is None else "shell", False
        return
    program, inner = name_of(argv[0]), _start_of_inner(command.words)
    if program in _FROM_DATA:
        yield "/", True, "", True
    if inner:
        for word in command.words[1:inner]:
            yield from _pieces(word)
        yield from _named(replace(part, command=replace(command, words=command.words[inner:])), roots)
        return
    if program == "git":
        yield from _named_by_git(list(command.words[1:]), argv, roots)
    else:
        yield from _unnamed(program, argv)
        index = _subcommand_index(argv)
        yield from _in_words(program, [word for number, word in enumerate(command.words) if number not in (0, index)])
    texts = [item.target for item in command.redirections if item.operator == "<<"]
    yield from _in_words(program, [] if program in _CONTENT else texts)


def _start_of_inner(words: Sequence[Word]) -> int:
    """Return where the command starts that a known wrapper runs: `timeout 5`, `npx`, `uv run`; 0 if this is none."""
    texts = [word.text for word in words]
    path, start = program_path(texts[0]), 1
    entry = entry_of(path)
    while entry is not None and entry.kind == "group":
        parsed = parse_options(options_of(entry), texts[start:], stops_early=True)
        if parsed.unlisted or parsed.running or not parsed.operands:
            return 0
        start += parsed.operands[0] + 1
        path, _ = path_of(path, texts[start - 1])
        entry = entry_of(path)
    if entry is None or entry.kind != "words":
        return 0
    parsed = parse_options(options_of(entry), texts[start:], stops_early=True)
    places = [place for place in parsed.operands if not _ASSIGNED.match(texts[start + place])]
    places = places[more_of(entry).operands :]
    return 0 if parsed.unlisted or parsed.running or not places else start + places[0]


def _subcommand_index(argv: Sequence[str]) -> int | None:
    """Return where the subcommand of a known program stands."""
    entry = entry_of(program_path(argv[0])[:1])
    if entry is None or entry.kind != "group":
        return None
    parsed = parse_options(options_of(entry), argv[1:], stops_early=True)
    return None if parsed.unlisted or not parsed.operands else 1 + parsed.operands[0]


def _in_words(program: str, words: Sequence[Word]) -> Iterator[_Found]:
    for word in words:
        for path, reaches, wildcards, is_piece in _pieces(word):
            yield path, reaches and program not in _TOOLS, wildcards, is_piece


def _unnamed(program: str, argv: tuple[str, ...]) -> Iterator[_Found]:
    """Yield what a command may use without naming it: anything, or the files of the folder it is started in."""
    is_listed = program in ("tar", "bsdtar", "gtar") and any(map(_TAR_LIST.fullmatch, argv[1:]))
    if is_listed or any(map(_DATA_OPTION.fullmatch, argv)) or (program == "curl" and _reads_options(argv)):
        yield "/", True, "", True
    elif _SENDS_ALL & set(argv) or (program.endswith("grep") and any(map(_RECURSIVE.match, argv[1:]))):
        yield ".", True, "", True
    elif program in _ELSEWHERE:
        if _unpacks_here(program, argv[1:]):
            yield ".", True, "", True
    # `find` has its folders first.
    elif program in _SEARCHING and (program != "find" or len(argv) == 1 or argv[1][:1] in ("-", "(", "!")):
        yield ".", True, "", True


def _reads_options(argv: tuple[str, ...]) -> bool:
    """Whether curl takes options from a file, which may name others."""
    return any(re.fullmatch(r"-[a-zA-Z]*K.*", word) for word in argv)


def _unpacks_here(program: str, words: tuple[str, ...]) -> bool:
    """Whether an archive or a patch may be unpacked where the command is started."""
    if any(map(_ELSEWHERE[program].fullmatch, words)):
        return False
    if program == "unzip":
        return not any(map(_LISTS_ZIP.fullmatch, words))
    is_packing = program.endswith("tar") and any(map(_PACKS.fullmatch, words[:1]))
    return not is_packing or any(map(_UNPACKS.fullmatch, words))


def _named_by_git(words: list[Word], argv: tuple[str, ...], roots: Sequence[str]) -> Iterator[_Found]:
    index = _subcommand_index(argv)
    name = argv[index] if index is not None and index < len(argv) else ""
    if any(map(_GIT_DATA.fullmatch, argv)):
        yield "/", True, "", True
    elif name in _GIT_UNNAMED and not (name == "clean" and {"-n", "--dry-run"} & set(argv)):
        yield ".", True, "", True
    has_patch = any(map(_GIT_PATCH.fullmatch, argv))
    if has_patch if name == "log" else name in _GIT_PRINTS and (has_patch or not any(map(_GIT_NAMES.fullmatch, argv))):
        yield INDEX, False, "", True
    is_text = False
    for number, word in enumerate(words, start=1):
        if is_text:
            is_text = False
        elif number == index:
            continue
        elif name in _GIT_TEXTS and _GIT_MESSAGE.match(word.text):
            is_text = _GIT_MESSAGE.fullmatch(word.text) is not None
        else:
            is_before = index is not None and number < index
            for path, reaches, wildcards, is_piece in _pieces(word):
                may_reach = reaches and (name not in _GIT_WHOLE or "--no-index" in argv) and not is_before
                yield path, may_reach, wildcards, is_piece
                # `:/F` and `REV:F` start at the top of the repository.
                if is_piece:
                    yield from ((f"{root}/{path}", may_reach, wildcards, True) for root in roots)


def _pieces(word: Word) -> Iterator[_Found]:
    """Yield a word of which nothing is known, and every place in it at which a path may begin."""
    text = word.path
    if len(text) <= MAX_PATH and text:
        yield text, True, _wildcards(text, word), False
    if _BLANK.search(text) is not None:
        # A script or a sentence: names in it count, but a dot at the end of a sentence is not a folder.
        for name in set(_SEPARATORS.split(text)):
            if name and len(name) <= MAX_PATH:
                yield name, False, "", True
        return
    starts = [0, *(found.end() for found in _SEPARATORS.finditer(text))]
    option = _SHORT_OPTION.match(text)
    if option is not None:
        starts += range(2, min(option.end(), _MOST_LETTERS) + 1)
    if len(starts) > _MOST_PIECES:
        yield "/", True, "", True
        return
    for start in sorted(set(starts)):
        rest = text[start:]
        token = _SEPARATORS.split(rest, maxsplit=1)[0]
        for piece in {rest, token, unquote(rest)} - {"", text}:
            yield piece, True, _wildcards(piece, None), True


def may_make_links(part: Part) -> bool:
    """Whether a part may put a link in the place of a file or a folder."""
    words = part.command.words
    while start := _start_of_inner(words):
        words = words[start:]
    program = name_of(words[0].text)
    return program in _LINKING or program in _ELSEWHERE


def has_pieces(word: Word) -> bool:
    """Whether a path may begin inside of a word: a quick test for words that may be protected paths."""
    text = word.text
    return ("." in text or "/" in text) and (text.startswith("-") or _SEPARATORS.search(text) is not None)


def pieces_of(word: Word) -> Iterator[str]:
    """Yield the places in a word at which a path may begin, the whole word first. A script or a sentence has one."""
    if _BLANK.search(word.text) is None:
        yield from (path for path, *_ in _pieces(word))


def located(path: str, folder: str) -> str:
    """Return a path from a folder, absolute or from `~`, with its `..`."""
    return path if path.startswith(("/", "~/")) or path == "~" else f"{folder}/{path}"


def _wildcards(text: str, word: Word | None) -> Wildcards:
    if word is not None and word.fixed is not None:
        return "shell"
    return "program" if "*" in text or "?" in text or "[" in text else ""


def _starts(path: str, part: Part, roots: Sequence[str]) -> list[str] | None:
    """Return a path from each folder in which the part may run; None if it is an open file, or that of a process."""
    if not path.startswith("/"):
        return [located(path, folder) for folder in part.folders]
    magic = _MAGIC.fullmatch(normalise(path, "/", "")) if path.startswith(("/proc", "//", "/dev", "/.")) else None
    if magic is None:
        return [path]
    if magic["what"] not in ("cwd", "root") or magic["whose"] not in ("self", "thread-self"):
        return None
    starts = (*part.folders, *roots) if magic["what"] == "cwd" else ("/",)
    return [f"{start}{magic['rest'] or ''}" for start in starts]
