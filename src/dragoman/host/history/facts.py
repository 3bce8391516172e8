"""What a session keeps besides its events: title, modes and options, for answers without an agent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.schema import encode, v1
from dragoman.store import event_log
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.state import SessionState


CLOSED: Final = "isClosed"
LEDGER_NUMBER: Final = "ledgerNumber"
"""The fact of a session that names its entry in the ledger of sessions."""
ARCHIVED: Final = event_log.ARCHIVED
"""The fact of a session that was archived: when, in milliseconds since 1970."""
OWN_TITLE: Final = "hasOwnTitle"
"""The fact of a session whose user gave it a title: the agent's do not count any more."""
_SHOWN: Final = ("prompt", "cost", "usage", "steps", "ended", "context", "changes", "lastLine", "error", ARCHIVED)
COMMENTS: Final = "comments"
"""The fact of a session that has, for each of its last reviews, the places that were commented, by the prompt."""
_PLACE: Final = ("path", "turn", "from", "to", "digest")
_COMMENTS: Final = 200
_COMMENTS_BYTES: Final = 64 * 1024
_COMMENTED_PROMPTS: Final = 10
_ERROR_CHARACTERS: Final = 200
_PROMPT_CHARACTERS: Final = 200


def kept_state(facts: Mapping[str, Any], head: int = 0) -> str:
    """Return the state of a session that is not in memory: `idle`, `readOnly` or `closed`.

    Args:
        facts: What the session keeps.
        head: The number of its last event.
    """
    if head > 0 and facts.get("canComeBack") is False:
        return "readOnly"
    return "closed" if facts.get(CLOSED) else "idle"


def note_state(facts: dict[str, Any], state: SessionState) -> None:
    """Keep modes and options of a session that an agent has just opened."""
    facts["modes"] = None if state.modes is None else msgspec.json.decode(encode(state.modes))
    options = list(state.config_options)
    facts["configOptions"] = msgspec.json.decode(encode(options)) if options else None


def note_fact(facts: dict[str, Any], variant: str, update: bytes) -> bool:
    """Take over what an update changes; whether it changed something that is to be kept at once."""
    if variant in ("usage_update", "plan"):
        _note_progress(facts, msgspec.json.decode(update))
        return False  # it comes many times in a turn, and is kept with the end of the turn
    if variant not in ("session_info_update", "current_mode_update", "config_option_update"):
        return False
    found: dict[str, Any] = msgspec.json.decode(update)
    if variant == "session_info_update" and "title" in found and not facts.get(OWN_TITLE):
        facts["title"] = found["title"]
    elif variant == "current_mode_update" and isinstance(facts.get("modes"), dict):
        facts["modes"]["currentModeId"] = found.get("currentModeId")
    elif variant == "config_option_update":
        facts["configOptions"] = found.get("configOptions")
    return True


def _note_progress(facts: dict[str, Any], update: dict[str, Any]) -> None:
    cost, entries, used, size = update.get("cost"), update.get("entries"), update.get("used"), update.get("size")
    if isinstance(used, int) and isinstance(size, int):
        facts["context"] = {"used": used, "size": size}
    if isinstance(cost, dict) and isinstance(cost.get("amount"), int | float):
        facts["cost"] = {"amount": cost["amount"], "currency": str(cost.get("currency", ""))}
    if isinstance(entries, list):
        done = sum(isinstance(entry, dict) and entry.get("status") == "completed" for entry in entries)
        facts["steps"] = {"done": done, "total": len(entries)}


def note_outcome(facts: dict[str, Any], outcome: Mapping[str, Any]) -> None:
    """Keep how the last turn ended: its stop reason, or the message of its error."""
    error, result = outcome.get("error"), outcome.get("result")
    facts.pop("error", None)
    if isinstance(error, dict):
        message, data = str(error.get("message", ""))[:_ERROR_CHARACTERS], error.get("data")
        facts["ended"] = {"error": message}
        known = data if isinstance(data, dict) else {}
        named = {name: known[name] for name in ("reason", "exitCode", "signal") if known.get(name) is not None}
        facts["error"] = {"message": message, **named}
    elif isinstance(result, dict):
        facts["ended"] = {"stopReason": str(result.get("stopReason", ""))}
        if isinstance(result.get("usage"), dict):
            facts["usage"] = result["usage"]


