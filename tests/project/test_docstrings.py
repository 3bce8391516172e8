"""One mood: a function's docstring begins with an imperative verb, that of a thing with a noun phrase.

A function or method begins with a verb in the form of a command: "Return the lines", "Show a card". Things are modules,
classes, properties: "The open requests of one direction". A function that returns a `bool` may also begin with
"Whether"; a docstring that has only sections ("Raises: ...") has no first sentence; that of a case which judges a
program is what the case expects, as reports print it. `CONTRIBUTING.md` states this.

No grammar is parsed. What cannot be the form of a command is seen by its ending, by a list of words, and by the "of" of
a noun; what is accepted without being a verb is rare and left to readers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.project.sources import PACKAGE, is_generated, own_sources, tree_of

SECTIONS = ("Args:", "Raises:", "Returns:", "Yields:")
_WORD = re.compile(r"[A-Z][a-z]+(?:-[a-z]+)*(?=[\s,.;]|$)")
# Words that begin a noun phrase, a clause or a condition.
_NEVER_A_COMMAND = frozenset(
    (
        *("a", "an", "the", "this", "that", "these", "those", "its", "our", "their", "it", "they", "we", "you"),
        *("what", "which", "who", "whom", "whose", "when", "where", "why", "how", "whether", "if", "unless", "until"),
        *("all", "any", "both", "each", "either", "every", "neither", "no", "none", "not", "only", "other", "another"),
        *("one", "two", "three", "several", "some", "such", "more", "most", "many", "few", "same", "there", "so"),
        *("anything", "everything", "nothing", "something", "as", "at", "after", "before", "between", "by", "during"),
        *("for", "from", "in", "into", "of", "on", "once", "since", "than", "then", "through", "to", "under", "while"),
        *("with", "within", "without", "also", "exactly", "here", "now", "false", "true", "forever"),
    )
)
# Nouns that were first words. A noun that is also a verb (answer, name, state) is accepted: a reader sees the rest.
_NOUNS = frozenset(
    (
        *("agent", "client", "code", "command", "content", "file", "folder", "host", "inline", "id", "item", "line"),
        *("message", "metadata", "model", "mode", "number", "option", "output", "path", "permission", "picture", "row"),
        *("sentence", "session", "size", "text", "time", "tool", "turn", "user", "value", "version", "word"),
    )
)
_ENDINGS = ("s", "ed", "ing")
_VERBS_WITH_SUCH_AN_ENDING = frozenset(
    ("bring", "discuss", "embed", "exceed", "feed", "focus", "need", "proceed", "ring", "seed", "speed", "string")
)
_SECOND_WORD = re.compile(r"\S+\s+of\b")
# Third-person forms that are not the plural of a noun too; a thing does not begin with them.
_VERBS_OF_THINGS = frozenset(
    (
        *("accepts", "adds", "applies", "appends", "asks", "begins", "behaves", "builds", "closes", "collects"),
        *("compares", "connects", "converts", "creates", "decides", "decodes", "distinguishes", "draws", "drives"),
        *("encloses", "encodes", "ends", "fetches", "finds", "fits", "folds", "follows", "gets", "gives", "goes"),
        *("imports", "installs", "joins", "judges", "keeps", "kills", "lets", "loads", "logs", "looks"),
        *("makes", "opens", "owns", "parses", "passes", "plays", "presents", "prints", "raises", "reads"),
        *("recognises", "redacts", "remembers", "removes", "replaces", "replays", "restarts", "returns", "runs"),
        *("searches", "selects", "sends", "separates", "serialises", "serves", "sets", "shortens", "shows", "speaks"),
        *("splits", "stands", "starts", "stops", "summarises", "takes", "translates", "tries", "turns", "unpacks"),
        *("waits", "walks", "watches", "writes"),
    )
)


def is_command(docstring: str) -> bool:
    """Whether a function's docstring begins as an imperative sentence does, or has only sections."""
    if docstring.startswith(SECTIONS):
        return True
    first = _WORD.match(docstring)
    if first is None:
        return False
    word = first[0].lower()
    if word in _NEVER_A_COMMAND or word in _NOUNS or _SECOND_WORD.match(docstring):
        return False
    return not word.endswith(_ENDINGS) or word.endswith("ss") or word in _VERBS_WITH_SUCH_AN_ENDING


