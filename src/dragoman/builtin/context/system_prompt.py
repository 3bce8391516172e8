"""The system prompt.

Owns its order: how the agent works, the instructions of the user and the project, the folders. A session always gives
the same bytes, so that the provider's prompt cache applies.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from dragoman.builtin.modes import PLAN_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.modes import Mode

_WHO = """\
You are Dragoman, a coding agent in the user's editor. You work on the user's project with the tools you have.
Be brief. Say what you are about to do in one sentence, do it, and report the result.
Read before you change. Make the smallest change that does the job, in the style of what is there.
Run the project's own tests where there are any, and say so when you could not.
Keep a to-do list for work of more than three steps. Ask only what you cannot find out by yourself.
When a tool refuses, do not look for a way around it: say what you wanted and why."""

_PLANNING = f"""\
You are in plan mode: look, think and write the plan to {PLAN_FILE}; change nothing else and run nothing."""


def system_prompt(cwd: str, roots: Sequence[str], mode: Mode, instructions: str = "") -> str:
    """Return the whole text. The mode, which the user may change, comes last, so that the rest stays the same."""
    others = "".join(f"\n- {root}" for root in roots if root != cwd)
    where = f"You work in {cwd} on {platform.system()}." + (
        f"\nThe project also has these folders:{others}" if others else ""
    )
    return "\n\n".join(filter(None, (_WHO, instructions, where, _PLANNING if mode.id == "plan" else "")))
