"""How far a session mode reaches: whether the agent still asks in it.

A mode of a well-known agent is limited or unlimited as the table says. Of an agent that is not in the table only a
usual name is limited. A name or a description that promises to act without asking is unlimited, of any agent. Of
anything else it is not known what it permits. Pure: it starts no agent and reads no file.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from dragoman.policy.modes import MODES, WIDEST_MODE
from dragoman.process.own_program import own_words
from dragoman.registry.facts import facts_of

if TYPE_CHECKING:
    from dragoman.registry.facts import AgentFacts

ModeReach: TypeAlias = Literal["limited", "unlimited", "unknown"]
HARMLESS: Final = frozenset(("model", "model_config", "thought_level", "thinking"))
"""Categories of options that permit nothing: what a model is, and how much it thinks. Agents name these."""

# The built-in agent, also with its scripted model.
_OWN_NAMES: Final = frozenset(("dragoman", "scripted"))
_OWN_LIMITED: Final = frozenset(MODES) - {WIDEST_MODE}
_LIMITED_NAMES: Final = frozenset(
    (
        *("ask", "alwaysask", "default", "normal", "manual", "readonly", "plan", "planning", "planner"),
        *("architect", "chat", "review", "explore", "edit", "acceptedits", "autoedit"),
    )
)
_UNLIMITED_WORDS: Final = re.compile(
    r"yolo|bypass|danger|unrestricted|autopilot|full.?(?:access|auto)|(?:auto|always|all).?(?:approv|accept|allow)"
    r"|allow.?all|approv\w*.?all|(?:dont|never|no).?ask"
    r"|(?:without|no|never|not|don.?t|skips?) (?:\w+ ){0,3}?(?:ask|prompt|approv|confirm|permission)",
    re.IGNORECASE,
)
_UNLIMITED_NAMES: Final = re.compile(rf"\bfull\b|{_UNLIMITED_WORDS.pattern}", re.IGNORECASE)


@lru_cache(maxsize=256)
def reach_of(
    agent: str, mode: str, name: str = "", description: str = "", *, command: tuple[str, ...] = ()
) -> ModeReach:
    """Return how far a mode reaches.

    Args:
        agent: the agent as a host names it: its name with words of its command line, or `-- COMMAND`.
        mode: the id of the mode.
        name: what the agent calls it.
        description: what the agent says about it.
        command: the command line of the agent, if it is known besides its name.
    """
    id = mode.rpartition("#")[2] if "://" in mode else mode
    facts = _facts(agent, command)
    if _is_own(agent, command):
        return "limited" if id in _OWN_LIMITED else "unlimited"
    is_listed = facts is not None and bool(facts.limited_modes)
    if facts is not None and id in facts.limited_modes:
        return "limited"
    if (facts is not None and id in facts.unasking_modes) or _UNLIMITED_NAMES.search(f"{id} {name}"):
        return "unlimited"
    is_usual = not is_listed and _plain(id) in _LIMITED_NAMES and _plain(name) in (*_LIMITED_NAMES, "")
    if _UNLIMITED_WORDS.search(description):
        return "unknown" if is_usual else "unlimited"
    return "limited" if is_usual else "unknown"


def permits_all(agent: str, option: str, value: str | bool, words: str = "") -> bool:
    """Whether a value of an option that is not a mode lets the agent act without asking.

    Args:
        agent: as for `reach_of`.
        option: the id of the option.
        value: what it is set to.
        words: what the agent says about that.
    """
    facts = _facts(agent)
    asking = {} if facts is None else dict(facts.asking_options)
    if option in asking:
        return asking[option] != value
    return value is not False and _UNLIMITED_WORDS.search(words) is not None


def reaches_in(agent: str, modes: object, options: object) -> dict[str, dict[str, ModeReach]]:
    """Return how far the modes of a session reach, and the values of its options that let the agent act without asking.

    Args:
        agent: as for `reach_of`.
        modes: the `modes` of a session, as they are on the wire.
        options: its `configOptions`.

    Returns: by the id of an option the reach of its values, `true` and `false` for a switch; of modes by an empty id.
    """
    found: dict[str, dict[str, ModeReach]] = {}
    offered = modes.get("availableModes") if isinstance(modes, dict) else None
    for mode in _objects(offered):
        found.setdefault("", {})[_text(mode, "id")] = reach_of(agent, *_words_of(mode, "id"))
    for option in _objects(options):
        id, category = _text(option, "id"), option.get("category")
        if option.get("type") == "boolean":
            words_on = f"{id} {_text(option, 'name')}"
            for is_on in (True, False) if category not in HARMLESS else ():
                if permits_all(agent, id, is_on, words_on):
                    found.setdefault(id, {})["true" if is_on else "false"] = "unlimited"
            continue
        for value in _values(option):
            words = _words_of(value, "value")
            if category == "mode":
                found.setdefault(id, {})[words[0]] = reach_of(agent, *words)
            elif category not in HARMLESS and permits_all(agent, id, words[0], " ".join(words)):
                found.setdefault(id, {})[words[0]] = "unlimited"
    return found


def _values(option: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the values of an option, those of its groups too."""
    values: list[dict[str, Any]] = []
    for value in _objects(option.get("options")):
        values += _objects(value["options"]) if isinstance(value.get("options"), list) else [value]
    return values


def _objects(found: object) -> list[dict[str, Any]]:
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _words_of(members: dict[str, Any], id: str) -> tuple[str, str, str]:
    return _text(members, id), _text(members, "name"), _text(members, "description")


def _text(members: dict[str, Any], name: str) -> str:
    found = members.get(name)
    return found if isinstance(found, str) else ""


def _facts(agent: str, command: tuple[str, ...] = ()) -> AgentFacts | None:
    words = _words(agent)
    if words[:1] == ["--"]:
        return facts_of("", tuple(words[1:]))
    return facts_of(words[0] if words else "", command)


def _is_own(agent: str, command: tuple[str, ...]) -> bool:
    words = _words(agent)
    if words[:1] != ["--"] and words and words[0] in _OWN_NAMES:
        return True
    own = own_words(words[1:] if words[:1] == ["--"] else command)
    return own is not None and own[:1] == ["agent"]


def _words(agent: str) -> list[str]:
    try:
        return shlex.split(agent)
    except ValueError:  # a command line that a user has not finished
        return agent.split()


def _plain(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.casefold().removesuffix("mode"))
