"""What a conversation needs from outside: the user interface that shows it, and how sessions are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dragoman.tui.values import AskedQuestion, OpenForm, TypedPrompt


class Interface(Protocol):
    """What a conversation calls: all of it is synchronous, and only notes that something is to be drawn."""

    def changed(self) -> None:
        """Note that the state, the phase, the prompts or the settings changed."""

    def asked(self, question: AskedQuestion) -> None:
        """Ask the user for a permission."""

    def withdrawn(self, question: AskedQuestion, why: str) -> None:
        """Close a question that is not open any more: it was answered elsewhere, or the agent took it back."""

    def form(self, form: OpenForm) -> None:
        """Ask the user for values."""

    def form_withdrawn(self, form: OpenForm) -> None:
        """Close a form that is not open any more."""

    def ended(self, prompt: TypedPrompt | None, stop_reason: str | None, error: str) -> None:
        """Note the end of a turn: of a prompt of ours, or of another client if None."""

    def returned(self, text: str, why: str) -> None:
        """Give the user a text back that was sent and did not run: it is nowhere but here."""

    def note(self, text: str) -> None:
        """Show a sentence."""

    def reloaded(self) -> None:
        """Begin again with `state`, which is another object with the history of the session."""


class Opening(Protocol):
    """How a session is opened: made by the command line, which knows agents, rules and settings."""

    cwd: str
    is_temporary: bool
    """The sessions end with the client, so that there is no way back to them."""
    worktree: str
    """The name of the worktree that the folder belongs to; empty without one."""
    mode: str
    """The mode of the first new session, as the user typed it; empty to leave it to the agent."""

    def new(self, agent: str | None) -> dict[str, Any]:
        """Return the params of `session/new` for an agent, or for the one the user named. Raises: DragomanError."""

    def choose(self, agent: str, model: str) -> None:
        """Open new sessions with this agent, and this model of the built-in one, unless another agent is named."""
