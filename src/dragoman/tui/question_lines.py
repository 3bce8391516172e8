"""A permission request as lines: what will happen, spelled out, and the answers with their numbers. Pure.

Everything that runs, is written or is remembered is in these lines, and none is cut: what does not fit is scrolled.
Every line begins with our own word, so that a peer's text cannot look like an answer.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.host.working.question_details import read_details
from dragoman.schema import UNSET, encode, v1
from dragoman.text.colour import BOLD, GREEN, RED, YELLOW, Painter
from dragoman.text.visible import label, spelled, wrapped
from dragoman.view.build import command_of, piece_of
from dragoman.view.diffs import diff_piece
from dragoman.view.labels import kind_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.host.working.question_details import AlwaysDetails

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
    kind: str

    @property
    def allows(self) -> bool:
        """Whether it lets the tool run; a kind that is not known may do so."""
        return not self.kind.startswith("reject")


def question_lines(request: v1.RequestPermissionRequest, width: int, paint: Painter = _PLAIN) -> Iterator[str]:
    """Yield the question without its answers. Hidden characters of a command or a path are spelled out."""
    call, details = request.tool_call, read_details(request)
    commands = list(details.commands)
    named = command_of(call.raw_input)
    if named is not None and named not in commands:
        commands.insert(0, named)
    yield from _head(call, commands, width, paint)
    if commands and details.cwd:
        yield from _spelled("in", details.cwd, width)
    for command in commands:
        yield from _spelled("command", command, width)
    if details.command_count > 1:
        yield f"  {details.command_count} commands run with this answer"
    content = call.content if isinstance(call.content, list | tuple) else ()
    changes = [item for item in content if isinstance(item, v1.Diff)]
    texts = [getattr(piece_of(item.content), "text", "") for item in content if isinstance(item, v1.Content)]
    places = [place.path for place in call.locations] if isinstance(call.locations, list | tuple) else []
    changed = {item.path for item in changes}
    for path in places:
        if path not in changed:
            yield from _spelled("file", path, width)
    if not commands and not changes:
        yield from _input(call.raw_input, [*places, *texts], width)
    for path in details.outside:
        yield from _spelled("outside the project", path, width)
    if details.why:
        yield from _spelled("why", details.why, width)
    for item in changes:
        yield from _diff(item, width, paint)
    for line in "\n".join(texts).splitlines():
        yield from _spelled("", line, width)


def _head(call: v1.ToolCallPatch, commands: Sequence[str], width: int, paint: Painter) -> Iterator[str]:
    """Yield the kind and the title, which is shown whole where it does not fit: some agents send nothing else."""
    title = call.title if isinstance(call.title, str) else ""
    kind = kind_word(call.kind) if isinstance(call.kind, str) else "tool"
    shown = label(title or call.tool_call_id, max(20, width - 30))
    yield paint("question:", YELLOW) + f" {label(kind, 20)}: {shown}"
    is_command = any(title.strip("`") in command for command in commands)
    if title and shown != " ".join(title.split()) and not is_command:
        yield from _spelled("title", title, width)


def answers_of(request: v1.RequestPermissionRequest, width: int = 130) -> list[NumberedAnswer]:
    """Return the answers in the agent's order, numbered from 1.

    The name is the agent's text, and is cut rather than what the answer means: that must be in sight.
    """
    always = read_details(request).options
    answers = []
    for number, option in enumerate(request.options, 1):
        meaning = _KINDS.get(str(option.kind), "a kind that this version does not know")
        answers.append(
            NumberedAnswer(
                number,
                f"{label(option.name, max(8, min(80, width - len(meaning) - 10)))} ({meaning})",
                _writes(option, always.get(option.option_id)),
                _is_clear(option, request.options),
                str(option.kind),
            )
        )
    return answers


def answer_lines(request: v1.RequestPermissionRequest, width: int, paint: Painter = _PLAIN) -> Iterator[str]:
    """Yield the answers, and below each what it writes."""
    for answer in answers_of(request, width):
        if not answer.is_clear:
            yield f"  -: {answer.text}; cannot be chosen, its meaning is not clear"
            continue
        yield f"  {paint(str(answer.number), BOLD)}: {answer.text}"
        if answer.writes:
            # One column is left for the mark of a card: a rule is never cut.
            for number, part in enumerate(wrapped(answer.writes, max(20, width - 8))):
                yield f"     {part}" if not number else f"       {part}"


def _writes(option: v1.PermissionOption, always: AlwaysDetails | None) -> str:
    """Return what an answer of "always" writes, and who keeps it."""
    if option.kind not in ("allow_always", "reject_always"):
        return ""
    if always is None or always.rule is None:
        return "writes no rule here; the agent remembers it in its own way"
    action = "allow" if option.kind == "allow_always" else "deny"
    rule, kept = spelled(always.rule), _KEPT.get(always.kept or "", "in its own way")
    if always.by == "host":
        where = "" if always.file is None else f", in {spelled(always.file)}"
        return f"writes the rule: {action} {rule}, {kept}{where}"
    return f"the agent writes the rule: {action} {rule}, {kept}"


def _is_clear(option: v1.PermissionOption, options: Sequence[v1.PermissionOption]) -> bool:
    """Return whether an option has one known meaning: two kinds under one id look the same on the wire."""
    twins = {other.kind for other in options if other.option_id == option.option_id}
    return len(twins) == 1 and option.kind in _KINDS


def _input(raw: Any, shown: Sequence[str], width: int) -> Iterator[str]:
    """Yield what the tool gets, such as the arguments of a tool of an MCP server, without what other lines have."""
    if raw is UNSET or raw is None:
        return
    for name, value in raw.items() if isinstance(raw, dict) else [("", raw)]:
        text = value if isinstance(value, str) else encode(value).decode()
        if not any(text in line for line in shown):
            yield from _spelled(f"input {label(str(name), 40, '')}".rstrip(), text, width)


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
