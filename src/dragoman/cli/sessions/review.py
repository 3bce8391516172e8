"""`dragoman sessions review`: the hunks of a turn, each kept or taken back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli import console, exits
from dragoman.cli.sessions.turns import chosen_turn, find_turns
from dragoman.snapshots.review import Review, ReviewedFile, ReviewRefused
from dragoman.snapshots.session_turns import BY, notes_of, shown_path
from dragoman.text.colour import BOLD, CYAN, DIM, GREEN, RED, Painter

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.workspace import Hunk

_HELP = "y keep it, n take it back, a keep the rest of the file, d take back the rest of the file, s later, q stop"


def review_session(call: CliCall) -> int:
    found = find_turns(call)
    number, records = chosen_turn(found, call.given.turn)
    reviews = [Review(found.rewinder(record), record) for record in records]
    if call.given.keep or call.given.revert:
        return _decide(call, reviews)
    if call.given.json:
        files = [_described(file) for review in reviews for file in review.files()]
        console.write_json({"session_id": found.session_id, "turn": number, "files": files})
        return exits.OK
    for note in notes_of(records):
        console.write_note(note)
    if _can_ask():
        return _ask_all(reviews)
    _list(reviews)
    return exits.OK


def _decide(call: CliCall, reviews: list[Review]) -> int:
    """Do what `--keep` and `--revert` say, in this order."""
    failures = 0
    wanted = [(word, True) for word in call.given.keep] + [(word, False) for word in call.given.revert]
    for word, is_kept in wanted:
        path, hunks = _target(word)
        try:
            review = _with(path, reviews)
            if is_kept:
                review.keep(path, hunks)
            else:
                outcome = review.revert(path, hunks)
                for failure in outcome.failed:
                    raise ReviewRefused(f"{failure.path}: {failure.reason}")
        except ReviewRefused as reason:
            failures += 1
            console.write_note(f"refused: {reason}")
        else:
            console.write_note(f"{'kept' if is_kept else 'taken back'}: {word}")
    return exits.CHECK_FAILED if failures else exits.OK


def _with(path: str, reviews: list[Review]) -> Review:
    for review in reviews:
        if any(file.change.path == path for file in review.files()):
            return review
    raise ReviewRefused(f"{path} was not changed in this turn")


def _target(word: str) -> tuple[str, list[int]]:
    """Split `FILE` or `FILE:HUNK` or `FILE:1,3`."""
    path, colon, numbers = word.rpartition(":")
    parts = numbers.split(",")
    if colon and all(part.isdigit() for part in parts):
        return path, [int(part) for part in parts]
    return word, []


def _described(file: ReviewedFile) -> dict[str, Any]:
    return {
        "path": shown_path(file.change.path),
        "kind": file.change.kind,
        "by": file.change.by,
        "is_kept": file.is_kept,
        "problem": file.change.problem or None,
        "hunks": [
            {
                "number": number,
                "is_kept": file.is_kept or number in file.kept,
                "line": hunk.after_line,
                "removed": [_text(line) for line in hunk.before],
                "added": [_text(line) for line in hunk.after],
            }
            for number, hunk in enumerate(file.hunks, 1)
        ],
    }


def _text(line: str) -> str:
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _list(reviews: list[Review]) -> None:
    for review in reviews:
        for file in review.files():
            _head(file)
            for number, hunk in enumerate(file.hunks, 1):
                _write_hunk(file, number, hunk)


def _head(file: ReviewedFile) -> None:
    from dragoman.text.terminal import one_line

    change = file.change
    name = shown_path(change.path if change.origin is None else f"{change.old_path} -> {change.path}")
    state = ", kept" if file.is_kept else ""
    painter = Painter(console.uses_colour(sys.stdout))
    sys.stdout.write(painter(one_line(f"{name} ({change.kind}, {BY[change.by]}{state})"), BOLD) + "\n")


def _write_hunk(file: ReviewedFile, number: int, hunk: Hunk) -> None:
    from dragoman.text.terminal import one_line, plain

    painter = Painter(console.uses_colour(sys.stdout))
    mark = " (kept)" if file.is_kept or number in file.kept else ""
    head = f"  hunk {shown_path(file.change.path)}:{number}, line {hunk.after_line}{mark}"
    sys.stdout.write(painter(one_line(head), CYAN) + "\n")
    for sign, colour, lines in (("-", RED, hunk.before), ("+", GREEN, hunk.after)):
        for line in lines:
            sys.stdout.write("  " + painter(sign + plain(_text(line).rstrip("\n")), colour) + "\n")


def _can_ask() -> bool:
    from dragoman.cli.prompt.keyboard import TERMINAL, can_read

    return sys.stdout.isatty() and sys.stderr.isatty() and can_read(TERMINAL)


def _ask_all(reviews: list[Review]) -> int:
    """Ask about every hunk that was not decided yet."""
    from dragoman.cli.prompt.keyboard import TERMINAL

    painter = Painter(console.uses_colour(sys.stdout))
    sys.stdout.write(painter(_HELP, DIM) + "\n")
    with open(TERMINAL, encoding="utf-8", errors="replace") as terminal:
        for review in reviews:
            for file in review.files():
                if file.is_kept:
                    continue
                _head(file)
                units: list[tuple[list[int], Hunk | None]]
                units = [([number], hunk) for number, hunk in enumerate(file.hunks, 1) if number not in file.kept]
                if not _ask_file(review, file, units or [([], None)], terminal.readline):
                    return exits.OK
    return exits.OK


def _ask_file(review: Review, file: ReviewedFile, units: list[tuple[list[int], Hunk | None]], read: Any) -> bool:
    """Ask about one file; False if the user stops."""
    rest = ""
    for numbers, hunk in units:
        if hunk is not None:
            _write_hunk(file, numbers[0], hunk)
        answer = rest
        while answer not in ("y", "n", "a", "d", "s", "q"):
            sys.stdout.write("keep it? [y/n/a/d/s/q] ")
            sys.stdout.flush()
            line = read()
            answer = "q" if not line else line.strip().lower()[:1]
        if answer == "q":
            return False
        rest = answer if answer in ("a", "d") else ""
        try:
            if answer in ("y", "a"):
                review.keep(file.change.path, numbers)
            elif answer in ("n", "d"):
                for failure in review.revert(file.change.path, numbers).failed:
                    raise ReviewRefused(f"{failure.path}: {failure.reason}")
        except ReviewRefused as reason:
            console.write_note(f"refused: {reason}")
    return True
