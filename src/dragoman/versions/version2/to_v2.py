"""Members of version 1 as members of version 2: capabilities, options, commands, tool calls, permission requests.

Nearly everything can be expressed. Does not know requests, turns or sessions; `v2_client.py` and `v1_client.py` do.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from dragoman.versions.frames import Frame, items, kept, members, objects, text, without
from dragoman.versions.version2 import diffs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.versions.losses import Losses

UNKNOWN_PROGRAM: Final = {"name": "unknown", "version": "unknown"}
MODE_OPTION: Final = "mode"
"""The id of the option that stands for the modes of an agent without an option of that category."""

_TERMINAL_KEYS: Final = ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit")
"""What some agents say in `_meta` about their own terminals; it becomes updates."""


def program(value: Any) -> Frame:
    """Return who the other side is; version 2 requires it."""
    found = members(value)
    has_both = isinstance(found.get("name"), str) and isinstance(found.get("version"), str)
    return found if has_both else dict(UNKNOWN_PROGRAM)


def client_capabilities(value: Any, losses: Losses) -> Frame:
    """Translate what a client of version 1 announces, for an agent of version 2."""
    given = members(value)
    files = members(given.get("fs"))
    if files.get("readTextFile") or files.get("writeTextFile"):
        losses.add("client-files")
    if given.get("terminal"):
        losses.add("client-terminals")
    made = kept(given, "elicitation", "_meta")
    if members(given.get("auth")).get("terminal") is True:
        made["auth"] = {"terminal": {}}
    return made


def agent_capabilities(value: Any) -> Frame:
    """Translate what an agent of version 1 announces, for a client of version 2."""
    given = members(value)
    prompt, servers = members(given.get("promptCapabilities")), members(given.get("mcpCapabilities"))
    known = members(given.get("sessionCapabilities"))
    session: Frame = {
        "prompt": {name: {} for name in ("image", "audio", "embeddedContext") if prompt.get(name) is True},
        "mcp": {"stdio": {}, **({"http": {}} if servers.get("http") is True else {})},
    }
    if isinstance(servers.get("acp"), dict):
        session["mcp"]["acp"] = servers["acp"]
    session.update(
        kept(known, "delete", "additionalDirectories", "systemPrompt", "fork", "archive", "status", "title", "_meta")
    )
    made: Frame = {"session": session, **kept(given, "providers", "_meta")}
    auth = kept(members(given.get("auth")), "status", "_meta")
    return {**made, "auth": auth} if auth else made


def auth_methods(value: Any) -> list[Frame]:
    """Translate the ways to log in; unknown ones are kept, since version 2 is open."""
    return [_auth_method(method) for method in objects(value)]


def _auth_method(method: Frame) -> Frame:
    made = {"type": "agent", **without(method, "id"), "methodId": method.get("id")}
    if method.get("type") == "terminal" and "env" in method:
        made["env"] = [{"name": name, "value": member} for name, member in members(method["env"]).items()]
    return made


def servers(value: Any, losses: Losses) -> tuple[list[Any], bool]:
    """Translate MCP servers; return also whether one had to be left out."""
    made: list[Any] = []
    is_short = False
    for server in items(value):
        if not isinstance(server, dict) or server.get("type") in ("http", "stdio", "acp"):
            made.append(server)
        elif server.get("type") == "sse":
            losses.add("sse-server")
            is_short = True
        elif server.get("type") is None:
            made.append({"type": "stdio", **without(server, "type")})
        else:
            made.append(server)
    return made, is_short


def config_options(value: Any, losses: Losses) -> list[Frame]:
    """Configuration options with their current values."""
    made = []
    for option in objects(value):
        changed = {"configId": option.get("id"), **without(option, "id")}
        if option.get("type") == "select":
            given = objects(option.get("options"))
            # Version 2 requires a value in each group, and one at all.
            choices = [_choice(choice) for choice in given if "group" not in choice or objects(choice.get("options"))]
            if len(choices) != len(given) or not choices:
                losses.add("empty-select")
            if not choices:
                continue
            changed["options"] = choices
        made.append(changed)
    return made


def _choice(choice: Frame) -> Frame:
    return {"groupId": choice["group"], **without(choice, "group")} if "group" in choice else choice


def mode_option(modes: Any) -> Frame | None:
    """Translate the modes of an agent to an option of category `mode`."""
    given = members(modes)
    available = objects(given.get("availableModes"))
    if not available:
        return None
    return {
        "configId": MODE_OPTION,
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": given.get("currentModeId"),
        "options": [{"value": mode.get("id"), **without(mode, "id")} for mode in available],
    }


def commands(value: Any) -> list[Frame]:
    """Slash commands; both they and their input have types in version 2."""
    made = []
    for command in objects(value):
        changed = {"type": "command", **command}
        if isinstance(command.get("input"), dict):
            changed["input"] = {"type": "text", **command["input"]}
        made.append(changed)
    return made


def block(value: Any) -> Any:
    """Translate a content block, without a priority outside 0 to 1 or a negative size: version 2 has neither."""
    if not isinstance(value, dict):
        return value
    size, notes = value.get("size"), value.get("annotations")
    if isinstance(size, int) and size < 0:
        value = without(value, "size")
    priority = notes.get("priority") if isinstance(notes, dict) else None
    if isinstance(priority, (int, float)) and not 0 <= priority <= 1:
        value = {**value, "annotations": without(members(notes), "priority")}
    return value


def blocks(value: Any) -> list[Any]:
    """Translate content blocks."""
    return [block(item) for item in items(value)]


def system_prompt(params: Frame) -> Frame:
    """Return params with the blocks of `systemPrompt` in version 2's form."""
    given = params.get("systemPrompt")
    if not isinstance(given, dict):
        return params
    return {**params, "systemPrompt": {**given, "content": blocks(given.get("content"))}}


