"""A conversation with everything that blocks show."""

from __future__ import annotations

from dragoman.schema import Unknown, v1
from dragoman.state import SessionState, fold
from dragoman.view import ShownTerminal

TERMINALS = {"term": ShownTerminal("term", "npm test", "1 passed\n1 failed\n", exit_code=1)}
ANSWER = """\
I **fixed** it in `a.py`:

- one
- two

```python
print("```")
```

See [the docs](https://example.org/a?b=1) or [a script](javascript:alert(1)).
"""


def conversation(text: str = ANSWER, prompt: str = "Fix <this>") -> SessionState:
    state = SessionState()
    state.begin_turn(
        [v1.TextContent(prompt), v1.ImageContent("AAAA", "image/png"), v1.ResourceLink("a.py", "file:///a")]
    )
    steps = [v1.PlanEntry("Look", "high", "completed"), v1.PlanEntry("Fix", "low", "in_progress")]
    updates: list[v1.SessionUpdate] = [
        v1.AgentThoughtChunk(v1.TextContent("Let me look.")),
        v1.Plan(steps),
        v1.ToolCall(
            "t1",
            "Edit a.py",
            kind="edit",
            status="completed",
            content=[v1.Diff("/p/a.py", "one\nthree\n", old_text="one\ntwo\n")],
            locations=[v1.ToolCallLocation("/p/a.py", line=2)],
        ),
        v1.ToolCall(
            "t2",
            "Run the tests",
            kind="execute",
            status="completed",
            raw_input={"command": ["npm", "test"]},
            content=[v1.Terminal("term")],
        ),
        v1.ToolCall("t3", "Search", kind="search", status="completed", raw_output={"output": "found it\n"}),
        v1.Notice("warning", "Low on credit"),
        Unknown("brand_new", {"sessionUpdate": "brand_new"}),
        v1.AgentMessageChunk(v1.TextContent(text)),
    ]
    for update in updates:
        fold(state, update)
    state.end_turn("end_turn", v1.Usage(1200, 1000, 200))
    return state
