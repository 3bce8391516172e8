"""Prompts with what is attached to them, and commands of the user's own, of a client that works in lines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import duration, one_line
from dragoman.text.visible import label
from dragoman.tui.attachments import build, chips_in, output_chip
from dragoman.tui.completion import mentions
from dragoman.tui.shell_command import ShellCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.schema import v1
    from dragoman.tui.attachments import Chip
    from dragoman.tui.lines.client import LineClient
    from dragoman.tui.values import TypedPrompt

_LIVE_LINES: Final = 200
"""Of the output of a command that are written as they come; of a longer one, its end follows."""
_LAST_LINES: Final = 20
_LOOK_SECONDS: Final = 0.2


class PromptSender:
    """Sends prompts in the order in which they were typed, and runs commands behind `!`."""

    def __init__(self, client: LineClient) -> None:
        self.chips: dict[str, Chip] = {}
        """The attachments that a word in a text stands for."""
        self._client = client
        self._next: list[Chip] = []  # go with the next prompt, where there is no input to put them into
        self._building = asyncio.Lock()
        self._shell: ShellCommand | None = None
        self._running: asyncio.Task[None] | None = None

    # Prompts

    async def send(self, text: str) -> TypedPrompt:
        """Send a text with what is attached to it. It waits while a turn runs."""
        client, talk = self._client, self._client.talk
        for chip in self._next:
            text = f"{text} {chip.word}"
        self._next = []
        async with self._building:
            blocks = await self._build(text)
            is_waiting = talk.is_running or talk.phase != "ready"
            sent = talk.send(text, blocks)
        if is_waiting and not client.terminal.has_status:
            client.write(f"note: waiting, {len(talk.queued)} in the queue")
        return sent

    async def _build(self, text: str) -> Sequence[v1.ContentBlock]:
        if not mentions(text) and not chips_in(text, self.chips):
            return ()
        talk = self._client.talk
        made = await asyncio.to_thread(build, text, talk.folder, dict(self.chips), talk.accepts)
        for note in made.notes:
            self._client.write(f"note: {one_line(note)}")
        return made.blocks

    # Commands

    async def shell(self, words: str) -> None:
        """`!COMMAND` runs it; `!!` attaches the last one with its output, `!!COMMAND` runs and attaches."""
        is_shared = words.startswith("!")
        command = words.removeprefix("!").strip()
        if self._running is not None and not self._running.done():
            self._client.write("note: a command of yours still runs; Ctrl-C stops it")
        elif command:
            self._shell = ShellCommand(command, lambda: None)
            self._running = asyncio.ensure_future(self._run(self._shell, is_shared=is_shared))
        elif self._shell is not None and is_shared:
            self._share(self._shell)
        else:
            self._client.write("note: type a command behind !; !! attaches the last one with its output")

    def stop_shell(self) -> bool:
        """End the command that runs; False if there is none."""
        if self._running is None or self._running.done() or self._shell is None:
            return False
        self._shell.stop()
        return True

    def close(self) -> None:
        """The client ends, and with it the command."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, command: ShellCommand, *, is_shared: bool) -> None:
        client = self._client
        client.write(f"shell: {label(command.command, 200)}")
        work = asyncio.ensure_future(command.run(client.talk.folder, client.width() - 2))
        shown = 0
        try:
            while not work.done():
                _ = await asyncio.wait([work], timeout=_LOOK_SECONDS)
                shown = self._write_output(command, shown)
        finally:
            if not work.done():
                work.cancel()
        lines = command.output.split("\n")
        if len(lines) > shown and shown >= _LIVE_LINES:
            last = lines[shown:][-_LAST_LINES:]
            client.write(f"  ({len(lines) - shown - len(last)} lines left out)", *(f"  {line}" for line in last))
        after = f" after {duration(command.seconds).strip()}"
        more = "" if is_shared else "; !! attaches it to the prompt"
        client.write(f"shell: {one_line(command.ending)}{after}{more}")
        if is_shared:
            self._share(command)

    def _write_output(self, command: ShellCommand, shown: int) -> int:
        if shown >= _LIVE_LINES or not command.output:
            return shown
        lines = command.output.split("\n")
        self._client.write(*(f"  {line.expandtabs(8)}" for line in lines[shown:_LIVE_LINES]))
        return min(len(lines), _LIVE_LINES)

    def _share(self, command: ShellCommand) -> None:
        chip = output_chip(command.command, command.output, command.ending, self.chips)
        self.chips[chip.word] = chip
        if not self._client.terminal.attach(chip):
            self._next.append(chip)
            self._client.write(f"note: {label(chip.word, 80)} goes with your next prompt")
