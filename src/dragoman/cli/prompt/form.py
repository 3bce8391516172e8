"""A form of an agent in the terminal: asked field by field, reviewed, and only then sent (rules 306, 307, 309, 312).

Decline and cancel are two different answers: declining means no, cancelling means that there is no answer. What a field
accepts is in `client/elicitation/`.

Loaded with the first form: most runs show none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.cli.prompt.dialogue import InputEnded
from dragoman.client.elicitation.fields import FieldError
from dragoman.client.elicitation.form import UnreadableForm, accepted, open_fields
from dragoman.schema import v1
from dragoman.text.colour import BOLD, DIM, YELLOW
from dragoman.text.terminal import fit
from dragoman.text.visible import label, paragraphs

if TYPE_CHECKING:
    from dragoman.cli.prompt.dialogue import Dialogue
    from dragoman.client.elicitation.form import FormField, Outcome

RAIL: Final = "  │ "
_MESSAGE: Final = 60  # lines of a message
_KEYS: Final = "d declines, c cancels"


async def ask_form(request: v1.ElicitationFormMode, dialogue: Dialogue) -> Outcome:
    """Ask the user to fill in the form; the end of the input cancels it."""
    try:
        await _introduce(request, dialogue)
        try:
            asked = open_fields(request)
        except UnreadableForm as error:
            await dialogue.refuse(f"{error}: cancelled")
            return v1.CancelElicitation()
        return await _fill(asked, dialogue)
    except InputEnded:
        return v1.CancelElicitation()


async def _introduce(request: v1.ElicitationFormMode, dialogue: Dialogue) -> None:
    paint, schema = dialogue.paint, request.requested_schema
    await dialogue.write("", paint(f"{label(dialogue.agent, 40)} asks you to fill in a form", BOLD))
    for text in (request.message, schema.title, schema.description):
        if isinstance(text, str) and text.strip():
            lines = paragraphs(text, dialogue.width - len(RAIL))[:_MESSAGE]
            await dialogue.write(*(paint(RAIL, DIM) + line for line in lines))


async def _fill(asked: list[FormField], dialogue: Dialogue) -> Outcome:
    first = await _choose(
        f"  Enter begins, {_KEYS} > " if asked else f"  y accepts, {_KEYS} > ", "" if asked else "y", dialogue
    )
    if isinstance(first, v1.DeclineElicitation | v1.CancelElicitation):
        return first
    for field in asked:
        await _ask_field(field, dialogue)
    while asked:
        await _review(asked, dialogue)
        line = (await dialogue.ask(f"  y sends this, a number changes a line, {_KEYS} > ")).strip()
        if line in _ENDINGS:
            return _ENDINGS[line]
        if line == "y":
            break
        if line.isascii() and line.isdigit() and 1 <= int(line[:6]) <= len(asked):
            await _ask_field(asked[int(line) - 1], dialogue)
    return accepted(asked)


_ENDINGS: Final[dict[str, Outcome]] = {"d": v1.DeclineElicitation(), "c": v1.CancelElicitation()}


async def _choose(prompt: str, go_on: str, dialogue: Dialogue) -> Outcome | None:
    while True:
        line = (await dialogue.ask(prompt)).strip()
        if line == go_on:
            return None
        if line in _ENDINGS:
            return _ENDINGS[line]


async def _ask_field(field: FormField, dialogue: Dialogue) -> None:
    paint = dialogue.paint
    await dialogue.write(
        "", paint(f"  {_title(field, dialogue.width - 20)}", BOLD) + ("" if field.is_required else " (optional)")
    )
    if field.description.strip():
        await dialogue.write(
            *(paint(RAIL, DIM) + line for line in paragraphs(field.description, dialogue.width - 4)[:20])
        )
    if field.is_secret:
        await dialogue.write("  " + paint("this looks like a secret, which agents must not ask for in a form;", YELLOW))
        await dialogue.write("  " + paint("what you type is sent to the agent and may reach its model", YELLOW))
    for number, option in enumerate(field.choices or (), 1):
        extra = f" - {option.description}" if option.description else ""
        await dialogue.write(f"  {number:>3}  {label(option.title + extra, dialogue.width - 8)}")
    while True:
        line = await dialogue.ask(f"  {field.hint(dialogue.width)} > ")
        try:
            await field.take(line)
        except FieldError as error:
            await dialogue.refuse(f"{label(line, 40, 'an empty line')} {label(str(error), dialogue.width)}")
            continue
        if field.is_unchecked:
            await dialogue.write("  " + paint("the form's pattern could not be checked here", DIM))
        return


def _title(field: FormField, width: int) -> str:
    return label(field.title, width, "(no name)")


async def _review(asked: list[FormField], dialogue: Dialogue) -> None:
    await dialogue.write("", dialogue.paint(f"  to be sent to {label(dialogue.agent, 40)}", BOLD))
    for number, field in enumerate(asked, 1):
        shown = (
            dialogue.paint("(left out)", DIM)
            if field.value is None
            else label(field.shown(), dialogue.width - 30, "(empty)")
        )
        await dialogue.write(f"  {number:>3}  {fit(_title(field, 20), 20)} {shown}")
