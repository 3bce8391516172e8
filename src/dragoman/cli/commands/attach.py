"""`dragoman attach`, and `dragoman` alone: the terminal client, a conversation with any agent."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import uses_colour
from dragoman.cli.named_agent import AGENT
from dragoman.cli.suggestions import hosted_names
from dragoman.extras import install_command

if TYPE_CHECKING:
    from dragoman.cli.exec.options import Options
    from dragoman.cli.sessions.hosted import HostedEntry
    from dragoman.settings.file import UiMembers


class TerminalOpening:
    """How the terminal client opens sessions: with the agents, rules and settings of the command line."""

    def __init__(self, options: Options, worktree: str = "", *, is_temporary: bool = False) -> None:
        self.cwd = options.cwd
        self.is_temporary = is_temporary
        self.worktree = worktree
        """The name of the worktree that the folder belongs to."""
        self.mode = options.mode or ""
        self._options = options
        self._chosen: tuple[str, str] | None = None
        self._is_remembered = False

    def choose(self, agent: str, model: str) -> None:
        """Open new sessions with what the user chose in the welcome, unless another agent is named."""
        self._chosen, self._is_remembered = (agent, model), False

    def prefer(self, chosen: tuple[str, str]) -> None:
        """Open new sessions with what was chosen in an earlier start, unless the settings name an agent."""
        self._chosen, self._is_remembered = chosen, True

    def new(self, agent: str | None) -> dict[str, Any]:
        """Return the params of a new session. Raises: ConfigError."""
        from dragoman.cli.exec.hosted.opening import SessionOpener
        from dragoman.errors import ConfigError

        options = self._opened_with(agent)
        try:
            found = SessionOpener(options).describe(None)
        except exits.CliError as error:
            raise ConfigError(f"{error.message}; {error.hint}" if error.hint else error.message) from None
        return {
            "cwd": options.cwd,
            "mcp_servers": found.servers,
            "additional_directories": options.directories,
            "meta": found.meta,
        }

    def _opened_with(self, agent: str | None) -> Options:
        """Return the options for an agent that was named in the client, else for the one of the command line."""
        from msgspec.structs import replace

        if agent is not None and (self._chosen is None or agent != self._chosen[0]):
            # A model that was chosen belongs to the agent that it was chosen with.
            return replace(self._options, agent=agent, command=None)
        if self._chosen is None or (self._is_remembered and _settings_name_one(self.cwd)):
            return self._options
        name, model = self._chosen
        return replace(self._options, agent=name, command=None, model=self._options.model or model or None)


def _settings_name_one(folder: str) -> bool:
    """Whether the settings of the user, or of a project that the user accepted, name an agent or a model."""
    from pathlib import Path

    from dragoman.errors import ConfigError
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import config_dir

    try:
        settings = load_settings(config_dir(), find_project(Path(folder)))
    except ConfigError:
        return True  # what is wrong with them is shown when the session is opened
    return bool(settings.default_agent or settings.model)


def _welcomes(opening: TerminalOpening, options: Options) -> bool:
    """Whether nothing is set up, so that the welcome comes first; what was chosen in an earlier start is used."""
    if options.agent is not None or options.command is not None or options.model is not None:
        return False
    from dragoman.settings.places import config_dir, data_dir
    from dragoman.tui.start.preferences import FILE_NAME, Preferences

    chosen = Preferences(data_dir() / FILE_NAME).chosen()
    if chosen is not None:
        opening.prefer(chosen)
        return False
    # A line of a script is not a choice.
    if os.environ.get("DRAGOMAN_MODEL") or not sys.stdin.isatty():
        return False
    from dragoman.settings.credentials import Credentials

    return Credentials(config_dir()).stamp() is None and not _settings_name_one(options.cwd)


def run(call: CliCall) -> int:
    return open_client(call)


def open_client(call: CliCall, *, is_temporary: bool = False) -> int:
    """Work in this terminal until the user leaves. Returns the exit code.

    Args:
        is_temporary: the sessions end with the client, as those of a demonstration do.
    """
    given = call.given
    if not sys.stdin.isatty() and not given.plain:
        raise exits.CliError(
            "the terminal client needs a terminal",
            hint="for scripts there is dragoman exec; --plain reads lines from stdin",
        )
    ui, notes = _read_ui()
    form, why = _form(given, ui.screen)
    is_earlier = _check_session(given)
    if given.mode is not None and is_earlier:
        raise exits.CliError("--mode is for a new session", hint="leave it out, and use /mode in the session")
    worktree = None
    if given.worktree is not None:
        from dragoman.cli.worktree import enter_worktree

        if is_earlier:
            raise exits.CliError(
                "--worktree is for a new session", hint="leave out the session, --continue and --resume"
            )
        worktree = enter_worktree(call)
    options = _options(call)
    session = _session(given, options.cwd)
    if session is not None:
        options = _elsewhere(options, session.folder)
    if form == "plain":
        sys.stdout.write(f"plain mode ({why}): lines only, nothing is redrawn. /help lists the commands.\n")
    named = "" if worktree is None else worktree.name
    opening = TerminalOpening(options, named, is_temporary=is_temporary)
    welcomes = session is None and given.resume is None and _welcomes(opening, options)
    code = _converse(opening, None if session is None else session.session_id, form, call, ui, notes, welcomes=welcomes)
    if worktree is not None:
        from dragoman.cli.worktree import note_worktree

        note_worktree(worktree)
    return code


def _converse(
    opening: TerminalOpening,
    session_id: str | None,
    form: str,
    call: CliCall,
    ui: UiMembers,
    notes: tuple[str, ...],
    *,
    welcomes: bool,
) -> int:
    given, first = call.given, call.given.prompt
    if form != "full":
        from dragoman.tui.terminal.terminal_facts import shows_unicode

        is_ascii = given.ascii or (not shows_unicode(os.environ) if ui.ascii is None else ui.ascii)
        if form == "inline":
            from dragoman.tui.inline import run
        else:
            from dragoman.tui.plain import run
        colour = uses_colour(sys.stdout)
        chooses = given.resume == ""
        return run(opening, session_id, first, colour, is_ascii=bool(is_ascii), chooses=chooses, welcomes=welcomes)
    overridden = {}
    if given.ascii:
        from msgspec.structs import replace

        ui, overridden = replace(ui, ascii=True), {"ascii": "--ascii"}
    from dragoman.tui.full import run as run_full

    return run_full(
        *(opening, session_id, first),
        ui=ui,
        overridden=overridden,
        chooses=given.resume == "",
        welcomes=welcomes,
        notes=notes,
    )


def _read_ui() -> tuple[UiMembers, tuple[str, ...]]:
    """Return the user's settings of the terminal client. A file that cannot be read does not keep it from opening."""
    from dragoman.errors import ConfigError
    from dragoman.settings.file import UiMembers, read_settings_file, user_file
    from dragoman.settings.places import config_dir

    try:
        return read_settings_file(user_file(config_dir()), "user").ui, ()
    except ConfigError as error:
        if isinstance(error.__cause__, OSError):
            return UiMembers(), (str(error),)
        raise


