"""A mock provider that plays a written solution in any wire form, and can have a small context window."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dragoman.evaluation.task import Solution, Task
from tests.builtin.providers.server import Answer, Asked, refused, text_answer, use
from tests.builtin.window.counting_model import GOOD_SUMMARY
from tests.interop.model_server.question import Speech, ToolUse


class Player:
    """Answers with the lines of a script, one after the other.

    Args:
        window_tokens: a request that is larger is refused, as providers do; None accepts everything.
    """

    def __init__(self, task: Task, solution: Solution = "right", *, window_tokens: int | None = None) -> None:
        text = task.script(solution).read_text()
        self._lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        self._window = window_tokens
        self.refused = 0
        self.tokens: list[int] = []
        """About how large each request for a step was."""
        self.played = 0

    def play(self, asked: Asked) -> Answer:
        if self._window is not None and len(asked.data) // 4 > self._window:
            self.refused += 1
            words = f"maximum context length is {self._window} tokens, but the request has {len(asked.data) // 4}"
            return refused(400, f"This model's {words}")
        if not asked.question.tools:
            return text_answer(GOOD_SUMMARY)
        self.tokens.append(len(asked.data) // 4)
        line = self._lines[self.played]
        self.played += 1
        verb, _, rest = line.partition(" ")
        part = Speech((rest,)) if verb == "say" else use_of(verb, rest)
        return Answer((part,), rewrite=_counting(len(asked.data) // 4))


def use_of(verb: str, rest: str) -> ToolUse:
    """The call of a tool that a line of a script is."""
    if verb == "read":
        return use("read", path=rest)
    assert verb == "call", verb
    tool, _, arguments = rest.partition(" ")
    return use(tool, **json.loads(arguments))


def _counting(tokens: int) -> Callable[[Any], Any]:
    """What an agent is told about its request has to fit the request, or its own estimates go wrong."""

    def rewrite(event: Any) -> Any:
        if isinstance(event, dict) and isinstance(event.get("usage"), dict) and "prompt_tokens" in event["usage"]:
            return {**event, "usage": {**event["usage"], "prompt_tokens": tokens}}
        return event

    return rewrite
