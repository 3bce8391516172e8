"""Judges a request by the rules and the disk: the way from a request to a verdict that all programs share.

    request = folders.settle_request(request, agent)      where its paths lead; the built-in agent's tools do it
    request = with_facts(rules, request, folders)         what only the disk knows
    judge(rules, request)                                 the verdict, which `policy/verdict.py` makes of that

`judge_with_facts` takes the last two steps; `judge_in` is that for a program that serves the files of a session to an
agent. A command line may have 200 KB, and judging it takes tens of milliseconds; the files that a request names are
looked at on the disk, too. `off_loop_if_long` keeps that off the event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from msgspec.structs import replace

from dragoman.policy.paths import is_below
from dragoman.policy.verdict import READING, Judgement, Verdict, judge
from dragoman.workspace.hard_links import with_other_names
from dragoman.workspace.safety import with_safe_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.policy.request import Request
    from dragoman.policy.rule import Rule
    from dragoman.workspace.folders import SessionFolders

LONG_LETTERS: Final = 16 * 1024
"""Judging a line of this length takes a few milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")


def with_facts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Request:
    """Return the request with what only the disk knows: other names of its files, and its safe parts."""
    return with_safe_parts(rules, with_other_names(rules, request), folders)


def judge_with_facts(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Judgement:
    """Judge a request whose paths are settled, by the rules and the disk."""
    request = with_facts(rules, request, folders)
    return Judgement(request, judge(rules, request))


def judge_in(rules: Sequence[Rule], request: Request, folders: SessionFolders) -> Judgement:
    """Judge a request whose paths are settled, in a session whose files are served to an agent.

    Reading below the folders of the session is allowed unless a rule restricts it. The additional folders belong to
    the project: a command in one of them is not outside.
    """
    request = judged = with_facts(rules, request, folders)
    command = request.command
    if command is not None and command.cwd and any(is_below(command.cwd, folder) for folder in folders.real[1:]):
        judged = replace(request, command=command.moved(""))
    verdict = judge(rules, judged)
    is_open = verdict.action == "ask" and verdict.rule is None and not request.caution
    if is_open and request.kind == "read" and folders.hold_all(request.paths):
        verdict = Verdict("allow", None, READING)
    return Judgement(request, verdict)


async def off_loop_if_long(requests: Sequence[Request], judge: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `judge` in a thread if the requests are long, at once otherwise: for nearly every one a thread takes longer.

    In a thread it must not change what the loop uses.
    """
    commands = [request.command for request in requests if request.command is not None]
    letters = sum(len(path) for request in requests for path in request.paths)
    letters += sum(len(command.line or "") + sum(map(len, command.argv or ())) for command in commands)
    if letters > LONG_LETTERS:
        return await asyncio.to_thread(judge, *args, **kwargs)
    return judge(*args, **kwargs)
