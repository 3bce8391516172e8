"""Names of tools and arguments that models know from other agents, and what they are called here. Pure.

Owns the one table of them, and how the arguments of a call are read before they are decoded. The schema that a model is
given has our names only: both would cost twice the tokens and confuse. An argument that is known under no name is an
error which names the right one, because silently ignoring it would do something else than the model asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dragoman.builtin.tools.tool import Tool

_TOOL_NAMES: Final = {
    "read": "Read read_file view cat",
    "write": "Write write_file create_file",
    "edit": "Edit replace str_replace str_replace_editor MultiEdit",
    "bash": "Bash shell run_shell_command exec_command execute_command terminal",
    "bash_output": "BashOutput TaskOutput read_background_output",
    "bash_stop": "KillShell KillBash TaskStop",
    "glob": "Glob find list_files",
    "grep": "Grep grep_search search ripgrep",
    "todo": "TodoWrite todowrite update_plan write_todos",
    "present_plan": "ExitPlanMode exit_plan_mode plan_exit",
    "question": "AskUserQuestion ask_user",
    "task": "Task Agent",
    "tool_search": "ToolSearch search_tools find_tools",
    "skill": "Skill activate_skill load_skill use_skill",
    "web_fetch": "WebFetch webfetch",
    "web_search": "WebSearch websearch google_web_search",
}
_AGENT_NAMES: Final = {"explore": "Explore", "plan": "Plan", "build": "general-purpose"}
_OURS: Final = {name: ours for ours, names in _TOOL_NAMES.items() for name in names.split()}

_PATH: Final = "file_path filePath absolute_path file filename target_file"
_FOLDER: Final = "dir_path directory target_directory"
_JOB: Final = "bash_id shell_id task_id job_id session_id pid"
# Ours and what others call it, for each tool. The first name that is present counts.
_ARGUMENTS: Final[dict[str, dict[str, str]]] = {
    "read": {"path": _PATH, "line": "offset start_line startLine", "limit": "num_lines"},
    "write": {"path": _PATH, "text": "content contents file_text new_content"},
    "edit": {
        "path": _PATH,
        "old": "old_string oldString old_text oldText old_str before search",
        "new": "new_string newString new_text newText new_str after replace",
        "all": "replace_all replaceAll allow_multiple",
    },
    "apply_patch": {"patch": "input patchText patch_text"},
    "bash": {
        "command": "cmd script input",
        "cwd": "workdir dir_path directory working_directory",
        "background": "run_in_background is_background",
    },
    "bash_output": {"id": _JOB, "wait": "wait_seconds timeout_secs"},
    "bash_stop": {"id": _JOB},
    "glob": {"pattern": "glob glob_pattern", "path": _FOLDER},
    "grep": {
        "pattern": "query regex search",
        "path": _FOLDER,
        "include": "glob include_pattern include_glob",
        "context": "-C C",
        "before": "-B B",
        "after": "-A A",
        "insensitive": "-i case_insensitive",
        "literal": "fixed_strings",
        "limit": "head_limit total_max_matches max_results",
        "ignored": "no_ignore",
        "files": "names_only",
    },
    "todo": {"items": "todos plan tasks"},
    "task": {
        "agent": "subagent_type subagentType agent_type agent_name",
        "id": "task_id taskId resume agent_id",
        "background": "run_in_background is_background",
    },
    "skill": {"name": "skill skill_name skillName command"},
    "question": {"choices": "options", "multiple": "multiSelect multi_select"},
    "tool_search": {"limit": "max_results maxResults top_k"},
    "web_fetch": {"url": "uri link"},
    "web_search": {"query": "q search_query"},
}
# Known from others, without a meaning here.
_IGNORED: Final = {
    "edit": "instruction explanation expected_replacements",
    "bash": "description justification login tty shell",
    "bash_output": "block chars lines",
    "grep": "-n",
    "present_plan": "plan_filename allowedPrompts",
    "todo": "explanation",
    "question": "header",
    "skill": "args arguments",
    "task": "model effort isolation name max_turns",
    "web_fetch": "prompt timeout",
}
_MILLISECONDS: Final = 1000.0
_MOST_JOB_SECONDS: Final = 7200.0
_BACKGROUND: Final = ("background", "run_in_background", "is_background")


def our_tool_name(name: str) -> str:
    """Return what we call a tool that a model called by this name."""
    return _OURS.get(name, name)


def foreign_name(name: str) -> str:
    """Return what Claude Code calls a tool of ours; the same name if it has none."""
    return _TOOL_NAMES.get(name, name).split()[0]


def foreign_agent_name(name: str) -> str:
    """Return what Claude Code calls a subagent of ours; the same name if it has none."""
    return _AGENT_NAMES.get(name, name)


def foreign_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call under the names that others use, where they differ from ours."""
    names = {ours: others.split()[0] for ours, others in _ARGUMENTS.get(tool, {}).items()}
    return {names[name]: value for name, value in arguments.items() if name in names}


