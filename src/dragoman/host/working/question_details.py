"""What the host knows about a permission request besides what the agent sent: what was read, why, what answers do.

Goes to clients as `_meta.dragoman` of the question, and is read by them as the same type. Pure. All of it is the host's
own knowledge; what an agent says about its options is marked as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from dragoman.client.question_words import AlwaysDetails, QuestionWords, asked_words, option_words, with_folder

if TYPE_CHECKING:
    from dragoman.client.permission import Question
    from dragoman.client.question_words import OptionWords
    from dragoman.schema import v1


class QuestionDetails(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a client is sent about a question."""

    why: str = ""
    cwd: str = ""
    commands: tuple[str, ...] = ()
    command_count: int = 0
    outside: tuple[str, ...] = ()
    """Paths outside the project."""
    words: QuestionWords | None = None
    """What was read, as it is shown; None from a host of another version."""
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


def words_of(request: v1.RequestPermissionRequest) -> QuestionWords:
    """Return what is asked, in words: the host's, or what this client reads if the host sent none."""
    details = read_details(request)
    if details.words is not None:
        return details.words
    from dragoman.client.reading import describe
    from dragoman.state import SessionState

    evidence = describe(request, SessionState(), None, agent="", root=details.cwd)
    title = request.tool_call.title
    words = asked_words(
        evidence.requests,
        why=details.why,
        agent_title=title if isinstance(title, str) else "",
        raw_input=request.tool_call.raw_input,
    )
    return with_folder(words, details.cwd)


def answers_of(request: v1.RequestPermissionRequest) -> tuple[OptionWords, ...]:
    """Return what can be chosen, in words."""
    return option_words(request.options, read_details(request).options)


def question_details(question: Question, cwd: str, *, reads_reasons: bool = False) -> QuestionDetails:
    """Return the details for a client.

    Args:
        question: what is asked.
        cwd: the folder of the session.
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
        command_count=question.words.command_count,
        outside=tuple(sorted(outside)),
        words=with_folder(question.words, cwd),
        options=dict(question.always),
        reads_reasons=reads_reasons,
    )
