"""`todo`: keeps the to-do list, which the user sees as the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.tool import Kind, Preview, Tool, ToolError, ToolOutput
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

STATUSES: Final = ("pending", "in_progress", "completed")
PRIORITIES: Final = ("high", "medium", "low")
_MOST_ITEMS: Final = 200
_KEY: Final = "todo"
# Statuses of other tools, which models also write.
_MEANT: Final = {"todo": "pending", "open": "pending", "active": "in_progress", "done": "completed"}


class TodoItem(Struct):
    """One item of the list."""

    content: Annotated[str, Meta(description="What is to be done, in a few words.")]
    # Any text, checked below, so that the error for a wrong status can list the right ones.
    status: Annotated[str, Meta(extra_json_schema={"enum": list(STATUSES)})] = "pending"
    priority: Annotated[str | None, Meta(extra_json_schema={"enum": [*PRIORITIES, None]})] = None


class TodoArguments(Struct):
    """The whole list."""

    items: Annotated[list[TodoItem], Meta(description="The whole list, in order; it replaces the previous one.")]


class TodoTool(Tool):
    """The tool that keeps the to-do list."""

    name: Final = "todo"
    kind: Final[Kind] = "other"
    arguments: Final = TodoArguments
    description: Final = (
        "Keep a list of what is to be done, for work of several steps; the user sees it as your plan. Give the whole "
        "list each time. Set an item in_progress when you begin it, one at a time, and completed as soon as it is done."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        items = arguments.get("items")
        if not isinstance(items, list) or not items:
            return Preview("Update the to-do list")
        done = sum(isinstance(item, dict) and item.get("status") == "completed" for item in items)
        return Preview(f"Update the to-do list ({done} of {len(items)} done)")

    def requests(self, arguments: TodoArguments, context: ToolContext) -> tuple[Request, ...]:
        return ()

    async def run(self, arguments: TodoArguments, context: ToolContext) -> ToolOutput:
        if len(arguments.items) > _MOST_ITEMS:
            raise ToolError(f"{len(arguments.items)} items are too many; combine them into at most {_MOST_ITEMS}")
        entries = [_entry(item, number) for number, item in enumerate(arguments.items, 1)]
        context.memory[_KEY] = entries
        await context.data("plan", {"entries": entries}, "plan")
        return ToolOutput(_summary(entries))


def _entry(item: TodoItem, number: int) -> dict[str, str]:
    content = item.content.strip()
    if not content:
        raise ToolError(f"item {number} is empty; write what is to be done")
    status = item.status.strip().lower().replace("-", "_").replace(" ", "_")
    status = _MEANT.get(status, status)
    if status not in STATUSES:
        raise ToolError(f"item {number} has the status {item.status!r}; use one of {', '.join(STATUSES)}")
    priority = (item.priority or "medium").strip().lower()
    if priority not in PRIORITIES:
        raise ToolError(f"item {number} has the priority {item.priority!r}; use one of {', '.join(PRIORITIES)}")
    return {"content": content, "priority": priority, "status": status}


def _summary(entries: list[dict[str, str]]) -> str:
    if not entries:
        return "The to-do list is empty now."
    done = sum(entry["status"] == "completed" for entry in entries)
    words = [f"The to-do list is updated: {done} of {len(entries)} done."]
    active = [shorten(entry["content"], paths.TITLE_LETTERS) for entry in entries if entry["status"] == "in_progress"]
    if len(active) > 1:
        words.append(f"{len(active)} items are in_progress; it is better to have one at a time.")
    elif active:
        words.append(f"Now: {active[0]}.")
    return " ".join(words)
