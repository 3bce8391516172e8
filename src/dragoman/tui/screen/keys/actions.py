"""Every action of the full screen: its name, which is also its slash command, its keys, and what the help says.

An action is a method `action_NAME` of the app, or a function that is named here and imported when it is first used, so
that a screen which is not opened costs nothing. Both get the words behind the slash command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dragoman.tui.completion import ClientCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dragoman.tui.screen.app import TerminalApp

ActionFunction: TypeAlias = "Callable[[TerminalApp, str], object]"
"""Gets the app and the words behind the slash command."""


class Action(NamedTuple):
    """One action."""

    name: str
    keys: tuple[str, ...]
    """As Textual names them; none for an action that only has a slash command."""
    help: str
    is_priority: bool = True
    """Whether the key works wherever the keyboard is; otherwise the part that has it goes first."""
    group: str = "conversation"
    """The heading in the help."""
    aliases: tuple[str, ...] = ()
    """Other slash commands that mean the same."""


ACTIONS: Final = (
    Action("stop", ("escape",), "close what is open; else stop the turn: what waits is back here", is_priority=False),
    Action("walk", ("tab",), "into the question, the conversation, and back to the input"),
    Action("open", ("ctrl+t",), "thoughts and long outputs open or closed"),
    Action("login", (), "log in to the agent", group="agent"),
    Action("diff", ("alt+d",), "review what a turn changed, /diff TURN"),
    Action("rewind", (), "take turns back (Esc twice with an empty input)", aliases=("undo",)),
    Action("redo", (), "bring back what the last rewind took"),
    Action("traffic", ("alt+t",), "messages between host and agent"),
    Action("export", (), "write the session, /export md|html|json [FILE]"),
    Action("report", (), "a report for a bug, without private contents"),
    Action("queue", ("ctrl+q",), "prompts that wait: edit, reorder, delete"),
    Action("steer", ("ctrl+s",), "pass the text to the turn that runs"),
    Action("editor", ("ctrl+g",), "edit the draft in $VISUAL or $EDITOR"),
    Action("pager", ("ctrl+o",), "the conversation in $PAGER"),
    Action("copy", ("alt+c",), "copy the last answer; /copy all the conversation"),
    Action("paste", ("ctrl+v", "alt+v"), "attach the image in the clipboard"),
    Action("select", ("alt+s",), "the mouse for the terminal, to select there"),
    Action("suspend", ("ctrl+z",), "stop this program; fg brings it back"),
    Action("page_up", ("pageup",), "scroll up"),
    Action("page_down", ("pagedown",), "scroll down; End follows again"),
    Action("sessions", ("ctrl+p",), "sessions: open, fork, end one", group="sessions"),
    Action("resume", (), "go on with an earlier session, /resume WORDS", group="sessions"),
    Action(
        "new",
        ("ctrl+n",),
        "a new session, /new AGENT with another agent",
        group="sessions",
        aliases=("clear",),
    ),
    Action("next", ("alt+right",), "the next session", group="sessions"),
    Action("previous", ("alt+left",), "the session before", group="sessions"),
    Action("agents", ("f3",), "agents, keys and models of this machine; begins a session", group="agent"),
    Action("mode", ("shift+tab",), "the next mode, /mode NAME", group="agent"),
    Action("model", ("alt+m",), "the model, /model NAME", group="agent"),
    Action("options", (), "modes and options of the agent", group="agent"),
    Action("cost", (), "what the session cost so far", group="agent"),
    Action("redraw", ("ctrl+l",), "draw the screen again", group="screen"),
    Action("columns", ("f2",), "the columns at the sides", group="screen"),
    Action("theme", (), "the next colours, /theme auto|dark|light", group="screen"),
    Action("settings", (), "settings of this client", group="screen"),
    Action("help", ("f1",), "this list; ? in an empty input", group="screen"),
    Action("interrupt", ("ctrl+c",), "stop what runs; else clear the draft; else, twice, leave", group="screen"),
    Action(
        "leave",
        ("ctrl+d",),
        "leave, with an empty input; /exit stop ends the turn",
        group="screen",
        aliases=("exit", "quit"),
    ),
)
_LISTS: Final = ("agents", "help", "model", "options")
"""Without words these are ours, also if the agent has a command of that name: it would only print a list."""
_ALWAYS_OURS: Final = ("mode", "stop", "leave")
"""These are never the agent's: no message may change the mode, and a user must be able to stop and to leave."""
FIXED_KEYS: Final = (
    ("Enter", "send; while a turn runs, the prompt waits for its end"),
    ("Ctrl+J", "new line (also Alt+Enter, Shift+Enter, or \\ before Enter)"),
    ("/ @ !", "commands, files, a shell command; Enter or Tab takes the marked row of the menu"),
    ("Up Down", "the prompt that waits last, in an empty input; what was sent before, which Ctrl+R searches"),
    ("Ctrl+A E K U W", "move and delete as in a shell (also Ctrl+F B Y, Alt+B F, Ctrl+_ undoes)"),
    ("y a n, 1 2 3", "a question, with an empty input: once, always, no, a row; Alt+number always"),
    ("w, v", "the same: reject and say why; the whole question"),
    ("f o d x", "in a form or a page: fill in, open, decline, cancel"),
)
"""Keys of the input and the card, which are not actions."""