def is_noun_phrase(docstring: str) -> bool:
    """Whether the docstring of a thing begins neither with a verb about it nor as a function does."""
    word = docstring.split(maxsplit=1)[0].strip(",.;:").lower()
    return word not in _VERBS_OF_THINGS and word != "return"


def definitions(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the module and what it defines. Only statements are entered: most of a tree is expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            below = getattr(node, name, None)
            if isinstance(below, list):
                waiting += below


def problems(tree: ast.Module) -> Iterator[str]:
    """Yield a line for each docstring of a file in the wrong mood."""
    for node in definitions(tree):
        docstring = ast.get_docstring(node)
        if not docstring or "case" in _decorators(node):
            continue
        is_thing = isinstance(node, ast.Module | ast.ClassDef) or _is_property(node)
        is_right = is_noun_phrase(docstring) if is_thing else is_command(docstring) or _is_answer(node, docstring)
        if not is_right:
            name, line = ("the module", 1) if isinstance(node, ast.Module) else (node.name, node.lineno)
            yield f"{line}: {name}: {docstring.splitlines()[0]}"


def _decorators(node: ast.AST) -> set[str]:
    """Return the last word of the name of each decorator: `@functools.cached_property`, `@case("agent/cancel")`."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return {re.split(r"[._]", ast.unparse(decorator).partition("(")[0])[-1] for decorator in decorators}


def _is_property(node: ast.AST) -> bool:
    return "property" in _decorators(node)


def _is_answer(node: ast.AST, docstring: str) -> bool:
    """Whether this says "Whether", and the function answers with yes or no."""
    returns = node.returns if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
    annotation = ast.unparse(returns).strip("'\"") if returns else ""
    return docstring.startswith("Whether ") and annotation.startswith(("bool", "TypeGuard", "TypeIs"))


def test_docstrings_have_one_mood() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{problem}"
        for path in own_sources()
        if not is_generated(path)
        for problem in problems(tree_of(path))
    ]
    assert not wrong, f"{len(wrong)} docstrings in another mood\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "docstring",
    [
        *("Return the lines.", "Pass a key on.", "Feed bytes.", "Bring it back, if it can be.", "Re-read the file."),
        *("Raises: OSError.", "Leave, unless a turn runs.", "Begin."),
    ],
)
def test_commands_are_accepted(docstring: str) -> None:
    assert is_command(docstring)


@pytest.mark.parametrize(
    "docstring",
    [
        *("The lines of a file.", "A card.", "Returns the lines.", "Rows that are shown.", "Called after a turn."),
        *("Content of a file.", "`!COMMAND` runs a command.", "Ctrl+D: leave.", "What is left.", "Enter: send it."),
        *("Waiting ends.", "Whether it is so."),
    ],
)
def test_other_moods_are_refused(docstring: str) -> None:
    assert not is_command(docstring)


def test_things_and_answers_have_their_form() -> None:
    source = '''"""Reads files."""
class Reader:
    """Reads a file."""
    @property
    def size(self) -> int:
        """Return the size."""
    @property
    def end(self) -> int:
        """The end of the file."""
    def is_open(self) -> bool:
        """Whether it can be read."""
    def name(self) -> str:
        """Whether it has a name."""
    async def close(self) -> None:
        """Closes it."""
    @case("reader/size")
    def size_is_known(self) -> None:
        """A reader knows its size."""
'''
    tree = ast.parse(source)
    assert [problem.split(":")[1].strip() for problem in problems(tree)] == [
        *("the module", "Reader", "size", "name", "close"),
    ]
