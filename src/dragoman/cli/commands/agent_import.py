"""`dragoman agent import`: carries over settings of other coding agents, as proposals that the user confirms."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json, write_note

if TYPE_CHECKING:
    from dragoman.foreign.places import Places
    from dragoman.foreign.proposal import Proposal

# As in `foreign/proposal.py`; a test compares them. The help must not import it.
PROGRAMS: Final = ("claude", "codex", "opencode", "gemini")
KINDS: Final = ("instructions", "commands", "skills", "agents", "mcp", "hooks", "rules", "model", "plugins")


def run(call: CliCall) -> int:
    from dragoman.foreign.places import find_places
    from dragoman.foreign.reading import find_proposals
    from dragoman.settings import find_project
    from dragoman.settings.places import config_dir

    given = call.given
    programs = _programs(given.program)
    project = find_project(Path.cwd())
    places = find_places("project" if given.project else "user", project, config_dir(), os.environ)
    findings = find_proposals(places, programs, _kinds(given.only))  # type: ignore[arg-type]  # checked words
    proposals: list[Proposal] = list(findings.proposals)
    is_dry = given.dry_run or (given.json and not given.yes)
    if given.json:
        has_failed = False
        if not is_dry:
            proposals, has_failed = _write(proposals, places, is_sure=True)
        from dragoman.cli.foreign.display import document

        write_json(document(proposals, findings.problems, places, is_dry=is_dry))
        return exits.USAGE if has_failed else exits.OK
    from dragoman.cli.foreign.display import write_proposals

    write_proposals(proposals, places)
    for problem in findings.problems:
        write_note(f"warning: {problem}")
    if is_dry:
        return _end(proposals, places, given)
    is_ready = any(proposal.state == "ready" for proposal in proposals)
    if is_ready and not given.yes and not sys.stdin.isatty():
        raise exits.CliError(
            "the questions cannot be asked: stdin is not a terminal",
            hint="review the above, then import it with --yes; --dry-run only shows it",
        )
    sys.stdout.flush()
    proposals, has_failed = _write(proposals, places, is_sure=given.yes)
    code = _end(proposals, places, given)
    return exits.USAGE if has_failed else code


def _programs(words: list[str]) -> tuple[str, ...]:
    wrong = next((word for word in words if word not in PROGRAMS), None)
    if wrong is not None:
        raise exits.CliError(f"{wrong!r} is not a program whose files are read", hint=f"name {', '.join(PROGRAMS)}")
    return tuple(dict.fromkeys(words)) or PROGRAMS


def _kinds(only: str | None) -> tuple[str, ...]:
    if only is None:
        return KINDS
    wanted = tuple(word.strip() for word in only.split(",") if word.strip())
    wrong = next((word for word in wanted if word not in KINDS), None)
    if wrong is not None or not wanted:
        raise exits.CliError(f"--only: there is no kind {wrong or only!r}", hint=f"the kinds are {', '.join(KINDS)}")
    return wanted


def _write(proposals: list[Proposal], places: Places, *, is_sure: bool) -> tuple[list[Proposal], bool]:
    from dragoman.cli.foreign.questions import Confirmation

    confirmation = Confirmation(places, is_sure=is_sure, can_ask=sys.stdin.isatty())
    return confirmation.run(proposals), confirmation.has_failed


def _end(proposals: list[Proposal], places: Places, given: Any) -> int:
    from dragoman.cli.foreign.display import summary

    if proposals:
        sys.stdout.write(summary(proposals) + "\n")
    else:
        named = " and ".join(given.program) or "other agents"
        write_note(f"no files of {named} were found {'in this project' if given.project else 'in your home folder'}")
    if not given.project and _has_project_files(places.project):
        write_note("this project has files of other agents, too: dragoman agent import --project")
    return exits.OK


def _has_project_files(project: Path) -> bool:
    names = (*(f".{program}" for program in PROGRAMS), ".mcp.json", "opencode.json", "opencode.jsonc")
    return any((project / name).exists() for name in names)


COMMAND = CliCommand(
    run=run,
    description=(
        "Reads what you have set up for Claude Code, Codex, opencode and Gemini CLI, and proposes what it becomes\n"
        "here: instructions, commands, skills, subagents, MCP servers, hooks, permission rules and the model. Each\n"
        "proposal is shown with its file and line, what becomes of it, and what cannot be expressed. Nothing is\n"
        "written before you confirm it, kind by kind, and nothing that exists is overwritten: where a name is taken,\n"
        "the program's name is put behind it.\n"
        "Permission never becomes wider. Rules that deny or ask are imported; for each rule that allows, the command\n"
        "that adds it is shown, and at a terminal you can confirm it by itself. Keys in files are neither shown nor\n"
        "copied: ${NAME} takes their place, unless you say otherwise at the terminal. --yes answers none of these.\n"
        "Without --project your own files are read (~/.claude, ~/.codex, ~/.config/opencode, ~/.gemini, or what\n"
        "CLAUDE_CONFIG_DIR, CODEX_HOME, OPENCODE_CONFIG_DIR, XDG_CONFIG_HOME and GEMINI_CLI_HOME name) and yours are\n"
        "written; with it, those of this project, and .dragoman. docs/coming-from.md is a guide."
    ),
    arguments=(
        Argument(
            "program",
            f"whose files to read: {', '.join(PROGRAMS)} (default: all)",
            is_optional=True,
            is_repeatable=True,
            suggest=lambda: PROGRAMS,
        ),
    ),
    options=(
        CliOption("--project", "read the files of this project, and write its .dragoman folder"),
        CliOption("--only", f"only these kinds, with commas: {', '.join(KINDS)}", value="KIND,..."),
        CliOption("--dry-run", "show the proposals and write nothing"),
        CliOption("--yes", "import without asking, except what needs a question of its own"),
        JSON,
    ),
    examples=(
        "dragoman agent import --dry-run",
        "dragoman agent import claude",
        "dragoman agent import claude codex --only commands,mcp --yes",
        "dragoman agent import opencode --project",
        "dragoman agent import --json",
    ),
)
