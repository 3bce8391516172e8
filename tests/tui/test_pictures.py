"""The screens that the documentation shows as pictures, which `tools.screenshots` draws from their text grids."""

from __future__ import annotations

import pytest

pytest.importorskip("textual")

from dragoman.schema import v1
from dragoman.state import fold
from tests.tui.grids import check_grid
from tests.tui.opened import opened, painted
from tests.tui.test_questions import Clock, detailed

ANSWER = "The loop ends one row early: `range(n - 1)`. I will change it and run the tests."


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_a_conversation_and_a_question_in_it(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with opened(monkeypatch, size) as (app, pilot):
        state = app.conversation.state
        state.begin_turn([v1.TextContent("why does the importer drop the last row?")])
        for update in (
            v1.AgentThoughtChunk(v1.TextContent("The last index is not reached.")),
            v1.AgentMessageChunk(v1.TextContent(ANSWER)),
            v1.ToolCall(
                "1",
                "importer.py",
                kind="edit",
                status="completed",
                content=[
                    v1.Diff(
                        "/home/user/project/importer.py",
                        "rows = read(path)\nfor i in range(n):\n    out.append(rows[i])\n",
                        old_text="rows = read(path)\nfor i in range(n - 1):\n    out.append(rows[i])\n",
                    )
                ],
            ),
            v1.ToolCall("2", "pytest -q tests/test_importer.py", kind="execute", status="completed"),
        ):
            fold(state, update)
        state.end_turn("end_turn")
        app.query_one("PromptInput").focus()
        await painted(app, pilot)
        check_grid("conversation", app)
        asked, clock = detailed(), Clock(app)
        app.conversation.questions.append(asked)
        app.asked(asked)
        await painted(app, pilot)
        clock.now += 1  # from now on keys count, and the card says which
        await painted(app, pilot)
        check_grid("permission", app)
