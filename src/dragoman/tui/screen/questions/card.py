"""Cards above the input: lines that scroll, and answers below them that stay in sight.

A card never takes the keyboard by itself, and no key answers it by accident. A letter or a number counts when the user
moved into the card, or when the input is empty and nothing is typed behind it; Alt with a number counts always. In
each case the card must have been in sight for 0.4 seconds before the key was read, and, for an answer that allows, the
last line of the question must have been shown. The answer that rejects is selected at first, and Enter does nothing
until the selection was moved, which passes by the answers that allow for longer than once. A paste and a click answer
nothing.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual.strip import Strip
from textual.widget import Widget

from dragoman.client.question_words import answer_letters, letters_of
from dragoman.host.working.question_details import answers_of
from dragoman.text.terminal import clip
from dragoman.text.visible import label
from dragoman.tui.question_lines import answer_lines, answer_named, is_answer_line, question_lines
from dragoman.tui.screen.strips import strip_of
from dragoman.tui.values import SETTLE_SECONDS
from dragoman.view.rails import UNICODE, by_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from dragoman.tui.values import AskedQuestion
    from dragoman.view.rails import Glyphs, RailLine

PAUSE_SECONDS: Final = 1.0
"""After a question is gone its place stays empty so long: a key that was meant for it cannot answer the next one."""
_TALLEST: Final = 24
_FIXED: Final = 6
"""Rows that are not the card's: header, one of the conversation, status, rule, input and footer."""
_LEAST: Final = 4


