"""How proposals are shown: a list for each kind, with the file, what becomes of it, and what is lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli.console import paint
from dragoman.foreign.proposal import KINDS, TITLES
from dragoman.text.colour import BOLD
from dragoman.text.terminal import cells, fit
from dragoman.text.visible import label, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.foreign.places import Places
    from dragoman.foreign.proposal import Proposal

KIND_TITLES: Final = {
    "instructions": "instructions",
    "commands": "commands",
    "skills": "skills",
    "agents": "subagents",
    "mcp": "MCP servers",
    "hooks": "hooks",
    "rules": "permission rules",
    "model": "model",
    "plugins": "plugins and extensions",
}
_MARKS: Final = {
    "ready": "import",
    "question": "ask",
    "manual": "by hand",
    "native": "as it is",
    "present": "present",
    "taken": "taken",
    "void": "no effect",
    "impossible": "cannot",
    "imported": "imported",
}
_NAME_WIDTH: Final = 36


def write_proposals(proposals: Sequence[Proposal], places: Places) -> None:
    """Write all proposals to stdout, by kind."""
    for kind in KINDS:
        here = [proposal for proposal in proposals if proposal.kind == kind]
        if here:
            sys.stdout.write(paint(KIND_TITLES[kind], BOLD, sys.stdout) + "\n")
            _write_kind(here, places)


def _write_kind(proposals: Sequence[Proposal], places: Places) -> None:
    names = [label(proposal.name, _NAME_WIDTH) for proposal in proposals]
    width = max(map(cells, names))
    marks = max(len(_MARKS[proposal.state]) for proposal in proposals)
    for name, proposal in zip(names, proposals, strict=True):
        line = f":{proposal.source.line}" if proposal.source.line else ""
        where = f"{TITLES[proposal.source.program]}, {spelled(places.short(proposal.source.path))}{line}"
        sys.stdout.write(f"  {fit(_MARKS[proposal.state], marks)}  {fit(name, width)}  {where}\n")
        indent = " " * (marks + 4)
        sys.stdout.write(f"{indent}-> {spelled(proposal.becomes)}\n")
        if proposal.command:
            sys.stdout.write(f"{indent}   {spelled(proposal.command)}\n")
        sys.stdout.writelines(f"{indent}   note: {spelled(note)}\n" for note in proposal.notes)


def counts(proposals: Iterable[Proposal]) -> dict[str, int]:
    """Count the proposals in each state."""
    found: dict[str, int] = {}
    for proposal in proposals:
        found[proposal.state] = found.get(proposal.state, 0) + 1
    return found


def summary(proposals: Iterable[Proposal]) -> str:
    """Return one line: what was imported, and what is left."""
    found = counts(proposals)
    parts = [
        (found.get("imported", 0), "imported"),
        (found.get("ready", 0), "ready to import"),
        (found.get("manual", 0) + found.get("question", 0), "left for you to decide"),
        (found.get("native", 0), "read as it is"),
        (found.get("present", 0), "present already"),
        (found.get("taken", 0), "with a taken name"),
        (found.get("void", 0), "without effect"),
        (found.get("impossible", 0), "not expressible"),
    ]
    shown = [f"{number} {what}" for number, what in parts if number or what == "imported"]
    return ", ".join(shown)


def document(proposals: Sequence[Proposal], problems: Sequence[str], places: Places, *, is_dry: bool) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "scope": places.scope,
        "dry_run": is_dry,
        "proposals": [proposal.shown() for proposal in proposals],
        "problems": list(problems),
        "summary": counts(proposals),
    }
