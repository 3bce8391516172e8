"""What a stream tells: texts, thoughts, calls with their statuses, how the turn ended. Every update is valid."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from dragoman.adapters.tools import decorated
from dragoman.uistream import chunks as c
from dragoman.uistream.updates import Projector
from tests.builtin.streams import on_wire


class Story(Struct):
    text: str = ""
    thoughts: str = ""
    calls: dict[str, tuple[str, Any, list[str]]] = field(default_factory=dict)
    """Title, input and statuses of each call, by id."""
    plan: list[tuple[str, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    """Calls that wait for an answer at the end."""
    stop_reason: str | None = None
    error: str | None = None

    @property
    def outcomes(self) -> dict[str, str]:
        """The last status of each call."""
        return {call: statuses[-1] for call, (_, _, statuses) in self.calls.items()}


def story_of(chunks: Iterable[c.Chunk], projector: Projector | None = None) -> Story:
    projector = projector or Projector()
    updates = on_wire([update for chunk in chunks for update in projector.project(decorated(chunk))])
    story = Story(stop_reason=projector.stop_reason, error=projector.error)
    for update in updates:
        match update:
            case {"sessionUpdate": "agent_message_chunk", "content": {"text": text}}:
                story.text += text
            case {"sessionUpdate": "agent_thought_chunk", "content": {"text": text}}:
                story.thoughts += text
            case {"sessionUpdate": "plan", "entries": entries}:
                story.plan = [(entry["content"], entry["status"]) for entry in entries]
            case {"sessionUpdate": "tool_call" | "tool_call_update", "toolCallId": call}:
                title, given, statuses = story.calls.get(call, ("", None, []))
                if "status" in update:
                    statuses.append(update["status"])
                story.calls[call] = (update.get("title", title), update.get("rawInput", given), statuses)
    story.questions = [question.tool_call_id for question in projector.open_questions]
    return story
