"""The choice of a login method, from those an agent offers.

Loaded when an agent asks for a login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli.prompt.dialogue import InputEnded
from dragoman.schema import Unknown, v1
from dragoman.text.colour import BOLD, DIM
from dragoman.text.visible import label, quoted, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.prompt.dialogue import Dialogue


async def choose_method(methods: Sequence[v1.AuthMethod], dialogue: Dialogue) -> v1.AuthMethod | None:
    """Ask the user for a login method; return None if none was chosen."""
    usable = [method for method in methods if not isinstance(method, Unknown)]
    if not usable:
        return None
    await dialogue.write("", dialogue.paint(f"{label(dialogue.agent, 40)} offers these ways to log in", BOLD))
    for number, method in enumerate(usable, 1):
        await dialogue.write(f"  {number:>3}  {label(method.name, dialogue.width - 8)}")
        for line in _about(method, dialogue.width - 7):
            await dialogue.write(f"       {dialogue.paint(line, DIM)}")
    try:
        while (line := (await dialogue.ask(f"  1 to {len(usable)}, c cancels > ")).strip()) != "c":
            if line.isascii() and line.isdigit() and 1 <= int(line[:6]) <= len(usable):
                return usable[int(line) - 1]
    except InputEnded:
        pass
    return None


def _about(method: v1.AuthMethodAgent | v1.AuthMethodTerminal, width: int) -> list[str]:
    lines = [label(method.description, width)] if isinstance(method.description, str) and method.description else []
    if isinstance(method, v1.AuthMethodTerminal):
        words = " ".join(map(quoted, method.args_or_default))
        sets = " ".join(f"{quoted(name)}={quoted(value)}" for name, value in method.env_or_default.items())
        for text in (f"runs the agent here, with: {words or '(nothing added)'}", f"sets {sets}" if sets else ""):
            lines += wrapped(text, width) if text else []
    return lines
