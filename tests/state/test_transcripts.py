"""Recordings of real agents fold without an exception, and none of their text is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema
from dragoman.schema import v1
from dragoman.state import SessionState, ToolCallState, fold

# They are too large for the project and lie beside it, or where this variable says.
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "transcripts"
RECORDINGS = Path(os.environ.get("DRAGOMAN_TRANSCRIPTS", BESIDE))
FILES = sorted(RECORDINGS.glob("*.jsonl"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {RECORDINGS}")


def messages(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if isinstance(row.get("msg"), dict):
            yield {"dir": row["dir"], **row["msg"]}


class Replay:
    """The sessions of one recording, folded the way a client would."""

    def __init__(self, path: Path) -> None:
        self.states: dict[str, SessionState] = {}
        self.characters: dict[str, int] = {}
        self.updates = 0
        prompts: dict[Any, str] = {}
        for message in messages(path):
            params = message.get("params")
            if "method" not in message:
                if message["dir"] == "a2c" and message.get("id") in prompts:
                    self.end(self.states[prompts.pop(message["id"])], message.get("result"))
            elif isinstance(params, dict) and isinstance(params.get("sessionId"), str):
                state = self.states.setdefault(params["sessionId"], SessionState())
                if message["method"] == "session/prompt" and not state.is_running:
                    prompts[message["id"]] = params["sessionId"]
                    state.begin_turn([])
                else:
                    self.take(state, message["method"], params)

    def take(self, state: SessionState, method: str, params: dict[str, Any]) -> None:
        if method == "session/update":
            self.fold(params["sessionId"], params["update"])
        elif method == "session/request_permission":
            state.note_permission(read(v1.ToolCallPatch, params["toolCall"]))
        elif method == "session/cancel":
            state.cancel_turn()

    def fold(self, session: str, raw: dict[str, Any]) -> None:
        update: v1.SessionUpdate = read(v1.SessionNotification, {"sessionId": session, "update": raw}).update
        assert fold(self.states[session], update) is self.states[session]
        self.updates += 1
        if isinstance(update, v1.ContentChunk) and isinstance(update.content, v1.TextContent):
            self.characters[session] = self.characters.get(session, 0) + len(update.content.text)

    def end(self, state: SessionState, result: dict[str, Any] | None) -> None:
        if result is None:
            state.end_turn(None)
        else:
            answer = read(v1.PromptResponse, result)
            state.end_turn(answer.stop_reason, answer.usage)


def read(kind: type[Any], raw: object) -> Any:
    return schema.decode(kind, json.dumps(raw).encode())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_recorded_session_folds(path: Path) -> None:
    replay = Replay(path)
    for session, state in replay.states.items():
        assert sum(len(message.text) for message in state.messages) == replay.characters.get(session, 0)
        assert not state.unknown
        for turn in state.turns:
            assert turn.text == "".join(
                message.text for message in state.messages if message.turn == turn.index and message.role == "agent"
            )
        for call in state.tool_calls.values():
            assert state.timeline[call.position] is call


def test_the_recordings_hold_something_to_fold() -> None:
    assert sum(Replay(path).updates for path in FILES) > 1_000


def state_of_first_session(name: str) -> SessionState:
    path = RECORDINGS / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"no recording {path}")
    return next(iter(Replay(path).states.values()))


def test_an_agent_that_gives_thought_and_answer_one_id_has_two_messages() -> None:
    thinking = state_of_first_session("claude22").thoughts[0]
    same = [one for one in state_of_first_session("claude22").messages if one.message_id == thinking.message_id]
    assert [one.role for one in same] == ["thought", "agent"]


def test_an_agent_that_reuses_its_tool_call_ids_has_its_calls_in_every_turn() -> None:
    state = state_of_first_session("ts-sdk-example")
    turns = {item.turn for item in state.timeline if isinstance(item, ToolCallState)}
    assert len(turns) > 1


def test_an_agent_that_announces_a_tool_only_in_its_permission_request_has_a_title_for_it() -> None:
    state = state_of_first_session("gemini")
    assert all(call.title for call in state.tool_calls.values())
