"""Failures in words: what happened, what was kept, what it may be, and what the user can do. Pure.

Every failure has a kind, which decides about the choices; the texts come from the error and its data, as the host sends
them (see docs/host.md). Nothing here is shown as it is: the lines pass `dragoman.text` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from dragoman.errors import (
    AUTH_REQUIRED,
    NOT_FOUND,
    ConfigError,
    ConnectionClosed,
    ProtocolError,
    RequestError,
    StoreError,
)
from dragoman.host.local.start import NoHost
from dragoman.schema import v1
from dragoman.text.secrets import known_keys
from dragoman.text.terminal import one_line, plain
from dragoman.text.visible import label
from dragoman.view.labels import seconds_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.state import SessionState

Kind: TypeAlias = Literal[
    "ended", "hung", "missing", "login", "model", "host", "session", "not_resumed", "disk", "protocol", "other"
]
Act: TypeAlias = Literal["restart", "new", "agent", "log", "report", "login", "install", "stop", "retry", "dismiss"]
HUNG_SECONDS: Final = 180.0
"""A turn from which nothing came for so long may hang; a long command is silent, too, so that it is only offered."""
_STDERR_LINES: Final = 6
_MARK: Final = "dragoman agents install "


class FailureChoice(NamedTuple):
    """Something the user can do about a failure."""

    key: str
    text: str
    act: Act


_CHOICES: Final[dict[Act, FailureChoice]] = {
    "restart": FailureChoice("r", "restart and resume", "restart"),
    "retry": FailureChoice("r", "try again", "retry"),
    "new": FailureChoice("R", "restart with a new session", "new"),
    "agent": FailureChoice("a", "another agent", "agent"),
    "log": FailureChoice("l", "open the log", "log"),
    "report": FailureChoice("c", "copy a report (secrets removed)", "report"),
    "login": FailureChoice("g", "log in", "login"),
    "install": FailureChoice("i", "install it", "install"),
    "stop": FailureChoice("s", "stop the turn", "stop"),
    "dismiss": FailureChoice("x", "close this card", "dismiss"),
}
_OFFERED: Final[dict[Kind, tuple[Act, ...]]] = {
    "ended": ("restart", "new", "agent", "log", "report", "dismiss"),
    "hung": ("stop", "restart", "log", "report", "dismiss"),
    "missing": ("install", "retry", "agent", "report"),
    "login": ("login", "retry", "agent", "report"),
    "model": ("login", "new", "agent", "log", "report", "dismiss"),
    "host": ("retry", "log", "report"),
    "session": ("new", "agent", "report"),  # the agent does not know it any more
    "not_resumed": ("restart", "new", "agent", "report"),
    "disk": ("retry", "log", "report", "dismiss"),
    "protocol": ("retry", "restart", "agent", "log", "report", "dismiss"),
    "other": ("retry", "new", "agent", "log", "report", "dismiss"),
}


class Failure(Struct, frozen=True, kw_only=True):
    """A failure, ready to be shown as lines."""

    kind: Kind
    headline: str
    kept: str = ""
    lost: str = ""
    stderr: tuple[str, ...] = ()
    likely: str = ""
    hint: str = ""
    program: tuple[str, ...] = ()
    """The words behind `dragoman` that install a missing agent."""
    is_fatal: bool = False
    """The conversation is not connected; otherwise a prompt can be typed as before."""

    @property
    def choices(self) -> list[FailureChoice]:
        """What the user can do; a conversation that is not connected has no turn to go back to."""
        choices = []
        for act in _OFFERED[self.kind]:
            if act == "install" and not self.program:
                continue
            if self.is_fatal and act in ("restart", "dismiss", "stop"):
                continue
            if not self.is_fatal and act == "retry":
                continue
            choices.append(_CHOICES[act])
        return choices

    def choice(self, key: str) -> FailureChoice | None:
        """Return the choice with a key."""
        return next((choice for choice in self.choices if choice.key == key), None)

    def lines(self) -> list[str]:
        """Return what happened, line by line, without the choices."""
        lines = [one_line(self.headline)]
        lines += [f"{name}: {one_line(text)}" for name, text in (("kept", self.kept), ("not kept", self.lost)) if text]
        if self.stderr:
            lines.append("last lines of its error output:")
            lines += [f"  {one_line(known_keys.mask(plain(line)))}" for line in self.stderr]
        if self.likely:
            lines.append(f"likely: {self.likely}")
        if self.hint:
            lines.append(one_line(self.hint))
        return lines

    def report(self, facts: Sequence[tuple[str, str]]) -> str:
        """Return a text for a bug report: the failure and facts about the session, keys of the user masked."""
        lines = [*self.lines(), "", *(f"{name}: {one_line(value)}" for name, value in facts)]
        return known_keys.mask("\n".join(lines)) + "\n"


def explain(error: Exception, *, is_fatal: bool, agent: str = "", work: Work | None = None) -> Failure:
    """Return the failure that an error is.

    Args:
        is_fatal: whether it ended the conversation, and not only a turn.
        agent: the agent, as the user named it.
        work: what the turn did until then.
    """
    data: dict[str, Any] = error.data if isinstance(error, RequestError) and isinstance(error.data, dict) else {}
    reason, text = data.get("reason"), _sentence(error)
    done = work or Work()
    if reason in ("agent_exited", "agent_start"):
        return _ended(data, text, agent, done, is_fatal=is_fatal)
    kind = _kind(error, reason, text, is_fatal=is_fatal)
    if reason == "interrupted":
        hint = "what the agent did until then may be done; your next prompt goes on from here"
        return Failure(kind="other", headline=text, kept=done.kept, lost=done.lost, hint=hint, is_fatal=is_fatal)
    if kind == "missing":
        return _missing(text, is_fatal=is_fatal)
    lead, hint = _LEADS.get(kind, ""), _HINTS.get(kind, "")
    if kind == "model":
        facts = {name: value for name, value in data.items() if isinstance(value, str | int | float)}
        hint = ", ".join(f"{name}: {value}" for name, value in facts.items())
    headline = lead.format(agent=label(agent, 40, "the agent")) + text
    return Failure(kind=kind, headline=headline, kept=done.kept, lost=done.lost, hint=hint, is_fatal=is_fatal)


_LEADS: Final[dict[Kind, str]] = {
    "login": "{agent} wants a login first: ",
    "protocol": "{agent} sent what the protocol does not allow: ",
    "host": "the local host cannot be reached: ",
    "model": "the turn failed: ",
}
_HINTS: Final[dict[Kind, str]] = {
    "session": "its history stays readable in dragoman sessions; a new session begins without it",
    "disk": "nothing is taken that cannot be kept: free space on the disk, or make the folder writable",
}


def _kind(error: Exception, reason: object, text: str, *, is_fatal: bool) -> Kind:
    if isinstance(error, RequestError):
        if error.code == AUTH_REQUIRED:
            return "login"
        if reason == "agent_lost" or error.code == NOT_FOUND:
            return "session"
        if reason == "store" or _is_disk(error, text):
            return "disk"
        return "other" if is_fatal else "model"
    if isinstance(error, StoreError) or _is_disk(error, text):
        return "disk"
    if isinstance(error, ConfigError):
        return "missing" if _MARK in text else "other"
    if isinstance(error, NoHost | ConnectionClosed):
        return "host"
    return "protocol" if isinstance(error, ProtocolError) else "other"


def not_resumed(error: RequestError, agent: str) -> Failure:
    """Return an agent that was started again and does not take up its session."""
    details = error.data.get("details") if isinstance(error.data, dict) else None
    why = details if isinstance(details, str) and details else error.message
    return Failure(
        kind="not_resumed",
        headline=f"{label(agent, 40, 'the agent')} cannot go on with this session: {why}",
        hint=_HINTS["session"],
    )


def hung(agent: str, seconds: float) -> Failure:
    """Return a turn from which nothing came for long."""
    return Failure(
        kind="hung",
        headline=f"nothing came from {agent or 'the agent'} for {seconds_text(seconds)}",
        hint="it may wait for its model or for a long command; or it hangs",
    )


class Work(Struct, frozen=True):
    """What a turn did until it failed, in words."""

    seconds: float | None = None
    kept: str = ""
    lost: str = ""


def work_of(state: SessionState, seconds: float | None, unfinished: Sequence[str] = ()) -> Work:
    """Return what the last turn did: steps of the plan, files that were changed, and what was not finished."""
    kept = ["the conversation"]
    plan = state.plan
    if plan:
        kept.append(f"{sum(entry.status == 'completed' for entry in plan)} of {len(plan)} steps")
    calls = [call for call in state.tool_calls.values() if call.turn == len(state.turns) - 1]
    done = {
        item.path
        for call in calls
        if call.status == "completed"
        for item in call.content or ()
        if isinstance(item, v1.Diff)
    }
    if done:
        kept.append(f"changes in {len(done)} {'file' if len(done) == 1 else 'files'}")
    titles = list(unfinished) or [str(call.title) for call in calls if call.status in ("pending", "in_progress")]
    lost = ", ".join(f'"{label(title, 60)}"' for title in titles[:3])
    more = f" and {len(titles) - 3} more" if len(titles) > 3 else ""
    return Work(seconds, ", ".join(kept), f"what was running: {lost}{more}" if lost else "")


def _ended(data: dict[str, Any], text: str, agent: str, work: Work, *, is_fatal: bool) -> Failure:
    code, name = data.get("exitCode"), data.get("signal")
    how = f"signal {str(name).removeprefix('SIG')}" if name else f"exit code {code}" if code is not None else "no code"
    after = "" if work.seconds is None else f" after {seconds_text(work.seconds)}"
    who = label(agent, 40, "the agent")
    if data.get("reason") == "agent_start":
        headline = text
    elif data.get("maybeExecuted") is False:
        headline = f"{who} ends again and again when it is started ({how})"
    else:
        headline = f"{who} ended while working ({how}){after}"
    stderr = tuple(line for line in data.get("stderr") or () if isinstance(line, str))[-_STDERR_LINES:]
    return Failure(
        kind="ended",
        headline=headline,
        kept=work.kept,
        lost=work.lost,
        stderr=stderr,
        likely=_likely(code, name, stderr),
        hint="" if is_fatal else "your next prompt starts it again, too",
        is_fatal=is_fatal,
    )


def _likely(code: object, name: object, stderr: Sequence[str]) -> str:
    written = "\n".join(stderr).lower()
    if any(mark in written for mark in ("out of memory", "heap limit", "memoryerror", "cannot allocate memory")):
        return "out of memory"
    if name == "SIGKILL" or code == 137:
        return "it was killed: by the system because memory ran out, or by hand"
    if any(mark in written for mark in ("no space left", "enospc", "disk quota")):
        return "the disk is full"
    if any(mark in written for mark in ("unauthorized", "401", "api key", "not logged in")):
        return "it is not logged in, or its key is wrong"
    if any(mark in written for mark in ("enotfound", "econnrefused", "etimedout", "network is unreachable")):
        return "no network"
    if code == 127 or any(
        mark in written for mark in ("command not found", "cannot find module", "modulenotfounderror")
    ):
        return "a part of its program is missing; install it again"
    if name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL"):
        return "a defect of the agent; a report helps its authors"
    return ""


def _missing(text: str, *, is_fatal: bool) -> Failure:
    words = text.partition(_MARK)[2].split()
    name = words[0].rstrip(".,;)'\"") if words else ""
    is_name = bool(name) and not name.startswith("-") and name != "NAME"
    program = ("agents", "install", name) if is_name else ()
    return Failure(kind="missing", headline=text, program=program, is_fatal=is_fatal)


def _is_disk(error: Exception, text: str) -> bool:
    if isinstance(error, OSError):
        return error.errno in (28, 30, 122, 13)  # full, read-only, quota, not permitted
    return "No space left on device" in text or "Read-only file system" in text


def _sentence(error: Exception) -> str:
    """Return the text of an error without the code, which means nothing to a user."""
    return error.message if isinstance(error, RequestError) else str(error)