def action_named(name: str) -> Action | None:
    """Return the action of a name, or of another name that it has."""
    return next((action for action in ACTIONS if name == action.name or name in action.aliases), None)


def client_commands() -> list[ClientCommand]:
    """Return the slash commands for the menu: each action, then its other names."""
    return [
        *(ClientCommand(action.name, action.help) for action in ACTIONS),
        *(ClientCommand(alias, f"{action.help} (/{action.name})") for action in ACTIONS for alias in action.aliases),
    ]


def client_action(word: str, argument: str, theirs: Collection[str]) -> Action | None:
    """Return the action that a slash command names.

    A command of the agent with that name goes first, but for our lists and the mode, which no message may change;
    `dragoman:NAME` is always ours.
    """
    name = word.removeprefix("dragoman:")
    action = action_named(name)
    if action is None or name != word or word not in theirs:
        return action
    is_list = action.name in _LISTS and not argument.strip()
    return action if is_list or action.name in _ALWAYS_OURS else None


def load_function(name: str) -> ActionFunction | None:  # noqa: C901 - a table
    """Import the function of an action; None for a method of the app."""
    functions: dict[str, ActionFunction] = {}
    match name:
        case "login":
            from dragoman.tui.screen.questions import login

            functions = {"login": login.log_in}
        case "diff":
            from dragoman.tui.screen.changes import review

            functions = {"diff": review.review_turn}
        case "rewind" | "redo":
            from dragoman.tui.screen.changes import rewind

            functions = {"rewind": rewind.rewind_menu, "redo": rewind.redo_menu}
        case "traffic":
            from dragoman.tui.screen.reporting import inspector

            functions = {"traffic": inspector.show_traffic}
        case "export" | "report":
            from dragoman.tui.screen.reporting import export

            functions = {"export": export.export, "report": export.report}
        case "queue" | "steer":
            from dragoman.tui.screen.input import queue

            functions = {"queue": queue.choose_queued, "steer": queue.steer}
        case "editor" | "pager" | "suspend":
            from dragoman.tui.screen import outside

            functions = {
                "editor": outside.edit_draft,
                "pager": outside.page_conversation,
                "suspend": outside.suspend_client,
            }
        case "copy" | "paste" | "select":
            from dragoman.tui.screen.conversation import copy

            functions = {"copy": copy.copy_answer, "paste": copy.paste_clipboard, "select": copy.release_mouse}
        case "sessions" | "resume" | "new" | "next" | "previous":
            from dragoman.tui.screen.sessions import sessions

            functions = {
                "sessions": sessions.choose_session,
                "resume": sessions.choose_session,
                "new": sessions.begin_session,
                "next": sessions.next_session,
                "previous": sessions.previous_session,
            }
        case "mode" | "model" | "options" | "cost":
            from dragoman.tui.screen.choices import options

            functions = {
                "mode": options.next_mode,
                "model": options.choose_model,
                "options": options.choose_option,
                "cost": options.show_cost,
            }
        case "agents":
            from dragoman.tui.screen import welcome

            functions = {"agents": welcome.show_welcome}
        case "settings" | "theme":
            from dragoman.tui.screen.choices import settings_screen

            functions = {"settings": settings_screen.show_settings, "theme": settings_screen.choose_theme}
        case "help":
            from dragoman.tui.screen.keys import help

            functions = {"help": help.show_help}
    return functions.get(name)


def shown_key(key: str) -> str:
    """Return a key as users read it: `ctrl+t` is `Ctrl+T`."""
    names = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?"}
    return "+".join(names.get(part, part.capitalize()) for part in key.split("+"))
