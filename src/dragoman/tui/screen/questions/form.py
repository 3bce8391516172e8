"""Forms and pages of agents on the full screen.

A card announces them; a key opens the form. The form is a list of rows: fields, the values to choose from, and what can
be done with the form. A field is edited in the line at the bottom. Sending, declining and cancelling are three answers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from dragoman.client.elicitation.fields import FieldError
from dragoman.client.elicitation.form import UnreadableForm, accepted, open_fields
from dragoman.client.elicitation.pages import is_web, open_in_browser
from dragoman.schema import v1
from dragoman.text.terminal import clip
from dragoman.text.visible import label, paragraphs
from dragoman.tui.questions.form_values import SECRET, introduction, page_lines
from dragoman.tui.screen.parts import LeftOnce
from dragoman.tui.screen.questions.cards import CardSheet, SheetKey
from dragoman.tui.screen.strips import strip_of
from dragoman.view.rails import by_words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from textual import events
    from textual.app import ComposeResult

    from dragoman.client.elicitation.form import FormField, Outcome
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.values import OpenForm
    from dragoman.view.rails import Glyphs, RailLine, Style

_DESCRIPTION_LINES: Final = 8
_HELP: Final = "Up, Down: move   Enter: next   Ctrl+S: send   Esc: back"
_CURRENT: Final[Style] = "bold"
_OTHER: Final[Style] = ""


def form_sheet(app: TerminalApp, form: OpenForm) -> CardSheet:
    """Return the card that announces a form or a page."""
    request = form.request
    if isinstance(request, v1.ElicitationUrlMode):
        page = request
        keys = [SheetKey("o", "open it in the browser", lambda app: app.start(_open(app, form, page.url)))]
        if not is_web(page.url):
            keys = []
        return CardSheet(
            form, lambda width: list(page_lines(page, app.conversation.agent, width)), [*keys, *_endings(form)]
        )
    fields = request
    fill = SheetKey("f", "fill it in", lambda app: open_form(app, form))
    return CardSheet(
        form, lambda width: list(introduction(fields, app.conversation.agent, width)), [fill, *_endings(form)]
    )


def _endings(form: OpenForm) -> list[SheetKey]:
    return [
        SheetKey("d", "decline", lambda app: form.settle(v1.DeclineElicitation())),
        SheetKey("x", "cancel: no answer", lambda app: form.settle(v1.CancelElicitation())),
    ]


async def _open(app: TerminalApp, form: OpenForm, url: str) -> None:
    if not await asyncio.to_thread(open_in_browser, url):
        app.note(f"no browser could be started; open it yourself: {label(url, 400)}")
    form.settle(v1.AcceptElicitation())


def open_form(app: TerminalApp, form: OpenForm) -> None:
    """Fill in a form."""
    if not isinstance(form.request, v1.ElicitationFormMode):
        return
    try:
        fields = open_fields(form.request)
    except UnreadableForm as error:
        app.note(f"{error}: cancelled")
        form.settle(v1.CancelElicitation())
        return

    def done(outcome: Outcome | None) -> None:
        if outcome is not None:
            form.settle(outcome)

    request, agent = form.request, app.conversation.agent
    screen = FormScreen(form, fields, lambda width: introduction(request, agent, width), app.glyphs)
    _ = app.push_screen(screen, done)


class _Row(NamedTuple):
    """A row that can be chosen: a field, one of its values, or an ending of the form."""

    field: FormField | None
    value: str | None = None
    ending: str = ""


class FormRows(Widget, can_focus=True):
    """The rows of a form, scrolled so that the current one is in sight."""

    def __init__(
        self, head: Callable[[int], Iterable[str]], fields: list[FormField], glyphs: Glyphs, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.rows: list[_Row] = []
        for field in fields:
            self.rows.append(_Row(field))
            self.rows += [_Row(field, choice.value) for choice in field.choices or ()]
        self.rows += [_Row(None, ending=word) for word in ("send", "decline", "cancel")]
        self.current = 0
        self.problems: dict[str, str] = {}
        self._head = head
        self._glyphs = glyphs
        self._top = 0

    @property
    def row(self) -> _Row:
        """The current row."""
        return self.rows[self.current]

    def render_line(self, y: int) -> Strip:
        lines, place = self._lines(self.size.width)
        height = self.size.height
        if y == 0:
            self._top = max(0, min(self._top, len(lines) - height))
            first, last = place
            self._top = min(first, max(self._top, last - height))
        line = y + self._top
        return strip_of(lines[line], self.size.width) if line < len(lines) else Strip.blank(self.size.width)

    def _lines(self, width: int) -> tuple[list[RailLine], tuple[int, int]]:
        """Return all lines, and those of the current row."""
        head = [*self._head(width - 2), *by_words(_HELP, width)]
        lines: list[RailLine] = [((clip(line, width), "dim"),) for line in head]
        place = (0, 1)
        for number, row in enumerate(self.rows):
            start = 0 if number == 0 else len(lines)
            lines += self._row_lines(row, width, is_current=number == self.current)
            if number == self.current:
                place = (start, len(lines))
        return lines, place

    def _row_lines(self, row: _Row, width: int, *, is_current: bool) -> list[RailLine]:
        mark, style = (self._glyphs.you, _CURRENT) if is_current else (" ", _OTHER)
        field = row.field
        if field is None:
            words = {"send": "Send", "decline": "Decline: say no", "cancel": "Cancel: give no answer"}
            return [((f"{mark} [{words[row.ending]}]", style),)]
        if row.value is not None:
            return [((clip(f"{mark}   {_choice(field, row.value, width)}", width), style),)]
        need = " *" if field.is_required else ""
        shown = "" if field.choices else f": {label(field.shown('(left out)'), width, '(empty)')}"
        title = f"{mark} {label(field.title, 40, '(no name)')}{need}{shown}"
        lines: list[RailLine] = [((clip(title, width), style),)]
        notes = [*paragraphs(field.description, max(20, width - 4))[:_DESCRIPTION_LINES]] if field.description else []
        lines += [((clip(f"    {line}", width), "dim"),) for line in notes]
        if field.is_secret:
            lines.append(((clip(f"    {SECRET}", width), "warn"),))
        if field.name in self.problems:
            lines.append(((clip(f"    {self.problems[field.name]}", width), "bad"),))
        return lines


def _choice(field: FormField, value: str, width: int) -> str:
    choice = next(offer for offer in field.choices or () if offer.value == value)
    is_chosen = value in field.value if isinstance(field.value, list | tuple) else field.value == value
    box = ("[x]" if is_chosen else "[ ]") if field.takes_several else ("(x)" if is_chosen else "( )")
    extra = f" - {choice.description}" if choice.description else ""
    return f"{box} {label(choice.title + extra, width)}"


class FormLine(Input):
    """The line at the bottom, into which a field is typed.

    It handles the keys that leave the field itself: a binding of the screen acts before letters that were typed earlier
    and still wait here, or after those that were typed later.
    """

    async def on_key(self, event: events.Key) -> None:
        form = self.screen
        if not isinstance(form, FormScreen) or event.key not in _LEAVING:
            return
        event.stop()
        event.prevent_default()
        await _LEAVING[event.key](form)


class FormScreen(LeftOnce["Outcome | None"], ModalScreen["Outcome | None"]):
    """A form to fill in; Esc goes back to the card and leaves the form open."""

    DEFAULT_CSS = """
    FormScreen { layout: vertical; }
    FormScreen FormRows { height: 1fr; }
    FormScreen Input { width: 100%; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape", "leave", "back"),
        Binding("up", "move(-1)", "back"),
        Binding("shift+tab", "move(-1)", "back"),
        Binding("down", "move(1)", "next"),
        Binding("tab", "move(1)", "next"),
        Binding("ctrl+s", "send", "send"),
    ]

    def __init__(
        self, form: OpenForm, fields: list[FormField], head: Callable[[int], Iterable[str]], glyphs: Glyphs
    ) -> None:
        super().__init__()
        self._form = form
        self._fields = fields
        self._rows = FormRows(head, fields, glyphs)

    def compose(self) -> ComposeResult:
        yield self._rows
        yield FormLine(compact=True)

    def on_mount(self) -> None:
        self._enter()
        self.set_interval(0.2, self._look)

    def _look(self) -> None:
        if self._form.answer.done():
            _ = self.dismiss(None)

    # Rows

    @property
    def _edited(self) -> FormField | None:
        """The field that is typed into the line at the bottom."""
        row = self._rows.row
        return row.field if row.field is not None and row.value is None and not row.field.choices else None

    def _enter(self) -> None:
        line, field = self.query_one(Input), self._edited
        line.display = field is not None
        if field is None:
            self._rows.focus()
        else:
            shown = "" if field.value is None else field.shown()
            line.value = "y" if field.value is True else "n" if field.value is False else shown
            line.placeholder = label(field.hint(self.size.width), max(20, self.size.width - 2))
            line.cursor_position = len(line.value)
            line.focus()
        self._rows.refresh()

    async def _keep(self) -> bool:
        """Take what was typed; False if it does not fit."""
        field = self._edited
        if field is None:
            return True
        text = self.query_one(Input).value
        try:
            if not text.strip() and not field.is_required:
                await field.set(None)
            elif not text.strip():
                field.value = None
                field.require()
            else:
                await field.take(text)
        except FieldError as error:
            self._rows.problems[field.name] = f"{label(text, 30, 'an empty line')} {label(str(error), 200)}"
            self._rows.refresh()
            return False
        self._rows.problems.pop(field.name, None)
        return True

    async def action_move(self, step: int) -> None:
        """Go to another row; what was typed is taken if it fits, and marked if not."""
        await self._keep()
        rows = self._rows
        rows.current = max(0, min(len(rows.rows) - 1, rows.current + step))
        self._enter()

    async def take_line(self) -> None:
        """Go to the next row if what was typed fits, as Enter does."""
        if await self._keep():
            await self.action_move(1)

    async def on_key(self, event: events.Key) -> None:
        if self._edited is None and event.key in ("enter", "space"):
            event.stop()
            await self._choose()

    async def _choose(self) -> None:
        row = self._rows.row
        if row.ending == "send":
            await self.action_send()
        elif row.ending:
            _ = self.dismiss(v1.DeclineElicitation() if row.ending == "decline" else v1.CancelElicitation())
        elif row.field is not None and row.value is not None:
            await self._toggle(row.field, row.value)
        else:
            await self.action_move(1)

    async def _toggle(self, field: FormField, value: str) -> None:
        chosen: Any = value
        if field.takes_several:
            now = list(field.value) if isinstance(field.value, list | tuple) else []
            # Kept without a check: on the way to three values there are two.
            field.value = [chosen for chosen in now if chosen != value] if value in now else [*now, value]
            self._rows.problems.pop(field.name, None)
            self._rows.refresh()
            return
        if field.value == value and not field.is_required:
            chosen = None
        try:
            await field.set(chosen)
            self._rows.problems.pop(field.name, None)
        except FieldError as error:
            self._rows.problems[field.name] = label(str(error), 200)
        self._rows.refresh()

    async def action_send(self) -> None:
        """Send the values if all fit; otherwise go to the first that does not."""
        await self._keep()
        for number, row in enumerate(self._rows.rows):
            field = row.field
            if field is None or row.value is not None:
                continue
            try:
                if field.name not in self._rows.problems:
                    field.require()
                    await field.set(field.value)
                    continue
            except FieldError as error:
                self._rows.problems[field.name] = f"{label(field.shown('(nothing)'), 30)} {label(str(error), 200)}"
            self._rows.current = number
            self._enter()
            return
        _ = self.dismiss(accepted(self._fields))

    async def action_leave(self) -> None:
        """Go back; the form stays open."""
        _ = self.dismiss(None)


_LEAVING: Final[dict[str, Callable[[FormScreen], Awaitable[None]]]] = {
    "enter": FormScreen.take_line,
    "up": lambda form: form.action_move(-1),
    "shift+tab": lambda form: form.action_move(-1),
    "down": lambda form: form.action_move(1),
    "tab": lambda form: form.action_move(1),
    "ctrl+s": FormScreen.action_send,
    "escape": FormScreen.action_leave,
}
