"""`dragoman attach`, and `dragoman` alone: the terminal client, a conversation with any agent."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import uses_colour
from dragoman.cli.named_agent import AGENT
from dragoman.cli.suggestions import hosted_names

if TYPE_CHECKING:
    from dragoman.cli.exec.options import Options
    from dragoman.cli.sessions.hosted import HostedEntry


class TerminalOpening:
    """How the terminal client opens sessions: with the agents, rules and settings of the command line."""

    def __init__(self, options: Options) -> None:
        self.cwd = options.cwd
        self._options = options

    def new(self, agent: str | None) -> dict[str, Any]:
        """The params of a new session. Raises: ConfigError."""
        from msgspec.structs import replace

        from dragoman.cli.exec.hosted.opening import SessionOpener
        from dragoman.errors import ConfigError

        options = self._options if agent is None else replace(self._options, agent=agent, command=None)
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


def run(call: CliCall) -> int:
    given = call.given
    if not sys.stdin.isatty() and not given.plain:
        raise exits.CliError(
            "the terminal client needs a terminal",
            hint="for scripts there is dragoman exec; --plain reads lines from stdin",
        )
    options = _options(call)
    session = _session(given, options.cwd)
    if session is not None:
        options = _elsewhere(options, session.folder)
    is_plain, why = _is_plain(given)
    if is_plain:
        sys.stdout.write(f"plain mode ({why}): lines only, nothing is redrawn. /help lists the commands.\n")
    return _converse(options, None if session is None else session.session_id, is_plain=is_plain)


def _converse(options: Options, session_id: str | None, *, is_plain: bool) -> int:
    opening = TerminalOpening(options)
    # By name: user interfaces do not import each other.
    if is_plain:
        return int(
            import_module("dragoman.tui.plain").run(opening, session_id, options.prompt, uses_colour(sys.stdout))
        )
    return int(import_module("dragoman.tui.full").run(opening, session_id, options.prompt))


def _is_plain(given: Any) -> tuple[bool, str]:
    """Whether lines are only appended, and what decided that."""
    import importlib.util

    if given.plain:
        return True, "--plain"
    if os.environ.get("ACCESSIBLE") not in (None, "", "0"):
        return True, "ACCESSIBLE is set"
    if os.environ.get("TERM", "dumb") == "dumb" or not sys.stdout.isatty():
        return True, "the terminal has no cursor"
    if importlib.util.find_spec("textual") is None:
        return True, "the full screen needs the extra: pip install 'dragoman[tui]'"
    return False, ""


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
        allow=tuple(given.allow),
        deny=tuple(given.deny),
        sandbox=given.sandbox or "off",
        is_sure=given.yes,
        prompt=given.prompt,
    )


def _session(given: Any, cwd: str) -> HostedEntry | None:
    """The session that is meant; None for a new one."""
    from dragoman.cli.sessions.hosted import hosted_sessions

    if given.session is None and not getattr(given, "continue"):
        return None
    known = hosted_sessions()
    if given.session is None:
        found = next((each for each in known if each.folder == cwd), None)
        if found is None:
            raise exits.CliError(f"there is no session in {cwd}", hint="leave out --continue to begin one")
        return found
    for each in known:
        if given.session in (each.session_id, each.name):
            return each
    near = [each for each in known if each.session_id.startswith(given.session)]
    if len(near) == 1:
        return near[0]
    raise exits.CliError(f"there is no session {given.session!r}", hint="dragoman sessions lists them")


def _elsewhere(options: Options, folder: str) -> Options:
    from msgspec.structs import replace

    return replace(options, cwd=folder)


OPTIONS = (
    AGENT,
    CliOption("--cwd", "the folder to work in (default: the current one)", value="FOLDER"),
    CliOption("--continue", "continue the last session of this folder", short="-c"),
    CliOption("--plain", "only append lines: for screen readers and terminals without a cursor"),
    CliOption("--prompt", "send this prompt first", value="TEXT"),
    CliOption("--model", "use this model", value="MODEL"),
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
        "you like. Without a session a new one is begun; dragoman alone does the same. See docs/terminal.md."
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
        "dragoman attach review",
        "dragoman attach --plain -a gemini",
    ),
    takes_program=True,
)
