"""Grids of text for the blocks of a conversation, one readable file for each case.

`python -m tests.view.golden_grids --write` writes them again; read the difference before it is committed. Each file has
the lines at 80 and 160 columns, with Unicode and with ASCII glyphs, and for the first grid the styles: line, columns,
name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from dragoman.schema import Unknown, v1
from dragoman.state import SessionState, fold
from dragoman.view.build import blocks_of
from dragoman.view.rails import ASCII, UNICODE, Glyphs, RailView, rail_lines
from dragoman.view.watched import WatchedSession

FOLDER = Path(__file__).parent / "golden"
PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA10dzkAAAA"  # the beginning of a PNG of 640 by 480
MARKDOWN = """\
# The importer

The loop ends *one row early*: `range(n - 1)`. **I will change it**, see [the docs](https://example.org/range) and
https://example.org. ~~Not this.~~

- first, with words enough that the line has to be continued below the first word of the item, not below its mark
  - nested
- [x] done

3. three
4. four

> a quote
> of two lines

| name | value |
|------|-------|
| `a`  | 1     |
| 漢字 | 22    |

| a column with a long name | another column with a long name | and one more column |
|---|---|---|
| a cell with many words in it | and another one with many words | and the last one of them |

```python
def f(n):
    return [row for row in range(n) if row % 2 == 0 and row % 3 == 0 and row % 5 == 0 and row > 10]
```

---
The end.
"""


def say(text: str) -> v1.AgentMessageChunk:
    return v1.AgentMessageChunk(v1.TextContent(text))


def markdown(state: SessionState, watched: WatchedSession) -> None:
    fold(state, say(MARKDOWN))


def messages(state: SessionState, watched: WatchedSession) -> None:
    link = v1.ResourceLink("a.py", "file:///home/user/a.py")
    state.begin_turn([v1.TextContent("why does it\ndrop the last row?"), v1.ImageContent(PIXELS, "image/png"), link])
    watched.begin_turn(0, 0.0)
    fold(state, v1.AgentThoughtChunk(v1.TextContent("let me think about that")))
    fold(state, say("Because."))
    state.end_turn("end_turn", v1.Usage(1200, 1000, 200))
    watched.end_turn(0, 14.0)
    state.begin_turn([v1.TextContent("and now?")])
    state.end_turn("cancelled")


def tools(state: SessionState, watched: WatchedSession) -> None:
    def call(id: str, title: str, seconds: float, status: str, **members: object) -> None:
        watched.note(v1.ToolCall(id, title), 0.0)
        update = v1.ToolCall(id, title, status=status, **members)  # type: ignore[arg-type]  # as the case gives them
        fold(state, update)
        watched.note(v1.ToolCallUpdate(id, status=status), seconds)

    state.begin_turn([v1.TextContent("work")])
    call("1", "importer.py:40-80", 0.1, "completed", kind="read")
    call("2", "pytest -q", 3.4, "completed", kind="execute", raw_output={"exit_code": 1, "output": "1 failed\n"})
    call("3", "a very long title " * 12, 312.0, "failed", kind="fetch")
    call("4", "sleep", 1.0, "in_progress", kind="execute", raw_input={"command": "sleep 100"})
    watched.now = 2.5
    long = "".join(f"line {number}\n" for number in range(30))
    call("5", "ls", 0.2, "completed", kind="execute", content=[v1.Content(v1.TextContent(f"```\n{long}```"))])
    state.end_turn("cancelled")


def changes(state: SessionState, watched: WatchedSession) -> None:
    old = "import os\n\ndef load(path):\n    rows = read(path)\n    for i in range(n - 1):\n        out.append(i)\n"
    new = old.replace("range(n - 1)", "range(n)").replace("import os\n", "")
    content: list[v1.ToolCallContent] = [
        v1.Diff("src/importer.py", new, old_text=old),
        v1.Diff("new.txt", "one\n\ttab\nhidden \u202e mark\n"),
        v1.Diff("long.txt", "".join(f"{number}\n" for number in range(43)), old_text=""),
    ]
    fold(state, v1.ToolCall("1", "Edit three files", kind="edit", status="completed", content=content))


def terminals(state: SessionState, watched: WatchedSession) -> None:
    output = (
        "collecting 1\rcollecting 2\rcollected 3\x1b[K\n\x1b[1;32mok\x1b[0m plain \x1b[38;5;208morange\x1b[39m\n"
        "see \x1b]8;;https://evil.example/\x07https://good.example/\x1b]8;;\x07\nab\x08c\x1b]0;title\x07\x1b[?25l\n"
    )
    fold(state, v1.ToolCall("1", "pytest", kind="execute", status="completed", content=[v1.Terminal("t")]))
    ended = {"terminal_id": "t", "exit_code": 2, "signal": None}
    meta = {"terminal_output": {"terminal_id": "t", "data": output}, "terminal_exit": ended}
    watched.note(v1.ToolCallUpdate("1", meta=meta), 0.0)
    watched.note(v1.ToolCallUpdate("1", status="completed"), 0.5)


def others(state: SessionState, watched: WatchedSession) -> None:
    steps = [("read", "completed"), ("run the tests", "in_progress"), ("summary", "pending")]
    fold(state, v1.Plan([v1.PlanEntry(text, "medium", status) for text, status in steps]))
    fold(state, v1.Notice("warning", "Low on credit", description="Two requests are left."))
    fold(state, v1.Notice("error", "The model does not answer"))
    fold(state, v1.CompactionUpdate("c", "completed"))
    fold(state, v1.SubagentUpdate("child", title="Look for callers", description="in all packages"))
    fold(state, Unknown("brand_new", {"sessionUpdate": "brand_new"}))


def subagents(state: SessionState, watched: WatchedSession) -> None:
    def call(id: str, title: str, parent: str | None) -> None:
        meta = {"claudeCode": {"parentToolUseId": parent}} if parent else {"claudeCode": {"toolName": "Task"}}
        update = v1.ToolCall(id, title, kind="search", status="completed", meta=meta)
        fold(state, update)
        watched.note(update, 0.0)

    call("task", "Find the callers", None)
    call("a", "grep load", "task")
    call("b", "grep deeper", "a")
    call("next", "Another call", None)


CASES: dict[str, Callable[[SessionState, WatchedSession], None]] = {
    each.__name__: each for each in (markdown, messages, tools, changes, terminals, others, subagents)
}


def grid(name: str) -> str:
    """The file of a case."""
    state, watched = SessionState(), WatchedSession()
    CASES[name](state, watched)
    blocks = blocks_of(state, watched=watched)
    parts, styles = list[str](), list[str]()
    for width in (80, 160):
        for word, glyphs in (("Unicode", UNICODE), ("ASCII", ASCII)):
            parts.append(f"== {width} columns, {word} ==")
            view = RailView(width, glyphs)
            lines = [line for block in blocks for line in rail_lines(block, view)]
            parts += ["".join(text for text, _ in line).rstrip() for line in lines]
            if not styles:
                styles = [each for number, line in enumerate(lines, 1) for each in _styles(number, line)]
    return "\n".join([*parts, "== styles of the first grid ==", *styles, ""])


def _styles(number: int, line: tuple[tuple[str, str], ...]) -> list[str]:
    found, at = [], 0
    for text, style in line:
        if style and text:
            found.append(f"{number}: {at}-{at + len(text)} {style}")
        at += len(text)
    return found


def glyphs_of(glyphs: Glyphs) -> set[str]:
    """The letters that a view draws by itself."""
    return set("".join(glyphs))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.view.golden_grids --write")
    for case in CASES:
        (FOLDER / f"{case}.txt").write_text(grid(case), encoding="utf-8")
