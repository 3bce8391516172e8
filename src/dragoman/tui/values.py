"""What a conversation shows besides its session's state: prompts that wait, questions that are open, other sessions."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.host.working.question_details import read_details
from dragoman.schema import v1
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client.elicitation.form import Outcome
    from dragoman.host.working.question_details import QuestionDetails
    from dragoman.state import SessionState

Phase: TypeAlias = Literal["connecting", "opening", "ready", "lost", "failed"]
"""Where the conversation is: `lost` while the host is looked for again, `failed` when only the user can go on."""

SETTLE_SECONDS: Final = 0.4
"""Nothing that is typed so soon after a question appeared is an answer: it was meant for something else."""

HOLD_SECONDS: Final = 0.3
"""A letter in an empty input answers a question if nothing is typed behind it for so long: it may begin a word."""


def short_agent(agent: str) -> str:
    """Return an agent in one word: its name, or the program of a command line, `-- PROGRAM`; not made safe."""
    name, _, line = agent.partition(" ")
    if name != "--":
        return name
    words = [os.path.basename(word.rstrip("/")) for word in line.split() if not word.startswith("-")]
    is_run_by = len(words) > 1 and words[0].rstrip("0123456789.") in _RUNNERS
    return words[is_run_by] if words else name


_RUNNERS: Final = frozenset(("python", "node", "deno", "bun", "npx", "uvx", "uv", "sh", "bash", "env", "ruby", "java"))
"""Programs that only run the one behind them."""


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


def completed(request: v1.RequestPermissionRequest, state: SessionState) -> v1.RequestPermissionRequest:
    """Return the request with what was reported of its tool call before: many agents send only the id with it."""
    asked = request.tool_call
    call = state.tool_calls.get(asked.tool_call_id)
    if call is None or not call.is_running or call.turn not in (None, len(state.turns) - 1):
        return request  # an id that was used again: the old call is not this one
    missing = {
        name: value
        for name in ("title", "kind", "content", "locations", "raw_input")
        if not getattr(asked, name) and (value := getattr(call, name))
    }
    return replace(request, tool_call=replace(asked, **missing)) if missing else request


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
    def details(self) -> QuestionDetails:
        """What the host knows about it."""
        return read_details(self.request)

    @property
    def rejecting(self) -> v1.PermissionOption | None:
        """The option that rejects it this time; not one whose id another meaning has, too."""
        others = {option.option_id for option in self.request.options if option.kind != "reject_once"}
        found = (option for option in self.request.options if option.kind == "reject_once")
        return next((option for option in found if option.option_id not in others), None)

    def is_settled(self, now: float) -> bool:
        """Return whether the question was in sight long enough for an answer to be meant for it."""
        return now - self.shown_at >= SETTLE_SECONDS


class OpenForm:
    """A form of the agent that waits to be filled in, or a page that it asks to open."""

    def __init__(self, request: v1.ElicitationFormMode | v1.ElicitationUrlMode) -> None:
        self.request = request
        self.answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def url(self) -> str | None:
        """The page to open; None for a form."""
        return self.request.url if isinstance(self.request, v1.ElicitationUrlMode) else None

    def settle(self, outcome: Outcome) -> None:
        """Give the answer; a second one is not counted."""
        if not self.answer.done():
            self.answer.set_result(outcome)


def answered_words(options: Sequence[v1.PermissionOption], params: dict[str, Any], time: str) -> str:
    """Return how a question was answered elsewhere: `allowed by web, 10:02`."""
    chosen = next((option for option in options if option.option_id == params.get("option")), None)
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
    prompt: str = ""
    """The beginning of its first prompt."""

    @property
    def shown_name(self) -> str:
        """Its title, its name, its first prompt, or the beginning of its id."""
        return self.title or self.name or self.prompt or f"session {self.session_id[:8]}"

    @property
    def is_unused(self) -> bool:
        """Whether it was opened, and nothing was ever sent to it."""
        return self.state == "idle" and not (self.title or self.name or self.prompt or self.ended)

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
