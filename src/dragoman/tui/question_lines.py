"""A permission request as lines: what will happen, spelled out, and the answers with their numbers. Pure.

Everything that runs, is written or is remembered is in these lines, and none is cut: what does not fit is scrolled.
Every line begins with our own word, so that a peer's text cannot look like an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.schema import v1
from dragoman.text.colour import BOLD, YELLOW, Painter
from dragoman.text.visible import label, spelled, wrapped
from dragoman.tui.values import host_details
from dragoman.view.build import command_of, piece_of
from dragoman.view.diffs import diff_piece
from dragoman.view.labels import kind_word
from dragoman.view.lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KINDS: Final = {
    "allow_once": "yes, this time",
    "allow_always": "yes, always",
    "reject_once": "no",
    "reject_always": "no, never",
}
_KEPT: Final = {"project": "for this project", "session": "for this session"}
_PLAIN: Final = Painter(False)


class NumberedAnswer(NamedTuple):
    """One answer: its number, its text, what it writes, and whether it can be chosen."""

    number: int
    text: str
    writes: str
    is_clear: bool
    allows: bool


def question_lines(request: v1.RequestPermissionRequest, width: int, paint: Painter = _PLAIN) -> Iterator[str]:
    """Yield the question without its answers. Hidden characters of a command or a path are spelled out."""
    call, own = request.tool_call, host_details(request)
    title = call.title if isinstance(call.title, str) else ""
    kind = kind_word(call.kind) if isinstance(call.kind, str) else "tool"
    yield paint("question:", YELLOW) + f" {label(kind, 20)}: {label(title or call.tool_call_id, max(20, width - 30))}"
    commands = list(_commands(call, own, width))
    if commands and isinstance(own.get("cwd"), str):
        yield from _spelled("in", own["cwd"], width)
    yield from commands
    content = call.content if isinstance(call.content, list | tuple) else ()
    changed = {item.path for item in content if isinstance(item, v1.Diff)}
    for place in call.locations if isinstance(call.locations, list | tuple) else ():
        if place.path not in changed:
            yield from _spelled("file", place.path, width)
    for path in _texts(own.get("outside")):
        yield from _spelled("outside the project", path, width)
    if isinstance(own.get("why"), str) and own["why"]:
        yield from _spelled("why", own["why"], width)
    for item in content:
        if isinstance(item, v1.Diff):
            yield from _diff(item, width, paint)
        elif isinstance(item, v1.Content):
            text = getattr(piece_of(item.content), "text", "")
            for line in text.splitlines():
                yield from _spelled("", line, width)


def answers_of(request: v1.RequestPermissionRequest) -> list[NumberedAnswer]:
    """The answers in the agent's order, numbered from 1."""
    written = host_details(request).get("options")
    found = []
    for number, option in enumerate(request.options, 1):
        meaning = _KINDS.get(str(option.kind), "a kind that this version does not know")
        own = written.get(option.option_id) if isinstance(written, dict) else None
        found.append(
            NumberedAnswer(
                number,
                f"{label(option.name, 80)} ({label(meaning, 40)})",
                _writes(option, own if isinstance(own, dict) else {}),
                _is_clear(option, request.options),
                not str(option.kind).startswith("reject"),
            )
        )
    return found


def answer_lines(request: v1.RequestPermissionRequest, width: int, paint: Painter = _PLAIN) -> Iterator[str]:
    """Yield the answers, and below each what it writes."""
    for answer in answers_of(request):
        if not answer.is_clear:
            yield f"  -: {answer.text}; cannot be chosen, its meaning is not clear"
            continue
        yield f"  {paint(str(answer.number), BOLD)}: {answer.text}"
        if answer.writes:
            for number, part in enumerate(wrapped(answer.writes, max(20, width - 5))):
                yield f"     {part}" if not number else f"       {part}"


def _writes(option: v1.PermissionOption, own: dict[str, Any]) -> str:
    """What an answer of "always" writes, and who keeps it."""
    if option.kind not in ("allow_always", "reject_always"):
        return ""
    rule, kept = own.get("rule"), _KEPT.get(str(own.get("kept")), "in its own way")
    if not isinstance(rule, str):
        return "writes no rule here; the agent remembers it in its own way"
    action = "allow" if option.kind == "allow_always" else "deny"
    if own.get("by") == "host":
        where = f", in {spelled(str(own['file']))}" if isinstance(own.get("file"), str) else ""
        return f"writes the rule: {action} {spelled(rule)}, {kept}{where}"
    return f"the agent writes the rule: {action} {spelled(rule)}, {kept}"


def _is_clear(option: v1.PermissionOption, options: Sequence[v1.PermissionOption]) -> bool:
    """Whether an option has one known meaning: two kinds under one id look the same on the wire."""
    twins = {other.kind for other in options if other.option_id == option.option_id}
    return len(twins) == 1 and option.kind in _KINDS


def _commands(call: v1.ToolCallPatch, own: dict[str, Any], width: int) -> Iterator[str]:
    commands = _texts(own.get("commands"))
    named = command_of(call.raw_input)
    if named is not None and named not in commands:
        commands.insert(0, named)
    for command in commands:
        yield from _spelled("command", command, width)
    count = own.get("commandCount")
    if isinstance(count, int) and count > 1:
        yield f"  {count} commands run with this answer"


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


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