def changed_arguments(tool: str, sent: Mapping[str, Any], returned: Mapping[str, Any]) -> dict[str, Any]:
    """Return changed arguments under one name each: of two names, the one whose value is not what was sent counts."""
    found = dict(returned)
    for ours, others in _ARGUMENTS.get(tool, {}).items():
        other = others.split()[0]
        if ours in found and other in found:
            del found[ours if found[other] != sent.get(ours) else other]
    return found


def read_arguments(tool: Tool, given: Any) -> Any:
    """Return the arguments of a call, decoded. Raises: ToolError that names what is wrong and what would be right."""
    if tool.schema is not None:  # the tool of a server, which reads its arguments by itself
        return _decoded(tool, given)
    if not isinstance(given, dict):
        raise ToolError(f"the arguments of {tool.name} are wrong: they must be an object, such as {_example(tool)}")
    raw = {name: value for name, value in given.items() if value is not None}
    convert = _CONVERTED.get(tool.name)
    if convert is not None:
        raw = convert(raw)
    fields = {field.name: field for field in msgspec.structs.fields(tool.arguments)}
    raw = _renamed(tool.name, raw, fields)
    for name in raw:
        if name not in fields:
            raise ToolError(_unknown(tool.name, name, list(fields)))
    for name, value in raw.items():
        # Models write a list as the text of one.
        if isinstance(value, str) and "list" in str(fields[name].type) and value.lstrip().startswith("["):
            try:
                raw[name] = msgspec.json.decode(value)
            except msgspec.DecodeError:
                continue
    return _decoded(tool, raw)


