"""The two cards above the input: the question that is open, and what else waits for the user.

Owns which card is shown, and what a key in a card does. What counts as an answer is decided in `card.py`. The second
card shows one sheet at a time: a form or a page that waits, a login, a failure. Its keys count only in the card, and
only when it was in sight for a moment.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.text.terminal import cells, clip
from dragoman.text.visible import label
from dragoman.tui.question_lines import answer_named
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.questions.card import CardView, QuestionCard
from dragoman.tui.values import HOLD_SECONDS
from dragoman.view.rails import by_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events

    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.values import AskedQuestion


class Cards:
    """The cards of one app."""

    def __init__(self, app: TerminalApp) -> None:
        self._app = app
        self._sheet: CardSheet | None = None
        self.clock: Callable[[], float] = monotonic
        """The time that cards go by."""
        self.last_key: events.Key | None = None
        """The key that is handled."""
        self._is_covered = False
        self._held: HeldLetter | None = None

    def put(self, sheet: CardSheet | None) -> None:
        """Show a sheet in the second card, or none."""
        self._sheet = sheet
        self._app.changed()

    def look_around(self) -> None:
        """Draw the cards again when the screen that covered them is gone: only from then on they are in sight."""
        was_covered, self._is_covered = self._is_covered, len(self._app.screen_stack) > 1
        if was_covered and not self._is_covered:
            self._app.query_one("#card", QuestionCard).refresh()
            self._app.query_one(ActionCard).refresh()

    def paint(self) -> bool:
        """Show what waits. True if that has to be done again soon: a place stays empty for a moment."""
        app = self._app
        card, action = app.query_one("#card", QuestionCard), app.query_one(ActionCard)
        card.clock = action.clock = self.clock
        had_focus = card.has_focus or action.has_focus
        card.look_at_clock()
        card.note_draft(bool(app.query_one(PromptInput).text) and self._held is None)
        questions = app.conversation.questions
        is_waiting = not card.show(questions[0] if questions else None, len(questions))
        sheet = self._current_sheet()
        action.show(None if card.display else sheet)
        if not card.display and not action.display and (had_focus or app.focused is None):
            app.query_one(PromptInput).focus()
        return is_waiting

    def show_changes_once(self) -> None:
        """Let the conversation leave out the change that the card of the question shows."""
        conversation = self._app.conversation
        calls = [question.request.tool_call for question in conversation.questions[:1]]
        conversation.watched.show_elsewhere({call.tool_call_id: call.content or () for call in calls})

    def _current_sheet(self) -> CardSheet | None:
        """Return what the second card shows: a form that waits, what a command put there, or a failure."""
        app = self._app
        if app.conversation.forms:
            from dragoman.tui.screen.questions.form import form_sheet

            return form_sheet(app, app.conversation.forms[0])
        if self._sheet is not None:
            return self._sheet
        if app.conversation.trouble is None and not app.conversation.silence_seconds:
            return None
        from dragoman.tui.screen.questions.failure import failure_sheet

        return failure_sheet(app)

    # Keys

    def key(self, event: events.Key) -> bool:
        """Return a key while a card has the keyboard; False if none has."""
        card, action = self._app.query_one("#card", QuestionCard), self._app.query_one(ActionCard)
        if card.has_focus:
            _ = self.question_key(card, event)
        elif action.has_focus:
            self._sheet_key(action, event)
        else:
            return False
        return True

    def answer_in_sight(self, number: int) -> None:
        """Answer the question in sight with a number."""
        cards = self._app.screen.query(QuestionCard)
        if cards:  # a binding does not pass its key: `last_key` knows when it was read
            read_at = self.clock() if self.last_key is None else self._read_at(self.last_key)
            self._answer(cards.first(), number, read_at)

    def typed_key(self, event: events.Key) -> bool:
        """Look at a key before the input takes it; True if it is not to be typed.

        With an empty input, a letter or number of the question in sight may be its answer. It is typed all the same:
        only if nothing follows it is it taken out again, and answers. So the beginning of a word does not, nor does a
        text that is pasted without brackets.
        """
        app, prompt, held = self._app, self._app.query_one(PromptInput), self._held
        if held is not None and event.key == "enter" and prompt.text == held.letter:
            return True  # as in lines; a letter alone is not a prompt while it may be an answer
        self._held = None
        card = app.query_one("#card", QuestionCard)
        letter, read_at = event.character or "", self._read_at(event)
        if prompt.text or not card.display or not card.takes(letter) or not card.is_settled(read_at):
            return False
        assert card.question is not None
        self._held = held = HeldLetter(letter, card.question, read_at)
        app.set_timer(HOLD_SECONDS, lambda: self._release(held))
        return False

    def _release(self, held: HeldLetter) -> None:
        """Let a letter answer that nothing followed, if everything is as it was when it was typed."""
        app = self._app
        if self._held is not held or len(app.screen_stack) > 1:
            return
        self._held = None
        card, prompt = app.query_one("#card", QuestionCard), app.query_one(PromptInput)
        if prompt.text == held.letter and card.question is held.question:
            prompt.put("")
            _ = self._letter(card, held.letter, held.read_at)
        app.changed()

    def question_key(self, card: QuestionCard, event: events.Key) -> bool:
        """Return a key in the card of a question; False if it means nothing there."""
        read_at = self._read_at(event)
        key, question = event.key, card.question
        if question is None:
            return False
        if self._letter(card, event.character or "", read_at):
            return True
        if key.isdigit() and len(key) == 1:
            self._answer(card, int(key), read_at)
        elif key in ("up", "down"):
            card.select(-1 if key == "up" else 1)
        elif key == "enter":
            if card.selected is None:
                card.problem = "choose an answer first: its letter or number, or Up and Down"
                card.refresh()
            else:
                self._answer(card, card.selected, read_at)
        else:
            return card.scroll_key(key)
        return True

    def _letter(self, card: QuestionCard, letter: str, read_at: float) -> bool:
        """Do what a letter or number means for a question; False if it means nothing."""
        question = card.question
        if question is None or not card.takes(letter):
            return False
        number = answer_named(question.request, letter)
        if number is not None:
            self._answer(card, number, read_at)
        elif letter == "v" and card.id == "card":
            from dragoman.tui.screen.questions.question_screen import open_question

            open_question(self._app, question)
        elif letter == "w" and card.is_settled(read_at):
            from dragoman.tui.screen.questions.question_screen import ask_reason

            ask_reason(self._app, question)
        return True

    def _answer(self, card: QuestionCard, number: int, read_at: float) -> None:
        question, option = card.question, card.choose(number, read_at)
        if question is not None and option is not None:
            words = f"answered: {label(question.options[number - 1].name, 60)}"
            card.close_with(words)
            self._app.query_one("#card", QuestionCard).close_with(words)  # the same card, or the one behind its screen
            self._app.conversation.answer(question, option)
        self._app.changed()

    def _sheet_key(self, card: ActionCard, event: events.Key) -> None:
        found = card.press(event.character or event.key, self._read_at(event))
        if found is not None:
            found.run(self._app)
            self._app.changed()
        else:
            card.scroll_key(event.key)

    def _read_at(self, event: events.Key) -> float:
        """Return when a key was read: one that was typed before a card was in sight may be handled after it."""
        return event.time if self.clock is monotonic else self.clock()


class HeldLetter(NamedTuple):
    """A letter that was typed into an empty input, and answers a question if nothing follows it."""

    letter: str
    question: AskedQuestion
    read_at: float


class SheetKey(NamedTuple):
    """Something that a key does."""

    key: str
    text: str
    """What is shown; empty if the lines say it."""
    run: Callable[[TerminalApp], None]


class CardSheet(NamedTuple):
    """What the card shows."""

    subject: object
    """What it is about; another subject is another sheet."""
    lines: Callable[[int], Sequence[str]]
    """The lines for a width."""
    keys: Sequence[SheetKey]
    is_bad: bool = False


class ActionCard(CardView):
    """The card of one sheet."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.sheet: CardSheet | None = None

    def show(self, sheet: CardSheet | None) -> None:
        """Show a sheet, or none."""
        before = self.sheet
        if sheet is None and before is None:
            return
        if sheet is not None and before is not None and sheet.subject is before.subject:
            if [key.text for key in sheet.keys] != [key.text for key in before.keys]:
                self.sheet = sheet
                self.adapt()
            self.sheet = sheet
            return
        self.sheet = sheet
        self.display = sheet is not None
        self.begin()

    @property
    def is_empty(self) -> bool:
        return self.sheet is None

    def lay_out(self) -> None:
        if self.sheet is None:
            self.body, self.foot = [], []
            return
        width, glyphs = self.columns(), self.glyphs
        sign = glyphs.failed if self.sheet.is_bad else glyphs.needs_you
        lines = [part for line in self.sheet.lines(width) for part in _fitted(line, width)]
        self.body = self.railed(lines, sign, style="bad" if self.sheet.is_bad else "warn")
        keys = _rows([f"[{key.key}] {key.text}" for key in self.sheet.keys if key.text], width - 2)
        self.foot = [((f"{glyphs.agent} {line}", ""),) for line in keys]

    def how(self) -> str:
        return "type a key" if self.has_focus else "Tab, then a key"

    def press(self, key: str, read_at: float) -> SheetKey | None:
        """Return what a key does, if it counts; `problem` says why not."""
        if self.sheet is None:
            return None
        pressed = next((sheet_key for sheet_key in self.sheet.keys if sheet_key.key == key), None)
        if pressed is not None and not self.is_settled(read_at):
            self.problem = "that was too soon: read it first"
            self.refresh()
            return None
        return pressed


def _fitted(line: str, width: int) -> list[str]:
    lead = line[: len(line) - len(line.lstrip(" "))]
    return [part if not number else f"{lead}{part}" for number, part in enumerate(by_words(line, width - 2))] or [""]


def _rows(texts: Sequence[str], width: int) -> list[str]:
    """Put texts next to each other, as many as a line has room for."""
    rows: list[str] = []
    for text in texts:
        if rows and cells(rows[-1]) + cells(text) + 3 <= width:
            rows[-1] += f"   {text}"
        else:
            rows.append(clip(text, width))
    return rows
