"""Starts the full screen, and leaves the last exchange in the terminal when it ends.

The host is looked for, and started, while Textual is being imported, and the terminal is asked for its background
meanwhile: all take their time.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, reach_host
from dragoman.tui.terminal_facts import ask_background, is_light_by_variable, shows_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.settings.file import UiMembers
    from dragoman.state import SessionState
    from dragoman.tui.conversation import Opening
    from dragoman.view.rails import RailView

_QUESTION_LINES: Final = 12
_ANSWER_LINES: Final = 150
"""Of the last exchange: as much as one reads in the scrollback, and no more than was on a few screens."""


def run(
    opening: Opening,
    session_id: str | None,
    first: str | None,
    *,
    ui: UiMembers | None = None,
    overridden: Mapping[str, str] | None = None,
    chooses: bool = False,
    notes: tuple[str, ...] = (),
) -> int:
    """Work in this terminal until the user leaves. Returns the exit code.

    Args:
        opening: how sessions are opened.
        session_id: the session to attach to; None for a new one.
        first: the first prompt.
        ui: the user's settings.
        overridden: settings that an option decides this time, and which one.
        chooses: show the sessions of the folder first, if there are some.
        notes: what the user should know.
    """
    threading.Thread(target=_warm, daemon=True).start()
    question = ask_background()
    try:
        from dragoman.settings.file import UiMembers
        from dragoman.settings.places import data_dir
        from dragoman.tui import preferences
        from dragoman.tui.screen.app import TerminalApp
        from dragoman.tui.screen.start import Start
        from dragoman.view.rails import ASCII, UNICODE, RailView
    finally:
        if question is not None:
            question.read()  # restores the terminal
    members = ui or UiMembers()
    is_light = is_light_by_variable(os.environ) if question is None or question.is_light is None else question.is_light
    is_ascii = members.ascii if members.ascii is not None else not shows_unicode(os.environ)
    glyphs = ASCII if is_ascii else UNICODE
    start = Start(
        ui=members,
        overridden=overridden or {},
        preferences=preferences.Preferences(data_dir() / preferences.FILE_NAME),
        is_light=is_light,
        typed=b"" if question is None else question.typed,
        chooses=chooses,
        worktree=str(getattr(opening, "worktree", "")),
        notes=notes,
    )
    app = TerminalApp(opening, session_id=session_id, first=first, glyphs=glyphs, start=start)
    app.run(mouse=members.mouse)
    with suppress(OSError):  # past the filter of stdout, which removes what acts on a terminal
        os.write(sys.stdout.fileno(), app.around.notifier.ending().encode())
    width = shutil.get_terminal_size().columns
    for line in last_exchange(app.talk.state, RailView(width, app.glyphs)):
        sys.stdout.write(f"{line}\n")
    _print_way_back(app.talk)
    return 0


def last_exchange(state: SessionState, view: RailView) -> list[str]:
    """The last question and its answer as lines, with the middle of a very long one left out."""
    from dragoman.text.terminal import clip
    from dragoman.view.blocks import MessageBlock
    from dragoman.view.build import blocks_of
    from dragoman.view.rails import rail_lines

    blocks = blocks_of(state)
    starts = [place for place, block in enumerate(blocks) if isinstance(block, MessageBlock) and block.role == "user"]
    found: list[list[str]] = []
    for block in blocks[starts[-1] if starts else 0 :]:
        found.append([clip("".join(text for text, _ in line).rstrip(), view.width) for line in rail_lines(block, view)])
    if not found:
        return []
    question = found[0] if starts else []
    answer = [line for lines in (found[1:] if starts else found) for line in lines]
    if len(question) > _QUESTION_LINES:
        question = [*question[:_QUESTION_LINES], f"  ({len(question) - _QUESTION_LINES} more lines)"]
    if len(answer) > _ANSWER_LINES:
        answer = [f"  ({len(answer) - _ANSWER_LINES} lines before)", *answer[-_ANSWER_LINES:]]
    return [*question, *answer]


def _print_way_back(talk: Any) -> None:
    from dragoman.text.visible import label

    if talk.session_id is not None:
        state = "still running; " if talk.is_running else ""
        sys.stdout.write(f"{state}dragoman attach {label(talk.session_id, 80)} brings you back\n")


def _warm() -> None:
    """Start the host if none runs; what is wrong with it is shown when the conversation connects."""
    with suppress(NoHost, OSError):
        reach_host(find_places()).close()
