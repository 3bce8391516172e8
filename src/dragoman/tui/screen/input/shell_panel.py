"""The command of the user's that runs or ran last (`!command`), with its output, above the input.

Esc stops it; when it is over, Esc or the next prompt closes the panel. Nothing of it is sent, unless the user asks for
that: `!!command` runs a command, `!!` alone takes the last one, and both attach it with its output to the next prompt.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from dragoman.text.terminal import one_line
from dragoman.text.visible import label
from dragoman.tui.attachments import output_chip
from dragoman.tui.screen.strips import STYLES, shown_text, strip_of
from dragoman.view.labels import seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.screen.input.prompt_input import PromptInput
    from dragoman.tui.shell_command import ShellCommand
    from dragoman.view.rails import Style

_ROWS: Final = 12


class ShellPanel(Widget):
    """The panel of one command."""

    DEFAULT_CSS = "ShellPanel { display: none; height: auto; }"

    def __init__(self, shown_conversation: Callable[[], HostedConversation], **settings: Any) -> None:
        super().__init__(**settings)
        self.command: ShellCommand | None = None
        self._shown_conversation = shown_conversation
        self._is_dirty = False

    def on_mount(self) -> None:
        self.set_interval(0.1, self._paint)

    def ask(self, line: str, prompt: PromptInput) -> None:
        """Do what a line behind `!` asks for."""
        is_shared = line.startswith("!")
        command = line.removeprefix("!").strip()
        if self.command is not None and not self.command.ending:
            prompt.put_before(f"!{line}")
            self.post_message(prompt.Noted("a command runs already; Esc stops it"))
        elif command:
            from dragoman.tui.shell_command import ShellCommand

            self.command = ShellCommand(command, self._changed)
            self.display = True
            self._changed()
            self.run_worker(self._run(self.command, prompt if is_shared else None), group="shell")
        elif is_shared and self.command is not None:
            self._share(self.command, prompt)
        else:
            self.post_message(prompt.Noted("type a command behind !; !! attaches the last one with its output"))

    async def _run(self, command: ShellCommand, prompt: PromptInput | None) -> None:
        await command.run(self._shown_conversation().folder, self.size.width or self.app.size.width)
        if prompt is not None and self.command is command:
            self._share(command, prompt)

    def _share(self, command: ShellCommand, prompt: PromptInput) -> None:
        prompt.attach(output_chip(command.command, command.output, command.ending, prompt.chips))
        self.display = False

    @property
    def is_running(self) -> bool:
        """Whether a command runs."""
        return self.command is not None and not self.command.ending

    def escape(self) -> bool:
        """Stop the command, or close the panel. False if there is neither."""
        if self.command is not None and not self.command.ending:
            self.command.stop()
            return True
        was_shown, self.display = self.display, False
        return was_shown

    def close(self) -> None:
        """Close the panel of a command that is over."""
        if self.command is not None and self.command.ending:
            self.display = False

    # Drawing

    def _changed(self) -> None:
        self._is_dirty = True

    def _paint(self) -> None:
        if self._is_dirty and self.command is not None:
            self._is_dirty = False
            self.styles.height = min(_ROWS, len(self.command.lines)) + 2
            self.refresh(layout=True)

    def render_line(self, y: int) -> Strip:
        width, command = self.size.width, self.command
        if command is None:
            return Strip.blank(width)
        shown = list(command.lines)[-_ROWS:]
        if y == 0:
            return strip_of(((f"! {label(command.command, max(1, width - 2))}", "bold"),), width)
        if y <= len(shown):
            return _coloured(shown[y - 1], width)
        if y > len(shown) + 1:
            return Strip.blank(width)
        more = f" · {len(command.lines):,} lines, {_ROWS} shown" if len(command.lines) > _ROWS else ""
        if not command.ending:
            return strip_of(((f"  running{more} · Esc stops it", "warn"),), width)
        style: Style = "good" if command.ending == "exit 0" else "bad"
        after = f" after {seconds_text(command.seconds)}{more} · Esc closes, !! attaches it to the prompt"
        return strip_of(((f"  {one_line(command.ending)}", style), (after, "dim")), width)


def _coloured(line: str, width: int) -> Strip:
    """Return a line of output with its colours; everything else was removed from it, and is removed here once more."""
    from rich.ansi import AnsiDecoder

    decoded = AnsiDecoder().decode_line(line.expandtabs(8))
    segments = [Segment(shown_text("│ "), STYLES["dim"])]
    text = decoded.plain
    marks = sorted({0, len(text), *(at for span in decoded.spans for at in (span.start, span.end))})
    for start, end in pairwise(marks):
        style = STYLES[""]
        for span in decoded.spans:
            if span.start <= start and end <= span.end and not isinstance(span.style, str):
                style += span.style
        segments.append(Segment(shown_text(text[start:end]), style))
    return Strip(segments).adjust_cell_length(width, STYLES[""])
