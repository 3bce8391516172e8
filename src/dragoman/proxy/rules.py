"""Answers permission requests by the user's rules alone, where the client cannot be asked.

Reads a request as the client does (`client/permission_request.py`): everything that the turn reported of the tool call
counts. What the rules do not decide is refused, and so is what cannot be read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.client.permission_request import describe, settle_evidence
from dragoman.errors import DragomanError
from dragoman.policy import Verdict, judge
from dragoman.policy.decide import judge_all, option_for, read_option
from dragoman.policy.paths import is_below
from dragoman.schema import decode, encode, v1
from dragoman.state import SessionState, fold
from dragoman.workspace.safety import with_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.policy import Request, Rule
    from dragoman.versions import Frame

# Judging takes tens of milliseconds for 200 KB, and it is done between two frames.
_LONGEST_BYTES: Final = 256 * 1024
_READING: Final = "reading a file of the project needs no rule"


class _Place(NamedTuple):
    cwd: str


class RuleAnswers:
    """Decides permission requests by rules.

    Args:
        rules: The rules for a folder, read for each request, so that changed rules count at once.
        agent: The agent's name, as rules state it in `AGENT@KIND`.
    """

    def __init__(self, rules: Callable[[str], Sequence[Rule]], agent: str) -> None:
        self._rules = rules
        self._agent = agent

    def decide(self, params: Frame, reported: list[Frame], folder: str) -> str | None:
        """The id of the option that the rules choose; None if they do not decide."""
        data = encode(params)
        if len(data) > _LONGEST_BYTES:
            return None
        try:
            request = decode(v1.RequestPermissionRequest, data)
            state = _state(reported)
            rules = self._rules(folder)
        except DragomanError:
            return None
        place = _Place(folder)
        announced = state.tool_calls.get(request.tool_call.tool_call_id)
        found = describe(request, state, announced, agent=self._agent, root=folder)
        evidence = settle_evidence(found, place, agent=self._agent, root=folder)
        verdict, _ = judge_all(evidence.requests, lambda each: _judge_one(rules, each, folder))
        options = [read_option(each.option_id, each.name, each.kind, ()) for each in request.options]
        chosen = option_for(verdict, options)
        return None if chosen is None else chosen.id


def _state(reported: list[Frame]) -> SessionState:
    """The turn so far, as the client would know it."""
    state = SessionState()
    state.begin_turn(())
    for call in reported:
        update: Any = decode(v1.ToolCall, encode({"title": "", **call}))
        fold(state, update)
    return state


def _judge_one(rules: Sequence[Rule], request: Request, folder: str) -> Verdict:
    """The verdict about one request. Reading below the folder is allowed unless a rule restricts it."""
    request = with_facts(rules, request, (folder,))
    verdict = judge(rules, request)
    if request.kind != "read" or verdict.action != "ask" or verdict.rule is not None or request.caution:
        return verdict
    root = os.path.realpath(folder)
    if request.paths and all(is_below(path, root) for path in request.paths):
        return Verdict("allow", None, _READING)
    return verdict
