"""`dragoman sessions show` and `export`: one session, on the terminal or as a document.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.console import json_text, uses_colour, write_note
from dragoman.cli.sessions.history import read_history
from dragoman.cli.sessions.known import Scope, document
from dragoman.text.colour import BOLD, DIM, Painter
from dragoman.view.session_document import form_of, json_document, session_document

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall

_WIDTH_WITHOUT_TERMINAL: Final = 100
_WIDEST: Final = 120  # longer lines of text are hard to read


def show_session(call: CliCall) -> int:
    import asyncio

    history = asyncio.run(read_history(Scope(call), call.given.id))
    if call.given.json:
        sys.stdout.write(json_text(json_document(history.blocks(), document(history.session))))
        return exits.OK
    from dragoman.text.terminal import one_line
    from dragoman.view.lines import lines_of

    paint = Painter(uses_colour(sys.stdout))
    is_terminal = sys.stdout.isatty()
    width = min(_WIDEST, shutil.get_terminal_size().columns) if is_terminal else _WIDTH_WITHOUT_TERMINAL
    lines = [paint(one_line(history.title), BOLD)]
    lines += [paint(f"{name}: {one_line(value)}", DIM) for name, value in history.facts() if value]
    lines += ["", *lines_of(history.blocks(), width, paint, is_full=call.given.full)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return exits.OK


def export_session(call: CliCall) -> int:
    import asyncio

    given = call.given
    form = given.format or form_of(given.o or "")
    history = asyncio.run(read_history(Scope(call), given.id))
    text = session_document(form, history.blocks(), history.title, history.facts(), document(history.session))
    if given.o is None:
        if sys.stdout.isatty():
            from dragoman.text.terminal import plain

            text = plain(text)
        sys.stdout.write(text)
        return exits.OK
    # A conversation is private: only its owner may read the file.
    with open(given.o, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(text)
    write_note(f"wrote {given.o}")
    return exits.OK
