"""Which commands a deny or ask rule concerns: the words of a rule compared with the programs that a line runs.

Such a rule is read widely: in any part, behind wrappers, in any spelling of programs, subcommands and options. It does
not concern a part only if everything in it is known (`identify.py`) and is something else; where that cannot be seen,
it may. Loaded when there is such a rule.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from dragoman.policy.identify import identify, identify_rule
from dragoman.policy.known import program_path
from dragoman.policy.programs import runs_anything

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dragoman.policy.commands import CommandPattern, Concern
    from dragoman.policy.identify import Identified, ProgramRun
    from dragoman.policy.parts import Part, Reading

_VALUES: Final = re.compile(r"[=:,@]")
# Turns a text that cannot be read into pieces, one per line: cut at operators.
_PIECES: Final = str.maketrans(dict.fromkeys(";&|\r(){}`<>", "\n"))
# How many pieces of a text that cannot be read are searched for the command of a deny; such a text asks anyway.
_MAX_LOOSE: Final = 500
# How far options in front of a subcommand are looked for: keeps hostile lines from costing time.
_MAX_OPTIONS: Final = 64


def identify_parts(reading: Reading, root: str, home: str, known: Mapping[str, str]) -> tuple[Identified, ...]:
    """Return what each part of a line runs; `known` are the programs that the user added."""
    before = (None, *reading.parts)
    return tuple(
        identify(part, root, home, known, before[index] if part.is_fed else None)
        for index, part in enumerate(reading.parts)
    )


def concern(pattern: CommandPattern, reading: Reading, found: Sequence[Identified]) -> Concern:
    """Return whether a deny or ask rule concerns any part of the command, in any spelling, behind any wrapper.

    `found` is what the parts of the reading run (`identify.py`).
    """
    if pattern.is_everything:
        return "yes"
    if reading.unreadable:
        return "yes" if _runs_in(pattern, reading.text) else "maybe"
    concerns = {_concern_part(pattern, *pair) for pair in zip(reading.parts, found, strict=True)}
    return "yes" if "yes" in concerns else "maybe" if "maybe" in concerns else "no"


def doubt_about(pattern: CommandPattern | None, reading: Reading, found: Sequence[Identified]) -> str:
    """Return why a rule may concern a command, as the beginning of a sentence; "" if there is nothing to name.

    `pattern` is None for a rule about files.
    """
    for part, identified in zip(reading.parts, found, strict=True):
        if identified.unknown and (pattern is None or _concern_part(pattern, part, identified) == "maybe"):
            return identified.unknown
        if pattern is not None and _concern_part(pattern, part, identified) == "maybe":
            program = identify_rule(pattern.words)[0].path[0]
            vague = next((run.vague for run in identified.runs if run.vague and run.path[0] == program), "")
            return f"`{vague[:80]}` is not known" if vague else ""
    return ""


def _concern_part(pattern: CommandPattern, part: Part, found: Identified) -> Concern:
    concerned = _compare_runs(pattern, found.runs)
    if concerned == "yes":
        return "yes"
    if found.has_code:
        texts = [item.target.text for item in part.command.redirections if item.operator == "<<"]
        if _occurs(pattern, part.argv) or any(_runs_in(pattern, text) for text in (*part.argv[1:], *texts)):
            return "yes"
    if found.unknown or concerned == "maybe":
        return "maybe"
    return "maybe" if found.project and _names_program(pattern, part.argv, found.runs) else "no"


def _compare_runs(pattern: CommandPattern, runs: Sequence[ProgramRun]) -> Concern:
    """Return whether the runs of a part have those of the rule in their order: `sudo rm` is `sudo` and then `rm`."""
    wanted = identify_rule(pattern.words)
    concerned: Concern = "no"
    for start in range(len(runs)):
        left = runs[start:]
        found: set[Concern] = set()
        for number, rule in enumerate(wanted):
            is_prefix = pattern.is_prefix or number < len(wanted) - 1
            results = [_compare(rule, run, is_prefix) for run in left]
            best = next((n for n, result in enumerate(results) if result == "yes"), None)
            if best is None:
                best = next((n for n, result in enumerate(results) if result == "maybe"), None)
            if best is None:
                found.add("no")
                break
            found.add(results[best])
            left = left[best + 1 :]
        if found == {"yes"}:
            return "yes"
        if "no" not in found:
            concerned = "maybe"
    return concerned


def _compare(rule: ProgramRun, run: ProgramRun, is_prefix: bool) -> Concern:
    """Return whether a command is the one of the rule: its program and subcommand, its options in any order."""
    if rule.path[0] != run.path[0]:
        return "no"
    if run.path[: len(rule.path)] != rule.path:
        return "maybe" if run.is_subcommand_vague else "no"
    # A word that is not known may be any option.
    otherwise: Concern = "maybe" if run.vague else "no"
    given = {name: set[str | None]() for name, _ in run.options}
    for name, value in run.options:
        given[name].add(None if value is None else value.lower())
    # An option of a rule that ends in `tar -xf *` has no value there: it is meant with any.
    missing = {
        name
        for name, value in rule.options
        if name not in given or (value is not None and value.lower() not in given[name])
    }
    if missing:
        # What `--` stands before can be meant without it.
        return "maybe" if missing == {"--"} else otherwise
    count = len(rule.operands)
    operands, wanted = tuple(map(_plain, run.operands)), tuple(map(_plain, rule.operands))
    if operands[:count] != wanted:
        return "maybe" if _may_name(wanted, operands, run) else otherwise
    is_same = run.path == rule.path and run.options == rule.options and len(run.operands) == count
    return "yes" if is_prefix or is_same else "maybe"


def _may_name(wanted: tuple[str, ...], operands: tuple[str, ...], run: ProgramRun) -> bool:
    """Whether the operands of a rule may be among those of a command: after others, from a glob, or shortened."""
    following = iter(operands)
    if all(word in following for word in wanted):
        return True
    if any(word.startswith(glob) for word in wanted for glob in run.globs):
        return True
    first = operands[0] if operands else ""
    return run.kind == "project" and bool(first) and (wanted[0].startswith(first) or first.startswith(wanted[0]))


def _plain(word: str) -> str:
    """Return a word in which `./x`, `x/` and `x` are the same."""
    return posixpath.normpath(word) if "/" in word else word


def _occurs(pattern: CommandPattern, words: Sequence[str]) -> bool:
    """Whether the command of the rule stands anywhere in these words."""
    names = _names_of(pattern)
    places = (n for n, word in enumerate(words) if any(name in word.lower() for name in names))
    return any(_starts(pattern, tuple(words[n : n + _MAX_OPTIONS])) for n in islice(places, _MAX_LOOSE))


def _starts(pattern: CommandPattern, words: tuple[str, ...]) -> bool:
    """Whether these words start with the command of the rule."""
    if program_path(words[0])[0] != identify_rule(pattern.words)[0].path[0]:
        return False
    return _compare_runs(pattern, identify_rule(words)) == "yes"


def _names_of(pattern: CommandPattern) -> tuple[str, ...]:
    """Return the names under which the program of a rule may stand in a text."""
    written = pattern.words[0].rpartition("/")[2].lower()
    name = identify_rule(pattern.words)[0].path[0]
    return (name,) if name in written else (name, written)


def _runs(pattern: CommandPattern, words: tuple[str, ...]) -> bool:
    """Whether these words, taken as a command, run that of the rule."""
    return _starts(pattern, words) or (_occurs(pattern, words) and runs_anything(words) is not None)


def _names_program(pattern: CommandPattern, words: tuple[str, ...], runs: Sequence[ProgramRun]) -> bool:
    """Whether a tool of the project is given the rule's program in its words: it may run it."""
    names = _names_of(pattern)
    own = len(identify_rule(words)[0].path)
    # In `timeout 60 npm test` the word is the tool itself.
    seen = sum(run.path[0] in names for run in runs[1:])
    for index, word in enumerate(words[1:], start=1):
        if seen and program_path(word)[0] in names:
            seen -= 1
            continue
        if not any(name in word.lower() for name in names) or index < own:
            continue
        pieces = (piece for piece in _VALUES.split(word) if piece)
        if any(program_path(piece)[0] in names for piece in pieces) or _runs_in(pattern, word):
            return True
    return False