def note_prompt(facts: dict[str, Any], blocks: Sequence[object]) -> bool:
    """Take over the beginning of the first prompt: many agents give a session no title. Whether it is the first."""
    if facts.get("prompt") is not None:
        return False
    text = " ".join(block.text for block in blocks if isinstance(block, v1.TextContent))
    facts["prompt"] = shorten(text[: 10 * _PROMPT_CHARACTERS], _PROMPT_CHARACTERS)
    return True


def read_comments(found: object) -> list[dict[str, Any]] | None:
    """Return the places in changes that the comments of a prompt are about; None if they are not such places."""
    if not isinstance(found, list) or len(found) > _COMMENTS or not all(isinstance(place, dict) for place in found):
        return None
    places = [{name: place[name] for name in _PLACE if name in place} for place in found]
    are_places = all(isinstance(place.get("path"), str) and _is_place(place) for place in places)
    return places if are_places and len(msgspec.json.encode(places)) <= _COMMENTS_BYTES else None


def _is_place(place: dict[str, Any]) -> bool:
    return all(isinstance(value, str | int) and not isinstance(value, bool) for value in place.values())


def note_comments(facts: dict[str, Any], prompt_id: str, places: list[dict[str, Any]]) -> None:
    """Keep what the comments of a prompt were about, so that the next round can show what changed since."""
    kept: dict[str, Any] = facts.setdefault(COMMENTS, {})
    kept[prompt_id] = places
    while len(kept) > _COMMENTED_PROMPTS:
        del kept[next(iter(kept))]


def session_keys(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words by which a session is found in the log: the key that opened it, its name, and its chat."""
    return tuple([f"{fact}:{facts[fact]}" for fact in ("key", "name", "chat") if facts.get(fact)])


def session_key(fact: str, value: object) -> str:
    """Return the word for one of these facts."""
    return f"{fact}:{value}"


def progress_members(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a list shows of a session's work, as far as known: first prompt, cost, end of the last turn..."""
    return {name: facts[name] for name in _SHOWN if facts.get(name) is not None}


def in_step(facts: dict[str, Any], *, mode: str | None = None) -> list[dict[str, Any]]:
    """Return updates that state mode and options after one of them was set, the other one adapted (rule 167).

    Args:
        facts: What the session keeps; adapted.
        mode: The mode that was set; None if an option was.
    """
    modes, options = facts.get("modes"), facts.get("configOptions")
    dicts = [option for option in options or () if isinstance(option, dict)]
    twin = next((option for option in dicts if option.get("category") == "mode"), None)
    updates: list[dict[str, Any]] = []
    if mode is not None:
        if isinstance(modes, dict):
            modes["currentModeId"] = mode
        if twin is not None and mode in _values(twin):
            twin["currentValue"] = mode
        updates.append({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        if twin is not None:
            updates.append({"sessionUpdate": "config_option_update", "configOptions": options})
        return updates
    updates.append({"sessionUpdate": "config_option_update", "configOptions": options or []})
    value = None if twin is None else twin.get("currentValue")
    if isinstance(modes, dict) and isinstance(value, str) and modes.get("currentModeId") != value:
        offered = [kind.get("id") for kind in modes.get("availableModes") or () if isinstance(kind, dict)]
        if value in offered:
            modes["currentModeId"] = value
            updates.append({"sessionUpdate": "current_mode_update", "currentModeId": value})
    return updates


def _values(option: dict[str, Any]) -> list[Any]:
    values: list[Any] = []
    for offered in option.get("options") or ():
        if isinstance(offered, dict):  # a value, or a group of them
            values += [value.get("value") for value in offered.get("options") or () if isinstance(value, dict)]
            values.append(offered.get("value"))
    return values


_MOST_TITLES: Final = 20


class OpenCalls:
    """The tool calls of a turn that have not ended. Those of an agent that died in the middle of them are closed."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}

    def note(self, update: v1.ToolCall | v1.ToolCallUpdate) -> None:
        """Note a tool call, or a change of one."""
        id = update.tool_call_id
        if update.status in ("completed", "failed"):
            self._open.pop(id, None)
        elif update.status or isinstance(update, v1.ToolCall):
            self._open[id] = update.title or self._open.get(id, "")

    def titles(self) -> list[str]:
        """Return what they are called."""
        return [title for title in self._open.values() if title][:_MOST_TITLES]

    def failed(self) -> list[bytes]:
        """Return the updates that close them."""
        own = {"_meta": {"dragoman": {"synthetic": True}}}
        updates = [
            {"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed", **own} for id in self._open
        ]
        self._open.clear()
        return [msgspec.json.encode(update) for update in updates]
