"""The terminal client in this process, with a real host and real agents next to it.

What a user meets in a terminal, without the terminal and without processes: the local host listens at a socket of its
own, the built-in agent (with its scripted model) and the scripted agent run in the host, and each form of the client
gets the bytes of keys and shows lines. The time of questions is a clock that the test drives. What a terminal, signals
and the end of a process do is in the tests with a PTY (`test_terminal.py`, `test_inline.py`, `test_plain.py`).
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.agent import Agent
from dragoman.builtin.agent import build_agent
from dragoman.builtin.settings import AgentSettings
from dragoman.cli.commands import attach
from dragoman.cli.exec.options import Options
from dragoman.host.host import Visitor
from dragoman.host.in_process import InProcessAgent
from dragoman.host.local.agents import HOSTED_VARIABLE, MachineAgent, find_entry
from dragoman.host.local.local_host import LocalHost, open_local_host
from dragoman.host.local.place import find_places
from dragoman.rpc import Transport
from dragoman.settings.places import config_dir, data_dir, state_dir
from dragoman.testing.agent import scripted_agent
from dragoman.text.colour import Painter
from dragoman.transports.unix import UnixServer, UnixTransport, bind_unix
from dragoman.tui.lines.client import LineClient
from dragoman.tui.plain import PlainTerminal
from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit

SECONDS = 60.0
SCRIPTED: Mapping[str, Any] = {"agent": "dragoman", "model": "scripted"}
"""The built-in agent with its scripted model, as options of the command line."""
START = 1e9
"""No machine is up that long: whatever goes by a real clock, next to the one that is driven, fails."""


class Clock:
    """The time of questions and hints."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def let_pass(self, seconds: float = 4.0) -> None:
        """Let more time pass than a question needs to be read, and a hint stays."""
        self.now += seconds


class Shown:
    """Something that shows lines, and wakes those who wait for one."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def news(self) -> None:
        """Something may have changed."""
        self._news.set()

    async def wait_until(self, is_true: Callable[[], object], shown: Callable[[], object]) -> None:
        """Wait until something is so; the message of a failure has what is shown."""
        try:
            async with asyncio.timeout(SECONDS):
                while not is_true():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"it did not happen; there is:\n{shown()}") from None


class Picture(Shown):
    """A screen, which a test sees as it was when the text that it waited for had just been drawn.

    The client goes on while a test runs. What is drawn behind that moment is seen after the next wait or key, so that
    no test sees by chance what it did not wait for.
    """

    def __init__(self) -> None:
        super().__init__()
        self._wanted: Callable[[str], bool] | None = None
        self._kept: str | None = None

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self.drawn() if self._kept is None else self._kept

    def drawn(self) -> str:
        """What is on the screen now, whatever was waited for."""
        raise NotImplementedError

    def look_again(self) -> None:
        """See what is on the screen by now."""
        self._kept = None

    def news(self) -> None:
        if self._wanted is not None and self._wanted(drawn := self.drawn()):
            self._kept, self._wanted = drawn, None
        super().news()

    async def wait_until(self, is_true: Callable[[], object], shown: Callable[[], object]) -> None:
        self.look_again()
        await super().wait_until(is_true, shown)

    async def until(self, text: str) -> str:
        """Wait until the screen shows a text."""
        await self._until_drawn(lambda drawn: text in drawn, f"no {text!r} in")
        return self.text

    async def until_gone(self, text: str) -> str:
        """Wait until the screen shows a text no more."""
        await self._until_drawn(lambda drawn: text not in drawn, f"{text!r} is in")
        return self.text

    async def _until_drawn(self, is_so: Callable[[str], bool], message: str) -> None:
        self.look_again()
        self._wanted = is_so
        self.news()  # it may be there already
        await super().wait_until(lambda: self._wanted is None or self._is_over, lambda: f"{message}\n{self.drawn()}")
        assert self._wanted is None, f"the client ended before that: {message}\n{self.drawn()}"

    @property
    def _is_over(self) -> bool:
        return False


class AgentHere(MachineAgent):
    """An agent of ours that runs in the host; any other is a program, as usual."""

    def __init__(self, name: str, mark: str) -> None:
        super().__init__(name, mark)
        self._agent: Agent | None = None

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        name, _, model = self.name.partition(" --model ")
        if name not in ("dragoman", "scripted"):
            return await super().start(cwd, env)
        self._entry = find_entry(self.name, cwd)[0]
        if self._agent is None:
            self._agent = scripted_agent() if name == "scripted" else build_agent(_settings(model))
        return await InProcessAgent(self.name, self._agent).start(cwd, env)


def _settings(model: str) -> AgentSettings:
    """As `dragoman agent` has them."""
    return AgentSettings(
        model=model,
        store=data_dir() / "sessions.db",
        rules_file=config_dir() / "rules.json",
        model_lists=state_dir() / "models",
    )


class PlainHere(Shown):
    """Plain mode: what is typed, and the lines that are appended."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self._lines: list[str] = []
        self._read = 0
        self._typed = asyncio.Queue[str | None]()
        self._running: asyncio.Task[None] | None = None

    def start(self, opening: attach.TerminalOpening, session_id: str | None, *, chooses: bool = False) -> None:
        """Begin to work."""
        terminal = _LinesTerminal(self._lines, self._typed, self.news)
        client = LineClient(opening, terminal, session_id, self.clock, chooses=chooses)
        self._running = asyncio.create_task(client.run(asyncio.ensure_future(terminal.read(client))))
        self._running.add_done_callback(lambda done: self.news())

    @property
    def seen(self) -> list[str]:
        """The lines up to the one that was waited for; all of them when the client has ended."""
        return self._lines if self._is_over else self._lines[: self._read]

    def type(self, *lines: str) -> None:
        for line in lines:
            self._typed.put_nowait(line)

    async def until(self, text: str) -> str:
        """The next line that contains a text."""
        assert self._running is not None
        while True:
            await self.wait_until(
                lambda: len(self._lines) > self._read or self._is_over, lambda: f"no {text!r} in {self._lines}"
            )
            assert len(self._lines) > self._read, f"the client ended before {text!r}; there is {self._lines}"
            self._read += 1
            if text in self._lines[self._read - 1]:
                return self._lines[self._read - 1]

    async def answer(self, line: str) -> None:
        """Type an answer when the question could be read."""
        await self.until("answer with ")
        self.clock.let_pass()
        self.type(line)

    async def end(self) -> None:
        """Ctrl-D, and the rest of the output."""
        self._typed.put_nowait(None)
        assert self._running is not None
        await asyncio.wait_for(self._running, SECONDS)

    async def close(self) -> None:
        assert self._running is not None
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    @property
    def _is_over(self) -> bool:
        return self._running is None or self._running.done()


