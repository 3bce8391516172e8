"""A form and a page of an agent as lines, and a form that is filled in line by line. No terminal, no widgets.

What a field accepts is in `client/elicitation/`; this module says how it is asked and what a typed line means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.client.elicitation.fields import FieldError
from dragoman.client.elicitation.form import accepted, open_fields
from dragoman.client.elicitation.pages import inspect, is_web
from dragoman.schema import v1
from dragoman.text.visible import label, paragraphs, quoted, spelled, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.client.elicitation.form import FormField, Outcome

_MESSAGE_LINES: Final = 30
SECRET: Final = "this looks like a secret, which agents must not ask for in a form; it may reach the model"


def introduction(request: v1.ElicitationFormMode, agent: str, width: int) -> Iterator[str]:
    """Yield who asks, and the message, title and description of the form."""
    yield f"{label(agent, 40, 'the agent')} asks you to fill in a form"
    schema = request.requested_schema
    for text in (request.message, schema.title, schema.description):
        if isinstance(text, str) and text.strip():
            yield from (f"  {line}" for line in paragraphs(text, max(20, width - 2))[:_MESSAGE_LINES])


def page_lines(request: v1.ElicitationUrlMode, agent: str, width: int) -> Iterator[str]:
    """Yield the whole address, its host, and warnings about it."""
    yield f"{label(agent, 40, 'the agent')} asks you to open a page"
    if request.message.strip():
        yield from (f"  {line}" for line in paragraphs(request.message, max(20, width - 2))[:_MESSAGE_LINES])
    host, warnings = inspect(request.url)
    yield f"  host: {quoted(host) if host else '(none)'}"
    yield from (f"  {piece}" for piece in wrapped(spelled(request.url), max(20, width - 2)))
    yield from (f"  warning: {warning}" for warning in warnings)
    if not is_web(request.url):
        yield "  only http and https pages can be opened here"


def field_lines(field: FormField, width: int) -> Iterator[str]:
    """Yield a field with its description and its choices."""
    need = "" if field.is_required else " (optional)"
    yield f"{label(field.title, max(20, width - 20), '(no name)')}{need}"
    if field.description.strip():
        yield from (f"  {line}" for line in paragraphs(field.description, max(20, width - 2))[:_MESSAGE_LINES])
    if field.is_secret:
        yield f"  warning: {SECRET}"
    for number, option in enumerate(field.choices or (), 1):
        extra = f" - {option.description}" if option.description else ""
        yield f"  {number}: {label(option.title + extra, max(20, width - 8))}"


class FormDialogue:
    """A form that is asked field by field, in typed lines; used where nothing can be drawn.

    `lines` are to be written before the next line is read. `outcome` is set when the form is over.
    """

    def __init__(self, request: v1.ElicitationFormMode, agent: str, width: int) -> None:
        """Begin. Raises: UnreadableForm if a required field is of an unknown kind."""
        self.outcome: Outcome | None = None
        self.lines: list[str] = []
        self._width = width
        self._fields = open_fields(request)
        self._place = 0
        self.lines += introduction(request, agent, width)
        self.lines.append("type a value and Enter; /decline says no, /cancel gives no answer")
        self._ask()

    async def take(self, line: str) -> None:
        """Take a typed line: a value, an answer to the review, or a command."""
        self.lines = []
        if line == "/decline":
            self.outcome = v1.DeclineElicitation()
        elif line == "/cancel":
            self.outcome = v1.CancelElicitation()
        elif self._place >= len(self._fields):
            self._review_answer(line)
        else:
            await self._value(line)

    async def _value(self, line: str) -> None:
        field = self._fields[self._place]
        try:
            await field.take(line)
        except FieldError as error:
            self.lines.append(f"note: {label(line, 40, 'an empty line')} {label(str(error), self._width)}")
            return
        if field.is_unchecked:
            self.lines.append("note: the form's pattern could not be checked here")
        self._place += 1
        self._ask()

    def _review_answer(self, line: str) -> None:
        if line == "/send":
            self.outcome = accepted(self._fields)
        elif line.isascii() and line.isdigit() and 1 <= int(line[:6]) <= len(self._fields):
            self._place = int(line) - 1
            self._ask()
        else:
            self.lines.append("note: /send sends this, a number changes a line, /decline or /cancel")

    def _ask(self) -> None:
        if self._place < len(self._fields):
            field = self._fields[self._place]
            self.lines += (f"form: {line}" if not n else line for n, line in enumerate(field_lines(field, self._width)))
            self.lines.append(f"  {field.hint(self._width)}")
            return
        self.lines.append("form: this will be sent")
        for number, field in enumerate(self._fields, 1):
            shown = label(field.shown("(left out)"), max(20, self._width - 30), "(empty)")
            self.lines.append(f"  {number}: {label(field.title, 30, '(no name)')}: {shown}")
        self.lines.append("  /send sends it, a number changes a line, /decline or /cancel")
