"""A permission request as a question at a terminal: how its words are laid out, and the meaning of a typed line.

The words are made in `client/question_words.py`. Every line begins with our own words and a peer's text comes after
them, so that a peer cannot imitate an option. The choice is bound to an option's id. Enter alone never chooses an
option. Rules, and decisions without a question, are up to `dragoman.policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.cli.prompt.diff import view_diff
from dragoman.client.permission import Answer
from dragoman.client.question_words import answer_letters, letters_of
from dragoman.schema import v1
from dragoman.text.colour import BOLD, CYAN, DIM, GREEN, RED, YELLOW
from dragoman.text.visible import label, paragraphs, spelled, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, TypeAlias

    from dragoman.cli.prompt.dialogue import Dialogue
    from dragoman.client.permission import Question
    from dragoman.client.question_words import AskedRow, OptionWords
    from dragoman.state import SessionState
    from dragoman.text.colour import Painter

    Reply: TypeAlias = "OptionWords | Literal['cancel', 'all'] | None"

_BODY: Final = 8  # lines of a change that are shown on the smallest screen
_KEY: Final = 9  # columns of our word before a peer's
_LEAST: Final = 40
_HEAD: Final = 40  # lines; more could push the important ones off the screen
RAIL: Final = "  │ "


class OptionChoice(NamedTuple):
    """An answer and the keys that choose it."""

    option: OptionWords
    number: str
    letter: str


def choices(options: Sequence[OptionWords]) -> list[OptionChoice]:
    """Return all answers in their order, with their letters."""
    letters = answer_letters(options)
    return [OptionChoice(option, str(at + 1), letters[at]) for at, option in enumerate(options)]


def read_reply(line: str, offered: Sequence[OptionChoice]) -> Reply:
    """Return the meaning of a line; None if it has none, as an empty line."""
    word = line.strip()
    if word in ("c", "cancel"):
        return "cancel"
    if word == "v":
        return "all"
    for choice in offered:
        if choice.option.is_clear and word and word in (choice.number, choice.letter):
            return choice.option
    return None


async def ask_permission(question: Question, state: SessionState, dialogue: Dialogue) -> Answer | None:
    """Ask the user and return the chosen option, with the reason of a refusal; None if the user cancelled.

    Raises: InputEnded at the end of the input.
    """
    sheet = draw(question, state, agent=dialogue.agent, paint=dialogue.paint, width=dialogue.width)
    offered = choices(question.answers)
    room = max(_BODY, dialogue.rows - len(sheet.head) - len(sheet.foot) - 3)
    await dialogue.write(*sheet.head, *sheet.body[:room])
    left = len(sheet.body) - room
    if left > 0:
        await dialogue.write(f"{RAIL}{dialogue.paint(f'… {left} more lines: v shows everything', YELLOW)}")
    await dialogue.write(*sheet.foot)
    rejecting = next((choice.option for choice in offered if choice.letter == "n"), None)
    how = _keys(offered, has_reason=rejecting is not None, is_cut=left > 0)
    while True:
        line = await dialogue.ask(f"  {how} > ")
        word, _, reason = line.strip().partition(" ")
        if word == "w" and rejecting is not None:
            if reason.strip():
                return Answer(rejecting.id, reason=reason.strip())
            await dialogue.refuse("Please type the reason behind w, as in: w use b.txt instead")
            continue
        reply = read_reply(line, offered)
        if reply == "all":
            await dialogue.page([*sheet.head, *sheet.body])
            await dialogue.write(*sheet.foot)
        elif reply == "cancel":
            return None
        elif reply is not None:
            return Answer(reply.id)
        else:
            await dialogue.refuse("Please type one of the answers listed above.")


def _keys(offered: Sequence[OptionChoice], *, has_reason: bool, is_cut: bool) -> str:
    how = letters_of([choice.option for choice in offered])
    parts = [*[how] * bool(how), *["w WHY"] * has_reason, "c to cancel", *["v to see everything"] * is_cut]
    return f"your answer: {', '.join(parts)}"


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
    words = question.words
    lines = ["", paint(f"{label(agent, 40)} asks for permission", BOLD)]
    kinds = dict.fromkeys(label(request.kind, 20) for request in (question.request, *question.also))
    lines += _rows("kind", ", ".join(kinds) if question.stated is None else label(words.kind, 20), paint, width)
    if not words.rows:
        lines += _rows("asks", words.title, paint, width)
    for row in words.rows:
        lines += _lines(row, paint, width)
    if words.why:
        lines += _rows("why", spelled(words.why), paint, width)
    # What the agent calls it comes last, and cannot push what was read off the screen.
    if words.agent_title:
        lines += _rows("agent", f"calls it: {words.agent_title}", paint, width)
    return lines


def _lines(row: AskedRow, paint: Painter, width: int) -> list[str]:
    """Return one thing that is asked about; each line of a script is behind a vertical bar."""
    bar = "│ " if row.key == "shell" else ""
    pieces = [bar + piece for line in row.lines for piece in wrapped(line, width - _KEY - len(bar))]
    lines = [_row(row.key if not number else "", piece, paint) for number, piece in enumerate(pieces)]
    if row.note:
        lines[-1] += paint(f"  ({row.note})", YELLOW)
    return lines


def _row(key: str, text: str, paint: Painter) -> str:
    return f"  {paint(f'{key:<{_KEY - 2}}', DIM)}{text}"


def _rows(key: str, text: str, paint: Painter, width: int) -> list[str]:
    pieces = wrapped(text, width - _KEY)
    return [_row(key if not number else "", piece, paint) for number, piece in enumerate(pieces)]


def _body(question: Question, state: SessionState, paint: Painter, width: int) -> list[str]:
    wide = width - len(RAIL)
    content = _call_content(question, state)
    lines: list[str] = []
    for diff in _distinct(question.diffs or [item for item in content if isinstance(item, v1.Diff)]):
        old = diff.old_text if isinstance(diff.old_text, str) else None
        # An agent may show a piece of the file; what dragoman itself would write is known as a whole.
        is_whole = old is None or bool(question.options)
        view = view_diff(diff.path, old, diff.new_text, paint=paint, width=wide, is_whole=is_whole)
        lines += [*view.lines, paint(view.figures, DIM)]
    for item in content:
        if isinstance(item, v1.Content) and isinstance(item.content, v1.TextContent):
            lines += paragraphs(item.content.text, wide)
    return [f"{paint(RAIL, DIM)}{line}" for line in lines]


def _distinct(diffs: Sequence[v1.Diff]) -> list[v1.Diff]:
    """Return the changes without repetitions: many agents send one as arguments and as a diff of the file."""
    found: dict[object, v1.Diff] = {}
    for diff in diffs:
        old = diff.old_text.removesuffix("\n") if isinstance(diff.old_text, str) else None
        found.setdefault((diff.path, old, diff.new_text.removesuffix("\n")), diff)
    return list(found.values())


def _call_content(question: Question, state: SessionState) -> Sequence[v1.ToolCallContent]:
    """Return the content of the tool call, from the request or from earlier updates of this turn."""
    patch = question.permission.tool_call
    call = state.tool_calls.get(patch.tool_call_id)
    if call is not None and call.turn != len(state.turns) - 1:
        call = None  # an id that was used again
    return patch.content or (call.content if call is not None else ())


def _foot(question: Question, paint: Painter, width: int) -> list[str]:
    lines = [""]
    for choice in choices(question.answers):
        option = choice.option
        style = YELLOW if not option.is_clear else GREEN if option.allows else RED
        keys = f"{choice.letter or ' '} {choice.number}" if option.is_clear else "  -"
        lead = f"  {keys:<9} "
        lines.append(f"{paint(lead, style)}{option.text(width - len(lead))}")
        if not option.is_clear:
            lines.append(paint(f"{'':12}cannot be chosen: its meaning is not clear", YELLOW))
        if option.effect:
            lines += [paint(f"{'':12}{piece}", DIM) for piece in wrapped(option.effect, width - 12)]
    if "n" in answer_letters(question.answers):
        lines.append(paint(f"  {'w WHY':<9} reject and say why", CYAN))
    lines.append(paint(f"  {'c':<9} cancel", CYAN))
    return lines
