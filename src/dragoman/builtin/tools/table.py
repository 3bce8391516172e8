"""The tools that every session has, in the order in which the model gets them, and which of them a model is offered."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from dragoman.builtin.tools.built_in import BuiltInTool, ListedTool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.builtin.tools.tool import Tool

# These models are trained on the patch format. Older and open ones of the same family are not.
_PATCHING: Final = re.compile(r"(?:gpt-(?:[5-9]|\d\d)|codex)(?!.*oss)", re.IGNORECASE)
_PATCH: Final = frozenset({"apply_patch"})
_NO_PATCH: Final = frozenset({"edit", "write"})
_SEARCHING: Final = frozenset({"tool_search", "call_tool"})


def built_in_tools() -> dict[str, BuiltInTool]:
    """Return the tools by name, always in this order: another order would make a provider's prompt cache useless."""
    tools = (
        BuiltInTool("read", "read", "ReadTool"),
        BuiltInTool("write", "write", "WriteTool"),
        BuiltInTool("edit", "edit", "EditTool"),
        BuiltInTool("apply_patch", "apply_patch", "ApplyPatchTool"),
        BuiltInTool("glob", "glob", "GlobTool"),
        BuiltInTool("grep", "grep", "GrepTool"),
        BuiltInTool("bash", "bash", "BashTool"),
        BuiltInTool("bash_output", "background", "BashOutputTool"),
        BuiltInTool("bash_stop", "background", "BashStopTool"),
        BuiltInTool("todo", "todo", "TodoTool"),
        BuiltInTool("question", "question", "QuestionTool"),
        ListedTool("task", "task", "TaskTool"),
        BuiltInTool("skill", "skill", "SkillTool"),
        BuiltInTool("present_plan", "present_plan", "PresentPlanTool"),
        BuiltInTool("web_search", "web_search", "WebSearchTool"),
        BuiltInTool("web_fetch", "web_fetch", "WebFetchTool"),
        ListedTool("tool_search", "tool_search", "ToolSearchTool"),
        BuiltInTool("call_tool", "tool_search", "CallTool"),
    )
    return {tool.name: tool for tool in tools}


def offered_tools(
    tools: Mapping[str, Tool],
    model: str,
    *,
    is_planning: bool = False,
    has_skills: bool = False,
    searched: frozenset[str] | None = None,
) -> list[Tool]:
    """Return the tools that a model is given: it changes files by patches, or by `edit` and `write`.

    What cannot work here is left out, such as `web_search` without a search service.

    Args:
        is_planning: the session is in plan mode, and a user can accept the plan.
        has_skills: the system prompt has an index of skills.
        searched: names of tools that `tool_search` finds, perhaps none at the moment; they are listed all the same
            where it cannot be called. None: tools are listed.

    A call of one that was left out works all the same, since models know several from their training.
    """
    left_out = _NO_PATCH if _PATCHING.search(model.partition(":")[2]) else _PATCH
    if not is_planning:
        left_out |= {"present_plan"}
    if not has_skills:
        left_out |= {"skill"}
    left_out |= searched if searched is not None and tools.keys() >= _SEARCHING else _SEARCHING
    return [tool for name, tool in tools.items() if name not in left_out and not _lacks_service(tool)]


def _lacks_service(tool: Tool) -> bool:
    if not isinstance(tool, BuiltInTool) or tool.name != "web_search":
        return False
    from dragoman.builtin.web.search import has_service

    return not has_service(os.environ)