def form(params: Frame) -> Frame:
    """Translate the params of elicitation/create: version 2 requires what was a default, and one scope only."""
    made = without(params, "requestId") if "sessionId" in params else params
    if isinstance(params.get("requestedSchema"), dict):
        schema = {"type": "object", "properties": {}, **params["requestedSchema"]}
        return {**made, "requestedSchema": schema}
    return made


def locations(value: Any) -> list[Any]:
    """Translate places in files; lines count from 1."""
    return [
        without(place, "line") if isinstance(place, dict) and place.get("line") == 0 else place
        for place in items(value)
    ]


def tool_patch(call: Frame, content: Callable[[Any], list[Frame]]) -> Frame:
    """Translate the members of a tool call, without null, which says nothing in version 1 and clears in version 2."""
    made: Frame = {}
    for name, value in call.items():
        if name == "sessionUpdate" or (value is None and name not in ("rawInput", "rawOutput")):
            continue
        if name == "content":
            value = content(value)
        elif name == "locations":
            value = locations(value)
        elif name == "_meta":
            value = {key: item for key, item in members(value).items() if key not in _TERMINAL_KEYS}
            if not value:
                continue
        made[name] = value
    return made


def tool_content(value: Any, has_terminal: Callable[[Any], bool], losses: Losses) -> list[Frame]:
    """Translate the content of a tool call. A terminal is kept only if it was made known as one of the agent's own."""
    made: list[Frame] = []
    for item in objects(value):
        if item.get("type") == "diff":
            made.append(diffs.to_v2(item))
        elif item.get("type") == "content":
            made.append({**item, "content": block(item.get("content"))})
        elif item.get("type") != "terminal" or has_terminal(item.get("terminalId")):
            made.append(item)
        else:
            losses.add("terminal-reference")
    return made


def plan(update: Frame) -> Frame:
    """Translate the one plan of version 1."""
    return {
        "sessionUpdate": "plan_update",
        "plan": {"type": "items", "planId": "main", "entries": objects(update.get("entries"))},
        **kept(update, "_meta"),
    }


def terminal_updates(meta: Any) -> list[Frame]:
    """Return the terminal of the agent that some agents describe in `_meta` of a tool call."""
    given = members(meta)
    made: list[Frame] = []
    about = members(given.get("terminal_info"))
    if isinstance(about.get("terminal_id"), str):
        terminal = {"sessionUpdate": "terminal_update", "terminalId": about["terminal_id"]}
        made.append({**terminal, **kept(about, "cwd", "command")})
    for name in ("terminal_output", "terminal_output_delta"):
        output = members(given.get(name))
        if isinstance(output.get("terminal_id"), str):
            data = b64encode(text(output.get("data")).encode("utf-8", "replace")).decode()
            chunk = {"sessionUpdate": "terminal_output_chunk", "terminalId": output["terminal_id"], "data": data}
            made.append(chunk)
    ended = members(given.get("terminal_exit"))
    if isinstance(ended.get("terminal_id"), str):
        code, signal = ended.get("exit_code"), ended.get("signal")
        status: Frame = {}
        if isinstance(code, int) and not isinstance(code, bool):
            status["exitCode"] = code
        if isinstance(signal, str):
            status["signal"] = signal
        terminal = {"sessionUpdate": "terminal_update", "terminalId": ended["terminal_id"]}
        made.append({**terminal, "exitStatus": status})
    return made
