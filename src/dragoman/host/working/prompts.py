"""A prompt that a hosted session has accepted, and how it can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import DragomanError, RequestError
from dragoman.host.working.uploads import REFERENCE
from dragoman.schema import decode, v1
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

TAKEN: Final = "isTaken"
"""In the outcome of a prompt that the agent took into the turn that ran: it had no turn of its own."""

WAITED: Final = "no_agent"
"""The reason of the error for what waited for an agent and got none."""

_SHOWN_CHARACTERS: Final = 200


class HostedPrompt:
    """A prompt that was accepted and has no outcome yet."""

    def __init__(
        self, id: str, by: str, blocks: Sequence[v1.ContentBlock], meta: Mapping[str, Any] | None = None
    ) -> None:
        self.id = id
        self.by = by
        self.blocks = blocks
        self.meta = meta
        self.who = ""
        """The client that sent it, as the log names it."""
        self.identity = ""
        """The same for every connection of that client."""
        self.sent_at = 0.0
        self.started_at = 0.0
        """When it was accepted, and when its turn began; seconds since 1970."""
        self.number = 0
        """Of its event; 0 until that is committed."""
        self.size_bytes = 0
        """Of its blocks, as they are logged."""
        self.is_cancelled = False
        self.names_uploads = False
        """Blocks of it name attachments, which are filled in for the agent."""
        self.is_changed_by_other = False
        """Another client than its sender has changed it while it waited: its sender shows another text."""
        self.steers = False
        """It was sent for the turn that ran then."""
        self.wants_report = False
        """Its client asks afterwards what was decided and found in the turn."""
        self.wants_result = False
        """Its client asks for the result of the turn, too, as `exec` prints it."""
        self.wants_patch = False
        """Its client asks for a patch of what the turn changed."""
        self.wants_events = False
        """Its client gets the events of the run as they happen."""

    @property
    def text(self) -> str:
        """Its text; empty if it has other blocks, too."""
        texts = [block.text for block in self.blocks if isinstance(block, v1.TextContent)]
        return "\n".join(texts) if len(texts) == len(self.blocks) else ""

    def want(self, wants: Collection[str]) -> None:
        """Note what its client asks for: afterwards `report`, `result` or `patch`, meanwhile `events`."""
        self.wants_report, self.wants_result, self.wants_patch = bool(wants), "result" in wants, "patch" in wants
        self.wants_events = "events" in wants

    def shown(self) -> dict[str, Any]:
        """Return it as a prompt that waits, for clients that did not send it."""
        text = " ".join(block.text for block in self.blocks if isinstance(block, v1.TextContent))
        return {
            "promptId": self.id,
            "text": shorten(text[: 10 * _SHOWN_CHARACTERS], _SHOWN_CHARACTERS),
            "who": self.who,
            "at": milliseconds(self.sent_at),
            "steers": self.steers,
        }


def logged_prompt(found: Mapping[str, Any]) -> HostedPrompt:
    """Return a prompt that an earlier host accepted and did not begin, by the event of its log."""
    written = msgspec.json.encode({"sessionId": "", "prompt": found["prompt"]})
    blocks = decode(v1.PromptRequest, msgspec.Raw(written)).prompt
    item = HostedPrompt(found["promptId"], str(found.get("by", "")), blocks, found.get("meta"))
    item.who, item.sent_at, item.number = str(found.get("who", "")), found["at"], found["seq"]
    item.names_uploads = REFERENCE in written
    return item


def milliseconds(seconds: float) -> int:
    """Return a time as clients get it: milliseconds since 1970."""
    return int(seconds * 1000)


def error_outcome(error: RequestError) -> dict[str, Any]:
    """Return the outcome of a prompt that failed."""
    data = {} if error.data is None else {"data": error.data}
    return {"error": {"code": error.code, "message": error.message, **data}}


def session_lost(why: str) -> RequestError:
    """Return the error for a session whose agent is gone for good."""
    message = f"this session cannot go on: {why}; its history can still be loaded, to be given to a new session"
    return RequestError(-32603, message, {"reason": "agent_lost"})


def as_request_error(error: DragomanError) -> RequestError:
    """Return the error for a client: that of the agent, or that its request does not fit the session."""
    return error if isinstance(error, RequestError) else RequestError(-32602, str(error))
