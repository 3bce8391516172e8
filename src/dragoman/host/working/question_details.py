"""What the host knows about a permission request besides what the agent sent: why it is asked, and what answers do.

Goes to clients as `_meta.dragoman` of the question. Pure. All of it is the host's own knowledge; what an agent says
about its options is marked as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.policy.shell import Line

if TYPE_CHECKING:
    from dragoman.client.permission import Question
    from dragoman.policy import Request
    from dragoman.schema import v1

_ALWAYS: Final = {"allow_always": "allow", "reject_always": "deny"}


def question_details(question: Question, cwd: str, rule_file: str | None) -> dict[str, Any]:
    """The members for a client.

    Args:
        question: what is asked.
        cwd: the folder of the session.
        rule_file: where the host keeps the rule of an answer of "always"; None if it keeps it for the session only.
    """
    asked = (question.request, *question.also)
    commands = [line for request in asked if (line := request.command_line) is not None]
    found: dict[str, Any] = {"why": question.why, "cwd": question.cwd or cwd}
    if commands:
        found["commands"] = commands
        found["commandCount"] = sum(map(_count, asked))
    outside = sorted({path for request in asked for path in request.paths if _is_outside(path, request.root)})
    if outside:
        found["outside"] = outside
    options = {
        option.option_id: _written(option, question, rule_file)
        for option in question.permission.options
        if option.kind in _ALWAYS
    }
    return {**found, "options": options} if options else found


def _count(request: Request) -> int:
    """How many commands a request runs; one for a line that cannot be read."""
    if request.command is None:
        return 0
    runs = request.command.runs
    return len(runs.commands) if isinstance(runs, Line) else 1


def _is_outside(path: str, root: str) -> bool:
    from dragoman.policy.paths import is_below

    return bool(root) and not is_below(path, root)


def _written(option: v1.PermissionOption, question: Question, rule_file: str | None) -> dict[str, Any]:
    """What an answer of "always" writes, and who keeps it."""
    action = _ALWAYS[option.kind]
    if question.proposals:
        kept = "session" if rule_file is None else "project"
        where = {} if rule_file is None else {"file": rule_file}
        return {"action": action, "rule": question.proposals[0], "kept": kept, "by": "host", **where}
    own = option.meta.get("dragoman") if isinstance(option.meta, dict) else None
    stated = own if isinstance(own, dict) else {}
    rule, scope = stated.get("rule"), stated.get("kept")
    found: dict[str, Any] = {"action": action, "by": "agent"}
    if isinstance(rule, str):
        found |= {"rule": rule, "kept": scope if scope in ("session", "project") else "agent"}
    return found
