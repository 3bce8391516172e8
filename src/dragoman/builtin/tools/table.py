"""The tools every session has, in the order in which the model is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.builtin.tools.bash import Bash
from dragoman.builtin.tools.edit import Edit
from dragoman.builtin.tools.glob import Glob
from dragoman.builtin.tools.grep import Grep
from dragoman.builtin.tools.question import Question
from dragoman.builtin.tools.read import Read
from dragoman.builtin.tools.todo import Todo
from dragoman.builtin.tools.web_fetch import WebFetch
from dragoman.builtin.tools.web_search import WebSearch
from dragoman.builtin.tools.write import Write

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import Tool


def built_in_tools() -> dict[str, Tool]:
    """By name; always in this order, since a changed list of tools costs a provider's prompt cache."""
    tools: tuple[Tool, ...] = (
        *(Read(), Write(), Edit(), Glob(), Grep(), Bash(), Todo(), Question()),
        *(WebSearch(), WebFetch()),
    )
    return {tool.name: tool for tool in tools}
