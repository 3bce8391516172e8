"""What a conversation shows besides its session's state: prompts that wait, questions that are open, other sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client.elicitation.form import Outcome
    from dragoman.schema import v1

Phase: TypeAlias = Literal["connecting", "opening", "ready", "lost", "failed"]
"""Where the conversation is: `lost` while the host is looked for again, `failed` when only the user can go on."""

SETTLE_SECONDS: Final = 0.4
"""Nothing that is typed so soon after a question appeared is an answer: it was meant for something else."""


class AgentInput(NamedTuple):
    """What an agent takes in prompts."""

    image: bool = False
    embedded: bool = False
    steer: bool = False


class TypedPrompt:
    """A prompt that was sent to the host, and whether its turn runs."""

    def __init__(self, id: str, blocks: list[v1.ContentBlock], text: str, *, is_steered: bool = False) -> None:
        self.id = id
        self.blocks = blocks
        self.text = text
        """As it was typed: attachments are words."""
        self.has_started = False
        self.is_steered = is_steered
        """The agent has it for the turn that runs, and has not taken it yet."""
        self.is_logged = False
        """It could not run, and is in the history of the session all the same."""
        self.sending: asyncio.Task[None] | None = None

    @property
    def place_words(self) -> str:
        """Why it cannot be taken back."""
        return "the agent has it for the turn that runs" if self.is_steered else "its turn runs already"


def host_details(request: v1.RequestPermissionRequest) -> dict[str, Any]:
    """What the host knows about a question, as `_meta.dragoman` of the request has it."""
    meta = request.meta if isinstance(request.meta, dict) else {}
    own = meta.get("dragoman")
    return own if isinstance(own, dict) else {}


class AskedQuestion:
    """A permission request that waits for an answer, from this client or from another one."""

    def __init__(self, id: str, request: v1.RequestPermissionRequest, shown_at: float) -> None:
        self.id = id
        self.request = request
        self.shown_at = shown_at
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        self.reason = ""
        """What the user wrote about the answer."""

    @property
    def options(self) -> list[v1.PermissionOption]:
        """What can be chosen, as the agent offers it."""
        return list(self.request.options)

    @property
    def details(self) -> dict[str, Any]:
        """What the host knows about it: `why`, `cwd`, `commands`, `commandCount`, `options`, `readsReasons`."""
        return host_details(self.request)

    @property
    def rejecting(self) -> v1.PermissionOption | None:
        """The option that rejects it this time."""
        return next((each for each in self.request.options if each.kind == "reject_once"), None)

    def is_settled(self, now: float) -> bool:
        """Whether the question was in sight long enough for an answer to be meant for it."""
        return now - self.shown_at >= SETTLE_SECONDS


class OpenForm:
    """A form of the agent that waits to be filled in, or a page that it asks to open."""

    def __init__(self, request: v1.ElicitationFormMode | v1.ElicitationUrlMode) -> None:
        self.request = request
        self.answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def url(self) -> str | None:
        """The page to open; None for a form."""
        found = getattr(self.request, "url", None)
        return found if isinstance(found, str) else None

    def settle(self, outcome: Outcome) -> None:
        """Give the answer; a second one is not counted."""
        if not self.answer.done():
            self.answer.set_result(outcome)


def answered_words(options: Sequence[v1.PermissionOption], params: dict[str, Any], time: str) -> str:
    """How a question was answered elsewhere: `allowed by web, 10:02`."""
    chosen = next((each for each in options if each.option_id == params.get("option")), None)
    who = str(params.get("who") or "")
    if chosen is None:
        return "the agent took it back" if who == "agent" else f"closed without an answer, {time}"
    verb = {"allow_once": "allowed", "allow_always": "always allowed", "reject_always": "always rejected"}
    name = who.rpartition("/")[2] or "another client"
    return f"{verb.get(chosen.kind, 'rejected')} by {label(name, 30)}, {time}"


class ListedSession(Struct, frozen=True, kw_only=True):
    """One session of the host, in a list to choose from."""

    session_id: str
    name: str | None
    agent: str
    folder: str
    state: str
    title: str | None = None
    updated_at: str | None = None
    cost: str = ""
    """Such as `$0.42`."""
    steps_done: int = 0
    steps_total: int = 0
    questions: int = 0
    queued: int = 0
    ended: str = ""
    """How the last turn ended: a stop reason, or `error`."""
    error: str = ""

    @property
    def shown_name(self) -> str:
        """Its title, its name, or the beginning of its id."""
        return self.title or self.name or f"session {self.session_id[:8]}"

    @property
    def word(self) -> str:
        """The state in words that a user reads."""
        if self.state == "idle":
            return {"cancelled": "cancelled", "error": "failed"}.get(self.ended, "done")
        return _WORDS.get(self.state, self.state)

    @property
    def detail(self) -> str:
        """What a user wants to know of it besides: open questions, the step, why it failed."""
        if self.state == "waiting" and self.questions:
            return f"{self.questions} question{'s' if self.questions > 1 else ''}"
        if self.state in ("running", "waiting") and self.steps_total:
            return f"step {min(self.steps_done + 1, self.steps_total)} of {self.steps_total}"
        if self.state == "running" and self.queued:
            return f"{self.queued} queued"
        return self.error if self.ended == "error" and self.state == "idle" else ""


_WORDS: Final = {
    "waiting": "needs you",
    "running": "running",
    "idle": "done",
    "lost": "agent ended",
    "stuck": "stuck",
    "closed": "closed",
    "readOnly": "history only",
}
