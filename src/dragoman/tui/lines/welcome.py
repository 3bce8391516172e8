"""The welcome as lines: the rows with their numbers, and a typed line that chooses one.

It opens by itself if nothing is set up, and with `/agents`. An empty line takes the marked row. A key is typed into
`dragoman agent login`, which has the terminal meanwhile and does not show it, and `dragoman agents install` shows its
progress in the same way. What there is comes from `tui/start/welcome.py`. Loaded when it is shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError
from dragoman.process.own_program import own_command
from dragoman.text.terminal import one_line
from dragoman.text.visible import label
from dragoman.tui.background import in_turn
from dragoman.tui.inline.coloured import texts_of
from dragoman.tui.start.welcome import (
    INTRODUCTION,
    SETTLED_SECONDS,
    ChosenAgent,
    Welcome,
    WelcomeRow,
    chosen_of,
    listed_lines,
    look,
    signs_of,
)

if TYPE_CHECKING:
    from dragoman.tui.interface import Opening
    from dragoman.tui.lines.client import LineClient


class LineWelcome:
    """The rows of one look at this machine, until one is chosen."""

    def __init__(self, client: LineClient, opening: Opening, *, is_first: bool) -> None:
        self._client = client
        self._opening = opening
        self._is_first = is_first
        self._found: Welcome | None = None
        self._has_all = False
        self._shown_at = 0.0
        self.chosen = asyncio.Event()
        """Set when a row was chosen."""

    async def show(self) -> None:
        """Look at this machine, and write what there is."""
        self._found = await in_turn(look, self._client.conversation.folder)
        self._write_rows()

    def _write_rows(self) -> None:
        assert self._found is not None
        client, rows = self._client, self._rows
        lines = listed_lines(self._found, client.width(), has_all=self._has_all)
        for note in self._found.notes:
            client.note(note)
        client.write(INTRODUCTION, *texts_of(lines, has_colour=client.terminal.paint.has_colour))
        best = rows[self._found.best]
        sign = signs_of(rows)[self._found.best]
        back = "" if self._is_first else "; /cancel goes back"
        self._shown_at = client.conversation.clock()
        client.write(f"question: a number or a letter; Enter alone takes {sign}, {label(best.name, 30)}{back}")

    @property
    def _rows(self) -> list[WelcomeRow]:
        return [] if self._found is None else self._found.shown(has_all=self._has_all)

    async def take(self, text: str) -> bool:
        """Return whether a line was for the welcome: what chooses a row, or at the start any line but a command.

        Raises: DragomanError if a row cannot be started.
        """
        rows, signs = self._rows, signs_of(self._rows)
        conversation = self._client.conversation
        if not rows or conversation.questions or conversation.forms:  # what an agent asks goes first
            return False
        if (text in signs or not text) and conversation.clock() - self._shown_at < SETTLED_SECONDS:
            self._client.note("this list was just written; choose again")
        elif text in signs or not text:
            assert self._found is not None
            await self._choose(rows[signs.index(text) if text else self._found.best])
        elif text == "m" and not self._has_all:
            self._has_all = True
            self._write_rows()
        elif text == "r":
            await self.show()
        elif text == "/cancel" and not self._is_first:
            self.chosen.set()
        elif self._is_first and not text.startswith("/"):
            self._client.note("choose first what to work with: a number or a letter of the list above")
        else:
            if not self._is_first:
                self.chosen.set()  # the user goes on without a choice
            return False
        return True

    async def _choose(self, row: WelcomeRow) -> None:
        if row.kind == "key":
            before = {row.name for row in self._rows if row.kind == "model"}
            if await self._run("agent", "login"):
                await self.show()
                new = [row for row in self._rows if row.kind == "model" and row.name not in before]
                if new:
                    await self._choose(new[0])
            return
        if row.kind == "demo":
            _ = await self._run("demo", "--talk")
            self._write_rows()
            return
        if row.kind == "install" and not row.problem:
            if await self._run("agents", "install", row.agent, "--yes"):
                await self._use(ChosenAgent(row.agent))
            return
        await self._use(await chosen_of(row))

    async def _run(self, *words: str) -> bool:
        """Run a command of ours on this terminal; False if it failed, which it has shown."""
        from dragoman.process.foreground import run_in_foreground

        client = self._client
        async with client.terminal.handed_over():
            # In the same form: a reader of lines gets no screen.
            env = {} if client.terminal.has_status else {"ACCESSIBLE": "1"}
            code = await run_in_foreground(own_command(*words), cwd=client.conversation.folder, env=env)
        if code:
            client.note(f"dragoman {one_line(' '.join(words))} ended with code {code}; choose again")
        return code == 0

    async def _use(self, chosen: ChosenAgent) -> None:
        """Begin with what was chosen, and remember it. Raises: DragomanError."""
        client = self._client
        self._opening.choose(chosen.agent, chosen.model)
        try:
            client.preferences.choose(chosen.agent, chosen.model)
        except ConfigError as error:
            client.note(f"the choice is not remembered: {error}")
        client.note(f"beginning with {label(chosen.model or chosen.agent, 60)}")
        self.chosen.set()
        if not self._is_first:
            conversation = client.conversation
            if conversation.phase == "failed":
                conversation.retry(agent=chosen.agent, is_new=True)
            else:
                await conversation.switch(None, agent=chosen.agent)


async def show_agents(client: LineClient, words: str) -> None:
    """Write what is on this machine; the next line chooses what a new session begins with.

    With words it is a command of the agent, if the agent has one of this name.
    """
    if words and any(command.name == "agents" for command in client.conversation.state.commands):
        _ = await client.prompts.send(f"/agents {words}")
    else:
        await client.open_welcome()