def with_our_names(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments, which may still be incomplete, with our names, for the display of a call."""
    if tool.schema is not None:
        return arguments
    names = {other: ours for ours, others in _ARGUMENTS.get(tool.name, {}).items() for other in others.split()}
    return {names.get(name, name): value for name, value in arguments.items()}


def _decoded(tool: Tool, raw: Any) -> Any:
    try:
        return msgspec.convert(raw, tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"the arguments of {tool.name} are wrong: {error}") from None


def _renamed(tool: str, raw: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with our names. Raises: ToolError if two names of one argument have different values."""
    names = {
        other: ours
        for ours, others in _ARGUMENTS.get(tool, {}).items()
        if ours in fields
        for other in others.split()
        if other not in fields
    }
    ignored = set(_IGNORED.get(tool, "").split()) - set(fields)
    renamed: dict[str, Any] = {}
    source: dict[str, str] = {}
    for name, value in raw.items():
        if name in ignored:
            continue
        ours = names.get(name, name)
        if ours in renamed and renamed[ours] != value:
            raise ToolError(f"{source[ours]} and {name} mean the same argument of {tool}, {ours}; give one of them")
        renamed[ours], source[ours] = value, name
    return renamed


def _unknown(tool: str, name: str, known: list[str]) -> str:
    others = {other: ours for ours, names in _ARGUMENTS.get(tool, {}).items() for other in names.split()}
    import difflib  # only for calls that are wrong

    near = difflib.get_close_matches(name, [*known, *others], 1, 0.6)
    meant = f"; did you mean {others.get(near[0], near[0])}?" if near and others.get(near[0], near[0]) in known else ""
    return f"{tool} has no argument {name!r}{meant or '.'} It has: {', '.join(known)}"


def _example(tool: Tool) -> str:
    field = msgspec.structs.fields(tool.arguments)[0]
    return f'{{"{field.name}": ...}}'


# Arguments that are more than another name


def _read(raw: dict[str, Any]) -> dict[str, Any]:
    view = raw.pop("view_range", None)
    if isinstance(view, list) and len(view) == 2:
        raw["line"], raw["end_line"] = view
    end = raw.pop("end_line", raw.pop("endLine", None))
    first = next((raw[name] for name in ("line", "offset", "start_line", "startLine") if name in raw), 1)
    if end is not None and "limit" not in raw:
        try:
            raw["limit"] = max(int(end) - int(first) + 1, 1) if int(end) > 0 else None
        except (TypeError, ValueError):
            raise ToolError(f"end_line must be a number, not {end!r}") from None
        if raw["limit"] is None:  # -1 is the end of the file
            del raw["limit"]
    return raw


def _edit(raw: dict[str, Any]) -> dict[str, Any]:
    count = raw.get("expected_replacements")
    if isinstance(count, int) and count > 1:
        raw["all"] = True
    if isinstance(raw.get("edits"), str):
        raw["edits"] = _from_json("edits", raw["edits"])
    if isinstance(raw.get("edits"), list):
        fields = dict.fromkeys(("old", "new", "all"))
        raw["edits"] = [_renamed("edit", edit, fields) if isinstance(edit, dict) else edit for edit in raw["edits"]]
    return raw


def _bash(raw: dict[str, Any]) -> dict[str, Any]:
    for name in ("command", "cmd"):
        if isinstance(raw.get(name), list):
            import shlex  # few models give a list

            raw[name] = shlex.join(map(str, raw[name]))
    for name, unit in (("timeout_ms", _MILLISECONDS), ("yield_time_ms", _MILLISECONDS), ("timeout_secs", 1.0)):
        if name in raw:
            raw["timeout"] = _number(name, raw.pop(name)) / unit
    # Other agents mean milliseconds; no command may run for so many seconds.
    is_job = any(str(raw.get(name)).lower() in ("true", "1") for name in _BACKGROUND)
    most = _MOST_JOB_SECONDS if is_job else _MILLISECONDS
    if "timeout" in raw and _number("timeout", raw["timeout"]) > most:
        raw["timeout"] = _number("timeout", raw["timeout"]) / _MILLISECONDS
    return raw


def _job(raw: dict[str, Any]) -> dict[str, Any]:
    for name in ("id", *_JOB.split()):
        if name in raw and str(raw[name]).isdecimal():
            raw[name] = f"bg_{raw[name]}"
    for name in ("yield_time_ms", "delay_ms", "timeout"):  # the last is in milliseconds where others have it
        if name in raw:
            raw["wait"] = _number(name, raw.pop(name)) / _MILLISECONDS
    return raw


def _grep(raw: dict[str, Any]) -> dict[str, Any]:
    mode = raw.pop("output_mode", None)
    if mode == "files_with_matches":
        raw["files"] = True
    elif mode == "count":
        raw["count"] = True
    if "case_sensitive" in raw:
        raw["insensitive"] = str(raw.pop("case_sensitive")).lower() in ("false", "0")
    return raw


def _todo(raw: dict[str, Any]) -> dict[str, Any]:
    for name in ("items", "todos", "plan", "tasks"):
        if isinstance(raw.get(name), str):
            raw[name] = _from_json(name, raw[name])
        if isinstance(raw.get(name), list):
            raw[name] = [_todo_item(item) for item in raw[name]]
    return raw


def _todo_item(item: Any) -> Any:
    if isinstance(item, str):
        return {"content": item}
    if not isinstance(item, dict):
        return item
    content = next((item[name] for name in ("content", "text", "description", "step", "title") if name in item), None)
    kept = {name: item[name] for name in ("status", "priority") if item.get(name) is not None}
    return {"content": content, **kept}


def _question(raw: dict[str, Any]) -> dict[str, Any]:
    questions = raw.pop("questions", None)
    if isinstance(questions, str):
        questions = _from_json("questions", questions)
    if isinstance(questions, list) and questions:
        if len(questions) > 1:
            raise ToolError("question asks one thing at a time; make one call for each question")
        if isinstance(questions[0], dict):
            raw = {**questions[0], **raw}
        else:
            raw["question"] = questions[0]
    return raw


def _web_fetch(raw: dict[str, Any]) -> dict[str, Any]:
    if "format" in raw:
        raw["format"] = {"markdown": "text", "html": "raw"}.get(str(raw["format"]), raw["format"])
    return raw


_CONVERTED: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "read": _read,
    "edit": _edit,
    "bash": _bash,
    "bash_output": _job,
    "bash_stop": _job,
    "grep": _grep,
    "todo": _todo,
    "question": _question,
    "web_fetch": _web_fetch,
}


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ToolError(f"{name} must be a number, not {value!r}") from None
    except OverflowError:
        raise ToolError(f"{name} is a number of too many digits") from None


def _from_json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ToolError(f"{name} must be a list, not a text") from None
