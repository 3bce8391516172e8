"""The slash commands of the line modes: one table for what a word does, for the help, and for completion.

A command that the full screen has, too, has the same name there (`screen/keys/actions.py`). The functions are imported
when they are first used: most sessions need few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dragoman.tui.completion import ClientCommand

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from dragoman.tui.lines.client import LineClient

LineFunction: TypeAlias = "Callable[[LineClient, str], Awaitable[None]]"
"""Gets the client and the words behind the command."""


class LineCommand(NamedTuple):
    """One command."""

    name: str
    words: str
    """What is typed behind the name, as the help shows it."""
    help: str
    aliases: tuple[str, ...] = ()


COMMANDS: Final = (
    LineCommand("stop", "", "stop the turn that runs; what waits is given back"),
    LineCommand("queue", "", "list the prompts that wait"),
    LineCommand("edit", "N [TEXT]", "change a prompt that waits"),
    LineCommand("move", "N TO", "let a prompt that waits come earlier or later"),
    LineCommand("drop", "N", "take a prompt that waits back"),
    LineCommand("steer", "TEXT", "pass a text to the turn that runs"),
    LineCommand("copy", "[all]", "copy the last answer, or the conversation"),
    LineCommand("thought", "", "write the last thought whole"),
    LineCommand("traffic", "[N]", "the last messages between host and agent"),
    LineCommand("diff", "[TURN]", "show what a turn changed"),
    LineCommand("rewind", "[TURN]", "list the turns; with a number, take some back", aliases=("undo",)),
    LineCommand("redo", "", "bring back what the last rewind took, and ask"),
    LineCommand("export", "md|html|json [FILE]", "write the session to a file"),
    LineCommand("report", "[FILE]", "a report for a bug, without private contents"),
    LineCommand("sessions", "[all]", "list the sessions of this folder, or of all"),
    LineCommand("open", "N", "go to a session of the list"),
    LineCommand("resume", "[N|WORDS]", "go on with an earlier session: list them, by number, or by words"),
    LineCommand("new", "[AGENT]", "begin a new session", aliases=("clear",)),
    LineCommand("mode", "[MODE]", "show or change the mode"),
    LineCommand("model", "[MODEL]", "show or change the model"),
    LineCommand("options", "[KEY VALUE]", "show or set what the agent offers", aliases=("set",)),
    LineCommand("cost", "", "what the session cost so far"),
    LineCommand("paste", "", "attach the image in the clipboard"),
    LineCommand("settings", "", "show the settings of this client"),
    LineCommand("agents", "", "agents, keys and models of this machine, to choose from"),
    LineCommand("login", "", "log in to the agent"),
    LineCommand("retry", "", "try again after a failure"),
    LineCommand("why", "TEXT", "reject the open question, and say why"),
    LineCommand("help", "", "this list"),
    LineCommand("leave", "[stop]", "leave; the work goes on, or is stopped first", aliases=("exit", "quit")),
)


_ALWAYS_OURS: Final = ("agents", "stop", "queue", "drop", "sessions", "resume", "mode", "help", "leave")


def command_named(word: str) -> LineCommand | None:
    """Return the command of a word, by its name or another one that it has."""
    return next((command for command in COMMANDS if word == command.name or word in command.aliases), None)


def client_command(word: str, taken: Iterable[str]) -> LineCommand | None:
    """Return the command that a typed word means: the agent's own wins, and `dragoman:NAME` is always ours.

    A few are always ours, because there is no key for them here: a user must be able to stop, to leave and to get help.
    A mode is chosen by the user, never by a message to the agent, which may hold text of others.
    """
    name = word.removeprefix("dragoman:")
    command = command_named(name)
    is_ours = command is not None and (name != word or command.name in _ALWAYS_OURS or word not in set(taken))
    return command if is_ours else None


def client_commands() -> list[ClientCommand]:
    """Return the commands for the menu: each one, then its other names."""
    named = [(command, f"{command.words}  {command.help}".strip()) for command in COMMANDS]
    return [
        *(ClientCommand(command.name, words) for command, words in named),
        *(ClientCommand(alias, f"{words} (/{command.name})") for command, words in named for alias in command.aliases),
    ]


def load_function(name: str) -> LineFunction | None:
    """Import the function of a command; None for what the client does by itself."""
    if name == "help":
        return show_help
    if name == "agents":
        from dragoman.tui.lines.welcome import show_agents

        return show_agents
    if name in ("diff", "rewind", "redo", "export", "report"):
        from dragoman.tui.lines import changes

        return {
            "diff": changes.diff,
            "rewind": changes.rewind,
            "redo": changes.redo,
            "export": changes.export,
            "report": changes.report,
        }[name]
    from dragoman.tui.lines.command_functions import FUNCTIONS

    return FUNCTIONS.get(name)


def help_lines(keys: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the help: how prompts are typed, the keys of the mode, and every command."""
    yield "Type a prompt and press Enter; a line that ends with \\ goes on in the next one. While a turn runs, a prompt"
    yield "waits for its end. @FILE attaches a file, !COMMAND runs a command of yours, !! attaches its output."
    for key, meaning in keys:
        yield f"  {key:<24} {meaning}"
    yield "Commands:"
    for command in COMMANDS:
        also = f" (also {', '.join(f'/{alias}' for alias in command.aliases)})" if command.aliases else ""
        yield f"  {f'/{command.name} {command.words}'.rstrip():<27} {command.help}{also}"
    yield "Commands of the agent are sent to it; where it has one of the same name, /dragoman:NAME is the one of this"
    ours = ", ".join(f"/{name}" for name in _ALWAYS_OURS)
    yield f"list; always ours are {ours}."
    yield "An unknown one is not sent; //NAME sends it as it is, a blank before the slash sends a text."


async def show_help(client: LineClient, words: str) -> None:
    """Write the help."""
    client.write(*help_lines(client.keys))
