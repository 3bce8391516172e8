"""Every action of the full screen: its name, which is also its slash command, its keys, and what the help says.

An action is a method `action_NAME` of the app, or a function that is named here and imported when it is first used, so
that a screen which is not opened costs nothing. Both get the words behind the slash command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection


class Action(NamedTuple):
    """One action."""

    name: str
    keys: tuple[str, ...]
    """As Textual names them; none for an action that only has a slash command."""
    help: str
    run: str = ""
    """`module:function` below `tui/screen/`, which gets the app and the argument; empty for a method of the app."""
    is_priority: bool = True
    """Whether the key works wherever the keyboard is; otherwise the part that has it goes first."""
    group: str = "conversation"
    """The heading in the help."""


ACTIONS: Final = (
    Action("stop", ("escape",), "stop the turn", is_priority=False),
    Action("walk", ("tab",), "into the question, the conversation, and back to the input", "keys.moving:move_focus"),
    Action("open", ("ctrl+t",), "thoughts and long outputs open or closed", "keys.moving:toggle_open"),
    Action("login", (), "log in to the agent", "questions.login:log_in", group="agent"),
    Action("diff", ("alt+d",), "review what a turn changed, /diff TURN", "changes.review:review_turn"),
    Action("rewind", (), "take turns back (Esc twice with an empty input)", "changes.rewind:rewind_menu"),
    Action("redo", (), "bring back what the last rewind took", "changes.rewind:redo_menu"),
    Action("traffic", ("alt+t",), "messages between host and agent", "reporting.inspector:show_traffic"),
    Action("export", (), "write the session, /export md|html|json [FILE]", "reporting.export:export"),
    Action("report", (), "a report for a bug, without private contents", "reporting.export:report"),
    Action("queue", ("ctrl+q",), "prompts that wait: edit, reorder, delete", "input.queue:choose_queued"),
    Action("steer", ("ctrl+s",), "pass the text to the turn that runs", "input.steer:steer"),
    Action("editor", ("ctrl+g",), "edit the draft in $VISUAL or $EDITOR", "outside:edit_draft"),
    Action("pager", ("ctrl+o",), "the conversation in $PAGER", "outside:page_conversation"),
    Action("copy", ("alt+c",), "copy the last answer; /copy all the conversation", "conversation.copy:copy_answer"),
    Action("paste", (), "attach the image in the clipboard", "conversation.copy:paste_clipboard"),
    Action("select", ("alt+s",), "the mouse for the terminal, to select there", "conversation.copy:release_mouse"),
    Action("suspend", ("ctrl+z",), "stop this program; fg brings it back", "outside:suspend_client"),
    Action("page_up", ("pageup",), "scroll up", "keys.moving:page_up"),
    Action("page_down", ("pagedown",), "scroll down; End follows again", "keys.moving:page_down"),
    Action("sessions", ("ctrl+p",), "sessions", "sessions.sessions:choose_session", group="sessions"),
    Action(
        "new",
        ("ctrl+n",),
        "a new session, /new AGENT with another agent",
        "sessions.sessions:begin_session",
        group="sessions",
    ),
    Action("next", ("alt+right",), "the next session", "sessions.sessions:next_session", group="sessions"),
    Action("previous", ("alt+left",), "the session before", "sessions.sessions:previous_session", group="sessions"),
    Action("mode", ("shift+tab",), "the next mode, /mode NAME", "choices.options:next_mode", group="agent"),
    Action("model", ("alt+m",), "the model, /model NAME", "choices.options:choose_model", group="agent"),
    Action("options", (), "modes and options of the agent", "choices.options:choose_option", group="agent"),
    Action("columns", ("f2",), "the columns at the sides", group="screen"),
    Action("settings", (), "settings of this client", "choices.settings_screen:show_settings", group="screen"),
    Action("help", ("f1",), "this list; ? in an empty input", "keys.help:show_help", group="screen"),
    Action("interrupt", ("ctrl+c",), "leave, pressed twice; the work goes on", group="screen"),
    Action("leave", ("ctrl+d",), "leave, with an empty input; the work goes on", group="screen"),
)
_LISTS: Final = ("help", "model", "options")
"""Without words these are ours, also if the agent has a command of that name: it would only print a list."""
FIXED_KEYS: Final = (
    ("Enter", "send; while a turn runs, the prompt waits for its end"),
    ("Ctrl+J", "new line (also Alt+Enter, Shift+Enter, or \\ before Enter)"),
    ("/ @ !", "commands, files, a shell command; Tab takes a row of the menu, Enter only a chosen one"),
    ("Up Down", "at the first and last line: what was sent before; Ctrl+R searches it"),
    ("Ctrl+A E K U W", "move and delete as in a shell (also Ctrl+F B Y, Alt+B F, Ctrl+_ undoes)"),
    ("1 2 3", "in a question: answer it; Alt+number from the input"),
    ("w, v", "in a question: reject and say why; the whole question"),
    ("f o d x", "in a form or a page: fill in, open, decline, cancel"),
)
"""Keys of the input and the card, which are not actions."""


def action_named(name: str) -> Action | None:
    """Return the action of a name."""
    return next((action for action in ACTIONS if action.name == name), None)


def own_action(word: str, argument: str, theirs: Collection[str]) -> Action | None:
    """Return the action that a slash command names.

    A command of the agent with that name goes first, but for our lists; `dragoman:NAME` is always ours.
    """
    name = word.removeprefix("dragoman:")
    is_list = name in _LISTS and not argument.strip()
    return None if name == word and word in theirs and not is_list else action_named(name)


def load_function(place: str) -> Any:
    """Import the function that a place `module:function` below `tui/screen/` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"dragoman.tui.screen.{module}"), name)


def shown_key(key: str) -> str:
    """Return a key as users read it: `ctrl+t` is `Ctrl+T`."""
    names = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?"}
    return "+".join(names.get(part, part.capitalize()) for part in key.split("+"))
