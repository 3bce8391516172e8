"""A permission request as lines: what will happen, spelled out, and the answers with their numbers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.schema import v1
from dragoman.text.colour import BOLD, YELLOW
from dragoman.text.visible import label, spelled, wrapped
from dragoman.view.build import command_of, piece_of
from dragoman.view.diffs import diff_piece
from dragoman.view.lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.text.colour import Painter

_KINDS: Final = {
    "allow_once": "yes, this time",
    "allow_always": "yes, always",
    "reject_once": "no",
    "reject_always": "no, never",
}


def question_lines(request: v1.RequestPermissionRequest, width: int, paint: Painter) -> Iterator[str]:
    """Yield the question. Invisible characters of a command or a path are spelled out, and nothing is cut off."""
    call = request.tool_call
    title = call.title if isinstance(call.title, str) else ""
    kind = str(call.kind) if isinstance(call.kind, str) else "tool"
    yield paint("question:", YELLOW) + f" {label(kind, 20)}: {label(title or call.tool_call_id, max(20, width - 30))}"
    command = command_of(call.raw_input)
    if command is not None:
        yield from _spelled("command", command, width)
    for place in call.locations if isinstance(call.locations, list | tuple) else ():
        yield from _spelled("file", place.path, width)
    for item in call.content if isinstance(call.content, list | tuple) else ():
        if isinstance(item, v1.Diff):
            yield from _diff(item, width, paint)
        elif isinstance(item, v1.Content):
            text = getattr(piece_of(item.content), "text", "")
            for line in text.splitlines():
                yield from _spelled("", line, width)
    for number, option in enumerate(request.options, 1):
        meaning = _KINDS.get(str(option.kind), str(option.kind))
        yield f"  {paint(str(number), BOLD)}: {label(option.name, 80)} ({label(meaning, 30)})"
    yield "answer with a number and Enter; another line is a prompt and answers nothing"


def _spelled(name: str, text: str, width: int) -> Iterator[str]:
    lead = f"  {name}: " if name else "    "
    for line in text.split("\n"):
        for part in wrapped(spelled(line), max(20, width - len(lead))):
            yield lead + part
            lead = " " * len(lead)


def _diff(item: v1.Diff, width: int, paint: Painter) -> Iterator[str]:
    from dragoman.view.blocks import ToolBlock

    old = item.old_text if isinstance(item.old_text, str) else None
    piece = diff_piece(item.path, old, item.new_text)
    block = ToolBlock(0, None, "", "", "edit", "", content=(piece,))
    lines = lines_of([block], width, paint, is_full=True)
    next(lines, None)  # the head of a tool call
    yield from lines
