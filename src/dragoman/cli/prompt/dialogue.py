"""One question at a time between a program and a person: write, ask, read, ask again.

Owns the terminal while a question is open and what is said when the question is taken back. Knows the keyboard and
the colours; what is asked comes from the other modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.colour import DIM, RED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.prompt.keyboard import Keyboard
    from dragoman.text.colour import Painter

_MARGIN: Final = 1  # a line that fills a terminal to the last column wraps on some


class Ended(Exception):
    """The person ended the input: nothing was answered."""


class Dialogue:
    """An open question."""

    def __init__(self, keyboard: Keyboard, paint: Painter, agent: str) -> None:
        self._keyboard = keyboard
        self.paint = paint
        self.agent = agent

    @property
    def width(self) -> int:
        """Columns a line may take."""
        return max(40, self._keyboard.size[0] - _MARGIN)

    @property
    def rows(self) -> int:
        """Lines the screen has."""
        return max(10, self._keyboard.size[1])

    async def tell(self, *lines: str) -> None:
        """Writes whole lines."""
        await self._keyboard.write("".join(f"{line}\n" for line in lines))

    async def ask(self, prompt: str) -> str:
        """The line typed after the prompt.

        Raises: Ended at the end of the input.
        """
        await self._keyboard.write(prompt)
        line = await self._keyboard.line()
        if line is None:
            await self._keyboard.write("\n")
            raise Ended
        return line

    async def refuse(self, reason: str) -> None:
        """Says why a line was not taken."""
        await self.tell("  " + self.paint(reason, RED))

    async def page(self, lines: Sequence[str]) -> None:
        """Shows all lines, a screen at a time; `q` ends it early."""
        step = self.rows - 2
        for start in range(0, len(lines), step):
            await self.tell(*lines[start : start + step])
            left = len(lines) - start - step
            if (
                left > 0
                and (await self.ask(self.paint(f"  {left} more lines: Enter goes on, q stops > ", DIM))).strip() == "q"
            ):
                return

    def withdraw(self) -> None:
        """Says that no answer is needed any more; at once, since the question is being given up."""
        self._keyboard.write_now("\n" + self.paint("  this question was withdrawn; nothing was answered", DIM) + "\n")
