"""`dragoman eval list` and `show`: the tasks and what they need."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli.console import write_json, write_table
from dragoman.evaluation.task import SOLUTIONS, load_tasks
from dragoman.text.terminal import duration, plain
from dragoman.text.visible import label

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.evaluation.task import Task


def chosen_tasks(call: CliCall, names: list[str] | None = None) -> list[Task]:
    """Return the tasks that the options choose. Raises: ConfigError."""
    folders = [Path(folder).expanduser().absolute() for folder in call.given.tasks]
    return load_tasks(folders, call.given.task if names is None else names)


def list_tasks(call: CliCall) -> int:
    """Write one line for each task."""
    tasks = chosen_tasks(call)
    if call.given.json:
        write_json({"tasks": [_described(task) for task in tasks]})
        return 0
    rows = [
        (
            task.name,
            label(task.category, 30, "-"),
            task.difficulty or "-",
            _state(task),
            label(task.description, 90, "-"),
        )
        for task in tasks
    ]
    write_table(("TASK", "KIND", "DIFFICULTY", "HERE", "DESCRIPTION"), rows)
    return 0


def show_task(call: CliCall) -> int:
    """Write everything about one task."""
    [task] = chosen_tasks(call, call.given.words)
    if call.given.json:
        write_json(_described(task))
        return 0
    settings = task.settings
    lines = [f"{task.name}: {task.description}", ""]
    facts = {
        "folder": str(task.folder),
        "kind": task.category,
        "time": f"{duration(task.agent_seconds)} for the agent, {duration(task.judge_seconds)} for the judge",
        "may change": ", ".join(settings.may_change) or "nothing",
        "may commit": "yes" if settings.may_commit else "no",
        "allowed": "everything that is not denied" if settings.allows_all else ", ".join(settings.allow),
        "denied": ", ".join(settings.deny) or "nothing",
        "MCP servers": ", ".join(server.name for server in task.mcp_servers) or "none",
        "needs": ", ".join(settings.programs) or "nothing but git and Python",
        "solutions": ", ".join(name for name in SOLUTIONS.values() if (task.folder / name).is_dir()) or "none",
    }
    lines += [f"{name + ':':13}{value}" for name, value in facts.items()]
    for title, reasons in (("cannot be run here:", task.reasons_to_skip()), ("not used:", task.notes)):
        lines += ["", title, *(f"  {reason}" for reason in reasons)] if reasons else []
    lines += ["", "The prompt:", "", task.instruction]
    sys.stdout.write(plain("\n".join(lines)) + "\n")
    return 0


def _state(task: Task) -> str:
    reasons = task.reasons_to_skip()
    return "yes" if not reasons else f"no: {label(reasons[0], 60)}"


def _described(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "folder": str(task.folder),
        "description": task.description,
        "category": task.category,
        "difficulty": task.difficulty,
        "schema_version": task.schema_version,
        "instruction": task.instruction,
        "agent_seconds": task.agent_seconds,
        "judge_seconds": task.judge_seconds,
        "settings": task.settings,
        "mcp_servers": task.mcp_servers,
        "reasons_to_skip": task.reasons_to_skip(),
        "unused": task.notes,
    }
