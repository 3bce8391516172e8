"""From an intent to a call of one of the tools an agent offers.

Owns the families of names that tools go by, and filling a tool's parameters by their names. Pure: nothing is run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

from tests.interop.model_server.intents import Intent
from tests.interop.model_server.question import Tool, ToolUse

# Names are compared in lower case and without separators. The first of a family that is offered is taken.
_FAMILIES: Final = {
    "read": ("readfile", "read", "view", "readtextfile", "openfile"),
    "write": ("writefile", "write", "create", "writetofile", "createfile"),
    "edit": ("edit", "replace", "editfile", "strreplacefile", "searchreplace", "replaceinfile"),
    "run": (
        *("bash", "shell", "runshellcommand", "shellcommand", "execcommand", "executecommand", "runcommand"),
        *("terminal", "localshell"),
    ),
    "plan": ("todowrite", "writetodos", "updateplan", "updatetodo", "settodolist"),
    "list": ("listdirectory", "glob", "ls", "list"),
    "patch": ("applypatch",),
}
# Parameter names, told apart the same way.
_PARAMETERS: Final = {
    "path": ("filepath", "path", "absolutepath", "file", "filename", "targetfile", "dirpath"),
    "content": ("content", "contents", "filetext", "text"),
    "command": ("command", "cmd", "script"),
    "old": ("oldstring", "oldstr", "oldtext", "search"),
    "new": ("newstring", "newstr", "newtext", "replace"),
    "why": ("description", "explanation", "justification", "instruction", "reason", "intent"),
}
_MEANING: Final = {name: meaning for meaning, names in _PARAMETERS.items() for name in names}
_WHY: Final = "Does what was asked for"
_STEPS: Final = ("Look at the project", "Write the test", "Run it")


def uses_for(intent: Intent, tools: Sequence[Tool], done: int) -> ToolUse | None:
    """The next tool to use for an intent after `done` others; None when there is nothing (more) to do."""
    uses = _sequence(intent, tools)
    return uses[done] if done < len(uses) else None


def offers(tools: Sequence[Tool], name: str) -> bool:
    """Whether a tool of exactly this name is offered."""
    return any(tool.name == name for tool in tools)


def _sequence(intent: Intent, tools: Sequence[Tool]) -> list[ToolUse]:
    match intent.verb:
        case "read":
            return _first(_by_name(intent, tools, "read", path=intent.path), _shell(tools, f"cat {quote(intent.path)}"))
        case "write":
            return _first(
                _by_name(intent, tools, "write", path=intent.path, content=intent.text),
                _patched(tools, f"*** Add File: {intent.path}\n" + _marked("+", intent.text)),
            )
        case "edit":
            # Some agents refuse to edit what their model has not read.
            look = _by_name(Intent("read"), tools, "read", path=intent.path)
            change = _first(
                _by_name(intent, tools, "edit", path=intent.path, old=intent.old, new=intent.text),
                _patched(
                    tools,
                    f"*** Update File: {intent.path}\n@@\n" + _marked("-", intent.old) + _marked("+", intent.text),
                ),
            )
            return [*look, *change]
        case "run":
            return _first(_by_name(intent, tools, "run", command=intent.command))
        case "steps":
            return [use for command in intent.command.split(" ;; ") for use in _shell(tools, command)]
        case "list":
            return _first(_by_name(intent, tools, "list", path=".", pattern="*"), _shell(tools, "ls"))
        case "plan":
            return [_planned(tool, done) for tool in _find(intent, tools, "plan")[:1] for done in (1, 2)]
    return []


def _first(*ways: list[ToolUse]) -> list[ToolUse]:
    return next((way for way in ways if way), [])


def _find(intent: Intent, tools: Sequence[Tool], family: str) -> list[Tool]:
    asked_for = [tool for tool in tools if tool.name == intent.tool]
    known = {_plain(tool.name): tool for tool in reversed(tools)}
    return asked_for + [known[name] for name in _FAMILIES[family] if name in known]


def _by_name(intent: Intent, tools: Sequence[Tool], family: str, **values: str) -> list[ToolUse]:
    found = [tool for tool in _find(intent, tools, family) if not tool.is_free_text]
    fitting = [tool for tool in found if family in ("run", "list") or _takes(tool, values)]
    return [ToolUse(tool, _filled(tool.schema, values)) for tool in fitting[:1]]


def _takes(tool: Tool, values: dict[str, str]) -> bool:
    """Whether the tool has a parameter for each value: an `edit` that takes a patch has none."""
    meanings = {_MEANING.get(_plain(name)) for name in tool.schema.get("properties") or {}}
    return values.keys() <= meanings


def _shell(tools: Sequence[Tool], command: str) -> list[ToolUse]:
    return _by_name(Intent("run"), tools, "run", command=command)


def _patched(tools: Sequence[Tool], change: str) -> list[ToolUse]:
    patch = f"*** Begin Patch\n{change}*** End Patch\n"
    for tool in _find(Intent("edit"), tools, "patch"):
        names = list(tool.schema.get("properties") or ("input",))
        return [ToolUse(tool, patch if tool.is_free_text else {names[0]: patch})]
    return []


def _marked(sign: str, text: str) -> str:
    return "".join(f"{sign}{line}\n" for line in text.splitlines())


def _planned(tool: Tool, done: int) -> ToolUse:
    """The plan as the tool's list of objects, with the first `done` steps completed."""
    arguments = _filled(tool.schema, {})
    for name, wanted in (tool.schema.get("properties") or {}).items():
        if wanted.get("type") == "array":
            items = (wanted.get("items") or {}).get("properties") or {}
            arguments[name] = [_step(items, number, done) for number in range(len(_STEPS))]
    return ToolUse(tool, arguments)


def _step(properties: dict[str, Any], number: int, done: int) -> dict[str, Any]:
    status = "completed" if number < done else "in_progress" if number == done else "pending"
    step: dict[str, Any] = {}
    for name, wanted in properties.items():
        if name == "status":
            step[name] = status
        elif wanted.get("enum"):
            step[name] = wanted["enum"][0]
        else:
            step[name] = str(number) if name == "id" else _STEPS[number]
    return step


def _filled(schema: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    required = schema.get("required") or ()
    for name, wanted in (schema.get("properties") or {}).items():
        meaning = _MEANING.get(_plain(name), name)
        if meaning in values:
            is_list = str(wanted.get("type", "")).lower() == "array"
            arguments[name] = ["bash", "-lc", values[meaning]] if is_list else values[meaning]
        elif name in required:
            arguments[name] = _WHY if meaning == "why" else sample(wanted)
    return arguments


def sample(schema: dict[str, Any]) -> Any:
    """The plainest value that a JSON schema accepts."""
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    if schema.get("enum"):
        return schema["enum"][0]
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return sample(several[0])
    kind = schema.get("type") or "object"
    return _of_type(str(kind[0] if isinstance(kind, list) else kind).lower(), schema)


def _of_type(kind: str, schema: dict[str, Any]) -> Any:
    match kind:
        case "object":
            properties = schema.get("properties") or {}
            return {name: sample(properties.get(name) or {"type": "string"}) for name in schema.get("required") or ()}
        case "array":
            return [sample(schema.get("items") or {"type": "string"})] * (schema.get("minItems") or 0)
        case "integer" | "number":
            return schema.get("minimum") or 1
    return {"boolean": False, "null": None}.get(kind, "scripted")


def _plain(name: str) -> str:
    """A tool's or parameter's name as it is compared."""
    return name.rsplit("__", 1)[-1].replace("_", "").replace("-", "").lower()
