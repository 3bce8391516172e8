"""How far a session mode reaches: whether the agent still asks in it.

A mode of a well-known agent is limited or unlimited as the table says. Of an agent that is not in the table only a
usual name is limited. A name or a description that promises to act without asking is unlimited, of any agent. Of
anything else it is not known what it permits. Pure: it starts no agent and reads no file.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from dragoman.policy.modes import MODES, WIDEST_MODE
from dragoman.process.own_program import own_words
from dragoman.registry.facts import facts_of

if TYPE_CHECKING:
    from dragoman.registry.facts import AgentFacts

ModeReach: TypeAlias = Literal["limited", "unlimited", "unknown"]

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
