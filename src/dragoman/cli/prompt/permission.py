"""A permission request as a question: what is shown, and the meaning of a typed line.

Every line begins with our own words and a peer's text comes after them, so that a peer cannot imitate an option. The
choice is bound to an option's id; its kind is shown in our own words. Enter alone never chooses an option. Rules, and
decisions without a question, are up to `dragoman.policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.cli.prompt.diff import view_diff
from dragoman.client.permission import OWN_CALL
from dragoman.policy.paths import is_below
from dragoman.schema import UNSET, v1
from dragoman.text.colour import BOLD, CYAN, DIM, GREEN, RED, YELLOW
from dragoman.text.visible import label, paragraphs, quoted, spelled, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, TypeAlias

    from dragoman.cli.prompt.dialogue import Dialogue
    from dragoman.client.permission import Question
    from dragoman.state import SessionState
    from dragoman.text.colour import Painter

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
_TITLE: Final = 3  # lines of a title above the command; more could push that off the screen
_HEAD: Final = 40  # lines; more could push the important ones off the screen
RAIL: Final = "  │ "


class OptionChoice(NamedTuple):
    """An option and the keys that choose it."""

    option: v1.PermissionOption
    number: str
    letter: str
    is_clear: bool


def choices(options: Sequence[v1.PermissionOption]) -> list[OptionChoice]:
    """Return all options in the agent's order. A kind has a letter only if one option is of that kind."""
    kinds = [option.kind for option in options]
    found = []
    for number, option in enumerate(options, 1):
        letter = KINDS[option.kind][1] if option.kind in KINDS and kinds.count(option.kind) == 1 else ""
        # Two options with one id are the same answer on the wire: it is unclear which of them is meant.
        twins = {other.kind for other in options if other.option_id == option.option_id}
        found.append(OptionChoice(option, str(number), letter, len(twins) == 1 and option.kind in KINDS))
    return found


def read_reply(line: str, offered: Sequence[OptionChoice]) -> Reply:
    """Return the meaning of a line; None if it has none, as an empty line."""
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
    """Ask the user and return the id of the chosen option; None if the user cancelled.

    Raises: InputEnded at the end of the input.
    """
    sheet = draw(question, state, agent=dialogue.agent, paint=dialogue.paint, width=dialogue.width)
    offered = choices(question.permission.options)
    room = max(_BODY, dialogue.rows - len(sheet.head) - len(sheet.foot) - 3)
    await dialogue.write(*sheet.head, *sheet.body[:room])
    left = len(sheet.body) - room
    if left > 0:
        await dialogue.write(f"{RAIL}{dialogue.paint(f'… {left} more lines: v shows everything', YELLOW)}")
    await dialogue.write(*sheet.foot)
    while True:
        reply = read_reply(await dialogue.ask(f"  {_keys(offered, is_cut=left > 0)} > "), offered)
        if reply == "all":
            await dialogue.page([*sheet.head, *sheet.body])
            await dialogue.write(*sheet.foot)
        elif reply == "cancel":
            return None
        elif reply is not None:
            return reply.option_id
        else:
            await dialogue.refuse("Please type one of the answers listed above.")


def _keys(offered: Sequence[OptionChoice], *, is_cut: bool) -> str:
    numbers = [choice.number for choice in offered if choice.is_clear]
    return f"your answer: {', '.join([*numbers, 'c to cancel', *['v to see everything'] * is_cut])}"


class Sheet(NamedTuple):
    """A question, ready to be written."""

    head: list[str]
    body: list[str]  # what may be cut to the screen
    foot: list[str]


def draw(question: Question, state: SessionState, *, agent: str, paint: Painter, width: int) -> Sheet:
    """Return the question in lines of at most `width` columns."""
    width = max(_LEAST, width)
    head, body = _head(question, agent, paint, width), _body(question, state, paint, width)
    if len(head) > _HEAD:
        head, body = head[:_HEAD], head[_HEAD:] + body
    return Sheet(head, body, _foot(question, paint, width))


def _head(question: Question, agent: str, paint: Painter, width: int) -> list[str]:
    asked = (question.request, *question.also)
    lines = ["", paint(f"{label(agent, 40)} asks for permission", BOLD)]
    title = _title(question, width)
    lines += [_row("title" if not number else "", piece, paint) for number, piece in enumerate(title[:_TITLE])]
    if len(title) > _TITLE:
        lines.append(_row("", paint("(the whole title follows below)", YELLOW), paint))
    kinds = dict.fromkeys(label(request.kind, 20) for request in asked)
    lines += _rows("kind", ", ".join(kinds), paint, width)
    lines += _commands(question, paint, width)
    for name, value in sorted(question.env.items()):
        lines += _rows("sets", f"{quoted(name)}={quoted(value)}", paint, width)
    root = asked[0].root
    for path in dict.fromkeys(path for request in asked for path in request.paths):
        outside = "" if not root or is_below(path, root) else paint("  (outside the project)", YELLOW)
        lines += _rows("path", quoted(path), paint, width, outside)
    for request in asked:
        if request.host:
            lines += _rows("host", quoted(request.host), paint, width)
        if request.mcp:
            lines += _rows("mcp", " ".join(map(quoted, request.mcp)), paint, width)
    if question.why:
        lines += _rows("why", spelled(question.why), paint, width)
    return lines


