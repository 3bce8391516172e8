"""Runs `dragoman exec` with an agent that plays the steps of a test (`step_agent.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.exec_kit import Done, Place

STEP_AGENT = Path(__file__).parent / "step_agent.py"


def script(place: Place, *tries: list[Any], **more: Any) -> str:
    """Write a script for the agent of this place, and return its path."""
    place.agent = STEP_AGENT
    path = place.project.parent / "script.json"
    path.write_text(json.dumps({"tries": tries, **more}))
    return str(path)


def play(place: Place, steps: list[Any], *words: str, **more: Any) -> Done:
    """Run one prompt with an agent that plays these steps."""
    return place.run("x", *words, odd=script(place, steps, **more))


def tries(place: Place) -> int:
    """Return how many processes of the agent were started."""
    return len((place.project.parent / "script.json.count").read_text())


def tool(id: str = "t", *, new: bool = True, **members: Any) -> list[Any]:
    """Return the step of a tool call or of its change."""
    kind = "tool_call" if new else "tool_call_update"
    return ["update", {"sessionUpdate": kind, "toolCallId": id, **({"title": id} if new else {}), **members}]
