"""The conversations that this client is attached to: the one that is shown, and a few that were shown before.

A conversation stays attached when another one is shown, so that going back to it loads nothing, and what happens in it
is known at once. The others of the host are known by its list, of which the host reports what changes.

Each conversation has its own connection, and reports to its own `AttachedConversation`. That passes on to the app what
belongs to the shown one; of another one it keeps what waits for the user, and repeats it when it is shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from dragoman.text.visible import label
from dragoman.tui.conversation import HostedConversation

if TYPE_CHECKING:
    from dragoman.tui.interface import Opening
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.values import AskedQuestion, ListedSession, OpenForm, TypedPrompt

MOST_ATTACHED: Final = 5
"""Each keeps its state in memory: a long session has tens of megabytes."""


class AttachedConversation:
    """One conversation, and what it reports."""

    def __init__(self, app: TerminalApp, opening: Opening, session_id: str | None) -> None:
        self._app = app
        self._forms: list[OpenForm] = []
        """Forms that came while another conversation was shown."""
        self.conversation = HostedConversation(opening, self, session_id=session_id)
        self.title = ""
        """As the list of the host names it; the state of the session knows a newer one."""

    @property
    def is_shown(self) -> bool:
        """Whether the screen shows it."""
        return self._app.conversation is self.conversation

    @property
    def name(self) -> str:
        """What a user calls it."""
        return label(self.conversation.state.title or self.title or os.path.basename(self.conversation.folder), 40)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happens in it."""
        return not (
            self.conversation.is_running or self.conversation.questions or self.conversation.prompts or self._forms
        )

    def was_shown(self) -> None:
        """Repeat what came while another conversation was shown."""
        forms, self._forms = self._forms, []
        for form in forms:
            self._app.form(form)

    # What the conversation calls

    def changed(self) -> None:
        self._app.changed()

    def reloaded(self) -> None:
        if self.is_shown:
            self._app.reloaded()

    def asked(self, question: AskedQuestion) -> None:
        if self.is_shown:
            self._app.asked(question)
        else:
            self._app.around.needs_user(self.conversation.session_id or "", self.name)

    def withdrawn(self, question: AskedQuestion, why: str) -> None:
        if self.is_shown:
            self._app.withdrawn(question, why)
        self._app.changed()

    def form(self, form: OpenForm) -> None:
        if self.is_shown:
            self._app.form(form)
        else:
            self._forms.append(form)
            self._app.around.needs_user(self.conversation.session_id or "", self.name)

    def form_withdrawn(self, form: OpenForm) -> None:
        self._forms = [waiting for waiting in self._forms if waiting is not form]
        if self.is_shown:
            self._app.form_withdrawn(form)

    def ended(self, prompt: TypedPrompt | None, stop_reason: str | None, error: str) -> None:
        if self.is_shown:
            self._app.ended(prompt, stop_reason, error)
        else:
            self._app.around.ended(self.name, error)

    def returned(self, text: str, why: str) -> None:
        if self.is_shown:
            self._app.returned(text, why)
        else:  # at once, and not when it is shown: the client may end before
            self._app.prompt_input.give_back(self.conversation, text)
            self.note(f"not sent, and back in its input: {why}")

    def note(self, text: str) -> None:
        self._app.note(text if self.is_shown else f"{self.name}: {text}")


class AttachedSessions:
    """All conversations of one client."""

    def __init__(self, app: TerminalApp, opening: Opening) -> None:
        self._app = app
        self.opening = opening
        self._items: list[AttachedConversation] = []  # the last shown one at the end

    def make(self, session_id: str | None) -> AttachedConversation:
        """Return a conversation that is not connected yet."""
        found = AttachedConversation(self._app, self.opening, session_id)
        self._items.append(found)
        return found

    def find(self, session_id: str | None) -> AttachedConversation | None:
        """Return the conversation with a session."""
        return next((item for item in self._items if session_id and item.conversation.session_id == session_id), None)

    @property
    def shown(self) -> AttachedConversation:
        """The one that is on the screen."""
        return next(item for item in self._items if item.is_shown)

    def __iter__(self) -> Any:
        return iter(list(self._items))

    def open(self, row: ListedSession | None, *, agent: str | None = None) -> AttachedConversation:
        """Return the conversation with a session, or with a new one: attached already, or connecting from here on."""
        attached = None if row is None else self.find(row.session_id)
        if attached is None:
            attached = self.make(None if row is None else row.session_id)
            if row is not None:
                attached.conversation.folder, attached.conversation.agent, attached.title = (
                    row.folder,
                    row.agent,
                    row.title or row.name or "",
                )
            elif agent is not None:
                attached.conversation.retry(agent=agent, is_new=True)
            self._app.run_conversation(attached.conversation)
        self._items.remove(attached)
        self._items.append(attached)
        return attached

    async def leave(self, conversation: HostedConversation) -> None:
        """Take a conversation out, and end its connection."""
        self._items = [item for item in self._items if item.conversation is not conversation]
        await conversation.leave()

    def leave_some(self) -> list[HostedConversation]:
        """Take out the conversations that are too many, the quiet ones first; the caller leaves them."""
        gone = []
        while len(self._items) > MOST_ATTACHED:
            others = [item for item in self._items if not item.is_shown]
            oldest = next((other for other in others if other.is_quiet), others[0])
            self._items.remove(oldest)
            gone.append(oldest.conversation)
        return gone

    async def leave_all(self) -> None:
        """End every connection; the work of the sessions goes on."""
        for item in self._items:
            await item.conversation.leave()
