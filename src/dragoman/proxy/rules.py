"""Answers permission requests by the user's rules alone, where the client cannot be asked.

Reads a request as the client does (`client/reading.py`): everything that the turn reported of the tool call
counts. What the rules do not decide is refused, and so is what cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.client.reading import read_request
from dragoman.errors import DragomanError
from dragoman.policy.decide import Option, judge_all, option_for
from dragoman.schema import decode, encode, v1
from dragoman.state import SessionState, fold
from dragoman.workspace.folders import SessionFolders
from dragoman.workspace.judging import judge_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.policy import Rule
    from dragoman.versions import Frame

# Judging takes tens of milliseconds for 200 KB, and it is done between two frames.
_LONGEST_BYTES: Final = 256 * 1024


class RuleAnswers:
    """The answers to permission requests, decided by rules.

    Args:
        rules: The rules for a folder, read for each request, so that changed rules count at once.
        agent: The agent's name, as rules state it in `AGENT@KIND`.
    """

    def __init__(self, rules: Callable[[str], Sequence[Rule]], agent: str) -> None:
        self._rules = rules
        self._agent = agent

    def decide(self, params: Frame, reported: list[Frame], folder: str) -> str | None:
        """Return the id of the option that the rules choose; None if they do not decide."""
        data = encode(params)
        if len(data) > _LONGEST_BYTES:
            return None
        try:
            request = decode(v1.RequestPermissionRequest, data)
            state = _state(reported)
            rules = self._rules(folder)
        except DragomanError:
            return None
        folders = SessionFolders(folder)
        announced = state.tool_calls.get(request.tool_call.tool_call_id)
        evidence = read_request(request, state, announced, folders, agent=self._agent)
        verdict, _ = judge_all(evidence.requests, lambda asked: judge_in(rules, asked, folders).verdict)
        options = [Option(option.option_id, option.name, option.kind) for option in request.options]
        chosen = option_for(verdict, options)
        return None if chosen is None else chosen.id


def _state(reported: list[Frame]) -> SessionState:
    """Return the turn so far, as the client would know it."""
    state = SessionState()
    state.begin_turn(())
    for call in reported:
        update: Any = decode(v1.ToolCall, encode({"title": "", **call}))
        fold(state, update)
    return state