def _runs_in(pattern: CommandPattern, text: str) -> bool:
    """Whether a shell might run the command of the rule somewhere in this text."""
    found = (piece for name in _names_of(pattern) for piece in _pieces_with(name, text))
    return any(_runs(pattern, words) for part in islice(found, _MAX_LOOSE) for words in _loose(part))


def _pieces_with(wanted: str, text: str) -> Iterator[str]:
    """Yield the pieces of a text between operators that contain a word, in any case. Fast for any text."""
    plain, folded = _cut(text)
    end = -1
    while (place := folded.find(wanted, end + 1)) >= 0:
        start = folded.rfind("\n", end + 1, place) + 1 or end + 1
        end = folded.find("\n", place)
        end = len(folded) if end < 0 else end
        yield plain[start:end]


@lru_cache(maxsize=8)
def _cut(text: str) -> tuple[str, str]:
    """Return a text with a line for each piece, as it is and in lower case, equally long. Every rule needs it again."""
    plain = text.replace("$(", "(").replace("'", "").replace('"', "").replace("\\", "").translate(_PIECES)
    folded = plain.lower()
    # A few letters become two in lower case.
    return (plain, folded) if len(folded) == len(plain) else (folded, folded)


def _loose(part: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of a piece of text between operators, without the assignments in front."""
    words = part.split()
    start = next((index for index, word in enumerate(words) if "=" not in word), len(words))
    if start < len(words):
        yield tuple(words[start : start + _MAX_LOOSE])
