"""The text of an edit is found up to harmless differences, and never when it is only similar."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import dragoman
from dragoman.builtin.tools.edit import EditPiece, plan_edit
from dragoman.builtin.tools.edit_match import match_edit
from dragoman.builtin.tools.tool import ToolError

SOURCES = sorted(Path(dragoman.__file__).parent.glob("policy/*.py"))


def blocks(count: int, seed: int) -> list[tuple[str, str]]:
    """Pieces of real files that occur once: (file, piece of 3 to 12 lines)."""
    choice = random.Random(seed)
    found: list[tuple[str, str]] = []
    while len(found) < count:
        text = choice.choice(SOURCES).read_text()
        lines = text.split("\n")
        length = choice.randint(3, 12)
        first = choice.randrange(max(len(lines) - length, 1))
        piece = lines[first : first + length]
        block = "\n".join(piece)
        if text.count(block) == 1 and piece[0].strip() and piece[-1].strip():
            found.append((text, block))
    return found


def _indent(block: str) -> str:
    return "\n".join("    " + line if line.strip() else line for line in block.split("\n"))


def _dedent(block: str) -> str:
    import textwrap

    return textwrap.dedent(block)


def _tabs(block: str) -> str:
    return "\n".join("\t" * ((len(line) - len(line.lstrip(" "))) // 4) + line.lstrip(" ") for line in block.split("\n"))


PERTURBED: dict[str, Callable[[str], str]] = {
    "exact": lambda block: block,
    "blanks at line ends": lambda block: "\n".join(line + "  " for line in block.split("\n")),
    "CRLF": lambda block: block.replace("\n", "\r\n"),
    "deeper": _indent,
    "not indented": _dedent,
    "tabs": _tabs,
    "numbers": lambda block: "\n".join(f"{n:6}\t{line}" for n, line in enumerate(block.split("\n"), 41)),
    "arrows": lambda block: "\n".join(f"{n:6}→{line}" for n, line in enumerate(block.split("\n"), 99)),
    "typographic": lambda block: block.replace('"', "”").replace("'", "’").replace("-", "–"),
    "escaped": lambda block: block.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"'),
}


@pytest.mark.parametrize("kind", PERTURBED)
def test_a_perturbed_block_is_found_where_it_is_and_gets_the_files_form(kind: str) -> None:
    """Replacing a perturbed block by its equally perturbed successor gives what exact texts give."""
    wrong, missing = 0, 0
    pieces = blocks(150, seed=1)
    for text, block in pieces:
        changed = block + "\n" + block.split("\n")[0] + "  # added"
        expected = plan_edit("a", text, [EditPiece(block, changed)]).changed
        try:
            found = plan_edit("a", text, [EditPiece(PERTURBED[kind](block), PERTURBED[kind](changed))]).changed
        except ToolError:
            missing += 1
            continue
        plain = ["\n".join(line.rstrip() for line in each.split("\n")) for each in (found, expected)]
        wrong += plain[0] != plain[1]
    assert wrong == 0
    assert missing <= len(pieces) * (0.1 if kind == "escaped" else 0.02)


def _other_word(line: str) -> str:
    words = line.split(" ")
    return " ".join([*words[:-1], words[-1] + "x"])


STALE: dict[str, Callable[[list[str]], list[str]]] = {
    "another word": lambda lines: [*lines[:1], _other_word(lines[1]), *lines[2:]],
    "a line less": lambda lines: [*lines[:1], *lines[2:]],
    "a line more": lambda lines: [*lines[:1], "        unknown = 1", *lines[1:]],
    "not": lambda lines: [*lines[:1], "not " + lines[1].strip(), *lines[2:]],
}


@pytest.mark.parametrize("kind", STALE)
def test_a_text_that_is_only_similar_is_never_accepted(kind: str) -> None:
    for text, block in blocks(150, seed=2):
        stale = "\n".join(STALE[kind](block.split("\n")))
        if stale != block and [line.strip() for line in stale.split("\n")] != [
            line.strip() for line in block.split("\n")
        ]:
            match = match_edit(text, stale, "new")
            assert match is None or stale in text


def test_the_first_attempt_that_finds_two_places_decides() -> None:
    """Ignoring more can only find more, so that it must not make an ambiguous text unique."""
    match = match_edit("  a = 1\n    a = 1\n", "a = 1", "a = 2")
    assert match is not None
    assert (len(match.places), match.ignored) == (2, "")


def test_every_place_is_replaced_only_where_that_is_safe() -> None:
    text = "if x:\n    a = 1  \n    b = 2\nelse:\n    a = 1\n    b = 2\n"
    plan = plan_edit("a", text, [EditPiece("a = 1\nb = 2", "c = 3", all=True)])
    assert plan.changed == "if x:\n    c = 3\nelse:\n    c = 3\n"
    with pytest.raises(ToolError, match="copy it exactly to replace every one"):
        plan_edit("a", "f(“x”)\ng()\nf(“x”)\n", [EditPiece('f("x")', "h()", all=True)])


def test_numbers_in_the_new_text_that_do_not_count_up_stop_the_attempt() -> None:
    assert match_edit("a\nb\n", "1\ta\n2\tb", "1\ta\nx\n2\tb") is None


def test_a_new_line_with_less_white_space_than_is_removed_stops_the_attempt() -> None:
    text = "def f():\n    pass\n"
    match = match_edit(text, "    def f():\n        pass", "# f\n    def f():\n        return 1")
    assert match is not None
    assert match.ignored == "white space at both ends of lines"
    assert match.places[0].new == "# f\ndef f():\n    return 1"


def test_new_lines_take_the_files_tabs() -> None:
    text = "func f() {\n\tif x {\n\t\ta()\n\t}\n}\n"
    plan = plan_edit(
        "a.go", text, [EditPiece("    if x {\n        a()\n    }", "    if x {\n        a()\n            b()\n    }")]
    )
    assert plan.changed == "func f() {\n\tif x {\n\t\ta()\n\t\t\tb()\n\t}\n}\n"


def test_typographic_characters_of_the_file_stay() -> None:
    text = "say “hello” – twice\nuntouched “quote”\n"
    plan = plan_edit("a", text, [EditPiece('say "hello" - twice', 'say "bye" - twice')])
    assert plan.changed == 'say "bye" – twice\nuntouched “quote”\n'  # which of “ and ” is meant cannot be known