def _form(given: Any, wanted: str) -> tuple[str, str]:
    """Return `full`, `inline` or `plain`, and what decided for lines only. Raises: CliError."""
    import importlib.util

    if given.plain:
        return "plain", "--plain"
    if os.environ.get("ACCESSIBLE") not in (None, "", "0"):
        return "plain", "ACCESSIBLE is set"
    if os.environ.get("TERM", "dumb") == "dumb" or not sys.stdout.isatty():
        return "plain", "the terminal has no cursor"
    form = "inline" if given.inline else wanted
    if form == "plain":
        return "plain", "ui.screen in your settings"
    if form == "inline":
        for module, hint in (
            ("dragoman.tui.inline", "leave out --inline, and ui.screen in your settings"),
            ("prompt_toolkit", install_command("tui")),
        ):
            if importlib.util.find_spec(module) is None:
                raise exits.CliError(f"the inline form needs {module}, which is not installed", hint=hint)
        return "inline", ""
    if importlib.util.find_spec("textual") is None:
        return "plain", f"the full screen needs the extra: {install_command('tui')}"
    return "full", ""


def _options(call: CliCall) -> Options:
    from dragoman.cli.exec.options import Options

    given = call.given
    folder = os.path.realpath(given.cwd or ".")
    if not os.path.isdir(folder):
        raise exits.CliError(f"{folder}: not a folder", hint="name a folder that exists; see dragoman attach --help")
    return Options(
        agent=given.agent,
        command=call.program,
        cwd=folder,
        model=given.model,
        mode=given.mode,
        allow=tuple(given.allow),
        deny=tuple(given.deny),
        sandbox=given.sandbox or "off",
        is_sure=given.yes,
        prompt=given.prompt,
    )


