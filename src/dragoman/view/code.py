"""The words of code by their class, for colours in pages: keyword, value, string, comment, or none of them. Pure.

A small reader of its own instead of a package of lexers: it knows families of languages and not their grammar, takes
time in proportion to the text, and never changes it. What it does not know has no colours.
"""

from __future__ import annotations

import re
from functools import cache
from keyword import kwlist
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dragoman.view.elements import make

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.view.elements import ElementChild

CodeRun: TypeAlias = tuple[str, str]
"""Text without a line break, and its class: empty for plain text."""

MOST_CHARACTERS: Final = 200_000  # of one text that gets colours


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VALUES: Final = _words("True False None true false null nil undefined NaN Infinity yes no on off self this")
_PYTHON: Final = frozenset([*kwlist, "match", "case", "type"]) - _VALUES
_BRACES: Final = _words(
    "abstract as async await auto bool boolean break byte case catch chan char class const constexpr continue crate"
    " debugger declare default defer delete do double dyn else enum export extends extern fallthrough final finally"
    " float fn for foreach from func function get go goto if impl implements import in inline instanceof int"
    " interface internal is keyof let long loop map match mod module move mut namespace new of operator override"
    " package private protected pub public range readonly ref return satisfies select set short signed sizeof static"
    " string struct super switch template throw throws trait try type typedef typeof union unsafe unsigned use using"
    " val var virtual void volatile when where while with yield"
)
_SHELL: Final = _words(
    "if then else elif fi for while until do done case esac in function return local export readonly unset set exit"
    " begin end def class module require include unless elsif rescue ensure yield sub my use package"
)
_SQL: Final = _words(
    "add all alter and any as asc begin between by case column commit constraint create cross default delete desc"
    " distinct drop else end exists foreign from full function group having if in index inner insert into is join key"
    " left like limit local not on or order outer primary references repeat return right rollback select set table"
    " then union unique until update values view when where while with"
)

_DOUBLE: Final = r'"(?:[^"\\\n]|\\.)*"?'
_SINGLE: Final = r"'(?:[^'\\\n]|\\.)*'?"
_TICKS: Final = r"`(?:[^`\\\n]|\\.)*`?"
# Without an end it reaches to the last line: to look for the end again and again would take too long.
_BLOCK: Final = r"/\*[\s\S]*?(?:\*/|\Z)"
# After a letter or a full stop three quotes end a text that began above the lines that are shown.
_TRIPLE: Final = r'(?<![\w.!?])[rbfuRBFU]{0,2}(?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\')'
_HASH: Final = r"(?<![\w$&{])#[^\n]*"
_SLASHES: Final = rf"//[^\n]*|{_BLOCK}"
_NUMBER: Final = r"(?<![\w.])(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w*"
_WORD: Final = r"[^\W\d]\w*"


class _Family(NamedTuple):
    """Languages that are read alike."""

    comment: str
    string: str
    keywords: frozenset[str] = frozenset()
    value: str = _NUMBER
    keyword: str = r"(?!)"
    ignores_case: bool = False


_FAMILIES: Final = {
    "python": _Family(_HASH, f"{_TRIPLE}|{_DOUBLE}|{_SINGLE}", _PYTHON, keyword=r"(?m:^[ \t]*@[\w.]+)"),
    "braces": _Family(_SLASHES, f"{_DOUBLE}|{_SINGLE}|{_TICKS}", _BRACES),
    "rust": _Family(_SLASHES, rf"{_DOUBLE}|'(?:[^'\\\n]|\\[^\n]{{1,8}}?)'", _BRACES),
    "shell": _Family(_HASH, f"{_DOUBLE}|{_SINGLE}", _SHELL, value=rf"{_NUMBER}|\$\w+|\$\{{\w+"),
    "settings": _Family(
        rf"{_HASH}|(?m:^;[^\n]*)",
        f"{_DOUBLE}|{_SINGLE}",
        keyword=r"(?m:^[ \t]*(?:- )?[\w.-]+(?=\s?[:=])|^\[[^\]\n]*\])",
    ),
    "json": _Family(_SLASHES, _DOUBLE, keyword=r'"(?:[^"\\\n]|\\.)*"(?=\s*:)'),
    "sql": _Family(rf"--[^\n]*|{_BLOCK}", f"{_DOUBLE}|{_SINGLE}", _SQL, ignores_case=True),
    "tags": _Family(r"<!--[\s\S]*?(?:-->|\Z)", rf"(?<==){_DOUBLE}|(?<==){_SINGLE}", keyword=r"</?[A-Za-z][\w:.-]*|/?>"),
    "style": _Family(
        _BLOCK,
        f"{_DOUBLE}|{_SINGLE}",
        value=rf"#[\da-fA-F]{{3,8}}\b|{_NUMBER}%?",
        keyword=r"@[\w-]+|--[\w-]+|(?<![\w-])[\w-]++(?=\s*:\s)",
    ),
}
_ENDINGS: Final = {
    ending: family
    for family, endings in {
        "python": "py pyi pyw python python3",
        "braces": "c h cc cpp cxx hpp hh m cs java kt kts scala groovy gradle swift dart go js jsx mjs cjs ts tsx mts"
        " cts php zig proto javascript typescript kotlin golang c++ csharp",
        "rust": "rs rust",
        "shell": "sh bash zsh fish rb pl mk makefile dockerfile shell console ruby perl cmake tf nix ex exs r",
        "settings": "yaml yml toml ini cfg conf env properties editorconfig gitignore",
        "json": "json jsonc json5 jsonl webmanifest",
        "sql": "sql lua hs haskell",
        "tags": "html htm xml svg xhtml vue svelte xsl plist",
        "style": "css scss less sass",
    }.items()
    for ending in endings.split()
}


def code_lines(name: str, lines: Sequence[str]) -> list[list[CodeRun]] | None:
    """Return the runs of each line of code in a language, or of a named file; None for what gets no colours."""
    base = re.split(r"[/\\]", name.strip())[-1].lower()
    family = _ENDINGS.get(base.rpartition(".")[2])
    text = "\n".join(lines)
    if family is None or len(text) > MOST_CHARACTERS:
        return None
    runs: list[list[CodeRun]] = [[]]
    for piece, kind in _runs(text, family):
        first, *others = piece.split("\n")
        if first:
            runs[-1].append((first, kind))
        for other in others:
            runs.append([(other, kind)] if other else [])
    return runs


def code_elements(runs: Iterable[CodeRun]) -> list[ElementChild]:
    """Return runs of code as elements."""
    return [
        make("span", " ".join(f"c-{kind}" if kind != "changed" else kind for kind in style.split()), text)
        if style
        else text
        for text, style in runs
    ]


def _runs(text: str, family: str) -> Iterator[CodeRun]:
    rules, at = _FAMILIES[family], 0
    for found in _pattern(family).finditer(text):
        kind = found.lastgroup or ""
        if kind == "word":
            word = found[0].lower() if rules.ignores_case else found[0]
            kind = "keyword" if word in rules.keywords else "value" if word in _VALUES else ""
        if kind:
            if at < found.start():
                yield text[at : found.start()], ""
            yield found[0], kind
            at = found.end()
    if at < len(text):
        yield text[at:], ""


@cache
def _pattern(family: str) -> re.Pattern[str]:
    rules = _FAMILIES[family]
    groups = {name: getattr(rules, name) for name in ("comment", "keyword", "string", "value")} | {"word": _WORD}
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in groups.items()))
