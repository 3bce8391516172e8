"""Summaries of messages, one line each.

Owns the choice of what matters about each kind of message. A summary is the peer's text, cut to a limit and otherwise
as it came: the caller makes it safe for the place where it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.text import terminal
from dragoman.text.terminal import size
from dragoman.wire import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from dragoman.trace.inspect.exchange import DecodedFrame

    Titles: TypeAlias = Mapping[tuple[str | None, str], str]
    Summary: TypeAlias = Callable[[dict[str, Any], DecodedFrame, Titles], str]

EXCERPT_CHARS: Final = 200  # more than a wide terminal shows
_DOT: Final = " · "


def summarise(frame: DecodedFrame, titles: Titles) -> str:
    """Summarise a frame; `titles` are the known titles of tool calls by session and id."""
    if frame.kind == "malformed":
        raw = frame.message.raw if isinstance(frame.message, Malformed) else b""
        return cut(raw[: 4 * EXCERPT_CHARS].decode(errors="replace"))
    if frame.part == "error":
        return cut(f"error {frame.plain['code']}: {frame.plain['message']}")
    plain = frame.plain
    if type(plain) is not dict:
        return cut(_json(plain)) if plain is not None else ""
    if frame.update:
        return cut(_update(plain["update"], frame, titles))
    summary = _SUMMARIES.get((frame.method, frame.part))
    try:
        return cut(summary(plain, frame, titles) if summary is not None else _rest(plain))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # it does not have the form it should have
        return cut(_json(plain))


def cut(text: object) -> str:
    """Cut a text to its beginning; a value that should have been a text is shown as JSON."""
    return terminal.cut(text if isinstance(text, str) else _json(text), EXCERPT_CHARS)


def text_of(block: Any) -> str:
    """Return a content block as text."""
    if type(block) is not dict:
        return _json(block)
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio":
            return f"[{block['type']} {block.get('mimeType', '')} {size(len(str(block.get('data', ''))))}]"
        case "resource_link":
            return f"[{block.get('name') or block.get('uri')}]"
        case "resource":
            resource = block.get("resource")
            return f"[resource {resource.get('uri') if type(resource) is dict else ''}]"
    return f"[{block.get('type')}]"


def _update(update: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    summary = _UPDATES.get(update["sessionUpdate"])
    try:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            return _tool(update, frame, titles)
        if summary is not None:
            return summary(update)
        return _rest({k: v for k, v in update.items() if k != "sessionUpdate"})
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return _json(update)


def _tool(call: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    title = call.get("title") or titles.get((frame.session_id, str(call.get("toolCallId"))))
    parts = [str(title or call.get("toolCallId"))]
    parts += [str(call[name]) for name in ("kind", "status") if call.get(name)]
    for content in call.get("content") or ():
        match content.get("type"):
            case "content":
                parts.append(text_of(content.get("content")))
            case "diff":
                parts.append(f"diff {content.get('path')}")
            case other:
                parts.append(f"{other} {content.get('terminalId', '')}".rstrip())
    return _DOT.join(parts)


def _plan(update: dict[str, Any]) -> str:
    entries = update["entries"]
    done = sum(entry["status"] == "completed" for entry in entries)
    now = next((entry["content"] for entry in entries if entry["status"] == "in_progress"), "")
    return f"{done}/{len(entries)} done" + (f"{_DOT}{now}" if now else "")


def _usage(update: dict[str, Any]) -> str:
    parts = [f"{size(update['used'])} of {size(update['size'])} tokens"]
    if cost := update.get("cost"):
        parts.append(f"{cost['amount']:g} {cost['currency']}")
    return _DOT.join(parts)


def _options(options: Iterable[dict[str, Any]]) -> str:
    return ", ".join(f"{option['id']}={_json(option['currentValue']).strip(chr(34))}" for option in options)


_UPDATES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "user_message_chunk": lambda update: text_of(update["content"]),
    "agent_message_chunk": lambda update: text_of(update["content"]),
    "agent_thought_chunk": lambda update: text_of(update["content"]),
    "plan": _plan,
    "available_commands_update": lambda update: " ".join(f"/{one['name']}" for one in update["availableCommands"]),
    "current_mode_update": lambda update: update["currentModeId"],
    "config_option_update": lambda update: _options(update["configOptions"]),
    "session_info_update": lambda update: _rest(
        {k: v for k, v in update.items() if k not in ("sessionUpdate", "_meta")}
    ),
    "usage_update": _usage,
    "notice": lambda update: f"{update['severity']}: {update['title']}",
    "compaction_update": lambda update: _DOT.join([update["compactionId"], update["status"]]),
    "compaction_summary_chunk": lambda update: text_of(update["content"]),
}


def _flags(value: Any, prefix: str = "") -> Iterable[str]:
    """Yield the names of the advertised capabilities."""
    for name, inner in value.items() if type(value) is dict else ():
        if name == "_meta" or inner is None or inner is False:
            continue
        if type(inner) is dict and inner:
            yield from _flags(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _implementation(info: Any, fallback: str) -> str:
    return f"{info['name']} {info['version']}" if type(info) is dict else fallback


def _ask_initialize(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    who = _implementation(plain.get("clientInfo"), "a client")
    return _DOT.join([who, f"protocol {plain['protocolVersion']}", *_flags(plain.get("clientCapabilities"))])


def _answer_initialize(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    who = _implementation(plain.get("agentInfo"), "an agent")
    return _DOT.join([who, f"protocol {plain['protocolVersion']}", *_flags(plain.get("agentCapabilities"))])


def _ask_open(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    servers = plain.get("mcpServers") or ()
    return _DOT.join([plain["cwd"], *(f"MCP {server['name']}" for server in servers)])


def _answer_open(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    parts = [plain["sessionId"]] if "sessionId" in plain else []
    if modes := plain.get("modes"):
        parts.append(f"mode {modes['currentModeId']}")
    if options := plain.get("configOptions"):
        parts.append(_options(options))
    return _DOT.join(parts)


def _ask_prompt(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    return " ".join(map(text_of, plain["prompt"]))


def _answer_prompt(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    usage = plain.get("usage")
    parts = [plain["stopReason"]]
    if type(usage) is dict:
        parts.append(f"{size(usage['totalTokens'])} tokens")
    return _DOT.join(parts)


def _ask_permission(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    names = " | ".join(option["name"] for option in plain["options"])
    title = _tool(
        {"toolCallId": plain["toolCall"].get("toolCallId"), "title": plain["toolCall"].get("title")}, frame, titles
    )
    return f"{terminal.cut(title, 60)}?  {names}"


def _answer_permission(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    outcome = plain["outcome"]
    if outcome["outcome"] != "selected":
        return str(outcome["outcome"])
    asked = frame.request.plain if frame.request is not None else {}
    for option in asked.get("options", ()):
        if option["optionId"] == outcome["optionId"]:
            return f"{option['name']} ({option['kind']})"
    return f"option {outcome['optionId']}"


def _ask_read(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    window = [f"{name} {plain[name]}" for name in ("line", "limit") if plain.get(name) is not None]
    return _DOT.join([plain["path"], *window])


def _ask_terminal(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    return " ".join([plain["command"], *(plain.get("args") or ())])


def _exit(plain: dict[str, Any]) -> str:
    if plain.get("signal"):
        return f"ended by {plain['signal']}"
    return f"exit code {plain['exitCode']}" if plain.get("exitCode") is not None else "running"


def _answer_output(plain: dict[str, Any], frame: DecodedFrame, titles: Titles) -> str:
    parts = [_exit(plain["exitStatus"])] if plain.get("exitStatus") else []
    return _DOT.join([*parts, *(["truncated"] if plain["truncated"] else []), plain["output"]])


_SUMMARIES: Final[dict[tuple[str, str], Summary]] = {
    ("initialize", "params"): _ask_initialize,
    ("initialize", "result"): _answer_initialize,
    **{(f"session/{verb}", "params"): _ask_open for verb in ("new", "load", "resume", "fork")},
    **{(f"session/{verb}", "result"): _answer_open for verb in ("new", "load", "resume", "fork")},
    ("session/prompt", "params"): _ask_prompt,
    ("session/prompt", "result"): _answer_prompt,
    ("session/cancel", "params"): lambda plain, frame, titles: "",
    ("session/set_mode", "params"): lambda plain, frame, titles: plain["modeId"],
    ("session/set_config_option", "params"): lambda plain, frame, titles: f"{plain['configId']}={plain['value']}",
    ("session/set_config_option", "result"): lambda plain, frame, titles: _options(plain["configOptions"]),
    ("session/list", "result"): lambda plain, frame, titles: _DOT.join(
        [f"{len(plain['sessions'])} sessions", *(["more to come"] if plain.get("nextCursor") else [])]
    ),
    ("session/request_permission", "params"): _ask_permission,
    ("session/request_permission", "result"): _answer_permission,
    ("fs/read_text_file", "params"): _ask_read,
    ("fs/read_text_file", "result"): lambda plain, frame, titles: plain["content"],
    ("fs/write_text_file", "params"): lambda plain, frame, titles: _DOT.join([plain["path"], plain["content"]]),
    ("terminal/create", "params"): _ask_terminal,
    ("terminal/output", "result"): _answer_output,
    ("terminal/wait_for_exit", "result"): lambda plain, frame, titles: _exit(plain),
    ("elicitation/create", "params"): lambda plain, frame, titles: f"{plain['mode']}: {plain['message']}",
    ("elicitation/create", "result"): lambda plain, frame, titles: plain["action"],
}


def _rest(plain: dict[str, Any]) -> str:
    """Return the members of a message that has no summary of its own; the session is shown elsewhere."""
    shown = {name: value for name, value in plain.items() if name != "sessionId"}
    if not shown:
        return ""
    if all(type(value) in (str, int, float, bool) for value in shown.values()):
        return ", ".join(f"{name} {value}" for name, value in shown.items())
    return _json(shown)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.EncodeError, UnicodeEncodeError, RecursionError):
        return str(value)
