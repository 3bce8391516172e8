"""A form of an agent: asked field by field, reviewed, and only then sent (rules 306, 307, 309, 312).

Decline and cancel are two different answers: declining means no, cancelling means that there is no answer. What a field
accepts is in `fields.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.cli.prompt import fields
from dragoman.cli.prompt.dialogue import InputEnded
from dragoman.schema import Unknown, v1
from dragoman.text.colour import BOLD, DIM, YELLOW
from dragoman.text.terminal import fit
from dragoman.text.visible import label, paragraphs

if TYPE_CHECKING:
    from typing import TypeAlias

    from dragoman.cli.prompt.dialogue import Dialogue
    from dragoman.cli.prompt.fields import Known, Value

    Outcome: TypeAlias = v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation

RAIL: Final = "  │ "
_MESSAGE: Final = 60  # lines of a message
_KEYS: Final = "d declines, c cancels"


class _Field:
    """A field and its answer."""

    __slots__ = ("default", "is_required", "name", "schema", "value")

    def __init__(self, name: str, schema: Known, is_required: bool) -> None:
        self.name = name
        self.schema = schema
        self.is_required = is_required
        self.default = fields.default_of(schema)
        self.value: Value | None = self.default  # pre-filled (rule 309)


async def ask_form(request: v1.ElicitationFormMode, dialogue: Dialogue) -> Outcome:
    """Ask the user to fill in the form; the end of the input cancels it."""
    schema = request.requested_schema
    required = schema.required if isinstance(schema.required, list | tuple) else ()
    try:
        await _introduce(request, dialogue)
        asked = []
        for name, part in schema.properties_or_default.items():
            if not isinstance(part, Unknown) and not _is_unreadable(part):
                asked.append(_Field(name, part, name in required))
            elif name in required:
                await dialogue.refuse(f"the field {label(name, 40)} is of a kind that cannot be asked here: cancelled")
                return v1.CancelElicitation()
        return await _fill(asked, dialogue)
    except InputEnded:
        return v1.CancelElicitation()


def _is_unreadable(schema: Known) -> bool:
    return isinstance(schema, v1.MultiSelectPropertySchema) and isinstance(schema.items, Unknown)


async def _introduce(request: v1.ElicitationFormMode, dialogue: Dialogue) -> None:
    paint, schema = dialogue.paint, request.requested_schema
    await dialogue.write("", paint(f"{label(dialogue.agent, 40)} asks you to fill in a form", BOLD))
    for text in (request.message, schema.title, schema.description):
        if isinstance(text, str) and text.strip():
            lines = paragraphs(text, dialogue.width - len(RAIL))[:_MESSAGE]
            await dialogue.write(*(paint(RAIL, DIM) + line for line in lines))


async def _fill(asked: list[_Field], dialogue: Dialogue) -> Outcome:
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
    return v1.AcceptElicitation({field.name: field.value for field in asked if field.value is not None})


_ENDINGS: Final[dict[str, Outcome]] = {"d": v1.DeclineElicitation(), "c": v1.CancelElicitation()}


async def _choose(prompt: str, go_on: str, dialogue: Dialogue) -> Outcome | None:
    while True:
        line = (await dialogue.ask(prompt)).strip()
        if line == go_on:
            return None
        if line in _ENDINGS:
            return _ENDINGS[line]


async def _ask_field(field: _Field, dialogue: Dialogue) -> None:
    paint = dialogue.paint
    await dialogue.write(
        "", paint(f"  {_title(field, dialogue.width - 20)}", BOLD) + ("" if field.is_required else " (optional)")
    )
    if isinstance(field.schema.description, str) and field.schema.description.strip():
        await dialogue.write(
            *(paint(RAIL, DIM) + line for line in paragraphs(field.schema.description, dialogue.width - 4)[:20])
        )
    if fields.is_secret(field.name, field.schema):
        await dialogue.write("  " + paint("this looks like a secret, which agents must not ask for in a form;", YELLOW))
        await dialogue.write("  " + paint("what you type is sent to the agent and may reach its model", YELLOW))
    for number, option in enumerate(fields.selectables(field.schema) or (), 1):
        extra = f" - {option.description}" if option.description else ""
        await dialogue.write(f"  {number:>3}  {label(option.title + extra, dialogue.width - 8)}")
    while True:
        line = await dialogue.ask(_prompt(field, dialogue.width))
        try:
            field.value = await _read(line, field, dialogue)
            return
        except fields.FieldError as error:
            await dialogue.refuse(f"{label(line, 40, 'an empty line')} {label(str(error), dialogue.width)}")


def _title(field: _Field, width: int) -> str:
    return label(field.schema.title if isinstance(field.schema.title, str) else field.name, width, "(no name)")


def _prompt(field: _Field, width: int) -> str:
    parts = [label(fields.expects(field.schema), max(20, width - 40))]
    if field.value is not None:
        parts.append(f"Enter keeps {label(_shown(field), 30)}")
        if not field.is_required:
            parts.append(f"{fields.LEFT_OUT} leaves it out")
    elif not field.is_required:
        parts.append("Enter leaves it out")
    return f"  {'; '.join(parts)} > "


async def _read(line: str, field: _Field, dialogue: Dialogue) -> Value | None:
    """Raises: FieldError if the line does not fit."""
    if not line.strip():
        if field.value is None and field.is_required:
            raise fields.FieldError("is not an answer: this field is required")
        return field.value
    if line.strip() == fields.LEFT_OUT and field.value is not None and not field.is_required:
        return None
    value = fields.read(line, field.schema)
    pattern = getattr(field.schema, "pattern", None)
    if isinstance(pattern, str) and isinstance(value, str):
        fits = await asyncio.to_thread(fields.fits_pattern, value, pattern)
        if fits is False:
            raise fields.FieldError(f"does not match {pattern}")
        if fits is None:
            await dialogue.write("  " + dialogue.paint("the form's pattern could not be checked here", DIM))
    return value


async def _review(asked: list[_Field], dialogue: Dialogue) -> None:
    await dialogue.write("", dialogue.paint(f"  to be sent to {label(dialogue.agent, 40)}", BOLD))
    for number, field in enumerate(asked, 1):
        shown = (
            dialogue.paint("(left out)", DIM)
            if field.value is None
            else label(_shown(field), dialogue.width - 30, "(empty)")
        )
        await dialogue.write(f"  {number:>3}  {fit(_title(field, 20), 20)} {shown}")


def _shown(field: _Field) -> str:
    """Return a value as text; for a choice, its title."""
    titles = {option.value: option.title for option in fields.selectables(field.schema) or ()}
    match field.value:
        case bool(value):
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(titles.get(str(value), str(value)) for value in field.value) or "(none)"
        case str(value):
            return titles.get(value, value)
    return str(field.value)