def _check_session(given: Any) -> bool:
    """Return whether an earlier session is meant. Raises: CliError if two are named."""
    named = [
        shown
        for shown, is_given in (
            ("a session", given.session is not None),
            ("--continue", getattr(given, "continue")),
            ("--resume", given.resume is not None),
            ("--new", given.new),
        )
        if is_given
    ]
    if len(named) > 1:
        raise exits.CliError(f"{' and '.join(named)} exclude each other", hint="use only one of them")
    return bool(named) and not given.new


def _session(given: Any, cwd: str) -> HostedEntry | None:
    """Return the session that is meant; None for a new one, or for a list of them."""
    from dragoman.cli.sessions.hosted import hosted_sessions

    word = given.session if given.session is not None else given.resume or None
    if word is None and not getattr(given, "continue"):
        return None
    known = hosted_sessions()
    if word is None:
        found = next((session for session in known if session.folder == cwd and session.is_used), None)
        if found is None:
            raise exits.CliError(f"there is no session in {cwd}", hint="leave out --continue to begin one")
        return found
    for session in known:
        if word in (session.session_id, session.name):
            return session
    near = [session for session in known if session.session_id.startswith(word) or session.title == word]
    if len(near) == 1:
        return near[0]
    raise exits.CliError(
        f"{'several sessions are' if near else 'there is no session'} {word!r}", hint="dragoman sessions lists them"
    )


def _elsewhere(options: Options, folder: str) -> Options:
    from msgspec.structs import replace

    return replace(options, cwd=folder)


OPTIONS = (
    AGENT,
    CliOption("--cwd", "the folder to work in (default: the current one)", value="FOLDER"),
    CliOption("--continue", "continue the last session of this folder", short="-c"),
    CliOption(
        "--resume",
        "continue an earlier session, by its id, name or title; without one, choose it from the list",
        value="SESSION",
        has_optional_value=True,
        suggest=hosted_names,
    ),
    CliOption("--new", "begin a new session, as without options"),
    CliOption("--worktree", "work in a copy of the project; see docs/worktrees.md", value="NAME"),
    CliOption("--inline", "print the conversation into the scrollback, with a few live lines below"),
    CliOption("--ascii", "show only ASCII signs"),
    CliOption("--plain", "only append lines: for screen readers and terminals without a cursor"),
    CliOption("--prompt", "send this prompt first", value="TEXT"),
    CliOption("--model", "use this model", value="MODEL"),
    CliOption("--mode", "begin a new session in this mode", value="MODE"),
    CliOption("--allow", "what the agent may do without asking", value="RULE", is_repeatable=True),
    CliOption("--deny", "what it may never do", value="RULE", is_repeatable=True),
    CliOption(
        "--sandbox",
        "run the agent's commands in a sandbox, where they need no rule",
        value="WHEN",
        choices=("off", "auto", "require"),
    ),
    CliOption("--yes", "do not ask before a well-known agent that is not installed is downloaded and run"),
)

COMMAND = CliCommand(
    run=run,
    description=(
        "Opens a conversation with an agent in this terminal. It runs in the local host: leaving it, or losing the\n"
        "terminal, does not end the work, and dragoman attach SESSION brings it back, in several terminals at once if\n"
        "you like. Without a session a new one is begun: the prompt comes first, and Ctrl+P or /resume lists the\n"
        "earlier ones. dragoman alone does the same. See docs/terminal.md."
    ),
    arguments=(
        Argument(
            "session", "the id or the name of a session (dragoman sessions)", is_optional=True, suggest=hosted_names
        ),
    ),
    options=OPTIONS,
    examples=(
        "dragoman attach",
        "dragoman ../other-project -a claude",
        "dragoman --continue",
        "dragoman --resume",
        "dragoman attach review",
        "dragoman --worktree idea -a claude",
        "dragoman attach --plain -a gemini",
    ),
    takes_program=True,
)
