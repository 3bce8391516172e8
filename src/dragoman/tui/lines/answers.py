"""What a client of lines asks its user: permissions, forms, pages, logins and failures, all answered by typed lines.

One thing is asked at a time, in this order: the open form, the permission, then the numbered choices of a login or a
failure. Nothing that was typed before a question could be read counts. The lines come from the same pure modules as
the cards of the full screen.
"""

from __future__ import annotations

import asyncio
import shlex
from contextlib import nullcontext
from typing import TYPE_CHECKING

from dragoman.client.question_words import letters_of
from dragoman.errors import DragomanError, LoginFailed
from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, log_path
from dragoman.host.working.question_details import answers_of
from dragoman.process.own_program import own_command
from dragoman.schema import v1
from dragoman.text.terminal import one_line
from dragoman.text.visible import label
from dragoman.tui.question_lines import answer_lines, answer_named, question_lines
from dragoman.tui.questions.failures import HUNG_SECONDS, hung

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from dragoman.client.elicitation.form import Outcome
    from dragoman.client.login import LoginMethod
    from dragoman.text.colour import Painter
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.questions.failures import Failure, FailureChoice
    from dragoman.tui.questions.form_values import FormDialogue
    from dragoman.tui.values import AskedQuestion, OpenForm


class LineAnswers:
    """The questions of one conversation, whose answers are read from lines."""

    def __init__(
        self,
        conversation: HostedConversation,
        write: Callable[..., None],
        width: Callable[[], int],
        paint: Painter,
        *,
        by_line: bool = True,
        hand_over: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Ask for one conversation.

        Args:
            by_line: a permission is answered by a line with its number; otherwise only `answer` does it.
            hand_over: gives the terminal to another program.
        """
        self._hand_over = hand_over
        self._by_line = by_line
        self._conversation = conversation
        self._write = write
        self._width = width
        self._paint = paint
        self._form: OpenForm | None = None
        self._dialogue: FormDialogue | None = None
        self._methods: list[LoginMethod] = []
        self._trouble: Failure | None = None
        self._choices: list[FailureChoice] = []
        self._agents: list[str] = []
        self._installs: tuple[str, ...] = ()

    @property
    def is_filling(self) -> bool:
        """Whether an empty line is a value of the open form."""
        return self._dialogue is not None

    # Permissions

    def asked(self, question: AskedQuestion) -> None:
        """Write a permission request."""
        width, count = self._width(), sum(not waiting.answer.done() for waiting in self._conversation.questions)
        self._write(*question_lines(question.request, width, self._paint))
        # The lines of the question stay: its changes are not written again when the call ends.
        call = question.request.tool_call
        self._conversation.watched.show_elsewhere({call.tool_call_id: call.content or ()}, with_earlier=True)
        self._write(*answer_lines(question.request, width, self._paint))
        if count > 1:
            self._write(f"note: {count} questions are open; answers go to the first")
        if not any(answer.is_clear for answer in answers_of(question.request)):
            self._write("note: the agent offers no answer; /stop stops the turn")
        elif self._by_line:
            why = "w WHY: no, because; " if question.rejecting is not None else ""
            self._write(f"answer with {letters_of(answers_of(question.request))} and Enter ({why}v: see it again);")
            self._write("another line is a prompt and answers nothing")
        question.shown_at = self._conversation.clock()

    def answer(self, question: AskedQuestion, number: int) -> None:
        """Answer a question by the number of an answer; one that comes too soon is refused."""
        answers = answers_of(question.request)
        if not question.is_settled(self._conversation.clock()):
            self._write("note: that came before the question could be read; answer again")
        elif not 1 <= number <= len(answers):
            self._write(f"note: the answers are 1 to {len(answers)}")
        elif not answers[number - 1].is_clear:
            self._write("note: this answer cannot be chosen: its meaning is not clear")
        else:
            chosen = question.options[number - 1]
            self._write(f"note: answered: {label(chosen.name, 80)}")
            self._conversation.answer(question, chosen.option_id)
            self._ask_next()

    @property
    def open_question(self) -> AskedQuestion | None:
        """The question that answers go to."""
        # One that was answered a moment ago stays in the list until its task has run.
        return next((waiting for waiting in self._conversation.questions if not waiting.answer.done()), None)

    def show_again(self) -> None:
        """Write the question that is open once more, whole: it may have scrolled away."""
        if self.open_question is not None:
            self.asked(self.open_question)

    def _ask_next(self) -> None:
        """Write the next question again: a key that was typed twice must not answer one that is far above."""
        self.show_again()

    def _take_answer(self, question: AskedQuestion, text: str) -> bool:
        """Return whether a line answers the open question: a letter, a number, `w WHY`, or `v`."""
        number = (
            int(text) if text.isascii() and text.isdigit() and len(text) < 7 else answer_named(question.request, text)
        )
        if number is not None:
            self.answer(question, number)
        elif text == "v":
            self.show_again()
        elif (text == "w" or text.startswith("w ")) and question.rejecting is not None:
            self._reject(text[1:].strip(), "w")
        else:
            return False
        return True

    def _reject(self, reason: str, command: str = "/why") -> None:
        question = self.open_question
        if question is None:
            self._write("note: no question is open")
        elif not reason:
            self._write(f"note: {command} takes the reason, as {command} use ninja instead")
        elif not question.is_settled(self._conversation.clock()):
            self._write("note: that came before the question could be read; answer again")
        elif self._conversation.reject(question, reason):
            self._write("note: rejected, with your reason")
            self._ask_next()
        else:
            self._write("note: the agent offers no answer that rejects this; answer with a number")

    # Forms and pages

    def form(self, form: OpenForm) -> None:
        """Take a form or a page that waits; it is asked when the one before is over."""
        if self._form is None:
            self._begin(form)

    def form_withdrawn(self, form: OpenForm) -> None:
        """Forget a form that is not open any more."""
        if form is self._form:
            self._write("note: the form is closed: the agent took it back, or another client answered it")
            self._next()

    def _begin(self, form: OpenForm) -> None:
        from dragoman.client.elicitation.form import UnreadableForm
        from dragoman.tui.questions.form_values import FormDialogue, page_lines

        self._form, request = form, form.request
        if isinstance(request, v1.ElicitationUrlMode):
            first, *lines = page_lines(request, self._conversation.agent, self._width())
            self._write(f"question: {first}", *lines)
            self._write("note: /open opens it in the browser, /decline says no, /cancel gives no answer")
            return
        try:
            self._dialogue = FormDialogue(request, self._conversation.agent, self._width())
        except UnreadableForm as error:
            self._write(f"note: {error}: cancelled")
            form.settle(v1.CancelElicitation())
            self._next()
            return
        first, *lines = self._dialogue.lines
        self._write(f"question: {first}", *lines)

    def _next(self) -> None:
        self._dialogue, done, self._form = None, self._form, None
        # The form that is over stays in the list until its task has run: it must not begin again.
        waiting = [form for form in self._conversation.forms if form is not done and not form.answer.done()]
        if waiting:
            self._begin(waiting[0])

    async def _take_form(self, text: str) -> bool:
        """Return a line while a form or a page waits; False if it is not meant for that."""
        form, dialogue = self._form, self._dialogue
        assert form is not None
        if dialogue is not None:
            if text.startswith("/") and text not in ("/decline", "/cancel", "/send"):
                return False
            await dialogue.take(text)
            self._write(*dialogue.lines)
            if dialogue.outcome is not None:
                form.settle(dialogue.outcome)
                self._next()
            return True
        endings: dict[str, Outcome] = {"/decline": v1.DeclineElicitation(), "/cancel": v1.CancelElicitation()}
        if text in endings:
            form.settle(endings[text])
            self._next()
            return True
        if text == "/open":
            await self._open_page(form)
            return True
        return False

    async def _open_page(self, form: OpenForm) -> None:
        from dragoman.client.elicitation.pages import is_web, open_in_browser

        if form.url is None or not is_web(form.url):
            self._write("note: only http and https pages can be opened; /decline or /cancel")
            return
        if not await asyncio.to_thread(open_in_browser, form.url):
            self._write("note: no browser could be started; open the address above yourself")
        form.settle(v1.AcceptElicitation())
        self._next()

    # Logins

    async def _log_in(self) -> None:
        from dragoman.process.foreground import has_terminal
        from dragoman.tui.questions.logins import login_command, method_lines, methods_of, shown_command

        try:
            self._methods = await methods_of(self._conversation, has_terminal=has_terminal())
        except (NoHost, DragomanError, OSError) as error:
            self._write(f"error: the login methods are not known: {one_line(str(error))}")
            return
        if not self._methods:
            command = shown_command(login_command(self._conversation.agent, ""))
            self._write(f"error: no login is possible here without a terminal; run this in one: {command}")
            return
        self._write("question: how do you want to log in?", *method_lines(self._methods))
        self._write("answer with a number and Enter; /cancel does not log in")

    async def _use_method(self, number: int) -> None:
        from dragoman.tui.questions.logins import log_in_by_terminal, use

        if not 1 <= number <= len(self._methods):
            self._write(f"note: the answers are 1 to {len(self._methods)}")
            return
        method, self._methods = self._methods[number - 1], []  # before anything is awaited: a second line is a prompt
        self._write(f"note: logging in: {label(method.name, 60)}")
        try:
            is_typed = method.takes_key or method.kind != "agent"
            if is_typed:
                async with self._hand_over():
                    await log_in_by_terminal(self._conversation, method)
            else:
                await use(self._conversation, method)
        except (LoginFailed, NoHost, DragomanError, OSError) as error:
            self._write(f"error: {one_line(str(error))}", "note: /login tries again")
            return
        self._write("note: logged in")
        if self._conversation.phase == "failed":
            self._conversation.retry()
        elif self._conversation.trouble is not None:
            self._conversation.dismiss_trouble()

    # Failures

    def watch(self) -> None:
        """Report a turn from which nothing came for long, once. Called every second."""
        conversation = self._conversation
        if conversation.trouble is None and conversation.silence_seconds >= HUNG_SECONDS:
            conversation.trouble = hung(label(conversation.agent, 40, "the agent"), conversation.silence_seconds)
            self.show_trouble()

    def show_trouble(self) -> None:
        """Write a failure that was not written yet, with its choices."""
        trouble = self._conversation.trouble
        if trouble is self._trouble:
            return
        self._trouble = trouble
        self._choices = [] if trouble is None else trouble.choices
        self._agents, self._installs = [], ()
        if trouble is None:
            return
        first, *lines = trouble.lines()
        self._write(f"error: {first}", *(f"  {line}" for line in lines))
        for number, choice in enumerate(self._choices, 1):
            self._write(f"  /{number}: {choice.text}")

    async def _do(self, number: int) -> None:
        trouble = self._conversation.trouble
        if trouble is None or not 1 <= number <= len(self._choices):
            self._write(f"note: the choices are /1 to /{len(self._choices)}")
            return
        conversation = self._conversation
        match self._choices[number - 1].act:
            case "restart":
                await conversation.restart()
            case "retry":
                conversation.retry()
            case "new":
                await conversation.begin_again()
            case "stop":
                await conversation.cancel()
            case "dismiss":
                conversation.dismiss_trouble()
            case "login":
                await self._log_in()
            case "log":
                self._write(f"note: the log is {log_path(find_places().first)}")
            case "report":
                from dragoman.tui.reporting.reports import facts_of

                self._write("note: a report, keys removed:", *trouble.report(facts_of(conversation)).splitlines())
            case "agent":
                self._offer_agents()
            case "install":
                self._installs = trouble.program
                self._write(f"question: run {shlex.join(['dragoman', *trouble.program])}?", "  y: yes", "  n: no")

    def _offer_agents(self) -> None:
        from dragoman.tui.start.agent_names import agent_names

        self._agents = agent_names(self._conversation.folder)
        self._write("question: which agent?")
        self._write(*(f"  {number}: {label(name, 60)}" for number, name in enumerate(self._agents, 1)))

    async def _install(self, program: tuple[str, ...]) -> None:
        from dragoman.process.foreground import run_in_foreground

        async with self._hand_over():
            code = await run_in_foreground(own_command(*program), cwd=self._conversation.folder)
        if code:
            self._write(f"error: it was not installed: exit code {code}")
        else:
            self._conversation.retry()

    # Lines

    async def take(self, text: str) -> bool:
        """Return whether a line was an answer to something that is asked."""
        try:
            return await self._take(text)
        except (DragomanError, OSError) as error:
            self._write(f"error: {one_line(str(error))}")
            return True

    async def _take(self, text: str) -> bool:
        if self._form is not None and await self._take_form(text):
            return True
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
        question = self.open_question if self._by_line else None
        if question is not None and self._take_answer(question, text):
            pass
        elif text == "/why" or text.startswith("/why "):
            self._reject(text[4:].strip())
        elif text == "/login":
            await self._log_in()
        elif self._methods and number is not None:
            await self._use_method(number)
        elif self._methods and text == "/cancel":
            self._methods = []
        elif self._installs and text in ("y", "n"):
            program, self._installs = self._installs, ()
            if text == "y":
                await self._install(program)
        elif self._agents and number is not None and 1 <= number <= len(self._agents):
            await self._conversation.begin_again(self._agents[number - 1])
        elif self._choices and text[:1] == "/" and text[1:].isascii() and text[1:].isdigit():
            await self._do(int(text[1:7]))
        else:
            return False
        return True
