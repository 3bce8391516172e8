"""Which pictures the screen draws: by the settings, the terminal, and whether Pillow is installed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dragoman.tui.screen.conversation.pictures.shown import PictureDrawing, ShownPictures
from dragoman.tui.terminal.graphics import picture_form
from dragoman.view.rails import ASCII

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.widget import Widget


def make_pictures(
    app: Any, node: Widget, find: Callable[[int, int], str | None], changed: Callable[[], None]
) -> ShownPictures | None:
    """Return a place for the pictures of a conversation; None if none are drawn.

    Args:
        app: the terminal client.
        node: the part of the screen that shows them.
        find: see `ShownPictures`, as is `changed`.
    """
    drawing = drawing_of(app)
    if not drawing.form:
        return None
    if find_spec("PIL") is None:
        if app.ui.pictures != "auto":
            # Not now, in the middle of a paint: the status line may have been drawn already.
            app.call_later(app.note, "pictures need Pillow: pip install 'dragoman[pictures]'")
        return None

    def write(text: str) -> bool:
        app.write_terminal(text)
        return not app.is_outside

    made = ShownPictures(drawing, find, write, changed)

    def resumed(_: object) -> None:
        """Another program had the terminal, which drops its images then."""
        made.forget()
        node.refresh()

    app.app_resume_signal.subscribe(node, resumed)
    return made


def drawing_of(app: Any) -> PictureDrawing:
    """Return how pictures are drawn now."""
    colours = None if app.no_color else app.console.color_system
    answers = app.answers
    form = picture_form(
        app.ui.pictures, os.environ, colours, is_ascii=app.glyphs is ASCII, has_graphics=answers.has_graphics
    )
    background = answers.background or ((255, 255, 255) if app.theme == "ansi-light" else (0, 0, 0))
    return PictureDrawing(form, background, colours == "truecolor", bool(os.environ.get("TMUX")))