class _LinesTerminal(PlainTerminal):
    """The terminal of plain mode, without stdin and stdout."""

    def __init__(self, seen: list[str], typed: asyncio.Queue[str | None], news: Callable[[], None]) -> None:
        super().__init__(Painter(False))
        self._seen, self._typed, self._news = seen, typed, news

    def write(self, lines: Any) -> None:
        self._seen += "\n".join(lines).split("\n")
        self._news()

    def width(self) -> int:
        return 80

    async def _line(self) -> str | None:
        return await self._typed.get()


class InlineHere(Picture):
    """Inline mode: keys go through the parser of prompt_toolkit, and a terminal emulator shows what is written."""

    def __init__(self, clock: Clock) -> None:
        import pyte

        super().__init__()
        self.clock = clock
        self.raw = ""
        self.screen = pyte.HistoryScreen(80, 24, history=5_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self._running: asyncio.Task[None] | None = None

    def start(
        self,
        opening: attach.TerminalOpening,
        session_id: str | None,
        monkeypatch: pytest.MonkeyPatch,
        *,
        chooses: bool = False,
    ) -> None:
        """Begin to work."""
        from prompt_toolkit.application import create_app_session
        from prompt_toolkit.data_structures import Size
        from prompt_toolkit.input import create_pipe_input

        from dragoman.tui.inline import terminal as inline

        self._keyboard_context = create_pipe_input()
        self._keyboard = self._keyboard_context.__enter__()
        monkeypatch.setattr(inline, "_size", lambda: Size(rows=self.screen.lines, columns=self.screen.columns))
        with monkeypatch.context() as patched, create_app_session(input=self._keyboard):
            patched.setattr("sys.__stdout__", _Emulated(self))
            patched.setenv("TERM", "xterm-256color")
            self.terminal = inline.InlineTerminal(
                opening, session_id, has_colour=True, clock=self.clock, chooses=chooses
            )
        self._running = asyncio.create_task(self.terminal.run(None))
        self._running.add_done_callback(lambda done: self.news())

    def take(self, text: str) -> None:
        """Take what the client writes."""
        self.raw += text
        self._stream.feed(text)
        self.news()

    def drawn(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def everything(self) -> str:
        """The history of the terminal, then its screen."""
        top = ["".join(row[column].data for column in range(80)).rstrip() for row in self.screen.history.top]
        return "\n".join([*top, self.text])

    def type(self, text: str) -> None:
        self.look_again()
        self._keyboard.send_text(text)

    async def answer(self, keys: str, until: str) -> None:
        """Type an answer when the question could be read."""
        self.clock.let_pass()
        self.type(keys)
        await self.until(until)
        self.clock.let_pass()

    async def end(self) -> None:
        """Wait until the client has ended."""
        assert self._running is not None
        await asyncio.wait_for(self._running, SECONDS)

    async def close(self) -> None:
        assert self._running is not None
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        self._keyboard_context.__exit__(None, None, None)

    @property
    def _is_over(self) -> bool:
        return self._running is None or self._running.done()


class _Emulated:
    """The output of inline mode."""

    encoding = "utf-8"

    def __init__(self, shown: InlineHere) -> None:
        self._shown = shown

    def write(self, text: str) -> None:
        self._shown.take(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation("not a file")


class ScreenHere(Picture):
    """The full screen in Textual's test driver; keys go through the parser of the client."""

    def __init__(self, app: Any, clock: Clock) -> None:
        super().__init__()
        self.app = app
        self.clock = clock

    def drawn(self) -> str:
        from tests.tui.grids import grid

        return "\n".join(grid(self.app))

    def strips(self) -> list[Any]:
        """What is on the screen, with its styles."""
        found: list[Any] = self.app.screen._compositor.render_strips()
        return found

    def type(self, text: str) -> None:
        """Type keys, with a pause behind them: an escape character at the end is a key of its own."""
        from dragoman.tui.screen.keys.pasted_keys import PasteParser

        self.look_again()
        parser = PasteParser()
        for event in (*parser.feed(text), *parser.feed("")):
            self.app.post_message(event)

    async def answer(self, keys: str, until: str) -> None:
        """Move into the card, and type an answer when it could be read."""
        await self.until("\n◆ question: ")
        await self.until("needs your answer")
        self.clock.let_pass()
        self.type("\t")
        await self.until("to answer\n")
        self.type(keys)
        await self.until(until)
        self.clock.let_pass()


class UserHere(HostPlaceKit):
    """A user with a project and a home, whose clients run in this process.

    Without `host_here` the first client starts the local host as a program, and that its agents.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, warm: WarmPython | None = None) -> None:
        super().__init__(folder, warm)
        self.clock = Clock()
        self._monkeypatch = monkeypatch
        for name in os.environ.keys() - self.environment.keys():
            monkeypatch.delenv(name)
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def agent_pids(self) -> list[int]:
        """The agents of the host in this process that are programs."""
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as listing:
            children = list(map(int, listing.read().split()))
        found = [pid for pid in children if HOSTED_VARIABLE.encode() in Path(f"/proc/{pid}/environ").read_bytes()]
        assert found, "no agent runs"
        return found

    def opening(self, options: Mapping[str, Any]) -> attach.TerminalOpening:
        """How the command line opens sessions with these options."""
        return attach.TerminalOpening(Options(**{"cwd": str(self.project), **options}))

    async def find_session(self, name: str | None = None) -> str:
        """The session that the command line finds by a name or the start of an id; without one, with `--continue`."""
        given = SimpleNamespace(session=name, resume=None, **{"continue": name is None})
        found = await asyncio.to_thread(attach._session, given, str(self.project))
        assert found is not None
        return found.session_id

    @asynccontextmanager
    async def host_here(self, *, has_programs: bool = False) -> AsyncIterator[LocalHost]:
        """The local host in this process, where its clients look for it; `has_programs`: its agents are programs."""
        place = find_places().first
        place.make()
        data_dir().mkdir(parents=True, exist_ok=True)
        host = open_local_host(data_dir() / "hosted.db", place.mark)
        if not has_programs:
            found: dict[str, AgentHere] = {}
            self._monkeypatch.setattr(host, "find_source", lambda name: found.setdefault(name, AgentHere(name, "here")))
        serving: set[asyncio.Task[None]] = set()

        def opened(transport: UnixTransport) -> None:
            serving.add(asyncio.create_task(host.serve(transport, Visitor())))

        server = UnixServer(bind_unix(place.socket), opened)
        host.describe(place)
        try:
            yield host
        finally:
            server.close()
            os.unlink(place.socket)
            await host.close("The host ends.")
            if serving:
                await asyncio.wait(serving)
            await host.log.close()
            if host.ledger is not None:
                host.ledger.close()

    @asynccontextmanager
    async def plain(
        self, *, session_id: str | None = None, chooses: bool = False, **options: Any
    ) -> AsyncIterator[PlainHere]:
        client = PlainHere(self.clock)
        client.start(self.opening(options), session_id, chooses=chooses)
        try:
            yield client
        finally:
            await client.close()

    @asynccontextmanager
    async def inline(
        self, *, session_id: str | None = None, chooses: bool = False, **options: Any
    ) -> AsyncIterator[InlineHere]:
        client = InlineHere(self.clock)
        client.start(self.opening(options), session_id, self._monkeypatch, chooses=chooses)
        try:
            yield client
        finally:
            await client.close()

    @asynccontextmanager
    async def screen(
        self, *, session_id: str | None = None, chooses: bool = False, **options: Any
    ) -> AsyncIterator[ScreenHere]:
        from dragoman.tui.screen.app import TerminalApp
        from dragoman.tui.screen.start import ScreenStart

        start = ScreenStart(chooses=chooses, announces=not chooses)
        app = TerminalApp(self.opening(options), session_id=session_id, start=start)
        client = ScreenHere(app, self.clock)
        app.cards.clock = self.clock
        paint = app._paint

        def painted() -> None:
            paint()
            client.news()

        self._monkeypatch.setattr(app, "_paint", painted)
        async with app.run_test(size=(80, 24)):
            yield client
