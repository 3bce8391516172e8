"""Members of version 2 as members of version 1, as far as they can be expressed; every loss is counted.

Version 1 is closed where version 2 is open: an unknown word or variant would make a strict reader refuse the whole
message, so it becomes the nearest known one or is left out. Does not know requests, turns or sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.versions.frames import Frame, items, kept, members, objects, text, with_own, without
from dragoman.versions.version2 import diffs

if TYPE_CHECKING:
    from dragoman.versions.losses import Losses

STOP_REASONS: Final = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
_CONTENT: Final = frozenset({"text", "image", "audio", "resource_link", "resource"})
_KINDS: Final = frozenset(
    {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
)
_STATUSES: Final = frozenset({"pending", "in_progress", "completed", "failed"})
_OPTION_KINDS: Final = frozenset({"allow_once", "allow_always", "reject_once", "reject_always"})
_ROLES: Final = frozenset({"assistant", "user"})
_PRIORITIES: Final = frozenset({"high", "medium", "low"})
_PLAN_STATUSES: Final = frozenset({"pending", "in_progress", "completed"})
_EMPTY: Final[dict[str, Any]] = {"title": "", "kind": "other", "status": "pending", "content": [], "locations": []}
"""What a cleared member of a tool call reads as."""


def client_capabilities(value: Any) -> Frame:
    """Translate what a client of version 2 announces, for an agent of version 1, which may send all that it can."""
    given = members(value)
    made: Frame = {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
        "plan": {},
        "auth": {"terminal": isinstance(members(given.get("auth")).get("terminal"), dict)},
        # By this mark agents report the output of their own terminals, see `to_v2.terminal_updates`.
        "_meta": {"terminal_output": True, **members(given.get("_meta"))},
    }
    return {**made, **kept(given, "elicitation")}


def agent_capabilities(value: Any, *, can_log_out: bool) -> Frame:
    """Translate what an agent of version 2 announces, for a client of version 1."""
    given = members(value)
    session = members(given.get("session"))
    prompt, servers = members(session.get("prompt")), members(session.get("mcp"))
    made: Frame = {
        "loadSession": True,
        "promptCapabilities": {
            name: isinstance(prompt.get(name), dict) for name in ("image", "audio", "embeddedContext")
        },
        "mcpCapabilities": {"http": isinstance(servers.get("http"), dict), "sse": False},
        "sessionCapabilities": {
            "list": {},
            "resume": {},
            "close": {},
            **kept(session, "delete", "additionalDirectories", "systemPrompt", "fork", "archive", "status", "title"),
        },
        **kept(given, "providers", "_meta"),
    }
    auth = kept(members(given.get("auth")), "status")
    if can_log_out:
        auth["logout"] = {}
    return {**made, "auth": auth} if auth else made


def auth_methods(value: Any, losses: Losses) -> list[Frame]:
    """Translate the ways to log in."""
    made = []
    for method in objects(value):
        changed = {"id": method.get("methodId"), **without(method, "methodId", "type")}
        if method.get("type") == "terminal":
            changed["type"] = "terminal"
            if "env" in method:
                pairs = objects(method["env"])
                changed["env"] = {text(pair.get("name")): text(pair.get("value")) for pair in pairs}
        elif method.get("type") != "agent":
            losses.add("login-kind")
            continue
        made.append(changed)
    return made


def servers(value: Any, losses: Losses) -> list[Any]:
    """Translate MCP servers, with the lists that version 1 requires."""
    made: list[Any] = []
    for server in items(value):
        kind = server.get("type") if isinstance(server, dict) else None
        if kind == "stdio":
            made.append({"args": [], "env": [], **without(server, "type")})
        elif kind == "http":
            made.append({"headers": [], **server})
        elif kind == "acp" or not isinstance(server, dict):
            made.append(server)
        else:
            losses.add("server-kind")
    return made


def config_options(value: Any, losses: Losses, *, has_booleans: bool) -> list[Frame]:
    """Configuration options of the two types that version 1 has; booleans only if the client announced them."""
    made = []
    for option in objects(value):
        if option.get("type") not in ("select", "boolean"):
            losses.add("option-kind")
            continue
        if option["type"] == "boolean" and not has_booleans:  # rule 150
            losses.add("boolean-option")
            continue
        changed = {"id": option.get("configId"), **without(option, "configId")}
        if option["type"] == "select":
            changed["options"] = [
                {"group": choice["groupId"], **without(choice, "groupId")} if "groupId" in choice else choice
                for choice in objects(option.get("options"))
            ]
        made.append(changed)
    return made


def mode_state(options: list[Frame]) -> Frame | None:
    """Return the option of category `mode` of version 1's options as modes, for clients that know only those."""
    for option in options:
        if option.get("category") == "mode" and option.get("type") == "select":
            choices = [choice for choice in objects(option.get("options")) if "value" in choice]
            for group in objects(option.get("options")):
                choices += objects(group.get("options"))
            modes = [{"id": choice.get("value"), **without(choice, "value")} for choice in choices]
            return {"currentModeId": option.get("currentValue"), "availableModes": modes} if modes else None
    return None


