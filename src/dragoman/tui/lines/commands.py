"""The slash commands of the line modes: one table for what a word does, for the help, and for completion.

A command that the full screen has, too, has the same name there (`screen/keys/actions.py`). The functions are imported
when they are first used: most sessions need few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HERE: Final = "dragoman.tui.lines"


class LineCommand(NamedTuple):
    """One command."""

    name: str
    words: str
    """What is typed behind the name, as the help shows it."""
    help: str
    run: str = ""
    """`module:function`, which gets the client and the words; empty for what the client does by itself."""
    aliases: tuple[str, ...] = ()


COMMANDS: Final = (
    LineCommand("stop", "", "stop the turn that runs", f"{_HERE}.waiting:stop"),
    LineCommand("queue", "", "list the prompts that wait", f"{_HERE}.waiting:list_queue"),
    LineCommand("edit", "N [TEXT]", "change a prompt that waits", f"{_HERE}.waiting:edit"),
    LineCommand("move", "N TO", "let a prompt that waits come earlier or later", f"{_HERE}.waiting:move"),
    LineCommand("drop", "N", "take a prompt that waits back", f"{_HERE}.waiting:drop"),
    LineCommand("steer", "TEXT", "pass a text to the turn that runs", f"{_HERE}.waiting:steer"),
    LineCommand("copy", "[all]", "copy the last answer, or the conversation", f"{_HERE}.reading:copy_answer"),
    LineCommand("thought", "", "write the last thought whole", f"{_HERE}.reading:show_thought"),
    LineCommand("traffic", "[N]", "the last messages between host and agent", f"{_HERE}.reading:show_traffic"),
    LineCommand("diff", "[TURN]", "show what a turn changed", f"{_HERE}.changes:diff"),
    LineCommand("rewind", "[TURN]", "list the turns; with a number, take some back", f"{_HERE}.changes:rewind"),
    LineCommand("redo", "", "bring back what the last rewind took, and ask", f"{_HERE}.changes:redo"),
    LineCommand("export", "md|html|json [FILE]", "write the session to a file", f"{_HERE}.changes:export"),
    LineCommand("report", "[FILE]", "a report for a bug, without private contents", f"{_HERE}.changes:report"),
    LineCommand("sessions", "[all]", "list the sessions of this folder, or of all", f"{_HERE}.sessions:list_sessions"),
    LineCommand("open", "N", "go to a session of the list", f"{_HERE}.sessions:open_session"),
    LineCommand("new", "[AGENT]", "begin a new session", f"{_HERE}.sessions:begin_session"),
    LineCommand("mode", "[MODE]", "show or change the mode", f"{_HERE}.values:choose_mode"),
    LineCommand("model", "[MODEL]", "show or change the model", f"{_HERE}.values:choose_model"),
    LineCommand("options", "[KEY VALUE]", "show or set what the agent offers", f"{_HERE}.values:set_option", ("set",)),
    LineCommand("settings", "", "show the settings of this client", f"{_HERE}.values:show_settings"),
    LineCommand("login", "", "log in to the agent"),
    LineCommand("retry", "", "try again after a failure", f"{_HERE}.sessions:retry"),
    LineCommand("why", "TEXT", "reject the open question, and say why"),
    LineCommand("help", "", "this list", f"{_HERE}.commands:show_help"),
    LineCommand("leave", "", "leave; the work goes on", aliases=("quit", "exit")),
)


_ALWAYS_OURS: Final = ("stop", "queue", "drop", "sessions", "help", "leave")


def command_named(word: str) -> LineCommand | None:
    """Return the command of a word, by its name or another one that it has."""
    return next((command for command in COMMANDS if word == command.name or word in command.aliases), None)


def own_command(word: str, taken: Iterable[str]) -> LineCommand | None:
    """Return the command that a typed word means: the agent's own wins, and `dragoman:NAME` is always ours.

    A few are always ours, because there is no key for them here: a user must be able to stop, to leave and to get help.
    """
    own = word.removeprefix("dragoman:")
    found = command_named(own)
    is_ours = found is not None and (own != word or found.name in _ALWAYS_OURS or word not in set(taken))
    return found if is_ours else None


def load_function(command: LineCommand) -> Any:
    """Import the function of a command."""
    module, _, name = command.run.partition(":")
    return getattr(import_module(module), name)


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
    yield "Other lines that begin with / are commands of the agent, and are sent to it. Where the agent has one of the"
    ours = ", ".join(f"/{name}" for name in _ALWAYS_OURS)
    yield f"same name, /dragoman:NAME is the one of this list; always ours are {ours}."


async def show_help(client: Any, words: str) -> None:
    """Write the help."""
    client.write(*help_lines(client.keys))
