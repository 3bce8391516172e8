"""`dragoman sessions`: every session that is known, whichever agent it belongs to. `cli/sessions` has the actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.masked_streams import mask_stored_keys
from dragoman.cli.named_agent import AGENT
from dragoman.cli.suggestions import session_ids

if TYPE_CHECKING:
    from collections.abc import Callable

# Action -> the options it takes.
ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    "list": ("agent", "cwd", "limit", "offline", "json"),
    "show": ("agent", "cwd", "offline", "full", "json"),
    "search": ("agent", "cwd", "offline", "json"),
    "export": ("agent", "cwd", "offline", "format", "o"),
    "report": ("agent", "cwd", "offline", "o", "dry_run", "json"),
    "rename": ("agent", "cwd", "offline"),
    "delete": ("agent", "cwd", "offline"),
    "diff": ("agent", "cwd", "turn", "stat", "json"),
    "review": ("agent", "cwd", "turn", "keep", "revert", "json"),
    "rewind": ("agent", "cwd", "turn", "turns", "keep", "take", "merge", "dry_run", "yes", "json"),
    "redo": ("agent", "cwd", "keep", "take", "merge", "dry_run", "yes", "json"),
    "storage": ("free", "keep_turns", "json"),
    "cancel": (),
    "watch": ("json",),
    "close": (),
}
_HOST: Final = ("host", "json")
# Without an id these are about the last turn in the folder.
_OF_FOLDER: Final = ("diff", "review", "rewind", "redo")
_SEE_HELP: Final = "see dragoman sessions --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.host and given.action is not None:
        raise exits.CliError("--host stands alone", hint="dragoman sessions --host")
    given.action = given.action or "list"
    taken = _HOST if given.host else ACTIONS[given.action]
    for option in COMMAND.options:
        name = option.flag.lstrip("-").replace("-", "_")
        if getattr(given, name) not in (None, False, []) and name not in taken:
            takers = [action for action, options in ACTIONS.items() if name in options]
            raise exits.CliError(f"{option.flag} goes with {' and '.join(takers)}", hint=_SEE_HELP)
    _check_words(given.action, given.id, given.title)
    mask_stored_keys()
    return _function("host" if given.host else given.action)(call)


def _function(action: str) -> Callable[[CliCall], int]:  # noqa: C901, PLR0912 - a table
    """Return the function of an action; the modules of the others are not imported."""
    match action:
        case "list":
            from dragoman.cli.sessions.list import list_sessions as function
        case "show":
            from dragoman.cli.sessions.show import show_session as function
        case "search":
            from dragoman.cli.sessions.search import search_sessions as function
        case "export":
            from dragoman.cli.sessions.show import export_session as function
        case "report":
            from dragoman.cli.sessions.report import report_session as function
        case "rename":
            from dragoman.cli.sessions.change import rename_session as function
        case "delete":
            from dragoman.cli.sessions.change import delete_session as function
        case "diff":
            from dragoman.cli.sessions.diff import diff_session as function
        case "review":
            from dragoman.cli.sessions.review import review_session as function
        case "rewind":
            from dragoman.cli.sessions.rewind import rewind_session as function
        case "redo":
            from dragoman.cli.sessions.rewind import redo_session as function
        case "storage":
            from dragoman.cli.sessions.storage import show_storage as function
        case "cancel":
            from dragoman.cli.sessions.hosted import cancel_session as function
        case "watch":
            from dragoman.cli.sessions.hosted import watch_session as function
        case "close":
            from dragoman.cli.sessions.hosted import close_session as function
        case _:
            from dragoman.cli.sessions.hosted import show_host as function
    return function


def _check_words(action: str, word: str | None, title: str | None) -> None:
    if action in ("list", "storage"):
        if word is not None:
            raise exits.CliError(f"sessions {action} does not take an id", hint=f"dragoman sessions show {word}")
    elif word is None and action not in _OF_FOLDER:
        what = "a text" if action == "search" else "the id of a session"
        raise exits.CliError(f"sessions {action} needs {what}", hint=_SEE_HELP)
    if action != "rename" and title is not None:
        raise exits.CliError(f"sessions {action} takes one word, not also {title!r}", hint="quote it as one argument")


COMMAND = CliCommand(
    run=run,
    description=(
        "Shows the sessions of all agents: those that dragoman exec ran (the ledger), those of the built-in agent,\n"
        "and with -a those that the agent itself lists. A session is named by its id or the beginning of it, by its\n"
        "@NUMBER in the list, by its title, or by the word last. To continue one: dragoman exec --resume SESSION. See\n"
        "docs/sessions.md.\n"
        "  list     list the sessions, the last used first\n"
        "  show     show the conversation of a session\n"
        "  search   find the sessions that contain a text\n"
        "  export   write a session as Markdown, as one HTML page, or as JSON\n"
        "  report   write a report for a bug: versions, settings, traffic, without private contents\n"
        "  rename   give a session a title; an empty one brings back the agent's\n"
        "  delete   delete a session from the ledger and, if the agent can, at the agent\n"
        "What a turn changed in the folder, by whatever means, can be reviewed and taken back (docs/review.md).\n"
        "Without an id these are about the last turn in the folder:\n"
        "  diff     show what a turn changed, as a patch\n"
        "  review   keep or take back single files and hunks\n"
        "  rewind   take turns back; shows the plan first, and leaves what was changed since\n"
        "  redo     take the last rewind or review back\n"
        "  storage  show and free the room that former contents take\n"
        "Sessions with a name stay open in the local host (dragoman exec --session NAME). Of these the list has the\n"
        "state: running, waiting (a question is open), idle, closed, lost, readOnly; and how many are attached.\n"
        "  cancel   cancel the turn that runs\n"
        "  watch    show a session and what is added to it, until Ctrl-C\n"
        "  close    end a session and its agent, and free its name; its history stays"
    ),
    arguments=(
        Argument("action", "what to do (default: list)", choices=tuple(ACTIONS), is_optional=True),
        Argument("id", "the session; for search, the text", is_optional=True, suggest=session_ids),
        Argument("title", "rename: the new title", is_optional=True),
    ),
    options=(
        AGENT,
        CliOption("--cwd", "only the sessions of this folder", value="FOLDER"),
        CliOption("--limit", "list: at most so many", value="N"),
        CliOption("--offline", "do not start an agent"),
        CliOption("--full", "show: do not cut long outputs and changes"),
        CliOption(
            "--format",
            "export: the form (default: by the name of the file, else md)",
            value="FORM",
            choices=("md", "html", "json"),
        ),
        CliOption("--turn", "diff, review, rewind: this turn of the session (default: the last)", value="N"),
        CliOption("--turns", "rewind: so many of the last turns (default: 1)", value="N"),
        CliOption("--stat", "diff: list the changed paths and who changed them"),
        CliOption(
            "--keep", "review: keep this file or hunk; rewind: leave this path", value="PATH[:HUNK]", is_repeatable=True
        ),
        CliOption("--revert", "review: take back this file or hunk", value="PATH[:HUNK]", is_repeatable=True),
        CliOption("--take", "rewind: restore this path, although it changed since", value="PATH", is_repeatable=True),
        CliOption("--merge", "rewind: keep both changes of this path", value="PATH", is_repeatable=True),
        CliOption("--dry-run", "rewind, redo: only show the plan; report: only show what it holds"),
        CliOption("--yes", "rewind, redo: do not ask"),
        CliOption("--free", "storage: drop the snapshots of this folder, or of all", value="FOLDER"),
        CliOption("--keep-turns", "storage: with --free, keep so many of the last turns", value="N"),
        CliOption("--host", "show the process of the local host, and the address that clients connect to"),
        CliOption("-o", "export: write to this file instead of stdout; report: to this file", value="FILE"),
        JSON,
    ),
    examples=(
        "dragoman sessions",
        "dragoman sessions list -a claude --cwd . --json",
        "dragoman sessions show last",
        "dragoman sessions show @12",
        "dragoman sessions search 'import error'",
        "dragoman sessions export @12 -o session.html",
        "dragoman sessions report @12 -o report.zip",
        "dragoman sessions rename @12 'The login bug'",
        "dragoman sessions delete 0193ab -a claude",
        "dragoman sessions list -- my-agent --acp",
        "dragoman sessions diff --stat",
        "dragoman sessions review --revert src/app.py:2",
        "dragoman sessions rewind --dry-run",
        "dragoman sessions storage",
        "dragoman sessions watch review",
        "dragoman sessions --host",
    ),
    takes_program=True,
)
