"""`dragoman guard --explain`: what each rule is worth with one agent.

Loaded when a decision is explained: a guard starts without it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from dragoman.cli.guard.setup import GuardSetup

_MEANINGS: Final = {
    "enforced": "it goes through the guard, which decides",
    "confined": "the agent does it itself, in a sandbox",
    "observed": "the agent does it itself; a violation is seen afterwards at best",
}


def explain(setup: GuardSetup) -> None:
    """Print the rules with their grades, and what was seen of the agent."""
    lines = [f"agent: {setup.entry.name}"]
    seen = setup.conduct.seen
    for what, kinds in (("asks about", seen.asked), ("does through the guard", seen.delegated)):
        lines.append(f"seen so far, {what}: {', '.join(sorted(kinds)) or 'nothing'}")
    lines.append(f"seen so far, does without asking: {', '.join(sorted(seen.unasked)) or 'nothing'}")
    lines += [f"sandbox: {note}" for note in setup.sandboxes.notes()] or ["sandbox: none"]
    lines.append("")
    if not setup.graded:
        lines.append("There are no rules for this folder; everything is asked about (dragoman rules add --help).")
    width = max((len(f"{graded.rule.action} {graded.rule.text}") for graded in setup.graded), default=0)
    for graded in setup.graded:
        name = one_line(f"{graded.rule.action} {graded.rule.text}")
        lines.append(f"{graded.grade:8}  {name:{min(width, 40)}}  {one_line(graded.why)}")
    if setup.graded:
        lines.append("")
        lines += [f"{grade}: {meaning}" for grade, meaning in _MEANINGS.items()]
    sys.stdout.write("\n".join(lines) + "\n")
