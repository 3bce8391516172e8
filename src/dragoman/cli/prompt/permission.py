"""One permission as a question: what it shows, and what a typed line means.

Our words come first on every line and a peer's words after them, so that nothing a peer writes can stand where an
option or its kind stands. The choice is bound to an option's id; its kind is shown in our own words. Enter alone
never chooses anything. Does not know what a rule means nor who decides without asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.cli.prompt.colour import BOLD, CYAN, DIM, GREEN, RED, YELLOW
from dragoman.cli.prompt.diff import view_diff
from dragoman.policy.paths import is_below
from dragoman.schema import UNSET, v1
from dragoman.text.visible import label, paragraphs, quoted, spelled, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, TypeAlias

    from dragoman.cli.prompt.colour import Ink
    from dragoman.cli.prompt.dialogue import Dialogue
    from dragoman.client.permission import Question
    from dragoman.state import SessionState

    Reply: TypeAlias = "v1.PermissionOption | Literal['cancel', 'all'] | None"

KINDS: Final = {
    "allow_once": ("allow once", "y", GREEN),
    "allow_always": ("allow always", "a", GREEN),
    "reject_once": ("reject once", "n", RED),
    "reject_always": ("reject always", "never", RED),
}
_BODY: Final = 8  # lines of a change that are shown on the smallest screen
_KEY: Final = 9  # columns of our word before a peer's
_LEAST: Final = 40
_HEAD: Final = 40  # lines; an agent that writes more of them wants something to scroll away
RAIL: Final = "  │ "


class Choice(NamedTuple):
    """An option as a person can choose it."""

    option: v1.PermissionOption
    number: str
    letter: str
    is_clear: bool


def choices(options: Sequence[v1.PermissionOption]) -> list[Choice]:
    """All options in the agent's order. A letter stands for a kind only if one option is of that kind."""
    kinds = [option.kind for option in options]
    found = []
    for number, option in enumerate(options, 1):
        letter = KINDS[option.kind][1] if option.kind in KINDS and kinds.count(option.kind) == 1 else ""
        # Two options under one id are one answer on the wire: nobody could tell which of them was meant.
        twins = {other.kind for other in options if other.option_id == option.option_id}
        found.append(Choice(option, str(number), letter, len(twins) == 1 and option.kind in KINDS))
    return found


def read_reply(line: str, offered: Sequence[Choice]) -> Reply:
    """What a line means; None for what means nothing: an empty one above all."""
    word = line.strip()
    if word in ("c", "cancel"):
        return "cancel"
    if word == "v":
        return "all"
    for choice in offered:
        if choice.is_clear and word and word in (choice.number, choice.letter):
            return choice.option
    return None


async def ask_permission(question: Question, state: SessionState, dialogue: Dialogue) -> str | None:
    """The id of the option the person chose; None if they cancelled.

    Raises: Ended at the end of the input.
    """
    sheet = draw(question, state, agent=dialogue.agent, ink=dialogue.ink, width=dialogue.width)
    offered = choices(question.permission.options)
    room = max(_BODY, dialogue.rows - len(sheet.head) - len(sheet.foot) - 3)
    await dialogue.tell(*sheet.head, *sheet.body[:room])
    left = len(sheet.body) - room
    if left > 0:
        await dialogue.tell(f"{RAIL}{dialogue.ink(f'… {left} more lines: v shows everything', YELLOW)}")
    await dialogue.tell(*sheet.foot)
    while True:
        reply = read_reply(await dialogue.ask(f"  {_keys(offered, is_cut=left > 0)} > "), offered)
        if reply == "all":
            await dialogue.page([*sheet.head, *sheet.body])
            await dialogue.tell(*sheet.foot)
        elif reply == "cancel":
            return None
        elif reply is not None:
            return reply.option_id
        else:
            await dialogue.refuse("that is none of the answers; Enter alone is none either")


def _keys(offered: Sequence[Choice], *, is_cut: bool) -> str:
    numbers = [choice.number for choice in offered if choice.is_clear]
    return f"your answer: {', '.join([*numbers, 'c to cancel', *['v to see everything'] * is_cut])}"


class Sheet(NamedTuple):
    """A question, ready to be written."""

    head: list[str]
    body: list[str]  # what may be cut to the screen
    foot: list[str]


def draw(question: Question, state: SessionState, *, agent: str, ink: Ink, width: int) -> Sheet:
    """The question in lines of at most `width` columns."""
    width = max(_LEAST, width)
    head, body = _head(question, agent, ink, width), _body(question, state, ink, width)
    if len(head) > _HEAD:
        head, body = head[:_HEAD], head[_HEAD:] + body
    return Sheet(head, body, _foot(question, ink, width))


