"""`dragoman sessions`: every session that is known, whichever agent it belongs to. `cli/sessions` has the actions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.masked_streams import mask_stored_keys
from dragoman.cli.named_agent import AGENT
from dragoman.cli.suggestions import session_ids

if TYPE_CHECKING:
    from collections.abc import Callable

# Action -> its function and the module of `cli/sessions` it is in, and the options it takes.
ACTIONS: Final = {
    "list": ("list.list_sessions", ("agent", "cwd", "limit", "offline", "json")),
    "show": ("show.show_session", ("agent", "cwd", "offline", "full", "json")),
    "search": ("search.search_sessions", ("agent", "cwd", "offline", "json")),
    "export": ("show.export_session", ("agent", "cwd", "offline", "format", "o")),
    "rename": ("change.rename_session", ("agent", "cwd", "offline")),
    "delete": ("change.delete_session", ("agent", "cwd", "offline")),
    "cancel": ("hosted.cancel_session", ()),
    "watch": ("hosted.watch_session", ("json",)),
    "close": ("hosted.close_session", ()),
}
_HOST: Final = ("hosted.show_host", ("host", "json"))
_SEE_HELP: Final = "see dragoman sessions --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.host and given.action is not None:
        raise exits.CliError("--host stands alone", hint="dragoman sessions --host")
    given.action = given.action or "list"
    place, taken = _HOST if given.host else ACTIONS[given.action]
    for option in COMMAND.options:
        name = option.flag.lstrip("-").replace("-", "_")
        if getattr(given, name) not in (None, False) and name not in taken:
            takers = [action for action, (_, options) in ACTIONS.items() if name in options]
            raise exits.CliError(f"{option.flag} goes with {' and '.join(takers)}", hint=_SEE_HELP)
    _check_words(given.action, given.id, given.title)
    mask_stored_keys()
    module, _, function = place.partition(".")
    action: Callable[[CliCall], int] = getattr(import_module(f"dragoman.cli.sessions.{module}"), function)
    return action(call)


def _check_words(action: str, word: str | None, title: str | None) -> None:
    if action == "list":
        if word is not None:
            raise exits.CliError("sessions list does not take an id", hint=f"dragoman sessions show {word}")
    elif word is None:
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
        "  rename   give a session a title; an empty one brings back the agent's\n"
        "  delete   delete a session from the ledger and, if the agent can, at the agent\n"
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
        CliOption("--host", "show the process of the local host, and the address that clients connect to"),
        CliOption("-o", "export: write to this file instead of stdout", value="FILE"),
        JSON,
    ),
    examples=(
        "dragoman sessions",
        "dragoman sessions list -a claude --cwd . --json",
        "dragoman sessions show last",
        "dragoman sessions show @12",
        "dragoman sessions search 'import error'",
        "dragoman sessions export @12 -o session.html",
        "dragoman sessions rename @12 'The login bug'",
        "dragoman sessions delete 0193ab -a claude",
        "dragoman sessions list -- my-agent --acp",
        "dragoman sessions watch review",
        "dragoman sessions --host",
    ),
    takes_program=True,
)
