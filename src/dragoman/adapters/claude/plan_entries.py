"""The plan that Claude keeps with its own tools: a whole list (`TodoWrite`), or tasks one by one (`TaskCreate`).

Owns the current entries. Pure.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.uistream import chunks as c

_STATUSES: Final = ("pending", "in_progress", "completed")


class PlanEntries:
    """The entries of one session's plan."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[str, str]] = {}

    def called(self, name: str, tool_input: Any) -> c.Data | None:
        """Return the plan after a call that changes it by its arguments; None if it changes nothing."""
        arguments = tool_input if isinstance(tool_input, dict) else {}
        if name == "TodoWrite" and isinstance(arguments.get("todos"), list):
            todos = [todo for todo in arguments["todos"] if isinstance(todo, dict)]
            self._tasks = {str(at): (str(todo.get("content", "")), _status(todo)) for at, todo in enumerate(todos)}
            return self._shown()
        if name == "TaskUpdate":
            task = str(arguments.get("taskId", ""))
            known = self._tasks.get(task)
            if known is None:
                return None
            if arguments.get("status") == "deleted":
                del self._tasks[task]
            else:
                status = _status(arguments) if "status" in arguments else known[1]
                self._tasks[task] = (str(arguments.get("subject") or known[0]), status)
            return self._shown()
        return None

    def answered(self, name: str, result: Any) -> c.Data | None:
        """Return the plan after the result of a call; a new task gets its id only then."""
        match name, result:
            case ("TaskCreate", {"task": {"id": str(task), "subject": str(subject)}}):
                self._tasks[task] = (subject, "pending")
                return self._shown()
            case ("TaskList", {"tasks": list(tasks)}):
                listed = [task for task in tasks if isinstance(task, dict) and isinstance(task.get("id"), str)]
                self._tasks = {task["id"]: (str(task.get("subject", "")), _status(task)) for task in listed}
                return self._shown()
        return None

    def _shown(self) -> c.Data:
        entries = [{"content": content, "status": status} for content, status in self._tasks.values() if content]
        return c.Data("plan", {"entries": entries}, "plan")


def _status(entry: dict[str, Any]) -> str:
    status = entry.get("status")
    return status if status in _STATUSES else "pending"
