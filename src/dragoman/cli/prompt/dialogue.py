"""An open question to the user: write lines, ask, read the answer, ask again.

Uses the keyboard and colours. What is asked comes from the other modules of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.colour import DIM, RED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from dragoman.cli.prompt.keyboard import Keyboard
    from dragoman.text.colour import Painter

_MARGIN: Final = 1  # a line that fills a terminal to the last column wraps on some


class InputEnded(Exception):
    """The user ended the input without an answer."""


class Dialogue:
    """An open question on the terminal."""

    def __init__(self, keyboard: Keyboard, paint: Painter, agent: str) -> None:
        self._keyboard = keyboard
        self.paint = paint
        self.agent = agent

    @property
    def width(self) -> int:
        """The number of columns a line may take."""
        return max(40, self._keyboard.size[0] - _MARGIN)

    @property
    def rows(self) -> int:
        """The number of lines of the screen."""
        return max(10, self._keyboard.size[1])

    async def write(self, *lines: str) -> None:
        """Write whole lines."""
        await self._keyboard.write("".join(f"{line}\n" for line in lines))

    async def ask(self, prompt: str) -> str:
        """Write the prompt and return the line typed after it.

        Raises: InputEnded at the end of the input.
        """
        await self._keyboard.write(prompt)
        line = await self._keyboard.line()
        if line is None:
            await self._keyboard.write("\n")
            raise InputEnded
        return line

    async def ask_again(self, prompt: str) -> str:
        """Ask after something else was waited for: what was typed meanwhile does not count. Raises: InputEnded."""
        self._keyboard.forget()
        return await self.ask(prompt)

    def hidden(self) -> AbstractContextManager[None]:
        """Show nothing of what is typed until this is left."""
        return self._keyboard.hidden()

    async def refuse(self, reason: str) -> None:
        """Show why a line was not accepted."""
        await self.write("  " + self.paint(reason, RED))

    async def page(self, lines: Sequence[str]) -> None:
        """Show all lines, a screen at a time; `q` ends it early."""
        step = self.rows - 2
        for start in range(0, len(lines), step):
            await self.write(*lines[start : start + step])
            left = len(lines) - start - step
            prompt = self.paint(f"  {left} more lines: Enter continues, q stops > ", DIM)
            if left > 0 and (await self.ask(prompt)).strip() == "q":
                return

    def withdraw(self) -> None:
        """Show, without waiting, that no answer is needed any more."""
        self._keyboard.write_now("\n" + self.paint("  this question was withdrawn; nothing was answered", DIM) + "\n")