def _head(question: Question, agent: str, ink: Ink, width: int) -> list[str]:
    asked = question.request
    lines = ["", ink(f"{label(agent, 40)} asks for permission", BOLD)]
    lines.append(_row("title", label(asked.title, width - _KEY - 2, "(no title)"), ink))
    lines.append(_row("kind", label(asked.kind, 20), ink))
    if question.argv is not None:
        lines += _rows("runs", " ".join(map(quoted, question.argv)), ink, width)
    elif question.shell is not None:
        lines += _script(question.shell, ink, width)
    if question.cwd:
        lines += _rows("in", quoted(question.cwd), ink, width)
    for name, value in sorted(question.env.items()):
        lines += _rows("sets", f"{quoted(name)}={quoted(value)}", ink, width)
    for path in asked.paths:
        outside = "" if not asked.root or is_below(path, asked.root) else ink("  (outside the project)", YELLOW)
        lines += _rows("path", quoted(path), ink, width, outside)
    if asked.host:
        lines += _rows("host", quoted(asked.host), ink, width)
    if asked.mcp:
        lines += _rows("mcp", " ".join(map(quoted, asked.mcp)), ink, width)
    if question.why:
        lines.append(_row("why", label(question.why, width - _KEY), ink))
    return lines


def _row(key: str, text: str, ink: Ink) -> str:
    return f"  {ink(f'{key:<{_KEY - 2}}', DIM)}{text}"


def _rows(key: str, text: str, ink: Ink, width: int, note: str = "") -> list[str]:
    pieces = wrapped(text, width - _KEY)
    lines = [_row(key if not number else "", piece, ink) for number, piece in enumerate(pieces)]
    lines[-1] += note
    return lines


def _script(shell: str, ink: Ink, width: int) -> list[str]:
    """A shell line, which may be several: each stands behind a rail, none is left out."""
    pieces = paragraphs(shell, width - _KEY - 2)
    return [_row("shell" if not number else "", f"│ {piece}", ink) for number, piece in enumerate(pieces)]


def _body(question: Question, state: SessionState, ink: Ink, width: int) -> list[str]:
    wide = width - len(RAIL)
    content, raw = _told(question, state)
    lines: list[str] = []
    for diff in question.diffs or [item for item in content if isinstance(item, v1.Diff)]:
        old = diff.old_text if isinstance(diff.old_text, str) else None
        view = view_diff(diff.path, old, diff.new_text, ink=ink, width=wide)
        lines += [*view.lines, ink(view.figures, DIM)]
    for item in content:
        if isinstance(item, v1.Content) and isinstance(item.content, v1.TextContent):
            lines += paragraphs(item.content.text, wide)
    if not lines and question.argv is None and question.shell is None:
        lines = _input(raw, wide)
    return [f"{ink(RAIL, DIM)}{line}" for line in lines]


def _told(question: Question, state: SessionState) -> tuple[Sequence[v1.ToolCallContent], Any]:
    """Content and input of the tool call, from the request or from what was said of the call in this turn before."""
    patch = question.permission.tool_call
    call = state.tool_calls.get(patch.tool_call_id)
    if call is not None and call.turn != len(state.turns) - 1:
        call = None  # an id used anew
    content = patch.content or (call.content if call is not None else ())
    raw = patch.raw_input if patch.raw_input is not UNSET else call.raw_input if call is not None else UNSET
    return content or (), raw


def _input(raw: Any, width: int) -> list[str]:
    """What the tool is given, when nothing in it could be read."""
    if raw is UNSET or raw is None:
        return []
    members = list(raw.items()) if isinstance(raw, dict) else [("", raw)]
    lines: list[str] = []
    for name, value in members:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines += paragraphs(f"{name}: {text}" if name else text, width)
    return lines


def _foot(question: Question, ink: Ink, width: int) -> list[str]:
    lines = [""]
    for choice in choices(question.permission.options):
        option = choice.option
        kind, _, style = KINDS.get(option.kind, (f"unknown kind {label(option.kind, 16)}", "", YELLOW))
        keys = choice.number + (f" {choice.letter}" if choice.letter else "")
        lead = f"  {keys:<9} {kind:<14}"
        if not choice.is_clear:
            lead = f"  {'-':<9} {kind:<14}"
        lines.append(f"{ink(lead, style)} {label(option.name, width - len(lead) - 1)}")
        if not choice.is_clear:
            lines.append(ink(f"{'':12}cannot be chosen: it is not clear what it would mean", YELLOW))
        if option.kind in ("allow_always", "reject_always"):
            lines += [ink(f"{'':12}{piece}", DIM) for piece in wrapped(_remembered(question, option.kind), width - 12)]
    lines.append(ink(f"  {'c':<9} cancel", CYAN))
    return lines


def _remembered(question: Question, kind: str) -> str:
    action = "allow" if kind == "allow_always" else "deny"
    if not question.proposals:
        return "no rule is made of this; the agent may remember it itself"
    return spelled(f"makes the rule: {action} {question.proposals[0]}")