class CardView(Widget, can_focus=True):
    """Lines that scroll above lines that stay, and a line that says which part is in sight."""

    def __init__(self, *, glyphs: Glyphs = UNICODE, is_whole_screen: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.problem = ""
        self.clock: Callable[[], float] = monotonic
        self.glyphs = glyphs
        self.body: list[RailLine] = []
        self.foot: list[RailLine] = []
        self._is_whole_screen = is_whole_screen
        self._top = 0
        self._seen = 0  # lines of the body that were in sight, counted from the first
        self._painted_at: float | None = None
        self._was_settled = False

    # For the kinds of cards

    def lay_out(self) -> None:
        """Make `body` and `foot` for the present width."""

    def how(self) -> str:
        """Return what the last line says about keys."""
        return ""

    @property
    def takes_keys(self) -> bool:
        """Whether keys that are typed now are meant for it."""
        return self.has_focus

    def look_at_clock(self) -> None:
        """Draw again if keys count from now on, and the last line does not say so yet."""
        if self._was_settled != self.is_settled(self.clock()):
            self.refresh()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown."""
        return not self.body

    # What was seen

    @property
    def is_read(self) -> bool:
        """Whether the last line was in sight."""
        return self._seen >= len(self.body)

    def is_settled(self, read_at: float) -> bool:
        """Return whether the card was in sight for long enough before a key was read."""
        return self._painted_at is not None and read_at - self._painted_at >= SETTLE_SECONDS

    def begin(self) -> None:
        """Begin with something else, of which nothing was in sight yet."""
        self.problem, self._top, self._seen, self._painted_at = "", 0, 0, None
        self.adapt()

    def adapt(self) -> None:
        """Lay out for the present size."""
        was_read = self._painted_at is not None and self.is_read
        self.lay_out()
        self._seen = len(self.body) if was_read else 0  # at another width a line has another number
        if not self._is_whole_screen:
            self.styles.height = min(len(self.body) + len(self.foot) + 1, self._room())
        self._top = max(0, min(self._top, self._furthest()))
        self.refresh()

    def columns(self) -> int:
        """Return how wide a line may be."""
        width = self.size.width or (self.app.size.width if self.is_attached else 80)
        return max(20, width - 2)

    def _room(self) -> int:
        return max(_LEAST, min(_TALLEST, self.app.size.height - _FIXED)) if self.is_attached else _TALLEST

    def _height(self) -> int:
        return self.size.height or self._room()

    def _body_rows(self) -> int:
        height = self._height()
        answers = max(0, min(len(self.foot), height - 2))  # all of them, as long as a line of the question is left
        return max(1, height - answers - 1)

    def _furthest(self) -> int:
        return max(0, len(self.body) - self._body_rows())

    # Scrolling

    def move(self, lines: int) -> None:
        """Scroll by so many lines."""
        self.problem = ""
        self._top = max(0, min(self._furthest(), self._top + lines))
        self.refresh()

    def scroll_page_up(self, **settings: Any) -> None:
        """Scroll one page up; also called for the keys of the whole screen."""
        self.move(-max(1, self._body_rows() - 1))

    def scroll_page_down(self, **settings: Any) -> None:
        """Scroll the same down."""
        self.move(max(1, self._body_rows() - 1))

    def scroll_key(self, key: str) -> bool:
        """Scroll by a key; False if it is another one."""
        match key:
            case "pageup" | "ctrl+u" | "b":
                self.scroll_page_up()
            case "pagedown" | "ctrl+d" | "space":
                self.scroll_page_down()
            case "k":
                self.move(-1)
            case "j":
                self.move(1)
            case "home" | "g":
                self.move(-len(self.body))
            case "end" | "G":
                self.move(len(self.body))
            case _:
                return False
        return True

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-3)

    # Drawing

    def on_resize(self, event: events.Resize) -> None:
        self.adapt()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, height = self.size.width, self.size.height
        if self.is_empty:
            return Strip.blank(width)
        if y == height - 1:
            return strip_of(self._last_line(), width)
        rows = self._body_rows()
        if y >= rows:
            place = y - rows
            return strip_of(self.foot[place], width) if place < len(self.foot) else Strip.blank(width)
        line = y + self._top
        if line >= len(self.body):
            return Strip.blank(width)
        if self.app.screen is not self.screen:
            return strip_of(self.body[line], width)  # drawn behind another screen, where it is not in sight
        self._seen = max(self._seen, line + 1)
        if self._painted_at is None:
            self._painted_at = self.clock()
            self.set_timer(SETTLE_SECONDS + 0.05, self.refresh)  # from then on keys count, and the last line says so
        return strip_of(self.body[line], width)

    def _last_line(self) -> RailLine:
        shown = min(len(self.body), self._top + self._body_rows())
        is_cut = shown < len(self.body) or self._top
        place = f"line {self._top + 1}-{shown} of {len(self.body)}" if is_cut else ""
        width = self.size.width
        if self.problem:
            return ((clip(f"  {self.problem}", width), "warn"),)
        how = self.how()
        self._was_settled = self.is_settled(self.clock())
        if how and self.takes_keys and not self._was_settled:
            how = "one moment"
        text = clip(f"  {how}", max(10, width - len(place) - 2))
        return ((text, "dim"), (f"  {place}", "warn" if not self.is_read else "dim"))

    def railed(self, lines: list[str], sign: str, *, style: str = "warn") -> list[RailLine]:
        """Return lines behind a rail; the first one begins with a sign."""
        return [
            ((f"{sign if not number else self.glyphs.agent} {line}", style if not number else ""),)
            for number, line in enumerate(lines)
        ]


class QuestionCard(CardView):
    """An open permission request with its answers."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.question: AskedQuestion | None = None
        self._closing_words = ""
        self._counter = ""
        self._gone_at = -PAUSE_SECONDS
        self._selected = 0
        self._has_moved = False
        self._has_draft = False
        self._written: tuple[tuple[AskedQuestion | None, int], list[str]] = (None, 0), []
        self._unseen_answers: frozenset[int] = frozenset()  # which of them are not in sight with all that they do

    def show(self, question: AskedQuestion | None, count: int = 1) -> bool:
        """Show a question, or none. False if the place has to stay as it is for a moment."""
        is_pausing = self.clock() - self._gone_at < PAUSE_SECONDS
        counter = f"1 of {count}" if count > 1 else ""
        if question is self.question and question is not None:
            if counter != self._counter:
                self._counter = counter
                self.adapt()
            return True
        if self.question is not None:  # this one is gone; the next one waits
            self._gone_at, self.question = self.clock(), None
            self.begin()
            return False
        if is_pausing:
            return False
        self._closing_words = ""
        if question is not None:
            self.question, self._counter = question, counter
            self._has_moved = False
            answers = answers_of(question.request)
            rejecting = (at for at, answer in enumerate(answers) if answer.is_clear and not answer.allows)
            self._selected = next(rejecting, -1)
        self.display = question is not None
        self.begin()
        return True

    @property
    def takes_keys(self) -> bool:
        return self.has_focus or not self._has_draft

    def note_draft(self, has_draft: bool) -> None:
        """Note whether letters go to a draft in the input; then the last line says how to answer all the same."""
        if has_draft != self._has_draft:
            self._has_draft = has_draft
            self.refresh()

    @property
    def is_cut(self) -> bool:
        """Whether it has more lines than there is room for."""
        return not self.is_empty and self._furthest() > 0

    def takes(self, key: str) -> bool:
        """Return whether a typed key means something to the question."""
        question = self.question
        if question is None:
            return False
        if key == "v":
            return True
        return question.rejecting is not None if key == "w" else answer_named(question.request, key) is not None

    def close_with(self, text: str) -> None:
        """Show a text for a moment in the place of the question that is gone, or is about to be."""
        self._closing_words = text
        if self.question is None:  # by whom it was answered may be known only after it is gone
            self.adapt()

    @property
    def is_empty(self) -> bool:
        return self.question is None and not self._closing_words

    def lay_out(self) -> None:
        question = self.question
        if question is None:
            self.foot = []
            lines = [label(self._closing_words, self.columns())] if self._closing_words else [""]
            self.body = self.railed(lines, self.glyphs.needs_you, style="dim")
            return
        width = self.columns()
        if (question, width) != self._written[0]:  # a change may have ten thousand lines
            self._written = (question, width), list(question_lines(question.request, width))
        lines = list(self._written[1])
        if self._counter:
            lines[0] = f"{self._counter}, {lines[0]}"
        self.body = self.railed(lines, self.glyphs.needs_you)
        self.foot = self._answers(width)

    def _answers(self, width: int) -> list[RailLine]:
        assert self.question is not None
        request = self.question.request
        rail, sign = self.glyphs.agent, self.glyphs.you
        keys = "   ".join(
            key
            for key, is_there in (
                ("w: reject and say why", self.question.rejecting is not None),
                ("v: the whole question", not self._is_whole_screen),
            )
            if is_there
        )
        lines: list[RailLine] = []
        numbers = iter(range(len(request.options)))
        for line in answer_lines(request, width):
            is_selected = is_answer_line(line) and next(numbers, None) == self._selected
            mark = sign if is_selected else " "
            lines.append(((rail, ""), (clip(f"{mark}{line}", width), "bold" if is_selected else "")))
        lines.append(((rail, ""), (clip(f"   {keys}", width), "dim")))
        self._unseen_answers = frozenset()
        if self._is_whole_screen and len(lines) + 2 > self._height():
            self.body += lines  # they are read by scrolling, as the question is
            return []
        if self._is_whole_screen or len(lines) + 4 <= self._room():
            return lines
        return self._short_answers(width)

    def _short_answers(self, width: int) -> list[RailLine]:
        """Return a small screen: the answers next to each other, so that the question keeps some lines."""
        assert self.question is not None
        answers = answers_of(self.question.request)
        keys = [f"[{letter or at}]" for at, letter in enumerate(answer_letters(answers), 1)]
        named = list(keys)
        if 0 <= self._selected < len(keys):
            keys[self._selected] = f"{self.glyphs.you}{keys[self._selected]}"
        clear = [(key, answer) for key, answer in zip(keys, answers, strict=True) if answer.is_clear]
        short = "  ".join(f"{key} {answer.text(width - 8)}" for key, answer in clear)
        room = max(1, self._room() - 3)
        lines = list(by_words(short, width - 1))
        shown = {number for number, answer in enumerate(answers, 1) if not answer.effect}
        if len(lines) > room:
            short = " ".join(f"{key} {answer.short}" for key, answer in clear)
            lines = list(by_words(f"[v] all {short} [w] no, because", width - 1))[:room]
            shown = {number for number in shown if any(f"{named[number - 1]} " in line for line in lines)}
        self._unseen_answers = frozenset(range(1, len(answers) + 1)) - shown
        return [((self.glyphs.agent, ""), (f" {line}", "")) for line in lines]

    def how(self) -> str:
        if self.question is None:
            return ""
        if not any(answer.is_clear for answer in answers_of(self.question.request)):
            return "the agent offers no answer: Esc in the input stops the turn"
        keys = letters_of(answers_of(self.question.request))
        if not self.has_focus and self._has_draft:
            return f"there is a draft: Tab, then {keys}; or Alt+number"
        answer = f"press {keys} to answer" if self.is_read else f"PgDn: read on; then {keys} answers"
        return answer if self.has_focus else f"{answer}; Tab: into the question"

    def choose(self, number: int, read_at: float) -> str | None:
        """Return the id of the answer with a number, if it counts; `problem` says why not."""
        question = self.question
        if question is None:
            return None
        answers = answers_of(question.request)
        if not self.is_settled(read_at):
            self.problem = "that was too soon: read the question first"
        elif not 1 <= number <= len(answers):
            self.problem = f"the answers are 1 to {len(answers)}"
        elif not answers[number - 1].is_clear:
            self.problem = "this answer cannot be chosen: its meaning is not clear"
        elif answers[number - 1].allows and not self.is_read:
            self.problem = "scroll to the end of the question first"
        elif number in self._unseen_answers and answers[number - 1].kind != "reject_once":
            self.problem = "v shows what this answer does; choose it there"
        else:
            return question.options[number - 1].option_id
        self.refresh()
        return None

    def select(self, step: int) -> None:
        """Move the selection to another answer; one that allows for longer than once has only its letter and number."""
        self.problem = ""
        if self.question is None:
            return
        answers = answers_of(self.question.request)
        walked = [at for at, answer in enumerate(answers) if answer.is_clear and answer.kind != "allow_always"]
        found = [at for at in walked if (at - self._selected) * step > 0]
        if found:
            self._selected = found[0] if step > 0 else found[-1]
        elif self._selected not in walked:
            return
        self._has_moved = True
        self.adapt()

    @property
    def selected(self) -> int | None:
        """The number of the answer that Enter gives; None until the user moved the selection."""
        return self._selected + 1 if self._has_moved else None
