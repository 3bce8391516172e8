"""`dragoman compare A B C 'prompt'`: several agents, each in its own worktree, side by side."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.suggestions import agent_names

if TYPE_CHECKING:
    from dragoman.cli.compare.runs import ComparedRun, Contestant

_MOST_AGENTS: Final = 16
# Options of `exec` that are passed on as they are.
_VALUES: Final = ("timeout", "policy", "sandbox", "mcp_config", "mode")
_LISTS: Final = ("allow", "deny", "set")
_FLAGS: Final = ("yes", "dangerously_allow_all")


def run(call: CliCall) -> int:
    import asyncio

    from dragoman.cli.compare.runs import run_all
    from dragoman.cli.piped_text import read_piped
    from dragoman.worktrees import WorktreeError, project_of

    given = call.given
    agents, prompt = _words(given.words, given.file)
    folder = os.path.abspath(given.cwd or ".")
    if not os.path.isdir(folder):
        raise exits.CliError(f"--cwd {folder}: not a folder", hint="name a folder that exists")
    jobs = _jobs(given.jobs)
    page = _page_file(given.html)
    try:
        project = project_of(folder)
        contestants = _contestants(agents, project)
    except (WorktreeError, OSError) as error:
        raise exits.CliError(str(error), hint="see dragoman compare --help") from None
    words = [*_passed(call), *([prompt] if given.file is None else ["--file", os.path.abspath(given.file)])]
    piped = read_piped(is_quiet=False)
    runs = asyncio.run(run_all(contestants, words, cwd=folder, jobs=jobs, note=write_note, piped=piped))
    if page is not None:
        _write_page(page, prompt, project, runs)
    if given.json:
        write_json({"prompt": prompt, "project": project, "runs": runs})
    else:
        _show(runs)
    return exits.OK if any(compared.exit_code == 0 for compared in runs) else exits.AGENT_ERROR


def _words(words: list[str], file: str | None) -> tuple[list[str], str]:
    if file is not None:
        try:
            with open(file, encoding="utf-8") as stream:
                agents, prompt = words, stream.read()
        except (OSError, UnicodeDecodeError) as error:
            raise exits.CliError(f"--file {file}: {error}", hint="name a text file") from None
    else:
        agents, prompt = words[:-1], words[-1]
    if not agents:
        raise exits.CliError(
            "compare needs at least one agent and a prompt", hint="dragoman compare claude codex 'Fix the failing test'"
        )
    if not prompt.strip() or prompt.startswith("-"):
        raise exits.CliError("the last word is the prompt, quoted as one argument", hint="see dragoman compare --help")
    if len(agents) > _MOST_AGENTS:
        raise exits.CliError(f"compare takes at most {_MOST_AGENTS} agents", hint="is the prompt quoted?")
    if len(set(agents)) < len(agents):
        raise exits.CliError("an agent is named twice", hint="NAME:MODEL compares models of one agent")
    return agents, prompt


def _contestants(agents: list[str], project: str) -> list[Contestant]:
    """Return the agents with worktrees that do not exist yet; their numbers are those of the comparison."""
    from dragoman.cli.compare.runs import Contestant
    from dragoman.worktrees import list_worktrees

    known = [re.match(r"compare-(\d+)-", worktree.name) for worktree in list_worktrees(project)]
    number = 1 + max((int(found[1]) for found in known if found is not None), default=0)
    named: list[Contestant] = []
    for position, word in enumerate(agents, 1):
        clean = re.sub(r"[^A-Za-z0-9._-]+", "-", word).strip("-")[:40] or str(position)
        taken = any(contestant.worktree == f"compare-{number}-{clean}" for contestant in named)
        named.append(Contestant(word, f"compare-{number}-{clean}{f'-{position}' if taken else ''}"))
    return named


def _passed(call: CliCall) -> list[str]:
    given, words = call.given, []
    for name in _VALUES:
        if getattr(given, name) is not None:
            words += [f"--{name.replace('_', '-')}", getattr(given, name)]
    for name in _LISTS:
        for value in getattr(given, name):
            words += [f"--{name}", value]
    return words + [f"--{name.replace('_', '-')}" for name in _FLAGS if getattr(given, name)]


def _jobs(text: str | None) -> int:
    if text is None:
        return 2
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise exits.CliError(f"--jobs takes a whole number above 0, not {text!r}", hint="see dragoman compare --help")
    return int(text)


def _page_file(path: str | None) -> str | None:
    if path is None:
        return None
    path = os.path.abspath(path)
    if not os.path.isdir(os.path.dirname(path)) or os.path.isdir(path):
        raise exits.CliError(f"--html {path}: this file cannot be written", hint="name a file in a folder that exists")
    return path


def _write_page(path: str, prompt: str, project: str, runs: list[ComparedRun]) -> None:
    from dragoman.cli.compare.page import page_of
    from dragoman.workspace.atomic import replace_file

    try:
        replace_file(path, page_of(prompt, project, runs).encode("utf-8", "replace"))
    except OSError as error:
        write_note(f"--html {path}: {error.strerror or error}")
        return
    write_note(f"the page is {path}")


def _show(runs: list[ComparedRun]) -> None:
    from dragoman.cli.compare.table import HEADER, row_of, suggested

    write_table(HEADER, [row_of(compared) for compared in runs])
    sys.stdout.flush()
    for compared in runs:
        if compared.error:
            write_note(f"{compared.name}: {compared.error}")
    best = suggested(runs)
    if best is not None:
        name = runs[best].worktree
        write_note(f"look: dragoman worktrees diff {name}; take over: dragoman worktrees merge {name}")
    write_note("remove a worktree with: dragoman worktrees discard NAME --yes")


COMMAND = CliCommand(
    run=run,
    description=(
        "Gives several agents the same prompt. Each works in its own worktree, a copy of the project with your\n"
        "uncommitted changes, so none sees what the others do, and your files stay as they are. Shows result, time,\n"
        "tokens, cost and changes side by side; the worktrees stay, to merge one and discard the others. NAME:MODEL\n"
        "chooses the model of an agent. No question is asked: --allow and --sandbox say what the agents may do.\n"
        "The exit code is 0 if one of them succeeded. See docs/worktrees.md."
    ),
    arguments=(
        Argument(
            "words", "the agents, then the prompt, quoted as one argument", is_repeatable=True, suggest=agent_names
        ),
    ),
    options=(
        CliOption("--cwd", "the folder to work in (default: the current one)", value="FOLDER"),
        CliOption("--file", "read the prompt from a file; all words are agents then", value="FILE"),
        CliOption("--jobs", "how many agents work at the same time (default: 2)", value="N", short="-j"),
        CliOption("--html", "write the comparison as one HTML page", value="FILE"),
        CliOption("--timeout", "cancel a run after this time", value="SECONDS"),
        CliOption("--allow", "what the agents may do without asking", value="RULE", is_repeatable=True),
        CliOption("--deny", "what they may never do", value="RULE", is_repeatable=True),
        CliOption("--policy", 'more rules: {"allow": [], "deny": [], "ask": []}', value="FILE"),
        CliOption(
            "--sandbox", "run commands in a sandbox, as exec does", value="WHEN", choices=("off", "auto", "require")
        ),
        CliOption("--mode", "set the mode of each session first", value="MODE"),
        CliOption("--set", "set an option of the agents first", value="KEY=VALUE", is_repeatable=True),
        CliOption("--mcp-config", 'MCP servers for the sessions: {"mcpServers": {...}}', value="FILE"),
        CliOption("--yes", "do not ask before a well-known agent that is not installed is downloaded and run"),
        CliOption(
            "--dangerously-allow-all",
            "allow everything no rule denies, protected files included; only for a container you can throw away",
        ),
        JSON,
    ),
    examples=(
        "dragoman compare claude codex gemini 'Fix the failing test'",
        "dragoman compare claude:opus claude:sonnet --allow edit --html compared.html 'Rewrite the parser'",
        "dragoman worktrees merge compare-1-codex",
    ),
)
