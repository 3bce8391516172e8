"""A permission request as lines: how its words are laid out, and the answers with their numbers. Pure.

The words are made in `client/question_words.py`. Everything that runs, is written or is remembered is in these lines,
and none is cut: what does not fit is scrolled.
Every line begins with our own word, so that a peer's text cannot look like an answer.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from dragoman.client.question_words import answer_letters
from dragoman.host.working.question_details import answers_of, words_of
from dragoman.schema import v1
from dragoman.text.colour import BOLD, GREEN, RED, YELLOW, Painter
from dragoman.text.terminal import cells
from dragoman.text.visible import label, quoted, spelled, wrapped
from dragoman.view.build import piece_of
from dragoman.view.diffs import diff_piece
from dragoman.view.labels import kind_word

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN: Final = Painter(False)


def question_lines(request: v1.RequestPermissionRequest, width: int, paint: Painter = _PLAIN) -> Iterator[str]:
    """Yield the question without its answers: what was read, why it is asked, and what the agent calls it."""
    call, words = request.tool_call, words_of(request)
    shown = label(words.title, max(20, width - 30))
    yield paint("question:", YELLOW) + f" {label(kind_word(words.kind), 20)}: {shown}"
    content = call.content if isinstance(call.content, list | tuple) else ()
    changed = {quoted(item.path) for item in content if isinstance(item, v1.Diff)}
    for row in words.rows:
        if row.key == "path" and not row.note and changed.issuperset(row.lines):
            continue  # above the change, which is shown whole
        lead = f"  {row.key}: " if row.key else "  "
        note = f" ({row.note})" if row.note else ""
        lines = [part for line in row.lines for part in wrapped(line, max(20, width - len(lead) - len(note)))]
        for number, line in enumerate(lines):
            last = note if number == len(lines) - 1 else ""
            yield f"{' ' * len(lead) if number else lead}{line}{last}"
    if words.why:
        yield from _spelled("why", words.why, width)
    if words.agent_title:
        yield from _spelled("the agent calls it", words.agent_title, width)
    for item in content:
        if isinstance(item, v1.Diff):
            yield from _diff(item, width, paint)
    texts = [getattr(piece_of(item.content), "text", "") for item in content if isinstance(item, v1.Content)]
    for line in "\n".join(texts).splitlines():
        yield from _spelled("", line, width)


def answer_lines(request: v1.RequestPermissionRequest, width: int, paint: Painter = _PLAIN) -> Iterator[str]:
    """Yield the answers with letters and numbers, and what each writes: behind it if there is room, else below it."""
    answers = answers_of(request)
    for number, (answer, letter) in enumerate(zip(answers, answer_letters(answers), strict=True), 1):
        text = answer.text(width - 10)
        if not answer.is_clear:
            yield f"    -: {text}; cannot be chosen, its meaning is not clear"
            continue
        behind = f"; {answer.effect}" if answer.effect else ""
        fits = cells(f"  y {number}: {text}{behind}") < width
        keys = f"{paint(letter, BOLD) if letter else ' '} {paint(str(number), BOLD)}"
        yield f"  {keys}: {text}{behind if fits else ''}"
        if answer.effect and not fits:
            # One column is left for the mark of a card: a rule is never cut.
            yield from (f"       {part}" for part in wrapped(answer.effect, max(20, width - 8)))


def is_answer_line(line: str) -> bool:
    """Return whether a line of `answer_lines`, without colours, begins an answer."""
    return line[4:5] in ("-", *"123456789") and line[5:6] in (":", *"0123456789")


def answer_named(request: v1.RequestPermissionRequest, key: str) -> int | None:
    """Return the number of the answer that a letter or a number names; None if none has it."""
    answers = answers_of(request)
    if key.isascii() and key.isdigit() and len(key) < 4:
        return int(key) if 1 <= int(key) <= len(answers) else None
    return next((at for at, letter in enumerate(answer_letters(answers), 1) if letter and letter == key), None)


def _spelled(name: str, text: str, width: int) -> Iterator[str]:
    lead = f"  {name}: " if name else "    "
    for line in text.split("\n"):
        for part in wrapped(spelled(line), max(20, width - len(lead))):
            yield lead + part
            lead = " " * len(lead)


def _diff(item: v1.Diff, width: int, paint: Painter) -> Iterator[str]:
    """Yield the whole change, however long it is: what is left out of it would be allowed unseen."""
    old = item.old_text if isinstance(item.old_text, str) else None
    piece = diff_piece(item.path, old, item.new_text, most=sys.maxsize)
    head = f"{spelled(item.path)} +{piece.added} -{piece.removed}{', new file' if piece.is_new else ''}"
    yield from (f"  {paint(part, BOLD)}" for part in wrapped(head, width - 2))
    for hunk in piece.hunks:
        for line in hunk.lines:
            style = {"+": GREEN, "-": RED}.get(line.sign, "")
            for part in wrapped(line.sign + spelled(line.text), width - 2):
                yield f"  {paint(part, style) if style else part}"
