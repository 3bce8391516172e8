"""The questions of an agent that are open in this client: permissions, forms and pages.

Owns which of them wait, who answered them, and what the user interface is called with. The host asks every client; the
first answer counts. A question that was answered elsewhere is withdrawn first, and the host's next message says by
whom: the user interface is called when that is known.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from time import strftime
from typing import TYPE_CHECKING, Any, Final, Protocol

from dragoman.host.working.question_details import read_details
from dragoman.schema import v1
from dragoman.tui.values import AskedQuestion, OpenForm, answered_words, completed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client import Session
    from dragoman.client.elicitation.form import Outcome

_MOST_CLOSED: Final = 64  # questions and pages whose end the host may never report must not pile up


class ShowsQuestions(Protocol):
    """What a user interface does with questions."""

    def changed(self) -> None: ...

    def asked(self, question: AskedQuestion) -> None: ...

    def withdrawn(self, question: AskedQuestion, why: str) -> None: ...

    def form(self, form: OpenForm) -> None: ...

    def form_withdrawn(self, form: OpenForm) -> None: ...

    def note(self, text: str) -> None: ...


class OpenQuestions:
    """The open questions of one conversation."""

    def __init__(self, interface: ShowsQuestions, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.questions: list[AskedQuestion] = []
        self.forms: list[OpenForm] = []
        self._interface = interface
        self._closed: OrderedDict[str, AskedQuestion] = OrderedDict()
        self._pages: OrderedDict[str, None] = OrderedDict()

    def answered(self, params: dict[str, Any]) -> None:
        """Close a question that was answered; by whom is shown if that was another client."""
        id = str(params.get("questionId"))
        # Usually the request was cancelled before, and its task has put the question there. A task may also not have
        # run yet: then the question is still open here, and is withdrawn now.
        question = self._closed.pop(id, None)
        is_open = question is None
        if question is None:
            question = next((asked for asked in self.questions if asked.id == id and not asked.answer.done()), None)
        if question is None:
            return
        why = answered_words(question.options, params, strftime("%H:%M"))
        if is_open:
            self._withdraw(question, why)
        else:
            self._interface.withdrawn(question, why)

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> str | v1.SelectedPermissionOutcome | None:
        """Ask the user; cancelled when the question is withdrawn."""
        id = read_details(request).question_id
        question = AskedQuestion(id or os.urandom(8).hex(), completed(request, session.state), self._clock())
        self.questions.append(question)
        self._interface.asked(question)
        try:
            chosen = await question.answer
        except asyncio.CancelledError:
            if question in self.questions:
                # How it was answered comes with the next message of the host.
                self.questions.remove(question)
                self._closed[question.id] = question
                while len(self._closed) > _MOST_CLOSED:
                    self._closed.popitem(last=False)
            raise
        finally:
            if question in self.questions:  # answered here; nothing withdrew it
                self.questions.remove(question)
            self._interface.changed()
        if chosen is None or not question.reason or not question.details.reads_reasons:
            return chosen
        return v1.SelectedPermissionOutcome(chosen, meta={"dragoman": {"reason": question.reason}})

    def answer(self, question: AskedQuestion, option_id: str | None) -> None:
        """Answer a question with an option, or with none."""
        if not question.answer.done():  # another client was faster, or a key was pressed twice
            question.answer.set_result(option_id)

    def reject(self, question: AskedQuestion, reason: str) -> bool:
        """Reject a question with a reason; False if the agent offers no option for it."""
        option = question.rejecting
        if option is None or question.answer.done():
            return False
        question.reason = reason
        self.answer(question, option.option_id)
        return True

    def lose(self, why: str) -> None:
        """Close everything, since the connection or the session is another one."""
        for question in list(self.questions):
            self._withdraw(question, why)
        for form in list(self.forms):
            form.answer.cancel()

    def _withdraw(self, question: AskedQuestion, why: str) -> None:
        # Removed before its task is cancelled: the task would keep it for a message of the host that has come already.
        if question in self.questions:
            self.questions.remove(question)
            self._interface.withdrawn(question, why)
        if not question.answer.done():
            question.answer.cancel()

    async def ask_form(self, request: v1.ElicitationFormMode | v1.ElicitationUrlMode) -> Outcome:
        """Show a form or a page and wait for what the user does with it."""
        form = OpenForm(request)
        self.forms.append(form)
        self._interface.form(form)
        try:
            outcome = await form.answer
        except asyncio.CancelledError:
            self._interface.form_withdrawn(form)
            raise
        finally:
            self.forms.remove(form)
            self._interface.changed()
        if isinstance(request, v1.ElicitationUrlMode) and isinstance(outcome, v1.AcceptElicitation):
            self._pages[request.elicitation_id] = None
            while len(self._pages) > _MOST_CLOSED:
                self._pages.popitem(last=False)
        return outcome

    def page_done(self, elicitation_id: str) -> None:
        """Close a page that the agent is done with; one that is not open here is ignored (rule 319)."""
        if elicitation_id in self._pages:
            del self._pages[elicitation_id]
            self._interface.note("the page that you opened is done")