def _title(question: Question, width: int) -> list[str]:
    """Return the whole title. Hidden characters are spelled out: without them another text would seem to be meant."""
    return wrapped(spelled(question.request.title) or "(no title)", width - _KEY)


def _commands(question: Question, paint: Painter, width: int) -> list[str]:
    """Return the lines of all commands that the answer permits."""
    lines: list[str] = []
    first = (question.argv, question.shell, question.cwd)
    others = [also.command for also in question.also if also.command is not None]
    for argv, shell, cwd in (first, *((other.argv, other.line, other.cwd) for other in others)):
        if argv is not None:
            lines += _rows("runs", " ".join(map(quoted, argv)), paint, width)
        elif shell is not None:
            lines += _script(shell, paint, width)
        if cwd:
            lines += _rows("in", quoted(cwd), paint, width)
    return lines


def _row(key: str, text: str, paint: Painter) -> str:
    return f"  {paint(f'{key:<{_KEY - 2}}', DIM)}{text}"


def _rows(key: str, text: str, paint: Painter, width: int, note: str = "") -> list[str]:
    pieces = wrapped(text, width - _KEY)
    lines = [_row(key if not number else "", piece, paint) for number, piece in enumerate(pieces)]
    lines[-1] += note
    return lines


def _script(shell: str, paint: Painter, width: int) -> list[str]:
    """Return all lines of a shell command, each behind a vertical bar."""
    pieces = paragraphs(shell, width - _KEY - 2)
    return [_row("shell" if not number else "", f"│ {piece}", paint) for number, piece in enumerate(pieces)]


def _body(question: Question, state: SessionState, paint: Painter, width: int) -> list[str]:
    wide = width - len(RAIL)
    content, raw = _call_content(question, state)
    lines: list[str] = []
    for diff in _distinct(question.diffs or [item for item in content if isinstance(item, v1.Diff)]):
        old = diff.old_text if isinstance(diff.old_text, str) else None
        # An agent may show a piece of the file; what dragoman itself would write is known as a whole.
        is_whole = old is None or question.permission.tool_call.tool_call_id.startswith(OWN_CALL)
        view = view_diff(diff.path, old, diff.new_text, paint=paint, width=wide, is_whole=is_whole)
        lines += [*view.lines, paint(view.figures, DIM)]
    for item in content:
        if isinstance(item, v1.Content) and isinstance(item.content, v1.TextContent):
            lines += paragraphs(item.content.text, wide)
    is_command = any(request.command is not None for request in (question.request, *question.also))
    if not lines and not is_command:
        lines = _input(raw, wide)
    title = _title(question, wide)
    if len(title) > _TITLE:
        lines += ["the whole title:", *title]
    return [f"{paint(RAIL, DIM)}{line}" for line in lines]


def _distinct(diffs: Sequence[v1.Diff]) -> list[v1.Diff]:
    """Return the changes without repetitions: many agents send one as arguments and as a diff of the file."""
    found: dict[object, v1.Diff] = {}
    for diff in diffs:
        old = diff.old_text.removesuffix("\n") if isinstance(diff.old_text, str) else None
        found.setdefault((diff.path, old, diff.new_text.removesuffix("\n")), diff)
    return list(found.values())


def _call_content(question: Question, state: SessionState) -> tuple[Sequence[v1.ToolCallContent], Any]:
    """Return content and input of the tool call, from the request or from earlier updates of this turn."""
    patch = question.permission.tool_call
    call = state.tool_calls.get(patch.tool_call_id)
    if call is not None and call.turn != len(state.turns) - 1:
        call = None  # an id that was used again
    content = patch.content or (call.content if call is not None else ())
    raw = patch.raw_input if patch.raw_input is not UNSET else call.raw_input if call is not None else UNSET
    return content or (), raw


def _input(raw: Any, width: int) -> list[str]:
    """Return the raw input of the tool as lines, if nothing more specific is known."""
    if raw is UNSET or raw is None:
        return []
    members = list(raw.items()) if isinstance(raw, dict) else [("", raw)]
    lines: list[str] = []
    for name, value in members:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines += paragraphs(f"{name}: {text}" if name else text, width)
    return lines


def _foot(question: Question, paint: Painter, width: int) -> list[str]:
    lines = [""]
    for choice in choices(question.permission.options):
        option = choice.option
        kind, _, style = KINDS.get(option.kind, (f"unknown kind {label(option.kind, 16)}", "", YELLOW))
        keys = choice.number + (f" {choice.letter}" if choice.letter else "")
        lead = f"  {keys:<9} {kind:<14}"
        if not choice.is_clear:
            lead = f"  {'-':<9} {kind:<14}"
        lines.append(f"{paint(lead, style)} {label(option.name, width - len(lead) - 1)}")
        if not choice.is_clear:
            lines.append(paint(f"{'':12}cannot be chosen: its meaning is not clear", YELLOW))
        if option.kind in ("allow_always", "reject_always"):
            lines += [
                paint(f"{'':12}{piece}", DIM) for piece in wrapped(_remembered(question, option.kind), width - 12)
            ]
    lines.append(paint(f"  {'c':<9} cancel", CYAN))
    return lines


def _remembered(question: Question, kind: str) -> str:
    action = "allow" if kind == "allow_always" else "deny"
    if not question.proposals:
        return "the agent remembers this in its own way; no rule is saved here"
    return spelled(f"saves the rule: {action} {question.proposals[0]}")
