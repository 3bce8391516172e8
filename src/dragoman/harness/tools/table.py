"""The tools every session has, in the order in which the model is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.harness.tools.bash import Bash
from dragoman.harness.tools.edit import Edit
from dragoman.harness.tools.glob import Glob
from dragoman.harness.tools.grep import Grep
from dragoman.harness.tools.question import Question
from dragoman.harness.tools.read import Read
from dragoman.harness.tools.todo import Todo
from dragoman.harness.tools.web_fetch import WebFetch
from dragoman.harness.tools.web_search import WebSearch
from dragoman.harness.tools.write import Write

if TYPE_CHECKING:
    from dragoman.harness.tools.tool import Tool


def built_in_tools() -> dict[str, Tool]:
    """By name; always in this order, since a changed list of tools costs a provider's prompt cache."""
    tools: tuple[Tool, ...] = (
        *(Read(), Write(), Edit(), Glob(), Grep(), Bash(), Todo(), Question()),
        *(WebSearch(), WebFetch()),
    )
    return {tool.name: tool for tool in tools}
