"""Writes what is found in the fixture folders: `python -m tests.foreign.golden`; the tests compare it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from dragoman.foreign.places import Places, find_places
from dragoman.foreign.proposal import KINDS, Program, Scope
from dragoman.foreign.reading import find_proposals
from tests.foreign.homes import PROJECT, build_home, write

FOLDER = Path(__file__).parent / "golden"
CASES: tuple[tuple[Scope, Program], ...] = (
    *(("user", "claude"), ("user", "codex"), ("user", "opencode"), ("user", "gemini"), ("project", "claude")),
)


def places(folder: Path, scope: Scope = "user") -> Places:
    """The folders of a user and a project, whose files are written."""
    home, project = folder / "home", folder / "project"
    if not home.exists():
        home.mkdir()
        (project / ".git").mkdir(parents=True)
        build_home(home)
        write(project, PROJECT)
    return find_places(scope, project, home / "config", {"HOME": str(home)})


def found_text(folder: Path, scope: Scope, program: Program) -> str:
    """What is found, as JSON with paths that do not depend on the machine."""
    findings = find_proposals(places(folder, scope), [program], KINDS)
    document: dict[str, Any] = {
        "proposals": [each.shown() for each in findings.proposals],
        "problems": list(findings.problems),
    }
    return json.dumps(document, indent=1, ensure_ascii=False).replace(str(folder), "FOLDER") + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for scope, program in CASES:
        with tempfile.TemporaryDirectory() as folder:
            (FOLDER / f"{scope}-{program}.json").write_text(found_text(Path(folder).resolve(), scope, program))


if __name__ == "__main__":
    main()
