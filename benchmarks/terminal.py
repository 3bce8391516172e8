"""What the terminal client costs: ``python -m benchmarks.terminal``.

Each figure is taken in a process of its own, with the real app on a screen of 80 by 24 that draws to nothing. Times are
seconds of CPU, because the wall clock of a busy machine says nothing. Goals are printed; nothing is asserted: what must
hold is tested in tests/tui/test_speed.py, by ratios. `make bench` runs it, too.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

SIZE = (80, 24)
UPDATES = 10_000
OUTPUT_BYTES = 100_000_000
ANSWER_BYTES = 20_000
PAINTS = 200
# (Textual imports its tree itself.)
LATE_MODULES = (
    *("markdown_it", "pygments", "pyte", "PIL", "textual.widgets._markdown", "textual.widgets._data_table"),
    *("dragoman.view.layout", "dragoman.view.prose", "dragoman.tui.screen.conversation.pictures"),
)


class Nowhere:
    """Where no session is opened."""

    cwd = "/home/user/project"
    worktree = ""
    is_temporary = False
    mode = ""

    def choose(self, agent: str, model: str) -> None:
        """Nothing is chosen here."""

    def new(self, agent: str | None) -> dict[str, Any]:
        raise AssertionError("nothing is opened here")


def make_app() -> Any:
    """The real app, with a conversation that is connected to nothing."""
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.screen.app import TerminalApp

    class StillApp(TerminalApp):
        def run_conversation(self, conversation: HostedConversation) -> None:
            conversation.phase, conversation.agent = "ready", "claude"
            self.changed()

    return StillApp(Nowhere())


def import_textual() -> dict[str, Any]:
    """CPU of a process that imports Textual, and draws nothing."""
    import textual.app

    return {"cpu": time.process_time(), "name": textual.app.__name__}


def first_frame() -> dict[str, Any]:
    """CPU up to the first frame, and the modules that it needed."""
    gc.disable()  # as `tui.full` does
    app = make_app()
    found: dict[str, Any] = {}

    def done() -> None:
        found["cpu"] = time.process_time()
        found["modules"] = sorted(name for name in sys.modules if name.startswith(LATE_MODULES))
        app.exit()

    app.call_after_refresh(done)
    app.run(headless=True, size=SIZE)
    return found


@asynccontextmanager
async def shown() -> AsyncIterator[tuple[Any, Any]]:
    """The app on its screen."""
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        yield app, pilot


async def paint(app: Any, pilot: Any) -> None:
    """One paint of the app, until it is drawn."""
    app.changed()
    app._paint()
    await pilot.pause()


def long_session(state: Any, updates: int = UPDATES) -> None:
    """A session with all kinds of blocks, of which about a third are tool calls."""
    from dragoman.schema import v1
    from dragoman.state import fold

    diff = v1.Diff("a.py", "def f():\n    return 2\n", old_text="def f():\n    return 1\n")
    for number in range(updates // 4):
        call = str(number)
        fold(
            state, v1.AgentMessageChunk(v1.TextContent(f"## Step {number}\n\nSome **words** about `x`.\n\n- a\n- b\n"))
        )
        fold(state, v1.ToolCall(call, f"Edit file {number}", kind="edit", status="in_progress"))
        fold(state, v1.ToolCallUpdate(call, status="completed", content=[diff]))
        fold(state, v1.AgentThoughtChunk(v1.TextContent("Let me think about it. " * 20)))


def interaction() -> dict[str, Any]:
    """Milliseconds of CPU for a key, a page and a new piece of text, with ten thousand updates."""

    async def run() -> dict[str, Any]:
        async with shown() as (app, pilot):
            begun = time.process_time()
            long_session(app.conversation.state)
            folded = time.process_time()
            await paint(app, pilot)
            opened = time.process_time()
            transcript = app.query_one("#transcript")
            while not transcript.layout_of.is_settled:
                await paint(app, pilot)
            found = {"fold": folded - begun, "open_ms": 1000 * (opened - folded)}
            found["type_ms"] = await _median(lambda: pilot.press("x"))
            found["scroll_ms"] = await _median(lambda: pilot.press("pageup"))
            transcript.follow()
            await pilot.pause()
            from dragoman.schema import v1
            from dragoman.state import fold

            async def grow() -> None:
                fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent("more words ")))
                await paint(app, pilot)

            found["update_ms"] = await _median(grow)
            return found

    return asyncio.run(run())


async def _median(action: Callable[[], Any], rounds: int = 15) -> float:
    times = []
    for _ in range(rounds):
        start = time.process_time()
        await action()
        times.append(time.process_time() - start)
    return 1000 * sorted(times)[rounds // 2]


def answer_text(size: int = ANSWER_BYTES) -> str:
    """An answer with headings, paragraphs, lists and code."""
    part = (
        "## A heading\n\nA paragraph with **bold** words and `code`, which is long enough to be wrapped at the end of "
        "the line, as most are.\n\n- an item\n- another item with more words\n\n"
        "```python\ndef f(x):\n    return x + 1\n```\n\n"
    )
    return (part * (size // len(part) + 1))[:size]


def chunks_of_answer() -> list[Any]:
    """An answer in as many pieces as there are paints."""
    from dragoman.schema import v1

    text = answer_text()
    step = len(text) // PAINTS
    return [v1.AgentMessageChunk(v1.TextContent(text[at : at + step])) for at in range(0, len(text), step)]


def streamed_plain() -> dict[str, Any]:
    """CPU of a process that writes an answer in plain mode, piece by piece."""
    import dragoman.tui.plain
    from dragoman.state import SessionState, fold
    from dragoman.text.colour import Painter
    from dragoman.view.appended import AppendedLines

    state, lines, out = SessionState(), AppendedLines(80, Painter(True)), io.StringIO()
    start = time.process_time()
    for chunk in chunks_of_answer():
        fold(state, chunk)
        out.writelines(lines.feed(state))
    out.writelines(lines.feed(state, is_over=True))
    whole = time.process_time()
    return {"whole": whole, "writing": whole - start, "client": dragoman.tui.plain.__name__}


async def drawn(app: Any) -> None:
    """Wait until a paint is on the screen. Not by the pilot, whose own waiting takes a quarter as long as a paint."""
    done = asyncio.Event()
    _ = app.screen.call_after_refresh(done.set)
    await done.wait()


def streamed_screen() -> dict[str, Any]:
    """CPU of a process that paints an answer 200 times, each time drawn by Textual's compositor.

    The whole process is compared with the whole process of plain mode, start included. The answer alone costs a hundred
    times as much as plain mode, which only appends a few lines: about a third of it is our painting, the rest is
    Textual's compositor, which draws every line of the conversation again because a growing answer scrolls.
    """
    from dragoman.state import fold

    async def run() -> tuple[float, int]:
        async with shown() as (app, _):
            draws = 0
            refresh = app.screen._compositor_refresh

            def counted() -> None:
                nonlocal draws
                draws += 1
                refresh()

            app.screen._compositor_refresh = counted
            start = time.process_time()
            for chunk in chunks_of_answer():
                fold(app.conversation.state, chunk)
                app.changed()
                app._paint()
                await drawn(app)
            return time.process_time() - start, draws

    painting, draws = asyncio.run(run())
    return {"whole": time.process_time(), "painting": painting, "draws": draws}


def memory(updates: int = UPDATES, output_bytes: int = OUTPUT_BYTES) -> dict[str, Any]:
    """The most memory of a client that was sent so much, a hundred terminals among it."""
    from time import monotonic

    from dragoman.schema import v1
    from dragoman.state import fold

    line = "tests/test_importer.py::test_one \x1b[32mPASSED\x1b[0m\n"
    piece = line * (32_768 // len(line))

    async def run() -> None:
        async with shown() as (app, pilot):
            state, watched = app.conversation.state, app.conversation.watched
            long_session(state, updates)
            await paint(app, pilot)
            for number in range(output_bytes // len(piece)):
                call = f"run-{number // 32}"
                if number % 32 == 0:
                    content = [v1.Terminal(f"t-{call}")]
                    fold(state, v1.ToolCall(call, "pytest", kind="execute", status="in_progress", content=content))
                meta = {"terminal_output": {"terminal_id": f"t-{call}", "data": piece}}
                update = v1.ToolCallUpdate(call, meta=meta)
                fold(state, update)
                watched.note(update, monotonic())
                if number % 20 == 0:
                    await paint(app, pilot)
            await paint(app, pilot)

    asyncio.run(run())
    with open("/proc/self/status") as status:
        peak = next(int(row.split()[1]) for row in status if row.startswith("VmHWM"))
    return {"peak_mb": peak / 1024}


FIGURES = {
    each.__name__: each for each in (import_textual, first_frame, interaction, streamed_plain, streamed_screen, memory)
}


def taken(name: str) -> dict[str, Any]:
    """A figure, from a process of its own.

    Its modules keep their byte code, as those of an installed client do: where `PYTHONDONTWRITEBYTECODE` is set, only
    Textual would have it, and the figure would be the time that compiling takes.
    """
    words = [sys.executable, "-m", "benchmarks.terminal", name]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    bare = min(taken("import_textual")["cpu"] for _ in range(5))
    frame = min((taken("first_frame") for _ in range(5)), key=lambda each: float(each["cpu"]))
    print(f"first frame      {frame['cpu']:.2f} s of CPU (goal 0.30), {frame['cpu'] / bare:.2f} times the import of "
          f"Textual (goal 1.6); modules that should come later: {frame['modules'] or 'none'}")  # fmt: skip
    found = taken("interaction")
    print(f"10,000 updates   open {found['open_ms']:.0f} ms; a key {found['type_ms']:.1f} ms, a page "
          f"{found['scroll_ms']:.1f} ms, a piece of text {found['update_ms']:.1f} ms (goal 50)")  # fmt: skip
    found, plain = taken("streamed_screen"), taken("streamed_plain")
    print(f"20 KB answer     {found['painting']:.2f} s of CPU with 200 paints, {1000 * plain['writing']:.0f} ms in "
          f"plain mode, {found['painting'] / plain['writing']:.0f} times as much; the whole process "
          f"{found['whole'] / plain['whole']:.1f} times (goal 15)")  # fmt: skip
    print(f"memory           {taken('memory')['peak_mb']:.0f} MB after 10,000 updates and 100 MB of output (goal 80)")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(FIGURES[sys.argv[1]]()))
    else:
        main()
