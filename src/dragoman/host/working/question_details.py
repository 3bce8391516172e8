"""What the host knows about a permission request besides what the agent sent: why it is asked, and what answers do.

Goes to clients as `_meta.dragoman` of the question, and is read by them as the same type. Pure. All of it is the host's
own knowledge; what an agent says about its options is marked as such. The rules are loaded in the host only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.client.permission import Question
    from dragoman.policy import Request
    from dragoman.schema import v1

_ALWAYS: Final[dict[str, Literal["allow", "deny"]]] = {"allow_always": "allow", "reject_always": "deny"}


class AlwaysDetails(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an answer of "always" writes, and who keeps it."""

    action: Literal["allow", "deny"]
    by: Literal["host", "agent"]
    rule: str | None = None
    kept: Literal["project", "session", "agent"] | None = None
    file: str | None = None
    """Where the host writes the rule."""


class QuestionDetails(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a client is sent about a question."""

    why: str = ""
    cwd: str = ""
    commands: tuple[str, ...] = ()
    command_count: int = 0
    outside: tuple[str, ...] = ()
    """Paths outside the project."""
    options: dict[str, AlwaysDetails] = {}
    """By the ids of the options that mean "always"."""
    reads_reasons: bool = False
    """Whether the agent reads why something was refused."""
    question_id: str = ""
    """The same for every client, and after a reconnect."""


def read_details(request: v1.RequestPermissionRequest) -> QuestionDetails:
    """Return what the host sent with a question; nothing if a host of another version sent something else."""
    details = request.meta.get("dragoman") if isinstance(request.meta, dict) else None
    try:
        return msgspec.convert(details or {}, QuestionDetails)
    except msgspec.ValidationError:
        return QuestionDetails()


def question_details(
    question: Question, cwd: str, rule_file: str | None, *, reads_reasons: bool = False
) -> QuestionDetails:
    """Return the details for a client.

    Args:
        question: what is asked.
        cwd: the folder of the session.
        rule_file: where the host keeps the rule of an answer of "always"; None if it keeps it for the session only.
        reads_reasons: whether the agent reads why something was refused.
    """
    from dragoman.policy.paths import is_below

    asked = (question.request, *question.also)
    commands = tuple(line for request in asked if (line := request.command_line) is not None)
    outside = {path for request in asked if request.root for path in request.paths if not is_below(path, request.root)}
    return QuestionDetails(
        why=question.why,
        cwd=question.cwd or cwd,
        commands=commands,
        command_count=sum(map(_count, asked)) if commands else 0,
        outside=tuple(sorted(outside)),
        options={
            option.option_id: _written(option, question, rule_file)
            for option in question.permission.options
            if option.kind in _ALWAYS
        },
        reads_reasons=reads_reasons,
    )


def _count(request: Request) -> int:
    """Count the commands that a request runs; one for a line that cannot be read."""
    from dragoman.policy.shell import Line

    if request.command is None:
        return 0
    runs = request.command.runs
    return len(runs.commands) if isinstance(runs, Line) else 1


def _written(option: v1.PermissionOption, question: Question, rule_file: str | None) -> AlwaysDetails:
    action = _ALWAYS[option.kind]
    if question.proposals:
        kept: Literal["session", "project"] = "session" if rule_file is None else "project"
        return AlwaysDetails(action=action, by="host", rule=question.proposals[0], kept=kept, file=rule_file)
    own: Any = option.meta.get("dragoman") if isinstance(option.meta, dict) else None
    rule, scope = (own.get("rule"), own.get("kept")) if isinstance(own, dict) else (None, None)
    if not isinstance(rule, str):
        return AlwaysDetails(action=action, by="agent")
    return AlwaysDetails(
        action=action, by="agent", rule=rule, kept=scope if scope in ("session", "project") else "agent"
    )
