"""The system prompt.

Owns its order: how the agent works, the instructions of the user and the project, the index of skills, what the user
adds, the folders, whether a user can be asked, the mode. A session with one model always gives the same bytes, so that
the provider's prompt cache applies; what changes during a session comes last. The day and the state of the repository
are not here: they are a part of the user's message, see `environment_block.py`. Pure.
"""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.builtin.context.prompt_texts import ASKING, FAMILIES, HEADLESS, PLANNING, PRESENTING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy.modes import Mode

Family: TypeAlias = Literal["claude", "gpt", "gemini", "other"]

# Small open models such as gpt-oss share a name with large ones, and need the short text.
_OPEN: Final = re.compile(r"gpt-oss|gemma|gpt4all|gpt-j|gpt-neo")
_NAMES: Final[tuple[tuple[Family, re.Pattern[str]], ...]] = (
    ("claude", re.compile(r"claude")),
    ("gemini", re.compile(r"gemini")),
    ("gpt", re.compile(r"gpt|codex|(?<![a-z0-9])o[1-9](?![a-z0-9.])")),
)


class OwnPrompt(Struct, frozen=True):
    """What the user or the client puts into the system prompt."""

    override: str = ""
    """Takes the place of the text about how the agent works."""
    append: str = ""
    """Follows the instructions of the user and the project."""

    def with_session(self, other: OwnPrompt) -> OwnPrompt:
        """Return this prompt of the agent with that of a session: its override counts, its addition comes last."""
        added = "\n\n".join(filter(None, (self.append, other.append)))
        return OwnPrompt(other.override or self.override, added)


def family_of(model: str) -> Family:
    """Return the family of a model by its name, whichever provider serves it."""
    name = model.partition(":")[2].lower() or model.lower()
    if not _OPEN.search(name):
        for family, pattern in _NAMES:
            if pattern.search(name):
                return family
    return "other"


def system_prompt(
    cwd: str,
    roots: Sequence[str],
    mode: Mode,
    instructions: str = "",
    *,
    model: str = "",
    is_headless: bool = False,
    own: OwnPrompt | None = None,
    role: str = "",
    skills: str = "",
) -> str:
    """Return the whole text.

    Args:
        instructions: those of the user and the project.
        model: its name chooses the variant.
        is_headless: no user can be asked.
        own: what the user or the client puts into the prompt.
        role: of a subagent; takes the place of what is written about questions and plans.
        skills: the index of skills.
    """
    own = own or OwnPrompt()
    base = own.override or "\n\n".join(FAMILIES[family_of(model)])
    others = "".join(f"\n- {root}" for root in roots if root != cwd)
    where = f"You work in {cwd} on {platform.system()}." + (
        f"\nThe project also has these folders:{others}" if others else ""
    )
    # From here on the text depends on the client and the mode, which change during a session.
    asking = role or (HEADLESS if is_headless else ASKING)
    is_planning = mode.id == "plan" and not role
    planning = PLANNING if is_planning else ""
    presenting = PRESENTING if is_planning and not is_headless else ""
    return "\n\n".join(filter(None, (base, instructions, skills, own.append, where, asking, planning, presenting)))
