"""The tools that every session has, in the order in which the model gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.builtin.tools.bash import BashTool
from dragoman.builtin.tools.edit import EditTool
from dragoman.builtin.tools.glob import GlobTool
from dragoman.builtin.tools.grep import GrepTool
from dragoman.builtin.tools.question import QuestionTool
from dragoman.builtin.tools.read import ReadTool
from dragoman.builtin.tools.todo import TodoTool
from dragoman.builtin.tools.web_fetch import WebFetchTool
from dragoman.builtin.tools.web_search import WebSearchTool
from dragoman.builtin.tools.write import WriteTool

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import Tool


def built_in_tools() -> dict[str, Tool]:
    """Return the tools by name, always in this order: another order would make a provider's prompt cache useless."""
    tools: tuple[Tool, ...] = (
        *(ReadTool(), WriteTool(), EditTool(), GlobTool(), GrepTool(), BashTool(), TodoTool(), QuestionTool()),
        *(WebSearchTool(), WebFetchTool()),
    )
    return {tool.name: tool for tool in tools}