def commands(value: Any, losses: Losses) -> list[Frame]:
    """Slash commands."""
    made = []
    for command in objects(value):
        if command.get("type") != "command":
            losses.add("command-kind")
            continue
        changed = without(command, "type")
        if isinstance(command.get("input"), dict):
            if command["input"].get("type") == "text":
                changed["input"] = without(command["input"], "type")
            else:
                losses.add("command-kind")
                del changed["input"]
        made.append(changed)
    return made


def block(value: Any, losses: Losses) -> Frame | None:
    """Translate a content block; None for a type that version 1 does not have."""
    given = members(value)
    if given.get("type") not in _CONTENT:
        losses.add("content-kind")
        return None
    if given.get("icons"):
        losses.add("content-icons")
    made = without(given, "icons") if "icons" in given else given
    audience = members(given.get("annotations")).get("audience")
    if isinstance(audience, list) and not set(map(str, audience)) <= _ROLES:
        losses.add("content-role")
        made = {**made, "annotations": {**given["annotations"], "audience": [r for r in audience if r in _ROLES]}}
    return made


def blocks(value: Any, losses: Losses) -> list[Frame]:
    """Translate content blocks, without those of unknown types."""
    return [made for item in items(value) if (made := block(item, losses)) is not None]


def system_prompt(params: Frame, losses: Losses) -> Frame:
    """Return params with the blocks of `systemPrompt` that version 1 has."""
    given = params.get("systemPrompt")
    if not isinstance(given, dict):
        return params
    return {**params, "systemPrompt": {**given, "content": blocks(given.get("content"), losses)}}


def form_answer(result: Any, losses: Losses) -> Any:
    """Translate the answer to a form; of its values those that version 1 has."""
    given = members(result)
    content = given.get("content")
    if not isinstance(content, dict):
        return result
    fitting = {name: value for name, value in content.items() if _is_form_value(value)}
    if len(fitting) != len(content):
        losses.add("form-value")
    return {**given, "content": fitting}


def _is_form_value(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, (str, int, float, bool))


def tool_content(item: Frame, losses: Losses) -> list[Frame]:
    """Translate one item of a tool call's content; the caller handles terminals."""
    match item.get("type"):
        case "content":
            made = block(item.get("content"), losses)
            return [] if made is None else [{**item, "content": made}]
        case "diff":
            return diffs.to_v1(item, losses)
        case _:
            losses.add("content-kind")
            return []


def tool_patch(patch: Frame, losses: Losses) -> Frame:
    """Translate the members of a tool call but its content; cleared ones get their empty value."""
    made: Frame = {}
    for name, value in patch.items():
        if name in ("content", "capabilities", "sessionUpdate"):
            continue
        if value is None and name in _EMPTY:
            losses.add("tool-cleared")
            made[name] = _EMPTY[name]
        elif value is None and name == "name":
            losses.add("tool-cleared")
        else:
            made[name] = value
    kind, status = made.get("kind"), made.get("status")
    if kind is not None and kind not in _KINDS:
        losses.add("tool-kind")
        made["kind"] = "other"
    if status is not None and status not in _STATUSES:
        losses.add("tool-status")
        made = with_own(made, status=status)
        made["status"] = "failed" if status == "cancelled" else "in_progress"
    return made


def plan_entries(value: Any, losses: Losses) -> list[Frame]:
    """Translate the entries of a plan to the words of version 1."""
    made = []
    for entry in objects(value):
        status, priority = entry.get("status"), entry.get("priority")
        if status == "cancelled":
            losses.add("plan-entry")
            continue
        if status not in _PLAN_STATUSES:
            losses.add("plan-entry")
            entry = {**entry, "status": "pending"}
        if priority not in _PRIORITIES:
            entry = {**entry, "priority": "medium"}
        made.append(entry)
    return made


def permission_options(value: Any, losses: Losses) -> list[Frame]:
    """Return the options of a permission request that a client of version 1 can show."""
    made = []
    for option in objects(value):
        if option.get("kind") in _OPTION_KINDS:
            made.append(option)
        else:
            losses.add("permission-option")
    return made


def stop(idle: Frame, losses: Losses) -> Frame:
    """Return the result of a prompt that ended with this idle state."""
    reason = idle.get("stopReason")
    made: Frame = {"stopReason": "end_turn", **kept(idle, "usage", "_meta")}
    if reason in STOP_REASONS:
        return {**made, "stopReason": reason}
    if reason is not None:
        losses.add("stop-reason")
        return with_own(made, stopReason=reason)
    return made
